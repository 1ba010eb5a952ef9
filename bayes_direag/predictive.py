"""What the model would have said: parameters and right answers drawn from the prior, right answers from the posterior.

A drawn ``target`` is the index of the candidate that comes true, or -1 for the null.
"""

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Int, Key, Shaped
from numpyro.infer import Predictive

from bayes_direag.evidence import Reports
from bayes_direag.model import RawDraws, direag
from bayes_direag.settings import Preset, Variant


def prior_draws(
    reports: Reports, *, preset: Preset, variant: Variant, n_draws: int, key: Key[Array, ""]
) -> tuple[RawDraws, Int[np.ndarray, "1 draw problem"]]:
    """Draw raw parameters from the prior, with a leading chain axis of 1, and a target for every question."""
    model = partial(direag, preset=preset.model_settings, variant=variant)
    with jax.enable_x64(True):
        sites = Predictive(model, num_samples=n_draws)(key, reports)
        raw: RawDraws = {name: np.asarray(sites[f"{name}_raw"])[None] for name in preset.free_parameters(variant)}
        return raw, _candidate_or_null(sites["target"], reports)[None]


def predictive_draws(
    raw: RawDraws, reports: Reports, *, preset: Preset, variant: Variant, key: Key[Array, ""]
) -> Int[np.ndarray, "chain draw problem"]:
    """Draw a target for every question given each draw of the raw parameters."""
    model = partial(direag, preset=preset.model_settings, variant=variant)
    with jax.enable_x64(True):
        given = {f"{name}_raw": value for name, value in raw.items()}
        predict = Predictive(model, posterior_samples=given, batch_ndims=2, return_sites=["target"])
        return _candidate_or_null(predict(key, reports)["target"], reports)


def _candidate_or_null(state: Int[Array, "*draw problem"], reports: Reports) -> Shaped[np.ndarray, "*draw problem"]:
    n_levels = reports.candidate.shape[1]
    found = np.asarray(state)
    return np.where(found == n_levels, -1, found).astype(np.int16)
