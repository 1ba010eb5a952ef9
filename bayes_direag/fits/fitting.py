"""Fit the model: by MAP, for one choice of questions or several; by NUTS; and by folds."""

from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.containers import drawn_tree, map_fits
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import dealt_folds, holdout_of
from bayes_direag.fits.sources import takes_observations
from bayes_direag.inference.nuts import Draws, nuts_draws
from bayes_direag.model import presets
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to
from bayes_direag.model.models import model_of
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.settings import FitMethod, FitSettings, SamplingSettings

#: The folds in which a MAP predicts its own questions.
_LEFT_OUT_FOLDS = 5


@takes_observations
def fit_map(
    observations: Observations,
    *,
    preset: PresetLike = "bayes",
    unlabelled: Observations | None = None,
    partial: bool = False,
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
    partial
        Whether new questions may have fewer reports than these. The fit then also sees copies of each question with
        fewer reports (:mod:`bayes_direag.fits.containers`), and the share of its reports enters the final calibration.
    seed
        Seed of the folds of an out-of-fold recalibration, and of the reports of copies; nothing else is random.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered, or the unlabelled ones cannot be used.
    ConvergenceError
        If the optimum is not reached.
    """
    settings = FitSettings(presets.preset(preset), partial=partial, seed=seed)
    return fit_by(settings, _with_unlabelled(observations, unlabelled, settings))


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
    partial: bool = False,
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
        As in NumPyro: independent chains, at least 2; steps of each that adapt the step size; draws of each, at least
        25; and the acceptance rate that the step size is adapted to, nearer 1 for smaller steps.
    unlabelled
        As in :func:`fit_map`.
    partial
        As for :func:`fit_map`. The copies of a question count as one question, but are not independent: the draws are
        of a composite posterior, and their intervals are approximate.
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
    settings = FitSettings(presets.preset(preset), "nuts", sampling, partial, seed)
    return _sampled(_with_unlabelled(observations, unlabelled, settings), settings, progress=progress)


def _sampled(observations: Observations, settings: FitSettings, *, progress: bool = False) -> Fit:
    sampling, seed = settings.sampling or SamplingSettings(), settings.seed
    observations, preset = fitted_to(observations, settings.preset)

    def draws_of(data: LikelihoodData) -> Draws:
        return nuts_draws(model_of(preset), data.counted(), sampling=sampling, seed=seed, progress=progress)

    holdout = holdout_of(observations, np.ones(len(observations), bool), preset, seed)
    tree = drawn_tree(draws_of, observations, replace(settings, sampling=sampling), holdout)
    return Fit(tree, preset.program, observations.same)


def _with_unlabelled(
    observations: Observations, unlabelled: Observations | None, settings: FitSettings
) -> Observations:
    """Return the questions, with the agreement of levels in both sets.

    Raises DirEAGError if the preset does not look at unlabelled questions, or the sets cannot be used together.
    """
    if unlabelled is None:
        return observations
    if not settings.preset.uses_agreement:
        raise DirEAGError(
            f"preset {settings.preset.name} learns nothing from unlabelled questions. Leave them out, or take preset "
            "bayes."
        )
    return observations.with_agreement(unlabelled)


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
    partial: bool = False,
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
        As :func:`check_disjoint` and the fit do.
    """
    check_disjoint(train, test)
    settings = FitSettings(presets.preset(preset), method, sampling, partial, seed)
    fit, index = fit_by(settings, train), np.flatnonzero(test.answered)
    return [HeldOut("test", fit, index, fit.predict(test.select(index), warn=False))]


def check_disjoint(train: Observations, test: Observations) -> None:
    """Raise DirEAGError if both sets have a question (a ``problem_id``) or a cluster in common."""
    names = set(train.problem_id), {name for name in train.cluster or () if name}
    of_test = test.problem_id, test.cluster or ()
    for kind, seen, asked in zip(("questions", "clusters"), names, of_test, strict=True):
        if both := seen & set(asked):
            raise DirEAGError(
                f"{len(both)} {kind} of the test set are also in the training set, {min(both)!r} among them; expected "
                "none, so that no question is evaluated by a fit that has seen it, or one of its cluster. Remove them "
                "from one of the two, or rename them if they are others under the same name."
            )


@takes_observations
def cross_fit(
    observations: Observations,
    *,
    n_folds: int = 5,
    method: FitMethod = "map",
    preset: PresetLike = "bayes",
    sampling: SamplingSettings | None = None,
    partial: bool = False,
    seed: int = 0,
) -> list[HeldOut]:
    """Predict every answered question from a fit to the other folds.

    The answered questions are dealt into folds by :func:`assign_folds`, in whole clusters; those of weight 0 are left
    out. Unlabelled questions are predicted but not fitted to. The agreement of the levels is that of all questions. The
    parameters are those of :func:`train_test`.

    Raises
    ------
    DirEAGError
        If there are too few questions for the folds, or no labelled question outside one of them.
    """
    return cross_fitted(observations, n_folds, FitSettings(presets.preset(preset), method, sampling, partial, seed))


def cross_fitted(observations: Observations, n_folds: int, settings: FitSettings) -> list[HeldOut]:
    """Do what :func:`cross_fit` does, with the settings of a fit."""
    fold = fold_of_question(observations, n_folds, settings.seed)
    kept = (fold[None, :] >= 0) & (fold[None, :] != np.arange(n_folds)[:, None])
    held_out = []
    for number, fit in enumerate(fits_by(settings, observations, kept)):
        index = np.flatnonzero(fold == number)
        held_out.append(HeldOut(str(number), fit, index, fit.predict(observations.select(index), warn=False)))
    return held_out


def fold_of_question(observations: Observations, n_folds: int, seed: int) -> Int[np.ndarray, " problem"]:
    """Return the fold of each question in :func:`cross_fit`; -1 where it is unanswered or its weight is 0."""
    return dealt_folds(observations, observations.answered & (observations.weight > 0), n_folds, seed)


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
    held_out = cross_fitted(questions, _LEFT_OUT_FOLDS, settings)
    predicted = pd.concat([part.predictions.set_index(part.index) for part in held_out]).sort_index()
    candidate = [texts.index(answer) for texts, answer in zip(questions.candidates, predicted["answer"], strict=True)]
    probability = predicted["probability"].to_numpy()
    if fit.calibrated_on:
        probability = fit.recalibration.of_selected(probability[None], questions.usable.sum(axis=1))[0]
    correct = questions.right_state[np.arange(len(questions)), candidate]
    return pd.DataFrame({"candidate": candidate, "probability": probability, "correct": correct})


def fit_by(settings: FitSettings, observations: Observations) -> Fit:
    """Fit by the method of the settings; raise DirEAGError if there is none of that name."""
    return fits_by(settings, observations, np.ones((1, len(observations)), bool))[0]


def fits_by(settings: FitSettings, observations: Observations, chosen: Bool[np.ndarray, "batch problem"]) -> list[Fit]:
    """Fit to several choices of the questions; one that a row leaves out has no influence on that row's fit."""
    if settings.method not in get_args(FitMethod):
        raise DirEAGError(f"there is no method {settings.method!r}; expected {' or '.join(get_args(FitMethod))}.")
    if settings.method == "map":
        trees = map_fits(observations, chosen, replace(settings, sampling=None))
        return [Fit(tree, settings.preset.program, observations.same) for tree in trees]
    observations = observations.with_agreement()
    return [_sampled(observations.select(np.flatnonzero(row)), settings) for row in chosen]
