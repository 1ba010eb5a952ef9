"""The parts of a report that come from the evaluation: the answer, the methods, the reliability, the questions."""

from collections.abc import Sequence

import pandas as pd

from analysis.display.numbers import counted, interval, number, percent
from analysis.display.page import (
    Block,
    Cell,
    Chart,
    Column,
    Dot,
    Explorer,
    Paragraph,
    Section,
    Statements,
    Table,
    Terms,
)
from analysis.report.answer import Answer, is_told, spoken
from analysis.report.glossary import FIRST_METRICS, METRICS, method_words
from analysis.report.source import ReportSource
from analysis.scores.reliability import binned_reliability

#: So many of the surest wrong and of the least sure answers are listed; texts are cut at so many characters.
_LISTED, _TEXT_LENGTH = 5, 240
#: An interval of a share that is wider says next to nothing.
_WIDE = 0.3


def answer_section(source: ReportSource, answer: Answer, cautions: Sequence[str]) -> Section:
    """Say what was evaluated, what was held out, and what came out."""
    blocks: list[Block] = [Statements(answer.sentences), *(Paragraph(text, "failure") for text in cautions)]
    if source.metrics["n"]:
        blocks += [_chart(source), _threshold_table(source, answer)]
    return Section("answer", "The answer", (*blocks, Paragraph(f"{_evaluated(source)} {_held_out(source)}", "note")))


def methods_section(source: ReportSource, answer: Answer) -> Section:
    """Tabulate every method and metric, and how the report's method differs from the others."""
    own = [name for name in METRICS if name not in FIRST_METRICS]
    level = percent(source.run.interval_level, 0)
    note = (
        f"Ranked by benefit. Best of each column, to the decimals shown, in bold. In brackets: {level} intervals "
        "(bootstrap over questions); where those of two methods overlap, look at the differences below."
    )
    own_note = (
        "Whether each method's probabilities of its own answers hold; not which method is better: one that selects a "
        "wrong answer, and knows it, scores well. Brackets of a calibration error lean upward and may lie above a "
        "small one."
    )
    methods = tuple((name, method_words(name)) for name in source.run.metrics["method"])
    blocks: list[Block] = [
        _metric_table(source, FIRST_METRICS, "Every method on the same held-out questions", note),
        Terms("What the columns say", tuple((METRICS[name].header, METRICS[name].meaning) for name in FIRST_METRICS)),
        Terms("What the methods do", methods),
        _difference_block(source, answer),
        _metric_table(source, own, "Of each method's own answers", own_note),
        Terms("What these columns say", tuple((METRICS[name].header, METRICS[name].meaning) for name in own)),
    ]
    return Section("methods", "Methods and metrics", tuple(blocks))


def reliability_section(source: ReportSource) -> Section:
    """Tabulate how often answers are right, by the probability that they were given."""
    confidence, correct, *_ = source.scores[source.method]
    title = "The probabilities in numbers"
    if not len(correct):
        text = f"There is nothing to tabulate: {spoken(source.method)} has answered no labelled question."
        return Section("reliability", title, (Paragraph(text, "note"),))
    level = percent(source.run.interval_level, 0)
    bins = binned_reliability(confidence, correct, level=source.run.interval_level)
    rows = tuple(
        (
            Cell(f"{100 * row['low']:.0f}\N{EN DASH}{100 * row['high']:.0f}%"),
            Cell(percent(row["confidence"])),
            Cell(percent(row["right"]), f"{percent(row['right_low'], 0)} to {percent(row['right_high'], 0)}"),
            _judged(row["confidence"], row["right_low"], row["right_high"]),
            Cell(f"{row['n']:,}"),
        )
        for row in bins[bins["n"] > 0].to_dict("records")
    )
    columns = (
        Column("probability", holds="name"),
        Column("said", "on average"),
        Column("right", f"{level} interval"),
        Column("so it is", holds="name"),
        Column("questions"),
    )
    note = (
        "Each row holds the questions whose answer was given a probability in that range, its upper end included. "
        f"“As stated”: what was said lies within the {level} interval of what is right. “Too few to tell”: it does, "
        f"but that interval is wider than {100 * _WIDE:.0f} points."
    )
    caption = f"The probabilities of {spoken(source.method)} on {counted(len(correct), 'held-out question')}"
    table = Table(caption, columns, rows, note, "`direag plot` writes reliability_bins.csv")
    return Section("reliability", title, (table,))


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
            "What a file says is right and is not, an answer that was misread, a kind of question that the model "
            "cannot do: such things show here first. These are the extremes, not a sample."
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
    n = source.run.protocol.n_evaluated or 0
    ways = counted(len(source.levels), "way")
    methods = counted(len(source.run.metrics), "method")
    text = (
        f"{counted(n, 'question')} ({source.about}) were each asked in {ways}, called levels: prompts, samples or "
        f"models. {methods} of making one answer and one probability of these were evaluated."
    )
    unlabelled = n - source.n_labelled
    return f"{text} The right answer of {unlabelled:,} is not known; these are not scored." if unlabelled else text


