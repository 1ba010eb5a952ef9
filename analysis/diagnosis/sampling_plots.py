"""Pictures of how the sampler has moved: traces and ranks, energy, and the most correlated pairs of parameters."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.figures.panels import headed_figure, plain
from analysis.figures.style import REFERENCE, RIGHT, WRONG
from bayes_direag.fits.convergence import BFMI_LIMIT, ESS_LIMIT, RHAT_LIMIT, ParameterDraws, raw_draws
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Chains are drawn of so many parameters, those with the fewest effective draws; clouds of so many pairs.
_WORST, _PAIRS = 6, 4
_BAND = 0.95
_LINES = ("-", "--", ":", "-.")


def chains_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":
    """Draw the trace and the ranks of the raw parameters with the fewest effective draws.

    To the right is, for every chain, the empirical distribution function of its ranks among the draws of all chains,
    less the uniform one, and the band of 95 % that holds it for as many independent draws as are effective, or as there
    should be (rank plots: Vehtari et al. 2021, doi:10.1214/20-BA1221; band: Massart 1990,
    doi:10.1214/aop/1176990746).
    """
    draws = raw_draws(fit)
    n_chains, n_draws, n = draws.values.shape
    shown = diagnosis.parameters.iloc[:n]
    smallest = shown[["ess_bulk", "ess_tail"]].min(axis=1, skipna=False)
    worst = smallest.sort_values(na_position="first", kind="stable").index[:_WORST]
    figure = headed_figure(
        f"Do the chains agree? The {len(worst)} of {n} raw parameters with the fewest effective draws",
        f"{n_chains} chains of {n_draws} draws. Left: every draw; chains should look alike and overlap. Right: where a "
        "chain's draws rank among all, less where they would if chains agreed; lines should stay in the grey "
        f"{_BAND:.0%} band. Expected: R-hat below {RHAT_LIMIT}, more than {ESS_LIMIT:.0f} effective draws.",
        1.25 * len(worst),
        width=7.6,
    )
    axes = figure.subplots(len(worst), 2, squeeze=False, width_ratios=[2, 1], sharex="col")
    for (trace, rank), column in zip(axes, worst, strict=True):
        values = draws.values[:, :, column]
        trace.plot(values.T, linewidth=0.5, alpha=0.8)
        trace.set(title=plain(draws.labels[column]), xlim=(0, n_draws), ylabel="raw value")
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


def energy_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":
    """Draw, chain by chain, the energies visited and the steps between them (Betancourt 2016, arXiv:1604.00695)."""
    energy = fit.tree["sample_stats"]["energy"].to_numpy()
    n_rows = -(-len(energy) // 2)
    figure = headed_figure(
        "Does the energy move freely?",
        f"{energy.shape[1]} draws of each chain. Grey: its energy, less the mean; black: the energy's steps from draw "
        f"to draw. Steps much narrower than the energy itself (BFMI below {BFMI_LIMIT}) mean that the tails of the "
        "posterior are badly explored.",
        1.9 * n_rows,
    )
    axes = figure.subplots(n_rows, 2, sharex=True, sharey=True, squeeze=False).ravel()
    finite = [values[np.isfinite(values)] for values in energy]
    spread = max((float(np.abs(values - values.mean()).max()) for values in finite if len(values)), default=0.0) or 1.0
    edges = np.linspace(-spread, spread, 41)
    for axis, values, row in zip(axes, finite, diagnosis.chains.to_dict("records"), strict=False):
        if len(values):
            axis.hist(values - values.mean(), edges, density=True, color="#BBBBBB")
            axis.hist(np.diff(values), edges, density=True, histtype="step", color="black", linewidth=1.4)
        axis.set(title=f"chain {row['chain']}: BFMI {row['bfmi']:.2f}", xlabel="nats", ylabel="density", yticks=[])
        axis.label_outer()
    for axis in axes[len(energy) :]:
        axis.remove()
    return figure


def pairs_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":
    """Draw the posterior of the most correlated pairs of raw parameters, and where draws diverged."""
    draws = raw_draws(fit)
    recorded = fit.tree["sample_stats"]["diverging"].to_numpy().ravel()
    diverging = recorded == 1
    pairs = diagnosis.correlations.head(_PAIRS).to_dict("records")
    if np.isnan(recorded).any():
        crosses = "which of them diverged is not recorded"
    else:
        crosses = f"the {diverging.sum()} that diverged are crosses" if diverging.any() else "none diverged"
    n_rows = -(-len(pairs) // 2)
    figure = headed_figure(
        f"What is known only together? The {len(pairs)} most correlated pairs",
        f"{len(diverging)} posterior draws of raw parameters; {crosses}. A narrow or bent cloud: the labels hold a "
        "combination of the two, not each.",
        3.0 * n_rows,
    )
    axes = figure.subplots(n_rows, 2, squeeze=False).ravel()
    for axis, row in zip(axes, pairs, strict=False):
        _draw_pair(axis, draws, row["first"], row["second"], diverging)
        axis.set_title(f"correlation {row['correlation']:+.2f}", fontsize=10)
    for axis in axes[len(pairs) :]:
        axis.remove()
    return figure


def _draw_ranks(axis: "Axes", values: Float[np.ndarray, "chain draw"], ess: float) -> None:
    relative = rankdata(values, method="average").reshape(values.shape) / values.size
    grid = np.linspace(0, 1, 201)
    for chain, ranks in enumerate(relative):
        share = np.searchsorted(np.sort(ranks), grid, side="right") / len(ranks)
        axis.plot(grid, share - grid, linewidth=1.2, linestyle=_LINES[chain % len(_LINES)])
    half = np.sqrt(np.log(2 / (1 - _BAND)) * len(values) / (2 * np.fmax(ess, ESS_LIMIT)))
    axis.axhspan(-half, half, color="#DDDDDD", zorder=0, linewidth=0)
    axis.axhline(0, color=REFERENCE, linewidth=0.8)
    largest = max(np.abs(axis.get_ylim()))
    axis.set(xlim=(0, 1), ylim=(-largest, largest))


def _draw_pair(
    axis: "Axes", draws: ParameterDraws, first: str, second: str, diverging: Bool[np.ndarray, " sample"]
) -> None:
    x, y = (draws.flat[:, draws.labels.index(name)] for name in (first, second))
    axis.plot(x[~diverging], y[~diverging], ".", markersize=3, alpha=0.35, color=RIGHT, markeredgewidth=0)
    axis.plot(x[diverging], y[diverging], "x", markersize=6, color=WRONG)
    axis.set(xlabel=plain(first), ylabel=plain(second))
