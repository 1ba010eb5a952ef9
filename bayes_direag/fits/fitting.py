"""Fits: the mode of the posterior, for one choice of questions or many at once, the whole of it by NUTS, by folds."""

import json
import random
from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.data.sources import takes_observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.prediction import distribution
from bayes_direag.inference.map import Optimum, map_estimates
from bayes_direag.inference.nuts import nuts_draws
from bayes_direag.inference.posterior import map_posterior
from bayes_direag.inference.recalibration import Outcomes, recalibrate
from bayes_direag.inference.recalibration_posterior import require_posterior
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to, likelihood_weights
from bayes_direag.model.model import natural_parameters
from bayes_direag.model.settings import Method, Preset, SamplingSettings, Variant


@takes_observations
def fit_map(
    observations: Observations,
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    seed: int = 0,
) -> Fit:
    """Fit the evidence model and the recalibration to labelled questions; the mode of the posterior.

    Unlabelled and unanswered questions are left out. Where no report states a confidence, variant ``confidence`` is
    ``level``. Rows that stand for several questions (:func:`count_patterns
    <bayes_direag.data.counted.count_patterns>`) count as often, and come to the same fit as all of these.

    Parameters
    ----------
    preset
        ``bayes``, ``paper``, ``release`` or a preset of your own.
    seed
        Deals the folds of an out-of-fold recalibration; nothing else is random.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered; or if rows stand for several questions, and the recalibration
        is to be out of fold.
    ConvergenceError
        If the optimum is not reached.
    """
    everything = np.ones((1, len(observations)), bool)
    return fit_map_batch(observations, everything, preset=preset, variant=variant, seed=seed)[0]


def fit_map_batch(
    observations: Observations,
    chosen: Bool[np.ndarray, "batch problem"],
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    seed: int = 0,
) -> list[Fit]:
    """Fit to several choices of the same questions at once; see :func:`fit_map`.

    Nothing of a question that a row leaves out has any influence on that row's fit.
    """
    observations, settings, variant = fitted_to(observations, preset, variant)
    one_by_one = settings.recalibration.out_of_fold or settings.recalibration.split
    apart = _kept_apart(chosen, observations, settings.recalibration.split, seed)
    weight = likelihood_weights(chosen & ~apart, observations, settings, by_pattern=not one_by_one)
    optimum = map_estimates(observations, weight, preset=settings, variant=variant)
    used = weight > 0
    supports = _supports(optimum, observations, settings, variant)
    selections = [supports[..., :-1].argmax(axis=2)]
    if settings.recalibration.out_of_fold:
        supports = _out_of_fold(observations, used, optimum, settings, variant, seed)
        selections.append(supports[..., :-1].argmax(axis=2))
    times = 1.0 if observations.multiplicity is None else observations.multiplicity.astype(float)
    taught = apart if settings.recalibration.split else used
    outcomes = Outcomes.of_selected(supports, observations.right_state, taught * times, *selections)
    final = recalibrate(outcomes, settings.recalibration)
    fits = []
    for member, row in enumerate(used):
        tree = map_posterior(
            optimum,
            member,
            observations,
            weight[member],
            preset=settings,
            variant=variant,
            seed=seed,
        )
        if observations.multiplicity is not None:
            counted = xr.DataArray(observations.multiplicity[row], dims="problem")
            tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(multiplicity=counted))
        kept = [name for name, own in zip(observations.problem_id, apart[member], strict=True) if own]
        tree["recalibration"] = xr.DataTree(final[member].to_dataset())
        tree.attrs |= {"calibrated_on": json.dumps(kept)} if kept else {}
        fits.append(Fit(tree))
    return fits


def _kept_apart(
    chosen: Bool[np.ndarray, "batch problem"], observations: Observations, n_parts: int, seed: int
) -> Bool[np.ndarray, "batch problem"]:
    """Return which questions are kept for the final calibration alone; whole clusters, and none with 0 parts."""
    apart, cluster = np.zeros_like(chosen), observations.cluster_number
    for member, row in enumerate(chosen & observations.labelled & observations.answered):
        if n_parts:
            own = None if cluster is None else cluster[row]
            apart[member, row] = assign_folds(int(row.sum()), n_parts, seed, own) == 0
    return apart


