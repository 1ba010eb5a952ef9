"""Metrics of probabilities of being correct, on the questions as given or on bootstrap replicates.

A metric is a function of a :class:`Chunk`: of the confidence and the correctness of each question, and of a table of
weights with a row a replicate, an entry the number of times that a question counts. The metric of a row is that of the
repeated data, ``np.repeat(confidence, row)``, so that a bootstrap is one array computation. It is NaN if no question
counts. :func:`evaluate_metrics` checks what is given, and evaluates; the docstring of each metric gives its equation.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import scipy.fft
import scipy.sparse
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

#: The confidence of each question, whether its answer is right, and how often it counts in each replicate.
Confidence = Float[np.ndarray, " problem"]
Correct = Bool[np.ndarray, " problem"]
Weight = Int[np.ndarray, "replicate problem"]
#: A number for each question, and for each replicate.
Problems = Float[np.ndarray, " problem"]
Replicates = Float[np.ndarray, " replicate"]
_Weights = Float[np.ndarray, "replicate problem"]
_Counts = Int[np.ndarray, "replicate threshold"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Checked questions in a chunk of replicates, with sums that several metrics share.

    Counts are integers, which are exact, and whose running sums take an eighth of the time.
    """

    confidence: Problems
    correct: Problems
    weight: _Weights

    def mean(self, value: Problems) -> Replicates:
        """Return the mean of a score of each question."""
        return np.asarray(self.weight @ value / self.weight.sum(axis=1))

    @functools.cached_property
    def residual(self) -> Problems:
        """Correctness minus confidence."""
        return np.asarray(self.correct - self.confidence)

    @functools.cached_property
    def order(self) -> Int[np.ndarray, " problem"]:
        """The order of the questions, the least confident first."""
        return np.argsort(self.confidence, kind="stable")

    @functools.cached_property
    def rising(self) -> Int[np.ndarray, "replicate problem"]:
        """How often each question counts, in that order."""
        return self.weight[:, self.order].astype(np.int64)

    @functools.cached_property
    def counted(self) -> _Counts:
        """How often the first 0, 1, 2, ... questions in that order count together."""
        return running_sum(self.rising)

    @functools.cached_property
    def hits(self) -> _Counts:
        """How often the correct ones among them count together."""
        return running_sum(self.rising * self.correct[self.order].astype(np.int64))

    @functools.cached_property
    def operating_points(self) -> tuple[_Counts, _Counts]:
        """Numbers of correct and of wrong answers at or above each distinct confidence, starting with 0 and 0."""
        below = len(self.order) - last_of_ties(self.confidence[self.order[::-1]])
        hits, answers = (so_far[:, -1:] - so_far[:, below] for so_far in (self.hits, self.counted))
        return hits, answers - hits


def running_sum(value: Shaped[np.ndarray, "replicate problem"]) -> Shaped[np.ndarray, "replicate problem+1"]:
    """Return the cumulative sum of each row, with a first column of 0."""
    return np.pad(np.cumsum(value, axis=1), ((0, 0), (1, 0)))


def last_of_ties(falling: Problems) -> Int[np.ndarray, " threshold"]:
    """Return the number of values at or above each distinct value, starting with 0."""
    return np.flatnonzero(np.diff(falling, prepend=np.inf, append=-np.inf))


#: Number of bins of the ECE, the adaptive ECE, and the reliability diagram.
N_BINS = 10
#: Confidences are clipped to ``[MIN_CONFIDENCE, 1 - MIN_CONFIDENCE]`` before anything is computed.
MIN_CONFIDENCE = 1e-6
#: Most weights in a chunk: half a MiB for each temporary array, which stays in the cache.
_CHUNK_ENTRIES = 2**16


def accuracy(chunk: Chunk) -> Replicates:
    """Return the share of the questions that were answered correctly."""
    return chunk.mean(chunk.correct)


def mean_confidence(chunk: Chunk) -> Replicates:
    """Return the mean confidence; its excess over the accuracy is overconfidence."""
    return chunk.mean(chunk.confidence)


def ece(chunk: Chunk) -> Replicates:
    r"""Return the expected calibration error over :data:`N_BINS` bins of equal width.

    .. math:: \frac1n \sum_b \Big| \sum_{i \in b} (y_i - f_i) \Big|

    Bin b is :math:`(b/B, (b+1)/B]` of :math:`B`; the first also holds its left edge. So a confidence of 0.3 belongs to
    (0.2, 0.3]. Source: Guo et al. (2017), arXiv:1706.04599.
    """
    in_bin = bin_of(chunk.confidence)[:, None] == np.arange(N_BINS)
    return _mean_gap(chunk.weight @ (chunk.residual[:, None] * in_bin), chunk.weight)


