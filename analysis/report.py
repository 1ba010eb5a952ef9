"""The report of an evaluation: fixed sentences with its figures, tables and pictures, in five sections."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from analysis.diagnosis import Diagnosis, diagnose
from analysis.display.document import (
    Block,
    Cell,
    Column,
    Document,
    LeftOut,
    Paragraph,
    Picture,
    Record,
    Section,
    Statements,
    Table,
    Terms,
)
from analysis.display.glossary import FIRST_METRICS, METRIC_WORDS
from analysis.display.page import write_page
from analysis.display.text import counted, difference_in_words, interval, number, percent, shortened
from analysis.evaluation import MANIFEST, Evaluation
from analysis.learned import convergence_block, fit_pictures, fit_terms, learned_blocks
from analysis.methods.direag import FITTED_METHODS, SHARED_AGREEMENT
from analysis.methods.registry import method_words, spoken
from analysis.pictures import benefit_picture, reliability_picture, risk_coverage_picture
from bayes_direag.data.labelling import answers_as_given
from bayes_direag.data.records import Question
from bayes_direag.fits.convergence import convergence_summary
from bayes_direag.fits.fit import Fit

type OnStep = Callable[[str], None]
type Show = Callable[[Record], Cell | str]

#: The probability from which answers are accepted without a check.
_ACCEPTED = 0.9
#: How many of the surest wrong and of the least sure answers are listed, and the length at which texts are cut.
_LISTED, _TEXT_LENGTH = 10, 240
#: How many methods are on the first screen, and which always: besides the report's own and the best calibrated one.
_FIRST_METHODS, _ALWAYS = 5, ("majority", "majority_platt")

_HELD_OUT = (
    "Each question was asked in several ways, called levels: prompts, samples or models. No question was predicted by "
    "anything that had seen its right answer. Questions without a known right answer are not scored."
)
_LIMITS = (
    (
        "other questions",
        "The figures hold for new questions that are like these, put to the same model in the same way. Another "
        "subject, model or prompt calls for labelled questions of its own.",
    ),
    (
        "no answer",
        "Of a question without an answer the benefit is 0 and the accuracy is 0; the other metrics leave it out.",
    ),
    ("wrong labels", "A wrong right answer in the file counts as an error of the model, or hides one."),
    (
        "another run",
        "Intervals are over the questions, with replies and fits as they are: another run of the model or another fit "
        "would differ more.",
    ),
    ("one answer", "Of many answers that are given 80%, a fifth is wrong; which ones is not said."),
)


def report_document(
    evaluation: Evaluation, fit: Fit | None = None, fit_name: str = "FIT", on_step: OnStep = lambda _: None
) -> Document:
    """Put a report together, of an evaluation and perhaps a fit."""
    diagnosis = None
    if fit is not None and fit.method == "nuts":
        on_step("checking the fit")
        diagnosis = diagnose(fit)
    care = [*cautions(evaluation), *_fit_caution(fit, fit_name, diagnosis)]
    on_step("drawing the evaluation")
    sections = (
        Section("answer", "The answer", tuple(_answer_blocks(evaluation, care))),
        Section("questions", "Questions to look at", tuple(_question_blocks(evaluation))),
        Section("methods", "Methods and metrics", tuple(_method_blocks(evaluation))),
        Section("fits", "Fits: what was learned?", tuple(_fit_blocks(evaluation, fit, fit_name, diagnosis, on_step))),
        Section("settings", "Settings, versions, data, limits", tuple(_setting_blocks(evaluation))),
    )
    return Document(title(evaluation), evaluation.name, f"{evaluation.design}; {evaluation.how}", sections)


def write_report(
    evaluation: Evaluation,
    path: str | Path,
    fit: Fit | None = None,
    fit_name: str = "FIT",
    on_step: OnStep = lambda _: None,
) -> None:
    """Write the report of an evaluation, and perhaps a fit, as one HTML file."""
    on_step("comparing methods")
    document = report_document(evaluation, fit, fit_name, on_step)
    on_step("writing")
    write_page(document, path)


def with_parts(folder: Path, fit: Path | None, observations: Path | None) -> tuple[Path, Path | None, Path | None]:
    """Return the folder of an evaluation, a fit and observations; those of ``direag quickstart`` are found."""
    inner = folder / "evaluation"
    if (folder / MANIFEST).is_file() or not (inner / MANIFEST).is_file():
        return folder, fit, observations
    evaluated = folder / Evaluation.read(inner).of.file
    known, asked = (path if path.is_file() else None for path in (folder / "fit.nc", evaluated))
    return inner, fit or known, observations or asked


def title(evaluation: Evaluation) -> str:
    """Return how often the answers are right, in one line."""
    name, level = spoken(evaluation.method), percent(evaluation.settings.interval_level, 0)
    (row,) = evaluation.metrics[evaluation.metrics["method"] == evaluation.method].to_dict("records")
    if not evaluation.calibration.n:
        return f"{name} has answered none of the labelled questions"
    right, low, high = (percent(row[f"accuracy{end}"]) for end in ("", "_low", "_high"))
    return f"{right} of the answers of {name} are right [{level}: {low} to {high}]"


def sentences(evaluation: Evaluation) -> Iterator[str]:
    """Yield what follows: calibration, which answers to accept, and the gain over other methods."""
    name, level = spoken(evaluation.method), evaluation.settings.interval_level
    if not evaluation.calibration.n:
        return
    yield from _vote_beside(evaluation)
    yield from _of_random_ones(evaluation)
    yield evaluation.calibration.sentence()
    if evaluation.answered.confidence.max() < _ACCEPTED:
        yield f"Check every answer: none has a probability of {percent(_ACCEPTED, 0)} or more."
    else:
        accepted = useful_thresholds(evaluation).query("threshold <= @_ACCEPTED").iloc[-1]
        yield (
            f"Accept answers of {percent(accepted['threshold'], 0)} or more, {percent(accepted['share'], 0)} of the "
            f"questions: {percent(accepted['right'])} of these are right [{percent(level, 0)}: "
            f"{percent(accepted['low'])} to {percent(accepted['high'])}]."
        )
    rows = {(row["method"], row["metric"]): row for row in evaluation.differences.to_dict("records")}
    row = rows.get((evaluation.rival, "benefit"))
    if row is None:
        yield "No other method was evaluated on the same questions."
        return
    verdict = difference_in_words(name, row["difference"], row["low"], row["high"], n=row["n"], level=level)
    yield (
        f"Benefit (accuracy minus Brier score; 1 is perfect, 0 is never answering): {number(row['second'])}, and "
        f"{number(row['first'])} of the strongest rival, {spoken(evaluation.rival)}. {verdict}"
    )


def _vote_beside(evaluation: Evaluation) -> Iterator[str]:
    """Say how often the answers of a plain vote are right, if that is clearly more or less often."""
    for row in evaluation.differences.query("method == 'majority' and metric == 'accuracy_of_all'").to_dict("records"):
        ends = sorted(100 * abs(row[end]) for end in ("low", "high"))
        if row["low"] > 0 or row["high"] < 0:
            yield (
                f"A plain vote is right on {percent(row['first'])}, {100 * abs(row['difference']):.1f} points "
                f"{'less' if row['low'] > 0 else 'more'} [{percent(evaluation.settings.interval_level, 0)}: "
                f"{ends[0]:.1f} to {ends[1]:.1f}]."
            )


def _of_random_ones(evaluation: Evaluation) -> Iterator[str]:
    """Say how many answers to the labelled questions that were chosen at random are right, if others were not."""
    answered = evaluation.method_predictions.dropna(subset=["probability", "correct", "at_random"])
    right = answered["correct"][answered["at_random"].astype(bool)]
    if 0 < len(right) < len(answered):
        level = evaluation.settings.interval_level
        low, high = binomtest(int(right.sum()), len(right)).proportion_ci(level, method="wilson")
        yield (
            f"Of the {len(right)} questions that were chosen at random, as new ones are, {percent(right.mean())} of "
            f"the answers are right [{percent(level, 0)}: {percent(low)} to {percent(high)}]. The others were chosen "
            "since their votes are close."
        )


def useful_thresholds(evaluation: Evaluation) -> pd.DataFrame:
    """Return the thresholds that an answer reaches, but those that answer less and err more than a lower one.

    The first, of all answers, stays.
    """
    table = evaluation.thresholds.dropna(subset="right")
    best_below = table["right"].mask(table["threshold"] == 0).cummax().shift()
    return table[~(table["right"] < best_below)]


def cautions(evaluation: Evaluation) -> Iterator[str]:
    """Warn of fits behind the evaluation that did not converge."""
    n_fits, n_converged = evaluation.convergence[["n_fits", "n_converged"]].sum()
    if n_converged < n_fits:
        yield (
            f"Take care: {n_fits - n_converged} of the {n_fits} fits behind these figures did not converge. See "
            "Fits before you believe them."
        )


def _fit_caution(fit: Fit | None, name: str, diagnosis: Diagnosis | None) -> Iterator[str]:
    if fit is not None and not (diagnosis.believable if diagnosis else convergence_summary(fit).converged):
        yield f"Take care: the fit {name} cannot be trusted. Fits says why and what to do."


def first_screen(evaluation: Evaluation) -> Iterator[Block]:
    """Yield the result in sentences, what to take care of, and the methods that this one has to be better than."""
    yield Paragraph(f"{title(evaluation)}.", "title")
    yield from _said(evaluation, cautions(evaluation))
    table = _first_methods(evaluation)
    yield table
    n_others = len(evaluation.metrics) - len(table.rows)
    more = f" {counted(n_others, 'other method')}: evaluate --all." if n_others else ""
    name = f"{evaluation.name}: " if evaluation.name else ""
    yield Paragraph(f"{name}{evaluation.design}; {evaluation.how}.{more}", "note")


def every_method(evaluation: Evaluation) -> Iterator[Block]:
    """Yield the result in sentences, which answers to accept, and every method."""
    yield Paragraph(f"{title(evaluation)}.", "title")
    yield from _said(evaluation, cautions(evaluation))
    if evaluation.calibration.n:
        yield _threshold_table(evaluation)
    yield from _method_tables(evaluation)


def _said(evaluation: Evaluation, care: Iterable[str]) -> Iterator[Block]:
    yield Statements(tuple(sentences(evaluation)))
    yield from (Paragraph(text, "failure") for text in care)


def _answer_blocks(evaluation: Evaluation, care: Iterable[str]) -> Iterator[Block]:
    yield from _said(evaluation, care)
    if evaluation.calibration.n:
        yield reliability_picture(evaluation)
        yield _threshold_table(evaluation)
    yield _first_methods(evaluation)
    rows = {
        "labelled": f"{int(evaluation.method_predictions['correct'].notna().sum()):,}",
        "answered": f"{evaluation.calibration.n:,} of these, by {spoken(evaluation.method)}",
        "levels": ", ".join(evaluation.of.levels),
    }
    yield Terms("What was evaluated", tuple(rows.items()))
    yield Paragraph(_HELD_OUT, "note")
    if evaluation.settings.n_folds is not None and evaluation.settings.preset.uses_agreement:
        yield Paragraph(SHARED_AGREEMENT, "note")


def _threshold_table(evaluation: Evaluation) -> Table:
    level = percent(evaluation.settings.interval_level, 0)
    return Table.of(
        "Which answers to accept",
        useful_thresholds(evaluation).to_dict("records"),
        {
            Column("probability", holds="name"): lambda row: (
                f"{percent(row['threshold'], 0)} or more" if row["threshold"] else "all"
            ),
            Column("of all questions"): lambda row: Cell(percent(row["share"], 0), f"{row['labelled']:,}"),
            Column("right", f"{level} interval"): lambda row: Cell(
                percent(row["right"]), f"{percent(row['low'], 0)} to {percent(row['high'], 0)}"
            ),
        },
        "A threshold that no answer reaches, or that answers less and errs more than a lower one, is left out. Each "
        "interval is for a threshold chosen beforehand. For a guarantee: `direag predict --target-accuracy`.",
    )


def _gains(evaluation: Evaluation) -> dict[str, Record]:
    rows = evaluation.differences.query("metric == 'benefit'")
    return {row["method"]: row for row in rows.to_dict("records")}


def _gain(difference: Record | None) -> Cell:
    if difference is None:
        return Cell("")
    low, high = difference["low"], difference["high"]
    marks = ("fine",) if low > 0 else ("failure",) if high < 0 else ()
    return Cell(number(difference["difference"], signed=True), interval(low, high, signed=True), marks)


def _gain_note(evaluation: Evaluation) -> str:
    level = percent(evaluation.settings.interval_level, 0)
    return (
        f"Ranked by benefit. Gain: the benefit of {spoken(evaluation.method)} minus the method's, on the same "
        f"questions, with its {level} interval; an interval that contains 0 shows no clear difference."
    )


def _first_methods(evaluation: Evaluation) -> Table:
    """Tabulate the report's method, the best calibrated simple one, votes, and the best others, by benefit."""
    ranked, method, gains = evaluation.ranked, evaluation.method, _gains(evaluation)
    always = ranked["method"].isin([method, evaluation.rival, *_ALWAYS])
    kept = ranked[always | ~ranked["method"].isin(FITTED_METHODS)].assign(always=always)
    first = kept.sort_values("always", ascending=False, kind="stable").head(_FIRST_METHODS).sort_index()

    columns: dict[Column, Show] = {
        Column("method", holds="key"): lambda row: row["method"],
        Column("gain in benefit"): lambda row: _gain(gains.get(row["method"])),
        Column("benefit"): lambda row: number(row["benefit"]),
        Column("accuracy"): lambda row: number(row["accuracy_of_all"]),
    }
    records, note = first.to_dict("records"), _gain_note(evaluation)
    return Table.of("Is it better than a simpler method?", records, columns, note, focus=method)


