"""The parts of a report that come from the evaluation: the answer, the methods, the reliability, the questions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import pandas as pd

from analysis.display.document import (
    Block,
    Cell,
    Chart,
    Column,
    Dot,
    Explorer,
    Paragraph,
    Record,
    Section,
    Statements,
    Table,
    Terms,
)
from analysis.display.glossary import FIRST_METRICS, METRIC_WORDS
from analysis.display.text import counted, interval, number, percent, with_interval
from analysis.methods.direag import FITTED_METHODS, SHARED_AGREEMENT
from analysis.methods.registry import method_words
from analysis.report.opening import Opening, excludes_zero, spoken
from analysis.report.source import ReportSource
from analysis.runs.pictures import evaluation_pictures
from analysis.scores.reliability import binned_reliability
from bayes_direag.model.settings import Preset

#: How many of the surest wrong and of the least sure answers are listed, and the length at which texts are cut.
_LISTED, _TEXT_LENGTH = 5, 240
#: How many methods are on the first screen, and which always: besides the report's own and the best calibrated one.
_FIRST_METHODS, _ALWAYS = 5, ("majority", "majority_platt")


def first_screen(source: ReportSource, opening: Opening, cautions: Iterable[str]) -> tuple[Block, ...]:
    """Return the result in sentences, what to take care of, and the methods that this one has to be better than."""
    table, run = _first_methods(source, opening), source.run
    about = (
        f"{source.about}: {run.design}; {run.fit_method.upper()}, preset {run.preset}. "
        f"{counted(len(run.metrics) - len(table.rows), 'other method')}: evaluate --all."
    )
    care = (Paragraph(text, "failure") for text in cautions)
    result = Paragraph(f"{opening.title}.", "title"), Statements(opening.sentences)
    return *result, *care, table, Paragraph(about, "note")


def answer_section(source: ReportSource, opening: Opening, cautions: Sequence[str]) -> Section:
    """Say what was evaluated, what was held out, and the results."""
    blocks: list[Block] = [Statements(opening.sentences), *(Paragraph(text, "failure") for text in cautions)]
    if source.metrics["n"]:
        blocks += [_chart(source), _threshold_table(opening, source.run.interval_level)]
    about = Paragraph(f"{_evaluated(source)} {_held_out(source)}", "note")
    return Section("answer", "The answer", (*blocks, _first_methods(source, opening), about))


def methods_section(source: ReportSource, opening: Opening) -> Section:
    """Tabulate every method and metric, and how the report's method differs from the others."""
    further = [name for name in METRIC_WORDS if name not in (*FIRST_METRICS, "accuracy")]
    level = percent(source.run.interval_level, 0)
    note = (
        f"Ranked by benefit. Marked: the best of each column, to the decimals shown. In brackets: {level} intervals "
        "(bootstrap over questions); where those of two methods overlap, look at the differences below."
    )
    further_note = (
        "Whether each method's probabilities of its own answers hold; not which method is better: one that selects a "
        "wrong answer, and knows it, scores well. Brackets of a calibration error lean upward and may lie above a "
        "small one."
    )
    methods = tuple((name, method_words(name)) for name in source.run.metrics["method"])
    blocks: list[Block] = [
        _metric_table(source, FIRST_METRICS, "Every method on the same held-out questions", note, with_counts=True),
        Terms(
            "What the columns say",
            tuple((METRIC_WORDS[name].header, METRIC_WORDS[name].meaning) for name in FIRST_METRICS),
        ),
        Terms("What the methods do", methods),
        _difference_block(source, opening),
        _metric_table(source, further, "Of each method's own answers", further_note),
        Terms(
            "What these columns say", tuple((METRIC_WORDS[name].header, METRIC_WORDS[name].meaning) for name in further)
        ),
    ]
    return Section("methods", "Methods and metrics", tuple(blocks))


