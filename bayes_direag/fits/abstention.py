r"""Abstention with a guarantee: how far down the list of confidences one may answer, given labelled questions.

Labelled and new questions are taken to be exchangeable: put together, any :math:`n` of the :math:`N = n + m` were as
likely to be the labelled ones. Sort all by confidence, and let :math:`A_j` be how many of the first :math:`j` *wrong*
answers are labelled. Whatever the confidences are worth, :math:`A` is then a draw without replacement from :math:`N` of
which :math:`n` are labelled, so its distribution is known without looking at anything. Take :math:`j_0 < j_1 < \dots`
such that

.. math:: P(A_{j_e} \le e \text{ for some } e) \le 1 - \text{assurance}.

Where that does not come about, a threshold above which :math:`e` labelled answers are wrong has less than
:math:`j_e` wrong answers above it in all, so at most :math:`B(e) = j_e - 1 - e` wrong new ones: *for every threshold at
once*, so the threshold may be chosen with all labels in view. The one chosen answers the most new questions among
those where :math:`B(e) \le (1 - \text{target})\, m'`, with :math:`m'` the new questions above it.

The bound is on the accuracy that the new questions turn out to have, not on that of a population behind them, which
it becomes as :math:`m` grows. All :math:`P(A_{j_e} \le e)` are held at or below one level, the largest that keeps the
whole within bounds. Ties need no care, since a threshold takes all of a confidence or none.

References
----------
Song, Jin and Candès (2026), arXiv:2605.20726, for bounds on wrong selections that hold at all thresholds; there the
envelope is simulated, here it is exact. Angelopoulos et al. (2021), doi:10.48550/arXiv.2110.01052, for a sequence of
tests from strict to lax, which has to start somewhere, and stops at the first error too many.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaln

from bayes_direag.errors import DirEAGError


@lru_cache(maxsize=256)
def wrong_bounds(n_labelled: int, n_new: int, assurance: float, most: int) -> Int[np.ndarray, " labelled_wrong"]:
    r"""Bound the wrong new answers above any threshold by the wrong labelled ones above it.

    Parameters
    ----------
    n_labelled, n_new
        Questions of each kind.
    assurance
        Probability that all of the bounds hold at once; at least 1/2.
    most
        Bounds above this are of no use, and left out.

    Returns
    -------
    (labelled_wrong,)
        :math:`B(e)` for e = 0, 1, ..., never falling; empty where even B(0) is above ``most``. It is kept, and cannot
        be written to.

    Examples
    --------
    >>> wrong_bounds(100, 100, assurance=0.9, most=20).tolist()
    [4, 6, 8, 10, 12, 13, 14, 16, 17, 19, 20]
    """
    # held with probability 1/2 or more, B(e) is at least the median, and so about e * n_new / n_labelled
    n_useful = min(n_labelled, math.ceil((most + 1) * n_labelled / max(n_new, 1)) + 1)
    wrong = np.arange(n_useful)
    risk = (1 - assurance) * (1 + 1e-9)  # 1 - 0.9 is less than 0.1
    # at the one level all bounds surely hold, at the other the first does
    strict, lax = math.log(risk / max(n_useful, 1)), math.log(risk)
    most_j = _least_j(math.exp(strict), wrong, n_labelled, n_new, wrong + 1, wrong + 1 + n_new)
    least_j = _least_j(math.exp(lax), wrong, n_labelled, n_new, wrong + 1, most_j)
    if failure_probability(_useful(least_j, most), n_labelled, n_new) <= risk:
        return _useful(least_j, most)
    for _ in range(_HALVINGS):
        middle = (strict + lax) / 2
        j = _least_j(math.exp(middle), wrong, n_labelled, n_new, least_j, most_j)
        if failure_probability(_useful(j, most), n_labelled, n_new) <= risk:
            strict, most_j = middle, j
        else:
            lax, least_j = middle, j
    return _useful(most_j, most)


def failure_probability(bounds: Int[np.ndarray, " labelled_wrong"], n_labelled: int, n_new: int) -> float:
    r"""Return the probability that some bound fails, where there are errors enough to break any; exact.

    With :math:`v_e` the probability that the e-th is the first to fail, which it does at :math:`A_{j_e} = e`,

    .. math:: P(A_{j_e} = e) = v_e + \sum_{i < e} v_i\, P(A_{j_e} = e \mid A_{j_i} = i).
    """
    total = n_labelled + n_new
    wrong = np.arange(len(bounds))
    j = bounds + wrong + 1
    reached = _chance(wrong, j, n_labelled, total)
    first_to_fail = np.zeros(len(bounds))
    for e in wrong:
        before = wrong[:e]
        onward = _chance(e - before, j[e] - j[:e], n_labelled - before, total - j[:e])
        first_to_fail[e] = reached[e] - first_to_fail[:e] @ onward
    return float(first_to_fail.sum())


def _useful(j: Int[np.ndarray, " labelled_wrong"], most: int) -> Int[np.ndarray, " useful"]:
    bounds = j - 1 - np.arange(len(j))
    useful = np.asarray(bounds[bounds <= most])
    useful.flags.writeable = False
    return useful


def _least_j(
    level: float,
    wrong: Int[np.ndarray, " labelled_wrong"],
    n_labelled: int,
    n_new: int,
    low: Int[np.ndarray, " labelled_wrong"],
    high: Int[np.ndarray, " labelled_wrong"],
) -> Int[np.ndarray, " labelled_wrong"]:
    """Return the least j, from low to high, for which so few of j are labelled with at most this probability."""
    while (low < high).any():
        middle = (low + high) // 2
        enough = _chance_of_at_most(wrong, middle, n_labelled, n_labelled + n_new) <= level
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


def _chance(
    count: Int[np.ndarray, " case"],
    drawn: Int[np.ndarray, " case"],
    n_labelled: Int[np.ndarray, " case"] | int,
    total: Int[np.ndarray, " case"] | int,
) -> Float[np.ndarray, " case"]:
    """Return the hypergeometric probability that so many of the drawn are labelled.

    SciPy's, which factors into primes, takes a thousand times as long where the total is large.
    """
    rest = n_labelled - count
    possible = (count <= drawn) & (rest >= 0) & (rest <= total - drawn)
    log_chance = _log_choose(drawn, count) + _log_choose(total - drawn, rest) - _log_choose(total, n_labelled)
    return np.asarray(np.where(possible, np.exp(np.where(possible, log_chance, -np.inf)), 0.0))


def _chance_of_at_most(
    count: Int[np.ndarray, " case"], drawn: Int[np.ndarray, " case"], n_labelled: int, total: int
) -> Float[np.ndarray, " case"]:
    """Return the hypergeometric probability that at most so many, less than are drawn, are labelled."""
    term = _chance(count, drawn, n_labelled, total)
    found = term.copy()
    k = count.astype(float)
    while (term > _NEGLIGIBLE * found).any():
        term = term * k * np.maximum(total - drawn - n_labelled + k, 0) / ((drawn - k + 1) * (n_labelled - k + 1))
        found += term
        k = np.maximum(k - 1, 0)
    return found


def _log_choose(n: Int[np.ndarray, "*#case"] | int, k: Int[np.ndarray, "*#case"] | int) -> Float[np.ndarray, "*case"]:
    """Return the log of the binomial coefficient; anything where it is 0."""
    k = np.clip(k, 0, np.maximum(n, 0))
    return np.asarray(-betaln(n - k + 1, k + 1) - np.log1p(n))


#: Of the logarithm of the level: what is left of its range does not matter.
_HALVINGS = 12
_NEGLIGIBLE = 1e-18


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
        At most so many of these are wrong, with the assurance.
    attainable : float
        Without a threshold: the highest target, in steps of 0.01, for which there is one; NaN if there is none.
    n_needed : int
        Without a threshold: the least number of labelled questions, none of them answered wrongly, for which there is
        one; else 0.
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
    attainable: float
    n_needed: int


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
    >>> found = choose_threshold(sure, sure > 0.6, sure, target=0.9, assurance=0.9)
    >>> round(found.threshold, 3), found.n_answered, found.n_labelled_wrong, found.most_wrong
    (0.591, 82, 2, 7)
    """
    check_wanted(target, assurance)
    known = ~np.isnan(confidence)
    confidence, wrong = confidence[known], ~correct[known]
    new_confidence = new_confidence[~np.isnan(new_confidence)]
    threshold, most_wrong = lowest_threshold(confidence, wrong, new_confidence, target, assurance)
    none = math.isnan(threshold)
    above = confidence >= threshold
    return Abstention(
        target=target,
        assurance=assurance,
        threshold=threshold,
        n_labelled=len(wrong),
        n_labelled_above=int(above.sum()),
        n_labelled_wrong=int((above & wrong).sum()),
        n_new=len(new_confidence),
        n_answered=int((new_confidence >= threshold).sum()),
        most_wrong=most_wrong,
        attainable=_attainable(confidence, wrong, new_confidence, target, assurance) if none else np.nan,
        n_needed=least_labelled(len(new_confidence), target, assurance) if none else 0,
    )


