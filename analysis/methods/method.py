"""The interface of all methods: learn from labelled questions, answer others."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from analysis.scores.scoring import Scored
from bayes_direag.data.observations import Observations
from bayes_direag.model.selection import clipped_logit

type Answerer = Callable[[Observations], Answers]
type Learner = Callable[[Observations, int], Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """One answer to every question, and how probably it is right.

    ``candidate`` (problem,): index into the question's own candidates; -1 where the question is unanswered.
    ``confidence`` (problem,): in [0, 1]; NaN where the question is unanswered. ``distribution`` (problem, level + 1):
    probability of every candidate and, in the last column, of the null "none of them is right"; 0 for candidates that a
    question does not have. None of a method that states no distribution.
    """

    candidate: Int[np.ndarray, " problem"]
    confidence: Float[np.ndarray, " problem"]
    distribution: Float[np.ndarray, "problem state"] | None = None

    @classmethod
    def most_probable(cls, distribution: Float[np.ndarray, "problem state"], observations: Observations) -> "Answers":
        """Select the candidate of greatest probability, of equals the first; never the null."""
        best = distribution[:, :-1].argmax(axis=1)
        confidence = distribution[np.arange(len(best)), best]
        answered = observations.n_candidates > 0
        return cls(np.where(answered, best, -1), np.where(answered, confidence, np.nan), distribution)

    def is_right(self, observations: Observations) -> Bool[np.ndarray, " problem"]:
        """Say which answers are right; one that is missing is not."""
        chosen = np.take_along_axis(observations.correct_candidate, self.candidate[:, None], axis=1)[:, 0]
        return np.asarray(chosen & (self.candidate >= 0))

    @property
    def null_probability(self) -> Float[np.ndarray, " problem"]:
        """The probability that no candidate is right; NaN without a distribution."""
        return np.full(len(self.candidate), np.nan) if self.distribution is None else self.distribution[:, -1]

    def state_probability(self, observations: Observations) -> Float[np.ndarray, " problem"]:
        """Return the probability of the state that occurred: that of the right candidates together, else of the null.

        NaN without a distribution, for questions without a label, and for those to which no level gave an answer.
        """
        if self.distribution is None:
            return np.full(len(observations), np.nan)
        right = observations.correct_candidate
        of_right = (self.distribution[:, :-1] * right).sum(axis=1)
        occurred = np.where(right.any(axis=1), of_right, self.distribution[:, -1])
        return np.where(observations.labelled & observations.answered, occurred, np.nan)

    def scored(self, observations: Observations) -> Scored:
        """Return what the scores are computed from, of labelled questions."""
        return Scored(self.confidence, self.is_right(observations), self.state_probability(observations))


def _apply(learned: Answerer, observations: Observations) -> Answers:
    return learned(observations)


@dataclass(frozen=True)
class Method:
    """How a method learns and answers.

    ``learn``: called with questions that are all labelled and answered, at least one, and a seed. What it returns is
    shared by all methods with an equal ``learn``. ``answer``: called with that, and with any questions under the same
    levels; their labels are not to be looked at. By default ``learn`` has returned what is to be called with the
    questions. ``learns``: whether the labelled questions matter at all.
    """

    learn: Learner
    answer: Callable[[Any, Observations], Answers] = _apply
    learns: bool = True


def stated_logit(observations: Observations, eps: float) -> Float[np.ndarray, "problem level"]:
    """Return the logits of the stated confidences, clipped to ``[eps, 1 - eps]``; 0 where none is stated."""
    return clipped_logit(np.nan_to_num(observations.confidence, nan=0.5), eps)


def stated_confidence(observations: Observations) -> Float[np.ndarray, "problem level"]:
    """Return the stated confidences, an even chance where a report is only a vote; NaN where none is usable."""
    votes = observations.usable & np.isnan(observations.confidence)
    return np.where(votes, 0.5, observations.confidence)
