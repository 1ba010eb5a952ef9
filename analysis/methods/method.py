"""The interface of all methods: learn from labelled questions, then answer questions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.model.selection import clipped_logit

#: Confidences are clipped to [CLIP, 1 - CLIP] before their logit is taken.
CLIP = 0.01

type Answerer = Callable[[Observations], Answers]
type Learner = Callable[[Observations, int], Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """An answer to every question, with its probability of being right.

    ``candidate`` is the index among the question's own candidates, -1 for an unanswered question, whose confidence is
    NaN. ``distribution``, if a method has one, is the probability of every candidate and, in the last column, the null.
    """

    candidate: Int[np.ndarray, " problem"]
    confidence: Float[np.ndarray, " problem"]
    distribution: Float[np.ndarray, "problem state"] | None = None

    @classmethod
    def most_probable(cls, distribution: Float[np.ndarray, "problem state"], observations: Observations) -> "Answers":
        """Select the candidate of greatest probability, the first of equals; never the null."""
        best = distribution[:, :-1].argmax(axis=1)
        confidence = distribution[np.arange(len(best)), best]
        answered = observations.n_candidates > 0
        return cls(np.where(answered, best, -1), np.where(answered, confidence, np.nan), distribution)

    def is_right(self, observations: Observations) -> Bool[np.ndarray, " problem"]:
        """Return which answers are right; a missing one is not."""
        chosen = np.take_along_axis(observations.correct_candidate, self.candidate[:, None], axis=1)[:, 0]
        return np.asarray(chosen & (self.candidate >= 0))

    @property
    def null_probability(self) -> Float[np.ndarray, " problem"]:
        """The probability that no candidate is right; NaN without a distribution."""
        return np.full(len(self.candidate), np.nan) if self.distribution is None else self.distribution[:, -1]

    def state_probability(self, observations: Observations) -> Float[np.ndarray, " problem"]:
        """Return the probability of the right candidates, or of the null if none is right; NaN if it is not known."""
        if self.distribution is None:
            return np.full(len(observations), np.nan)
        right = observations.correct_candidate
        of_right = (self.distribution[:, :-1] * right).sum(axis=1)
        occurred = np.where(right.any(axis=1), of_right, self.distribution[:, -1])
        return np.where(observations.labelled & observations.answered, occurred, np.nan)


@dataclass(frozen=True)
class FixedRule:
    """A learner that ignores the labelled questions and returns a fixed rule."""

    rule: Answerer

    def __call__(self, _labelled: Observations, _seed: int) -> Answerer:
        """Return the rule."""
        return self.rule


@dataclass(frozen=True)
class Method:
    """How a method learns and answers, what it needs, and what it is in words."""

    #: Called with at least one question, all of them labelled and answered, and a seed. Its result is shared by all
    #: methods with an equal ``learn``.
    learn: Learner
    #: Called with this result and with questions that have the same levels; it must not use their labels. By default
    #: the result of ``learn`` is itself called with the questions.
    answer: Callable[[Any, Observations], Answers] = lambda learned, observations: learned(observations)
    #: What the method does, for the glossary of a report.
    words: str = field(default="", kw_only=True)
    #: Its name in a sentence.
    spoken: str = field(default="", kw_only=True)
    #: Whether it makes no sense where no report states a confidence.
    needs_confidences: bool = field(default=False, kw_only=True)
    #: Whether it makes no sense unless all answers of all questions are one of two labels.
    needs_two_labels: bool = field(default=False, kw_only=True)
    #: The protocol of the elicitation of its own whose questions it answers; empty if it answers the evaluated ones.
    elicitation: str = field(default="", kw_only=True)

    @property
    def learns(self) -> bool:
        """Whether the labelled questions matter."""
        return not isinstance(self.learn, FixedRule)


def gives(observations: Observations) -> Bool[np.ndarray, "problem level candidate"]:
    """Return whether each level gives each candidate, of as many as there are levels."""
    return np.asarray(observations.candidate[:, :, None] == np.arange(observations.n_levels))


def stated_logits(observations: Observations) -> Float[np.ndarray, "signal problem level"]:
    """Return the logits of every signal of confidence, clipped by :data:`CLIP`; 0 if it is not stated."""
    return clipped_logit(np.nan_to_num(np.stack([*observations.signals.values()]), nan=0.5), CLIP)


def stated_signals(observations: Observations) -> Float[np.ndarray, "signal problem level"]:
    """Return every signal of confidence: one half for a report without it, NaN without a usable report."""
    stated = np.stack([*observations.signals.values()])
    return np.where(observations.usable & np.isnan(stated), 0.5, stated)