def _method_blocks(evaluation: Evaluation) -> Iterator[Block]:
    yield from _method_tables(evaluation)
    if evaluation.calibration.n:
        yield benefit_picture(evaluation)
        yield risk_coverage_picture(evaluation)


def _method_tables(evaluation: Evaluation) -> Iterator[Block]:
    """Tabulate every method, and say what the columns mean."""
    metrics, gains, shown = evaluation.ranked, _gains(evaluation), (*FIRST_METRICS, "brier")
    best = {name: metrics[name].round(3).agg("max" if METRIC_WORDS[name].more_is_better else "min") for name in shown}

    def estimate(name: str, row: Record) -> Cell:
        ends = interval(row[f"{name}_low"], row[f"{name}_high"])
        return Cell(number(row[name]), ends, ("best",) if round(row[name], 3) == best[name] else ())

    columns: dict[Column, Show] = {
        Column("method", holds="key"): lambda row: row["method"],
        Column("gain in benefit"): lambda row: _gain(gains.get(row["method"])),
    }
    for name in shown:
        better = "more is better" if METRIC_WORDS[name].more_is_better else "less is better"
        columns[Column(METRIC_WORDS[name].header, better)] = partial(estimate, name)
    columns[Column("answered")] = lambda row: f"{row['n']:,}"
    caption = "Every method on the same held-out questions"
    note = f"{_gain_note(evaluation)} Marked: the best of each column."
    yield Table.of(caption, metrics.to_dict("records"), columns, note, "metrics.csv, with more", evaluation.method)
    words = {name: method_words(name) for name in metrics["method"]}
    yield Terms("What the methods do", tuple(words.items()))
    yield Terms(
        "What the columns say", tuple((METRIC_WORDS[name].header, METRIC_WORDS[name].meaning) for name in shown)
    )


