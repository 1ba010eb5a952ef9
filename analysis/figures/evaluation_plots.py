"""Pictures of an evaluation: against the base rate, of the null state, and of what was stated.

Each function returns a figure of its own, to be written with :func:`~analysis.figures.style.save_figure`.
``about`` is a sentence for the caption that says what was evaluated and what was held out.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures.panels import forest, headed_figure, panel_grid, row_labels
from analysis.figures.style import REFERENCE, RIGHT, WRONG, figure_style
from analysis.scores.state_diagnostics import NULL_GROUPS, NullState

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP_LOOK = ((RIGHT, None), ("#56B4E9", "////"), (WRONG, "...."))


def benefit_figure(worth: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw benefit and accuracy of every method, in the order of the table.

    Parameters
    ----------
    worth
        From :func:`~analysis.scores.scoring.selection_table`.
    interval_level
        Of its intervals.
    """
    caption = (
        f"{about} n = {worth['n'].max()} labelled questions. Benefit: accuracy less Brier score of the selected "
        "answers; 1 is perfect, 0 is never answering. An unanswered question has no benefit, and counts as wrong. "
        f"Bars: {interval_level:.0%} bootstrap interval over questions; methods share their questions, so bars that "
        "overlap may still differ clearly."
    )
    with figure_style():
        figure = headed_figure("What the answers are worth, by method", caption, 0.9 + 0.27 * len(worth))
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, name, colour, marker in ((left, "benefit", RIGHT, "o"), (right, "accuracy_of_all", "#009E73", "s")):
            forest(
                axes,
                *(worth[f"{name}{end}"].to_numpy(float) for end in ("", "_low", "_high")),
                colour=colour,
                marker=marker,
            )
            axes.margins(x=0.08)
        row_labels(left, worth["method"].tolist())
        left.set_xlabel("benefit\n(more is better)")
        right.set_xlabel("accuracy\n(more is better)")
    return figure


