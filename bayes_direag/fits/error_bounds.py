"""Bounds on wrong new answers that hold at all thresholds at once, as :mod:`bayes_direag.fits.abstention` argues."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaln


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
