r"""Reliability: how often answers are right, by confidence; in bins, and by isotonic regression (CORP).

*Bins* are those of the ECE: of equal width, right-closed, the first also left-closed.

*CORP*: the share of right answers as a non-decreasing function of confidence, fitted by isotonic regression
(pool-adjacent-violators). It needs no bins, and it splits the Brier score exactly,

.. math:: \text{Brier} = \text{miscalibration} - \text{discrimination} + \text{uncertainty}.

Uncertainty is the score of the base rate as a constant confidence. Discrimination is what the recalibrated confidences
gain over it, and miscalibration is what the confidences lose against the recalibrated ones.

The band is a *consistency* band: the range of the curve if the confidences were calibrated. Confidences are drawn with
replacement, answers are right with the probability they state, and the curve is fitted to each such sample.

Source: Dimitriadis, Gneiting and Jordan (2021), doi:10.1073/pnas.2016191118. Brown, Cai and DasGupta (2001),
doi:10.1214/ss/1009213286, on Wilson's interval.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from analysis.scores.metrics import MIN_CONFIDENCE, Confidence, Correct, brier, ece, smece

#: Number of bins of the diagram and of its ECE.
N_BINS = 10


class Decomposition(NamedTuple):
    """The parts of a Brier score: ``brier = miscalibration - discrimination + uncertainty``."""

    brier: float
    miscalibration: float
    discrimination: float
    uncertainty: float


class Reliability(NamedTuple):
    """The reliability of some confidences.

    ``n``: number of questions. ``bins``: from :func:`binned_reliability`. ``curve``: from :func:`isotonic_reliability`.
    ``ece``, ``smece``: expected calibration error of the same bins, and the smooth one. ``decomposition``: of the Brier
    score. ``interval_level``: of the bins' intervals and of the curve's band.
    """

    n: int
    bins: pd.DataFrame
    curve: pd.DataFrame
    ece: float
    smece: float
    decomposition: Decomposition
    interval_level: float


def reliability(
    confidence: Confidence,
    correct: Correct,
    *,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Reliability:
    """Return the reliability of confidences; without questions, an empty curve, empty bins and NaN.

    ``confidence`` (problem,): probability of being correct, in [0, 1], of answered questions; clipped as in all
    metrics. ``correct`` (problem,): whether the answer is correct; a single class is allowed. ``rng``, ``n_resamples``:
    of the band. ``level``: of the intervals and the band, strictly between 0 and 1.
    """
    return Reliability(
        n=len(confidence),
        bins=binned_reliability(confidence, correct, level=level),
        curve=isotonic_reliability(confidence, correct, rng=rng, n_resamples=n_resamples, level=level),
        ece=ece(confidence, correct, n_bins=N_BINS),
        smece=smece(confidence, correct),
        decomposition=decomposition(confidence, correct),
        interval_level=level,
    )


def share_right(correct: Correct, level: float) -> tuple[float, float, float]:
    """Return the share of right answers and its Wilson interval; NaN without an answer."""
    from scipy.stats import binomtest

    if not len(correct):
        return np.nan, np.nan, np.nan
    low, high = binomtest(int(correct.sum()), len(correct)).proportion_ci(level, method="wilson")
    return float(correct.mean()), low, high


def binned_reliability(
    confidence: Confidence, correct: Correct, *, n_bins: int = N_BINS, level: float = 0.95
) -> pd.DataFrame:
    """Return mean confidence and share of right answers bin by bin, with Wilson intervals of the share.

    Returns: One row per bin: ``low``, ``high`` (its edges), ``n``, ``confidence`` (mean), ``right`` (share),
    ``right_low``, ``right_high``. All but edges and n are NaN in an empty bin.
    """
    clipped = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    edges = np.arange(n_bins + 1) / n_bins
    place = np.searchsorted(edges[1:-1], clipped, side="left")
    rows = []
    for number in range(n_bins):
        here = place == number
        mean = clipped[here].mean() if here.any() else np.nan
        rows.append((edges[number], edges[number + 1], int(here.sum()), mean, *share_right(correct[here], level)))
    return pd.DataFrame(rows, columns=["low", "high", "n", "confidence", "right", "right_low", "right_high"])


def isotonic_reliability(
    confidence: Confidence,
    correct: Correct,
    *,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return the CORP reliability curve with its consistency band.

    Returns: A row for each distinct confidence, ascending: ``confidence``, ``n``, ``right`` (the fitted share of right
    answers; the curve is linear in between), ``band_low``, ``band_high`` (pointwise).
    """
    stated, n, hits = _distinct(confidence, correct)
    curve = pd.DataFrame({"confidence": stated, "n": n, "right": _pooled(n, hits)})
    if not len(stated):
        return curve.assign(band_low=np.zeros(0), band_high=np.zeros(0))
    generator = np.random.default_rng(rng)
    drawn = generator.multinomial(n.sum(), n / n.sum(), size=n_resamples)
    right = generator.binomial(drawn, stated)
    replicates = np.empty(drawn.shape)
    for row, (n_drawn, n_right) in enumerate(zip(drawn, right, strict=True)):
        some = n_drawn > 0
        replicates[row] = np.interp(stated, stated[some], _pooled(n_drawn[some], n_right[some]))
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return curve.assign(band_low=low, band_high=high)


def decomposition(confidence: Confidence, correct: Correct) -> Decomposition:
    """Split the Brier score into miscalibration, discrimination and uncertainty; NaN without questions."""
    score = brier(confidence, correct)
    stated, n, hits = _distinct(confidence, correct)
    if not len(stated):
        return Decomposition(score, np.nan, np.nan, np.nan)
    total = n.sum()
    recalibrated = _pooled(n, hits)
    after = float((hits * (1 - recalibrated) ** 2 + (n - hits) * recalibrated**2).sum() / total)
    base_rate = hits.sum() / total
    uncertainty = float(base_rate * (1 - base_rate))
    return Decomposition(score, score - after, uncertainty - after, uncertainty)


def _distinct(
    confidence: Confidence, correct: Correct
) -> tuple[Float[np.ndarray, " stated"], Int[np.ndarray, " stated"], Int[np.ndarray, " stated"]]:
    """Return the distinct confidences, and for each the numbers of questions and of right answers."""
    stated, place = np.unique(np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE), return_inverse=True)
    n = np.bincount(place, minlength=len(stated))
    return stated, n, np.bincount(place[correct], minlength=len(stated))


def _pooled(n: Int[np.ndarray, " stated"], hits: Int[np.ndarray, " stated"]) -> Float[np.ndarray, " stated"]:
    """Return the non-decreasing fit to ``hits / n`` with weights n, by pool-adjacent-violators."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(hits / n, weights=n).x) if len(n) else np.zeros(0)
