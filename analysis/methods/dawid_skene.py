r"""Dawid and Skene's model in its one-coin form: levels are right independently, each with an accuracy of its own.

Every question has m + 1 possible answers, one of them right. Level l gives that one with probability :math:`r_l`, and
each wrong one with probability :math:`(1 - r_l) / m`. Beforehand the right one is any of them, so with K candidates

.. math::

    P_i(a) \propto \prod_{l: a_{il} = a} \frac{m\, r_l}{1 - r_l}, \qquad P_i(\varnothing) \propto m + 1 - K_i.

Stated confidences are not used. Levels that err together are taken for independent witnesses, which makes it too sure.

Source: Dawid and Skene (1979), doi:10.2307/2346806. Zhang, Chen, Zhou and Jordan (2016), jmlr.org/papers/v17/14-511,
for one coin.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, softmax

from analysis.methods.method import Answers
from bayes_direag.data.observations import Observations

#: EM stops when no accuracy moves by more.
_TOLERANCE, _MOST_STEPS = 1e-8, 500
#: More wrong answers than this to choose from are as good as endlessly many.
_MOST_WRONG = 1e6


@dataclass(frozen=True, eq=False)
class LevelAccuracies:
    """What was learned; call it with questions to answer them.

    ``accuracy`` (level,): how often a level is right. ``n_wrong``: number m of wrong answers that a level can give;
    where some are commoner than others, as if there were so many.
    """

    accuracy: Float[np.ndarray, " level"]
    n_wrong: float

    def __call__(self, observations: Observations) -> Answers:
        """Answer questions; the number of answers that nobody gave is taken as at least one."""
        return Answers.most_probable(self.distribution(observations), observations)

    def distribution(self, observations: Observations) -> Float[np.ndarray, "problem state"]:
        """Return the probability of every candidate and null."""
        names = observations.candidate[:, None, :] == np.arange(observations.n_levels)[:, None]
        log_odds = np.log(self.n_wrong * self.accuracy / (1 - self.accuracy))
        exists = np.arange(observations.n_levels) < observations.n_candidates[:, None]
        score = np.where(exists, names @ log_odds, -np.inf)
        others = np.log(np.maximum(self.n_wrong + 1 - observations.n_candidates, 1.0))
        return np.asarray(softmax(np.column_stack([score, others]), axis=1))


def dawid_skene(observations: Observations, _: int) -> LevelAccuracies:
    """Learn without labels, by expectation maximisation from the vote shares."""
    names = observations.candidate[:, :, None] == np.arange(observations.n_levels)
    votes = names.sum(axis=1)
    share = np.column_stack([votes, np.ones(len(votes))]) / (votes.sum(axis=1, keepdims=True) + 1)
    learned = _maximised(observations, share)
    for _step in range(_MOST_STEPS):
        before, learned = learned, _maximised(observations, learned.distribution(observations))
        if np.abs(learned.accuracy - before.accuracy).max() < _TOLERANCE:
            break
    return learned


def dawid_skene_labelled(labelled: Observations, _: int) -> LevelAccuracies:
    """Learn from labels: an accuracy is the share of right answers."""
    right = np.column_stack([labelled.correct_candidate, ~labelled.gold_generated])
    return _maximised(labelled, right.astype(float))


def _maximised(observations: Observations, probability: Float[np.ndarray, "problem state"]) -> LevelAccuracies:
    """Return what is most probable where the states have these probabilities, with a Beta(2, 2) prior on accuracies.

    A state has a probability of its own where several candidates are right.
    """
    usable = observations.usable
    own = np.take_along_axis(probability, observations.candidate, axis=1)  # of a level's own answer being right
    right = (own * usable).sum(axis=0)
    n_wrong_answers = usable.sum() - right.sum()
    n_candidates, null = observations.n_candidates, probability[:, -1]
    fewest = max(int(n_candidates.max(initial=1)), 1)

    def loss(log_m: float) -> float:
        m = np.exp(log_m)
        # Answers of one question have nothing to do with those of another: any m + 1 names would have done.
        n_names = gammaln(m + 2) - gammaln(m + 2 - n_candidates)
        log_prior = null * np.log(m + 1 - n_candidates) - np.log1p(m)
        return float(n_wrong_answers * log_m - (n_names + log_prior).sum())

    bounds = (np.log(fewest), np.log(_MOST_WRONG))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return LevelAccuracies((right + 1) / (usable.sum(axis=0) + 2), float(np.exp(found.x)))
