r"""The containers of fits: of MAP fits to several choices of questions, made in one batch, and of posterior draws.

A *partial* fit also learns from copies of its questions that lack reports, as new ones may. A fit to whole panels is
wrong about a part of one: among many reports the null is rare and a vote is one of many that say the same, while a lone
report is wrong as often as its level. So it sees each question :data:`N_COPIES` times: once whole, and otherwise with a
random number of its reports, chosen at random. The product of the likelihoods of all copies, to the power of their
weight, is a composite likelihood (Varin, Reid and Firth 2011, Statistica Sinica 21, 5-42).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import jax
import numpy as np
import xarray as xr
from jax.typing import ArrayLike
from jaxtyping import Bool, Float
from numpyro.infer import MCMC

from bayes_direag.data.observations import Observations
from bayes_direag.fits.folds import hashed_folds, holdout_of
from bayes_direag.inference.container import (
    by_sample,
    container,
    evaluated_draws,
    map_groups,
    nuts_groups,
    record_holdout,
)
from bayes_direag.inference.loo import leave_one_out
from bayes_direag.inference.map import Optimum, map_estimates
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.recalibration import Outcomes, draw_recalibration, recalibrate
from bayes_direag.model.contract import require_program
from bayes_direag.model.forward import Forward, by_candidate
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to, learned_from, likelihood_weights
from bayes_direag.model.models import model_of
from bayes_direag.model.patterns import first_mentions
from bayes_direag.model.selection import Recalibration, distribution
from bayes_direag.model.settings import FitMethod, FitSettings, Preset, SamplingSettings
from bayes_direag.model.unconstrained import parameter_sites

N_COPIES = 8
#: What a copy counts of its question's weight. Under NUTS the copies of a question count as one question.
WEIGHT_OF_COPY: dict[FitMethod, float] = {"map": 1 / 4, "nuts": 1 / N_COPIES}


def fitted_rows(
    questions: Observations, settings: FitSettings, labels: Sequence[str], n_joined: int = 0
) -> tuple[Observations, LikelihoodData]:
    """Return what a fit learns from: its questions, in a partial fit with their copies, and their likelihood.

    The last ``n_joined`` levels have joined without labels, and have no report here.

    Raises DirEAGError as :func:`~bayes_direag.model.likelihood_data.likelihood_weights` does.
    """
    rows = thinned(questions, settings.method, settings.seed, n_joined) if settings.partial else questions
    weight = likelihood_weights(np.ones((1, len(rows)), bool), rows, settings.preset)[0]
    return rows, LikelihoodData.weighted(rows, weight, preset=settings.preset, labels=labels)


def thinned(observations: Observations, method: FitMethod, seed: int, n_joined: int = 0) -> Observations:
    """Return all questions, then each one seven times with some of its usable reports, each copy with its weight.

    A copy keeps any number of reports from 1 to all with equal probability. What is kept depends on the question's
    name, its reports and the seed, and not on other questions. Copies of a question are one cluster.
    """
    n, (n_rows, n_columns) = N_COPIES - 1, observations.shape
    n_drawn, uniform = n_columns - n_joined + 1, np.ones((n, n_rows, n_columns + 1))
    for row, name in enumerate(observations.problem_id):
        entropy = int.from_bytes(sha256(f"{seed} {name}".encode()).digest())
        uniform[:, row, :n_drawn] = np.random.default_rng(entropy).random((n, n_drawn))
    usable = observations.usable
    n_kept = 1 + np.floor(uniform[..., n_drawn - 1] * usable.sum(axis=1))
    rank = np.where(usable, uniform[..., :-1], np.inf).argsort(axis=2).argsort(axis=2)
    missing = np.concatenate([np.zeros((1, n_rows, n_columns), bool), rank >= n_kept[..., None]])
    clusters = observations.cluster or (None,) * n_rows
    units = tuple(cluster or name for cluster, name in zip(clusters, observations.problem_id, strict=True))
    weight = WEIGHT_OF_COPY[method] * observations.weight
    copies = replace(observations, cluster=units, weight=weight).select(np.tile(np.arange(n_rows), N_COPIES))
    return copies.without(missing.reshape(-1, n_columns))


def map_fits(
    observations: Observations, chosen: Bool[np.ndarray, "batch problem"], settings: FitSettings
) -> list[xr.DataTree]:
    """Fit to each row of ``chosen``, and return its container with the final calibration.

    A question that a row leaves out has no influence on that row's fit.
    """
    whole, preset = fitted_to(observations, settings.preset)
    final, labels, seed = preset.recalibration, preset.labels(whole), settings.seed
    if whole.informative.any():  # the others count by the agreement of their levels alone
        whole, chosen = whole.select(whole.informative), chosen[:, whole.informative]
    rows = thinned(whole, "map", seed) if settings.partial else whole
    question = np.tile(np.arange(len(whole)), len(rows) // max(len(whole), 1))
    holdout = np.stack([holdout_of(whole, row, preset, seed) for row in chosen])
    weight = likelihood_weights((chosen & ~holdout)[:, question], rows, preset)
    optimum = map_estimates(rows, weight, preset=preset, labels=labels)
    used = weight > 0
    supports = _supports(optimum, rows)
    selections = [supports[..., :-1].argmax(axis=2)]
    if final.out_of_fold:
        supports = _out_of_fold(rows, used, optimum, preset, labels, seed)
        selections.append(supports[..., :-1].argmax(axis=2))
    calibrated_on = rows.weight * (holdout[:, question] if final.split else used)
    n_reports = rows.usable.sum(axis=1) if settings.partial else None
    outcomes = Outcomes.of_selected(supports, rows.right_state, calibrated_on, *selections, n_reports=n_reports)
    trees = []
    for member, calibration in enumerate(recalibrate(outcomes, final)):
        counts = weight[member, : len(whole)]
        fitted = whole.select(counts > 0)
        data = LikelihoodData.weighted(fitted, counts[counts > 0], preset=preset, labels=labels)
        tree = container(map_groups(optimum, member), fitted, data, labels=labels, settings=settings)
        tree["recalibration"] = xr.DataTree(calibration.to_dataset())
        if holdout[member].any():
            record_holdout(tree, whole.select((counts > 0) | holdout[member]), whole.select(holdout[member]))
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
    initial = jax.tree.map(lambda value: np.repeat(value, n_folds, axis=0), whole)
    optimum = map_estimates(rows, weight, preset=preset, labels=labels, initial=initial)
    supports = _supports(optimum, rows)
    return np.where(held_out[..., None], supports.reshape(*held_out.shape, -1), 0.0).sum(axis=1)


def _supports(optimum: Optimum, observations: Observations) -> Float[np.ndarray, "batch problem state"]:
    """Return the support of each question's states, the null last, for every fit of a batch."""
    candidate = np.ascontiguousarray(observations.candidate.T)
    first = first_mentions(candidate)
    return np.stack([by_candidate(np.asarray(member), candidate, first).T for member in optimum.probability])


