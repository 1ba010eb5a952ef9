"""The command ``direag predict``: a table of predictions from a fit and a file of observations."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bayes_direag.commands import options
from bayes_direag.errors import DirEAGError, FewReportsWarning

if TYPE_CHECKING:
    from bayes_direag.decisions.abstention import Abstention
    from bayes_direag.fits.fit import Fit
    from bayes_direag.fits.streaming import Predicted


def predict_command(
    fit: options.FitFile,
    observations: options.ObservationsFile,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to write the table: .parquet, .csv or .jsonl.  [the name of OBS, with -predictions.csv]",
            show_default=False,
        ),
    ] = None,
    interval_level: Annotated[
        float, typer.Option("--interval", help="Probability of the intervals of a NUTS fit.")
    ] = 0.9,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    same: options.SameOption = None,
    preset: options.ProgramOption = None,
    new_levels: Annotated[
        bool,
        typer.Option("--new-levels", help="Let levels of OBS that the fit has not join it, by how often they agree."),
    ] = False,
    save_joined: Annotated[
        Path | None,
        typer.Option(metavar="FIT", help="Where to write the fit with the new levels, which implies --new-levels."),
    ] = None,
    candidates: Annotated[
        bool,
        typer.Option("--candidates", help="Write a row for every candidate, and one for none of them being right."),
    ] = False,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            metavar="ENGINE",
            help="local, or ray: a cluster that Ray finds or starts maps a folder of Parquet files to another folder.",
        ),
    ] = "local",
    target_accuracy: Annotated[
        float | None,
        typer.Option(
            "--target-accuracy",
            help="Answer only the most probable questions, so that at least this share of the answers is right.",
        ),
    ] = None,
    assurance: Annotated[float, typer.Option(help="Probability of reaching that share.")] = 0.9,
    labelled: Annotated[
        Path | None,
        typer.Option(
            metavar="OBS",
            help="Labelled questions that the fit has not seen, for the threshold. By default those fitted to.",
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Select an answer for every question, with its calibrated probability of being right.

    Gold answers are not used. The table has a row for every question, in the order of the file, with the file's own
    column of their names. A NUTS fit adds an interval for the probability, and the probability that another answer
    would be selected. Probabilities of questions that lack reports are those of labelled questions with
    just the same reports.

    With --candidates the probabilities of a question sum to one, and the selected answer is the most probable
    candidate.

    Parquet with one row a question, a file or a folder of them, may have any size: it is read in batches. With --engine
    ray a cluster reads it, and --out is a new folder.

    At the end stands about how many of the answers to new questions are right. Of more than 10,000 questions, 10,000 at
    random say so: docs/estimate.md.

    What --new-levels takes levels for: docs/new-levels.md. With --target-accuracy the table has a column "answered";
    the guarantee holds for questions of the same kind as the labelled ones: docs/abstention.md.

    Example: direag predict fit.nc new.jsonl --out predictions.csv
    """
    target = target or options.beside(observations, "-predictions" + ".csv" * (engine == "local"))
    options.check_file(target, fit, observations)
    if save_joined is not None:
        options.check_file(save_joined, fit, observations, option="--save-joined")
    if _is_netcdf(observations) and not _is_netcdf(fit):
        raise DirEAGError(f"saw the fit {observations} in the second place; expected FIT, then OBS. Exchange them.")
    if target_accuracy is None and labelled is not None:
        raise DirEAGError("--labelled is for --target-accuracy; saw no target. Give one, such as 0.95.")
    if candidates and target_accuracy is not None:
        raise DirEAGError("--candidates writes another table than --target-accuracy. Leave one of them out.")
    if engine == "ray":
        if target_accuracy is not None or any(
            (candidates, column, scale, groups, same, preset, new_levels, save_joined)
        ):
            raise DirEAGError(
                "--engine ray writes predictions of presets alone, of files in our own form. Leave out --candidates, "
                "--target-accuracy, --column, --scale, --groups, --same, --preset, --new-levels and --save-joined."
            )
        _predict_on_ray(fit, observations, target, interval_level)
        return
    from bayes_direag.data.files import check_table_path, write_table
    from bayes_direag.decisions.abstention import abstention
    from bayes_direag.fits.streaming import Predicted, predict_file

    check_table_path(target)
    learned, decided = options.load_fit(fit, preset, options.chosen_same(same)), None
    about_levels: list[tuple[str, dict[str, object]]] = []
    columns = options.chosen_columns(column, scale, groups, learned.columns)
    with options.progress() as step:
        if new_levels or save_joined:
            known_levels, learned = learned.level_names, learned.with_levels(learned.read(observations, columns))
            if learned.level_names == known_levels:
                about_levels.append((f"No level of {observations.name} is new to the fit.", {}))
        if save_joined:
            learned.save(save_joined)
        if target_accuracy is None and not candidates:
            predicted = predict_file(
                learned, observations, target, columns, interval_level=interval_level, on_step=step
            )
        else:
            questions = learned.read(observations, columns)
            predicted = Predicted(questions.usable.sum(axis=1), questions)
            step(f"predicting {len(questions)} questions")
            if target_accuracy is None:
                table = learned.predict_candidates(questions, interval_level=interval_level)
            else:
                known = labelled and learned.read(labelled, columns)
                shares = {"target_accuracy": target_accuracy, "assurance": assurance}
                with warnings.catch_warnings(action="ignore", category=FewReportsWarning):  # the command says it itself
                    decided = abstention(learned, questions, known, **shares, interval_level=interval_level)
                table = decided.table
            write_table(table, target)
        said = [*_said(learned, target, predicted, decided, interval_level), *about_levels]
        if save_joined:
            first, facts = said[0]
            said[0] = f"{first}\n{save_joined}: the fit with the new levels.", facts | {"joined_fit": str(save_joined)}
    if as_json:
        options.out.print_json(data={name: value for _, facts in said for name, value in facts.items()})
    else:
        (first, _), *others = said
        options.out.print(first, soft_wrap=True)
        options.out.print(*(sentence for sentence, _ in others), sep="\n")


