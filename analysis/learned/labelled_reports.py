"""What every level stated, and whether its own answer was right: from observations, or from fits to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit

#: Bins of stated confidence, in percent: right-closed as those of the ECE, the first also left-closed.
STATED_EDGES = np.arange(0, 101, 5)


@dataclass(frozen=True, eq=False)
class LabelledReports:
    """The reports on labelled, answered questions.

    Attributes
    ----------
    problem_id, level_names : tuple of str
        The questions, and the level that each column is of: several where levels are groups.
    confidence : (problem, level) array
        As stated, in [0, 1]; NaN where there is no usable report.
    correct : (problem, level) array
        Whether the level's own answer is right; False where there is no usable report.
    multiplicity : (problem,) array
        How many questions each stands for.
    """

    problem_id: tuple[str, ...]
    level_names: tuple[str, ...]
    confidence: Float[np.ndarray, "problem level"]
    correct: Bool[np.ndarray, "problem level"]
    multiplicity: Int[np.ndarray, " problem"]

    @property
    def gold_present(self) -> pd.Series:
        """Whether some level gave a right answer, by problem_id."""
        return pd.Series(self.correct.any(axis=1), index=pd.Index(self.problem_id, dtype="str"), dtype=bool)

    @classmethod
    def of_observations(cls, observations: Observations) -> "LabelledReports":
        """Take the labelled, answered questions out of observations."""
        chosen = np.flatnonzero(observations.labelled & observations.answered)
        kept = observations.select(chosen)
        names = kept.groups or kept.level_names
        return cls(kept.problem_id, names, kept.confidence, kept.correct, np.ones(len(kept), int))

    @classmethod
    def of_fits(cls, fits: Sequence[Fit]) -> "LabelledReports":
        """Take the questions that any of some fits learned from, each once: those of all folds, in a cross-fit.

        Raises DirEAGError if there is no fit, or they have learned different levels.
        """
        levels = {fit.fitted.groups or fit.fitted.level_names for fit in fits}
        if len(levels) != 1:
            raise DirEAGError(f"saw fits with {len(levels)} different sets of levels; expected the same in all.")
        questions: dict[str, tuple[Float[np.ndarray, " level"], Bool[np.ndarray, " level"], int]] = {}
        for fit in fits:
            rows = zip(fit.fitted.confidence, fit.fitted.correct, fit.multiplicity.tolist(), strict=True)
            questions |= dict(zip(fit.fitted.problem_id, rows, strict=True))
        (names,) = levels
        return cls(
            tuple(questions),
            names,
            np.array([confidence for confidence, _, _ in questions.values()]).reshape(-1, len(names)),
            np.array([correct for _, correct, _ in questions.values()], bool).reshape(-1, len(names)),
            np.array([multiplicity for *_, multiplicity in questions.values()], int),
        )


def stated_confidences(reports: LabelledReports) -> pd.DataFrame:
    """Count by level which confidences were stated, and how often the level's own answer was right.

    Returns: A row a level and bin: ``level``; ``low``, ``high``, the bin's edges in percent; ``right``, ``wrong``, how
    many answers of that level were. Reports that were not usable are not counted.
    """
    # Confidences are percentages, most of them whole: rounding keeps 15 % on the edge that 0.15 * 100 misses.
    percent = np.round(reports.confidence * 100, 9)
    place = np.searchsorted(STATED_EDGES[1:-1], percent, side="left")
    tables = []
    for level, name in enumerate(reports.level_names):
        usable, right = ~np.isnan(percent[:, level]), reports.correct[:, level]
        counts = [
            np.bincount(place[kept, level], reports.multiplicity[kept], len(STATED_EDGES) - 1).astype(int)
            for kept in (usable & right, usable & ~right)
        ]
        tables.append(
            pd.DataFrame(
                {
                    "level": name,
                    "low": STATED_EDGES[:-1],
                    "high": STATED_EDGES[1:],
                    "right": counts[0],
                    "wrong": counts[1],
                }
            )
        )
    every = pd.concat(tables, ignore_index=True)
    return every.groupby(["level", "low", "high"], sort=False, as_index=False).sum()
