r"""Selective prediction with a guarantee: the lowest probability at which to answer, learned from labelled questions.

Sort :math:`n` labelled and :math:`m` new questions together by probability, the highest first. If they are
exchangeable, every choice of :math:`n` of them is equally likely to be the labelled ones, whether or not the
probabilities are calibrated. For a number :math:`k`, chosen without labels, let :math:`B` be the least number for which
the first :math:`B + k + 1` wrong answers include at most :math:`k` labelled ones with a (hypergeometric) probability of
at most 1 - assurance. If they include more, *every* threshold with at most :math:`k` wrong labelled answers above it
has at most :math:`B` wrong new ones above it. So the lowest such threshold may be taken, and its :math:`m'` new
questions are answered if :math:`B \le (1 - \text{target})\, m'`. Of all :math:`k`, the one that answers most in
expectation is taken, according to the probabilities.

The guarantee is an average over all runs. So that it also says something about those that answer, the probabilities
themselves have to support the target too: by them the number of wrong answers, taken as a Poisson variable, is within
the limit with a probability of at least the assurance.

As :math:`m` grows, :math:`B / m` tends to the bound of Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404.
"""

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import hypergeom, poisson

from bayes_direag.errors import DirEAGError

#: Factor on the expected number of errors, since probabilities learned from few labels are somewhat too high.
_MORE_ERRORS = 1.1
#: How many numbers k are compared at most.
_GRID = 60


class Threshold(NamedTuple):
    """Which questions to answer, and the bound on the errors among them."""

    #: Questions of at least this probability are answered; NaN if none are.
    threshold: float
    #: Labelled questions with a probability, those that reach the threshold, and the wrong ones among these.
    n_labelled: int
    n_labelled_above: int
    n_labelled_wrong: int
    #: New questions with a probability, those that are answered, and the bound on the wrong answers among these.
    n_new: int
    n_answered: int
    most_wrong: int
    #: The least number of labelled questions, all answered rightly, with which all new ones could be answered.
    n_needed: int
    #: Whether the probabilities themselves support the target at some threshold.
    promised: bool


def choose_threshold(
    probability: Float[np.ndarray, " labelled"],
    correct: Bool[np.ndarray, " labelled"],
    new: Float[np.ndarray, " new"],
    *,
    target: float,
    assurance: float = 0.9,
) -> Threshold:
    """Find the lowest probability at which to answer.

    Given are the probabilities of labelled questions, by a fit that has not seen these labels, and whether the answers
    are right; then those of new questions. They are NaN without an answer. Raises DirEAGError if the target is not
    above 0 and up to 1, or the assurance not at least 1/2 and below 1.
    """
    if not 0 < target <= 1:
        raise DirEAGError(f"target accuracy {target}: expected a share above 0 and up to 1, such as 0.95.")
    if not 0.5 <= assurance < 1:
        raise DirEAGError(f"assurance {assurance}: expected a probability of at least 0.5 and below 1, such as 0.9.")
    known, new = ~np.isnan(probability), new[~np.isnan(new)]
    probability, wrong = probability[known], ~correct[known]
    n, m = len(probability), len(new)
    tolerated, bound = _tolerated(np.concatenate([probability, new]), n, m, target, assurance)
    thresholds, n_reached, expected = _thresholds(new)
    allowed = allowed_wrong(target, n_reached)
    promised = poisson.ppf(assurance, expected) <= allowed
    n_wrong = wrong.sum() - np.searchsorted(np.sort(probability[wrong]), thresholds)
    supported = np.flatnonzero(promised & (n_wrong <= tolerated) & (bound <= allowed))
    threshold = float(thresholds[supported[-1]]) if len(supported) else math.nan
    above, n_answered = probability >= threshold, int((new >= threshold).sum())
    counts = n, int(above.sum()), int((above & wrong).sum()), m, n_answered, bound if n_answered else 0
    return Threshold(threshold, *counts, _least_labelled(m, target, assurance), bool(promised.any()))


def allowed_wrong(target: float, n_answered: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Return the largest number of wrong answers with which the accuracy reaches the target."""
    # the addend keeps a whole number that rounding has made a little smaller
    return np.asarray(np.floor((1 - target) * n_answered + 1e-9).astype(np.int64))


def _least_labelled(n_new: int, target: float, assurance: float) -> int:
    allowed, level = int(allowed_wrong(target, np.array(n_new))), _level(assurance)
    enough = math.ceil(n_new / level ** (1 / (allowed + 1))) + 1  # with replacement
    return bisect_left(range(enough), x=True, key=lambda n: _risk(allowed, 0, n, n_new) <= level)


@lru_cache(maxsize=64)
def wrong_bounds(
    n: int, m: int, target: float, assurance: float
) -> tuple[Int[np.ndarray, " grid"], Int[np.ndarray, " grid"]]:
    """Return numbers k of wrong labelled answers, and the bound B on wrong new answers for each k alone.

    The numbers go from 0 to the largest that could help with n labelled questions (at least 1) and m new ones.
    """
    most, level = n * (int(allowed_wrong(target, np.array(m))) + 1) / max(m, 1), _level(assurance)
    k = np.unique(np.geomspace(1, max(min(n, math.ceil(most)), 1), _GRID).astype(int)) - 1

    def bound(number: int) -> int:
        return bisect_left(range(m), x=True, key=lambda wrong: _risk(wrong, number, n, m) <= level)

    return k, np.array([bound(number) for number in k.tolist()])


def _risk(bound: int, k: int, n: int, m: int) -> float:
    """Return the probability that at most k of the first ``bound + k + 1`` wrong answers are labelled."""
    return float(hypergeom.cdf(k, n + m, n, min(bound + k + 1, n + m)))


def _level(assurance: float) -> float:
    return (1 - assurance) * (1 + 1e-9)  # 1 - 0.9 is less than 0.1


def _tolerated(
    pooled: Float[np.ndarray, " question"], n: int, m: int, target: float, assurance: float
) -> tuple[int, int]:
    """Choose the number k of wrong labelled answers to allow above the threshold, without labels; return k and B."""
    if not n or not m:
        return 0, m
    k, bound = wrong_bounds(n, m, target, assurance)
    n_enough = np.maximum(np.searchsorted(allowed_wrong(target, np.arange(m + 1)), bound), 1)
    _, n_reached, expected = _thresholds(pooled)
    n_reached, expected = n_reached * m // len(pooled), expected / len(pooled)
    promised = poisson.ppf(assurance, m * expected) <= allowed_wrong(target, n_reached)
    possible = n_enough <= n_reached[promised].max(initial=0)
    at = np.searchsorted(n_reached, np.minimum(n_enough, m))
    best = int(np.argmax(possible * poisson.cdf(k, _MORE_ERRORS * n * expected[at]) * n_enough))
    return int(k[best]), int(bound[best])


def _thresholds(
    probability: Float[np.ndarray, " question"],
) -> tuple[Float[np.ndarray, " threshold"], Int[np.ndarray, " threshold"], Float[np.ndarray, " threshold"]]:
    """Return each distinct probability, the highest first, how many reach it, and how many of these should be wrong."""
    thresholds, counts = np.unique(probability, return_counts=True)
    thresholds, counts = thresholds[::-1], counts[::-1]
    return thresholds, np.cumsum(counts), np.cumsum(counts * (1 - thresholds))
