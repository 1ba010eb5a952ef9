"""By how much probabilities are too high if questions have fewer reports than those that a fit has learned from."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from bayes_direag.model.equations import Parameters, Reports
from bayes_direag.model.selection import Recalibration, distribution, predict

#: At least this share of the fitted questions have enough reports.
_SHARE = 0.95
#: Below this nothing is said.
_LEAST = 0.02
#: At most this many fitted questions are looked at, fewer if there are many draws.
_QUESTIONS, _EVALUATIONS = 300, 200_000


class EnoughReports(NamedTuple):
    """What fewer reports do, told from the fitted questions themselves."""

    #: By how much the probability of an answer after one, two, ... reports is above that of the same answer after all
    #: reports of the question, in mean; not less with fewer reports. It ends before what 95 % of the questions have.
    too_high: tuple[float, ...]

    @classmethod
    def of(cls, reports: Reports, parameters: Parameters, final: Recalibration) -> "EnoughReports":
        """Take random reports away from the fitted questions, and predict them again."""
        rng, n = np.random.default_rng(0), len(reports.candidate)
        n_looked_at = min(n, _QUESTIONS, max(_EVALUATIONS // len(parameters.weight), 1))
        reports = reports.select(np.sort(rng.permutation(n)[:n_looked_at]))
        usable = reports.candidate >= 0
        enough = np.sort(usable.sum(axis=1))[int((1 - _SHARE) * len(usable))]
        n_reports, order = usable.sum(axis=1), np.where(usable, rng.random(usable.shape), np.inf).argsort(axis=1)
        rank, whole, too_high = order.argsort(axis=1), distribution(reports, parameters, final), list[float]()
        for left in range(1, enough):
            row = np.flatnonzero(n_reports > left)
            fewer = reports.select(row)
            fewer = fewer._replace(candidate=np.where(rank[row] < left, fewer.candidate, -1))
            found = predict(fewer, parameters, final, 0.5)
            too_high.append(float(np.mean(found["probability"] - whole[row, found["candidate"]])))
        return cls(tuple(np.maximum.accumulate(too_high[::-1])[::-1].tolist()))

    def few(self, n_reports: Int[np.ndarray, " problem"]) -> Bool[np.ndarray, " problem"]:
        """Tell which questions have so few usable reports, but some, that probabilities are too high by two points."""
        enough = 1 + sum(excess >= _LEAST for excess in self.too_high)
        return (n_reports > 0) & (n_reports < enough)

    def remark(self, n_reports: Int[np.ndarray, " problem"]) -> str | None:
        """Say how many questions with such numbers of usable reports have too few, and what it does; None if none."""
        few, n = n_reports[self.few(n_reports)], len(n_reports)
        if not len(few):
            return None
        points = 100 * np.mean([self.too_high[number - 1] for number in few.tolist()])
        return (
            f"Too few reports in {len(few):,} of {n:,} questions: {_range(few)} usable, where the fitted ones had "
            f"at least {len(self.too_high) + 1}. With so few, probabilities of the fitted questions are too high by "
            f"about {points:.0f} points. Fit with partial=True (on the command line --partial)."
        )


def _range(numbers: Int[np.ndarray, " problem"]) -> str:
    return f"{numbers.min()}" if numbers.min() == numbers.max() else f"{numbers.min()} to {numbers.max()}"
