"""Calibrations of a confidence on labelled questions: Platt scaling, isotonic, beta and Venn-Abers calibration."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logit

from analysis.methods.method import Answerer, Answers, Learner
from bayes_direag.data.observations import Observations

#: Confidences are clipped to [CLIP, 1 - CLIP] before their logit or logarithm is taken.
CLIP = 0.01

_Known = Float[np.ndarray, " problem"]
_New = Float[np.ndarray, " new"]


def platt(confidence: _Known, correct: Bool[np.ndarray, " problem"], new: _New) -> _New:
    r"""Recalibrate by logistic regression on the logit of the clipped confidence.

    .. math:: \operatorname{sigmoid}(a + b \operatorname{logit} f)

    with a and b of greatest likelihood. As in Platt's paper, the target is :math:`(n_1 + 1)/(n_1 + 2)` for a right
    answer and :math:`1/(n_0 + 2)` for a wrong one, with :math:`n_1` right and :math:`n_0` wrong answers. So the result
    is finite for a single class, and for confidences that separate the classes.

    Source: Platt (1999); Lin, Lin and Weng (2007), doi:10.1007/s10994-007-5018-6.

    Examples
    --------
    >>> platt(np.array([0.9, 0.9, 0.6, 0.6]), np.array([True, False, True, False]), np.array([0.9])).round(2)
    array([0.5])
    """
    from sklearn.linear_model import LogisticRegression

    n_right = int(correct.sum())
    target = np.where(correct, (n_right + 1) / (n_right + 2), 1 / (len(correct) - n_right + 2))
    score, new_score = (logit(np.clip(part, CLIP, 1 - CLIP))[:, None] for part in (confidence, new))
    # a very weak prior makes b unique if all confidences are equal
    model = LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-8)
    both = np.repeat([True, False], len(correct))
    model.fit(np.concatenate([score, score]), both, np.concatenate([target, 1 - target]))
    return np.asarray(model.predict_proba(new_score)[:, 1])


def isotonic(confidence: _Known, correct: Bool[np.ndarray, " problem"], new: _New) -> _New:
    """Recalibrate by isotonic regression: the non-decreasing fit of least squared error, linear between its points.

    Beyond the labelled confidences it is constant. It can be 0 or 1, and with a single class it is so everywhere.

    Source: Zadrozny and Elkan (2002), doi:10.1145/775047.775151.

    Examples
    --------
    >>> isotonic(np.array([0.5, 0.7, 0.9]), np.array([False, True, True]), np.array([0.4, 0.6, 0.8]))
    array([0. , 0.5, 1. ])
    """
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
    return np.asarray(model.fit(confidence, correct.astype(float)).predict(new))


def beta(confidence: _Known, correct: Bool[np.ndarray, " problem"], new: _New) -> _New:
    r"""Recalibrate by beta calibration, a family that includes the identity and curves that are not sigmoid.

    .. math:: \operatorname{sigmoid}(c + a \log f - b \log(1 - f)), \qquad a, b \ge 0

    by the package ``betacal``. For a single class, Laplace's ``(right + 1) / (n + 2)``.

    Source: Kull, Silva Filho and Flach (2017), proceedings.mlr.press/v54/kull17a.
    """
    from betacal import BetaCalibration

    if correct.all() or not correct.any():
        return np.full(len(new), (correct.sum() + 1) / (len(correct) + 2))
    known, others = (np.clip(part, CLIP, 1 - CLIP) for part in (confidence, new))
    with warnings.catch_warnings():  # the package silences all warnings for good
        return np.asarray(BetaCalibration().fit(known, correct).predict(others))


def venn_abers(confidence: _Known, correct: Bool[np.ndarray, " problem"], new: _New) -> _New:
    r"""Recalibrate by Venn-Abers prediction: isotonic regression with the new answer once wrong and once right.

    .. math:: p_1 / (1 - p_0 + p_1)

    of its two values, by the package ``venn-abers``. It is never 0 or 1, even for a single class.

    Source: Vovk, Petej and Fedorova (2015), arXiv:1511.00213.
    """
    from venn_abers import VennAbers

    with warnings.catch_warnings(action="ignore"):  # the package divides by 0 where slopes are infinite
        known, others = (np.column_stack([1 - part, part]) for part in (confidence, new))
        return np.asarray(VennAbers().fit(known, correct.astype(int)).predict_proba(others)[0][:, 1])


type Calibrator = Callable[[_Known, Bool[np.ndarray, " problem"], _New], _New]

#: All calibrations by name, with their name in words.
CALIBRATIONS: Mapping[str, tuple[str, Calibrator]] = MappingProxyType(
    {
        "platt": ("Platt scaling", platt),
        "isotonic": ("isotonic regression", isotonic),
        "beta": ("beta calibration", beta),
        "venn": ("Venn-Abers calibration", venn_abers),
    }
)


@dataclass(frozen=True)
class Calibrated:
    """Learn as another method, then calibrate its confidences on the same labelled questions.

    This is for methods that learn little themselves, since their confidences have seen the labels. The result has no
    distribution. If the method has answered no labelled question, the confidence is one half.
    """

    learner: Learner
    calibration: Calibrator

    def __call__(self, labelled: Observations, seed: int) -> Answerer:
        """Learn; see :class:`~analysis.methods.method.Method`."""
        answerer: Answerer = self.learner(labelled, seed)
        before = answerer(labelled)
        kept = before.candidate >= 0
        known, right = before.confidence[kept], before.is_right(labelled)[kept]

        def answer(observations: Observations) -> Answers:
            answers = answerer(observations)
            answered = answers.candidate >= 0
            confidence = np.where(answered, 0.5, np.nan)
            if kept.any() and answered.any():
                confidence[answered] = self.calibration(known, right, answers.confidence[answered])
            return replace(answers, confidence=confidence, distribution=None)

        return answer
