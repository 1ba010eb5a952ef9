"""Methods with elicitations of their own: several samples of one prompt, or one list of guesses.

They use answers with or without a stated confidence, so a report that the evidence model cannot use counts here.
Questions are joined to the evaluated ones by ``problem_id``.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from bayes_direag.data.answers import AnswerKind, canonical, same_answer
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question


class TextAnswer(NamedTuple):
    """A canonical answer with a confidence in [0, 1]; None and NaN without an answer."""

    answer: str | None
    confidence: float


NO_ANSWER = TextAnswer(None, math.nan)


class SampledMethod(NamedTuple):
    """A method that answers one elicited question, what it does in words, and the elicitation that it needs."""

    answer: Callable[[Question, int, AnswerKind], TextAnswer]
    elicitation: str
    words: str


def self_consistency(question: Question, n_samples: int, kind: AnswerKind) -> TextAnswer:
    """Select the commonest answer of the samples, with its share of all ``n_samples``.

    Ties go to the first in string order. A sample without a readable answer agrees with no other.
    """
    counts = _counts(question, kind)
    if not counts:
        return NO_ANSWER
    answer = min(counts, key=lambda text: (-counts[text], text))
    return TextAnswer(answer, counts[answer] / n_samples)


def answer_entropy(question: Question, n_samples: int, kind: AnswerKind) -> TextAnswer:
    r"""Select as :func:`self_consistency`, with confidence :math:`1 - H / \log k`, clipped to [0, 1].

    H is the entropy of the shares of the k samples' distinct answers. Each sample without a readable answer counts as
    another answer; the paper's released code leaves it out of the sum, so that one answer of five has confidence 0.8. A
    single sample has confidence 1.
    """
    counts = _counts(question, kind)
    if not counts:
        return NO_ANSWER
    shares = [count / n_samples for count in counts.values()]
    shares += [1 / n_samples] * (n_samples - sum(counts.values()))
    entropy = -sum(share * math.log(share) for share in shares)
    relative = entropy / math.log(n_samples) if n_samples > 1 else 0.0
    return TextAnswer(self_consistency(question, n_samples, kind).answer, min(max(1 - relative, 0.0), 1.0))


def top_k(question: Question, n_samples: int, kind: AnswerKind) -> TextAnswer:
    """Select the listed answer with the highest stated probability; ties go to the one listed first.

    Guesses without a readable answer or a probability are skipped. ``n_samples`` is not used.
    """
    del n_samples
    best = NO_ANSWER
    for guess in sorted(question.observations, key=lambda observation: observation.level):
        answer = canonical(guess.answer, kind)
        if answer is not None and guess.confidence is not None and not guess.confidence / 100 <= best.confidence:
            best = TextAnswer(answer, guess.confidence / 100)
    return best


SAMPLED_METHODS: Mapping[str, SampledMethod] = MappingProxyType(
    {
        "self_consistency": SampledMethod(
            self_consistency, "samples", "the commonest of several samples of one prompt; its share of them"
        ),
        "answer_entropy": SampledMethod(
            answer_entropy,
            "samples",
            "the same answer; how far the samples agree (1 minus their entropy, unreadable samples each an answer)",
        ),
        "topk": SampledMethod(
            top_k,
            "topk",
            "the likeliest answer on the model's own list of guesses, with the probability that the list gives",
        ),
    }
)


def joined_answers(method: SampledMethod, elicited: Observations, problem_ids: Sequence[str]) -> list[TextAnswer]:
    """Apply a method to the elicited questions with these ids; a question that was not elicited is unanswered."""
    questions = {question.problem_id: question for question in elicited.questions}
    return [
        method.answer(questions[name], elicited.n_levels, elicited.kind) if name in questions else NO_ANSWER
        for name in problem_ids
    ]


def is_right(answers: Sequence[TextAnswer], golds: Sequence[str | None], kind: AnswerKind) -> np.ndarray:
    """Return which answers equal the gold answer; a missing one does not."""
    return np.array(
        [same_answer(answer.answer, gold, kind) for answer, gold in zip(answers, golds, strict=True)], dtype=bool
    )


def _counts(question: Question, kind: AnswerKind) -> Counter[str]:
    read = (canonical(observation.answer, kind) for observation in question.observations)
    return Counter(answer for answer in read if answer is not None)
