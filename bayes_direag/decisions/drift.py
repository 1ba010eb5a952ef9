r"""Have the reports changed? A permutation test between labelled and new questions, which uses no label.

Each question says of every pair of levels whether their answers agree, and of every level and signal whether its
confidence is at most the 20, 40, 60 or 80 % quantile of all its confidences. Of exchangeable levels the shares count.
With :math:`z`, the difference between the means of new and labelled questions in standard errors, a level's score is

.. math:: \operatorname{mean}_{\text{pairs}} z^2 + \max_{\text{confidences}} z^2

and the statistic is the largest score. If the questions are alike, every division of them (of whole clusters, where
there are any) is equally likely, so the p-value is the share of divisions whose statistic is at least as large. That
of a level compares its own score with the same statistics, which allows for the number of levels (Westfall and Young
1993).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Shaped

from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError

#: With fewer new questions a change of the reports would hardly be found.
_FEWEST_COMPARED = 50
#: With a smaller share of the labelled ones' reports, a policy may have chosen what was asked, which the test finds: on
#: six panels in .75 of the replays with a share from .85 to .90, .30 up to .95, .09 up to .98, and in none above
#: (tests/benchmarks/drift_power.py --policies).
_SMALLEST_SHARE = 0.95
_QUANTILES = (0.2, 0.4, 0.6, 0.8)
#: Divisions, the actual one among them; more where the alarm rate is below 5 %, so that it can be reached.
_DIVISIONS = 200


@dataclass(frozen=True, eq=False)
class Drift:
    """Whether the reports on new questions differ from those on the labelled ones."""

    #: How often questions that are alike differ as much; NaN if nothing can be compared.
    p_value: float
    #: How often questions that are alike are said to differ.
    alarm_rate: float
    #: A change of a level's shares by less than this is likely to go unnoticed; NaN if nothing can be compared.
    unnoticed: float
    #: Numbers of questions.
    n_labelled: int
    n_new: int
    #: A row for each level, the most different first: ``level``; ``p_value``; ``agreement_before`` and
    #: ``agreement_after``, its mean share of agreement with the other levels; ``confidence_before`` and
    #: ``confidence_after``, its mean stated confidence. Undefined values are NaN.
    levels: pd.DataFrame = field(repr=False)

    @classmethod
    def between(cls, labelled: Observations, new: Observations, *, alarm_rate: float = 0.05, seed: int = 0) -> "Drift":
        """Compare questions with the same learned levels, whatever their order.

        Raises DirEAGError if ``alarm_rate`` is below .0001, or not below 1.
        """
        if not 1e-4 <= alarm_rate < 1:
            raise DirEAGError(f"alarm rate {alarm_rate}: expected a share from 0.0001 to below 1, such as 0.05.")
        sides = [side.select(np.argsort(np.array(side.problem_id, str))) for side in (labelled, new)]
        levels = labelled.learned_levels
        pairs = [*combinations_with_replacement(levels, 2)]
        limits = [*_limits(sides, levels)]
        values = np.concatenate([_shares(side, pairs, limits) for side in sides])
        is_new = _divisions(sides, max(_DIVISIONS, math.ceil(10 / alarm_rate)), np.random.default_rng(seed))
        before, after, error, z = _differences(values, is_new)
        is_pair = np.arange(len(z[0])) < len(pairs)
        of_level = np.array([[level in key for key in [*pairs, *limits]] for level in levels])
        own = of_level & ~np.isnan(z[0])
        scores = np.stack([_scores(z[:, chosen], is_pair[chosen]) for chosen in own], axis=1)
        largest, is_compared = scores.max(axis=1), own.any(axis=1)
        p_value = np.where(is_compared, (largest[:, None] >= scores[0] - 1e-9).mean(axis=0), np.nan)
        rows = pd.DataFrame({"level": levels, "p_value": p_value})
        for when, share, side in zip(("before", "after"), (before, after), sides, strict=True):
            rows[f"agreement_{when}"] = [pd.Series(share[chosen & is_pair]).mean() for chosen in of_level]
            stated = [_reports(side, side.confidence, level).ravel() for level in levels]
            rows[f"confidence_{when}"] = [pd.Series(values).mean() for values in stated]
        unnoticed = np.sqrt(np.quantile(largest, 1 - alarm_rate)) * pd.Series(error[~np.isnan(z[0])]).mean()
        return cls(
            p_value=float(min(p_value[is_compared], default=math.nan)),
            alarm_rate=alarm_rate,
            unnoticed=float(unnoticed),
            n_labelled=len(labelled),
            n_new=len(new),
            levels=rows.iloc[np.argsort(-scores[0], kind="stable")].reset_index(drop=True),
        )

    @classmethod
    def unasked(cls, labelled: Observations, new: Observations) -> "Drift | None":
        """Compare questions where a difference is worth a remark; else return None.

        That takes at least 50 new questions, with at least 95 % as many reports as the labelled ones have: fewer may
        have been chosen by what the others say, as a policy does, and differ by that alone.
        """
        if len(new) < _FEWEST_COMPARED:
            return None
        share = new.usable.sum(axis=1).mean() / max(labelled.usable.sum(axis=1).mean(), 1.0)
        return cls.between(labelled, new) if share >= _SMALLEST_SHARE else None

    @property
    def differs(self) -> bool:
        """Whether the p-value is at most the alarm rate."""
        return self.p_value <= self.alarm_rate

    @property
    def changed(self) -> tuple[str, ...]:
        """The levels whose own p-value is at most the alarm rate, the most different first."""
        return tuple(self.levels.loc[self.levels["p_value"] <= self.alarm_rate, "level"])

    def record(self) -> dict[str, object]:
        """Return the result as plain values; undefined ones as None."""
        figures = pd.DataFrame([{name: value for name, value in vars(self).items() if name != "levels"}])
        found = {"differs": self.differs, "changed": list(self.changed), "levels": as_records(self.levels)}
        return as_records(figures)[0] | found

    def text(self) -> str:
        """Return what was found in a sentence or two."""
        if math.isnan(self.p_value):
            return "The reports cannot be compared: the two sets share no pair of levels and no confidences."
        if self.differs:
            return (
                f"These reports are not like the labelled ones (p = {self.p_value:.2g}), most of all those of "
                f"{', '.join(self.changed[:3])}: label 30 of the new questions at random, then estimate."
            )
        return (
            f"No difference was found between the reports on {self.n_labelled:,} labelled and {self.n_new:,} new "
            f"questions (p = {self.p_value:.2g}). A level that changed its agreement or confidences by less than about "
            f"{self.unnoticed:.2f} would likely go unnoticed."
        )


def _reports(side: Observations, values: Shaped[np.ndarray, "problem report"], level: str) -> np.ndarray:
    """Return the columns of a level, or of a group."""
    return np.asarray(values[:, np.array(side.groups or side.level_names) == level])


def _limits(sides: list[Observations], levels: tuple[str, ...]) -> Iterator[tuple[str, str, float]]:
    """Yield the quantiles of each level's confidences, by level and signal."""
    for level, signal in product(levels, sides[0].signal_names):
        stated = np.concatenate([_reports(side, side.of_signals([signal]).confidence, level).ravel() for side in sides])
        if (known := ~np.isnan(stated)).any():
            yield from ((level, signal, float(limit)) for limit in np.unique(np.quantile(stated[known], _QUANTILES)))


