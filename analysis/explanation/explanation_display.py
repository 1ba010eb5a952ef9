"""An explanation as text, as tables for a terminal of 80 columns, and as a picture.

The picture has a bar for each state, with the parts of each report, the prior and the null's base.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.document import Block, Cell, Column, Paragraph, Record, Table, Terms
from analysis.display.style import REFERENCE, figure_style, headed_figure, without_formulas
from analysis.display.text import counted, number, probability, shortened
from analysis.explanation.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SHOWN_RIVALS, _SHOWN_LEVELS = 2, 3
_LONGEST_ANSWER, _LONGEST_QUESTION = 24, 300
_SOURCES = {"report": "what the reports lack of certainty", "prior": "the prior", "null_base": "the null's base"}


def what_decided(explanation: Explanation) -> str:
    """Say which reports are for and against the answer, and what happens without one of them."""
    if explanation.answer is None:
        return "No report can be used, so no answer is selected and the null holds all the support."
    clauses = [_for(explanation), *_against(explanation)]
    others = (_null(explanation), _one_report_less(explanation), explanation.few_reports)
    return " ".join(filter(None, [f"{'; '.join(clauses)}.", *others]))


def quoted(answer: str) -> str:
    """Return an answer for use in a sentence: shortened, and in quotation marks if it has several words."""
    short = shortened(answer, _LONGEST_ANSWER)
    return f'"{short}"' if " " in short else short


def _for(explanation: Explanation) -> str:
    reports, states = explanation.reports, explanation.states
    supporters = reports[reports["answer"] == explanation.answer]
    n, is_single = len(reports), len(supporters) == 1
    verb = "says" if is_single else "say"
    outvoted = bool((states["n_reports"].iloc[1:-1] > len(supporters)).any())
    who = f"{len(supporters)} of {n} reports {verb}"
    if len(supporters) == n:
        who = "The only report says" if is_single else f"All {n} reports say"
    link = f"{', but' if outvoted else ' and'} {'brings' if is_single else 'bring'} it to a support of"
    said = f"{'Only ' if outvoted else ''}{who} {quoted(explanation.answer or '')}{link}"
    return f"{said} {probability(explanation.support)}"


def _against(explanation: Explanation) -> list[str]:
    """Name the rivals by falling support; those with more reports than the selected answer come first."""
    reports, states = explanation.reports, explanation.states
    rivals = states.iloc[1:-1]
    outvotes = rivals["n_reports"].where(rivals["n_reports"] > states["n_reports"].iloc[0], 0)
    rivals = rivals.loc[outvotes.sort_values(ascending=False, kind="stable").index]
    clauses = []
    for rival in rivals.head(_SHOWN_RIVALS).to_dict("records"):
        supporters = reports[reports["answer"] == rival["answer"]]
        who = f"{supporters['level'].iloc[0]!r} says" if len(supporters) == 1 else f"{len(supporters)} say"
        clauses.append(f"{who} {quoted(rival['answer'])} ({probability(rival['support'])})")
    rest = rivals.iloc[_SHOWN_RIVALS:]
    if len(rest):
        more = "one more answer has" if len(rest) == 1 else f"{len(rest)} more answers share"
        clauses.append(f"{more} {probability(rest['support'].sum())}")
    return clauses


def _null(explanation: Explanation) -> str:
    null = explanation.states.iloc[-1]
    if null["support"] <= explanation.support:
        return ""
    given = explanation.parts[explanation.parts["state"] == len(explanation.states) - 1]
    chief = _SOURCES[str(given.groupby("source")["support"].sum().idxmax())]
    return (
        f"The null, 'no candidate is right', has more support ({probability(null['support'])}), chiefly from {chief}; "
        f"{quoted(explanation.answer or '')} is only the best of the candidates."
    )


def _one_report_less(explanation: Explanation) -> str:
    reports = explanation.reports
    if len(reports) < 2:
        return ""
    flips = reports[reports["answer_without"] != explanation.answer]
    if len(flips) == 1:
        report = flips.iloc[0]
        return (
            f"{report['level']!r} decides: without it the answer would be {quoted(report['answer_without'])}, with a "
            f"probability of {probability(report['confidence_without'])}."
        )
    if len(flips):
        more = len(flips) - _SHOWN_LEVELS
        named = ", ".join(map(repr, flips["level"].head(_SHOWN_LEVELS))) + (f" and {more} more" if more > 0 else "")
        return f"Take away any one of {named}, and the answer changes."
    start = "No single report decides: without any one of them the answer stays"
    values = reports["confidence_without"]
    low, high = (reports.iloc[int(place)] for place in (values.argmin(), values.argmax()))
    least, most = probability(low["confidence_without"]), probability(high["confidence_without"])
    if least == most:
        return f"{start}, and so does its probability."
    between = f"{least} (without {low['level']!r}) and {most} (without {high['level']!r})"
    return f"{start}, with a probability between {between}."


NULL = "no candidate is right"


def explanation_blocks(explanation: Explanation) -> Iterator[Block]:
    """Yield the answer, the reasons, and tables of the reports, the states and the final calibration."""
    yield Paragraph(_headline(explanation))
    yield Paragraph(what_decided(explanation))
    yield from _tables_of_reports(explanation, with_agreement=bool(explanation.reports["agreement"].notna().any()))
    if len(explanation.unusable):
        yield _unusable_table(explanation)
    yield _states_table(explanation)
    yield Terms("", tuple(_final_rows(explanation)))


def _headline(explanation: Explanation) -> str:
    answer = "unanswered" if explanation.answer is None else shortened(explanation.answer, 60)
    line = f"{explanation.problem_id}: {answer}"
    if explanation.answer is not None:
        line += f", right with probability {probability(explanation.confidence)}"
        if explanation.n_samples > 1:
            low, high = probability(explanation.confidence_low), probability(explanation.confidence_high)
            line += f" ({explanation.interval_level:.0%} interval {low} to {high})"
    return f"{line}\n{shortened(explanation.question, _LONGEST_QUESTION)}" if explanation.question else line


def _tables_of_reports(explanation: Explanation, *, with_agreement: bool) -> Iterator[Table]:
    """Yield the table of the reports, if there are any."""
    if not len(explanation.reports):
        return
    decimals = _decimals(explanation)

    def without(row: Record) -> Cell:
        shown = probability(row["confidence_without"])
        if row["answer_without"] == explanation.answer:
            return Cell(shown)
        other = row["answer_without"] if isinstance(row["answer_without"], str) else "unanswered"
        return Cell(shortened(other, 10), shown, ("best",))

    n_levels = len(explanation.reports) + len(explanation.unusable)
    caption = (
        "says: stated confidence. counts as: the same after calibration. evidence: weight x what it counts as, for its "
        "answer. to null: null_gain x weight x the rest."
    )
    if _has_votes(explanation):
        caption += " vote: by how much it multiplies the odds of its answer as well."
    caption += " without it: the probability of the answer without this report, and that answer if it is another."
    if with_agreement:
        caption += " agrees: how often its level agrees with most others, over all questions, and would by chance."
    if explanation.n_samples > 1:
        caption += f"\nBelow a mean over the draws: its {explanation.interval_level:.0%} interval."
    yield Table.of(
        f"What each report gave ({len(explanation.reports)} usable of {n_levels} levels)",
        explanation.reports.to_dict("records"),
        {
            Column("", holds="name"): lambda row: str(row["number"]),
            Column("level", holds="name"): lambda row: row["level"],
            Column("answer", holds="name"): lambda row: shortened(row["answer"], 16),
            Column("says"): lambda row: "\n".join(_stated_signals(row)),
            Column("counts\nas"): lambda row: _posterior_cell(row, "calibrated", "{:.0%}".format),
            Column("weight"): lambda row: number(row["weight"], decimals),
            Column("evidence"): lambda row: number(row["evidence"], decimals),
            Column("to\nnull"): lambda row: number(row["null_evidence"], decimals),
            **({Column("vote"): _factor("vote_factor")} if _has_votes(explanation) else {}),
            Column("without\nit"): without,
            **({Column("agrees\n(by chance)"): _agreement} if with_agreement else {}),
        },
        caption,
    )


def _agreement(row: Record) -> str:
    share, by_chance = row["agreement"], row["chance_agreement"]
    return "" if math.isnan(share) else f"{share:.0%} ({by_chance:.0%})"


def _unusable_table(explanation: Explanation) -> Table:
    return Table.of(
        "Not used",
        explanation.unusable.to_dict("records"),
        {
            Column("", holds="name"): lambda row: str(row["number"]),
            Column("level", holds="name"): lambda row: row["level"],
            Column("not used because", holds="name"): lambda row: row["reason"],
            Column("answer as given", holds="name"): lambda row: (
                "" if pd.isna(row["answer"]) else shortened(row["answer"], 30)
            ),
            Column("says"): lambda row: _stated(row["stated"]),
        },
    )


def _states_table(explanation: Explanation) -> Table:
    decimals = _decimals(explanation)

    def figure(name: str) -> Callable[[Record], str]:
        return lambda row: number(row[name], decimals)

    caption = (
        f"prior: prior_strength, shared evenly. base: null_base. support: the share of {_product(explanation)} in that "
        "of all states. The candidate with the most is selected, never the null. Only ratios of sums mean "
        "something; their common scale is the preset's."
    )
    if explanation.n_samples > 1:
        caption += (
            f"\nMeans over {explanation.n_samples} posterior draws. The sums hold in every draw, and so for the means; "
            "support is the mean of each draw's ratio, not the ratio of the means."
        )
    return Table.of(
        "What every state got",
        explanation.states.to_dict("records"),
        {
            Column("state", holds="name"): lambda row: Cell(
                _answer_or_null(row["answer"], 22), marks=("best",) if row["selected"] else ()
            ),
            Column("reports"): lambda row: "" if pd.isna(row["answer"]) else str(row["n_reports"]),
            Column("evidence"): figure("evidence"),
            Column("+ prior"): figure("prior"),
            Column("+ base"): figure("null_base"),
            Column("= sum"): figure("concentration"),
            **{Column(header): _factor(name) for name, header in _multiplied(explanation).items()},
            Column("support"): lambda row: _posterior_cell(row, "support"),
        },
        caption,
    )


def _multiplied(explanation: Explanation) -> dict[str, str]:
    """Return the columns of the states, by header, that lead from the sum to the support; empty if it is a share."""
    headers = {} if explanation.sharpness == 1 else {"sharpened": f"sum^{explanation.sharpness:.2f}"}
    return headers | ({"vote_factor": "x votes"} if _has_votes(explanation) else {})


def _has_votes(explanation: Explanation) -> bool:
    return bool((explanation.reports["vote_factor"] != 1).any())


def _product(explanation: Explanation) -> str:
    """Say of what support is the share."""
    headers = _multiplied(explanation)
    return " ".join([*([] if "sharpened" in headers else ["sum"]), *headers.values()])


def _factor(name: str) -> Callable[[Record], str]:
    """Return what shows a column with two decimals, or three digits of large numbers."""
    return lambda row: f"{row[name]:.2f}" if row[name] < 100 else f"{row[name]:.3g}"


def _final_rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    if explanation.answer is not None:
        yield "probability", _recalibration(explanation)
    if not math.isnan(explanation.change_probability):
        yield "another answer", f"leads in {explanation.change_probability:.1%} of the draws"
    this = "; a question of this name among them, so it is not new to the fit" if explanation.learned_from else ""
    yield "the fit", f"learned from {counted(explanation.n_fitted, 'question')}{this}"
    if explanation.level_remarks:
        yield "its levels", "\n".join(explanation.level_remarks)
    if explanation.labelled:
        yield "right answer", _gold(explanation)


def _recalibration(explanation: Explanation) -> str:
    if explanation.recalibration == "none":
        return "the support itself; this fit has no recalibration"
    intercept, slope = explanation.calibration["coefficient"]
    averaged = "" if explanation.n_samples == 1 else ", averaged over the draws (the numbers named are means)"
    score = explanation.calibration["value"].iloc[-1]
    terms = f"{intercept:.3f} + {slope:.3f} x logit of the support, {score:.3f}"
    return f"{explanation.confidence:.3f} = sigmoid({terms}){averaged}"


def _gold(explanation: Explanation) -> str:
    """Return the right answer, by gold answer or flags, and whether it was selected."""
    right = explanation.states.loc[explanation.states["right"], "answer"]
    gold = explanation.gold_answer or ", ".join(_answer_or_null(answer, 24) for answer in right)
    verdict = {True: "the selected one is right", False: "the selected one is wrong", None: "nothing is selected"}
    return f"{shortened(gold, 60)}; {verdict[explanation.correct]}. Not used for anything above."


def _answer_or_null(answer: str | float, width: int) -> str:
    """Return a cell of an answer column; a missing answer is the null."""
    return shortened(answer, width) if isinstance(answer, str) else NULL


def _posterior_cell(row: Record, name: str, form: Callable[[float], str] = "{:.2f}".format) -> Cell:
    """Return a mean, with its interval below if there are several draws."""
    mean, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return Cell(form(mean), "" if math.isnan(low) else f"{form(low)}\N{EN DASH}{form(high)}")


def _stated_signals(row: Record) -> Iterator[str]:
    for name, stated in row.items():
        if str(name).startswith("stated") and (name == "stated" or not math.isnan(stated)):
            yield " ".join(filter(None, [str(name).removeprefix("stated").removeprefix("_"), _stated(stated)]))


def _stated(stated: float) -> str:
    return "" if math.isnan(stated) else f"{100 * stated:g}%"


def _decimals(explanation: Explanation) -> int:
    """Return the number of decimals of concentrations."""
    return 2 if explanation.states["concentration"].sum() < 100 else 1


#: Face colour, hatch, and colour of the number, by what a segment comes from; their lightness differs too.
_LOOKS = {
    "for": ("#00664C", "", "white"),
    "against": ("#F0B43C", "", "black"),
    "prior": ("#DCDCDC", "////", ""),
    "null_base": ("#8C8C8C", "xxxx", ""),
}
_ROW, _KEY_LINE, _AROUND = 0.34, 0.19, 1.05  # inches: a bar, a line of the key, the axis and the legend
_THICKNESS, _BELOW = 0.62, 0.4  # of a row: a bar, and how far below its middle the interval stands
_NARROWEST_NUMBERED = 0.025
#: Where the key begins, in units of the axis above, whose labels are left of 0; and the width of a letter.
_LEFT, _LETTER = -0.22, 0.0125
_LONGEST_IN_KEY = 34


def explanation_figure(explanation: Explanation) -> "Figure":
    """Draw the support of every state as a bar of its parts, and above them the final probability with its interval.

    The numbers in the segments lead to the key below; a segment too narrow for a number stands in the order of the key.
    """
    tables = [*_tables_of_reports(explanation, with_agreement=False), _states_table(explanation)]
    bars = _AROUND + _ROW * (len(explanation.states) + 1)
    key = _KEY_LINE * (len(explanation.reports) + len(explanation.states) + 4)
    with figure_style():
        figure = headed_figure(_figure_title(explanation), _caption(explanation, tables), bars + key, width=7.4)
        upper, lower = figure.subplots(2, 1, height_ratios=[bars, key])
        _draw_states(upper, explanation)
        _draw_key(lower, tables)
    return figure


def _figure_title(explanation: Explanation) -> str:
    if explanation.answer is None:
        return f"{explanation.problem_id}: unanswered"
    confidence = probability(explanation.confidence)
    return f"{explanation.problem_id}: why {quoted(explanation.answer)}, with probability {confidence}?"


def _caption(explanation: Explanation, tables: Sequence[Table]) -> str:
    this = "this one among them" if explanation.learned_from else "not this one"
    fitted = f"A bar is divided like its sum. The fit learned from {counted(explanation.n_fitted, 'question')}, {this}."
    return "\n".join([what_decided(explanation), " ".join([*(table.note for table in tables), fitted])])


def _draw_states(axes: "Axes", explanation: Explanation) -> None:
    labels = []
    for row, state in enumerate(explanation.states.to_dict("records")):
        labels.append(_answer_or_null(state["answer"], 22))
        _draw_bar(axes, explanation, row)
        _draw_interval(axes, row + _BELOW, state["support_low"], state["support_high"])
        axes.text(state["support"] + 0.012, row, probability(state["support"]), va="center", fontsize=9)
    rows = list(range(len(labels)))
    if explanation.answer is not None:
        _draw_probability(axes, explanation)
        rows, labels = [-1, *rows], [f"{shortened(explanation.answer, 14)} is right", *labels]
        axes.axhline(-0.5, color=REFERENCE, linewidth=0.6)
    axes.set_yticks(rows, [without_formulas(label) for label in labels])
    axes.set_ylim(rows[-1] + 0.5, rows[0] - 0.5)
    axes.set_xlim(0, 1)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("support (bars), probability (diamond)")
    _add_legend(axes, explanation)


def _draw_bar(axes: "Axes", explanation: Explanation, row: int) -> None:
    left = 0.0
    for part in explanation.parts[explanation.parts["state"] == row].to_dict("records"):
        source, report, width = part["source"], part["report"], part["support"]
        if source == "report":
            source = "for" if explanation.reports["answer"].iloc[report] == explanation.answer else "against"
        face, hatch, ink = _LOOKS[source]
        edge = REFERENCE if hatch else "white"
        axes.barh(row, width, _THICKNESS, left=left, facecolor=face, hatch=hatch, edgecolor=edge, linewidth=0.4)
        if ink and width >= _NARROWEST_NUMBERED:
            number = str(explanation.reports["number"].iloc[report])
            axes.text(left + width / 2, row, number, ha="center", va="center", fontsize=8, color=ink)
        left += width


def _draw_interval(axes: "Axes", row: float, low: float, high: float) -> None:
    axes.plot([low, high], [row, row], "|-", color="black", linewidth=1.2, markersize=5)


def _draw_probability(axes: "Axes", explanation: Explanation) -> None:
    confidence = explanation.confidence
    way = {"arrowstyle": "-", "color": REFERENCE, "linestyle": ":", "linewidth": 1}
    axes.annotate("", (confidence, -1), (explanation.support, -_THICKNESS / 2), arrowprops=way)
    axes.plot([confidence], [-1], "D", color="black", markersize=7, zorder=3, clip_on=False)
    _draw_interval(axes, -1.0, explanation.confidence_low, explanation.confidence_high)
    end = np.fmax(confidence + 0.01, explanation.confidence_high) + 0.012
    axes.text(end, -1, probability(confidence), va="center", fontsize=9)


def _add_legend(axes: "Axes", explanation: Explanation) -> None:
    from matplotlib.artist import Artist
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names, handles = {"prior": "prior", "null_base": "null's base"}, list[Artist]()
    if explanation.answer is not None:
        answer = without_formulas(shortened(explanation.answer, 12))
        names = {"for": f"reports for {answer}", "against": "other reports", **names}
        handles.append(Line2D([], [], marker="D", color="black", linestyle="", label="final probability"))
    for source, label in names.items():
        face, hatch, _ = _LOOKS[source]
        handles.append(Patch(facecolor=face, hatch=hatch, edgecolor=REFERENCE if hatch else "white", label=label))
    spacing = {"borderaxespad": 0.2, "columnspacing": 1.2, "handlelength": 1.4}
    axes.legend(handles=handles, ncols=5, loc="lower right", bbox_to_anchor=(1, 1), **spacing)


def _draw_key(axes: "Axes", tables: Sequence[Table]) -> None:
    """Draw the tables of the reports and the states, without intervals."""
    axes.set_axis_off()
    line = 0
    for table in tables:
        headers = [column.header.replace("\n", " ") for column in table.columns]
        rows = [[shortened(cell.text.replace("\n", " "), _LONGEST_IN_KEY) for cell in row] for row in table.rows]
        by_column = list(zip(headers, *rows, strict=True))
        widths = [max(map(len, cells)) + 2 for cells in by_column]
        letter = min(_LETTER, (1 - _LEFT) / sum(widths))
        size, ends = 8 * letter / _LETTER, _LEFT + letter * np.cumsum([0, *widths])
        for column, cells, start, end in zip(table.columns, by_column, ends[:-1], ends[1:], strict=True):
            side, at = ("left", start) if column.holds == "name" else ("right", end - 2 * letter)
            for place, cell in enumerate(cells):
                shade = "black" if place else "0.35"
                axes.text(at, line + place, without_formulas(cell), ha=side, va="center", fontsize=size, color=shade)
        line += len(rows) + 2
    axes.set_xlim(0, 1)
    axes.set_ylim(line - 1.5, -0.5)
