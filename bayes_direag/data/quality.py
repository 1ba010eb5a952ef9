"""How much of a set of observations can be used."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from bayes_direag.data.records import Status

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations


@dataclass(frozen=True, eq=False)
class ObservationQuality:
    """How much of a set of observations can be used.

    Attributes
    ----------
    n_questions, n_answered, n_labelled : int
        Questions in all, with at least one usable observation, and with known correctness.
    n_gold_generated, n_several_correct : int
        Questions to which some level gave a right answer, and with more than one right candidate.
    n_conflicts : int
        Answers to a question whose ``correct`` flags disagree; the majority of them was taken.
    counts : array, (level, status)
        Observations by level and :class:`Status`; every row sums to the number of questions.
    """

    n_questions: int
    n_answered: int
    n_labelled: int
    n_gold_generated: int
    n_several_correct: int
    n_conflicts: int
    level_names: tuple[str, ...]
    counts: Int[np.ndarray, "level status"]

    @classmethod
    def of(cls, observations: "Observations") -> "ObservationQuality":
        """Count what can be used, by level and over all."""
        times = np.ones(len(observations), int) if observations.multiplicity is None else observations.multiplicity
        return cls(
            n_questions=int(times.sum()),
            n_answered=int(times @ observations.answered),
            n_labelled=int(times @ observations.labelled),
            n_gold_generated=int(times @ observations.gold_generated),
            n_several_correct=int(times @ (observations.correct_candidate.sum(axis=1) > 1)),
            n_conflicts=int(times @ observations.conflicting),
            level_names=observations.level_names,
            counts=np.tensordot(times, observations.status[:, :, None] == np.array(Status), axes=1),
        )

    @property
    def summary(self) -> str:
        """The numbers in a line."""
        n, n_levels, shown = self.n_questions, len(self.level_names), self.level_names[:5]
        more = f" and {n_levels - len(shown)} more" if n_levels > len(shown) else ""
        return (
            f"{n:,} question{'s' * (n != 1)}, {self.n_answered:,} answered, {self.n_labelled:,} labelled; "
            f"{n_levels} level{'s' * (n_levels != 1)}: {', '.join(shown)}{more}"
        )

    def to_html(self) -> str:
        """Return the counts as a table for a notebook."""
        import pandas as pd

        names = [status.name.lower().replace("_", " ") for status in Status]
        return pd.DataFrame(self.counts, index=pd.Index(self.level_names, name="level"), columns=names).to_html()
