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
from typing import NamedTuple

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
    """Whether the reports on new questions differ from those on the labelled ones.

    Attributes
    ----------
    p_value : float
        How often questions that are alike differ as much; NaN if nothing can be compared.
    alarm_rate : float
        How often questions that are alike are said to differ.
    unnoticed : float
        A change of a level's shares by less than this is likely to go unnoticed; NaN if nothing can be compared.
    n_labelled, n_new : int
        Number of questions.
    levels : DataFrame
        A row for each level, the most different first: ``level``; ``p_value``; ``agreement_before`` and
        ``agreement_after``, its mean share of agreement with the other levels; ``confidence_before`` and
        ``confidence_after``, its mean stated confidence. Undefined values are NaN.
    shares : DataFrame
        A row for each share: ``level``; ``other``, the level that it agrees with, or ``signal`` and ``at_most``, the
        quantile; ``before``, ``after``, and ``z``, NaN if the share is constant or missing on one side.
    """

    p_value: float
    alarm_rate: float
    unnoticed: float
    n_labelled: int
    n_new: int
    levels: pd.DataFrame = field(repr=False)
    shares: pd.DataFrame = field(repr=False)

    @classmethod
    def between(cls, labelled: Observations, new: Observations, *, alarm_rate: float = 0.05, seed: int = 0) -> "Drift":
        """Compare questions with the same learned levels, whatever their order.

        Raises DirEAGError if ``alarm_rate`` is below .0001, or not below 1.
        """
        if not 1e-4 <= alarm_rate < 1:
            raise DirEAGError(f"alarm rate {alarm_rate}: expected a share from 0.0001 to below 1, such as 0.05.")
        sides = _Sides(*(side.select(np.argsort(np.array(side.problem_id, str))) for side in (labelled, new)))
        shares = [*_agreements(sides), *_confidences(sides)]
        divisions = sides.divisions(max(_DIVISIONS, math.ceil(10 / alarm_rate)), np.random.default_rng(seed))
        values = np.array([share.value for share in shares]).reshape(len(shares), divisions.shape[1]).T
        means = _Means.of(values, divisions)
        table = pd.DataFrame([share[:-1] for share in shares], columns=_Share._fields[:-1])
        table = table.assign(before=means.before, after=means.after, z=means.z[0])
        compared, is_pair = table["z"].notna().to_numpy(), table["other"].notna().to_numpy()
        of_level = [((table["level"] == level) | (table["other"] == level)).to_numpy() for level in sides.levels]
        own = np.array(of_level) & compared
        scores = np.stack([_scores(means.z[:, chosen], is_pair[chosen]) for chosen in own], axis=1)
        largest, error = scores.max(axis=1), means.error[compared]
        p_value = np.where(own.any(axis=1), (largest[:, None] >= scores[0] - 1e-9).mean(axis=0), np.nan)
        by_level = [
            {"level": level, "p_value": p, **_agreement(table[chosen & is_pair]), **sides.mean_confidence(level)}
            for level, p, chosen in zip(sides.levels, p_value, of_level, strict=True)
        ]
        order = np.argsort(-scores[0], kind="stable")
        return cls(
            p_value=float(min(p_value[own.any(axis=1)], default=math.nan)),
            alarm_rate=alarm_rate,
            unnoticed=float(np.sqrt(np.quantile(largest, 1 - alarm_rate)) * error.mean()) if len(error) else math.nan,
            n_labelled=len(labelled),
            n_new=len(new),
            levels=pd.DataFrame(by_level).iloc[order].reset_index(drop=True),
            shares=table,
        )

    @classmethod
    def unasked(cls, labelled: Observations, new: Observations) -> "Drift | None":
        """Compare questions where a difference is worth a remark; else return None.

        That takes at least 50 new questions, with at least 95 % as many reports as the labelled ones have: fewer may
        have been chosen by what the others say, as a policy does, and differ by that alone.
        """
        reports = new.usable.sum(axis=1).mean() / max(labelled.usable.sum(axis=1).mean(), 1.0) if len(new) else 0.0
        return cls.between(labelled, new) if len(new) >= _FEWEST_COMPARED and reports >= _SMALLEST_SHARE else None

    @property
    def differs(self) -> bool:
        """Whether the p-value is at most the alarm rate."""
        return self.p_value <= self.alarm_rate

    @property
    def changed(self) -> tuple[str, ...]:
        """The levels whose own p-value is at most the alarm rate, the most different first."""
        return tuple(self.levels.loc[self.levels["p_value"] <= self.alarm_rate, "level"])

    def record(self) -> dict[str, object]:
        """Return the result as plain values, without the shares; undefined ones as None."""
        return {
            "differs": self.differs,
            "p_value": None if math.isnan(self.p_value) else self.p_value,
            "alarm_rate": self.alarm_rate,
            "unnoticed": None if math.isnan(self.unnoticed) else self.unnoticed,
            "n_labelled": self.n_labelled,
            "n_new": self.n_new,
            "changed": list(self.changed),
            "levels": as_records(self.levels),
        }

    def text(self) -> str:
        """Return what was found in a sentence or two."""
        if math.isnan(self.p_value):
            return "The reports cannot be compared: no pair of levels, and no confidence, is there on both sides."
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


