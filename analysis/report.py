"""The report of an evaluation: fixed sentences with its figures, tables and pictures, in six sections."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.diagnosis import Diagnosis, diagnose
from analysis.display.document import (
    Block,
    Bullets,
    Cell,
    Chart,
    Column,
    Command,
    Document,
    Dot,
    Explorer,
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
from analysis.display.text import counted, difference_in_words, interval, number, percent, with_interval
from analysis.evaluation import DIREAG, MANIFEST, Evaluation
from analysis.fit_display import convergence_block, fit_terms, parameter_tables
from analysis.learned import fit_pictures
from analysis.methods.direag import FITTED_METHODS, SHARED_AGREEMENT
from analysis.methods.registry import SIMPLE_METHODS, method_words
from analysis.pictures import evaluation_pictures
from analysis.scores.reliability import binned_reliability
from bayes_direag.fits.convergence import convergence_summary
from bayes_direag.fits.fit import Fit

type OnStep = Callable[[str], None]
type Show = Callable[[Record], Cell | str]

_ACCEPTED = (0.9, 0.95)
#: How many of the surest wrong and of the least sure answers are listed, and the length at which texts are cut.
_LISTED, _TEXT_LENGTH = 5, 240
#: How many methods are on the first screen, and which always: besides the report's own and the best calibrated one.
_FIRST_METHODS, _ALWAYS = 5, ("majority", "majority_platt")

_HELD_OUT = (
    "Each question was asked in several ways, called levels: prompts, samples or models. No question was predicted by "
    "anything that had seen its right answer. Questions without a known right answer are not scored."
)
_RANKED = (
    "Ranked by benefit. Marked: the best of each column, to the decimals shown. In brackets: {level} intervals "
    "(bootstrap over questions); where those of two methods overlap, look at the differences below. n: answered "
    "questions; none: how many more had no answer."
)
_OWN_ANSWERS = (
    "Whether each method's probabilities of its own answers hold; not which method is better: one that selects a wrong "
    "answer, and knows it, scores well. Brackets of a calibration error lean upward and may lie above a small one."
)
_DIFFERENCES = (
    "On the very same questions, with {level} intervals (paired bootstrap). One that holds 0 shows no clear "
    "difference, which does not mean that there is none. The log score can be compared if both methods state a "
    "distribution. Of many comparisons a few leave out 0 by chance."
)
_LIMITS = (
    "How it does on questions of another kind. The figures hold for new questions that are like these, put to the same "
    "model in the same way. Another subject, model or prompt calls for labelled questions of its own.",
    "What a question would have got to which there is no answer. Benefit, accuracy and log score count it as not "
    "answered; the other metrics leave it out.",
    "Whether the right answers in the file are right. A wrong one counts as an error of the model, or hides one.",
    "How much would change with another run of the model, or another fit. Intervals are over the questions, with "
    "replies and fits as they are.",
    "How good a fit to all questions is, exactly. A cross-fit scores fits to a part of them; one that has seen all "
    "should be as good or better.",
    "Whether one single answer is right. Of many answers that are given 80%, a fifth is wrong; which ones is not said.",
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
    sections = (
        Section("answer", "The answer", answer_blocks(evaluation, care)),
        Section("questions", "Questions to look at", tuple(_question_blocks(evaluation))),
        Section("methods", "Methods and metrics", tuple(method_blocks(evaluation))),
        Section("pictures", "Pictures of the evaluation", tuple(_pictures(evaluation, on_step))),
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
    found = (path if path.is_file() else None for path in (folder / "fit.nc", folder / "observations.jsonl"))
    return inner, *(given or there for given, there in zip((fit, observations), found, strict=True))


def spoken(method: str) -> str:
    """Return the name of a method in a sentence."""
    if method == DIREAG:
        return "DirEAG"
    return (method in SIMPLE_METHODS and SIMPLE_METHODS[method].spoken) or f"method {method}"


def title(evaluation: Evaluation) -> str:
    """Return the result in one line."""
    found = evaluation.calibration
    if not found.n:
        return "Nothing can be said of these answers"
    verdict = {
        "off": f"but their probabilities are {found.direction}",
        "none found": "and no miscalibration was found",
        "too few": "too few to tell whether their probabilities are calibrated",
    }[found.verdict]
    return f"{percent(found.right, 0)} of these answers are right, {verdict}"


def rival(evaluation: Evaluation) -> str:
    """Return the simple method of greatest benefit that learns from labels, else the best other one, else nothing."""
    others = evaluation.metrics.set_index("method")["benefit"].drop(evaluation.method).dropna()
    learning = others[others.index.isin([name for name, method in SIMPLE_METHODS.items() if method.learns])]
    return str((learning if len(learning) else others).idxmax()) if len(others) else ""


def sentences(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the result in sentences: accuracy, calibration, what to accept, and the gain over other methods."""
    return tuple(_sentences(evaluation))


