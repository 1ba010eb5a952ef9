"""Fits made up by hand: any number of known draws, in no time, in the container that real fits come in."""

import arviz_base
import numpy as np
import xarray as xr

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import VARIANT_PARAMETERS, Preset, Variant

_PAIRS = ("problem", "level")


def handmade_fit(
    observations: Observations,
    *,
    variant: Variant = "confidence",
    n_draws: int = 1,
    recalibration: str = "platt",
    seed: int = 0,
) -> Fit:
    """Return a fit with random parameters that claims to have learned from the labelled, answered questions."""
    rng = np.random.default_rng(seed)
    seen = observations.select(np.flatnonzero(observations.labelled & observations.answered))
    draws = {name: np.exp(rng.normal(-1, 0.4, (1, n_draws))) for name in VARIANT_PARAMETERS[variant]}
    draws["weight"] = np.exp(rng.normal(0, 0.5, (1, n_draws, seen.n_levels)))
    if "bias" in draws:
        draws["bias"] = rng.normal(-1, 1, (1, n_draws, seen.n_levels))
    tree = arviz_base.from_dict(
        {
            "posterior": draws,
            "observed_data": {"correct": seen.correct_candidate},
            "constant_data": {
                "confidence": seen.confidence,
                "candidate": seen.candidate,
                "n_candidates": seen.n_candidates,
                "weight_in_likelihood": np.ones(len(seen)),
            },
        },
        dims={
            "weight": ["level"],
            "bias": ["level"],
            "correct": ["problem", "candidate"],
            "confidence": list(_PAIRS),
            "candidate": list(_PAIRS),
            "n_candidates": ["problem"],
            "weight_in_likelihood": ["problem"],
        },
        coords={
            "level": np.array(seen.level_names, dtype=object),
            "problem": np.array(seen.problem_id, dtype=object),
            "candidate": np.arange(seen.n_levels),
        },
    )
    tree["recalibration"] = xr.DataTree(_recalibration(recalibration, n_draws, rng))
    tree.attrs = {
        "method": "map" if n_draws == 1 else "nuts",
        "variant": variant,
        "preset": _preset(recalibration).model_dump_json(),
        "answers": seen.kind,
        "dataset": "handmade",
        "model": "not stated",
    }
    return Fit(tree)


def _preset(recalibration: str) -> Preset:
    return preset("paper").override(recalibration={"method": recalibration})


def _recalibration(method: str, n_draws: int, rng: np.random.Generator) -> xr.Dataset:
    if method == "isotonic":
        knots = {"support": ("knot", [0.2, 0.5, 0.9]), "probability": ("knot", [0.1, 0.6, 0.8])}
        return xr.Dataset(knots, attrs={"method": method})
    dims = ("chain", "draw")
    intercept, slope = rng.normal(0, 0.3, (1, n_draws)), rng.normal(1.2, 0.2, (1, n_draws))
    return xr.Dataset({"intercept": (dims, intercept), "slope": (dims, slope)}, attrs={"method": method, "eps": 1e-6})
