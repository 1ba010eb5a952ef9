"""Make fits: by MAP, to one choice of questions or to several in one batch; by NUTS; from draws; by folds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import jax
import numpy as np
import pandas as pd
import xarray as xr
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int
from numpyro.infer import MCMC

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.container import (
    by_sample,
    calibration_group,
    container,
    evaluated_draws,
    left_out_group,
    map_groups,
    nuts_groups,
    record_holdout,
    replay_groups,
)
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import Fold, dealt, hashed_folds, holdout_of
from bayes_direag.fits.sources import takes_observations
from bayes_direag.inference.loo import leave_one_out
from bayes_direag.inference.map import Optimum, map_estimates
from bayes_direag.inference.nuts import Draws, nuts_draws
from bayes_direag.inference.recalibration import Outcomes, draw_recalibration, recalibrate
from bayes_direag.model import presets
from bayes_direag.model.contract import require_program
from bayes_direag.model.forward import Forward
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to, learned_from, likelihood_weights
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.selection import Recalibration, distribution
from bayes_direag.model.settings import FitMethod, FitSettings, Preset, SamplingSettings
from bayes_direag.model.unconstrained import parameter_sites

#: The folds in which a MAP predicts its own questions.
_LEFT_OUT_FOLDS = 5
#: How many draws replay labelled questions with fewer reports.
_REPLAYED = 64


@takes_observations
def fit_map(
    observations: Observations,
    *,
    preset: PresetLike = "bayes",
    unlabelled: Observations | None = None,
    seed: int = 0,
) -> Fit:
    """Fit the evidence model and the recalibration to labelled questions by MAP, the mode of the posterior.

    Of questions without a label only the agreement of the levels counts (:mod:`bayes_direag.data.agreement`); those
    without an answer are left out.

    Parameters
    ----------
    preset
        The name of a preset, a preset with changes (:func:`~bayes_direag.preset`), or a NumPyro function of your own
        that draws the states by :func:`~bayes_direag.model.evidence.draw_states` (:mod:`bayes_direag.model.models`).
    unlabelled
        Further questions of the same levels. If they have labels, these are not looked at.
    seed
        Seed of the folds of an out-of-fold recalibration; nothing else is random.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered, or the unlabelled ones cannot be used.
    ConvergenceError
        If the optimum is not reached.
    """
    settings = FitSettings(presets.preset(preset), seed=seed)
    return fit_by(settings, observations, unlabelled)


@takes_observations
def fit_nuts(
    observations: Observations,
    *,
    preset: PresetLike = "bayes",
    num_chains: int = 4,
    num_warmup: int = 250,
    num_samples: int = 1000,
    target_accept_prob: float = 0.98,
    unlabelled: Observations | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Fit:
    """Draw from the posterior of the evidence parameters and of the recalibration, given labelled questions.

    Questions without a label or an answer count as in :func:`fit_map`.
    :func:`analysis.diagnosis.diagnose` checks whether the draws can be relied on.

    Parameters
    ----------
    preset
        As in :func:`fit_map`. Its inner folds are ignored, since leave-one-out support has not seen the label either.
        Where questions count unequally (``release``, weights of questions) the draws are of a Gibbs
        posterior: the likelihood is not that of a probability model.
    num_chains, num_warmup, num_samples, target_accept_prob
        As in NumPyro: see :class:`~bayes_direag.model.settings.SamplingSettings`.
    unlabelled
        As in :func:`fit_map`.
    seed
        Seed of all draws. The draws of one seed may differ between versions of JAX.
    progress
        Show progress bars.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered, the unlabelled ones cannot be used, or NUTS cannot be run so.
    """
    words = {"num_chains": num_chains, "num_warmup": num_warmup, "num_samples": num_samples}
    sampling = SamplingSettings.of(**words, target_accept_prob=target_accept_prob)
    settings = FitSettings(presets.preset(preset), "nuts", sampling, seed)
    return fit_by(settings, observations, unlabelled, progress=progress)


@takes_observations
def fit_draws(
    draws: MCMC | Draws | xr.DataTree | Mapping[str, ArrayLike],
    observations: Observations,
    *,
    preset: PresetLike = "bayes",
    sampling: SamplingSettings | None = None,
    seed: int = 0,
) -> Fit:
    """Make a fit from posterior draws of a model by any sampler.

    Log-likelihoods, leave-one-out predictions, and a final calibration for every draw, which learns from the
    leave-one-out support, are added.

    Parameters
    ----------
    draws
        A NumPyro run (with :data:`~bayes_direag.inference.nuts.NUMPYRO_STATISTICS` as its ``extra_fields``, for
        diagnostics), a tree of ArviZ, or the unconstrained parameters by site, with leading axes chain and draw.
    observations
        The questions that the model was conditioned on; of unlabelled ones only the agreement of the levels counts.
    preset
        That of the :class:`~bayes_direag.LikelihoodData`, or the model itself.
    sampling
        The sampler's settings, for the record; by default, the numbers of chains and draws.
    seed
        Seed of the final calibration, and of predictive draws.

    Raises
    ------
    DirEAGError
        If an unconstrained parameter is missing or has another shape, or no question is labelled and answered.
    """
    return _of_draws(lambda _: draws, observations, FitSettings(presets.preset(preset), "nuts", sampling, seed=seed))


def fit_by(
    settings: FitSettings,
    observations: Observations,
    unlabelled: Observations | None = None,
    *,
    progress: bool = False,
) -> Fit:
    """Fit by the method of the settings; raise DirEAGError if there is none of that name, and as :func:`fit_map`."""
    if unlabelled is not None:
        if not settings.preset.uses_agreement:
            raise DirEAGError(
                f"preset {settings.preset.name} learns nothing from unlabelled questions. Leave them out, or take "
                "preset bayes."
            )
        observations = observations.with_agreement(unlabelled)
    return fits_by(settings, observations, np.ones((1, len(observations)), bool), progress=progress)[0]


def fits_by(
    settings: FitSettings,
    observations: Observations,
    chosen: Bool[np.ndarray, "batch problem"],
    *,
    progress: bool = False,
) -> list[Fit]:
    """Fit to several choices of the questions; one that a row leaves out has no influence on that row's fit."""
    if settings.method not in get_args(FitMethod):
        raise DirEAGError(f"there is no method {settings.method!r}; expected {' or '.join(get_args(FitMethod))}.")
    if settings.method == "map":
        return _map_fits(observations, chosen, replace(settings, sampling=None))
    observations = observations.with_agreement()
    return [_sampled(observations.select(np.flatnonzero(row)), settings, progress) for row in chosen]