def _sentences(evaluation: Evaluation) -> Iterator[str]:
    name, found = spoken(evaluation.method), evaluation.calibration
    level = percent(evaluation.settings.interval_level, 0)
    (row,) = evaluation.metrics[evaluation.metrics["method"] == evaluation.method].to_dict("records")
    if not found.n:
        yield f"Nothing can be said of how often {name} is right: it has answered none of the labelled questions."
        return
    right, low, high = (percent(row[f"accuracy{end}"]) for end in ("", "_low", "_high"))
    yield f"The answers that {name} selects are right {right} of the time [{level}: {low} to {high}]."
    yield f"{found.sentence()} On average {name} claims {percent(found.stated)}, and {right} are right."
    accepted = evaluation.thresholds[lambda table: table["threshold"].isin(_ACCEPTED) & (table["labelled"] > 0)]
    if accepted.empty:
        yield f"What to do: check every answer; none has a probability of {percent(_ACCEPTED[0], 0)} or more."
    else:
        each = (
            f"{percent(one['threshold'], 0)} or more: {percent(one['share'], 0)} of the questions, "
            f"{percent(one['right'])} of them right [{level}: {percent(one['low'])} to {percent(one['high'])}]"
            for one in accepted.to_dict("records")
        )
        yield f"What to do: accept answers with a probability of {'; of '.join(each)}."
    rows = {(one["method"], one["metric"]): one for one in evaluation.differences.to_dict("records")}
    reference = rival(evaluation)
    if not (one := rows.get((reference, "benefit"))):
        yield "No other method was evaluated on the same questions, so there is nothing to compare it with."
        return
    learns = reference in SIMPLE_METHODS and SIMPLE_METHODS[reference].learns
    difference = difference_in_words(
        name, one["difference"], one["low"], one["high"], n=one["n"], level=evaluation.settings.interval_level
    )
    yield (
        f"Benefit judges answers and probabilities together (accuracy minus Brier score; 1 is perfect, 0 is never "
        f"answering): {name} has {number(one['second'])}, {spoken(reference)}, the best "
        f"{'calibrated simple' if learns else 'other'} method, {number(one['first'])}. {difference}"
    )
    vote = rows.get(("majority", "accuracy_of_all"))
    if vote and vote["high"] < 0:
        yield (
            f"A plain vote selects better answers: {percent(vote['first'])} of them are right, of {name}'s "
            f"{percent(vote['second'])}; the difference is {number(vote['difference'], signed=True)} "
            f"[{level}: {interval(vote['low'], vote['high'], signed=True)[1:-1]}]."
        )


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


def first_screen(evaluation: Evaluation) -> tuple[Block, ...]:
    """Return the result in sentences, what to take care of, and the methods that this one has to be better than."""
    table = _first_methods(evaluation)
    n_others = counted(len(evaluation.metrics) - len(table.rows), "other method")
    about = f"{evaluation.name}: {evaluation.design}; {evaluation.how}. {n_others}: evaluate --all."
    care = (Paragraph(text, "failure") for text in cautions(evaluation))
    result = Paragraph(f"{title(evaluation)}.", "title"), Statements(sentences(evaluation))
    return *result, *care, table, Paragraph(about, "note")


def answer_blocks(evaluation: Evaluation, care: Iterable[str]) -> tuple[Block, ...]:
    """Say what was evaluated and the results."""
    blocks: list[Block] = [Statements(sentences(evaluation)), *(Paragraph(text, "failure") for text in care)]
    if evaluation.calibration.n:
        blocks += [_chart(evaluation), _threshold_table(evaluation)]
    blocks += [_first_methods(evaluation), _evaluated(evaluation), Paragraph(_HELD_OUT, "note")]
    if evaluation.settings.n_folds is not None and evaluation.settings.preset.uses_agreement:
        blocks.append(Paragraph(SHARED_AGREEMENT, "note"))
    return tuple(blocks)


