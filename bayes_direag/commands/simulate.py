"""The command ``direag simulate``: observations drawn from the model itself."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands.options import SeedOption, check_file, out, progress


def simulate_command(
    target: Annotated[Path, typer.Option("--out", help="Where to write: .jsonl, .parquet or .csv.")],
    n: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 500,
    seed: SeedOption = 0,
) -> None:
    """Draw observations from the model, with known parameters. Each record is marked as simulated.

    Example: direag simulate --n 500 --seed 1 --out simulated.jsonl
    """
    check_file(target)
    with progress() as step:
        step("drawing")
        from bayes_direag.model.simulate import simulate_observations

        questions = simulate_observations(n, seed=seed)
        questions.write(target)
    out.print(f"{target}: {n} simulated questions, {questions.n_levels} levels.", soft_wrap=True)
