"""How much of a set of observations can be used, and which levels stand out: copies, mistakes alike, one confidence."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.records import Status

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: From this share of equal reports on (answer and confidence), one level is called a copy of the other.
COPIED = 0.95
#: From this share of equal wrong answers on, two levels are said to make the same mistakes.
SHARED_MISTAKES = 2 / 3
#: From this share of one confidence on, a level is said to state hardly any other.
ONE_CONFIDENCE = 0.6
#: Shares of fewer reports, or of fewer mistakes, are not spoken of.
FEWEST = 20


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


def level_remarks(observations: "Observations", among: Collection[str] | None = None) -> tuple[str, ...]:
    """Say which levels repeat another, and which hardly vary in their confidence; nothing where no level stands out.

    Two levels are compared where both are usable; confidences are equal to the last digit. Mistakes are those in
    labelled questions that at least one of the two got wrong.

    Parameters
    ----------
    among
        The levels to speak of, by name; all if left out.
    """
    names = observations.level_names
    columns = [column for column, name in enumerate(names) if among is None or name in among]
    times = observations.multiplicity
    times = np.ones(len(observations), int) if times is None else times
    return (*_repetitions(observations, columns, times), *_constant_confidences(observations, columns, times))


def _repetitions(observations: "Observations", columns: list[int], times: Int[np.ndarray, " problem"]) -> list[str]:
    names, candidate = observations.level_names, observations.candidate
    right = np.take_along_axis(observations.correct_candidate, np.maximum(candidate, 0), axis=1)
    remarks = []
    for a, b in combinations(columns, 2):
        both = times * (observations.usable[:, a] & observations.usable[:, b])
        mistaken = both * (observations.labelled & ~(right[:, a] & right[:, b]))
        agrees = candidate[:, a] == candidate[:, b]
        equal = agrees & _equal(observations.confidence[:, a], observations.confidence[:, b])
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


def _constant_confidences(
    observations: "Observations", columns: list[int], times: Int[np.ndarray, " problem"]
) -> list[str]:
    found = []
    for column in columns:
        name, confidence = observations.level_names[column], observations.confidence[:, column]
        stated = observations.usable[:, column] & ~np.isnan(confidence)
        values, place = np.unique(confidence[stated], return_inverse=True)
        if times[stated].sum() >= FEWEST:
            counts = np.bincount(place, times[stated])
            share, value = counts.max() / counts.sum(), values[counts.argmax()]
            found.append((share, f"{name} ({100 * value:.3g}% in {share:.0%})"))
    constant = [text for share, text in sorted(found, key=lambda each: -each[0]) if share >= ONE_CONFIDENCE]
    if not constant:
        return []
    return [f"Most reports of these levels state the same confidence, which tells little: {', '.join(constant)}."]


def _equal(one: Float[np.ndarray, " problem"], other: Float[np.ndarray, " problem"]) -> Bool[np.ndarray, " problem"]:
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))
