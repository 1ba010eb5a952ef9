"""How many observations are usable."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from bayes_direag.data.records import Status


@dataclass(frozen=True, eq=False)
class ObservationQuality:
    """How many observations are usable.

    Attributes
    ----------
    n_questions, n_answered, n_labelled : int
        All questions, those with a usable observation, and those with known correctness.
    n_gold_generated, n_several_correct : int
        Questions with a right candidate, and with more than one.
    n_conflicts : int
        Candidates whose ``correct`` flags disagree, so that the majority was taken.
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
    def of(
        cls,
        level_names: tuple[str, ...],
        status: Int[np.ndarray, "problem level"],
        counted: Sequence[Shaped[np.ndarray, " problem"]],
    ) -> "ObservationQuality":
        """Count the usable observations, overall and by level.

        Parameters
        ----------
        counted
            What each question adds to the counts from ``n_answered`` to ``n_conflicts``, in that order.
        """
        answered, labelled, generated, several, conflicts = (int(values.sum()) for values in counted)
        by_status = (status[:, :, None] == np.array(Status)).sum(axis=0)
        return cls(len(status), answered, labelled, generated, several, conflicts, level_names, by_status)

    @property
    def summary(self) -> str:
        """The counts in one line."""
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
