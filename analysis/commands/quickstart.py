"""The command ``direag quickstart``: the main job on the bundled example."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from analysis.commands.evaluate import show_evaluation
from bayes_direag.commands.options import out, progress, require_parent
from bayes_direag.errors import DirEAGError

#: Of each example, what it is, and how many of its questions teach; None is all.
_EXAMPLES = {
    "panel": (
        "Ten models answered 300 questions of MMLU-Pro, and said in three ways how sure they are. DirEAG learned from "
        "40 right answers, and answered the other 260:",
        40,
    ),
    "steered": (
        "A model of 1.5 billion parameters answered 300 word problems in five tones. Each is predicted by a fit that "
        "has not seen its right answer:",
        None,
    ),
}


def quickstart_command(
    target: Annotated[Path, typer.Option("--out", help="Folder for what it makes.")] = Path("direag-quickstart"),
    example: Annotated[
        Literal["panel", "steered"],
        typer.Option(help="Ten models; or one model in five tones, as in the paper."),
    ] = "panel",
) -> None:
    """Do the main job on the bundled example: fit, predict, evaluate, show the results, write the report.

    The example is real: ten models on 300 questions of MMLU-Pro, 40 of them labelled for the fit.

    Example: direag quickstart --out direag-quickstart
    """
    from analysis.evaluation import EVALUATION_FOLDER, REPORT, Evaluation, evaluate
    from analysis.report import write_report
    from bayes_direag.data.files import write_table
    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.making import fit_map
    from bayes_direag.fits.sources import example_observations

    require_parent(target)
    (story, n_labelled), questions, results = _EXAMPLES[example], example_observations(example), target / "evaluation"
    parts = {target / "labelled.csv": questions.select(slice(n_labelled))}
    if n_labelled is not None:
        parts[target / "new.csv"] = questions.select(slice(n_labelled, None))
    ours = all(
        path.is_file() and Observations.read(path).fingerprint == part.fingerprint for path, part in parts.items()
    )
    if target.exists() and not ours and not (target.is_dir() and not any(target.iterdir())):
        seen = "other files there" if target.is_dir() else "a file"
        raise DirEAGError(f"--out {target}: saw {seen}; expected a new or empty folder. Choose another name.")
    target.mkdir(exist_ok=True)
    EVALUATION_FOLDER.check(results)
    for path, part in parts.items():
        rows = part.to_frame().drop(columns="level").rename(columns={"level_name": "level"})
        rows.dropna(axis=1, how="all").to_csv(path, index=False, float_format="%g")
    labelled, asked = (Observations.read(path) for path in (next(iter(parts)), [*parts][-1]))
    test = f" --test {path.name}" if len(parts) > 1 else ""
    typed = f"direag evaluate labelled.csv{test} --out evaluation"
    with progress() as step:
        evaluation = evaluate(labelled, asked if test else None, on_step=step)
        evaluation.write(results, typed)
        evaluation = Evaluation.read(results, path)
        step("fitting")
        final = fit_map(labelled)
        final.save(target / "fit.nc")
        write_table(final.predict(asked, warn=False), target / "predictions.csv")
        write_report(evaluation, target / REPORT, final, str(target / "fit.nc"), step)
    out.print(f"{story}\n")
    show_evaluation(evaluation, results)
    out.print(
        f"""
Do the same with your own questions in place of these:
  cd {target}
  direag fit labelled.csv --out fit.nc
  direag predict fit.nc {path.name} --out predictions.csv
  {typed}

All of it on one page, to open in a browser: {target / REPORT}""",
        soft_wrap=True,
    )
