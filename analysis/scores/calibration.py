r"""Are probabilities calibrated? The one verdict that reports, evaluations and diagnoses give.

The figure is the smooth ECE (:func:`~analysis.scores.metrics.smooth_ece`), which also sees faults that bins cut in two.
On a finite sample it is not 0 for calibrated probabilities, so it is compared with its distribution for answers that
are right less often than stated, by N points everywhere:

.. math:: y_i \sim \mathrm{Bernoulli}(\max(f_i - N, 0))

N = 0 is calibrated. The *miscalibration* is the N for which half of the simulated smECE are smaller than the observed
one, with the N of a 90 % interval: a smECE as large has 5 % probability at its low end, one as small has 5 % at its
high end. So 0 lies outside the interval exactly if calibrated probabilities show such a smECE in less than 5 % of
cases. The *smallest found* is the N at which the low end is above 0 in 80 % of cases.

With clusters, answers are not independent: the residuals of each cluster keep or change their signs together, at
random (the wild bootstrap), in place of independent draws.

Source: Błasiok and Nakkiran (2023), arXiv:2309.12236, on smECE; Vaicenavicius et al. (2019), arXiv:1902.06977, on its
distribution under calibration; Cameron, Gelbach and Miller (2008), doi:10.1162/rest.90.3.414, on clusters; Brown, Cai
and DasGupta (2001), doi:10.1214/ss/1009213286, on the intervals of the bins.
"""

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from analysis.scores.metrics import (
    MIN_CONFIDENCE,
    N_BINS,
    Confidence,
    Correct,
    bin_of,
    evaluate_metrics,
    smooth_error,
)

#: The rate of false alarms, the power at the smallest miscalibration that is named, and the level of the interval.
FALSE_ALARM, POWER, INTERVAL = 0.05, 0.8, 0.9
#: If only a larger miscalibration would be found, there are too few questions to judge.
LARGEST_MISSED = 0.1

_DRAWS = 500
#: Simulated entries at a time.
_CHUNK = 2**20


class Calibration(NamedTuple):
    """What some questions tell about the calibration of the probabilities of their answers; NaN without questions.

    Attributes
    ----------
    n : int
        Number of answers.
    stated, right : float
        Mean probability, and the share of right answers.
    smece : float
        The smooth ECE.
    size, low, high : float
        The miscalibration, with its 90 % interval.
    smallest_found : float
        The smallest miscalibration that so many answers show in 80 % of cases; infinite if there is none.
    worst : tuple[float, float, float, float]
        Of the tenth of the probabilities that adds most to the ECE: its ends, what it states, and how often it is
        right.
    """

    n: int
    stated: float
    right: float
    smece: float
    size: float
    low: float
    high: float
    smallest_found: float
    worst: tuple[float, float, float, float]

    @property
    def verdict(self) -> Literal["off", "none found", "too few"]:
        """``off`` if the interval excludes 0; ``none found``; or ``too few`` answers to find a fault that matters."""
        if self.low > 0:
            return "off"
        return "none found" if self.smallest_found <= LARGEST_MISSED else "too few"

    @property
    def direction(self) -> Literal["too high", "too low", "too high in places and too low in others"]:
        """Which way the probabilities are off: one way if half of the smECE or more is their mean."""
        if abs(self.stated - self.right) < self.smece / 2:
            return "too high in places and too low in others"
        return "too high" if self.stated > self.right else "too low"

    def sentence(self, name: str = "probabilities") -> str:
        """Return the verdict on the probabilities of that name."""
        size, least = f"{100 * self.size:.1f} points", f"{100 * self.smallest_found:.1f} points"
        if self.verdict == "off":
            low, high, stated, right = self.worst
            return (
                f"The {name} are {self.direction}: they are off by {size} on average [{INTERVAL:.0%}: "
                f"{100 * self.low:.1f} to {100 * self.high:.1f}]. The largest part is between {low:.0%} and "
                f"{high:.0%}: {stated:.1%} given, {right:.1%} right."
            )
        if self.verdict == "none found":
            seen = f"they are off by {size} on average, no more than" if size != "0.0 points" else "they miss by what"
            return (
                f"The {name} look right: {seen} chance gives with {self.n:,} answers. An error of {least} would "
                "probably have been seen."
            )
        seen = f"only an error of {least} or more" if np.isfinite(self.smallest_found) else "no error"
        return f"Too few answers to judge the {name}: with {self.n:,}, {seen} would probably be seen."