def _question_blocks(evaluation: Evaluation) -> Iterator[Block]:
    """List the surest wrong answers and the least sure ones."""
    rows = evaluation.method_predictions.dropna(subset="probability")
    wrong = rows[~rows["correct"].fillna(True).astype(bool)]
    text = (
        "Wrong labels, misread answers and kinds of question that the model cannot do show here first. These are the "
        "extremes, not a sample. Why a question got its answer: `direag explain FIT OBSERVATIONS PROBLEM_ID`."
    )
    if evaluation.observations is None:
        text += " Texts and right answers stand here with `direag report FOLDER --obs OBSERVATIONS`."
    yield Paragraph(text)
    surest = wrong.sort_values("probability", ascending=False, kind="stable")
    yield _question_table(evaluation, "Surest and wrong", surest.head(_LISTED))
    yield _question_table(evaluation, "Least sure", rows.sort_values("probability", kind="stable").head(_LISTED))


def _question_table(evaluation: Evaluation, caption: str, rows: pd.DataFrame) -> Table:
    observations, question = evaluation.observations, evaluation.of.question
    known = {} if observations is None else {name: row for row, name in enumerate(observations.problem_id)}
    verdicts = {True: "right", False: "wrong"}
    columns: dict[Column, Show] = {
        Column(question, holds="name"): lambda row: row[question],
        Column("probability"): lambda row: percent(row["probability"]),
        Column("answer", holds="name"): lambda row: Cell(
            _cut(row["answer"]), verdicts.get(row["correct"], "not labelled")
        ),
    }
    if observations is not None:
        given = answers_as_given(observations)

        def votes(row: Record) -> str:
            said = given[known[row[question]]].items()
            return ", ".join(f"{text}\N{NO-BREAK SPACE}({n})" for text, n in said)

        def asked(row: Record) -> Question:
            return observations.questions[known[row[question]]]

        columns[Column("right answer", holds="name")] = lambda row: _cut(asked(row).gold_answer)
        columns[Column("reports", holds="name")] = lambda row: _cut(votes(row))
        if any(observations.questions[known[name]].question for name in rows[question]):
            columns[Column("question", holds="prose")] = lambda row: _cut(asked(row).question)
    return Table.of(caption, rows.to_dict("records"), columns, source="predictions.csv")


