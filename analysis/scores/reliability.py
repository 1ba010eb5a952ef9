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

from analysis.scores.metrics import MIN_CONFIDENCE, N_BINS, Confidence, Correct, bin_of, brier, ece, smece


class Decomposition(NamedTuple):
    """The parts of a Brier score: ``brier = miscalibration - discrimination + uncertainty``."""

    brier: float
    miscalibration: float
    discrimination: float
    uncertainty: float


class Reliability(NamedTuple):
    """The reliability of some confidences, in bins and as a curve, with intervals and a band of one level."""

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
    """Return the reliability of confidences: bins, isotonic curve, calibration errors and parts of the Brier score.

    Parameters
    ----------
    confidence, correct
        The confidence in [0, 1] of each answered question, and whether its answer is right. Without questions the
        curve and the bins are empty, and the figures NaN.
    rng
        Generator or seed of the consistency band.
    n_resamples, level
        Number of resamples behind the band, and the probability of band and intervals.
    """
    return Reliability(
        n=len(confidence),
        bins=binned_reliability(confidence, correct, level=level),
        curve=isotonic_reliability(confidence, correct, rng=rng, n_resamples=n_resamples, level=level),
        ece=ece(confidence, correct),
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


def isotonic_reliability(
    confidence: Confidence,
    correct: Correct,
    *,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return the CORP curve, a row a distinct confidence and linear in between, with its pointwise consistency band."""
    stated, n, hits = _by_confidence(confidence, correct)
    curve = pd.DataFrame({"confidence": stated, "n": n, "right": _monotone(n, hits)})
    if not len(stated):
        return curve.assign(band_low=np.zeros(0), band_high=np.zeros(0))
    generator = np.random.default_rng(rng)
    drawn = generator.multinomial(n.sum(), n / n.sum(), size=n_resamples)
    right = generator.binomial(drawn, stated)
    replicates = np.empty(drawn.shape)
    for row, (n_drawn, n_right) in enumerate(zip(drawn, right, strict=True)):
        some = n_drawn > 0
        replicates[row] = np.interp(stated, stated[some], _monotone(n_drawn[some], n_right[some]))
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return curve.assign(band_low=low, band_high=high)


def decomposition(confidence: Confidence, correct: Correct) -> Decomposition:
    """Split the Brier score into miscalibration, discrimination and uncertainty; NaN without questions."""
    score = brier(confidence, correct)
    stated, n, hits = _by_confidence(confidence, correct)
    if not len(stated):
        return Decomposition(score, np.nan, np.nan, np.nan)
    total = n.sum()
    recalibrated = _monotone(n, hits)
    after = float((hits * (1 - recalibrated) ** 2 + (n - hits) * recalibrated**2).sum() / total)
    base_rate = hits.sum() / total
    uncertainty = float(base_rate * (1 - base_rate))
    return Decomposition(score, score - after, uncertainty - after, uncertainty)


def _by_confidence(
    confidence: Confidence, correct: Correct
) -> tuple[Float[np.ndarray, " stated"], Int[np.ndarray, " stated"], Int[np.ndarray, " stated"]]:
    """Return the distinct confidences, and for each the numbers of questions and of right answers."""
    stated, place = np.unique(np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE), return_inverse=True)
    n = np.bincount(place, minlength=len(stated))
    return stated, n, np.bincount(place[correct], minlength=len(stated))


def _monotone(n: Int[np.ndarray, " stated"], hits: Int[np.ndarray, " stated"]) -> Float[np.ndarray, " stated"]:
    """Return the non-decreasing fit to ``hits / n`` with weights n, by pool-adjacent-violators."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(hits / n, weights=n).x) if len(n) else np.zeros(0)
