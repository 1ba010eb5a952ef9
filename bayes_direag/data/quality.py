"""How many observations are usable, and which levels stand out: copies, equal mistakes, constant confidences."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from bayes_direag.data.records import Status

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: The smallest share of equal reports (answer and confidence) for one level to be called a copy of another.
COPIED = 0.95
#: The smallest share of equal wrong answers for two levels to be said to make the same mistakes.
SHARED_MISTAKES = 2 / 3
#: The smallest share of one confidence for it to be called constant.
ONE_CONFIDENCE = 0.6
#: The smallest number of reports, or of mistakes, of which a share is remarked on.
FEWEST = 20


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
    def of(cls, observations: "Observations") -> "ObservationQuality":
        """Count the usable observations, overall and by level."""
        counts = observations.row_counts
        return cls(
            n_questions=int(counts.sum()),
            n_answered=int(counts @ observations.answered),
            n_labelled=int(counts @ observations.labelled),
            n_gold_generated=int(counts @ observations.gold_generated),
            n_several_correct=int(counts @ (observations.correct_candidate.sum(axis=1) > 1)),
            n_conflicts=int(counts @ observations.conflicting),
            level_names=observations.level_names,
            counts=np.tensordot(counts, observations.status[:, :, None] == np.array(Status), axes=1),
        )

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


def level_remarks(observations: "Observations", among: Collection[str] | None = None) -> tuple[str, ...]:
    """Say which levels repeat another, and which state nearly constant confidences; empty if no level stands out.

    Two levels are compared on the questions where both are usable, and their mistakes on the labelled ones that at
    least one of them got wrong. Confidences must be equal to the last digit.

    Parameters
    ----------
    among
        The names of the levels to remark on; by default all.
    """
    columns = [column for column, name in enumerate(observations.level_names) if among is None or name in among]
    return (*_repetitions(observations, columns), *_constant_confidences(observations, columns))


def _repetitions(observations: "Observations", columns: list[int]) -> list[str]:
    names, candidate = observations.level_names, observations.candidate
    right = np.take_along_axis(observations.correct_candidate, np.maximum(candidate, 0), axis=1)
    confidence = np.nan_to_num(observations.confidence, nan=-1)  # two missing ones are equal
    remarks = []
    for a, b in combinations(columns, 2):
        both = observations.row_counts * (observations.usable[:, a] & observations.usable[:, b])
        mistaken = both * (observations.labelled & ~(right[:, a] & right[:, b]))
        agrees = candidate[:, a] == candidate[:, b]
        equal = agrees & (confidence[:, a] == confidence[:, b])
        if both.sum() >= FEWEST and both @ equal >= COPIED * both.sum():
            remarks.append(
                f"{names[b]} is nearly a copy of {names[a]}: the same answer and confidence in "
                f"{both @ equal / both.sum():.0%} of {both.sum()} questions. Leave one of them out."
            )
        elif mistaken.sum() >= FEWEST and mistaken @ agrees >= SHARED_MISTAKES * mistaken.sum():
            remarks.append(
                f"{names[a]} and {names[b]} make the same mistakes: {mistaken @ agrees / mistaken.sum():.0%} of the "
                f"{mistaken.sum()} questions that one of them got wrong have the same wrong answer from both. Where "
                "they agree, that is hardly more evidence than one of them."
            )
    return remarks


def _constant_confidences(observations: "Observations", columns: list[int]) -> list[str]:
    constant = []
    for column in columns:
        name, confidence = observations.level_names[column], observations.confidence[:, column]
        stated = observations.usable[:, column] & ~np.isnan(confidence)
        values, place = np.unique(confidence[stated], return_inverse=True)
        counts = np.bincount(place, observations.row_counts[stated])
        if counts.sum() >= FEWEST and counts.max() >= ONE_CONFIDENCE * counts.sum():
            share = counts.max() / counts.sum()
            constant.append((share, f"{name} ({100 * values[counts.argmax()]:.3g}% in {share:.0%})"))
    if not constant:
        return []
    named = ", ".join(text for _, text in sorted(constant, key=lambda level: -level[0]))
    return [f"Most reports of these levels state the same confidence, which tells little: {named}."]
