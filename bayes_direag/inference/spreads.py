r"""How different levels are: their spreads, learned by a MAP fit with everything else integrated out.

The joint mode is no estimate of a spread: levels are offsets in units of it, so the mode runs to large spreads. The
mode of the *marginal* posterior is one (type-II MAP, empirical Bayes; MacKay 1999, doi:10.1162/089976699300016331). The
other parameters :math:`\theta` are integrated out by the Laplace approximation: with the mode of the joint density
:math:`p(y, \theta, s)` given the spreads s, and the Hessian H of minus its log there,

.. math:: \log p(y, s) \approx \max_\theta \log p(y, \theta, s) - \tfrac12 \log \det H + \text{constant}

This *evidence* is computed on a grid, and the fit at its highest point is the MAP. A wider or finer grid gave the same.
Each label counts once in it, so spreads learned from whole questions also serve fits to weighted copies of them.
"""

from functools import partial
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayes_direag.data.observations import Observations
from bayes_direag.inference.map import Optimum, map_estimates
from bayes_direag.model.model import Raw, linked, sites
from bayes_direag.model.settings import Preset, RawParameter, Variant

#: The spreads that are learned, and the grid of each, in standard deviations of its prior from the mean, on the raw
#: scale: under ``bayes`` .15, .3, .6 and 1.2 for the weight, .1, .3 and .8 for the vote. (The spread of the bias, whose
#: prior is narrow, is at the joint mode.)
_GRID = {"weight_spread": (-1.0, -0.3, 0.4, 1.1), "vote_spread": (-1.1, 0.0, 1.0)}
#: Intervals are looked for within this many standard deviations of the prior's mean, at this number of values.
_REACH, _FINE = 3.0, 301


def learned_spreads(preset: Preset, variant: Variant) -> tuple[str, ...]:
    """Return the names of the spreads that are learned: those that have a prior of their own."""
    free = preset.free_parameters(variant)
    return tuple(name for name in _GRID if name in free and preset.parameter(name).scale is not None)


def map_with_spreads(
    observations: Observations, weight: Float[np.ndarray, "batch problem"], *, preset: Preset, variant: Variant
) -> tuple[Optimum, list[xr.Dataset]]:
    """Find the MAP of every fit in a batch given its spreads of most evidence, as in :func:`map_estimates`.

    Returns
    -------
    Optimum
        The optima.
    list of Dataset
        For each fit ``log_evidence`` by ``point`` of the grid, and the raw spreads there; empty if none is learned.
    """
    search = partial(map_estimates, observations, preset=preset, variant=variant)
    names = learned_spreads(preset, variant)
    if not names:
        return search(weight), []
    priors = {name: preset.parameter(name) for name in names}
    points = np.array([*product(*(_GRID[name] for name in names))]).T
    grid = {
        name: np.clip(prior.loc + prior.scale * at, *prior.bounds)
        for (name, prior), at in zip(priors.items(), points, strict=True)
    }
    middle = {name: jnp.full(len(weight), prior.start) for name, prior in priors.items()}
    first = search(weight, given=middle)
    best, evidence = [], []
    for member in range(len(weight)):  # each in a batch of the same size, for which the search is compiled
        repeated = np.full(points.shape[1], member)
        near = None if preset.is_bounded else _selected(first, repeated)
        optima = search(weight[repeated], near=near, given=grid)
        best.append(_selected(optima, [np.argmax(optima.log_evidence)]))
        columns = sites(grid) | {"log_evidence": optima.log_evidence}
        evidence.append(xr.Dataset({name: ("point", values) for name, values in columns.items()}))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *best), evidence


def spreads_of(optimum: Optimum, preset: Preset, variant: Variant) -> Raw:
    """Return the learned spreads of a batch of optima, to be given to other fits."""
    return {name: optimum.raw[name] for name in learned_spreads(preset, variant)}


class SpreadInterval(NamedTuple):
    """A spread in a fit, with an equal-tailed interval of its posterior."""

    value: float
    low: float
    high: float


def spread_intervals(tree: xr.DataTree, *, probability: float = 0.9) -> dict[str, SpreadInterval]:
    """Return the learned spreads of a posterior container, with intervals from the draws or from a MAP's evidence.

    Between the points of the grid the log evidence without the prior is linear, and beyond them it is constant.
    """
    preset = Preset.model_validate_json(tree.attrs["preset"])
    source = "spread_evidence" if tree.attrs["method"] == "map" else "unconstrained_posterior"
    learned = tree[source].to_dataset() if source in tree.children else xr.Dataset()
    tails, intervals = ((1 - probability) / 2, (1 + probability) / 2), {}
    for name in _GRID:
        if f"{name}_raw" in learned:
            draws, prior = tree["posterior"][name].to_numpy(), preset.parameter(name)
            by_evidence = "log_evidence" in learned
            ends = _quantiles(learned, name, prior, tails) if by_evidence else np.quantile(draws, tails)
            intervals[name] = SpreadInterval(float(draws.mean()), *map(float, ends))
    return intervals


def _quantiles(
    evidence: xr.Dataset, name: str, prior: RawParameter, probabilities: tuple[float, ...]
) -> Float[np.ndarray, " probability"]:
    """Return quantiles of a spread under the evidence, the other spreads integrated out."""
    raw, place = np.unique(evidence[f"{name}_raw"], return_inverse=True)
    marginal = np.full(len(raw), -np.inf)
    np.logaddexp.at(marginal, place, evidence["log_evidence"].to_numpy())
    assert prior.scale is not None  # noqa: S101 - narrows the type, guards no input
    values = prior.loc + prior.scale * np.linspace(-_REACH, _REACH, _FINE)
    log_prior, log_prior_at = (-(((at - prior.loc) / prior.scale) ** 2) / 2 for at in (values, raw))
    log_density = np.interp(values, raw, marginal - log_prior_at) + log_prior
    below = np.cumsum(np.exp(log_density - log_density.max()))
    return np.asarray(linked(jnp.interp(jnp.asarray(probabilities), below / below[-1], values), prior.link))


def _selected(optimum: Optimum, members: ArrayLike) -> Optimum:
    """Return some members of a batch."""
    selected: Optimum = jax.tree.map(lambda values: values[np.asarray(members)], optimum)
    return selected