def base_rate_figure(gains: pd.DataFrame, about: str, interval_level: float) -> "Figure":
    """Draw by how much every method beats the base rate, in Brier score and AUROC.

    Parameters
    ----------
    gains
        From :func:`~analysis.scores.state_diagnostics.base_rate_gains`.
    interval_level
        Of its intervals.
    """
    caption = (
        f"{about} {_answered(gains)} Base rate: every question gets the method's own accuracy (acc) as its "
        f"confidence; its Brier score is acc (1 - acc), its AUROC 0.5. Bars: {interval_level:.0%} bootstrap interval "
        "over questions. Filled: all of it is above 0."
    )
    with figure_style():
        figure = headed_figure("Gain over the base rate, by method", caption, 0.9 + 0.27 * len(gains))
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, name, colour, marker in ((left, "brier_gain", RIGHT, "o"), (right, "auroc_gain", "#009E73", "s")):
            value, low, high = (gains[f"{name}{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            axes.axvline(0, color="0.2", linewidth=1.2)
            forest(axes, value, low, high, colour=colour, marker=marker, hollow=~(low > 0))
            axes.margins(x=0.08)
        names = zip(gains["method"], gains["accuracy"], strict=True)
        row_labels(left, [f"{method}  (acc {accuracy:.2f})" for method, accuracy in names])
        left.set_xlabel("Brier score below the base rate's\n(right of 0 is better)")
        right.set_xlabel("AUROC above 0.5\n(right of 0 is better)")
    return figure


def null_state_figure(state: NullState, method: str, about: str) -> "Figure":
    """Draw the null probabilities where a right answer was selected, was there, and was not.

    Parameters
    ----------
    method
        Whose null probability it is.
    """
    level = f"{state.interval_level:.0%} interval"
    caption = (
        "Mean where no candidate is right, less the mean where one is: "
        f"{_with_interval(state.quantity('difference'), signed=True)}. AUROC, the chance that a question without a "
        f"right candidate has the higher null probability: {_with_interval(state.quantity('AUROC'))}.\n"
        f"{about} Method {method}, n = {len(state.questions)}. Black line, grey band, brackets: mean and its {level}, "
        "by bootstrap over questions."
    )
    values = state.questions["null_probability"].to_numpy()
    upper = min(1.0, np.ceil(values.max(initial=0.05) * 20) / 20)
    edges = np.linspace(0, upper, 31)
    with figure_style():
        figure = headed_figure("Null probability: is it higher where no candidate is right?", caption, 4.2)
        rows = figure.subplots(3, 1, sharex=True)
        for axes, name, (colour, hatch) in zip(rows, NULL_GROUPS, _GROUP_LOOK, strict=True):
            _null_histogram(axes, state, name, edges, colour, hatch)
        rows[1].set_ylabel("share of the questions (%)")
        rows[-1].set_xlabel("null_probability: held-out probability that no candidate is right")
    return figure


def stated_confidence_figure(stated: pd.DataFrame, about: str) -> "Figure":
    """Draw by level which confidences were stated, and how many of the answers behind them were right.

    Parameters
    ----------
    stated
        From :func:`~analysis.labelled_reports.stated_confidences`.
    """
    names = stated["level"].unique().tolist()
    caption = (
        f"{about} Each level's own answer, right or wrong. Bars are 5 points wide and hold their upper edge: 95% is in "
        "90 to 95; the first also holds 0. n: usable reports."
    )
    n_columns = 3 if len(names) > 4 else 2
    with figure_style():
        figure = headed_figure(
            "Stated confidence by level, and whether that answer was right",
            caption,
            0.7 + 1.55 * -(-len(names) // n_columns),
        )
        by_level = {name: stated[stated["level"] == name] for name in names}
        titles = []
        for name, rows in by_level.items():
            right, n = int(rows["right"].sum()), int((rows["right"] + rows["wrong"]).sum())
            titles.append((name, f"n = {n}" + (f", {right / n:.0%} right" if n else "")))
        panels = panel_grid(figure, titles, n_columns, x_label="stated (%)", y_label="answers")
        for axes, rows in zip(panels, by_level.values(), strict=True):
            place = (rows["low"] + rows["high"]) / 2
            axes.bar(place, rows["right"], width=4.4, color=RIGHT, label="right")
            axes.bar(
                place, rows["wrong"], width=4.4, bottom=rows["right"], color="white", edgecolor=WRONG, hatch="////",
                linewidth=0.6, label="wrong",
            )  # fmt: skip
        panels[0].set(xlim=(0, 100), xticks=[0, 50, 100])
        panels[0].legend(loc="upper left", handlelength=1.2, borderaxespad=0.1)
    return figure


def _null_histogram(
    axes: "Axes", state: NullState, name: str, edges: np.ndarray, colour: str, hatch: str | None
) -> None:
    probability = state.questions.loc[state.questions["group"] == name, "null_probability"].to_numpy()
    row = state.quantity(name)
    axes.set_title(f"{name}: n = {len(probability)}, mean {_with_interval(row)}", fontsize=10)
    if not len(probability):
        return
    share = 100 * np.histogram(probability, edges)[0] / len(probability)
    face = colour if hatch is None else "white"
    axes.bar(edges[:-1], share, np.diff(edges), align="edge", color=face, edgecolor=colour, hatch=hatch, linewidth=0.6)
    axes.axvspan(row["low"], row["high"], color=REFERENCE, alpha=0.45, linewidth=0)
    axes.axvline(row["value"], color="black", linewidth=1.5)


def _with_interval(row: pd.Series, *, signed: bool = False) -> str:
    form = "+.3f" if signed else ".3f"
    if np.isnan(row["value"]):
        return "undefined"
    return f"{row['value']:{form}} [{row['low']:{form}}, {row['high']:{form}}]"


def _answered(table: pd.DataFrame) -> str:
    """Say how many questions the methods have answered, and which left some out."""
    counts = table["n"].unique()
    if len(counts) == 1 and not table["unanswered"].any():
        return f"n = {counts[0]}."
    most = table["n"].max()
    fewer = table[table["n"] < most]
    left = ", ".join(f"{method} {n}" for method, n in zip(fewer["method"], fewer["n"], strict=True))
    return f"n = {most} answered questions" + (f", but {left}." if left else ".")