def pictures_section(source: ReportSource, on_step: Callable[[str], None]) -> Section:
    """Draw the evaluation."""
    title = "Pictures of the evaluation"
    if not source.metrics["n"]:
        text = f"There is nothing to draw: method {source.method} has answered no labelled question."
        return Section("pictures", title, (Paragraph(text, "note"),))
    run, pictures = source.run, []
    for picture in evaluation_pictures(source.held_out, source.method, seed=run.seed, level=run.interval_level):
        on_step(f"drawing {picture.name}")
        pictures.append(picture)
    return Section("pictures", title, tuple(pictures))


def questions_section(source: ReportSource) -> Section:
    """List the surest wrong answers, and the least sure ones."""
    rows = source.predictions.dropna(subset=["confidence"])
    wrong = rows[~rows["correct"].fillna(True).astype(bool)]
    lists = {
        "Surest and wrong": wrong.sort_values("confidence", ascending=False, kind="stable"),
        "Least sure": rows.sort_values("confidence", kind="stable"),
    }
    blocks: list[Block] = [
        Paragraph(
            "Wrong labels, misread answers and kinds of question that the model cannot do show here first. "
            "These are the extremes, not a sample."
        )
    ]
    for caption, listed in lists.items():
        if listed.empty:
            blocks.append(Paragraph(f"{caption}: there is none.", "note"))
        else:
            blocks.append(_question_table(source, caption, listed.head(_LISTED)))
    if source.observations is None:
        text = "Questions and right answers stand here too with `direag report FOLDER --obs OBSERVATIONS`."
        blocks.append(Paragraph(text, "note"))
    blocks.append(_explorer(source))
    blocks.append(
        Paragraph("Why a question got its answer and its probability: `direag explain FIT OBSERVATIONS PROBLEM_ID`.")
    )
    return Section("questions", "Questions to look at", tuple(blocks))


def _evaluated(source: ReportSource) -> str:
    n = source.run.design.n_evaluated or 0
    ways = counted(len(source.levels), "way")
    methods = counted(len(source.run.metrics), "method")
    text = (
        f"{counted(n, 'question')} ({source.about}) were each asked in {ways}, called levels: prompts, samples or "
        f"models. {methods} of combining them into one answer and one probability were evaluated."
    )
    unlabelled = n - source.n_labelled
    return f"{text} The right answer of {unlabelled:,} is not known; these are not scored." if unlabelled else text


def _held_out(source: ReportSource) -> str:
    n_fitted, n_folds = source.run.design.n_fitted, source.run.design.n_folds
    if n_folds is None:
        how = f"They were predicted from what had been learned from {counted(n_fitted or 0, 'other question')}"
    else:
        how = (
            f"The questions were dealt into {n_folds} parts, and each part was predicted from what had been learned "
            "from the others"
        )
    held_out = f"{how}: no question was predicted by anything that had seen its right answer."
    preset = Preset.model_validate(source.manifest["settings"]["preset"])
    return f"{held_out} {SHARED_AGREEMENT}" if n_folds is not None and preset.uses_agreement else held_out


def _chart(source: ReportSource) -> Chart:
    """Show how often the report's method is right by the probability given, for each bin that holds a question."""
    confidence, correct, *_ = source.answered
    bins = binned_reliability(confidence, correct, level=source.run.interval_level)
    columns = ["confidence", "right", "right_low", "right_high", "n"]
    dots = (Dot(*row) for row in bins.loc[bins["n"] > 0, columns].itertuples(index=False))
    level, name = percent(source.run.interval_level, 0), spoken(source.method)
    caption = (
        f"How often the answers of {name} are right, by the probability given: on the dashed line probabilities hold. "
        f"Dots: held-out answers in ten ranges, larger for more; bars: {level} intervals, of which some miss by chance."
    )
    return Chart(f"The probabilities of {name} on {counted(len(correct), 'held-out question')}", caption, tuple(dots))


