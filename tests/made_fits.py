"""Fits for the tests: made once for all workers, made by hand, and changed by hand."""

import fcntl
import json
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from bayes_direag.data.observations import Observations
from bayes_direag.fits.container import calibration_group, container, map_groups
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_draws, fit_nuts
from bayes_direag.inference.map import Optimum
from bayes_direag.inference.nuts import Draws
from bayes_direag.model import presets
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.settings import FitSettings, Preset, SamplingSettings, Variant

#: How the fit :func:`nuts` of all tests is sampled.
NUTS_SAMPLING = SamplingSettings(num_chains=2, num_warmup=200, num_samples=300, target_accept_prob=0.95)

#: Too short to be believed. Fits of one model, with as many distinct questions, share the program of it.
TINY_SAMPLING = SamplingSettings(num_chains=2, num_warmup=20, num_samples=25, target_accept_prob=0.9)

#: The seed of that fit, and its draws, with their source in the README beside them.
NUTS_SEED, NUTS_DRAWS = 8, Path(__file__).parent / "golden" / "nuts_draws.nc"
_GROUPS = ("unconstrained_posterior", "sample_stats")

type Natural = dict[str, float | list[float]]

#: The parameters of the paper's variants.
_OF_VARIANT = {
    "count": ("weight", "prior_strength", "null_base"),
    "level": ("weight", "bias", "prior_strength", "null_base", "null_gain"),
    "confidence": ("weight", "bias", "slope", "prior_strength", "null_base", "null_gain"),
}


def made_once[T](factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    """Make a thing, and files in a folder of its own, in the first of the workers that asks.

    The others read what that one has kept, which is exact.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made" / name
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "kept.pickle"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(make(folder)))
    made: T = pickle.loads(kept.read_bytes())  # noqa: S301 - our own
    return made


def sampled_nuts(observations: Observations) -> Fit:
    """Sample the NUTS fit of all tests."""
    return fit_nuts(observations, **NUTS_SAMPLING.model_dump(), seed=NUTS_SEED)


def recorded_nuts(observations: Observations) -> Fit:
    """Return that fit by its recorded draws; a slow test compares them with new ones."""
    unconstrained, stats = (xr.load_dataset(NUTS_DRAWS, group=name, engine="netcdf4") for name in _GROUPS)
    drawn = Draws(*({str(name): values.to_numpy() for name, values in each.items()} for each in (unconstrained, stats)))
    return fit_draws(drawn, observations, sampling=NUTS_SAMPLING, seed=NUTS_SEED)


def record_draws(fit: Fit) -> None:
    """Write the draws of a fit to the file of recorded ones."""
    groups = {name: fit.tree[name].to_dataset().drop_vars("lp", errors="ignore") for name in _GROUPS}
    compressed = {
        f"/{name}": {str(variable): {"zlib": True} for variable in dataset} for name, dataset in groups.items()
    }
    xr.DataTree.from_dict(groups).to_netcdf(NUTS_DRAWS, engine="netcdf4", encoding=compressed)


def natural(n_levels: int = 5, variant: Variant = "confidence", **changes: float | list[float]) -> Natural:
    """Return the parameters of a variant, which differ between levels, with some of them changed."""
    values: Natural = {
        "weight": [0.5 + 0.4 * level for level in range(n_levels)],
        "bias": [0.6 - 0.5 * level for level in range(n_levels)],
        "slope": 0.8,
        "null_gain": 0.3,
        "prior_strength": 0.4,
        "null_base": 0.2,
    }
    return {name: values[name] for name in _OF_VARIANT[variant]} | changes


def released(vector: str, variant: Variant) -> dict[str, np.ndarray]:
    """Return the parameters of ``release`` from its vector: weights, biases, slope, prior strength, null base, gain."""
    values, has_bias = np.array(json.loads(vector)), variant != "count"
    sizes = {"weight_base": 5, "bias": 5 * has_bias, "slope": int(variant == "confidence")}
    sizes |= {"prior_strength_base": 1, "null_base_base": 1, "null_gain_base": int(has_bias)}
    assert len(values) == sum(sizes.values())
    parts = dict(zip(sizes, np.split(values, np.cumsum([*sizes.values()])[:-1]), strict=True))
    return {name: own if len(own) > 1 else own[0] for name, own in parts.items() if len(own)}


def made_fit(
    observations: Observations,
    given: Natural,
    *,
    preset: str | Preset = "paper",
    variant: Variant = "confidence",
    intercept: float = 0.0,
    slope: float = 1.0,
    gradient: float = 1e-9,
    starts: tuple[int, int] = (1, 1),
) -> Fit:
    """Return a MAP of ``paper`` with these parameters, as if found with this gradient, from so many starts."""
    settings = presets.preset(preset, variant)
    optimum = Optimum(
        unconstrained={
            name if name == "bias" else f"{name}_base": _softplus_inverse(value, is_real=name == "bias")
            for name, value in given.items()
        },
        natural={name: np.asarray(value, float)[None] for name, value in given.items()},
        probability=np.zeros((1, 0, 0)),
        loss=np.array([0.5]),
        gradient=np.array([gradient]),
        curvature=np.zeros((1, 0, 0)),
        n_steps=np.array([12]),
        n_starts=np.array(starts[:1]),
        n_optima=np.array(starts[1:]),
    )
    data = LikelihoodData.weighted(observations, np.ones(len(observations)), preset=settings, labels=())
    tree = container(map_groups(optimum, 0), observations, data, labels=(), settings=FitSettings(settings))
    final = settings.recalibration
    coefficients = {"intercept": np.full((1, 1), intercept), "slope": np.full((1, 1), slope)}
    tree["recalibration"] = calibration_group(Recalibration(final.method, coefficients, final.eps))
    return Fit(tree)


def _softplus_inverse(value: float | list[float], *, is_real: bool) -> np.ndarray:
    natural = np.asarray(value, float)[None]
    return natural if is_real else np.log(np.expm1(natural))


def replaced(fit: Fit, group: str, values: Mapping[str, np.ndarray] | None = None, **attributes: str) -> Fit:
    """Return the fit with other values of some variables of a group, and other attributes."""
    tree = fit.tree.copy()
    dataset = tree[group].to_dataset()
    changed = {name: (dataset[name].dims, np.asarray(value)) for name, value in (values or {}).items()}
    tree[group] = xr.DataTree(dataset.assign(changed))
    tree.attrs |= attributes
    return Fit(tree)
