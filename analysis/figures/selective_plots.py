"""Curves of selective prediction: what is left of the errors when the least sure questions go unanswered."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.figures.panels import headed_figure
from analysis.figures.style import RIGHT, WRONG, figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (RIGHT, WRONG, "#009E73")
#: With so few distinct confidences, each that a threshold can stop at is marked.
_FEW = 25


def selective_figure(
    curves: dict[str, pd.DataFrame], summary: pd.DataFrame, about: str, interval_level: float
) -> "Figure":
    """Draw errors against the share answered: three methods in colour, DirEAG and those of least area, the others grey.

    Parameters
    ----------
    curves
        By method, from :func:`~analysis.scores.selective.risk_coverage`.
    summary
        From :func:`~analysis.scores.selective.selective_table`.
    interval_level
        Of the intervals in the summary.
    """
    defined = summary.dropna(subset=["aurc"])
    first = defined.assign(other=defined["method"] != "direag").sort_values(["other", "aurc"], kind="stable")
    shown = first.head(len(_COLOURS)).sort_values("aurc")
    caption = (
        f"{about} Questions are taken in order of confidence; within a tie, every order counts alike. AURC: mean error "
        f"over all shares answered, less is better, with its {interval_level:.0%} bootstrap interval over questions; "
        "excess: above that of the best order of the same answers. Dots: where a threshold can stop, if there are few. "
        f"{'Grey: other methods. ' if len(defined) > len(shown) else ''}n: answered, labelled questions."
    )
    with figure_style():
        figure = headed_figure("Errors among the surest questions", caption, 2.9)
        axes = figure.subplots()
        for method in defined["method"][~defined["method"].isin(shown["method"])]:
            axes.plot(100 * curves[method]["coverage"], 100 * curves[method]["risk"], color="0.82", linewidth=0.9)
        for colour, row in zip(_COLOURS, shown.to_dict("records"), strict=False):
            curve = curves[row["method"]]
            stops = np.flatnonzero(curve["attainable"])
            axes.plot(
                100 * curve["coverage"],
                100 * curve["risk"],
                color=colour,
                linewidth=2,
                marker="o" if len(stops) <= _FEW else None,
                markersize=4,
                markevery=stops.tolist(),
                label=f"{row['method']}, n = {row['n']}: AURC {row['aurc']:.3f} "
                f"[{row['aurc_low']:.3f}, {row['aurc_high']:.3f}], excess {row['excess_aurc']:.3f}",
            )
        seen = pd.concat(curves.values())
        worst = seen.loc[seen["coverage"] >= 0.1, "risk"].max()
        reach = 100.0 if np.isnan(worst) else min(100.0, 110 * max(worst, 0.02))
        axes.set(xlim=(0, 100), ylim=(0, reach), xlabel="answered (%)", ylabel="errors (%)")
        if len(shown):
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
    return figure