def _held_out(source: ReportSource) -> str:
    n_fitted, n_folds = source.run.protocol.n_fitted, source.run.protocol.n_folds
    if n_folds is None:
        how = f"They were predicted from what had been learned from {counted(n_fitted or 0, 'other question')}"
    else:
        how = (
            f"The questions were dealt into {n_folds} parts, and each part was predicted from what had been learned "
            "from the others"
        )
    return f"{how}: no question was predicted by anything that had seen its right answer."


def _chart(source: ReportSource) -> Chart:
    confidence, correct, *_ = source.scores[source.method]
    bins = binned_reliability(confidence, correct, level=source.run.interval_level)
    dots = tuple(
        Dot(row["confidence"], row["right"], row["right_low"], row["right_high"], row["n"])
        for row in bins[bins["n"] > 0].to_dict("records")
    )
    level = percent(source.run.interval_level, 0)
    caption = (
        f"How often the answers of {spoken(source.method)} are right, by the probability given: on the dashed line "
        f"probabilities hold. Dots: held-out answers in ten ranges, larger for more; bars: {level} intervals."
    )
    return Chart(caption, dots)


def _threshold_table(source: ReportSource, answer: Answer) -> Table:
    level = percent(source.run.interval_level, 0)
    rows = tuple(
        (
            Cell(f"{percent(row['threshold'], 0)} or more"),
            Cell(percent(row["share"], 0), f"{row['n']:,}"),
            Cell(percent(row["right"]), f"{percent(row['low'], 0)} to {percent(row['high'], 0)}" if row["n"] else ""),
        )
        for row in answer.by_threshold.to_dict("records")
    )
    columns = (Column("accept answers given", holds="name"), Column("of all questions"), Column("right", level))
    note = "Each interval is for a threshold chosen beforehand. For a guarantee: `direag predict --target-accuracy`."
    return Table("Which answers to accept", columns, rows, note)


def _metric_table(source: ReportSource, names: Sequence[str], caption: str, note: str) -> Table:
    metrics = source.run.metrics.sort_values("benefit", ascending=False, kind="stable")
    best = {name: metrics[name].round(3).agg("max" if METRICS[name].more_is_better else "min") for name in names}
    columns = [Column("method", holds="name")]
    for name in names:
        columns.append(
            Column(METRICS[name].header, "more is better" if METRICS[name].more_is_better else "less is better")
        )
    columns.append(Column("n", "answered"))
    some_unanswered = bool(metrics["unanswered"].any())
    if some_unanswered:
        columns.append(Column("none", "no answer"))
        note += " n: answered questions; none: how many more had no answer."
    rows = []
    for row in metrics.to_dict("records"):
        cells = [Cell(row["method"])]
        for name in names:
            bounds = interval(row[f"{name}_low"], row[f"{name}_high"])
            cells.append(Cell(number(row[name]), bounds, "best" if round(row[name], 3) == best[name] else ""))
        cells.append(Cell(f"{row['n']:,}"))
        if some_unanswered:
            cells.append(Cell(f"{row['unanswered']:,}"))
        rows.append(tuple(cells))
    return Table(caption, tuple(columns), tuple(rows), note, "metrics.csv", focus=source.method)


