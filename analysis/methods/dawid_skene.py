r"""Dawid and Skene's model in its one-coin form: levels are right independently, each with its own accuracy.

Every question has m + 1 possible answers, one of them right. Level l gives it with probability :math:`r_l`, and each
wrong one with probability :math:`(1 - r_l) / m`. A priori each answer is equally likely to be right, so with K
candidates

.. math::

    P_i(a) \propto \prod_{l: a_{il} = a} \frac{m\, r_l}{1 - r_l}, \qquad P_i(\varnothing) \propto m + 1 - K_i.

Stated confidences are not used. Levels that make the same errors are treated as independent, so the probabilities are
too high.

Source: Dawid and Skene (1979), doi:10.2307/2346806. Zhang, Chen, Zhou and Jordan (2016), jmlr.org/papers/v17/14-511,
for one coin.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, softmax

from analysis.methods.method import Answers, Method, gives
from bayes_direag.data.observations import Observations

#: EM stops when no accuracy changes by more than the tolerance.
_TOLERANCE, _MOST_STEPS = 1e-8, 500
#: Upper bound on the number m of wrong answers; above it the likelihood hardly changes.
_MOST_WRONG = 1e6


@dataclass(frozen=True, eq=False)
class LevelAccuracies:
    """The probability that each level is right, and the (effective) number m of wrong answers."""

    accuracy: Float[np.ndarray, " level"]
    n_wrong: float

    def __call__(self, observations: Observations) -> Answers:
        """Answer questions; the number of answers that no level gave is taken to be at least one."""
        return Answers.most_probable(self.distribution(observations), observations)

    def distribution(self, observations: Observations) -> Float[np.ndarray, "problem state"]:
        """Return the probability of every candidate and of the null."""
        log_odds = np.log(self.n_wrong * self.accuracy / (1 - self.accuracy))
        exists = np.arange(observations.n_levels) < observations.n_candidates[:, None]
        score = np.where(exists, gives(observations).swapaxes(1, 2) @ log_odds, -np.inf)
        others = np.log(np.maximum(self.n_wrong + 1 - observations.n_candidates, 1.0))
        return np.asarray(softmax(np.column_stack([score, others]), axis=1))


def dawid_skene(observations: Observations, _: int) -> LevelAccuracies:
    """Learn without labels, by expectation maximisation that starts from the vote shares."""
    votes = gives(observations).sum(axis=1)
    share = np.column_stack([votes, np.ones(len(votes))]) / (votes.sum(axis=1, keepdims=True) + 1)
    learned = _maximised(observations, share)
    for _step in range(_MOST_STEPS):
        before, learned = learned, _maximised(observations, learned.distribution(observations))
        if np.abs(learned.accuracy - before.accuracy).max() < _TOLERANCE:
            break
    return learned


def dawid_skene_labelled(labelled: Observations, _: int) -> LevelAccuracies:
    """Learn from labels: the accuracy of a level is its share of right answers."""
    right = np.column_stack([labelled.correct_candidate, ~labelled.gold_generated])
    return _maximised(labelled, right.astype(float))


def _maximised(observations: Observations, probability: Float[np.ndarray, "problem state"]) -> LevelAccuracies:
    """Return the parameters of greatest posterior density for these state probabilities, with Beta(2, 2) priors.

    The probabilities of a question's states sum to more than 1 if several candidates are right.
    """
    usable = observations.usable
    of_answer = np.take_along_axis(probability, observations.candidate, axis=1)
    right = (of_answer * usable).sum(axis=0)
    n_wrong_answers = usable.sum() - right.sum()
    n_candidates, null = observations.n_candidates, probability[:, -1]
    fewest = max(int(n_candidates.max(initial=1)), 1)

    def loss(log_m: float) -> float:
        m = np.exp(log_m)
        # the names of a question's answers are arbitrary: any assignment to m + 1 names is equally likely
        n_names = gammaln(m + 2) - gammaln(m + 2 - n_candidates)
        log_prior = null * np.log(m + 1 - n_candidates) - np.log1p(m)
        return float(n_wrong_answers * log_m - (n_names + log_prior).sum())

    bounds = (np.log(fewest), np.log(_MOST_WRONG))
    minimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return LevelAccuracies((right + 1) / (usable.sum(axis=0) + 2), float(np.exp(minimum.x)))


DAWID_SKENE = Method(
    dawid_skene, words="Dawid and Skene: levels have accuracies, learned without labels, and err independently"
)
DAWID_SKENE_LABELLED = Method(
    dawid_skene_labelled, words="Dawid and Skene, with each level's accuracy learned from labels"
)
