"""Questions with a confidence and a correctness, and replicates of them: what several metrics make of either."""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

Counts = Int[np.ndarray, "replicate threshold"]


@dataclass(frozen=True, eq=False)
class Questions:
    """Checked arrays, and what several metrics make of them, whatever the questions weigh."""

    confidence: Float[np.ndarray, " problem"]
    correct: Float[np.ndarray, " problem"]

    @functools.cached_property
    def residual(self) -> Float[np.ndarray, " problem"]:
        """Correctness less confidence."""
        residual: Float[np.ndarray, " problem"] = self.correct - self.confidence
        return residual

    @functools.cached_property
    def rising(self) -> Int[np.ndarray, " problem"]:
        """The questions by number, the least confident first."""
        return np.argsort(self.confidence, kind="stable")


@dataclass(frozen=True, eq=False)
class Answers:
    """A chunk of replicates of the questions, and what several metrics make of it.

    Counts are whole numbers, not only for being exact: their running sums take an eighth of the time.
    """

    questions: Questions
    weight: Float[np.ndarray, "replicate problem"]

    @functools.cached_property
    def rising(self) -> Int[np.ndarray, "replicate problem"]:
        """How often each question counts, the least confident first."""
        return self.weight[:, self.questions.rising].astype(np.int64)

    @functools.cached_property
    def counted(self) -> Counts:
        """How many the first none, one, two, ... in that order count for."""
        return running_sum(self.rising)

    @functools.cached_property
    def correct(self) -> Counts:
        """How many of these are correct."""
        return running_sum(self.rising * self.questions.correct[self.questions.rising].astype(np.int64))

    @functools.cached_property
    def operating_points(self) -> tuple[Counts, Counts]:
        """The correct and the wrong answers at or above each distinct confidence, from none of either to all."""
        below = len(self.questions.rising) - last_of_ties(self.questions.confidence[self.questions.rising[::-1]])
        hits, answers = (so_far[:, -1:] - so_far[:, below] for so_far in (self.correct, self.counted))
        return hits, answers - hits


def running_sum(value: Shaped[np.ndarray, "replicate problem"]) -> Shaped[np.ndarray, "replicate problem+1"]:
    """Sum along each row of a table, starting from 0: a column more."""
    sums = np.zeros((len(value), value.shape[1] + 1), value.dtype)
    np.cumsum(value, axis=1, out=sums[:, 1:])
    return sums


def last_of_ties(falling: Float[np.ndarray, " problem"]) -> Int[np.ndarray, " threshold"]:
    """Return how many values are at or above each distinct one, none of them to begin with."""
    return np.flatnonzero(np.diff(falling, prepend=np.inf, append=-np.inf))
