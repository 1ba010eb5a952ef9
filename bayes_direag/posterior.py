"""The one posterior container: an xarray DataTree that holds a MAP (one chain, one draw) and NUTS draws alike.

==================  ================================================================================================
group               content
==================  ================================================================================================
``posterior``       natural parameters by their own name, raw ones as ``NAME_raw``; dims chain, draw (, level)
``sample_stats``    MAP: ``loss``, ``projected_gradient`` and ``n_steps`` at the optimum
``log_likelihood``  ``target``: log probability of what came true, by problem
``observed_data``   ``correct``, by problem and candidate
``constant_data``   ``confidence``, ``candidate``, ``n_candidates``, ``weight_in_likelihood``: what the fit was given
==================  ================================================================================================
"""

import json
from collections.abc import Iterable
from importlib.metadata import version

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from bayes_direag.evidence import Parameters, Reports
from bayes_direag.inference import Optimum
from bayes_direag.model import Labels, Raw, log_likelihood, natural_parameters
from bayes_direag.observations import Observations
from bayes_direag.presets import LEVEL_PARAMETERS, VARIANT_PARAMETERS, Preset, Variant

_DIMS = {
    **{name: ["level"] for name in LEVEL_PARAMETERS},
    **{f"{name}_raw": ["level"] for name in LEVEL_PARAMETERS},
    "target": ["problem"],
    "correct": ["problem", "candidate"],
    "confidence": ["problem", "level"],
    "candidate": ["problem", "level"],
    "n_candidates": ["problem"],
    "weight_in_likelihood": ["problem"],
}


def map_posterior(
    optimum: Optimum,
    member: int,
    observations: Observations,
    weight: Float[np.ndarray, " problem"],
    *,
    preset: Preset,
    variant: Variant,
    seed: int,
) -> xr.DataTree:
    """Put one member of a batch of MAP fits into the container.

    Parameters
    ----------
    observations
        The questions it was fitted to, every one of positive weight.
    weight : (problem,) array
        What each of them weighed.
    seed
        Recorded only; a MAP draws nothing.
    """
    with jax.enable_x64(True):
        raw = {name: jnp.asarray(value)[member] for name, value in optimum.raw.items()}
        draws = {name: value[None, None] for name, value in raw.items()}
        labels = Labels.of(observations, weight)
        reached = log_likelihood(raw, Reports.of(observations), labels, preset=preset, variant=variant)
    stats = {
        "loss": optimum.loss[member],
        "projected_gradient": optimum.gradient[member],
        "n_steps": optimum.n_steps[member],
    }
    return _container(
        draws,
        {name: np.asarray(value)[None, None] for name, value in stats.items()},
        np.asarray(reached)[None, None],
        observations,
        weight,
        preset=preset,
        variant=variant,
        attributes={"method": "map", "seed": seed},
    )


def sampled_parameters(posterior: xr.DataTree, variant: Variant) -> Parameters:
    """Return the natural parameters of all draws, chains one after the other: a leading ``sample`` axis on each."""
    samples = posterior["posterior"].to_dataset()

    def stacked(name: str) -> Array:
        values = samples[name].to_numpy()
        return jnp.asarray(values.reshape(-1, *values.shape[2:]))

    return Parameters(**{name: stacked(name) for name in VARIANT_PARAMETERS[variant]})


def _container(
    raw_draws: Raw,
    stats: dict[str, np.ndarray],
    reached: Float[np.ndarray, "chain draw problem"],
    observations: Observations,
    weight: Float[np.ndarray, " problem"],
    *,
    preset: Preset,
    variant: Variant,
    attributes: dict[str, str | int],
) -> xr.DataTree:
    with jax.enable_x64(True):
        natural = jax.vmap(jax.vmap(lambda raw: natural_parameters(raw, preset, variant)))(raw_draws)
    posterior = {name: np.asarray(getattr(natural, name)) for name in VARIANT_PARAMETERS[variant]}
    posterior |= {f"{name}_raw": np.asarray(value) for name, value in raw_draws.items()}
    tree = arviz_base.from_dict(
        {
            "posterior": posterior,
            "sample_stats": stats,
            "log_likelihood": {"target": reached},
            "observed_data": {"correct": observations.correct_candidate},
            "constant_data": {
                "confidence": observations.confidence,
                "candidate": observations.candidate,
                "n_candidates": observations.n_candidates,
                "weight_in_likelihood": weight,
            },
        },
        dims=_DIMS,
        coords={
            "level": np.array(observations.level_names, dtype=object),
            "problem": np.array(observations.problem_id, dtype=object),
            "candidate": np.arange(observations.n_levels),
        },
    )
    tree.attrs = {
        "variant": variant,
        "preset": preset.model_dump_json(),
        "answers": observations.kind,
        "dataset": _distinct(question.dataset for question in observations.questions),
        "model": _distinct(question.model for question in observations.questions),
        "observations_sha256": observations.fingerprint,
        "versions": json.dumps({name: version(name) for name in _RECORDED_PACKAGES}),
        **attributes,
    }
    return tree


def _distinct(names: Iterable[str | None]) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name)) or "not stated"


_RECORDED_PACKAGES = ("bayes-direag", "numpyro", "jax", "numpy", "arviz-base")
