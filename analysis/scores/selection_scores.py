"""Scores that see which answer a method selected, and not only how well it knows whether its own answers are right.

Two methods that select different answers cannot be told apart by the Brier score or NLL of their own answers: one that
selects a wrong answer, and says that it is wrong, scores well. Each score here is a mean over *all* labelled
questions, answered or not.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from analysis.scores.metrics import MIN_CONFIDENCE

_Problems = Float[np.ndarray, " problem"]


class Scored(NamedTuple):
    """What one method says of some labelled questions, and whether it is right.

    Attributes
    ----------
    confidence : (problem,)
        Probability of being correct, in [0, 1]; NaN where the question is unanswered.
    correct : (problem,)
        Whether the answer was correct; of no account where there is none.
    state_probability : (problem,), optional
        What the method's distribution over candidates and null gave to the state that occurred. NaN, or left out, where
        it states none.
    """

    confidence: ArrayLike
    correct: ArrayLike
    state_probability: ArrayLike | None = None

    @property
    def answered(self) -> Bool[np.ndarray, " problem"]:
        """Whether there is an answer."""
        return ~np.isnan(np.asarray(self.confidence, float))

    def select(self, kept: Bool[np.ndarray, " problem"] | Int[np.ndarray, " kept"]) -> "Scored":
        """Return some of the questions."""
        state = None if self.state_probability is None else np.asarray(self.state_probability)[kept]
        return Scored(np.asarray(self.confidence)[kept], np.asarray(self.correct)[kept], state)


def benefit(scored: Scored) -> _Problems:
    r"""Return accuracy less Brier score, question by question.

    .. math:: y_i - (f_i - y_i)^2 \quad\text{of the selected answer;}\qquad 0 \text{ without an answer.}

    If an answer is used whenever its confidence exceeds a price t, gaining 1 - t when right and losing t when wrong,
    the mean gain over all prices in [0, 1] is half of it. 1 is perfect, 0 never answering, -1 always sure and wrong.

    Examples
    --------
    >>> benefit(Scored([0.9, 0.2, np.nan], [True, False, False])).round(2)
    array([ 0.99, -0.04,  0.  ])
    """
    confidence, correct = np.asarray(scored.confidence, float), np.asarray(scored.correct, float)
    return np.where(scored.answered, correct - (confidence - correct) ** 2, 0.0)


def accuracy_of_all(scored: Scored) -> _Problems:
    """Say which questions have a right answer: 1, or 0 where it is wrong or missing."""
    return np.where(scored.answered, np.asarray(scored.correct, float), 0.0)


def log_score(scored: Scored) -> _Problems:
    """Return -log of the probability of the state that occurred, taken as at least :data:`MIN_CONFIDENCE`."""
    if scored.state_probability is None:
        return np.full(len(scored.answered), np.nan)
    return np.asarray(-np.log(np.clip(np.asarray(scored.state_probability, float), MIN_CONFIDENCE, 1)))


SELECTION_SCORES: Mapping[str, Callable[[Scored], _Problems]] = MappingProxyType(
    {"benefit": benefit, "accuracy_of_all": accuracy_of_all, "log_score": log_score}
)
"""The scores of a question, by name."""


def mean_score(
    value: _Problems, weight: Int[np.ndarray, "replicate problem"] | None = None
) -> Float[np.ndarray, " replicate"]:
    """Return the mean of a score over the questions where it is defined, in every replicate; NaN where in none.

    Parameters
    ----------
    value : (problem,)
        One of :data:`SELECTION_SCORES`.
    weight : (replicate, problem), optional
        How often each question counts; once when left out.
    """
    table = np.ones((1, len(value))) if weight is None else weight
    defined = ~np.isnan(value)
    with np.errstate(invalid="ignore"):  # 0/0 is how an undefined value becomes NaN
        return np.asarray(table[:, defined] @ value[defined] / table[:, defined].sum(axis=1))
