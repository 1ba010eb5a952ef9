"""The command ``direag export``: write a fit as the JSON file with which a service predicts."""

from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands.options import FitFile, check_file, out, progress


def export_command(
    fit: FitFile,
    target: Annotated[Path, typer.Option("--out", help="Where to write the predictor, a JSON file.")],
) -> None:
    """Write a predictor for a service that has NumPy and no JAX: docs/serve.md.

    Example: direag export fit.nc --out predictor.json
    """
    check_file(target, fit)
    with progress() as step:
        step(f"reading {fit}")
        from bayes_direag.fits.fit import Fit

        learned = Fit.load(fit)
        learned.export(target)
    out.print(f"{target}: {learned!r}, all draws, {target.stat().st_size / 2**10:,.0f} KiB.", soft_wrap=True)