def _evaluated(evaluation: Evaluation) -> Terms:
    """Count what was evaluated."""
    n_labelled, n_answered = int(evaluation.own["correct"].notna().sum()), evaluation.calibration.n
    rows = {
        "held out": evaluation.design,
        "labelled": f"{n_labelled:,}",
        "answered": f"{n_answered:,} of these, by {spoken(evaluation.method)}",
        "levels": ", ".join(evaluation.of.levels),
    }
    return Terms("What was evaluated", tuple(rows.items()))


def _chart(evaluation: Evaluation) -> Chart:
    """Show how often the answers are right by the probability given, for each bin that holds a question."""
    answered, level = evaluation.answered, evaluation.settings.interval_level
    bins = binned_reliability(answered.confidence, answered.correct, level=level)
    columns = ["confidence", "right", "right_low", "right_high", "n"]
    dots = (Dot(*row) for row in bins.loc[bins["n"] > 0, columns].itertuples(index=False))
    name, n = spoken(evaluation.method), counted(len(answered.correct), "held-out question")
    caption = (
        f"How often the answers of {name} are right, by the probability given: on the dashed line probabilities hold. "
        f"Dots: held-out answers in ten ranges, larger for more; bars: {percent(level, 0)} intervals, of which some "
        "miss by chance."
    )
    return Chart(f"The probabilities of {name} on {n}", caption, tuple(dots))


def _threshold_table(evaluation: Evaluation) -> Table:
    return Table.of(
        "Which answers to accept",
        evaluation.thresholds.to_dict("records"),
        {
            Column("probability", holds="name"): lambda row: f"{percent(row['threshold'], 0)} or more",
            Column("of all questions"): lambda row: Cell(percent(row["share"], 0), f"{row['labelled']:,}"),
            Column("right", percent(evaluation.settings.interval_level, 0)): lambda row: Cell(
                percent(row["right"]), f"{percent(row['low'], 0)} to {percent(row['high'], 0)}"
            ),
        },
        "Each interval is for a threshold chosen beforehand. For a guarantee: `direag predict --target-accuracy`.",
    )


def _first_methods(evaluation: Evaluation) -> Table:
    """Tabulate the report's method, the best calibrated simple one, votes, and the best others, by benefit."""
    ranked, own = evaluation.ranked, evaluation.method
    always = ranked["method"].isin([own, rival(evaluation), *_ALWAYS])
    kept = ranked[always | ~ranked["method"].isin(FITTED_METHODS)].assign(always=always)
    first = kept.sort_values("always", ascending=False, kind="stable").head(_FIRST_METHODS).sort_index()
    of_benefit = evaluation.differences[evaluation.differences["metric"] == "benefit"]
    differences = {
        row["method"]: with_interval(row["difference"], row["low"], row["high"], signed=True)
        for row in of_benefit.to_dict("records")
    }
    columns: dict[Column, Show] = {
        Column("method", holds="key"): lambda row: row["method"],
        Column("accuracy"): lambda row: number(row["accuracy_of_all"]),
        Column("benefit"): lambda row: number(row["benefit"]),
        Column("ECE"): lambda row: number(row["ece"]),
        Column("difference in benefit"): lambda row: differences.get(row["method"], ""),
    }
    note = (
        f"Ranked by benefit. Differences: {spoken(own)} minus the method, on the same questions, with "
        f"{percent(evaluation.settings.interval_level, 0)} intervals."
    )
    return Table.of("Is it better than a simpler method?", first.to_dict("records"), columns, note, focus=own)


def method_blocks(evaluation: Evaluation) -> Iterator[Block]:
    """Tabulate every method and metric, and how the report's method differs from the others."""
    level = percent(evaluation.settings.interval_level, 0)
    further = [name for name in METRIC_WORDS if name not in (*FIRST_METRICS, "accuracy")]
    counts: dict[Column, Show] = {
        Column("n", "answered"): lambda row: f"{row['n']:,}",
        Column("none", "no answer"): lambda row: f"{row['unanswered']:,}",
    }
    caption = "Every method on the same held-out questions"
    yield _metric_table(evaluation, FIRST_METRICS, caption, _RANKED.format(level=level), counts)
    yield _meanings("What the columns say", FIRST_METRICS)
    yield Terms("What the methods do", tuple((name, method_words(name)) for name in evaluation.metrics["method"]))
    yield _difference_table(evaluation, level)
    yield _metric_table(evaluation, further, "Of each method's own answers", _OWN_ANSWERS, {})
    yield _meanings("What these columns say", further)


