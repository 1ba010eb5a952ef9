"""What a policy costs and is worth beside fixed ways of asking, as a picture."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.display.style import MARKERS, REFERENCE, RIGHT, WRONG, figure_style, headed_figure
from analysis.display.text import counted
from bayes_direag.decisions.replay import INTERVAL_LEVEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"policy": RIGHT, "all": REFERENCE, "fixed": WRONG}


def policy_figure(forecast: pd.DataFrame, tried: str) -> "Figure":
    """Draw the benefit of each way of asking against its price, from the forecast or a replay of a policy.

    ``tried`` says in a sentence on which questions that was.
    """
    ways = {str(row["asked"]): row for row in forecast.to_dict("records")}
    curve = forecast[forecast["asked"].isin(["policy", "curve"])].sort_values("price_share")
    unit = "reports" if np.allclose(forecast["price_share"], forecast["share"]) else "price of all reports"
    own = ways["policy"]
    title = f"Asking question by question: benefit {own['benefit']:.2f} for {own['price_share']:.0%} of the {unit}"
    caption = (
        f"{tried} Line: the policy at other budgets. Bars: intervals of probability {INTERVAL_LEVEL:g}, each for "
        "itself; all ways of asking are tried on the same questions, so their differences are surer than that."
    )
    labels = {
        "policy": f"the policy ({own['reports']:.1f} reports a question)",
        "all": "all reports",
        "fixed": f"the best {counted(len(ways['fixed']['levels']), 'level')} everywhere",
    }
    with figure_style():
        figure = headed_figure(title, caption, 3.6)
        axes = figure.subplots()
        axes.plot(curve["price_share"], curve["benefit"], color=RIGHT)
        for marker, (name, label) in zip(MARKERS, labels.items(), strict=False):
            way, colour = ways[name], _COLOURS[name]
            error = [[way["benefit"] - way["benefit_low"]], [way["benefit_high"] - way["benefit"]]]
            axes.errorbar(
                way["price_share"],
                way["benefit"],
                error,
                label=label,
                color=colour,
                marker=marker,
                markersize=8,
                zorder=3,
            )
        axes.set(xlabel=f"share of the {unit}", ylabel="benefit", xlim=(0, 1.03))
        axes.xaxis.set_major_formatter("{x:.0%}")
        axes.legend(loc="lower right")
    return figure