@takes_observations
def fit_nuts(
    observations: Observations,
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    seed: int = 0,
    allow_weighted: bool = False,
    progress: bool = False,
) -> Fit:
    """Draw from the posterior of the evidence parameters and of the recalibration, given labelled questions.

    Unlabelled and unanswered questions are left out. Whether the draws can be relied on is for
    :func:`analysis.diagnosis.diagnostics.diagnose` to say.

    Parameters
    ----------
    preset
        ``bayes``, ``paper`` (its penalty read as a prior) or a preset of your own, without bounds.
    sampling
        Chains, draws, warm-up; the defaults of :class:`~bayes_direag.model.settings.SamplingSettings` when left out.
    seed
        Of everything that is drawn. The draws for one seed differ between JAX versions and numbers of devices.
    allow_weighted
        Sample although the preset weighs questions unequally. Such a likelihood is not that of a probability model:
        intervals and leave-one-out figures from it have no meaning of their own.
    progress
        Show progress bars.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered, if the preset bounds its parameters, weighs its questions
        without leave, or asks for a recalibration that has no posterior. Its number of inner folds is not looked at:
        leave-one-out support has not seen the label either.
    """
    observations, settings, variant = fitted_to(observations, preset, variant)
    _check_weights(settings, allow_weighted=allow_weighted)
    require_posterior(settings.recalibration)
    runs = sampling or SamplingSettings()
    weight = likelihood_weights(np.ones((1, len(observations)), bool), observations, settings)[0]
    fitted, weight = observations.select(weight > 0), weight[weight > 0]
    data = LikelihoodData.weighted(fitted, weight, preset=settings, variant=variant)
    draws = nuts_draws(data.counted(), sampling=runs, seed=seed, progress=progress)
    return Fit.from_draws(draws, observations, preset=settings, variant=variant, sampling=runs, seed=seed)


def assign_folds(
    n: int, n_folds: int, seed: int, cluster: Int[np.ndarray, " problem"] | None = None
) -> Int[np.ndarray, " problem"]:
    """Deal ``n`` questions into folds: shuffle their indices with ``random.Random(seed)``, then deal round-robin.

    Parameters
    ----------
    cluster
        Which questions hang together: whole clusters are dealt, after the shuffle the largest first, each to the
        smallest fold so far. Clusters of one question each are dealt as if there were none.

    Returns
    -------
    (problem,) array
        The fold of each question, 0-based. Sizes differ by one at most, or by the largest cluster.

    Raises
    ------
    DirEAGError
        With fewer than two folds, or fewer questions or clusters than folds (in particular without questions).
    """
    _, member, sizes = np.unique(np.arange(n) if cluster is None else cluster, return_inverse=True, return_counts=True)
    if not 2 <= n_folds <= len(sizes):
        remedy = "Ask for more folds." if n_folds < 2 else "Ask for fewer folds, or give more questions."
        seen, unit = (f"{n} usable questions", "question")
        if cluster is not None:
            seen, unit = f"{seen} in {len(sizes)} clusters", "cluster"
        raise DirEAGError(
            f"cannot deal {seen} into {n_folds} folds; expected at least two folds and a {unit} for each. {remedy}"
        )
    order = list(range(n))
    random.Random(seed).shuffle(order)  # noqa: S311 - a reproducible deal, not a secret
    shuffled = list(dict.fromkeys(member[order].tolist()))
    filled, fold = [0] * n_folds, np.empty(len(sizes), np.int64)
    for number in sorted(shuffled, key=lambda number: -sizes[number]):
        fold[number] = smallest = filled.index(min(filled))
        filled[smallest] += sizes[number]
    return fold[member]


def _out_of_fold(
    observations: Observations,
    used: Bool[np.ndarray, "batch problem"],
    whole: Optimum,
    preset: Preset,
    variant: Variant,
    seed: int,
) -> Float[np.ndarray, "batch problem state"]:
    """Return the support of each question's states, from fits that did not see the question.

    They start from the optimum of the fit to all questions, to be there sooner; under bounds, those of ``release``,
    from the preset's start. Where a member has a single question (or cluster), nothing is left to fit to without it:
    that is predicted in sample.
    """
    n_folds, cluster = preset.recalibration.out_of_fold, observations.cluster_number
    fold = np.where(used, 0, -1)
    for member, row in enumerate(used):
        own = None if cluster is None else cluster[row]
        n_apart = int(row.sum()) if own is None else len(np.unique(own))
        if n_apart > 1:
            fold[member, row] = assign_folds(int(row.sum()), min(n_folds, n_apart), seed, own)
    held_out = fold[:, None, :] == np.arange(n_folds)[None, :, None]
    dealt = (fold > 0).any(axis=1)[:, None, None]
    kept = (used[:, None, :] & ~(held_out & dealt)).reshape(-1, used.shape[1])
    weight = likelihood_weights(kept, observations, preset)
    near = None if preset.is_bounded else jax.tree.map(lambda value: np.repeat(value, n_folds, axis=0), whole)
    optimum = map_estimates(observations, weight, preset=preset, variant=variant, near=near)
    supports = _supports(optimum, observations, preset, variant)
    return np.where(held_out[..., None], supports.reshape(*held_out.shape, -1), 0.0).sum(axis=1)


def _supports(
    optimum: Optimum, observations: Observations, preset: Preset, variant: Variant
) -> Float[np.ndarray, "batch problem state"]:
    """Return the support of each question's states, the null last, for every fit of a batch."""
    reports = Reports.of(observations, preset.eps, observations.labels if preset.label_vote else None)
    with jax.enable_x64(True):
        of_all = jax.vmap(lambda raw: natural_parameters(raw, preset, variant))(optimum.raw)
    batch = jax.tree.map(np.asarray, of_all.of_slots(observations.slots))
    each = (jax.tree.map(lambda value, at=at: value[at : at + 1], batch) for at in range(len(batch.weight)))
    return np.stack([distribution(reports, one) for one in each])


