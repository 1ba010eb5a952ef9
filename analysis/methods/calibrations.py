"""Platt scaling of a method's confidences on labelled questions."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logit

from analysis.methods.method import CLIP, Answerer, Answers, Learner
from bayes_direag.data.observations import Observations


def platt(
    confidence: Float[np.ndarray, " problem"], correct: Bool[np.ndarray, " problem"], new: Float[np.ndarray, " new"]
) -> Float[np.ndarray, " new"]:
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


@dataclass(frozen=True)
class Calibrated:
    """Learn as another method, then calibrate its confidences on the same labelled questions.

    This is for methods that learn little themselves, since their confidences have seen the labels. The result has no
    distribution. If the method has answered no labelled question, the confidence is one half.
    """

    learner: Learner

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
                confidence[answered] = platt(known, right, answers.confidence[answered])
            return replace(answers, confidence=confidence, distribution=None)

        return answer
