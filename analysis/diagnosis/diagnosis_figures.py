"""The pictures of a diagnosis, and how to read them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy.stats import rankdata

from analysis.diagnosis.checks import CalibrationCheck, PredictiveChecks
from analysis.diagnosis.identifiability import parameter_labels
from analysis.diagnosis.verdict import tail_in_words
from analysis.display.reliability_figure import reliability_figure
from analysis.display.style import REFERENCE, RIGHT, WRONG, headed_figure, without_formulas
from bayes_direag.fits.convergence import ESS_PER_CHAIN, RHAT_LIMIT
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LARGEST_PARETO_K

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PANELS = {"accuracy": "share whose selected answer is right", "null": "share where no answer is right"}
_NAMED = 3


def predictive_figure(checks: PredictiveChecks, interval_level: float) -> "Figure":
    """Draw accuracy and null rate by pattern of agreement, observed and as the posterior predicts them."""
    patterns = checks.table.loc[checks.table["statistic"] == "accuracy", ["pattern", "n"]]
    figure = headed_figure(
        "Do the labels look as the fitted model predicts them?",
        "By how many levels gave each answer, most first. Bars with a line: what the posterior predicts, "
        f"{interval_level:.0%} intervals and means. Dots: observed; diamonds: observed outside the interval. "
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


def calibration_figure(calibration: Mapping[str, CalibrationCheck]) -> "Figure":
    """Draw how often selected answers are right against what leave-one-out support and confidence say."""
    checks = {name: check for name, check in calibration.items() if check.reliability.n}
    if not checks:
        return headed_figure("Reliability", "Support and confidence are undefined: draws not finite.", 0.5)
    found = " ".join(check.calibration.sentence(name) for name, check in checks.items())
    about = (
        "Questions that were fitted to, each predicted with its own label left out; confidence is support after the "
        f"final calibration. {found}"
    )
    return reliability_figure({name: check.reliability for name, check in checks.items()}, about)


def pareto_figure(left_out: xr.Dataset) -> "Figure":
    """Draw every question's Pareto k: how much it moves the posterior on its own."""
    pareto_k = left_out["pareto_k"].to_numpy()
    names = left_out["problem"].to_numpy()
    bad = pareto_k > LARGEST_PARETO_K
    undefined = int(np.isnan(pareto_k).sum())
    also = f", {undefined} undefined and not shown" if undefined else ""
    figure = headed_figure(
        "Does any single question carry the posterior?",
        f"{len(pareto_k)} questions, in the order in which they were fitted; {bad.sum()} above "
        f"{LARGEST_PARETO_K}{also}. Pareto k: how far a question's own label moves the posterior; above the line, "
        "the leave-one-out prediction of that question is unreliable.",
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
            without_formulas(str(names[place])),
            (place, pareto_k[place]),
            offset,
            textcoords="offset points",
            ha=side,
            fontsize=8,
        )
    axis.set_ylim(top=max(0.8, 1.1 * float(np.nanmax(pareto_k, initial=0.0))))
    axis.set(xlabel="question", ylabel="Pareto k")
    return figure


#: Number of parameters that are drawn, those with the fewest effective draws.
_WORST = 6
_BAND = 0.95
_LINES = ("-", "--", ":", "-.")


def chains_figure(fit: Fit, parameters: pd.DataFrame) -> "Figure":
    """Draw the trace and the ranks of the raw parameters with the fewest effective draws.

    The ranks of a chain are shown as their empirical distribution function minus the uniform one, with a 95 % band
    (Vehtari et al. 2021, doi:10.1214/20-BA1221; Massart 1990, doi:10.1214/aop/1176990746).
    """
    draws, sizes = fit.draws("raw").to_numpy(), fit.tree["posterior"].sizes
    n_chains, n_draws, n = sizes["chain"], sizes["draw"], draws.shape[1]
    shown, labels = parameters.iloc[:n], parameter_labels(parameters)
    smallest = shown[["ess_bulk", "ess_tail"]].min(axis=1, skipna=False)
    worst = smallest.sort_values(na_position="first", kind="stable").index[:_WORST]
    figure = headed_figure(
        f"Do the chains agree? The {len(worst)} of {n} raw parameters with the fewest effective draws",
        f"{n_chains} chains of {n_draws} draws. Left: every draw; chains should look alike and overlap. Right: where a "
        "chain's draws rank among all, minus where they would if chains agreed; lines should stay in the grey "
        f"{_BAND:.0%} band. Expected: R-hat below {RHAT_LIMIT}, more than {ESS_PER_CHAIN:.0f} effective draws a chain.",
        1.25 * len(worst),
        width=7.6,
    )
    axes = figure.subplots(len(worst), 2, squeeze=False, width_ratios=[2, 1], sharex="col")
    for (trace, rank), column in zip(axes, worst, strict=True):
        values = draws[:, column].reshape(n_chains, n_draws)
        trace.plot(values.T, linewidth=0.5, alpha=0.8)
        trace.set(title=without_formulas(labels[column]), xlim=(0, n_draws), ylabel="raw value")
        trace.grid(visible=False)
        _draw_ranks(rank, values, smallest[column])
        figures = (format(shown["rhat"][column], ".3f"), format(smallest[column], ".0f"))
        rank.set_title("R-hat {}, {} effective".format(*figures).replace("nan", "undefined"), fontsize=9)
    axes[-1, 0].set_xlabel("draw")
    axes[-1, 1].set_xlabel("rank (0: lowest, 1: highest)")
    names = [f"chain {number}" for number in range(n_chains)]
    lines = axes[0, 1].get_lines()[:n_chains]
    axes[-1, 0].legend(lines, names, loc="upper center", bbox_to_anchor=(0.5, -0.4), ncols=min(n_chains, 6), fontsize=8)
    return figure


def _draw_ranks(axis: "Axes", values: Float[np.ndarray, "chain draw"], ess: float) -> None:
    relative = rankdata(values, method="average").reshape(values.shape) / values.size
    grid = np.linspace(0, 1, 201)
    for chain, ranks in enumerate(relative):
        share = np.searchsorted(np.sort(ranks), grid, side="right") / len(ranks)
        axis.plot(grid, share - grid, linewidth=1.2, linestyle=_LINES[chain % len(_LINES)])
    half = np.sqrt(np.log(2 / (1 - _BAND)) * len(values) / (2 * np.fmax(ess, ESS_PER_CHAIN * len(values))))
    axis.axhspan(-half, half, color="#DDDDDD", zorder=0, linewidth=0)
    axis.axhline(0, color=REFERENCE, linewidth=0.8)
    largest = max(np.abs(axis.get_ylim()))
    axis.set(xlim=(0, 1), ylim=(-largest, largest))