def _cut(text: str | None) -> str:
    return shortened(text or "not stated", _TEXT_LENGTH)


def _fit_blocks(
    evaluation: Evaluation, fit: Fit | None, name: str, diagnosis: Diagnosis | None, on_step: OnStep
) -> Iterator[Block]:
    """Show the fits behind the evaluation and whether they can be believed; of a fit given, what it has learned."""
    yield Table.of(
        "The fits behind the held-out predictions",
        evaluation.convergence.to_dict("records"),
        {
            Column("evidence from", holds="name"): lambda row: str(row["variant"]),
            Column("converged", holds="name"): lambda row: Cell(
                f"{row['n_converged']} of {row['n_fits']}",
                marks=("fine",) if row["n_converged"] == row["n_fits"] else ("failure",),
            ),
            Column("the worst", holds="prose"): lambda row: row["worst"],
        },
        "" if len(evaluation.convergence) else "No rows: none of the methods is fitted.",
        f"`direag show {evaluation.folder or 'FOLDER'}/fits/NAME.nc --json`",
    )
    if "share" in {*evaluation.parameters["parameter"]}:  # no model of one's own without a weight for each level
        yield _share_table(evaluation)
    if fit is None:
        yield Paragraph(
            "`direag fit OBSERVATIONS --out fit.nc` fits to all questions, and `direag report FOLDER --fit fit.nc` "
            "shows it here.",
            "note",
        )
        return
    yield fit_terms(fit, name)
    if fit.fingerprint != evaluation.record.observations.learned_sha256:
        yield Paragraph("These are not the questions of the evaluation, or the answers to them differ.", "warning")
    yield from learned_blocks(fit)
    yield from _drawn(fit_pictures(fit, level=evaluation.settings.interval_level), on_step)
    if diagnosis is None:
        yield convergence_block(fit)
    else:
        yield from diagnosis.blocks()
        yield from _drawn(diagnosis.pictures(), on_step)


