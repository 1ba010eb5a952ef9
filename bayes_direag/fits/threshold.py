r"""Selective prediction with a guarantee: the lowest confidence at which to answer, learned from labelled questions.

Sort :math:`n` labelled and :math:`m` new questions together by confidence, the highest first. If they are exchangeable,
every choice of :math:`n` of them is equally likely to be the labelled ones, whether or not the confidences are
calibrated. For a number :math:`k`, chosen without labels, let :math:`B` be the least number for which the first
:math:`B + k + 1` wrong answers include at most :math:`k` labelled ones with a (hypergeometric) probability of at most 1
- assurance. If they include more, *every* threshold with at most :math:`k` wrong labelled answers above it has at most
:math:`B` wrong new ones above it. So the lowest such threshold may be taken, and its :math:`m'` new questions are
answered if :math:`B \le (1 - \text{target})\, m'`.

As :math:`m` grows, :math:`B / m` tends to the bound of Clopper and Pearson. All questions of a tie lie on the same side
of a threshold, so ties need no care. Bounds for all :math:`k` together would be wider, each at about a tenth of the
risk. The single :math:`k` is the one that answers most in expectation, according to the confidences of all questions.
If these are too high, fewer questions are answered, but the guarantee holds.

The guarantee is an average over all runs. If few runs answer anything, it says little about those that do. So the
confidences themselves have to support the target too: by them the number of wrong answers, taken as a Poisson variable,
which has the larger variance, is within the limit with a probability of at least the assurance. If they are calibrated,
the guarantee also holds for the runs that answer.

References
----------
Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404. Angelopoulos et al. (2021), doi:10.48550/arXiv.2110.01052, for
tests of a threshold's error rate in the long run on labelled questions. Bauer (1991), doi:10.1002/sim.4780100610, for
testing thresholds in a fixed order, which would not control the error among a finite number of new questions.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import hypergeom, poisson

from bayes_direag.errors import DirEAGError

#: Factor on the expected number of errors, since confidences learned from few labels are somewhat too high.
_MORE_ERRORS = 1.1
#: How many numbers k are compared at most.
_GRID = 60


@dataclass(frozen=True)
class Threshold:
    """Which questions to answer, and the bound on the errors among them.

    Attributes
    ----------
    target : float
        The accuracy wanted among the answered new questions.
    assurance : float
        Probability that the target is reached or nothing is answered, over which questions are labelled and which new.
    threshold : float
        Questions of at least this confidence are answered; NaN if none are.
    n_labelled : int
        Number of labelled questions with a confidence.
    n_labelled_above, n_labelled_wrong : int
        Number of these that reach the threshold, and of wrong ones among them; 0 without a threshold.
    n_new : int
        Number of new questions with a confidence.
    n_answered : int
        Number of these that reach the threshold.
    most_wrong : int
        Upper bound on the wrong answers among these, with the assurance; 0 without a threshold.
    expected_wrong : float
        Expected number of wrong answers among these, by their confidences; 0 without a threshold.
    n_needed : int
        Least number of labelled questions, all answered rightly, with which all new ones could be answered.
    promised : bool
        Whether the confidences themselves support the target at some threshold.
    """

    target: float
    assurance: float
    threshold: float
    n_labelled: int
    n_labelled_above: int
    n_labelled_wrong: int
    n_new: int
    n_answered: int
    most_wrong: int
    expected_wrong: float
    n_needed: int
    promised: bool


def choose_threshold(
    confidence: Float[np.ndarray, " labelled"],
    correct: Bool[np.ndarray, " labelled"],
    new_confidence: Float[np.ndarray, " new"],
    *,
    target: float,
    assurance: float = 0.9,
) -> Threshold:
    """Find the lowest confidence at which to answer.

    Given are the confidences of labelled questions, by a fit that has not seen these labels, and whether the answers
    are right; then those of new questions, which must be exchangeable with them. Confidences are NaN without an answer.
    Raises DirEAGError if the target is not above 0 and up to 1, or the assurance not at least 1/2 and below 1.

    Examples
    --------
    >>> sure = np.linspace(0.5, 1.0, 100)
    >>> decision = choose_threshold(sure, sure > 0.6, sure, target=0.8, assurance=0.9)
    >>> round(decision.threshold, 3), decision.n_answered, decision.n_labelled_wrong, decision.most_wrong
    (0.722, 56, 0, 6)
    """
    check_wanted(target, assurance)
    known = ~np.isnan(confidence)
    confidence, wrong = confidence[known], ~correct[known]
    new = new_confidence[~np.isnan(new_confidence)]
    n, m = len(confidence), len(new)
    tolerated, bound = _tolerated(np.concatenate([confidence, new]), n, m, target, assurance)
    thresholds, n_reached, expected = _thresholds(new)
    allowed = allowed_wrong(target, n_reached)
    promised = poisson.ppf(assurance, expected) <= allowed
    n_wrong = wrong.sum() - np.searchsorted(np.sort(confidence[wrong]), thresholds)
    supported = np.flatnonzero(promised & (n_wrong <= tolerated) & (bound <= allowed))
    threshold = float(thresholds[supported[-1]]) if len(supported) else math.nan
    above = confidence >= threshold
    return Threshold(
        target=target,
        assurance=assurance,
        threshold=threshold,
        n_labelled=n,
        n_labelled_above=int(above.sum()),
        n_labelled_wrong=int((above & wrong).sum()),
        n_new=m,
        n_answered=int(n_reached[supported[-1]]) if len(supported) else 0,
        most_wrong=bound if len(supported) else 0,
        expected_wrong=float(expected[supported[-1]]) if len(supported) else 0.0,
        n_needed=least_labelled(m, target, assurance),
        promised=bool(promised.any()),
    )


def check_wanted(target: float, assurance: float) -> None:
    """Raise DirEAGError if one of them is out of range."""
    if not 0 < target <= 1:
        raise DirEAGError(f"target accuracy {target}: expected a share above 0 and up to 1, such as 0.95.")
    if not 0.5 <= assurance < 1:
        raise DirEAGError(f"assurance {assurance}: expected a probability of at least 0.5 and below 1, such as 0.9.")


def allowed_wrong(target: float, n_answered: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Return the largest number of wrong answers with which the accuracy reaches the target.

    Examples
    --------
    >>> allowed_wrong(0.9, np.array([0, 9, 10, 39])).tolist()
    [0, 0, 1, 3]
    """
    # the addend keeps a whole number that rounding has made a little smaller
    return np.asarray(np.floor((1 - target) * n_answered + 1e-9).astype(np.int64))


