r"""Selective prediction: the errors among the answers of highest confidence.

Questions are accepted in order of confidence, highest first. With :math:`E_k` the errors among the first k of n, the
*risk* at coverage :math:`k/n` is :math:`E_k / k`, and the area under the risk-coverage curve is

.. math:: \mathrm{AURC} = \frac1n \sum_{k=1}^{n} \frac{E_k}{k}.

Questions with equal confidences have no order. So :math:`E_k` is its mean over all orders of the tied questions: within
a tie of m questions with e errors it grows by :math:`e/m` a question. A rule that picks at random among tied questions
attains this, it does not depend on the order of the file, and AURC is then the mean over all orders.

Source: El-Yaniv and Wiener (2010), jmlr.org/papers/v11/el-yaniv10a. Geifman, Uziel and El-Yaniv (2019),
arXiv:1805.08206, for the excess.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from analysis.scores.metrics import MIN_CONFIDENCE, Chunk, Confidence, Correct, Weight

_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def risk_coverage(confidence: Confidence, correct: Correct) -> pd.DataFrame:
    """Return the risk at every number of accepted answers, 1 to n.

    ``threshold``: the lowest accepted confidence. ``attainable``: whether a threshold stops there, not in a tie.
    """
    levels, accepted, errors = _counts_by_threshold(confidence, correct, np.ones((1, len(confidence)), int))
    n = len(confidence)
    k = np.arange(1, n + 1)
    risk = np.interp(k, accepted[0], errors[0]) / k
    last = np.searchsorted(accepted[0, 1:], k) if n else np.zeros(0, int)
    return pd.DataFrame(
        {
            "accepted": k,
            "coverage": k / max(n, 1),
            "threshold": levels[last],
            "attainable": np.isin(k, accepted[0, 1:]),
            "risk": risk,
            "accuracy": 1 - risk,
        }
    )


def aurc(confidence: Confidence, correct: Correct, weight: Weight | None = None) -> Float[np.ndarray, " replicate"]:
    """Return the area under the risk-coverage curve of each replicate; NaN if no question counts.

    Examples
    --------
    >>> aurc(np.array([0.9, 0.8, 0.7]), np.array([True, False, True])).round(4)
    array([0.2778])
    """
    weight = np.ones((1, len(confidence)), int) if weight is None else weight
    _, accepted, errors = _counts_by_threshold(confidence, correct, weight)
    size, wrong = np.diff(accepted), np.diff(errors)
    rate = wrong / np.maximum(size, 1)
    # the sum over k within a tie that begins after s questions of (E_s + (k - s) e/m) / k
    spread = np.diff(_harmonic(accepted))
    area = ((errors[:, :-1] - accepted[:, :-1] * rate) * spread + wrong).sum(axis=1)
    return _over(area, accepted[:, -1])


def by_threshold(confidence: Confidence, correct: Correct, level: float) -> pd.DataFrame:
    """Return how many labelled answers reach each of some thresholds, and how many of these are right.

    ``threshold``; ``labelled``, the answers that reach it; ``right``, the share of these that is right, NaN if there is
    none, with its interval (Clopper and Pearson) from ``low`` to ``high``, each for a threshold chosen beforehand.
    """
    from scipy.stats import binomtest

    rows = []
    for threshold in _THRESHOLDS:
        right = correct[confidence >= threshold]
        row = {"threshold": threshold, "labelled": len(right), "right": np.nan, "low": np.nan, "high": np.nan}
        if len(right):
            low, high = binomtest(int(right.sum()), len(right)).proportion_ci(level)
            row |= {"right": right.mean(), "low": low, "high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def _counts_by_threshold(
    confidence: Confidence, correct: Correct, weight: Weight
) -> tuple[Float[np.ndarray, " threshold"], Int[np.ndarray, "replicate edge"], Int[np.ndarray, "replicate edge"]]:
    """Return the distinct confidences, highest first, and numbers of questions and errors at or above each, after 0."""
    clipped = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    hits, errors = Chunk(clipped, correct.astype(float), weight.astype(float)).operating_points
    return np.unique(clipped)[::-1], hits + errors, errors


def _harmonic(k: Int[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Return the harmonic numbers 1 + 1/2 + ... + 1/k; 0 for k = 0."""
    numbers = np.cumsum(1 / np.arange(1, k.max(initial=0) + 1))
    return np.asarray(np.concatenate([[0.0], numbers])[k])


def _over(area: Float[np.ndarray, " replicate"], n: Int[np.ndarray, " replicate"]) -> Float[np.ndarray, " replicate"]:
    return np.asarray(np.where(n > 0, area / np.maximum(n, 1), np.nan))