def _said(
    fit: "Fit", target: Path, predicted: "Predicted", decided: "Abstention | None", interval_level: float
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield what there is to say of predictions: each sentence with its facts."""
    from bayes_direag.decisions.estimate import estimate
    from bayes_direag.fits.new_levels import joined_text

    n_reports, sample = predicted
    n, unanswered = len(n_reports), int((n_reports == 0).sum())
    first = f"{target}: {n} questions, {unanswered} of them unanswered."
    facts: dict[str, object] = {"out": str(target), "n": n, "unanswered": unanswered}
    if fit.n_samples > 1:
        first += f" Intervals have probability {interval_level:g}, over {fit.n_samples} draws."
        facts |= {"draws": fit.n_samples, "interval_level": interval_level}
    yield first, facts
    if not fit.new_levels.empty:
        yield joined_text(fit.tree), {"new_levels": fit.new_levels.to_dict("records")}
    if decided is not None:
        uncovered = " It does not cover the new levels, which no labelled question has."
        is_covered = not decided.is_approximate or fit.new_levels.empty
        yield decided.text() + ("" if is_covered else uncovered), {"abstention": decided.record()}
    if remarks := fit.remarks(fit.aligned(sample)):
        yield "\n".join(remarks), {"remarks": remarks}
    try:
        estimated = estimate(fit, sample, interval_level=interval_level)
    except DirEAGError as error:  # predictions need no estimate
        yield f"How many are right cannot be estimated: {error}", {}
    else:
        drawn = f"From {len(sample):,} of them, drawn at random: " if n > len(sample) else ""
        yield f"{drawn}{estimated.text()}", {"estimate": estimated.record()}


def _predict_on_ray(fit: Path, source: Path, target: Path, interval_level: float) -> None:
    from functools import partial

    from bayes_direag.fits.streaming import predict_on_ray

    if target.exists():
        raise DirEAGError(f"--out {target}: saw something there; expected the name of a new folder.")
    with options.progress() as step:
        step(f"predicting {source} on Ray")
        predict_on_ray(
            partial(options.load_fit(fit, None).predict_batch, interval_level=interval_level), source, target
        )
    options.out.print(f"{target}: written by Ray.", soft_wrap=True)


def _is_netcdf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x89HDF"