def adaptive_ece(chunk: Chunk) -> Replicates:
    r"""Return the expected calibration error over bins with equal numbers of questions.

    As `ece`, but the questions are sorted by confidence, and bin b holds those from number round(b n/B) up to number
    round((b+1) n/B), halves rounded to even. Equal confidences share what a cut divides: each side gets its part of
    their residuals. Source: Nguyen and O'Connor (2015), arXiv:1508.05154.
    """
    # the running sum of residuals over the repeated questions is linear within equal confidences
    edge = last_of_ties(-chunk.confidence[chunk.order])
    position = chunk.counted[:, edge]
    residual = running_sum(chunk.rising * chunk.residual[chunk.order])[:, edge]
    cut = np.round(np.arange(N_BINS + 1) * position[:, -1:] / N_BINS)
    at_cut = np.array([np.interp(*row) for row in zip(cut, position, residual, strict=True)])
    return _mean_gap(np.diff(at_cut), chunk.weight)


def smece(chunk: Chunk) -> Replicates:
    """Return the smooth expected calibration error; see :func:`~analysis.scores.metrics.smooth_ece`."""
    return smooth_ece(chunk.confidence, chunk.correct, chunk.weight)


def brier(chunk: Chunk) -> Replicates:
    r"""Return the Brier score, :math:`\frac1n \sum_i (f_i - y_i)^2`. Source: Brier (1950)."""
    return chunk.mean(chunk.residual**2)


def nll(chunk: Chunk) -> Replicates:
    r"""Return the mean negative log-likelihood, :math:`-\frac1n \sum_i \log(y_i f_i + (1-y_i)(1-f_i))`."""
    return chunk.mean(-np.log(np.where(chunk.correct == 1, chunk.confidence, 1 - chunk.confidence)))


def auroc(chunk: Chunk) -> Replicates:
    """Return the area under the receiver operating characteristic.

    It is the probability that a correct answer has a higher confidence than a wrong one; a tie counts one half.
    NaN if all answers are correct or all are wrong. Source: Hanley and McNeil (1982).
    """
    hits, misses = chunk.operating_points
    return np.asarray(np.trapezoid(hits, misses, axis=1) / (hits[:, -1] * misses[:, -1]))


def pr_positive(chunk: Chunk) -> Replicates:
    r"""Return the average precision of the confidence in finding correct answers.

    .. math:: \sum_t (R_t - R_{t-1}) P_t

    over the distinct confidences t, highest first, where :math:`P_t` and :math:`R_t` are the precision and the recall
    of the answers with at least confidence t. NaN if all answers are correct or all are wrong, where scikit-learn gives
    1 or 0, whatever the confidences.
    """
    return _average_precision(*chunk.operating_points)


def pr_negative(chunk: Chunk) -> Replicates:
    """Return the average precision of 1 - confidence in finding wrong answers; otherwise as `pr_positive`."""
    distinct = last_of_ties((1 - chunk.confidence)[chunk.order])
    misses = chunk.hits[:, distinct]
    return _average_precision(chunk.counted[:, distinct] - misses, misses)


#: All metrics by name.
METRICS: Mapping[str, Callable[[Chunk], Replicates]] = MappingProxyType(
    {
        metric.__name__: metric
        for metric in (accuracy, mean_confidence, ece, adaptive_ece, smece, brier, nll, auroc, pr_positive, pr_negative)
    }
)


