"""The command ``direag quickstart``: the main job on the bundled example."""

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.evaluate import show_evaluation
from bayes_direag.commands.options import out, progress, require_parent
from bayes_direag.errors import DirEAGError


def quickstart_command(
    target: Annotated[Path, typer.Option("--out", help="Folder for what it makes.")] = Path("direag-quickstart"),
) -> None:
    """Do the main job on the bundled example: evaluate, fit, predict, show the results, write the report.

    The example is real: 300 word problems, each asked five times of a model of 1.5 billion parameters.

    Example: direag quickstart --out direag-quickstart
    """
    from analysis.evaluation import EVALUATION_FOLDER, REPORT, Evaluation, evaluate
    from analysis.report import write_report
    from bayes_direag.data.files import write_table
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.making import fit_map
    from bayes_direag.fits.sources import example_observations

    require_parent(target)
    results, asked, questions = target / "evaluation", target / "observations.jsonl", example_observations()
    if target.exists() and not target.is_dir():
        raise DirEAGError(f"--out {target}: saw a file; expected a new or empty folder. Choose another name.")
    ours = asked.is_file() and Observations.read(asked).fingerprint == questions.fingerprint
    if target.is_dir() and any(target.iterdir()) and not ours:
        raise DirEAGError(f"--out {target}: saw other files there; expected a new or empty folder. Choose another.")
    target.mkdir(exist_ok=True)
    EVALUATION_FOLDER.check(results)
    questions.write(asked)
    with progress() as step:
        evaluation = evaluate(questions, on_step=step)
        evaluation.write(results, "direag evaluate observations.jsonl --out evaluation")
        evaluation = Evaluation.read(results, asked)
        step("fitting to all questions")
        final = fit_map(questions)
        final.save(target / "fit.nc")
        write_table(final.predict(questions, warn=False), target / "predictions.csv")
        write_report(evaluation, target / REPORT, final, str(target / "fit.nc"), step)
    show_evaluation(evaluation, results)
    out.print(
        f"""
Do the same with your own file in place of observations.jsonl:
  cd {target}
  direag evaluate observations.jsonl --out evaluation
  direag fit observations.jsonl --out fit.nc
  direag predict fit.nc observations.jsonl --out predictions.csv

All of it on one page, to open in a browser: {target / REPORT}""",
        soft_wrap=True,
    )