def _map_fits(
    observations: Observations, chosen: Bool[np.ndarray, "batch problem"], settings: FitSettings
) -> list[Fit]:
    """Fit to each row of ``chosen``, all in one batch."""
    whole, preset = fitted_to(observations, settings.preset)
    final, labels, seed = preset.recalibration, preset.labels(whole), settings.seed
    if whole.informative.any():  # the others count by the agreement of their levels alone
        whole, chosen = whole.select(whole.informative), chosen[:, whole.informative]
    holdout = np.stack([holdout_of(whole, row, preset, seed) for row in chosen])
    weight = likelihood_weights(chosen & ~holdout, whole, preset)
    optimum = map_estimates(whole, weight, preset=preset, labels=labels)
    used = weight > 0
    supports = np.asarray(optimum.probability)
    selections = [supports[..., :-1].argmax(axis=2)]
    if final.out_of_fold:
        folds = _out_of_fold(whole, used, optimum, preset, labels, seed)
        supports = folds.support
        selections.append(supports[..., :-1].argmax(axis=2))
    calibrated_on = whole.weight * (holdout if final.split else used)
    outcomes = Outcomes.of_selected(supports, whole.right_state, calibrated_on, *selections)
    fits = []
    for member, calibration in enumerate(recalibrate(outcomes, final)):
        counts = weight[member]
        fitted = whole.select(counts > 0)
        data = LikelihoodData.weighted(fitted, counts[counts > 0], preset=preset, labels=labels)
        tree = container(map_groups(optimum, member), fitted, data, labels=labels, settings=settings)
        tree["recalibration"] = calibration_group(calibration)
        if settings.is_by_panel:
            optima = {
                name: np.append(by_fold[member], [optimum.unconstrained[name][member]], axis=0)
                for name, by_fold in folds.unconstrained.items()
            }
            is_at = np.eye(final.out_of_fold + 1)
            tree.update(replay_groups(fitted, optima, is_at[folds.fold[member, counts > 0]], is_at[-1]))
        if holdout[member].any():
            record_holdout(tree, whole.select((counts > 0) | holdout[member]), whole.select(holdout[member]))
        fits.append(Fit(tree, preset.program, observations.same))
    return fits