def evaluate_metrics(
    confidence: ArrayLike, correct: ArrayLike, weight: ArrayLike | None = None, names: Iterable[str] = METRICS
) -> dict[str, Replicates]:
    """Return metrics of each replicate, by default all of them.

    Parameters
    ----------
    confidence, correct
        The confidence (problem,) in [0, 1], which is clipped to ``[MIN_CONFIDENCE, 1 - MIN_CONFIDENCE]``, and the
        correctness (problem,), boolean or 0/1. The caller leaves out unanswered questions, and counts them.
    weight
        The number of times (replicate, problem) that a question counts. Without it there is one replicate, the
        questions as given. Memory is bounded by working in chunks.

    Raises
    ------
    ValueError
        If a confidence is NaN or outside [0, 1], a correctness is neither 0 nor 1, a weight is negative or not an
        integer, or the shapes do not match.

    Examples
    --------
    >>> metrics = evaluate_metrics([0.9, 0.8, 0.3], [True, True, False])
    >>> metrics["brier"].round(4), metrics["auroc"]
    (array([0.0467]), array([1.]))
    """
    questions = _check_problems(np.asarray(confidence, float), np.asarray(correct, float))
    n_problems = len(questions[0])
    table = np.ones((1, n_problems)) if weight is None else _check_weight(np.asarray(weight), n_problems)
    n_rows = max(1, _CHUNK_ENTRIES // max(1, n_problems))
    parts: dict[str, list[Replicates]] = {name: [] for name in names}
    with np.errstate(invalid="ignore"):  # 0/0 makes an undefined value NaN
        for start in range(0, max(1, len(table)), n_rows):
            chunk = Chunk(*questions, table[start : start + n_rows].astype(float))
            for name, of_chunks in parts.items():
                of_chunks.append(METRICS[name](chunk))
    return {name: np.concatenate(of_chunks) for name, of_chunks in parts.items()}


def bin_of(confidence: Problems) -> Int[np.ndarray, " problem"]:
    """Return the number of the bin that holds each confidence, from 0."""
    return np.searchsorted(np.arange(1, N_BINS) / N_BINS, confidence, side="left")


def _mean_gap(gap: Float[np.ndarray, "replicate bin"], weight: _Weights) -> Replicates:
    """Return the sum of the bins' absolute residual sums, divided by the number of questions."""
    return np.asarray(np.abs(gap).sum(axis=1) / weight.sum(axis=1))


def _average_precision(hits: _Counts, misses: _Counts) -> Replicates:
    precision = hits / np.maximum(hits + misses, 1)
    area = (np.diff(hits) * precision[:, 1:]).sum(axis=1) / hits[:, -1]
    return np.where(misses[:, -1] > 0, area, np.nan)


def _check_problems(
    confidence: Float[np.ndarray, "..."], correct: Float[np.ndarray, "..."]
) -> tuple[Problems, Problems]:
    """Return the clipped confidence and the correctness, or raise the errors of `evaluate_metrics`."""
    if confidence.ndim != 1 or confidence.shape != correct.shape:
        raise ValueError(
            f"confidence has shape {confidence.shape}, correct has shape {correct.shape}; "
            "expected one value of each for every question"
        )
    if n_missing := np.count_nonzero(np.isnan(confidence)):
        raise ValueError(f"{n_missing} of {len(confidence)} confidences are NaN; leave out unanswered questions")
    if len(outside := confidence[(confidence < 0) | (confidence > 1)]):
        raise ValueError(f"confidence holds {outside[0]}; expected 0 to 1 (divide percentages by 100)")
    if len(invalid := correct[(correct != 0) & (correct != 1)]):
        raise ValueError(f"correct holds {invalid[0]}; expected only 0 and 1, or only false and true")
    return np.clip(confidence, MIN_CONFIDENCE, 1 - MIN_CONFIDENCE), correct


def _check_weight(weight: np.ndarray, n_problems: int) -> np.ndarray:
    if weight.ndim != 2 or weight.shape[1] != n_problems:
        raise ValueError(f"weight has shape {weight.shape}; expected (replicate, {n_problems})")
    if len(invalid := weight[(weight < 0) | (weight != np.floor(weight))]):
        raise ValueError(f"weight holds {invalid[0]}; expected how often a question counts: 0, 1, 2, ...")
    return weight


#: Number of equal cells of [0, 1] over which :func:`smooth_ece` spreads the residuals.
N_CELLS = 1024
#: The search for smECE stops at this accuracy.
_SMECE_TOLERANCE = 1e-6
#: In units of 1 / sigma: the damping of higher wavenumbers is below 1e-19.
_LAST_WAVE = 3.0


def smooth_ece(
    confidence: Float[np.ndarray, " problem"],
    correct: Float[np.ndarray, " problem"],
    weight: Float[np.ndarray, "replicate problem"],
) -> Float[np.ndarray, " replicate"]:
    r"""Return the smooth expected calibration error, which needs no choice of bins.

    With the residuals :math:`r = \frac1n \sum_i (y_i - f_i)\,\delta_{f_i}` as a measure on the confidences, and the
    Gaussian kernel :math:`K_\sigma` of standard deviation :math:`\sigma`, reflected at 0 and 1,

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 |K_\sigma r|, \qquad
              \mathrm{smECE} = \text{the } \sigma \text{ at which } \mathrm{smECE}_\sigma = \sigma.

    Source: Błasiok and Nakkiran (2023), Smooth ECE: principled reliability diagrams via kernel smoothing,
    arXiv:2309.12236.

    The value lies between the absolute mean residual and the mean absolute residual; NaN if no question counts.

    :math:`K_\sigma` multiplies the k-th cosine coefficient by :math:`e^{-(\pi k \sigma)^2/2}`, so that it takes two
    cosine transforms on a grid of `N_CELLS`. A residual is split between the two nearest cell centres, which adds at
    most :math:`h^2/4` to the variance of its kernel for cells of width :math:`h`. Compared with direct integration the
    error was below 3e-6 for smECE above 0.006; smaller values are accurate to about :math:`h` = 0.001.
    """
    n = weight.sum(axis=1)
    return np.where(n > 0, smooth_error(confidence, weight * (correct - confidence) / n[:, None]), np.nan)


def smooth_error(
    confidence: Float[np.ndarray, " problem"], residual: Float[np.ndarray, "replicate problem"]
) -> Float[np.ndarray, " replicate"]:
    """Return the smECE of residuals whose mean is their sum: those of :func:`smooth_ece`, or simulated ones."""
    residual = _residual_in_cell(confidence, residual)
    spectrum = scipy.fft.dct(residual, axis=1)
    low, high = np.abs(residual.sum(axis=1)), np.abs(residual).sum(axis=1)
    # smECE_sigma falls as sigma grows, so smECE lies between any sigma and its smECE_sigma, mostly near the low end
    sigma, before = low + (high - low) / 8, np.zeros((2, len(low)))
    while len(rest := np.flatnonzero(high - low > _SMECE_TOLERANCE)):
        here, width = sigma[rest], high[rest] - low[rest]
        error = _smoothed_error(spectrum, rest, here)
        low[rest] = np.maximum(low[rest], np.minimum(here, error))
        high[rest] = np.minimum(high[rest], np.maximum(here, error))
        # next: where the line through the last two points meets the diagonal, or the middle if that gained little
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (error - before[1, rest]) / (here - before[0, rest])
            ahead = (error - slope * here) / (1 - slope)
        gained = np.isfinite(ahead) & (high[rest] - low[rest] <= width / 2)
        middle = (low[rest] + high[rest]) / 2
        sigma[rest] = np.where(gained, np.clip(ahead, low[rest], high[rest]), middle)
        before[:, rest] = here, error
    return np.asarray((low + high) / 2)


def _smoothed_error(
    spectrum: Float[np.ndarray, "replicate cell"], rest: Int[np.ndarray, " some"], sigma: Float[np.ndarray, " some"]
) -> Float[np.ndarray, " some"]:
    """Return smECE_sigma of some replicates, without waves whose damping is negligible."""
    n_waves = int(min(N_CELLS, np.ceil(_LAST_WAVE / max(sigma.min(), 1 / N_CELLS))))
    damping = np.exp(-((sigma[:, None] * np.pi * np.arange(n_waves)) ** 2) / 2)
    waves = np.zeros((len(rest), N_CELLS))
    np.multiply(spectrum[rest, :n_waves], damping, out=waves[:, :n_waves])
    smoothed = scipy.fft.idct(waves, axis=1, overwrite_x=True)
    return np.asarray(np.abs(smoothed, out=smoothed).sum(axis=1))


def _residual_in_cell(
    confidence: Float[np.ndarray, " problem"], residual: Float[np.ndarray, "replicate problem"]
) -> Float[np.ndarray, "replicate cell"]:
    """Return the residuals by cell; that of a question is split between the two nearest centres."""
    position = confidence * N_CELLS - 0.5
    left = np.floor(position)
    share = np.stack([left + 1 - position, position - left], axis=1)
    # beyond the outermost centres the two nearest are a cell and its own reflection
    cell = np.clip(np.stack([left, left + 1], axis=1), 0, N_CELLS - 1).astype(np.intp)
    two_each = np.arange(0, cell.size + 1, 2)
    spread = scipy.sparse.csr_array((share.ravel(), cell.ravel(), two_each), shape=(len(confidence), N_CELLS))
    return np.asarray(residual @ spread)