def _share_table(evaluation: Evaluation) -> Table:
    fitted, table = FITTED_METHODS.get(evaluation.method), evaluation.parameters
    shares = table[(table["variant"] == (fitted and fitted.learn.variant)) & (table["parameter"] == "share")]
    value = shares["mode" if evaluation.settings.fit_method == "map" else "median"]
    share = value.groupby(shares["level"], sort=False).agg(["mean", "min", "max"])
    columns: dict[Column, Show] = {
        Column("level", holds="name"): lambda row: str(row["level"]),
        Column("mean"): lambda row: percent(row["mean"]),
        Column("least"): lambda row: percent(row["min"]),
        Column("most"): lambda row: percent(row["max"]),
    }
    note = "If least and most are far apart, the questions do not determine it."
    caption = "How much each level counts: its share of the total weight in the fits of the evaluation"
    return Table.of(caption, share.reset_index().to_dict("records"), columns, note, "parameters.csv")


def _drawn(pictures: Iterable[Picture | LeftOut], on_step: OnStep) -> Iterator[Picture | LeftOut]:
    for picture in pictures:
        on_step(f"drawing {picture.name}")
        yield picture


def _setting_blocks(evaluation: Evaluation) -> Iterator[Block]:
    """Say with which settings, versions and data this was made, how to repeat it, and what it cannot say."""
    settings, record, folder = evaluation.settings, evaluation.record, evaluation.folder or "FOLDER"
    rows = {
        "fitted by": evaluation.how,
        "intervals": f"{percent(settings.interval_level, 0)}, {settings.n_resamples:,} resamples of the questions",
        "made by": f"`{record.command}`" if record.command else "Python, by analysis.evaluate with these settings",
        "seed": str(settings.seed),
        "sampling": "none" if settings.sampling is None else str(settings.sampling),
        "as data": f"metrics.csv, predictions.csv, parameters.csv and evaluation.json in {folder}; pictures with their "
        f"numbers: `direag report {folder} --plot figures`",
        "versions": ", ".join(f"{name} {one}" for name, one in record.versions.items()),
    }
    yield Terms("Settings and versions", tuple(rows.items()))
    origins = {"OBSERVATIONS": record.observations, "TEST": record.test, "SAMPLES": record.samples, "TOPK": record.topk}
    yield Table.of(
        "Data",
        [(file, origin) for file, origin in origins.items() if origin is not None],
        {
            Column("observations", holds="name"): lambda row: row[0],
            Column("questions"): lambda row: f"{row[1].questions:,}",
            Column("dataset, model", holds="prose"): lambda row: ", ".join((*row[1].datasets, *row[1].models)),
            Column("SHA-256", "files with the same give the same figures", holds="prose"): lambda row: row[1].sha256,
        },
        source="evaluation.json",
    )
    yield Terms("What this report cannot say", _LIMITS)
