r"""Paired comparison of two methods on the same questions: differences of metrics, intervals and permutation tests.

Both methods are scored on the same resamples of the questions, so that what makes a question hard for both cancels in
the difference. For metrics that are means over questions (benefit, log score, accuracy, Brier score, NLL) a permutation
test flips the signs of the questions' differences at random. Calibration errors and rankings have an interval, but no
test: exchanging two methods' results question by question mixes their errors, and such a test rejected far too often
for two methods with the same miscalibration.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from analysis.scores.metrics import METRICS, MIN_CONFIDENCE, Weight
from analysis.scores.scoring import SELECTION_SCORES, Scored, mean_score, percentile_interval, resample_weights

_Problems = Float[np.ndarray, " problem"]

#: Metrics of own answers that are means over questions, as functions of clipped confidence and correctness.
MEAN_SCORES: Mapping[str, Callable[[_Problems, _Problems], _Problems]] = {
    "accuracy": lambda _, correct: correct,
    "brier": lambda confidence, correct: (confidence - correct) ** 2,
    "nll": lambda confidence, correct: -np.log(np.where(correct == 1, confidence, 1 - confidence)),
}

#: Sums of differences that are closer than this count as equal; it covers rounding errors.
_TOLERANCE = 1e-9


class PairedDifference(NamedTuple):
    """One metric of two methods.

    ``first``, ``second``, ``difference``: the metric of each, and second minus first. ``low``, ``high``: percentile
    bootstrap interval of the difference. ``n_undefined``: resamples that are left out of it because the difference is
    undefined there (a single class, for AUROC and average precision). ``p_value``: two-sided, of the paired permutation
    test, for :data:`SELECTION_SCORES` and :data:`MEAN_SCORES`; NaN for other metrics, and without questions.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    n_undefined: int
    p_value: float


def paired_table(
    first: Scored,
    second: Scored,
    *,
    metrics: Sequence[str] | None = None,
    rng: np.random.Generator | int,
    n_resamples: int = 1000,
    level: float = 0.95,
    cluster: Int[np.ndarray, " problem"] | None = None,
) -> pd.DataFrame:
    """Compare two methods on the same labelled questions in the same order.

    The scores of :data:`~analysis.scores.scoring.SELECTION_SCORES` are over all questions, or all for which both
    methods state a distribution; the metrics of own answers are over the questions that both have answered.

    Returns: One row per metric: ``metric`` and its :class:`PairedDifference`. Without questions everything is NaN.
    Raises ValueError if the lengths differ, for a level or a number of resamples out of range, and as the metrics do.
    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 13 and 15.

    ``first``, ``second``: entry i of both belongs to question i. ``metrics``: names of the metrics to compute; by
    default, all. ``cluster``: the cluster of each question; clusters are resampled, and change signs, as a whole.
    ``rng``: the same seed gives the resamples of :func:`~analysis.scores.scoring.resample_weights`. ``n_resamples``:
    number of bootstrap resamples, and of permutations. ``level``: probability of the intervals, strictly between 0 and
    1.

    The intervals cover the choice of evaluated questions. They do not cover how the methods would change if they were
    fitted to other questions.

    Examples
    --------
    >>> cautious = Scored([0.6, 0.7, 0.6, 0.3], [True, True, False, False])
    >>> bold = Scored([0.9, 0.9, 0.8, 0.1], [True, True, False, False])
    >>> found = paired_table(cautious, bold, metrics=["brier"], rng=0)
    >>> found[["metric", "first", "second", "difference"]].round(3).to_numpy().tolist()
    [['brier', 0.175, 0.168, -0.007]]
    """
    n, others = len(first.answered), len(second.answered)
    if n != others:
        raise ValueError(f"the methods answered {n} and {others} questions; expected the same questions")
    seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng
    answered = first.answered & second.answered
    views = {
        names: _View.of(first, second, kept, cluster, n_resamples, seed)
        for names, kept in ((_OF_ALL, np.ones(n, bool)), (_OF_OWN, answered))
    }
    rows = []
    for name in metrics or (*_OF_ALL, *_OF_OWN):
        view = views[_OF_ALL if name in _OF_ALL else _OF_OWN]
        (before, after), replicates, p_value = view.of_all(name) if name in _OF_ALL else view.of_own(name)
        interval = percentile_interval(replicates, level)
        rows.append({"metric": name, **PairedDifference(before, after, after - before, *interval, p_value)._asdict()})
    return pd.DataFrame(rows)


_OF_ALL, _OF_OWN = tuple(SELECTION_SCORES), tuple(name for name in vars(METRICS) if name != "mean_confidence")


