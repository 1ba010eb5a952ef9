"""Whether questions have fewer reports than those that a fit has learned from, and what is said of it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

#: At least this share of the fitted questions have enough reports.
_SHARE = 0.95


class EnoughReports(NamedTuple):
    """How many usable reports fitted questions had."""

    #: The largest number that at least 95 % of them reach.
    enough: int
    most: int

    @classmethod
    def of(cls, n_reports: Int[np.ndarray, " problem"]) -> "EnoughReports":
        """Take the number of usable reports of each fitted question."""
        ordered = np.sort(n_reports)
        return cls(int(ordered[int((1 - _SHARE) * len(ordered))]), int(ordered[-1]))


class FewReports(NamedTuple):
    """The questions that have usable reports, but not enough of them."""

    n: int
    fewest: int
    most: int

    @classmethod
    def of(cls, n_reports: Int[np.ndarray, " problem"], enough: int) -> "FewReports | None":
        """Count them among questions with these numbers of usable reports; None if there are none."""
        few = n_reports[(n_reports > 0) & (n_reports < enough)]
        return cls(len(few), int(few.min()), int(few.max())) if len(few) else None

    def remark(self, n: int, fitted: EnoughReports) -> str:
        """Say how many of n questions they are, that such probabilities are mostly too high, and what to do."""
        reports = "usable report" if self.most == 1 else "usable reports"
        have = "has" if self.n == 1 else "have"
        return (
            f"{self.n:,} of {n:,} question{'s' if n > 1 else ''} {have} {_range(self.fewest, self.most)} {reports}, "
            f"where the fitted ones had {_range(fitted.enough, fitted.most)}. Such probabilities are mostly too high: "
            "where we measured it, by 24 points with one report, 12 with two and 5 with four. Fit with "
            "partial=True (on the command line --partial)."
        )


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or {high}" if high == low + 1 else f"{low} to {high}"
