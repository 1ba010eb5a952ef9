"""What the model would have said: parameters and right answers drawn from the prior, right answers from the posterior.

A drawn ``target`` is the index of the candidate that comes true, or -1 for the null.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Shaped
from numpyro.infer import Predictive

from bayes_direag.evidence import Reports
from bayes_direag.model import Raw, RawDraws, direag
from bayes_direag.settings import Preset, Variant


def prior_draws(
    reports: Reports, *, preset: Preset, variant: Variant, n_draws: int, key: Key[Array, ""]
) -> tuple[RawDraws, Int[np.ndarray, "1 draw problem"]]:
    """Draw raw parameters from the prior, with a leading chain axis of 1, and a target for every question."""
    with jax.enable_x64(True):
        sites = _drawn(
            key,
            None,
            reports,
            preset=preset.model_settings,
            variant=variant,
            batch=(n_draws,),
            target_only=False,
        )
        raw: RawDraws = {name: np.asarray(sites[f"{name}_raw"])[None] for name in preset.free_parameters(variant)}
        return raw, _candidate_or_null(sites["target"], reports)[None]


def predictive_draws(
    raw: RawDraws, reports: Reports, *, preset: Preset, variant: Variant, key: Key[Array, ""]
) -> Int[np.ndarray, "chain draw problem"]:
    """Draw a target for every question given each draw of the raw parameters."""
    batch = next(iter(raw.values())).shape[:2]
    with jax.enable_x64(True):
        given = {f"{name}_raw": jnp.asarray(value) for name, value in raw.items()}
        sites = _drawn(
            key, given, reports, preset=preset.model_settings, variant=variant, batch=batch, target_only=True
        )
        return _candidate_or_null(sites["target"], reports)


@partial(jax.jit, static_argnames=("preset", "variant", "batch", "target_only"))
def _drawn(
    key: Key[Array, ""],
    given: Raw | None,
    reports: Reports,
    *,
    preset: Preset,
    variant: Variant,
    batch: tuple[int, ...],
    target_only: bool,
) -> dict[str, Array]:
    """Run the model once for each draw of a batch, from given raw parameters or from the prior."""
    model = partial(direag, preset=preset, variant=variant)
    predict = Predictive(
        model,
        posterior_samples=given,
        num_samples=None if given else batch[0],
        batch_ndims=len(batch),
        return_sites=["target"] if target_only else None,
    )
    found: dict[str, Array] = predict(key, reports)
    return found


def _candidate_or_null(state: Int[Array, "*draw problem"], reports: Reports) -> Shaped[np.ndarray, "*draw problem"]:
    n_levels = reports.candidate.shape[1]
    found = np.asarray(state)
    return np.where(found == n_levels, -1, found).astype(np.int16)