def _meanings(heading: str, names: Sequence[str]) -> Terms:
    return Terms(heading, tuple((METRIC_WORDS[name].header, METRIC_WORDS[name].meaning) for name in names))


def _metric_table(
    evaluation: Evaluation, names: Sequence[str], caption: str, note: str, more: Mapping[Column, Show]
) -> Table:
    """Tabulate metrics with their intervals, and more columns."""
    metrics = evaluation.ranked
    best = {name: metrics[name].round(3).agg("max" if METRIC_WORDS[name].more_is_better else "min") for name in names}

    def estimate(name: str, row: Record) -> Cell:
        bounds = interval(row[f"{name}_low"], row[f"{name}_high"])
        return Cell(number(row[name]), bounds, ("best",) if round(row[name], 3) == best[name] else ())

    columns: dict[Column, Show] = {Column("method", holds="key"): lambda row: row["method"]}
    for name in names:
        better = "more is better" if METRIC_WORDS[name].more_is_better else "less is better"
        columns[Column(METRIC_WORDS[name].header, better)] = partial(estimate, name)
    return Table.of(caption, metrics.to_dict("records"), columns | more, note, "metrics.csv", evaluation.method)


def _difference_table(evaluation: Evaluation, level: str) -> Block:
    by_method = [
        {row["metric"]: row for row in rows.to_dict("records")}
        for _, rows in evaluation.differences.groupby("method", sort=False)
    ]
    if not by_method:
        return Paragraph("Nothing else was evaluated, so there is nothing to compare with.", "note")

    def difference(metric: str, by_metric: Record) -> Cell:
        row = by_metric[metric]
        is_better = (row["difference"] > 0) == METRIC_WORDS[metric].more_is_better
        marks = ("fine" if is_better else "failure",) if row["low"] > 0 or row["high"] < 0 else ()
        return Cell(number(row["difference"], signed=True), interval(row["low"], row["high"], signed=True), marks)

    columns: dict[Column, Show] = {Column("against", holds="key"): lambda row: row["benefit"]["method"]}
    for metric in FIRST_METRICS:
        better = "above 0: better" if METRIC_WORDS[metric].more_is_better else "below 0: better"
        columns[Column(METRIC_WORDS[metric].header, better)] = partial(difference, metric)
    caption = f"How {spoken(evaluation.method)} differs from each other method"
    note, source = _DIFFERENCES.format(level=level), "`direag report --json` prints them"
    return Table.of(caption, by_method, columns, note, source)


def _pictures(evaluation: Evaluation, on_step: OnStep) -> Iterator[Block]:
    if not evaluation.calibration.n:
        yield Paragraph("There is nothing to draw: no labelled question was answered.", "note")
        return
    settings = evaluation.settings
    pictures = evaluation_pictures(evaluation, evaluation.method, seed=settings.seed, level=settings.interval_level)
    yield from _drawn(pictures, on_step)


def _question_blocks(evaluation: Evaluation) -> Iterator[Block]:
    """List the surest wrong answers and the least sure ones, and all in the explorer."""
    rows = evaluation.own.dropna(subset="confidence")
    wrong = rows[~rows["correct"].fillna(True).astype(bool)]
    yield Paragraph(
        "Wrong labels, misread answers and kinds of question that the model cannot do show here first. These are the "
        "extremes, not a sample. Why a question got its answer and its probability: `direag explain FIT OBSERVATIONS "
        "PROBLEM_ID`. Texts and right answers stand here with `direag report FOLDER --obs OBSERVATIONS`."
    )
    surest = wrong.sort_values("confidence", ascending=False, kind="stable")
    yield _question_table(evaluation, "Surest and wrong", surest.head(_LISTED))
    yield _question_table(evaluation, "Least sure", rows.sort_values("confidence", kind="stable").head(_LISTED))
    yield _explorer(evaluation)


def _question_table(evaluation: Evaluation, caption: str, rows: pd.DataFrame) -> Table:
    questions = () if evaluation.observations is None else evaluation.observations.questions
    known = {question.problem_id: question for question in questions}
    verdicts = {True: "right", False: "wrong"}
    columns: dict[Column, Show] = {
        Column("problem_id", holds="name"): lambda row: row["problem_id"],
        Column("probability"): lambda row: percent(row["confidence"]),
        Column("answer", holds="name"): lambda row: Cell(
            _cut(row["answer"]), verdicts.get(row["correct"], "not labelled")
        ),
    }
    if known:
        columns[Column("right answer", holds="name")] = lambda row: _cut(known[row["problem_id"]].gold_answer)
        columns[Column("question", holds="prose")] = lambda row: _cut(known[row["problem_id"]].question)
    return Table.of(caption, rows.to_dict("records"), columns, source="predictions.csv")