class _View(NamedTuple):
    """Two methods on the questions of a metric, with the resamples and the seed of the signs."""

    pair: tuple[Scored, Scored]
    weight: Weight
    cluster: Int[np.ndarray, " problem"]
    signs: int  # one seed, so that a metric's p-value does not depend on the others

    @classmethod
    def of(
        cls,
        first: Scored,
        second: Scored,
        kept: Bool[np.ndarray, " problem"],
        cluster: Int[np.ndarray, " problem"] | None,
        n_resamples: int,
        seed: int,
    ) -> "_View":
        n, clusters = int(kept.sum()), None if cluster is None else cluster[kept]
        generator = np.random.default_rng(seed)
        weight = resample_weights(n, n_resamples, generator, clusters)
        member = np.arange(n) if clusters is None else np.unique(clusters, return_inverse=True)[1]
        return cls((first.select(kept), second.select(kept)), weight, member, int(generator.integers(2**63)))

    def of_all(self, name: str) -> "_Compared":
        first, second = (SELECTION_SCORES[name](scored) for scored in self.pair)
        difference = second - first  # NaN, and left out, where either states no distribution
        before, after = (float(mean_score(value + 0 * difference)[0]) for value in (first, second))
        return (before, after), mean_score(difference, self.weight), self._p_value(difference)

    def of_own(self, name: str) -> "_Compared":
        metric = getattr(METRICS, name)
        point = metric(*self.pair[0][:2]), metric(*self.pair[1][:2])
        before, after = (metric(*scored[:2], self.weight) for scored in self.pair)
        if name not in MEAN_SCORES:
            return point, after - before, np.nan
        first, second = (
            MEAN_SCORES[name](
                np.clip(np.asarray(scored.confidence, float), MIN_CONFIDENCE, 1 - MIN_CONFIDENCE),
                np.asarray(scored.correct, float),
            )
            for scored in self.pair
        )
        return point, after - before, self._p_value(second - first)

    def _p_value(self, difference: _Problems) -> float:
        """Test the differences that are defined, summed by cluster."""
        defined = ~np.isnan(difference)
        _, member = np.unique(self.cluster[defined], return_inverse=True)
        summed = np.bincount(member, difference[defined])
        return permutation_p_value(summed, rng=self.signs, n_permutations=len(self.weight))


type _Compared = tuple[tuple[float, float], Float[np.ndarray, " replicate"], float]


def permutation_p_value(difference: ArrayLike, *, rng: np.random.Generator | int, n_permutations: int = 1000) -> float:
    r"""Test whether paired differences have mean 0, by flipping their signs at random.

    .. math:: p = \frac{1 + \#\{r : |\sum_i \sigma_{ri} d_i| \ge |\sum_i d_i|\}}{1 + R}

    with random signs :math:`\sigma_{ri} = \pm 1`, each of which exchanges the methods on a question or not. The test is
    exact if the differences are symmetric about 0; for many questions it tests their mean.
    (``scipy.stats.permutation_test`` doubles the smaller tail, and took three to twenty-eight times as long.)

    Returns: At least ``1 / (1 + n_permutations)``; 1 if all differences are 0; NaN without questions. Raises ValueError
    if `n_permutations` is less than 1. Source for the added 1: Phipson and Smyth (2010), doi:10.2202/1544-6115.1585.

    ``difference`` (problem,): of the two methods' scores of each question. ``rng``: of the signs. ``n_permutations``:
    R, at least 1.

    Examples
    --------
    >>> permutation_p_value([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.1, 0.3, 0.2], rng=0, n_permutations=9999) < 0.005
    True
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations is {n_permutations}; expected 1 or more")
    values = np.asarray(difference, float)
    if not len(values):
        return np.nan
    flipped = np.random.default_rng(rng).integers(2, size=(n_permutations, len(values)), dtype=np.int8)
    sums = values.sum() - 2 * (flipped @ values)
    return float((1 + np.sum(np.abs(sums) >= abs(values.sum()) - _TOLERANCE)) / (1 + n_permutations))


def control_false_discoveries(p_value: ArrayLike) -> Float[np.ndarray, "..."]:
    """Adjust the p-values of many comparisons by the method of Benjamini and Hochberg.

    If comparisons with an adjusted value of at most q are called discoveries, the expected share of false discoveries
    is at most q, for tests that are independent or positively dependent.

    Raises ValueError if a p-value lies outside [0, 1]. Source: Benjamini and Hochberg (1995),
    doi:10.1111/j.2517-6161.1995.tb02031.x.

    ``p_value``: NaN stays NaN and does not count as a comparison.

    Examples
    --------
    >>> control_false_discoveries([0.01, 0.04, float("nan"), 0.03])
    array([0.03, 0.04,  nan, 0.04])
    """
    from scipy.stats import false_discovery_control

    adjusted = np.array(p_value, float)
    defined = ~np.isnan(adjusted)
    if defined.any():
        adjusted[defined] = false_discovery_control(adjusted[defined])
    return adjusted