class _Sides(NamedTuple):
    """The questions that are compared, each side in the order of its names."""

    labelled: Observations
    new: Observations

    @property
    def levels(self) -> tuple[str, ...]:
        return self.labelled.learned_levels

    def answers(self, level: str) -> Shaped[np.ndarray, "problem report"]:
        """Return a level's answers to all questions; -1 for none."""
        return self._of_level([side.candidate for side in self], level, -1)

    def confidences(self, level: str, signal: str) -> Float[np.ndarray, "problem report"]:
        """Return a level's confidences in all questions; NaN for none."""
        return self._of_level([side.of_signals([signal]).confidence for side in self], level, np.nan)

    def mean_confidence(self, level: str) -> dict[str, float]:
        """Return the mean of a level's stated confidences on each side, NaN without any."""
        sides = np.split(self.confidences(level, self.labelled.signal_names[0]), [len(self.labelled)])
        stated = [values[~np.isnan(values)] for values in sides]
        means = [float(values.mean()) if len(values) else math.nan for values in stated]
        return dict(zip(("confidence_before", "confidence_after"), means, strict=True))

    def _of_level(
        self, arrays: list[np.ndarray], level: str, missing: int | float
    ) -> Shaped[np.ndarray, "problem report"]:
        """Return the columns of a level; a group may have more of them on one side."""
        names = [np.array(side.groups or side.level_names) for side in self]
        own = [array[:, name == level] for array, name in zip(arrays, names, strict=True)]
        width = max(part.shape[1] for part in own)
        padded = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=missing) for part in own]
        return np.concatenate(padded)

    def divisions(self, n: int, rng: np.random.Generator) -> Bool[np.ndarray, "division problem"]:
        """Return which questions are on the new side: as they are, then by chance in whole clusters."""
        units = [np.arange(len(side)) if (own := side.cluster_number) is None else own for side in self]
        n_labelled, n_new = (unit.max() + 1 for unit in units)
        is_new = np.tile(np.arange(n_labelled + n_new) >= n_labelled, (n, 1))
        is_new[1:] = rng.permuted(is_new[1:], axis=1)
        return is_new[:, np.concatenate([units[0], n_labelled + units[1]])]


class _Share(NamedTuple):
    """A share that is compared, with its value in each question, NaN where a report is missing."""

    level: str
    other: str | None
    signal: str | None
    at_most: float
    value: Float[np.ndarray, " problem"]


def _agreements(sides: _Sides) -> Iterator[_Share]:
    """Yield the share of equal answers of each pair of levels, and within each level that is a group."""
    answers = {level: sides.answers(level) for level in sides.levels}
    for level, other in combinations_with_replacement(sides.levels, 2):
        a, b = answers[level][:, :, None], answers[other][:, None, :]
        both = (a >= 0) & (b >= 0)
        if level == other:
            both &= ~np.eye(a.shape[1], dtype=bool)  # a report with itself is no pair
        if both.any():
            yield _Share(level, other, None, math.nan, _share_of(a == b, both))


def _confidences(sides: _Sides) -> Iterator[_Share]:
    """Yield the share of each level's confidences up to each quantile."""
    for level, signal in product(sides.levels, sides.labelled.signal_names):
        stated = sides.confidences(level, signal)
        known = ~np.isnan(stated)
        for limit in np.unique(np.quantile(stated[known], _QUANTILES)) if known.any() else ():
            yield _Share(level, None, signal, float(limit), _share_of(stated <= limit, known))


def _share_of(
    is_true: Bool[np.ndarray, "problem *report"], known: Bool[np.ndarray, "problem *report"]
) -> Float[np.ndarray, " problem"]:
    """Return the share of each question's known values that are true, NaN if none is known."""
    axes = tuple(range(1, known.ndim))
    n = known.sum(axis=axes)
    share = np.full(len(n), np.nan)
    np.divide((is_true & known).sum(axis=axes), n, out=share, where=n > 0)
    return share


class _Means(NamedTuple):
    """The means of shares on both sides, and the standardised differences in every division."""

    before: Float[np.ndarray, " share"]
    after: Float[np.ndarray, " share"]
    error: Float[np.ndarray, " share"]
    z: Float[np.ndarray, "division share"]

    @classmethod
    def of(cls, value: Float[np.ndarray, "problem share"], is_new: Bool[np.ndarray, "division problem"]) -> "_Means":
        """Compare the means, in all divisions at once, of the values that there are."""
        known, chosen = (~np.isnan(value)).astype(float), is_new.astype(float)
        value = np.nan_to_num(value)
        n_after, sum_after = chosen @ known, chosen @ value
        n, total = known.sum(axis=0), value.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            before, after = (total - sum_after) / (n - n_after), sum_after / n_after
            variance = (value**2).sum(axis=0) / n - (total / n) ** 2
            error = np.sqrt(variance * (1 / n_after + 1 / (n - n_after)))
            z = np.where(variance > 1e-12, (after - before) / error, np.nan)
        return cls(before[0], after[0], error[0], z)


def _scores(
    z: Float[np.ndarray, "division share"], is_pair: Bool[np.ndarray, " share"]
) -> Float[np.ndarray, " division"]:
    """Return a level's score in every division, from its shares; 0 if it has none."""
    square = np.nan_to_num(z) ** 2  # in a random division one side may have no value
    pairs = square[:, is_pair].sum(axis=1) / max(is_pair.sum(), 1)
    return np.asarray(square[:, ~is_pair].max(axis=1, initial=0.0) + pairs)


def _agreement(pairs: pd.DataFrame) -> dict[str, float]:
    return {f"agreement_{side}": float(pairs[side].mean()) for side in ("before", "after")}
