"""The picture of a plan: what more labels would bring, a panel a figure."""

from typing import TYPE_CHECKING

from analysis.figures.panels import headed_figure
from analysis.figures.style import RIGHT, figure_style
from analysis.planning.plan import Plan
from analysis.planning.plan_tables import about

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plan_figure(plan: Plan) -> "Figure":
    """Draw interval width, NLL and share answered against the number of labels."""
    caption = (
        f"{about(plan)}. Expected by the fit's own posterior, for labels of random questions like these; hollow: as it "
        f"is now. Width: mean over questions of the final probability's {plan.interval_level:.0%} interval. NLL: of "
        "the answer being right or wrong, if the fit's probabilities hold; dotted: what no label can lower. Answered: "
        f"at a target accuracy of {plan.target:g} with assurance {plan.assurance:g}, all labels serving to find the "
        "threshold."
    )
    curve = plan.curve
    with figure_style():
        figure = headed_figure("What more labels would bring", caption, 2.6, width=7.2)
        panels = figure.subplots(1, 3)
        for axes, (name, title) in zip(
            panels,
            {
                "width": "mean interval width",
                "nll": "expected NLL (nats)",
                "answered": "expected share answered (%)",
            }.items(),
            strict=True,
        ):
            values = curve[name] * (100 if name == "answered" else 1)
            axes.plot(curve["labels"], values, color=RIGHT, marker="o", markersize=5)
            now = curve["more"] == 0
            axes.plot(curve["labels"][now], values[now], "o", markersize=5, color=RIGHT, markerfacecolor="white")
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("labelled questions", fontsize=9)
        panels[0].set_ylim(bottom=0)
        panels[2].set_ylim(0, 100)
        panels[1].axhline(plan.nll_floor, color="0.5", linestyle=":")
    return figure
