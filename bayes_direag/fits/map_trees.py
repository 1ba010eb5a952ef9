"""Fit by MAP to several choices of questions at once, and put each fit into a container."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from bayes_direag.data.observations import Observations
from bayes_direag.fits.folds import hashed_folds, kept_apart
from bayes_direag.fits.thinning import thinned
from bayes_direag.inference.map import Optimum, map_estimates
from bayes_direag.inference.posterior import map_posterior, record_apart
from bayes_direag.inference.recalibration import Outcomes, recalibrate
from bayes_direag.model.equations import Parameters, Reports
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to, likelihood_weights
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.real_line import parameter_sites
from bayes_direag.model.selection import distribution
from bayes_direag.model.settings import Preset


def map_trees(
    observations: Observations,
    chosen: Bool[np.ndarray, "batch problem"],
    *,
    preset: PresetLike,
    partial: bool,
    seed: int,
) -> list[xr.DataTree]:
    """Fit to each row of ``chosen``, and return its container with the final calibration.

    A question that a row leaves out has no influence on that row's fit.
    """
    whole, settings = fitted_to(observations, preset)
    labels = settings.labels(whole)
    rows = thinned(whole, "map", seed) if partial else whole
    question = np.tile(np.arange(len(whole)), len(rows) // max(len(whole), 1))
    apart = np.stack([kept_apart(whole, row, settings, seed) for row in chosen])
    weight = likelihood_weights((chosen & ~apart)[:, question], rows, settings)
    optimum = map_estimates(rows, weight, preset=settings, labels=labels)
    used = weight > 0
    supports = _supports(optimum, rows, settings, labels)
    selections = [supports[..., :-1].argmax(axis=2)]
    if settings.recalibration.out_of_fold:
        supports = _out_of_fold(rows, used, optimum, settings, labels, seed)
        selections.append(supports[..., :-1].argmax(axis=2))
    calibrated_on = rows.weight * (apart[:, question] if settings.recalibration.split else used)
    n_reports = rows.usable.sum(axis=1) if partial else None
    outcomes = Outcomes.of_selected(supports, rows.right_state, calibrated_on, *selections, n_reports=n_reports)
    trees = []
    for member, calibration in enumerate(recalibrate(outcomes, settings.recalibration)):
        own = weight[member, : len(whole)]
        fitted = whole.select(own > 0)
        data = LikelihoodData.weighted(fitted, own[own > 0], preset=settings, labels=labels)
        about: dict[str, Any] = {"labels": labels, "preset": settings, "seed": seed, "partial": partial}
        tree = map_posterior(optimum, member, fitted, data, **about)
        tree["recalibration"] = xr.DataTree(calibration.to_dataset())
        if apart[member].any():
            record_apart(tree, whole.select((own > 0) | apart[member]), whole.select(apart[member]))
        trees.append(tree)
    return trees


def _out_of_fold(
    rows: Observations,
    used: Bool[np.ndarray, "batch row"],
    whole: Optimum,
    preset: Preset,
    labels: Sequence[str],
    seed: int,
) -> Float[np.ndarray, "batch row state"]:
    """Return the support of the states of each used row, from fits that did not see its question.

    To save steps these fits start from the optimum of the fit to all questions. A single question (or
    cluster) is predicted in sample, as nothing is left to fit without it.
    """
    n_folds, cluster = preset.recalibration.out_of_fold, rows.cluster_number
    fold = np.where(used, 0, -1)
    for member, row in enumerate(used):
        n_units = int(row.sum()) if cluster is None else len(np.unique(cluster[row]))
        if n_units > 1:
            fold[member] = hashed_folds(rows, row, min(n_folds, n_units), seed)
    held_out = fold[:, None, :] == np.arange(n_folds)[None, :, None]
    dealt = (fold > 0).any(axis=1)[:, None, None]
    kept = (used[:, None, :] & ~(held_out & dealt)).reshape(-1, used.shape[1])
    weight = likelihood_weights(kept, rows, preset)
    near = jax.tree.map(lambda value: np.repeat(value, n_folds, axis=0), whole)
    optimum = map_estimates(rows, weight, preset=preset, labels=labels, near=near)
    supports = _supports(optimum, rows, preset, labels)
    return np.where(held_out[..., None], supports.reshape(*held_out.shape, -1), 0.0).sum(axis=1)


def _supports(
    optimum: Optimum, observations: Observations, preset: Preset, labels: Sequence[str]
) -> Float[np.ndarray, "batch problem state"]:
    """Return the support of each question's states, the null last, for every fit of a batch."""
    reports = Reports.of(observations, preset.eps, labels)
    data = LikelihoodData.weighted(observations, observations.weight, preset=preset, labels=labels)
    dims = {name: site.dims for name, site in parameter_sites(model_of(preset), data).items()}
    batch = Parameters.of_sites(optimum.natural, dims, len(observations.signal_names)).of_slots(observations.slots)
    members = (jax.tree.map(lambda value, at=at: value[at : at + 1], batch) for at in range(len(batch.weight)))
    return np.stack([distribution(reports, parameters) for parameters in members])