def drawn_tree(
    draws_of: "Callable[[LikelihoodData], MCMC | Draws | xr.DataTree | Mapping[str, ArrayLike]]",
    observations: Observations,
    settings: FitSettings,
    holdout: Bool[np.ndarray, " problem"] | None = None,
) -> xr.DataTree:
    """Return the container of posterior draws, given those of the model that is conditioned on some data.

    See :meth:`Fit.from_draws <bayes_direag.fits.fit.Fit.from_draws>`.
    """
    observations, preset = fitted_to(observations, settings.preset)
    final, labels = preset.recalibration, preset.labels(observations)
    kept = np.zeros(len(observations), bool) if holdout is None else holdout
    fitted = learned_from(observations.select(~kept), preset)
    rows, data = fitted_rows(fitted, settings, labels)
    require_program(preset, data)
    sites = parameter_sites(model_of(preset), data)
    drawn = Draws.of(draws_of(data), {name: site.shape for name, site in sites.items() if site.is_unconstrained})
    num_chains, num_samples = next(iter(drawn.unconstrained.values())).shape[:2]
    shape = num_chains, num_samples
    if settings.sampling is None:
        sampling = SamplingSettings.model_construct(num_chains=num_chains, num_warmup=0, num_samples=num_samples)
        settings = replace(settings, sampling=sampling)
    of_draws = evaluated_draws(model_of(preset), drawn.unconstrained, data)
    groups = nuts_groups(drawn, of_draws, data, len(fitted))
    tree = container(groups, fitted, data, labels=labels, settings=settings)
    of_rows, sampled = of_draws.log_likelihood, tree["unconstrained_posterior"].to_dataset()
    removed = (of_rows * rows.weight).reshape(*shape, -1, len(fitted)).sum(axis=2)
    evaluation = Forward(model_of(preset), by_sample(tree), data)
    left_out = leave_one_out(sampled, of_rows, evaluation, removed)
    calibration = Recalibration.identity(shape, final.eps)
    if final.method != "none":
        n_reports = rows.usable.sum(axis=1) if settings.partial else None
        outcomes = left_out.outcomes(rows.right_state, rows.weight, n_reports)
        if kept.any():
            outcomes = _outcomes_of_holdout(observations.select(kept), evaluation, settings, labels)
        calibration = draw_recalibration(outcomes, final, shape, np.random.default_rng([settings.seed, 2]))
    tree["loo"] = xr.DataTree(left_out.to_dataset(fitted, calibration))
    tree["recalibration"] = xr.DataTree(calibration.to_dataset())
    if kept.any():
        record_holdout(tree, observations.select(observations.informative), observations.select(kept))
    return tree


def _outcomes_of_holdout(
    questions: Observations, evaluation: Forward, settings: FitSettings, labels: Sequence[str]
) -> Outcomes:
    """Return the data of the final calibration of draws that have not seen these questions."""
    rows = thinned(questions, "nuts", settings.seed) if settings.partial else questions
    data = evaluation.data.of_new(rows, preset=settings.preset, labels=labels)
    support = distribution(replace(evaluation, data=data))[None]
    n_reports = rows.usable.sum(axis=1) if settings.partial else None
    selected = support[..., :-1].argmax(axis=2)
    return Outcomes.of_selected(support, rows.right_state, rows.weight[None], selected, n_reports=n_reports)
