"""A plan as tables for a terminal of 80 columns."""

from rich.console import Group
from rich.text import Text

from analysis.planning.plan import Plan
from bayes_direag.commands.options import plain_table, titled


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
    table = plain_table()
    for header in ("more labels", "in all", "interval width", "NLL", "answered"):
        table.add_column(header, justify="right")
    for row in plan.curve.to_dict("records"):
        table.add_row(
            f"+{row['more']}",
            str(row["labels"]),
            f"  {row['width']:.3f}",
            f"  {row['nll']:.4f}",
            f"  {row['answered']:.0%}",
        )
    return titled(
        f"What more labels would bring, by what the fit believes: {about(plan)}",
        table,
        f"interval width: mean over questions of the final probability's {plan.interval_level:.0%} interval. NLL: "
        "expected, of the answer being right or wrong; right if the fit is, so look at its change. answered: expected "
        f"share at a target accuracy of {plan.target:g} with assurance {plan.assurance:g}, all labelled questions "
        "serving to find the threshold. For labels of random questions like these.",
    )


def _worth(plan: Plan) -> Group:
    table = plain_table("", "question")
    table.add_column("confidence", justify="right")
    table.add_column("worth", justify="right")
    for number, row in enumerate(plan.worth.to_dict("records"), start=1):
        table.add_row(f"{number} ", Text(str(row["problem_id"])), f"  {row['confidence']:.2f}", f"  {row['worth']:.1f}")
    return titled(
        "Most worth labelling, in this order",
        table,
        "worth: with those above it labelled, its label should narrow intervals as much as those of so many random "
        f"questions. Together: {plan.worth['worth'].sum():.0f}. Questions chosen like this are not a "
        "random sample: fit to them, but do not evaluate or find a threshold with them.",
    )