class _Folds(NamedTuple):
    """Fits to all folds but one."""

    #: Of the states of each used row, by the fit that did not see its question.
    support: Float[np.ndarray, "batch row state"]
    #: The fold of each row; -1 if it is not used.
    fold: Int[np.ndarray, "batch row"]
    #: Unconstrained parameters by site, each with leading axes batch and fold.
    unconstrained: dict[str, np.ndarray]


def _out_of_fold(
    rows: Observations,
    used: Bool[np.ndarray, "batch row"],
    whole: Optimum,
    preset: Preset,
    labels: Sequence[str],
    seed: int,
) -> _Folds:
    """Fit to all folds but one, each in turn.

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
    supports = np.asarray(optimum.probability)
    support = np.where(held_out[..., None], supports.reshape(*held_out.shape, -1), 0.0).sum(axis=1)
    by_fold = {
        name: np.asarray(values).reshape(len(used), n_folds, *values.shape[1:])
        for name, values in optimum.unconstrained.items()
    }
    return _Folds(support, fold, by_fold)


def _sampled(observations: Observations, settings: FitSettings, progress: bool) -> Fit:
    sampling, seed = settings.sampling or SamplingSettings(), settings.seed
    observations, preset = fitted_to(observations, settings.preset)

    def draws_of(data: LikelihoodData) -> Draws:
        return nuts_draws(model_of(preset), data.counted(), sampling=sampling, seed=seed, progress=progress)

    holdout = holdout_of(observations, np.ones(len(observations), bool), preset, seed)
    return _of_draws(draws_of, observations, replace(settings, sampling=sampling), holdout)


def _of_draws(
    draws_of: Callable[[LikelihoodData], MCMC | Draws | xr.DataTree | Mapping[str, ArrayLike]],
    observations: Observations,
    settings: FitSettings,
    holdout: Bool[np.ndarray, " problem"] | None = None,
) -> Fit:
    """Make a fit from posterior draws, given those of the model that is conditioned on some data."""
    observations, preset = fitted_to(observations, settings.preset)
    final, labels = preset.recalibration, preset.labels(observations)
    kept = np.zeros(len(observations), bool) if holdout is None else holdout
    fitted = learned_from(observations.select(~kept), preset)
    weight = likelihood_weights(np.ones((1, len(fitted)), bool), fitted, preset)[0]
    data = LikelihoodData.weighted(fitted, weight, preset=preset, labels=labels)
    require_program(preset, data)
    sites = parameter_sites(model_of(preset), data)
    drawn = Draws.of(draws_of(data), {name: site.shape for name, site in sites.items() if site.is_unconstrained})
    num_chains, num_samples = next(iter(drawn.unconstrained.values())).shape[:2]
    shape = num_chains, num_samples
    if settings.sampling is None:
        sampling = SamplingSettings.model_construct(num_chains=num_chains, num_warmup=0, num_samples=num_samples)
        settings = replace(settings, sampling=sampling)
    of_draws = evaluated_draws(model_of(preset), drawn.unconstrained, data)
    groups = nuts_groups(drawn, of_draws, data)
    tree = container(groups, fitted, data, labels=labels, settings=settings)
    densities, sampled = of_draws.log_likelihood, tree["unconstrained_posterior"].to_dataset()
    evaluation = Forward(model_of(preset), by_sample(tree), data)
    some = np.linspace(0, densities[..., 0].size - 1, _REPLAYED).astype(int) if settings.is_by_panel else slice(0)
    left_out = leave_one_out(sampled, densities, evaluation, densities * fitted.weight, some)
    calibration = Recalibration.identity(shape, final.eps)
    if final.method != "none":
        outcomes = left_out.outcomes(fitted.right_state, fitted.weight)
        if kept.any():
            outcomes = _outcomes_of_holdout(observations.select(kept), evaluation, settings, labels)
        calibration = draw_recalibration(outcomes, final, shape, np.random.default_rng([settings.seed, 2]))
    tree["recalibration"] = calibration_group(calibration)
    if settings.is_by_panel:
        draws = {name: values[some] for name, values in by_sample(tree).items()}
        tree.update(replay_groups(fitted, draws, left_out.weight, np.full(_REPLAYED, 1 / _REPLAYED)))
    if kept.any():
        record_holdout(tree, observations.select(observations.informative), observations.select(kept))
    fit = Fit(tree, preset.program, observations.same)
    tree["loo"] = left_out_group(left_out, fitted, data.panels, fit.calibration)
    return fit


def _outcomes_of_holdout(
    questions: Observations, evaluation: Forward, settings: FitSettings, labels: Sequence[str]
) -> Outcomes:
    """Return the data of the final calibration of draws that have not seen these questions."""
    data = evaluation.data.of_new(questions, preset=settings.preset, labels=labels)
    support = distribution(replace(evaluation, data=data))[None]
    selected = support[..., :-1].argmax(axis=2)
    return Outcomes.of_selected(support, questions.right_state, questions.weight[None], selected)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A fit and its predictions of questions that it has not seen.

    Attributes
    ----------
    fold : str
        ``0``, ``1``, ... in cross-fitting; ``test`` for a test set.
    fit : Fit
    index : (problem,) array
        The questions, as positions in the evaluated observations, ascending.
    predictions : DataFrame
        The table of :meth:`Fit.predict`, in that order.
    """

    fold: str
    fit: Fit
    index: Int[np.ndarray, " problem"]
    predictions: pd.DataFrame

    def __repr__(self) -> str:
        return f"HeldOut({self.fold}: {len(self.index)} questions, predicted by {self.fit!r})"