def judge_calibration(
    confidence: Confidence,
    correct: Correct,
    *,
    rng: np.random.Generator | int,
    cluster: Int[np.ndarray, " problem"] | None = None,
) -> Calibration:
    """Judge whether answers are right as often as stated.

    Parameters
    ----------
    confidence, correct
        The probability in [0, 1] of each answered question, and whether its answer is right.
    rng
        Generator or seed of the simulation.
    cluster
        The cluster of each question, if answers within one are not independent.
    """
    n, seen = len(confidence), evaluate_metrics(confidence, correct, names=["smece"])["smece"].item()
    if not n:
        nan = np.nan
        return Calibration(0, nan, nan, seen, nan, nan, nan, np.inf, (nan, nan, nan, nan))
    stated = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    noise = np.sqrt(((stated * (1 - stated)).mean() + 1 / n) / n)
    shift = np.unique(np.clip([*noise * np.arange(7), *(seen + noise * np.arange(-3, 5))], 0, 1))
    simulated = _simulated(stated, correct, shift, np.random.default_rng(rng), cluster)
    tail = (1 - INTERVAL) / 2
    levels = [tail, 1 - POWER, 0.5, 1 - FALSE_ALARM]
    small, often, median, large = np.maximum.accumulate(np.quantile(simulated, levels, axis=1), axis=1)
    bins = binned_reliability(confidence, correct)
    gap = (bins["n"] * (bins["probability"] - bins["right"]).abs()).fillna(0.0).to_numpy()
    low_end, high_end, _, said, share, *_ = bins.to_numpy()[gap.argmax()].tolist()
    return Calibration(
        n=n,
        stated=float(stated.mean()),
        right=float(correct.mean()),
        smece=seen,
        size=float(np.interp(seen, median, shift)),
        low=round(float(np.interp(seen, large, shift)), 3),  # as printed, so that both say the same
        # less than calibrated probabilities show in half of cases is luck, which must not shorten the interval
        high=float(np.interp(max(seen, median[0]), small, shift)),
        smallest_found=float(np.interp(large[0], often, shift, right=np.inf)),
        worst=(low_end, high_end, said, share),
    )


def _simulated(
    stated: Float[np.ndarray, " problem"],
    correct: Correct,
    shift: Float[np.ndarray, " shift"],
    rng: np.random.Generator,
    cluster: Int[np.ndarray, " problem"] | None,
) -> Float[np.ndarray, "shift draw"]:
    """Simulate the smECE of answers that are right less often than stated, from the same random numbers."""
    n, parts = len(stated), []
    member = None if cluster is None else np.unique(cluster, return_inverse=True)[1]
    for start in range(0, _DRAWS, chunk := max(1, _CHUNK // n)):
        n_draws = min(chunk, _DRAWS - start)
        if member is None:
            uniform = rng.random((n_draws, n))
            residuals = ((uniform < stated - by) - stated for by in shift)
        else:
            signs = rng.choice([-1.0, 1.0], (n_draws, member.max() + 1))[:, member]
            noise = signs * (correct - stated)
            residuals = (noise - np.minimum(by, stated) for by in shift)
        parts.append([smooth_error(stated, residual / n) for residual in residuals])
    return np.concatenate(parts, axis=1)


def binned_reliability(confidence: Confidence, correct: Correct, *, level: float = 0.95) -> pd.DataFrame:
    """Return mean confidence and share of right answers in each bin of the ECE, with Wilson intervals; NaN if empty."""
    from scipy.stats import binomtest

    clipped = np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE)
    edges, bins = np.arange(N_BINS + 1) / N_BINS, bin_of(clipped)
    rows = []
    for number in range(N_BINS):
        stated, right = (values[bins == number] for values in (clipped, correct))
        figures = (np.nan,) * 4
        if len(right):
            ends = binomtest(int(right.sum()), len(right)).proportion_ci(level, method="wilson")
            figures = stated.mean(), right.mean(), *ends
        rows.append((edges[number], edges[number + 1], len(right), *figures))
    return pd.DataFrame(rows, columns=["low", "high", "n", "probability", "right", "right_low", "right_high"])
