"""What the model would have said: parameters and right answers drawn from the prior, right answers from the posterior.

A drawn ``target`` is the index of the candidate that comes true, or -1 for the null. It is the state to which one unit
of concentration belongs, drawn evenly from all that a question has: the null's own, the candidates' shares of the prior
strength, and what each report gives its answer.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from bayes_direag.model.evidence import Reports
from bayes_direag.model.log_joint import Outcomes, concentrations, given
from bayes_direag.model.model import Labels, Raw, RawDraws, natural_parameters, raw_priors
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, Variant


def prior_draws(
    reports: Reports, *, preset: Preset, variant: Variant, n_draws: int, key: Key[Array, ""]
) -> tuple[RawDraws, Int[np.ndarray, "1 draw problem"]]:
    """Draw raw parameters from the prior, with a leading chain axis of 1, and a target for every question."""
    n, n_levels = np.shape(reports.candidate)
    priors = raw_priors(preset, variant, n_levels, float(n))
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    raw: RawDraws = {}
    for name, prior in priors.items():
        shape = (1, n_draws, n_levels) if name in LEVEL_PARAMETERS else (1, n_draws)
        raw[name] = rng.normal(np.asarray(prior.loc, float), np.asarray(prior.scale, float), shape)
    return raw, predictive_draws(raw, reports, preset=preset, variant=variant, key=key)


def predictive_draws(
    raw: RawDraws, reports: Reports, *, preset: Preset, variant: Variant, key: Key[Array, ""]
) -> Int[np.ndarray, "chain draw problem"]:
    """Draw a target for every question given each draw of the raw parameters."""
    n_chains, n_draws = next(iter(raw.values())).shape[:2]
    with jax.enable_x64(True):
        flat = {name: jnp.asarray(np.reshape(value, (-1, *value.shape[2:]))) for name, value in raw.items()}
        found = np.asarray(_targets(key, flat, reports, preset=preset.model_settings, variant=variant))
    return found.reshape(n_chains, n_draws, -1)


@partial(jax.jit, static_argnames=("preset", "variant"))
def _targets(
    key: Key[Array, ""], raw: Raw, reports: Reports, *, preset: Preset, variant: Variant
) -> Int[Array, "draw problem"]:
    n, n_levels = reports.candidate.shape
    n_candidates = jnp.asarray(reports.n_candidates)
    # as if no candidate were right: then what comes true is the null
    nothing = Labels(jnp.zeros((n, n_levels), bool), jnp.zeros(n, int), jnp.ones(n))
    outcomes = Outcomes.of(reports, nothing, preset.eps)
    candidate = jnp.asarray(reports.candidate, jnp.int16).T

    def one(draw: tuple[Key[Array, ""], Raw]) -> Int[Array, " problem"]:
        parameters = natural_parameters(draw[1], preset, variant)
        null, total = concentrations(parameters, outcomes)
        share = parameters.prior_strength / (n_candidates + 1)
        place = jax.random.uniform(draw[0], total.shape, total.dtype) * total - null
        by_share = jnp.minimum(jnp.floor(place / share), n_candidates - 1).astype(candidate.dtype)
        state = jnp.where(place < 0, -1, by_share)
        edge = n_candidates * share
        for level, evidence in enumerate(given(parameters, outcomes)):
            state = jnp.where((place >= edge) & (candidate[level] >= 0), candidate[level], state)
            edge = edge + evidence
        return state

    keys = jax.random.split(key, len(jax.tree.leaves(raw)[0]))
    found: Array = jax.lax.map(one, (keys, raw))
    return found