def train_test(
    train: Observations,
    test: Observations,
    *,
    method: FitMethod = "map",
    preset: PresetLike = "bayes",
    sampling: SamplingSettings | None = None,
    seed: int = 0,
) -> list[HeldOut]:
    """Fit to one set, and predict every answered question of another.

    Parameters
    ----------
    method
        ``map`` or ``nuts``; the other parameters are those of :func:`fit_map` and :func:`fit_nuts`.

    Raises
    ------
    DirEAGError
        As :func:`dealt` and the fit do.
    """
    settings = FitSettings(presets.preset(preset), method, sampling, seed)
    return _held_out(settings, train, test, dealt(train, test, 0, seed))


@takes_observations
def cross_fit(
    observations: Observations,
    *,
    n_folds: int = 5,
    method: FitMethod = "map",
    preset: PresetLike = "bayes",
    sampling: SamplingSettings | None = None,
    seed: int = 0,
) -> list[HeldOut]:
    """Predict every answered question from a fit to the other folds.

    Unlabelled questions are predicted but not fitted to. The agreement of the levels is that of all questions. The
    parameters are those of :func:`train_test`.

    Raises
    ------
    DirEAGError
        As :func:`dealt` and the fits do.
    """
    settings = FitSettings(presets.preset(preset), method, sampling, seed)
    return _held_out(settings, observations, observations, dealt(observations, None, n_folds, seed))


def _held_out(
    settings: FitSettings, observations: Observations, asked: Observations, folds: Sequence[Fold]
) -> list[HeldOut]:
    fits = fits_by(settings, observations, np.stack([fold.fitted for fold in folds]))
    return [
        HeldOut(fold.name, fit, fold.asked, fit.predict(asked.select(fold.asked), warn=False))
        for fold, fit in zip(folds, fits, strict=True)
    ]


def left_out_predictions(fit: Fit) -> pd.DataFrame:
    """Predict each fitted question without its label: ``candidate``, its final ``probability``, whether ``correct``.

    Leave-one-out under NUTS. A MAP is fitted again to five folds, each question predicted by the fit that has not seen
    it. A final calibration that is learned from questions kept apart has seen none of these, and stays.
    """
    if fit.method == "nuts":
        return pd.DataFrame({name: fit.left_out[name].to_numpy() for name in ("candidate", "probability", "correct")})
    questions, settings = fit.fitted, fit.settings
    if fit.calibrated_on:
        bare = presets.preset(fit.preset, recalibration={"method": "none", "split": 0})
        settings = replace(settings, preset=bare)
    folds = dealt(questions, None, _LEFT_OUT_FOLDS, settings.seed)
    held_out = _held_out(settings, questions, questions, folds)
    predicted = pd.concat([part.predictions.set_index(part.index) for part in held_out]).sort_index()
    candidate = [texts.index(answer) for texts, answer in zip(questions.candidates, predicted["answer"], strict=True)]
    probability = predicted["probability"].to_numpy()
    if fit.calibrated_on:
        panels = fit.evaluation(questions).data.panels
        probability = fit.calibration.of_selected(probability[None], panels)[0]
    correct = questions.right_state[np.arange(len(questions)), candidate]
    return pd.DataFrame({"candidate": candidate, "probability": probability, "correct": correct})