def _threshold_table(opening: Opening, interval_level: float) -> Table:
    return Table.of(
        "Which answers to accept",
        opening.thresholds.to_dict("records"),
        {
            Column("probability", holds="name"): lambda row: f"{percent(row['threshold'], 0)} or more",
            Column("of all questions"): lambda row: Cell(percent(row["share"], 0), f"{row['labelled']:,}"),
            Column("right", percent(interval_level, 0)): lambda row: Cell(
                percent(row["right"]),
                f"{percent(row['low'], 0)} to {percent(row['high'], 0)}" if row["labelled"] else "",
            ),
        },
        "Each interval is for a threshold chosen beforehand. For a guarantee: `direag predict --target-accuracy`.",
    )


def _metric_table(
    source: ReportSource, names: Sequence[str], caption: str, note: str, *, with_counts: bool = False
) -> Table:
    """Tabulate metrics with their intervals, and with ``with_counts`` how many questions each method has answered."""
    metrics = source.run.metrics.sort_values("benefit", ascending=False, kind="stable")
    best = {name: metrics[name].round(3).agg("max" if METRIC_WORDS[name].more_is_better else "min") for name in names}

    def estimate(name: str, row: Record) -> Cell:
        bounds = interval(row[f"{name}_low"], row[f"{name}_high"])
        return Cell(number(row[name]), bounds, ("best",) if round(row[name], 3) == best[name] else ())

    columns: dict[Column, Callable[[Record], Cell | str]] = {Column("method", holds="key"): lambda row: row["method"]}
    for name in names:
        better = "more is better" if METRIC_WORDS[name].more_is_better else "less is better"
        columns[Column(METRIC_WORDS[name].header, better)] = partial(estimate, name)
    if with_counts:
        columns[Column("n", "answered")] = lambda row: f"{row['n']:,}"
    if with_counts and metrics["unanswered"].any():
        columns[Column("none", "no answer")] = lambda row: f"{row['unanswered']:,}"
        note += " n: answered questions; none: how many more had no answer."
    return Table.of(caption, metrics.to_dict("records"), columns, note, "metrics.csv", source.method)


def _first_methods(source: ReportSource, opening: Opening) -> Table:
    """Tabulate the report's method, the best calibrated simple one, votes, and the best others, by benefit."""
    ranked = source.run.metrics.sort_values("benefit", ascending=False, kind="stable")
    variants = ranked["method"].isin(FITTED_METHODS) & (ranked["method"] != source.method)
    always = ranked["method"].isin([source.method, opening.reference, *_ALWAYS])
    kept = ranked[always | ~variants].assign(always=always).sort_values("always", ascending=False, kind="stable")
    rows = kept.head(_FIRST_METHODS).sort_values("benefit", ascending=False, kind="stable")
    of_benefit = opening.differences[opening.differences["metric"] == "benefit"]
    differences = {row["method"]: row for row in of_benefit.to_dict("records")}

    def difference(row: Record) -> str:
        if row["method"] not in differences:
            return ""
        to = differences[row["method"]]
        return with_interval(to["difference"], to["low"], to["high"], signed=True)

    note = (
        f"Ranked by benefit. Differences: {spoken(source.method)} minus the method, on the same questions, with "
        f"{percent(source.run.interval_level, 0)} intervals."
    )
    return Table.of(
        "Is it better than a simpler method?",
        rows.to_dict("records"),
        {
            Column("method", holds="key"): lambda row: row["method"],
            Column("accuracy"): lambda row: number(row["accuracy_of_all"]),
            Column("benefit"): lambda row: number(row["benefit"]),
            Column("ECE"): lambda row: number(row["ece"]),
            Column("difference in benefit"): difference,
        },
        note,
        focus=source.method,
    )


