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

    def remark(self, n_reports: Int[np.ndarray, " problem"]) -> str | None:
        """Say how many questions with such numbers of usable reports have too few, but some; None if there are none."""
        few, n = n_reports[(n_reports > 0) & (n_reports < self.enough)], len(n_reports)
        if not len(few):
            return None
        least, most = int(few.min()), int(few.max())
        reports = "usable report" if most == 1 else "usable reports"
        return (
            f"{len(few):,} of {n:,} question{'s' if n > 1 else ''} {'has' if len(few) == 1 else 'have'} "
            f"{_range(least, most)} {reports}, where the fitted ones had {_range(self.enough, self.most)}. "
            "Such probabilities are mostly too high: where we measured it, by 24 points with one report, 12 with two "
            "and 5 with four. Fit with partial=True (on the command line --partial)."
        )


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or {high}" if high == low + 1 else f"{low} to {high}"
