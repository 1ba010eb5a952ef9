"""Curves of selective prediction: what is left of the errors when the least sure questions go unanswered."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from analysis.figures.panels import headed_figure, panel_grid
from analysis.figures.style import REFERENCE, RIGHT, figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["risk-coverage", "accuracy-rejection"]

#: With so few distinct confidences, each that a threshold can stop at is marked.
_FEW = 25


def selective_figure(
    curves: dict[str, pd.DataFrame], summary: pd.DataFrame, about: str, interval_level: float, *, kind: Kind
) -> "Figure":
    """Draw the curve of every method in a panel of its own, the others in grey behind it.

    Parameters
    ----------
    curves
        By method, from :func:`~analysis.scores.selective.risk_coverage`.
    summary
        From :func:`~analysis.scores.selective.selective_table`.
    interval_level
        Of the intervals in the summary.
    kind
        Errors against the share answered, or accuracy against the share left unanswered: one is the other mirrored.
    """
    risk = kind == "risk-coverage"
    title = (
        "Risk against coverage: errors among the surest questions"
        if risk
        else "Accuracy against rejection: leaving out the least sure questions"
    )
    caption = (
        f"{about} Questions are taken in order of confidence; within a tie, every order counts alike. Grey: the other "
        "methods. Dotted: the best order there is for the method's own answers. AURC: mean error over all coverages, "
        f"less is better, with its {interval_level:.0%} bootstrap interval over questions; excess: above that best "
        "order. Dots: where a threshold can stop, if there are few. n: answered, labelled questions."
    )
    rows = summary.to_dict("records")
    titles = [
        (f"{row['method']}, n = {row['n']}", _areas(row["aurc"], row["aurc_low"], row["aurc_high"], row["excess_aurc"]))
        for row in rows
    ]
    with figure_style():
        figure = headed_figure(title, caption, 0.5 + 1.9 * -(-len(titles) // 3))
        panels = panel_grid(
            figure,
            titles,
            3,
            x_label="answered (%)" if risk else "left out (%)",
            y_label="errors (%)" if risk else "accuracy (%)",
        )
        for axes, row in zip(panels, rows, strict=True):
            method = row["method"]
            for other in curves:
                if other != method:
                    axes.plot(*_line(curves[other], risk), color="0.82", linewidth=0.9)
            _draw_curve(axes, curves[method], risk)
        seen = pd.concat(curves.values())
        worst = seen.loc[seen["coverage"] >= 0.1, "risk"].max()
        reach = min(100.0, 110 * max(worst, 0.02))
        panels[0].set(xlim=(0, 100), xticks=[0, 50, 100], ylim=(0, reach) if risk else (100 - reach, 100))
    return figure


def _draw_curve(axes: "Axes", curve: pd.DataFrame, risk: bool) -> None:
    if curve.empty:
        return
    n, n_wrong = len(curve), round(float(curve["risk"].iloc[-1]) * len(curve))
    best = np.maximum(0, curve["accepted"] - (n - n_wrong)) / curve["accepted"]
    axes.plot(*_line(curve.assign(risk=best), risk), color=REFERENCE, linewidth=1.4, linestyle=":")
    axes.plot(*_line(curve, risk), color=RIGHT, linewidth=2)
    stops = curve[curve["attainable"]]
    if len(stops) <= _FEW:
        axes.plot(*_line(stops, risk), "o", color=RIGHT, markersize=4)


def _line(curve: pd.DataFrame, risk: bool) -> tuple[pd.Series, pd.Series]:
    """Return x and y in percent."""
    if risk:
        return 100 * curve["coverage"], 100 * curve["risk"]
    return 100 * (1 - curve["coverage"]), 100 * (1 - curve["risk"])


def _areas(value: float, low: float, high: float, excess: float) -> str:
    if np.isnan(value):
        return "AURC undefined"
    return f"AURC {_short(value)} [{_short(low)}, {_short(high)}]\nexcess {_short(excess)}"


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")
