r"""Abstention with a guarantee: from which confidence on answers may be given, learned from labelled questions.

Put :math:`n` labelled and :math:`m` new questions together, the surest first. If they are exchangeable, any :math:`n`
of them were as likely to be the labelled ones, whatever the confidences are worth. For a number :math:`k`, chosen
without labels, take the least :math:`B` for which the first :math:`B + k + 1` wrong answers of all include at most
:math:`k` labelled ones with a probability, which is hypergeometric, of at most 1 - assurance. Otherwise *every*
threshold with at most :math:`k` wrong labelled answers above it has at most :math:`B` wrong new ones, so the lowest
may be taken; its :math:`m'` new questions are answered if :math:`B \le (1 - \text{target})\, m'`.

As :math:`m` grows, :math:`B / m` becomes the bound of Clopper and Pearson; for fewer it has room for their luck. A tie
is above a threshold as a whole, so ties need no care. A set of bounds for all :math:`k` together is wider, each at
about a tenth of the risk. The one :math:`k` is that which answers most in expectation, by what the confidences of all
questions promise: where they promise too much, less is answered, and the guarantee holds.

The guarantee is over all runs. It says little of the runs that answer where few do: these are the lucky ones. So the
confidences have to promise the target too: no more wrong answers than allowed, with a probability of at least the
assurance (as a Poisson number, which spreads more). Where they are calibrated, that holds for the runs that answer.

References
----------
Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404. Angelopoulos et al. (2021), doi:10.48550/arXiv.2110.01052, for
tests on labelled questions, of a threshold's error rate in the long run. Bauer (1991), doi:10.1002/sim.4780100610, for
testing in a fixed order, which costs nothing there; here the luck of the new questions would accumulate.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import hypergeom, poisson

from bayes_direag.errors import DirEAGError

#: Confidences learned from few labels promise somewhat too much: errors are reckoned with so many times as often.
_MORE_ERRORS = 1.1
#: Numbers of wrong answers that are looked at.
_GRID = 60


@dataclass(frozen=True)
class Abstention:
    """Which questions to answer, and what is known of the errors among them.

    Attributes
    ----------
    target : float
        The accuracy asked for among the answered new questions.
    assurance : float
        Probability, over which questions happen to be labelled and which new, that it is reached, or nothing answered.
    threshold : float
        Questions of at least this confidence are answered; NaN if none are.
    n_labelled : int
        Labelled questions with a confidence.
    n_labelled_above, n_labelled_wrong : int
        How many of them reach the threshold, and how many of those are wrong; 0 without a threshold.
    n_new : int
        New questions with a confidence.
    n_answered : int
        How many of them reach the threshold.
    most_wrong : int
        At most so many of these are wrong, with the assurance; 0 without a threshold.
    expected_wrong : float
        How many of these are wrong by the confidences themselves; 0 without a threshold.
    n_needed : int
        The least number of labelled questions, none of them answered wrongly, with which all new ones could be
        answered.
    promised : bool
        Whether there is a threshold at which the confidences themselves promise the target.
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
) -> Abstention:
    """Find the lowest confidence from which on answers may be given.

    Parameters
    ----------
    confidence, correct : (labelled,)
        Of labelled questions that are exchangeable with the new ones: how sure their answers are, by a fit that has not
        seen these labels, and whether they are right. NaN where there is no answer.
    new_confidence : (new,)
        Of the questions to be answered or not. NaN where there is no answer.
    target
        Accuracy among the answered, above 0 and up to 1.
    assurance
        At least 1/2, below 1.

    Raises
    ------
    DirEAGError
        If target or assurance are out of range.

    Examples
    --------
    >>> sure = np.linspace(0.5, 1.0, 100)
    >>> found = choose_threshold(sure, sure > 0.6, sure, target=0.8, assurance=0.9)
    >>> round(found.threshold, 3), found.n_answered, found.n_labelled_wrong, found.most_wrong
    (0.722, 56, 0, 6)
    """
    check_wanted(target, assurance)
    known = ~np.isnan(confidence)
    confidence, wrong = confidence[known], ~correct[known]
    new = new_confidence[~np.isnan(new_confidence)]
    n, m = len(confidence), len(new)
    tolerated, bound = _tolerated(np.concatenate([confidence, new]), n, m, target, assurance)
    levels, n_reached, expected = _by_threshold(new)
    allowed = allowed_wrong(target, n_reached)
    promised = poisson.ppf(assurance, expected) <= allowed
    n_wrong = wrong.sum() - np.searchsorted(np.sort(confidence[wrong]), levels)
    supported = np.flatnonzero(promised & (n_wrong <= tolerated) & (bound <= allowed))
    threshold = float(levels[supported[-1]]) if len(supported) else math.nan
    above = confidence >= threshold
    return Abstention(
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
    """Raise DirEAGError unless both are probabilities that can be asked for."""
    if not 0 < target <= 1:
        raise DirEAGError(f"target accuracy {target}: expected a share above 0 and up to 1, such as 0.95.")
    if not 0.5 <= assurance < 1:
        raise DirEAGError(f"assurance {assurance}: expected a probability of at least 0.5 and below 1, such as 0.9.")


def allowed_wrong(target: float, n_answered: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Return how many of so many answers may be wrong for the accuracy to reach the target.

    Examples
    --------
    >>> allowed_wrong(0.9, np.array([0, 9, 10, 39])).tolist()
    [0, 0, 1, 3]
    """
    # a count that is whole but for rounding is whole
    return np.asarray(np.floor((1 - target) * n_answered + 1e-9).astype(np.int64))


def least_labelled(n_new: int, target: float, assurance: float) -> int:
    """Return the least number of labelled questions, none of them wrong, with which all new ones could be answered."""
    allowed, level = int(allowed_wrong(target, np.array(n_new))), _level(assurance)
    enough = math.ceil(n_new / level ** (1 / (allowed + 1))) + 1  # with replacement
    return bisect_left(range(enough), x=True, key=lambda n: _risk(allowed, 0, n, n_new) <= level)


@lru_cache(maxsize=64)
def wrong_bounds(
    n: int, m: int, target: float, assurance: float
) -> tuple[Int[np.ndarray, " grid"], Int[np.ndarray, " grid"]]:
    """Return numbers k of wrong labelled answers, and the bound on wrong new ones for each of them alone.

    Parameters
    ----------
    n, m
        Labelled and new questions, one at least of the former.

    Returns
    -------
    (grid,), (grid,)
        From 0 to the largest number that could be of use; of many, some.
    """
    most = n * (int(allowed_wrong(target, np.array(m))) + 1) / max(m, 1)
    k = np.unique(np.geomspace(1, max(min(n, math.ceil(most)), 1), _GRID).astype(int)) - 1
    return k, np.array([_bound(number, n, m, _level(assurance)) for number in k.tolist()])


def _bound(k: int, n: int, m: int, level: float) -> int:
    return bisect_left(range(m), x=True, key=lambda bound: _risk(bound, k, n, m) <= level)


def _risk(bound: int, k: int, n: int, m: int) -> float:
    """Return the probability that of the first wrong answers, one more than both numbers, at most k are labelled."""
    return float(hypergeom.cdf(k, n + m, n, min(bound + k + 1, n + m)))


def _level(assurance: float) -> float:
    return (1 - assurance) * (1 + 1e-9)  # 1 - 0.9 is less than 0.1


def _tolerated(
    pooled: Float[np.ndarray, " question"], n: int, m: int, target: float, assurance: float
) -> tuple[int, int]:
    """Choose how many wrong labelled answers to allow above the threshold, by the confidences of all alone.

    Returns
    -------
    int, int
        The number, and the bound on wrong new answers.
    """
    if not n or not m:
        return 0, m
    k, bound = wrong_bounds(n, m, target, assurance)
    n_enough = np.maximum(np.searchsorted(allowed_wrong(target, np.arange(m + 1)), bound), 1)
    _, n_reached, expected = _by_threshold(pooled)
    n_reached, expected = n_reached * m // len(pooled), expected / len(pooled)
    promised = poisson.ppf(assurance, m * expected) <= allowed_wrong(target, n_reached)
    possible = n_enough <= n_reached[promised].max(initial=0)
    there = np.searchsorted(n_reached, np.minimum(n_enough, m))
    chance = poisson.cdf(k, _MORE_ERRORS * n * expected[there])
    best = int(np.argmax(possible * chance * n_enough))
    return int(k[best]), int(bound[best])


def _by_threshold(
    confidence: Float[np.ndarray, " question"],
) -> tuple[Float[np.ndarray, " level"], Int[np.ndarray, " level"], Float[np.ndarray, " level"]]:
    """Return each confidence, the highest first, how many reach it, and how many of these it takes to be wrong."""
    levels, counts = np.unique(confidence, return_counts=True)
    levels, counts = levels[::-1], counts[::-1]
    return levels, np.cumsum(counts), np.cumsum(counts * (1 - levels))
