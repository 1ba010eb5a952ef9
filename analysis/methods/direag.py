"""DirEAG fits as methods, with the support of the selected answer or its final probability as confidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from analysis.methods.method import Answers, Learner, Method
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import check_disjoint, fit_by, fits_by, fold_of_question
from bayes_direag.model import presets
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.selection import Calibration, distribution
from bayes_direag.model.settings import FitMethod, FitSettings, Preset, SamplingSettings, Variant


@dataclass(frozen=True)
class FitLearner:
    """Learn by a fit; the attributes are those of :class:`~bayes_direag.model.settings.FitSettings`."""

    variant: Variant
    preset: PresetLike = "bayes"
    fit_method: FitMethod = "map"
    sampling: SamplingSettings | None = None

    def __call__(self, labelled: Observations, seed: int) -> Fit:
        """Fit: see :class:`~analysis.methods.method.Method`."""
        return fit_by(self.settings(seed), labelled)

    def settings(self, seed: int) -> FitSettings:
        """Return the settings of the fit."""
        return FitSettings(presets.preset(self.preset, self.variant), self.fit_method, self.sampling, seed=seed)


def before_calibration(fit: Fit, observations: Observations) -> Answers:
    """Answer with the support of the selected answer."""
    return _answers(fit, observations, None)


def after_calibration(fit: Fit, observations: Observations) -> Answers:
    """Answer with the final probability."""
    return _answers(fit, observations, fit.calibration)


def _answers(fit: Fit, observations: Observations, final: Calibration | None) -> Answers:
    states = distribution(fit.evaluation(observations), final)
    absent = [-1] * (observations.shape[1] + 1 - states.shape[1])
    return Answers.most_probable(np.insert(states, absent, 0.0, axis=1), observations)


@dataclass(frozen=True)
class FittedMethod(Method):
    """A method that learns by a fit of a variant of DirEAG."""

    learn: FitLearner


#: The variants, each with the support as its confidence, and with the probability after the final calibration.
FITTED_METHODS: Mapping[str, FittedMethod] = MappingProxyType(
    {
        "count": FittedMethod(
            FitLearner("count"),
            before_calibration,
            spoken="DirEAG from votes, raw",
            words="DirEAG from votes alone: each level's vote has a learned weight",
        ),
        "count_calibrated": FittedMethod(
            FitLearner("count"),
            after_calibration,
            spoken="DirEAG from votes",
            words="count, with the final calibration",
        ),
        "level": FittedMethod(
            FitLearner("level"),
            before_calibration,
            spoken="DirEAG without confidences, raw",
            words="DirEAG from votes, with a learned weight and bias for each level, without stated confidences",
        ),
        "level_calibrated": FittedMethod(
            FitLearner("level"),
            after_calibration,
            spoken="DirEAG without confidences",
            words="level, with the final calibration",
        ),
        "direag_raw": FittedMethod(
            FitLearner("confidence"),
            before_calibration,
            spoken="DirEAG, raw",
            words="DirEAG before its final calibration: stated confidences, weighed level by level, as evidence",
        ),
        "direag": FittedMethod(
            FitLearner("confidence"),
            after_calibration,
            spoken="DirEAG",
            words="DirEAG: direag_raw, with the final calibration. This is what `direag predict` gives",
        ),
    }
)


def fitted_methods(preset: Preset, fit_method: FitMethod, sampling: SamplingSettings | None) -> dict[str, FittedMethod]:
    """Return the variants that a preset has, fitted in this way."""
    return {
        name: replace(method, learn=FitLearner(method.learn.variant, preset, fit_method, sampling))
        for name, method in FITTED_METHODS.items()
        if preset.plain_reports or method.learn.variant == "confidence"
    }


#: What the fits of a cross-fit share, if their preset looks at it.
SHARED_AGREEMENT = (
    "How often levels agree with each other comes from the reports to all questions, without looking at a label."
)


class Fold(NamedTuple):
    """What methods learn from, and the positions of the questions that they answer; ``test`` names a test set.

    ``labelled`` are the labelled, answered questions; ``fitted`` says which of all questions a fit is given.
    """

    name: str
    labelled: Observations
    fitted: Bool[np.ndarray, " problem"]
    asked: Int[np.ndarray, " problem"]


def deal(observations: Observations, test: Observations | None, n_folds: int | None, seed: int) -> tuple[Fold, ...]:
    """Deal the answered questions into folds, the same for all methods; with a test set there is one fold."""
    usable = observations.labelled & observations.answered
    if test is None:
        number_of = fold_of_question(observations, n_folds or 0, seed)
        folds = []
        for number in range(n_folds or 0):
            is_asked = number_of == number
            labelled, fitted = observations.select(usable & ~is_asked), (number_of >= 0) & ~is_asked
            folds.append(Fold(str(number), labelled, fitted, np.flatnonzero(is_asked)))
    else:
        check_disjoint(observations, test)
        every = np.ones(len(observations), bool)
        folds = [Fold("test", observations.select(usable), every, np.flatnonzero(test.answered))]
    if not all(len(fold.labelled) for fold in folds):
        raise DirEAGError(
            "saw no labelled, answered question to learn from; expected at least one outside each fold. Give more, or "
            "name methods that learn nothing: majority, mean_confidence, steerconf."
        )
    return tuple(folds)


def learn_each(learner: Learner, folds: Sequence[Fold], observations: Observations, seed: int) -> list[Any]:
    """Learn from every fold that :func:`deal` made of these observations; MAP fits are made in one batch."""
    if isinstance(learner, FitLearner):
        return fits_by(learner.settings(seed), observations, np.stack([fold.fitted for fold in folds]))
    return [learner(fold.labelled, seed) for fold in folds]
