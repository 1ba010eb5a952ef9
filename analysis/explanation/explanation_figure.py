"""An explanation as a picture: a bar a state, made of what each report, the prior and the null's base add to it."""

from typing import TYPE_CHECKING

import numpy as np

from analysis.display.numbers import counted, probability, shortened
from analysis.display.style import REFERENCE, figure_style, headed_figure, plain
from analysis.explanation.explanation import Explanation
from analysis.explanation.explanation_text import NULL, quoted, what_decided

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
#: Columns of the key: where texts begin and numbers end, in units of the axis above; left of 0 is below its labels.
_TEXTS = {"": -0.22, "level": -0.185, "answer": 0.22}
_NUMBERS = {"says": 0.54, "counts as": 0.67, "weight share": 0.82, "without it": 1.0}


def explanation_figure(explanation: Explanation) -> "Figure":
    """Draw the support of every state as a stacked bar, and above them the final probability with its interval.

    A segment is what one source adds to the support, so a bar ends at the support of its state. The numbers in the
    segments lead to the key below; a segment too narrow for its number stands in the order of the key.
    """
    bars = _AROUND + _ROW * (len(explanation.states) + 1)
    key = _KEY_LINE * (len(explanation.reports) + 1.5)
    with figure_style():
        figure = headed_figure(_title(explanation), _caption(explanation), bars + key, width=7.4)
        upper, lower = figure.subplots(2, 1, height_ratios=[bars, key])
        _draw_states(upper, explanation)
        _draw_key(lower, explanation)
    return figure


def _title(explanation: Explanation) -> str:
    if explanation.answer is None:
        return f"{explanation.problem_id}: unanswered"
    confidence = probability(explanation.confidence)
    return f"{explanation.problem_id}: why {quoted(explanation.answer)}, with probability {confidence}?"


def _caption(explanation: Explanation) -> str:
    n, n_levels = len(explanation.reports), len(explanation.reports) + len(explanation.unusable)
    sentences = [f"Support: how probable a state is, prior included. {n} of {n_levels} levels have a usable report."]
    if n:
        sentences.append(
            "Counts as: its stated confidence after calibration. Weight share: its level's, in the weight of all. "
            "Without it: the probability of the answer without this report."
        )
    if explanation.n_samples > 1:
        level = f"{explanation.interval_level:.0%}"
        sentences.append(f"Means over {explanation.n_samples} posterior draws; lines: {level} intervals.")
    seen = {True: "this one among them", False: "not this one", None: "and does not say whether from this one"}[
        explanation.learned_from
    ]
    sentences.append(f"The fit learned from {counted(explanation.n_fitted, 'question')}, {seen}.")
    return f"{what_decided(explanation)}\n{' '.join(sentences)}"


def _draw_states(axes: "Axes", explanation: Explanation) -> None:
    labels = []
    for row, state in enumerate(explanation.states.to_dict("records")):
        null = not isinstance(state["answer"], str)
        labels.append(NULL if null else shortened(state["answer"], 22))
        _draw_bar(axes, explanation, row)
        _draw_interval(axes, row + _BELOW, state["support_low"], state["support_high"])
        _write(axes, row, state["support"], state["support"])
    rows = list(range(len(labels)))
    if explanation.answer is not None:
        _draw_probability(axes, explanation)
        rows, labels = [-1, *rows], [f"{shortened(explanation.answer, 14)} is right", *labels]
        axes.axhline(-0.5, color=REFERENCE, linewidth=0.6)
    axes.set_yticks(rows, [plain(label) for label in labels])
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
    axes.hlines(row, low, high, color="black", linewidth=1.2)
    axes.plot([low, high], [row, row], "|", color="black", markersize=5)


def _draw_probability(axes: "Axes", explanation: Explanation) -> None:
    confidence = explanation.confidence
    way = {"arrowstyle": "-", "color": REFERENCE, "linestyle": ":", "linewidth": 1}
    axes.annotate("", (confidence, -1), (explanation.support, -_THICKNESS / 2), arrowprops=way)
    axes.plot([confidence], [-1], "D", color="black", markersize=7, zorder=3, clip_on=False)
    _draw_interval(axes, -1.0, explanation.confidence_low, explanation.confidence_high)
    _write(axes, -1, confidence, np.fmax(confidence + 0.01, explanation.confidence_high))


def _write(axes: "Axes", row: int, value: float, end: float) -> None:
    axes.text(end + 0.012, row, probability(value), va="center", fontsize=9)


def _add_legend(axes: "Axes", explanation: Explanation) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    names = {"prior": "prior", "null_base": "null's base"}
    diamond = []
    if explanation.answer is not None:
        answer = plain(shortened(explanation.answer, 12))
        names = {"for": f"reports for {answer}", "against": "other reports", **names}
        diamond = [Line2D([], [], marker="D", color="black", linestyle="", label="final probability")]
    patches = []
    for source, label in names.items():
        face, hatch, _ = _LOOKS[source]
        patches.append(Patch(facecolor=face, hatch=hatch, edgecolor=REFERENCE if hatch else "white", label=label))
    axes.legend(
        handles=[*diamond, *patches],
        ncols=5,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.4,
    )


def _draw_key(axes: "Axes", explanation: Explanation) -> None:
    axes.set_axis_off()
    rows = [
        (
            str(report["number"]),
            shortened(report["level"], 34),
            shortened(report["answer"], 22),
            f"{100 * report['stated']:g}%",
            f"{100 * report['calibrated']:.0f}%",
            f"{report['weight_share']:.2f}",
            _without(report["answer_without"], report["confidence_without"], explanation.answer),
        )
        for report in explanation.reports.to_dict("records")
    ]
    columns = _TEXTS | _NUMBERS
    lines = [tuple(columns), *rows] if rows else []
    for line, cells in enumerate(lines):
        for cell, (header, place) in zip(cells, columns.items(), strict=True):
            side = "left" if header in _TEXTS else "right"
            axes.text(place, line, plain(cell), ha=side, va="center", fontsize=8, color="black" if line else "0.35")
    axes.set_xlim(0, 1)
    axes.set_ylim(max(len(lines), 1) - 0.5, -0.5)


def _without(answer: str | float, confidence: float, selected: str | None) -> str:
    other = "" if answer == selected or not isinstance(answer, str) else f"{shortened(answer, 10)}, "
    return f"{other}{probability(confidence)}"