def _difference_block(source: ReportSource, opening: Opening) -> Block:
    name, level = spoken(source.method), percent(source.run.interval_level, 0)
    if opening.differences.empty:
        return Paragraph(f"Nothing else was evaluated, so there is nothing to compare {name} with.", "note")

    def difference(metric: str, by_metric: Mapping[str, Record]) -> Cell:
        row = by_metric[metric]
        is_better = (row["difference"] > 0) == METRIC_WORDS[metric].more_is_better
        marks = ("fine" if is_better else "failure",) if excludes_zero(row) else ()
        bounds = interval(row["low"], row["high"], signed=True)
        return Cell(number(row["difference"], signed=True), bounds, marks)

    columns: dict[Column, Callable[[Mapping[str, Record]], Cell | str]] = {
        Column("against", holds="key"): lambda by_metric: by_metric["benefit"]["method"]
    }
    for metric in FIRST_METRICS:
        words = METRIC_WORDS[metric]
        columns[Column(words.header, f"{'above' if words.more_is_better else 'below'} 0: better")] = partial(
            difference, metric
        )
    note = (
        f"On the very same questions, with {level} intervals (paired bootstrap). One that holds 0 shows no clear "
        "difference, which does not mean that there is none. The log score can be compared if both methods state a "
        "distribution. Of many comparisons a few leave out 0 by chance; `direag tables` corrects for that."
    )
    by_method = [
        {row["metric"]: row for row in rows.to_dict("records")}
        for _, rows in opening.differences.groupby("method", sort=False)
    ]
    caption = f"How {name} differs from each other method"
    return Table.of(caption, by_method, columns, note, "`direag report --json` prints them")


def _question_table(source: ReportSource, caption: str, rows: pd.DataFrame) -> Table:
    questions = () if source.observations is None else source.observations.questions
    known = {question.problem_id: question for question in questions}
    asked = any(question.question for question in questions)

    def known_verdict(row: Record) -> str:
        return "not labelled" if pd.isna(row["correct"]) else "right" if row["correct"] else "wrong"

    columns: dict[Column, Callable[[Record], Cell | str]] = {
        Column("problem_id", holds="name"): lambda row: row["problem_id"],
        Column("probability"): lambda row: percent(row["confidence"]),
        Column("answer", holds="name"): lambda row: Cell(_cut(row["answer"]), known_verdict(row)),
    }
    if known:
        columns[Column("right answer", holds="name")] = lambda row: _cut(known[row["problem_id"]].gold_answer)
    if asked:
        columns[Column("question", holds="prose")] = lambda row: _cut(known[row["problem_id"]].question)
    return Table.of(caption, rows.to_dict("records"), columns, source="predictions.csv")


def _explorer(source: ReportSource) -> Explorer:
    observations = source.observations
    place = {} if observations is None else {name: i for i, name in enumerate(observations.problem_id)}
    questions = []
    for row in source.predictions.to_dict("records"):
        question: dict[str, object] = {
            "id": row["problem_id"],
            "p": None if pd.isna(row["confidence"]) else round(row["confidence"], 4),
            "answer": None if pd.isna(row["answer"]) else _cut(row["answer"]),
            "right": None if pd.isna(row["correct"]) else bool(row["correct"]),
            "reports": [],
        }
        if observations is not None:
            i = place[row["problem_id"]]
            asked, said = (
                observations.questions[i],
                zip(observations.candidate[i], observations.confidence[i], strict=True),
            )
            question |= {
                "gold": asked.gold_answer and _cut(asked.gold_answer),
                "text": asked.question and _cut(asked.question),
            }
            question["reports"] = [
                (level, _cut(observations.candidates[i][k]), round(float(stated), 4))
                for level, (k, stated) in enumerate(said)
                if k >= 0
            ]
        questions.append(question)
    named = None if observations is None else observations.groups or observations.level_names
    return Explorer(named or source.levels, tuple(questions))


def _cut(text: str | None) -> str:
    whole = " ".join((text or "not stated").split())
    return whole if len(whole) <= _TEXT_LENGTH else f"{whole[:_TEXT_LENGTH].rstrip()}…"
