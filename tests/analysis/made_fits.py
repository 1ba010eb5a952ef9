"""Fits made by hand: the draws are given, nothing is sampled and nothing optimised."""

import warnings
from collections.abc import Mapping

import arviz_base
import numpy as np
import xarray as xr
from arviz_stats import loo

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, Variant

#: Draws by name: numbers for a MAP; for NUTS with leading axes chain and draw.
Given = Mapping[str, float | list[float] | np.ndarray]


def made_fit(
    observations: Observations,
    given: Given,
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    intercept: float | np.ndarray = 0.0,
    slope: float | np.ndarray = 1.0,
    recalibration: str = "platt",
    log_likelihood: np.ndarray | None = None,
    sha256: str | None = None,
) -> Fit:
    """Return a fit of these parameters, raw ones as ``NAME_raw``; a NUTS fit if the weights have chains and draws.

    Its leave-one-out group is ArviZ's account of the log-likelihood (chain, draw, problem), if that is given.
    """
    is_nuts = np.ndim(given["weight"]) == 3

    def with_draws(value: float | list[float] | np.ndarray) -> np.ndarray:
        return np.asarray(value, float) if is_nuts else np.asarray(value, float)[None, None]

    posterior = {name: with_draws(value) for name, value in given.items()}
    shape = posterior["weight"].shape[:2]
    groups = {
        "posterior": posterior,
        "constant_data": {"candidate": observations.candidate},
        "recalibration": {
            "intercept": np.broadcast_to(np.asarray(intercept, float), shape).copy(),
            "slope": np.broadcast_to(np.asarray(slope, float), shape).copy(),
        },
    }
    if log_likelihood is not None:
        groups["log_likelihood"] = {"target": log_likelihood}
    tree = arviz_base.from_dict(
        groups,
        dims={
            "candidate": ["problem", "level"],
            "target": ["problem"],
            **{f"{name}{raw}": ["level"] for name in LEVEL_PARAMETERS for raw in ("", "_raw")},
        },
        coords={
            "level": np.array(observations.level_names, dtype=object),
            "problem": np.array(observations.problem_id, dtype=object),
        },
    )
    tree["recalibration"] = xr.DataTree(
        tree["recalibration"]
        .to_dataset()
        .assign_attrs(method=recalibration, eps=named_preset(preset).recalibration.eps)
    )
    if log_likelihood is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)
            found = loo(tree, pointwise=True, var_name="target")
        tree["loo"] = xr.DataTree(xr.Dataset({"elpd": found.elpd_i, "pareto_k": found.pareto_k}))
    tree.attrs = {
        "variant": variant,
        "preset": named_preset(preset).model_dump_json(),
        "answers": observations.kind,
        "method": "nuts" if is_nuts else "map",
        "observations_sha256": sha256 or observations.fingerprint,
    }
    return Fit(tree)


def natural(n_levels: int, **changes: float | list[float]) -> dict[str, float | list[float]]:
    """Return parameters of variant confidence that differ between levels, with some of them changed."""
    given: dict[str, float | list[float]] = {
        "weight": [0.5 + 0.4 * level for level in range(n_levels)],
        "bias": [0.6 - 0.5 * level for level in range(n_levels)],
        "slope": 0.8,
        "null_gain": 0.3,
        "prior_strength": 0.4,
        "null_base": 0.2,
    }
    return given | changes


def around(given: Given, rng: np.random.Generator, *, n_draws: int = 40, spread: float = 0.1) -> dict[str, np.ndarray]:
    """Return two chains of draws around these parameters; positive ones stay positive."""
    found = {}
    for name, value in given.items():
        centre = np.asarray(value, float)
        noise = spread * rng.standard_normal((2, n_draws, *centre.shape))
        found[name] = centre + noise if name == "bias" else centre * np.exp(noise)
    return found
