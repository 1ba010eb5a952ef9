"""Pictures of what the model predicts: by agreement, when left out, and which questions weigh most on it."""

from typing import TYPE_CHECKING

import numpy as np

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.diagnosis.verdict import tail_in_words
from analysis.figures.panels import headed_figure, plain
from analysis.figures.reliability_plots import reliability_figure
from analysis.figures.style import REFERENCE, RIGHT, WRONG
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LARGEST_PARETO_K

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = {"accuracy": "share whose selected answer is right", "null": "share where no answer is right"}
_NAMED = 3


def predictive_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":  # noqa: ARG001 - all figures are called alike
    """Draw accuracy and null rate by pattern of agreement, observed and as the posterior predicts them."""
    checks = diagnosis.predictive
    patterns = checks.table.loc[checks.table["statistic"] == "accuracy", ["pattern", "n"]]
    figure = headed_figure(
        "Do the labels look as the fitted model predicts them?",
        "By how many levels gave each answer, most first. Bars with a line: what the posterior predicts, "
        f"{diagnosis.interval_level:.0%} intervals and means. Dots: observed; diamonds: observed outside the interval. "
        f"All comparisons together: {tail_in_words(checks.tail_probability)}. The model has seen these labels, "
        "so agreement says little.",
        0.8 + 0.3 * len(patterns),
        width=7.6,
    )
    axes = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(patterns))
    labels = [f"{row['pattern']}  (n={row['n']})" for row in patterns.to_dict("records")]
    for axis, (statistic, name) in zip(axes, _PANELS.items(), strict=True):
        rows = checks.table[checks.table["statistic"] == statistic]
        observed = rows["observed"].to_numpy()
        axis.hlines(places, rows["low"], rows["high"], color="#BBBBBB", linewidth=7)
        axis.plot(rows["predicted"], places, "|", color="black", markersize=9, markeredgewidth=1.4)
        out = ((rows["observed"] < rows["low"]) | (rows["observed"] > rows["high"])).to_numpy()
        axis.plot(observed[~out], places[~out], "o", color=RIGHT)
        axis.plot(observed[out], places[out], "D", color=WRONG)
        axis.set(xlabel=name, yticks=places, yticklabels=labels)
        axis.grid(visible=False, axis="y")
    axes[0].invert_yaxis()
    axes[0].set_ylabel("levels that gave each answer")
    return figure


def calibration_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":  # noqa: ARG001 - all figures are called alike
    """Draw how often selected answers are right against what leave-one-out support and confidence say."""
    checks = {name: check for name, check in diagnosis.calibration.items() if check.reliability.n}
    if not checks:
        return headed_figure("Reliability", "Support and confidence are undefined: draws not finite.", 0.5)
    tails = ", ".join(f"{name} {tail_in_words(check.tail_probability)}" for name, check in checks.items())
    about = (
        "Questions that were fitted to, each predicted with its own label left out; confidence is support after the "
        f"final calibration. All bins together: {tails}."
    )
    return reliability_figure({name: check.reliability for name, check in checks.items()}, about)


def pareto_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":  # noqa: ARG001 - all figures are called alike
    """Draw every question's Pareto k: how much it moves the posterior on its own."""
    pareto_k = fit.tree["loo"]["pareto_k"].to_numpy()
    names = fit.tree["loo"]["problem"].to_numpy()
    bad = pareto_k > LARGEST_PARETO_K
    undefined = int(np.isnan(pareto_k).sum())
    also = f", {undefined} undefined and not shown" if undefined else ""
    figure = headed_figure(
        "Does any single question carry the posterior?",
        f"{len(pareto_k)} questions, in the order in which they were fitted; {bad.sum()} above "
        f"{LARGEST_PARETO_K}{also}. Pareto k: how far a question's own label moves the posterior; above the line, what "
        "is said of that question left out is not to be relied on.",
        2.9,
    )
    axis = figure.subplots()
    places = np.arange(len(pareto_k))
    axis.plot(places[~bad], pareto_k[~bad], ".", color=RIGHT, markersize=5, alpha=0.6, markeredgewidth=0)
    axis.plot(places[bad], pareto_k[bad], "D", color=WRONG, markersize=5)
    axis.axhline(LARGEST_PARETO_K, color=REFERENCE, linestyle="--", linewidth=1)
    for place in places[bad][np.argsort(-pareto_k[bad], kind="stable")][:_NAMED]:
        side = "right" if place > len(places) / 2 else "left"
        offset = (-6 if side == "right" else 6, 0)
        axis.annotate(
            plain(str(names[place])), (place, pareto_k[place]), offset, textcoords="offset points", ha=side, fontsize=8
        )
    axis.set_ylim(top=max(0.8, 1.1 * float(np.nanmax(pareto_k, initial=0.0))))
    axis.set(xlabel="question", ylabel="Pareto k")
    return figure