def least_labelled(n_new: int, target: float, assurance: float) -> int:
    """Return the least number of labelled questions, all answered rightly, that lets all new ones be answered."""
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
    most = n * (int(allowed_wrong(target, np.array(m))) + 1) / max(m, 1)
    k = np.unique(np.geomspace(1, max(min(n, math.ceil(most)), 1), _GRID).astype(int)) - 1
    return k, np.array([_bound(number, n, m, _level(assurance)) for number in k.tolist()])


def _bound(k: int, n: int, m: int, level: float) -> int:
    return bisect_left(range(m), x=True, key=lambda bound: _risk(bound, k, n, m) <= level)


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
    chance = poisson.cdf(k, _MORE_ERRORS * n * expected[at])
    best = int(np.argmax(possible * chance * n_enough))
    return int(k[best]), int(bound[best])


def _thresholds(
    confidence: Float[np.ndarray, " question"],
) -> tuple[Float[np.ndarray, " threshold"], Int[np.ndarray, " threshold"], Float[np.ndarray, " threshold"]]:
    """Return each distinct confidence, the highest first, how many reach it, and how many of these should be wrong."""
    thresholds, counts = np.unique(confidence, return_counts=True)
    thresholds, counts = thresholds[::-1], counts[::-1]
    return thresholds, np.cumsum(counts), np.cumsum(counts * (1 - thresholds))
