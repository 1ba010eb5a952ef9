"""What came of reading a reply: the values that it states, and whether all that was asked for is there."""

from enum import StrEnum
from typing import NamedTuple


class ParseStatus(StrEnum):
    """How a reply could be read; a run sets ``repaired`` for a readable reply to a re-ask."""

    OK = "ok"
    REPAIRED = "repaired"
    GUESSED = "guessed"
    NO_ANSWER = "no_answer"
    NO_CONFIDENCE = "no_confidence"
    OUT_OF_RANGE = "out_of_range"
    AMBIGUOUS = "ambiguous"
    TRUNCATED = "truncated"


READABLE = frozenset({ParseStatus.OK, ParseStatus.REPAIRED, ParseStatus.GUESSED})
"""The statuses of replies that could be read."""


class Reading(NamedTuple):
    """The contents of a reply.

    The answer as given (None if there is none, or more than one); the confidence in percent, 0..100 (None if no
    readable one was stated); and ``ok`` if all that was asked for is there, otherwise the defect.
    """

    answer: str | None
    confidence: float | None
    status: ParseStatus


class Guesses(NamedTuple):
    """A list of guesses: pairs of answer and probability in percent, in the order of the list."""

    answers: tuple[tuple[str, float], ...]
    status: ParseStatus
