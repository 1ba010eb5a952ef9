r"""Worlds whose truth is known: parameters from the prior, and the right answers that follow from them.

Who said what, and how surely, is the same in all worlds; only parameters and right answers differ. In a world of the
model itself a question's right answer is a draw from the support. In a world with *misfit* the support of its
foremost candidate is first recalibrated with the world's own intercept and slope, and all other states give or take in
proportion; no parameters of the evidence model can then be right, and a final calibration has something to learn.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, logit

from bayes_direag.inference.posterior import prior_draws
from bayes_direag.model.evidence import Parameters, Reports, supports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, natural_parameters
from bayes_direag.model.settings import Preset, Variant

_SMALLEST = 1e-12


class Worlds(NamedTuple):
    """Some worlds, and the state that occurred in each of the questions.

    ``raw``: their raw parameters by name, each with a leading axis world. ``intercept``, ``slope`` (world,): of their
    recalibration; 0 and 1 where the model holds. ``target`` (world, problem): the right candidate, -1 for the null.
    """

    raw: dict[str, Float[np.ndarray, "world ..."]]
    intercept: Float[np.ndarray, " world"]
    slope: Float[np.ndarray, " world"]
    target: Int[np.ndarray, "world problem"]


def draw_worlds(data: LikelihoodData, n: int, *, seed: int, misfit: float = 0.0) -> Worlds:
    """Draw ``n`` worlds from the prior of a model.

    ``misfit``: standard deviation of the worlds' intercepts around 0 and of their slopes around 1. With 0 the model
    holds, and NumPyro draws the right answers; otherwise they are drawn here.
    """
    key = jax.random.fold_in(jax.random.key(seed), 3)
    drawn = prior_draws(data, n_draws=n, key=key)
    raw = {name: drawn[f"{name}_raw"] for name in data.preset.free_parameters(data.variant)}
    rng = np.random.default_rng([seed, 3])
    intercept, slope = misfit * rng.normal(size=(2, n)) + [[0.0], [1.0]]
    worlds = Worlds(raw, intercept, slope, drawn["target"])
    if not misfit:
        return worlds
    cumulative = np.cumsum(world_support(worlds, data.reports, preset=data.preset, variant=data.variant), axis=2)
    state = (rng.random(cumulative.shape[:2])[:, :, None] > cumulative[:, :, :-1]).sum(axis=2)
    return worlds._replace(target=np.where(state == cumulative.shape[2] - 1, -1, state))


def world_support(
    worlds: Worlds, reports: Reports, *, preset: Preset, variant: Variant
) -> Float[np.ndarray, "world problem state"]:
    """Return with which probability each state occurs in each world, the null last; of any questions."""
    parameters = parameters_of(worlds.raw, preset=preset, variant=variant)
    with jax.enable_x64(True):
        support = np.asarray(supports(reports, parameters))
    return misfitting(support, worlds.intercept, worlds.slope)


def misfitting(
    support: Float[np.ndarray, "world problem state"],
    intercept: Float[np.ndarray, " world"],
    slope: Float[np.ndarray, " world"],
) -> Float[np.ndarray, "world problem state"]:
    """Recalibrate the support of each question's foremost candidate; the ratios of all other states stay."""
    first = support[:, :, :-1].argmax(axis=2)[:, :, None]
    before = np.clip(np.take_along_axis(support, first, axis=2), _SMALLEST, 1 - _SMALLEST)
    after = expit(intercept[:, None, None] + slope[:, None, None] * logit(before))
    others = support * (1 - after) / (1 - before)
    return np.asarray(np.where(np.arange(support.shape[2]) == first, after, others))


def right_levels(
    candidate: Int[np.ndarray, "problem level"], target: Int[np.ndarray, "world problem"]
) -> Bool[np.ndarray, "world problem level"]:
    """Return which levels gave the right candidate; none under the null."""
    return np.asarray((candidate == target[:, :, None]) & (candidate >= 0))


def parameters_of(raw: dict[str, Float[np.ndarray, "sample ..."]], *, preset: Preset, variant: Variant) -> Parameters:
    """Return the natural parameters of all samples, each with a leading sample axis."""
    with jax.enable_x64(True):
        parameters: Parameters = _natural(jax.tree.map(jnp.asarray, raw), preset=preset.model_settings, variant=variant)
    return parameters


@partial(jax.jit, static_argnames=("preset", "variant"))
def _natural(raw: Raw, *, preset: Preset, variant: Variant) -> Parameters:
    parameters: Parameters = jax.vmap(partial(natural_parameters, preset=preset, variant=variant))(raw)
    return parameters
