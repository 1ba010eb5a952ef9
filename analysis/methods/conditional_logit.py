r"""Conditional logit over a question's candidates and null (log-linear pooling).

.. math::

    u_i(a) &= \sum_{l: a_{il} = a} \Big( v + v_l + \sum_k (s_k + s_{lk}) \operatorname{logit} q_{ilk} \Big) \\
    u_i(\varnothing) &= c, \qquad P_i = \operatorname{softmax}(u_i)

over the signals k of confidence, with a standard normal prior on every coefficient. Each level has coefficients
(v_l, s_l) in addition to the shared ones (v, s), so that levels are partially pooled when labels are few.

Source: McFadden (1974), Conditional logit analysis of qualitative choice behavior. Genest and Zidek (1986),
doi:10.1214/ss/1177013825, on log-linear pooling.
"""

from functools import partial

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize
from scipy.special import softmax

from analysis.methods.method import Answerer, Answers, Method, stated_logits
from bayes_direag.data.observations import Observations

_Coefficients = Float[np.ndarray, " feature"]


def conditional_logit(labelled: Observations, _: int) -> Answerer:
    """Find the coefficients of greatest posterior density; the probabilities of several right candidates add up."""
    feature, exists = _features(labelled), _states(labelled)
    right = np.column_stack([labelled.correct_candidate, ~labelled.gold_generated])
    right = np.delete(right, np.s_[exists.shape[1] - 1 : -1], axis=1)

    def loss(coefficient: _Coefficients) -> tuple[float, _Coefficients]:
        probability = _softmax(feature @ coefficient, exists)
        of_right = (probability * right).sum(axis=1)
        given_right = probability * right / of_right[:, None]
        slope = np.tensordot(probability - given_right, feature, axes=2) + coefficient
        return float(-np.log(of_right).sum() + coefficient @ coefficient / 2), slope

    minimum = minimize(loss, np.zeros(feature.shape[2]), jac=True, method="BFGS", options={"gtol": 1e-6})
    return partial(_answer, coefficient=minimum.x)


def _answer(observations: Observations, *, coefficient: _Coefficients) -> Answers:
    probability = _softmax(_features(observations) @ coefficient, _states(observations))
    missing = observations.n_levels + 1 - probability.shape[1]
    padded = np.hstack([probability[:, :-1], np.zeros((len(observations), missing)), probability[:, -1:]])
    return Answers.most_probable(padded, observations)


def _features(observations: Observations) -> Float[np.ndarray, "problem state feature"]:
    """Return the features of the coefficients: shared vote and slopes, vote and slopes of each level, and the null.

    The state axis has room for the most candidates of any question.
    """
    candidate = np.arange(observations.n_candidates.max(initial=0))[:, None]
    vote = (observations.candidate[:, None, :] == candidate).astype(float)
    by_level = [vote, *(vote * logits[:, None, :] for logits in stated_logits(observations))]
    shared = np.stack([feature.sum(axis=2) for feature in by_level], axis=2)
    feature = np.pad(np.concatenate([shared, *by_level], axis=2), ((0, 0), (0, 1), (0, 1)))
    feature[:, -1, -1] = 1.0
    return feature


def _states(observations: Observations) -> Bool[np.ndarray, "problem state"]:
    candidate = np.arange(observations.n_candidates.max(initial=0))
    return np.pad(candidate < observations.n_candidates[:, None], ((0, 0), (0, 1)), constant_values=True)


def _softmax(
    score: Float[np.ndarray, "problem state"], exists: Bool[np.ndarray, "problem state"]
) -> Float[np.ndarray, "problem state"]:
    return np.asarray(softmax(np.where(exists, score, -np.inf), axis=1))


CONDITIONAL_LOGIT = Method(
    conditional_logit,
    words="the product of what levels say, with learned weights (log-linear pooling)",
    spoken="conditional logit",
)
