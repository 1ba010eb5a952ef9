"""DirEAG fits as methods, with the support of the selected answer or its final probability as confidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Bool

from analysis.methods.method import Answers, Learner, Method
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import Fold
from bayes_direag.fits.making import fits_by
from bayes_direag.model import presets
from bayes_direag.model.selection import Calibration, distribution
from bayes_direag.model.settings import FitSettings, Variant

_BAYES = FitSettings(presets.PRESETS["bayes"])


@dataclass(frozen=True)
class FitLearner:
    """Learn by fits of a variant in these settings, but for their seed."""

    variant: Variant
    settings: FitSettings = _BAYES

    def __call__(self, labelled: Observations, seed: int) -> Fit:
        """Fit: see :class:`~analysis.methods.method.Method`."""
        (fit,) = self.each(labelled, np.ones((1, len(labelled)), bool), seed)
        return fit

    def each(self, observations: Observations, chosen: Bool[np.ndarray, "batch problem"], seed: int) -> list[Fit]:
        """Fit to each choice of the questions."""
        preset = presets.preset(self.settings.preset, self.variant)
        return fits_by(replace(self.settings, preset=preset, seed=seed), observations, chosen)


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


def _both(raw: str, final: str, variant: Variant, spoken: str, words: str, use: str = "") -> dict[str, FittedMethod]:
    """Return a variant with the support as its confidence, and with the probability after the final calibration."""
    learn, then = FitLearner(variant), f"{raw}, with the final calibration{use}"
    return {
        raw: FittedMethod(learn, before_calibration, spoken=f"{spoken}, raw", words=words),
        final: FittedMethod(learn, after_calibration, spoken=spoken, words=then),
    }


_VOTES = "DirEAG from votes alone: each level's vote has a learned weight"
_LEVELS = "DirEAG from votes, with a learned weight and bias for each level, without stated confidences"
_CONFIDENCES = "DirEAG before its final calibration: stated confidences, weighed level by level, as evidence"
FITTED_METHODS: Mapping[str, FittedMethod] = MappingProxyType(
    _both("count", "count_calibrated", "count", "DirEAG from votes", _VOTES)
    | _both("level", "level_calibrated", "level", "DirEAG without confidences", _LEVELS)
    | _both("direag_raw", "direag", "confidence", "DirEAG", _CONFIDENCES, ". This is what `direag predict` gives")
)


def fitted_methods(settings: FitSettings) -> dict[str, FittedMethod]:
    """Return the variants that a preset has, fitted in this way."""
    return {
        name: replace(method, learn=replace(method.learn, settings=settings))
        for name, method in FITTED_METHODS.items()
        if settings.preset.plain_reports or method.learn.variant == "confidence"
    }


#: What the fits of a cross-fit share, if their preset looks at it.
SHARED_AGREEMENT = (
    "How often levels agree with each other comes from the reports to all questions, without looking at a label."
)


def learn_each(learner: Learner, folds: Sequence[Fold], observations: Observations, seed: int) -> list[Any]:
    """Learn from what each fold is given of these observations; MAP fits are made in one batch."""
    if isinstance(learner, FitLearner):
        return learner.each(observations, np.stack([fold.fitted for fold in folds]), seed)
    usable = observations.labelled & observations.answered
    return [learner(observations.select(usable & fold.fitted), seed) for fold in folds]