def check_wanted(target: float, assurance: float) -> None:
    """Raise DirEAGError unless both are probabilities that can be asked for."""
    if not 0 < target <= 1:
        raise DirEAGError(f"target accuracy {target}: expected a share above 0 and up to 1, such as 0.95.")
    if not 0.5 <= assurance < 1:
        raise DirEAGError(f"assurance {assurance}: expected a probability of at least 0.5 and below 1, such as 0.9.")


def lowest_threshold(
    confidence: Float[np.ndarray, " labelled"],
    wrong: Bool[np.ndarray, " labelled"],
    new_confidence: Float[np.ndarray, " new"],
    target: float,
    assurance: float,
) -> tuple[float, int]:
    """Return the lowest threshold that the labels support, and the bound on wrong new answers above it; NaN and 0.

    Parameters
    ----------
    confidence, wrong : (labelled,)
        Of the labelled questions, none of them NaN.
    new_confidence : (new,)
        Of the new ones, likewise; the threshold is one of these.
    """
    levels, counts = np.unique(new_confidence, return_counts=True)
    if not len(levels):
        return np.nan, 0
    allowed = allowed_wrong(target, np.cumsum(counts[::-1])[::-1])
    bounds = wrong_bounds(len(wrong), len(new_confidence), assurance, int(allowed[0]))
    n_wrong = wrong.sum() - np.searchsorted(np.sort(confidence[wrong]), levels)
    bounded = n_wrong < len(bounds)
    most_wrong = np.append(bounds, 0)[np.where(bounded, n_wrong, len(bounds))]
    supported = np.flatnonzero(bounded & (most_wrong <= allowed))
    return (float(levels[supported[0]]), int(most_wrong[supported[0]])) if len(supported) else (np.nan, 0)


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
    allowed = int(allowed_wrong(target, np.array(n_new)))
    if allowed == n_new:
        return 0
    high = 1
    while not len(wrong_bounds(high, n_new, assurance, allowed)):
        high *= 2
    low = high // 2 + 1
    while low < high:
        middle = (low + high) // 2
        if len(wrong_bounds(middle, n_new, assurance, allowed)):
            high = middle
        else:
            low = middle + 1
    return high


def _attainable(
    confidence: Float[np.ndarray, " labelled"],
    wrong: Bool[np.ndarray, " labelled"],
    new_confidence: Float[np.ndarray, " new"],
    target: float,
    assurance: float,
) -> float:
    """Return a target below this one, in whole percent, that the labels support; NaN if none.

    It is found by halving, as if a lower target were never harder to support; that is so but for rounding.
    """
    found, unsupported = 0, math.ceil(100 * target - 1e-9)
    while found + 1 < unsupported:
        middle = (found + unsupported) // 2
        if math.isnan(lowest_threshold(confidence, wrong, new_confidence, middle / 100, assurance)[0]):
            unsupported = middle
        else:
            found = middle
    return found / 100 if found else np.nan
