r"""Selective prediction: the errors among the answers of highest confidence.

Questions are accepted in order of confidence, highest first. With :math:`E_k` the errors among the first k of n, the
*risk* at coverage :math:`k/n` is :math:`E_k / k`; its mean over all k is the area under the risk-coverage curve.

Questions with equal confidences have no order. So :math:`E_k` is its mean over all orders of the tied questions: within
a tie of m questions with e errors it grows by :math:`e/m` a question. A rule that picks at random among tied questions
attains this, and it does not depend on the order of the file.

Source: El-Yaniv and Wiener (2010), jmlr.org/papers/v11/el-yaniv10a. Geifman, Uziel and El-Yaniv (2019),
arXiv:1805.08206, for the excess.
"""

import numpy as np
import pandas as pd

from analysis.scores.metrics import MIN_CONFIDENCE, Chunk, Confidence, Correct

_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def risk_coverage(confidence: Confidence, correct: Correct) -> pd.DataFrame:
    """Return the risk at every number of accepted answers, 1 to n.

    ``threshold``: the lowest accepted confidence. ``attainable``: whether a threshold stops there, not in a tie.

    Examples
    --------
    >>> risk_coverage(np.array([0.9, 0.8, 0.7]), np.array([True, False, True]))["risk"].round(4).tolist()
    [0.0, 0.5, 0.3333]
    """
    clipped, n = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE), len(confidence)
    hits, errors = Chunk(clipped, correct.astype(float), np.ones((1, n))).operating_points
    accepted, k = (hits + errors)[0], np.arange(1, n + 1)
    risk = np.interp(k, accepted, errors[0]) / k
    last = np.searchsorted(accepted[1:], k) if n else np.zeros(0, int)
    return pd.DataFrame(
        {
            "accepted": k,
            "coverage": k / max(n, 1),
            "threshold": np.unique(clipped)[::-1][last],
            "attainable": np.isin(k, accepted[1:]),
            "risk": risk,
            "accuracy": 1 - risk,
        }
    )


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