def _difference_block(source: ReportSource, answer: Answer) -> Block:
    name, level = spoken(source.method), percent(source.run.interval_level, 0)
    if answer.differences.empty:
        return Paragraph(f"Nothing else was evaluated, so there is nothing to compare {name} with.", "note")
    rows = []
    for other, table in answer.differences.groupby("method", sort=False):
        by_metric = {row["metric"]: row for _, row in table.iterrows()}
        benefit, *_ = by_metric.values()
        cells = [
            Cell(number(row["difference"], signed=True), interval(row["low"], row["high"], signed=True))
            for row in by_metric.values()
        ]
        rows.append((Cell(str(other)), cells[0], _told(benefit), *cells[1:], Cell(f"{table['n'].iloc[0]:,}")))
    columns = (
        Column("against", holds="name"),
        Column("benefit", "above 0: better"),
        Column("so it is", holds="name"),
        Column("accuracy", "above 0: better"),
        Column("log score", "below 0: better"),
        Column("n", "labelled"),
    )
    note = (
        f"On the very same questions, with {level} intervals (paired bootstrap). “Not told apart”: these questions "
        "cannot tell the two apart in benefit, which does not make them equal. The log score can be compared where "
        "both methods state a distribution. Of many comparisons a few leave out 0 by chance; `direag tables` corrects "
        "for that."
    )
    source_of = "`direag report --json` prints them"
    return Table(f"How {name} differs from each other method", columns, tuple(rows), note, source_of)


def _told(row: pd.Series) -> Cell:
    if not is_told(row):
        return Cell("not told apart")
    return Cell("better", mark="fine") if row["difference"] > 0 else Cell("worse", mark="failure")


def _judged(said: float, low: float, high: float) -> Cell:
    if low <= said <= high:
        return Cell("too few to tell") if high - low > _WIDE else Cell("as stated", mark="fine")
    return Cell("too sure", mark="warning") if said > high else Cell("not sure enough", mark="warning")


def _question_table(source: ReportSource, caption: str, rows: pd.DataFrame) -> Table:
    questions = () if source.observations is None else source.observations.questions
    known = {question.problem_id: question for question in questions}
    asked = any(question.question for question in questions)
    columns = [Column("problem_id", holds="name"), Column("probability"), Column("answer", holds="name")]
    columns += [Column("right answer", holds="name")] if known else []
    columns += [Column("question", holds="prose")] if asked else []
    body = []
    for row in rows.to_dict("records"):
        judged = "not labelled" if pd.isna(row["correct"]) else "right" if row["correct"] else "wrong"
        cells = [Cell(row["problem_id"]), Cell(percent(row["confidence"])), Cell(_cut(row["answer"]), judged)]
        if known:
            cells.append(Cell(_cut(known[row["problem_id"]].gold_answer)))
        if asked:
            cells.append(Cell(_cut(known[row["problem_id"]].question)))
        body.append(tuple(cells))
    return Table(caption, tuple(columns), tuple(body), "", "predictions.csv")


def _explorer(source: ReportSource) -> Explorer:
    observations = source.observations
    place = {} if observations is None else {name: i for i, name in enumerate(observations.problem_id)}
    questions = []
    for row in source.predictions.to_dict("records"):
        one: dict[str, object] = {
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
            one |= {
                "gold": asked.gold_answer and _cut(asked.gold_answer),
                "text": asked.question and _cut(asked.question),
            }
            one["reports"] = [
                (level, _cut(observations.candidates[i][k]), round(float(stated), 4))
                for level, (k, stated) in enumerate(said)
                if k >= 0
            ]
        questions.append(one)
    named = None if observations is None else observations.groups or observations.level_names
    return Explorer(named or source.levels, tuple(questions))


def _cut(text: str | None) -> str:
    whole = " ".join((text or "not stated").split())
    return whole if len(whole) <= _TEXT_LENGTH else f"{whole[:_TEXT_LENGTH].rstrip()}…"
