"""Pictures of what the labels have taught: prior against posterior, and the levels beside each other."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.stats import gaussian_kde, norm

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.figures.panels import headed_figure, plain
from analysis.figures.style import REFERENCE, RIGHT
from bayes_direag.fits.convergence import raw_draws
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 4
_GREY = "#AAAAAA"


def learning_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":
    """Draw the prior and the posterior density of every raw parameter."""
    draws = raw_draws(fit)
    n = len(draws.parameter)
    n_rows = -(-n // _COLUMNS)
    figure = headed_figure(
        f"What have the labels taught? The {n} raw parameters before and after",
        f"Dashed: prior. Filled: posterior, after {fit.n_questions} labelled questions. "
        "contraction: the share of the prior's variance that they have removed; near 0 the posterior is as wide as the "
        "prior. Values on the raw scale; heights in each panel its own.",
        1.25 * n_rows,
        width=7.6,
    )
    axes = figure.subplots(n_rows, _COLUMNS, squeeze=False).ravel()
    contraction = diagnosis.parameters["contraction"]
    for column, (axis, label) in enumerate(zip(axes, draws.labels, strict=False)):
        _draw_densities(axis, draws.flat[:, column], draws.prior_mean[column], draws.prior_sd[column])
        axis.set_title(f"{plain(label)}\ncontraction {contraction[column]:.2f}", fontsize=8)
    for axis in axes[n:]:
        axis.remove()
    return figure


def levels_figure(diagnosis: Diagnosis, fit: Fit) -> "Figure":
    """Draw share of the weight and bias of every level with their intervals, those of the prior in grey.

    The share, unlike the weight, does not depend on the scale that no prediction depends on.
    """
    level = diagnosis.interval_level
    groups = {group: fit.tree[group].to_dataset() for group in ("prior", "posterior")}
    panels = {"share of the total weight": _share}
    if "bias" in groups["posterior"]:
        panels["bias (on the logit scale)"] = _bias
    figure = headed_figure(
        "How do the levels differ?",
        f"Medians with {level:.0%} intervals. Grey squares: prior, before any label. Blue dots: posterior, after "
        f"{fit.n_questions} labelled questions.",
        0.6 + 0.36 * len(fit.level_names),
        width=7.6,
    )
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    places = np.arange(len(fit.level_names))
    for axis, (name, of) in zip(axes, panels.items(), strict=True):
        for group, offset, colour, marker in (("prior", 0.24, _GREY, "s"), ("posterior", -0.08, RIGHT, "o")):
            low, middle, high = np.quantile(of(groups[group]), [(1 - level) / 2, 0.5, (1 + level) / 2], axis=0)
            axis.hlines(places + offset, low, high, color=colour, linewidth=2.5)
            axis.plot(middle, places + offset, marker, color=colour, markersize=5)
        axis.set(xlabel=name, yticks=places, yticklabels=[plain(name) for name in fit.level_names])
        axis.grid(visible=False, axis="y")
    axes[0].invert_yaxis()
    return figure


def _draw_densities(axis: "Axes", draws: Float[np.ndarray, " sample"], mean: float, sd: float) -> None:
    values = draws[np.isfinite(draws)]
    low = min(mean - 2.6 * sd, values.min(initial=np.inf))
    high = max(mean + 2.6 * sd, values.max(initial=-np.inf))
    grid = np.linspace(low, high, 300)
    axis.plot(grid, norm.pdf(grid, mean, sd), "--", color=REFERENCE, linewidth=1.4)
    if len(np.unique(values)) > 1:
        density = gaussian_kde(values)(grid)
        axis.fill_between(grid, density, color=RIGHT, alpha=0.35, linewidth=0)
        axis.plot(grid, density, color=RIGHT, linewidth=1.4)
    axis.set_yticks([])
    axis.set_ylim(bottom=0)
    axis.tick_params(labelsize=7)
    axis.grid(visible=False)


def _share(samples: xr.Dataset) -> Float[np.ndarray, "sample level"]:
    weight = samples["weight"].to_numpy()
    flat = weight.reshape(-1, weight.shape[-1])
    return np.asarray(flat / flat.sum(axis=1, keepdims=True))


def _bias(samples: xr.Dataset) -> Float[np.ndarray, "sample level"]:
    bias = samples["bias"].to_numpy()
    return np.asarray(bias.reshape(-1, bias.shape[-1]))
