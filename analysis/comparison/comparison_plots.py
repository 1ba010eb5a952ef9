"""Pictures of comparisons: parameters, confidences, leave-one-out differences, metric differences.

Each function returns a figure of its own, to be written with :func:`~analysis.display.style.save_figure`.
"""

from typing import TYPE_CHECKING

import pandas as pd

from analysis.comparison.comparison import ParameterComparison, seen_in_fitting, summarise_predictions
from analysis.comparison.loo_comparison import FEWEST_STANDARD_ERRORS, EvaluationComparison, LooComparison
from analysis.display.style import (
    REFERENCE,
    RIGHT,
    WRONG,
    diagonal,
    figure_style,
    forest,
    headed_figure,
    panel_grid,
    plain,
    row_labels,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MORE_IS_BETTER = frozenset({"benefit", "accuracy_of_all", "accuracy", "auroc", "pr_positive", "pr_negative"})


def parameter_figure(comparison: ParameterComparison, captions: tuple[str, str]) -> "Figure":
    """Draw the point estimate of every quantity against the posterior, in posterior standard deviations.

    Quantities without a spread are left out.

    ``captions``: what the two fits are and what they were fitted to.
    """
    rows = comparison.table[comparison.table["sd"] > 0].reset_index(drop=True)
    low, high = ((rows[bound] - rows["mean"]) / rows["sd"] for bound in ("low", "high"))
    outside = (rows["distance"] < low) | (rows["distance"] > high)
    scale = {
        "raw": "Parameters on the real line, where both fits were found.",
        "relative": "Of weight, prior strength and null base only what does not depend on their common scale, which "
        "the data cannot see.",
    }[comparison.scale]
    caption = (
        f"Diamonds: {captions[0]}; hollow outside the bar. Bars: {comparison.interval_level:.0%} interval of "
        f"{captions[1]}, its mean at 0. {scale}"
    )
    with figure_style():
        figure = headed_figure("Point estimate against posterior", caption, 0.6 + 0.21 * len(rows))
        axes = figure.add_subplot()
        axes.axvline(0, color=REFERENCE, linewidth=1)
        forest(
            axes,
            *(values.to_numpy(float) for values in (rows["distance"], low, high)),
            colour=RIGHT,
            marker="D",
            hollow=outside.to_numpy(bool),
        )
        name = rows["quantity"].str.replace("_", " ")
        row_labels(axes, name.where(rows["level"].isna(), name + " · " + rows["level"].astype(str)).tolist())
        axes.tick_params(axis="y", labelsize=8)
        axes.set_xlabel("distance from the posterior mean (posterior standard deviations)")
    return figure


def shift_figure(predictions: pd.DataFrame, captions: tuple[str, str], interval_level: float) -> "Figure":
    """Draw the confidences of two fits against each other, changed answers marked.

    ``predictions``: from :func:`~analysis.comparison.comparison.compare_predictions`. ``captions``: what the two fits
    are called.
    """
    rows = predictions[predictions["shift"].notna()]
    changed = rows["changed"].to_numpy(bool)
    caption = f"{len(rows)} answered questions, {seen_in_fitting(summarise_predictions(predictions), captions)}."
    if rows["second_low"].notna().any():
        caption += f" Lines: {interval_level:.0%} posterior interval."
    with figure_style():
        figure = headed_figure("Confidence in the selected answer", caption, 5.4, width=5.8)
        axes = figure.add_subplot()
        diagonal(axes)
        for chosen, colour, marker, size, name in (
            (~changed, RIGHT, "o", 10, "same answer"),
            (changed, WRONG, "^", 26, "answer changed"),
        ):
            shown = rows[chosen]
            x = shown["first_confidence"]
            axes.vlines(x, shown["second_low"], shown["second_high"], color=colour, linewidth=0.7, alpha=0.25)
            axes.scatter(
                x,
                shown["second_confidence"],
                s=size,
                color=colour,
                marker=marker,
                edgecolor="white",
                linewidth=0.3,
                zorder=3,
                label=f"{name} (n = {len(shown)})",
            )
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.set_xlabel(plain(f"confidence, {captions[0]}"))
        axes.set_ylabel(plain(f"confidence, {captions[1]}"))
        axes.legend(loc="upper left")
    return figure


def loo_figure(comparison: LooComparison) -> "Figure":
    """Draw every model's leave-one-out difference to the best, with two standard errors either way."""
    rows = comparison.table
    reach = FEWEST_STANDARD_ERRORS * rows["difference_se"]
    caption = (
        f"{comparison.n} questions, each predicted from all others. Bars: {FEWEST_STANDARD_ERRORS:g} standard errors "
        f"of the difference either way. {comparison.conclusion}"
    )
    with figure_style():
        figure = headed_figure("Which model predicts a left-out question best?", caption, 0.6 + 0.36 * len(rows))
        axes = figure.add_subplot()
        axes.axvline(0, color=REFERENCE, linewidth=1)
        shown = (rows["difference"], rows["difference"] - reach, rows["difference"] + reach)
        forest(axes, *(values.to_numpy(float) for values in shown), colour=RIGHT)
        row_labels(axes, rows["model"].tolist())
        axes.set_xlabel("log predictive density less that of the best (nats; more is better)")
    return figure


def difference_figure(comparison: EvaluationComparison, method: str) -> "Figure":
    """Draw every metric's difference to the first evaluation, with its interval, a panel an evaluation."""
    by_name = {str(name): rows for name, rows in comparison.table.groupby("evaluation", sort=False)}
    caption = (
        f"{comparison.n} held-out questions, the same in all. Bars: {comparison.interval_level:.0%} bootstrap interval "
        "of the paired difference. ↑ more is better, ↓ less."
    )
    with figure_style():
        rows_of_panels = -(-len(by_name) // 2)
        figure = headed_figure(f"{method}: metrics less those of {comparison.reference}", caption, 3.2 * rows_of_panels)
        panels = panel_grid(
            figure, [(name, f"n = {comparison.n}") for name in by_name], 2, x_label="difference", y_label=""
        )
        for axes, rows in zip(panels, by_name.values(), strict=True):
            axes.axvline(0, color=REFERENCE, linewidth=1)
            forest(axes, *(rows[name].to_numpy(float) for name in ("difference", "low", "high")), colour=RIGHT)
        metrics = next(iter(by_name.values()))["metric"]
        arrows = [f"{name.replace('_', ' ')} {'↑' if name in _MORE_IS_BETTER else '↓'}" for name in metrics]
        row_labels(panels[0], arrows)
    return figure