def _check_weights(preset: Preset, *, allow_weighted: bool) -> None:
    if preset.is_weighted and not allow_weighted:
        raise DirEAGError(
            f"preset {preset.name} weighs questions unequally (null_target_weight {preset.null_target_weight}), which "
            "is not a probability model: intervals and leave-one-out figures from it mean nothing. Set "
            "null_target_weight to 1, or say allow_weighted (--allow-weighted) to sample all the same."
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One fit and the questions it is evaluated on.

    Attributes
    ----------
    fold : str
        ``0``, ``1``, ... under cross-fitting; ``test`` under train/test.
    fit : Fit
    index : (problem,) array
        The questions it did not see, as positions in the evaluated observations, ascending.
    predictions : DataFrame
        What :meth:`Fit.predict` says of them, in that order.
    """

    fold: str
    fit: Fit
    index: Int[np.ndarray, " problem"]
    predictions: pd.DataFrame


def train_test(
    train: Observations,
    test: Observations,
    *,
    method: Method = "map",
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    allow_weighted: bool = False,
    seed: int = 0,
) -> list[HeldOut]:
    """Fit on one set, predict every answered question of another.

    Parameters
    ----------
    method
        ``map``, or ``nuts`` for the whole posterior; ``sampling`` and ``allow_weighted`` as in
        :func:`~bayes_direag.fits.fitting.fit_nuts`.

    Raises
    ------
    DirEAGError
        As :func:`check_apart` does.
    """
    check_apart(train, test)
    fit = _fits(train, np.ones((1, len(train)), bool), method, preset, variant, sampling, allow_weighted, seed)[0]
    index = np.flatnonzero(test.answered)
    return [HeldOut("test", fit, index, fit.predict(test.select(index)))]


def check_apart(train: Observations, test: Observations) -> None:
    """Raise DirEAGError if a question (a ``problem_id``) is in both, or questions of one cluster are."""
    both = set(train.problem_id) & set(test.problem_id)
    if both:
        raise DirEAGError(
            f"{len(both)} of {len(test)} test questions are also in the training set, {min(both)!r} among them; "
            "expected none, so that no question is evaluated by a fit that has seen it. Remove them from one of the "
            "two, or rename them if they are other questions under the same problem_id."
        )
    shared = {name for name in train.cluster or () if name} & set(test.cluster or ())
    if shared:
        raise DirEAGError(
            f"{len(shared)} clusters have questions in the training set and among the test questions, {min(shared)!r} "
            "is one; expected none, because questions of a cluster are alike. Move each whole "
            "cluster to one of the two, or rename those that are others under the same name."
        )


def cross_fit(
    observations: Observations,
    *,
    n_folds: int = 5,
    method: Method = "map",
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    allow_weighted: bool = False,
    seed: int = 0,
) -> list[HeldOut]:
    """Predict every answered question from a fit to the other folds.

    The answered questions are dealt in file order, those of a cluster together: see
    :func:`~bayes_direag.fits.fitting.assign_folds`. An answered
    question without a gold answer is predicted, but teaches nothing. See :func:`train_test` for the parameters.

    Raises
    ------
    DirEAGError
        If there are too few questions for the folds, or a fold leaves no labelled question to fit.
    """
    fold = fold_of_question(observations, n_folds, seed)
    kept = (fold[None, :] >= 0) & (fold[None, :] != np.arange(n_folds)[:, None])
    fits = _fits(observations, kept, method, preset, variant, sampling, allow_weighted, seed)
    parts = [np.flatnonzero(fold == number) for number in range(n_folds)]
    return [
        HeldOut(str(number), fit, index, fit.predict(observations.select(index)))
        for number, (fit, index) in enumerate(zip(fits, parts, strict=True))
    ]


def fold_of_question(observations: Observations, n_folds: int, seed: int) -> Int[np.ndarray, " problem"]:
    """Return the fold that :func:`cross_fit` holds each question out with; -1 where it is unanswered."""
    answered, cluster = observations.answered, observations.cluster_number
    fold = np.full(len(observations), -1)
    own = None if cluster is None else cluster[answered]
    fold[answered] = assign_folds(int(answered.sum()), n_folds, seed, own)
    return fold


def _fits(
    observations: Observations,
    kept: Bool[np.ndarray, "batch problem"],
    method: Method,
    preset: str | Preset,
    variant: Variant,
    sampling: SamplingSettings | None,
    allow_weighted: bool,
    seed: int,
) -> list[Fit]:
    if method == "map":
        return fit_map_batch(observations, kept, preset=preset, variant=variant, seed=seed)
    return [
        fit_nuts(
            observations.select(np.flatnonzero(row)),
            preset=preset,
            variant=variant,
            sampling=sampling,
            seed=seed,
            allow_weighted=allow_weighted,
        )
        for row in kept
    ]
