"""How much of a set of observations can be used."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True, eq=False)
class ObservationQuality:
    """How much of a set of observations can be used.

    Attributes
    ----------
    n_questions, n_answered, n_labelled : int
        Questions in all, with at least one usable observation, and with known correctness.
    n_gold_generated : int
        Questions to which some level gave a right answer.
    n_several_correct : int
        Questions with more than one right candidate.
    n_conflicts : int
        Answers to a question whose ``correct`` flags disagree; the majority of them was taken.
    level_names : tuple of str
        The levels.
    counts : array, (level, status)
        Observations by level and :class:`~bayes_direag.data.readings.Status`; every row sums to the number of
        questions.
    """

    n_questions: int
    n_answered: int
    n_labelled: int
    n_gold_generated: int
    n_several_correct: int
    n_conflicts: int
    level_names: tuple[str, ...]
    counts: Int[np.ndarray, "level status"]
