"""A plan as tables for a terminal of 80 columns."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group

from analysis.display.folders import ResultFolder, versions
from analysis.display.numbers import number
from analysis.display.style import RIGHT, figure_style, headed_figure
from analysis.display.tables import shown_table
from analysis.planning.plan import Plan
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plan_tables(plan: Plan) -> Group:
    """Return what more labels would bring, and the questions most worth labelling."""
    return Group(_curve(plan), *([] if plan.worth.empty else [_worth(plan)]))


def about(plan: Plan) -> str:
    """Say which questions a plan is about, and which it leaves out."""
    left_out = {
        "already learned from": plan.n_seen,
        "without a usable report": plan.n_unusable,
        "not drawn for this": plan.n_not_drawn,
    }
    said = ", ".join(f"{n} {what}" for what, n in left_out.items() if n)
    return f"{plan.n_questions} questions{f'; left out: {said}' if said else ''}"


def _curve(plan: Plan) -> Group:
    rows = (
        [
            f"+{row['more']}",
            str(row["labels"]),
            number(row["width"]),
            number(row["nll"], 4),
            f"{row['answered']:.0%}",
        ]
        for row in plan.curve.to_dict("records")
    )
    return shown_table(
        f"What more labels would bring, by what the fit believes: {about(plan)}",
        [],
        ["more labels", "in all", "  interval width", "  NLL", "  answered"],
        rows,
        f"interval width: mean over questions of the final probability's {plan.interval_level:.0%} interval. NLL: "
        "expected, of the answer being right or wrong; right if the fit is, so look at its change. answered: expected "
        f"share at a target accuracy of {plan.target:g} with assurance {plan.assurance:g}, all labelled questions "
        "serving to find the threshold. For labels of random questions like these.",
    )


def _worth(plan: Plan) -> Group:
    rows = (
        [f"{place} ", str(row["problem_id"]), number(row["confidence"], 2), number(row["worth"], 1)]
        for place, row in enumerate(plan.worth.to_dict("records"), start=1)
    )
    return shown_table(
        "Most worth labelling, in this order",
        ["", "question"],
        ["  confidence", "  worth"],
        rows,
        "worth: with those above it labelled, its label should narrow intervals as much as those of so many random "
        f"questions. Together: {plan.worth['worth'].sum():.0f}. Questions chosen like this are not a "
        "random sample: fit to them, but do not evaluate or find a threshold with them.",
    )


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


FOLDER = ResultFolder("plan", "plan.json", ("plan", "worth_labelling"), ("plan",))


def plan_record(plan: Plan, fit: Fit) -> dict[str, object]:
    """Return all of a plan and what it is about."""
    about = {name: fit.tree.attrs[name] for name in ("dataset", "model", "variant", "observations_sha256")}
    return {**vars(plan), "fit": about, "versions": versions("numpy", "scipy")}


def write_plan(plan: Plan, fit: Fit, folder: str | Path) -> None:
    """Write a plan as a folder."""
    tables = {"plan": plan.curve, "worth_labelling": plan.worth}
    FOLDER.write(folder, plan_record(plan, fit), tables, {"plan": plan_figure(plan)})