def _explorer(evaluation: Evaluation) -> Explorer:
    rows = evaluation.own.astype(object).where(evaluation.own.notna(), None)
    questions: dict[str, dict[str, object]] = {
        row["problem_id"]: {
            "id": row["problem_id"],
            "p": row["confidence"] if row["confidence"] is None else round(row["confidence"], 4),
            "answer": row["answer"] and _cut(row["answer"]),
            "right": row["correct"],
            "reports": [],
        }
        for row in rows.to_dict("records")
    }
    told = evaluation.observations
    if told is None:
        return Explorer(evaluation.of.levels, tuple(questions.values()))
    for i, asked in enumerate(told.questions):
        said = enumerate(zip(told.candidate[i], told.confidence[i], strict=True))
        questions[asked.problem_id] |= {
            "gold": asked.gold_answer and _cut(asked.gold_answer),
            "text": asked.question and _cut(asked.question),
            "reports": [(n, _cut(told.candidates[i][k]), round(float(p), 4)) for n, (k, p) in said if k >= 0],
        }
    return Explorer(told.groups or told.level_names, tuple(questions.values()))


def _cut(text: str | None) -> str:
    whole = " ".join((text or "not stated").split())
    return whole if len(whole) <= _TEXT_LENGTH else f"{whole[:_TEXT_LENGTH].rstrip()}…"


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
        "No rows: none of the methods is fitted.",
        f"`direag show {evaluation.folder}/fits/NAME.nc --json`",
    )
    yield _share_table(evaluation)
    if fit is None:
        yield Paragraph(
            "`direag fit OBSERVATIONS --out fit.nc` fits to all questions, and `direag report FOLDER --fit fit.nc` "
            "shows it here.",
            "note",
        )
        return
    yield fit_terms(fit, name)
    if fit.fingerprint != evaluation.record.observations.sha256:
        yield Paragraph("These are not the questions of the evaluation, or the answers to them differ.", "warning")
    yield from parameter_tables(fit)
    yield from _drawn(fit_pictures(fit, level=evaluation.settings.interval_level), on_step)
    if diagnosis is None:
        yield convergence_block(fit)
    else:
        yield from diagnosis.blocks()
        yield from _drawn(diagnosis.pictures(), on_step)


def _share_table(evaluation: Evaluation) -> Table:
    fitted, table = FITTED_METHODS.get(evaluation.method), evaluation.parameters
    weights = table[(table["variant"] == (fitted and fitted.variant)) & (table["parameter"] == "weight")]
    share = weights["relative"].groupby(weights["level"], sort=False).agg(["mean", "min", "max"])
    columns: dict[Column, Show] = {Column("level", holds="name"): lambda row: str(row["level"])}
    for header, column in (("mean", "mean"), ("least", "min"), ("most", "max")):
        columns[Column(header)] = lambda row, column=column: percent(row[column])
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
        "seed": str(settings.seed),
        "sampling": "none" if settings.sampling is None else str(settings.sampling),
        "as data": f"metrics.csv, predictions.csv, parameters.csv and evaluation.json in {folder}; pictures with their "
        f"numbers: `direag plot {folder} --out figures`; differences: `direag report {folder} --json`",
        "versions": ", ".join(f"{name} {one}" for name, one in record.versions.items()),
    }
    yield Terms("Settings and versions", tuple(rows.items()))
    given = {"OBSERVATIONS": record.observations, "TEST": record.test, "SAMPLES": record.samples, "TOPK": record.topk}
    yield Table.of(
        "Data",
        [(file, origin) for file, origin in given.items() if origin is not None],
        {
            Column("observations", holds="name"): lambda row: row[0],
            Column("questions"): lambda row: f"{row[1].questions:,}",
            Column("dataset, model", holds="prose"): lambda row: ", ".join((*row[1].datasets, *row[1].models)),
            Column("SHA-256", "of what was read, in whatever form", holds="prose"): lambda row: row[1].sha256,
        },
        source="evaluation.json",
    )
    yield Paragraph("What made the evaluation; files with this SHA-256 give the same figures:")
    yield Command(record.command or "Python, by analysis.evaluate with the settings above")
    yield Paragraph("What this report cannot say:")
    yield Bullets(_LIMITS)
