"""Worlds whose truth is known: parameters from the prior, and the right answers that follow from them.

Who said what, and how surely, is the same in all worlds; only parameters and right answers differ. A question's right
answer is a draw from the support.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.inference.posterior import prior_draws
from bayes_direag.model.evidence import Parameters, Reports, supports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, natural_parameters
from bayes_direag.model.settings import Preset, Variant


class Worlds(NamedTuple):
    """Some worlds, and the state that occurred in each of the questions.

    ``raw``: their raw parameters by name, each with a leading axis world. ``target`` (world, problem): the right
    candidate, -1 for the null.
    """

    raw: dict[str, Float[np.ndarray, "world ..."]]
    target: Int[np.ndarray, "world problem"]


def draw_worlds(data: LikelihoodData, n: int, *, seed: int) -> Worlds:
    """Draw ``n`` worlds from the prior of a model; NumPyro draws their right answers."""
    drawn = prior_draws(data, n_draws=n, key=jax.random.fold_in(jax.random.key(seed), 3))
    raw = {name: drawn[f"{name}_raw"] for name in data.preset.free_parameters(data.variant)}
    return Worlds(raw, drawn["target"])


def world_support(
    worlds: Worlds, reports: Reports, *, preset: Preset, variant: Variant
) -> Float[np.ndarray, "world problem state"]:
    """Return with which probability each state occurs in each world, the null last; of any questions."""
    parameters = parameters_of(worlds.raw, preset=preset, variant=variant)
    with jax.enable_x64(True):
        return np.asarray(supports(reports, parameters))


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
