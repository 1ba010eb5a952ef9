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
from jaxtyping import Bool, Float

from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError

#: With fewer new questions a change of the reports would hardly be found.
_FEWEST_COMPARED = 50
#: With a smaller share of the labelled ones' reports, a policy may have chosen what was asked, which the test finds: on
#: six panels in .75 of the replays with a share from .85 to .90, .30 up to .95, .09 up to .98, and in none above.
_SMALLEST_SHARE = 0.95
_QUANTILES = (0.2, 0.4, 0.6, 0.8)
#: Divisions, the actual one among them; more where the alarm rate is below 5 %, so that it can be reached.
_DIVISIONS = 200

Sides = tuple[Observations, Observations]
PerShare = Float[np.ndarray, " share"]
AreNew = Bool[np.ndarray, "division problem"]


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
        first, second = (side.select(np.argsort(np.array(side.problem_id, str))) for side in (labelled, new))
        names, sides = labelled.learned_levels, (first, second)
        is_new = _divisions(sides, max(_DIVISIONS, math.ceil(10 / alarm_rate)), np.random.default_rng(seed))
        keys, shares = zip(*_shares(sides, names), strict=True)
        before, after, error, z = _differences(np.stack(shares, axis=1), is_new)
        known, is_pair = ~np.isnan(z[0]), np.array([len(key) == 2 for key in keys])
        of_level = np.array([[name in key for key in keys] for name in names])
        square, compared = np.nan_to_num(z) ** 2, of_level & known  # in a random division one side may have no value
        pairs = [square[:, own & is_pair].sum(axis=1) / max((own & is_pair).sum(), 1) for own in compared]
        scores = np.stack([square[:, own & ~is_pair].max(axis=1, initial=0.0) for own in compared], axis=1)
        scores += np.stack(pairs, axis=1)
        largest = scores.max(axis=1)
        p_value = np.where(compared.any(axis=1), (largest[:, None] >= scores[0] - 1e-9).mean(axis=0), np.nan)
        levels = pd.DataFrame({"level": names, "p_value": p_value})
        for when, share in (("before", before), ("after", after)):
            levels[f"agreement_{when}"] = [pd.Series(share[own & is_pair]).mean() for own in of_level]
        for when, chosen in (("before", ~is_new[0]), ("after", is_new[0])):
            stated = (_columns(sides, name, [side.confidence for side in sides], np.nan) for name in names)
            levels[f"confidence_{when}"] = [pd.Series(values[chosen].ravel()).mean() for values in stated]
        unnoticed = np.sqrt(np.quantile(largest, 1 - alarm_rate)) * pd.Series(error[known]).mean()
        levels = levels.iloc[np.argsort(-scores[0], kind="stable")].reset_index(drop=True)
        return cls(float(levels["p_value"].min()), alarm_rate, float(unnoticed), len(labelled), len(new), levels)

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
        (figures,) = as_records(pd.DataFrame([vars(self)]).drop(columns="levels"))
        return figures | {"differs": self.differs, "changed": [*self.changed], "levels": as_records(self.levels)}

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


def _columns(sides: Sides, level: str, values: list[np.ndarray], missing: float | int) -> np.ndarray:
    """Join the columns of a level, or of a group, of both sides."""
    names = [np.array(side.groups or side.level_names) for side in sides]
    parts = [of_side[:, own == level] for of_side, own in zip(values, names, strict=True)]
    most = max(part.shape[1] for part in parts)
    wide = [np.pad(part, ((0, 0), (0, most - part.shape[1])), constant_values=missing) for part in parts]
    return np.concatenate(wide)


def _shares(sides: Sides, levels: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Float[np.ndarray, " problem"]]]:
    """Yield how often two levels agree in each question, then confidences of a level are at most a limit."""
    for pair in combinations_with_replacement(levels, 2):
        a, b = (_columns(sides, level, [side.candidate for side in sides], -1) for level in pair)
        both = (a >= 0)[:, :, None] & (b >= 0)[:, None]
        if pair[0] == pair[1]:
            both &= ~np.eye(a.shape[1], dtype=bool)  # a report with itself is no pair
        yield pair, _share(((a[:, :, None] == b[:, None]) & both).sum(axis=(1, 2)), both.sum(axis=(1, 2)))
    for level, signal in product(levels, sides[0].signal_names):
        stated = _columns(sides, level, [side.of_signals([signal]).confidence for side in sides], np.nan)
        known = ~np.isnan(stated)
        for limit in np.unique(np.quantile(stated[known], _QUANTILES)) if known.any() else ():
            yield (level,), _share((stated <= limit).sum(axis=1), known.sum(axis=1))


def _share(n_true: np.ndarray, n: np.ndarray) -> Float[np.ndarray, " problem"]:
    return np.asarray(np.divide(n_true, n, out=np.full(n.shape, np.nan), where=n > 0))


def _divisions(sides: Sides, n: int, rng: np.random.Generator) -> AreNew:
    """Return which questions are on the new side: as they are, then by chance in whole clusters."""
    units = [np.arange(len(side)) if (own := side.cluster_number) is None else own for side in sides]
    n_labelled, n_new = (unit.max() + 1 for unit in units)
    is_new = np.tile(np.arange(n_labelled + n_new) >= n_labelled, (n, 1))
    is_new[1:] = rng.permuted(is_new[1:], axis=1)
    return is_new[:, np.concatenate([units[0], n_labelled + units[1]])]


def _differences(
    value: Float[np.ndarray, "problem share"], is_new: AreNew
) -> tuple[PerShare, PerShare, PerShare, Float[np.ndarray, "division share"]]:
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