def _shares(
    side: Observations, pairs: list[tuple[str, str]], limits: list[tuple[str, str, float]]
) -> Float[np.ndarray, "problem share"]:
    """Return how often levels agree in each question, and confidences are at most their limit; NaN without a report."""
    columns = []
    for level, other in pairs:
        a, b = (_reports(side, side.candidate, name) for name in (level, other))
        a, b = a[:, :, None], b[:, None, :]
        both = (a >= 0) & (b >= 0)
        if level == other:
            both &= ~np.eye(a.shape[1], dtype=bool)  # a report with itself is no pair
        columns.append((((a == b) & both).sum(axis=(1, 2)), both.sum(axis=(1, 2))))
    for level, signal, limit in limits:
        stated = _reports(side, side.of_signals([signal]).confidence, level)
        columns.append(((stated <= limit).sum(axis=1), (~np.isnan(stated)).sum(axis=1)))
    n_true, n = (np.array(counts).T for counts in zip(*columns, strict=True))
    return np.asarray(np.divide(n_true, n, out=np.full(n.shape, np.nan), where=n > 0))


def _divisions(sides: list[Observations], n: int, rng: np.random.Generator) -> Bool[np.ndarray, "division problem"]:
    """Return which questions are on the new side: as they are, then by chance in whole clusters."""
    units = [np.arange(len(side)) if (own := side.cluster_number) is None else own for side in sides]
    n_labelled, n_new = (unit.max() + 1 for unit in units)
    is_new = np.tile(np.arange(n_labelled + n_new) >= n_labelled, (n, 1))
    is_new[1:] = rng.permuted(is_new[1:], axis=1)
    return is_new[:, np.concatenate([units[0], n_labelled + units[1]])]


def _differences(
    value: Float[np.ndarray, "problem share"], is_new: Bool[np.ndarray, "division problem"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Float[np.ndarray, "division share"]]:
    """Return the means of both sides and their error as they are, and the standardised differences in all divisions."""
    known, chosen = (~np.isnan(value)).astype(float), is_new.astype(float)
    value = np.nan_to_num(value)
    n_after, sum_after = chosen @ known, chosen @ value
    n, total = known.sum(axis=0), value.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        before, after = (total - sum_after) / (n - n_after), sum_after / n_after
        variance = (value**2).sum(axis=0) / n - (total / n) ** 2
        error = np.sqrt(variance * (1 / n_after + 1 / (n - n_after)))
        z = np.where(variance > 1e-12, (after - before) / error, np.nan)
    return before[0], after[0], error[0], z


def _scores(
    z: Float[np.ndarray, "division share"], is_pair: Bool[np.ndarray, " share"]
) -> Float[np.ndarray, " division"]:
    """Return a level's score in every division, from its shares; 0 if it has none."""
    square = np.nan_to_num(z) ** 2  # in a random division one side may have no value
    pairs = square[:, is_pair].sum(axis=1) / max(is_pair.sum(), 1)
    return np.asarray(square[:, ~is_pair].max(axis=1, initial=0.0) + pairs)
