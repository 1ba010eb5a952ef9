"""What the splits of a learning curve say together: means, and which methods cannot be told from the best."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import t as student

from analysis.learning_curve.curve import CURVE_METRICS


class Estimate(NamedTuple):
    """A mean over splits, their standard deviation, and the standard error of the mean."""

    n_splits: int
    mean: float
    sd: float
    standard_error: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the t interval with a degree of freedom less than splits; NaN to NaN for fewer than two."""
        reach = float(student.ppf((1 + level) / 2, max(self.n_splits - 1, 1))) * self.standard_error
        return self.mean - reach, self.mean + reach


def over_splits(value: Float[np.ndarray, " split"], gap: Float[np.ndarray, " split"], tested_share: float) -> Estimate:
    r"""Average a result over random splits of the same questions.

    .. math:: \mathrm{se}^2 = \frac{s^2}{J} + \rho\,v, \qquad v = \frac1J \sum_j \frac{h_j^2}{4}

    The first part, with s the standard deviation over the J splits, goes to 0 with more splits. But more splits are no
    more questions: two test parts share :math:`\rho = n_\mathrm{test}/n` of theirs, and the second part stays. It is
    the variance that a mean over *all* n questions would have; v, that over one test part, is had from the gap
    :math:`h_j` between the results on two random halves of it, which the same fit predicts.

    Source: Nadeau and Bengio (2003), doi:10.1023/A:1024068626366, whose correction takes :math:`v = s^2/(1 - \rho)`.
    That is right where it does not matter which questions were learned from. With 30 labels it does, and the error
    would be twice as large as it is.

    Parameters
    ----------
    value
        One result a split, or difference of two; splits with NaN are left out.
    gap
        The same on the first half of the test questions less that on the second. NaN is left out of v.
    tested_share
        :math:`\rho`.

    Returns
    -------
    Estimate
        NaN where there are too few splits for it, or no gap.

    Examples
    --------
    >>> over_splits(np.array([0.1, 0.2, 0.3]), np.array([0.1, -0.1, 0.1]), tested_share=0.5).standard_error.__round__(4)
    0.0677
    """
    values, gaps = value[~np.isnan(value)], gap[~np.isnan(gap)]
    n = len(values)
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    of_questions = float((gaps**2).mean()) / 4 if len(gaps) else math.nan
    error = math.sqrt(sd**2 / max(n, 1) + tested_share * of_questions)
    return Estimate(n, float(values.mean()) if n else math.nan, sd, error)


def summarise(results: pd.DataFrame, *, tested_share: float, level: float = 0.95) -> pd.DataFrame:
    r"""Compare methods at every number of labels, in every metric.

    The difference of each method to the best, the one with the best mean, is taken split by split, and has the t
    interval of :func:`over_splits`.

    Returns: A row a number of labels, metric and method: ``n_labels``; ``metric``; ``method``; ``n_splits``, those in
    which the metric is defined; over these ``mean``, ``sd`` and ``standard_error``; ``best``, the best method;
    ``difference`` of the mean to it, with ``low`` and ``high``; and ``in_best_group``: whether the method is the best
    or the interval does not show it to be worse. What is undefined is NaN; a method without an interval is in no group.

    Parameters
    ----------
    results
        As :func:`~analysis.learning_curve.curve.measured` yields, put under each other.
    tested_share
        Share of the usable questions that each split tests.
    level
        Of the intervals, strictly between 0 and 1.

    Notes
    -----
    The intervals say how far a difference might move with other questions of the kind that the file holds, and other
    labels among them. Of other data sets, models or prompts they say nothing. For 500 simulated questions, 30 and 300
    labels and 20 splits, 95 % intervals of three methods' differences in NLL, Brier score and smECE held in 97 % to
    100 % of 120 simulations; with :math:`s/\sqrt{J}` alone as the error in 53 % to 96 %. Each interval holds on its
    own: with a dozen methods the truly best one may be left out of a group more often than the level says.
    """
    groups = results.groupby("n_labels")
    tables = [
        _compared(part, metric, tested_share, level).assign(n_labels=n_labels)
        for n_labels, part in groups
        for metric in CURVE_METRICS
    ]
    whole = pd.concat(tables, ignore_index=True)
    return whole[["n_labels", *(name for name in whole if name != "n_labels")]]


def _compared(results: pd.DataFrame, metric: str, tested_share: float, level: float) -> pd.DataFrame:
    """Compare the methods at one number of labels, in one metric."""
    columns = [metric, f"{metric}_gap"]
    tables = {str(name): table.set_index("split")[columns] for name, table in results.groupby("method", sort=False)}

    def estimate(table: pd.DataFrame) -> Estimate:
        value, gap = table.to_numpy(float).T
        return over_splits(value, gap, tested_share)

    estimates = {method: estimate(table) for method, table in tables.items()}
    sign = 1 if CURVE_METRICS[metric].more_is_better else -1
    defined = [method for method in estimates if not math.isnan(estimates[method].mean)]
    best = max(defined, key=lambda method: sign * estimates[method].mean, default=None)
    rows = []
    for method, table in tables.items():
        difference = estimate(table - tables[best or method])
        low, high = difference.interval(level)
        rows.append(
            {
                "metric": metric,
                "method": method,
                **estimates[method]._asdict(),
                "best": best,
                "difference": difference.mean,
                "low": low,
                "high": high,
                "in_best_group": (high if sign > 0 else -low) >= 0,
            }
        )
    return pd.DataFrame(rows)
