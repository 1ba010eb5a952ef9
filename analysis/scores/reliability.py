"""Reliability: how often answers are right, by confidence, in the bins of the ECE.

Bins are of equal width, right-closed, the first also left-closed. Source of Wilson's interval: Brown, Cai and DasGupta
(2001), doi:10.1214/ss/1009213286.
"""

import numpy as np
import pandas as pd

from analysis.scores.metrics import MIN_CONFIDENCE, N_BINS, Confidence, Correct, bin_of


def share_right(correct: Correct, level: float) -> tuple[float, float, float]:
    """Return the share of right answers and its Wilson interval; NaN without an answer."""
    from scipy.stats import binomtest

    if not len(correct):
        return np.nan, np.nan, np.nan
    low, high = binomtest(int(correct.sum()), len(correct)).proportion_ci(level, method="wilson")
    return float(correct.mean()), low, high


def binned_reliability(confidence: Confidence, correct: Correct, *, level: float = 0.95) -> pd.DataFrame:
    """Return mean confidence and share of right answers bin by bin, with Wilson intervals; NaN in an empty bin."""
    clipped = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    edges, place = np.arange(N_BINS + 1) / N_BINS, bin_of(clipped)
    rows = []
    for number in range(N_BINS):
        here = place == number
        mean = clipped[here].mean() if here.any() else np.nan
        rows.append((edges[number], edges[number + 1], int(here.sum()), mean, *share_right(correct[here], level)))
    return pd.DataFrame(rows, columns=["low", "high", "n", "probability", "right", "right_low", "right_high"])
