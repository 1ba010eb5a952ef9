r"""Read the answer and the confidence of a reply, or report why they cannot be read without guessing.

Its fields (:mod:`elicitation.fields`) are read each by itself, as a whole: what is doubtful is missing, and takes no
other field with it. ``docs/replies.md`` has a table of the forms.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from bayes_direag.data.answers import AnswerKind, canonical
from elicitation.fields import Field, Scale, find_fields
from elicitation.reply_text import next_question, plain_characters, reply_of


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


def count_words(statuses: Mapping[str, int]) -> str:
    """Return the counts of statuses as text, such as ``ambiguous 2, ok 14``."""
    return ", ".join(f"{status} {n}" for status, n in sorted(statuses.items()))


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


_CORRECTED = re.compile(
    r"(?i)\b(?:correction|actually|wait|oops|sorry|hmm+|scratch that|apologies|mistake|i (?:was wrong|mis\w+)"
    r"|on (?:second thoughts?|reflection)|let me (?:correct|fix|re\w+)|(?:it|that|answer) should (?:be|have been)"
    r"|(?:correct|right|real|actual|true) answer (?:is|was)|(?:is|was|'s) (?:wrong|incorrect|not (?:right|correct)))\b"
    r"|(?<![\w,;] )\bno[,.!:]|\b(?:edit|update):|\bmake (?:that|it)\b|\bi mean\b|\b(?:it|that) must be\b"
)
_HEDGE = re.compile(
    r"(?is)\b(?:about|around|roughly|approximately|approx|circa|nearly|almost|maybe|perhaps|probably|very|quite|fairly|pretty"
    r"|extremely|high(?:ly)?|medium|moderate(?:ly)?|low|confident|certain|sure|likely|i(?:'m|'d)?|am|say|my|an?|the"
    r"|(?:confidence|certainty|probability|likelihood)(?:\s+(?:of|is))?|(?:because|since)\b.*)\b"
)
_NUMBER = re.compile(
    r"(?i)((?:(?<!\S)-)?(?<![\w.,])(?:\d+(?:[.,]\d{1,2}|\.\d+)?|\.\d+))(?![\w]|[.,]\d)"
    r"(?:\s*(%|percent\b|per cent\b)|\s*(?:/|out\s+of)\s*(\d+)(?![.,]?\d))?"
)
# A confidence stands behind the last comma or, without one, in brackets at the end.
_BOTH = re.compile(r"(.*)(?:[;|\u3001]\s*|,\s+|(?<!\d),)(.*)|(.*\S)\s*\(([^()]*)\)\W*")
_ENCLOSED = re.compile(r"\\boxed\{([^{}]*)\}|[<\[]([^<>\[\]]*)[>\]]|^\(([^()]*)\)$")
# What no text is as an answer: one with a confidence, a sentence about an answer, or two sentences.
_DOUBTFUL = re.compile(
    r"(?i)(?:[,;:(/|\u2013\u2014]|\s-\s)\s*~?(?:\d+(?:\.\d+)?\s*%|0?\.\d)|\d\s*(?:%|percent)\s*(?:sure|certain|confiden|likely|prob)"
    r"|\b(?:confiden|certain|probab|likel)\w*(?:\W+(?:of|is|at|about|level|score))*\W+\d|\b(?:confidence|probability)\b.*:"
    r"|\banswer(?:\s+is\b|:)|\w{2}[.!?]\s+(?-i:I|It|This|That|The|They|He|She|We|You|So)\b"
)
_NO_LINE = re.compile(r"(?i)\b(?:not|answer)\b|^[\w ]+:|^#")  # what no answer without a label is
_ITEM = re.compile(r"(?m)^[^\w\n]*(\d{1,3})[ *]*[.)](?=[^\S\n]*[^\s\d]|[^\S\n]+\S)")


def read_reply(
    text: str,
    finish_reason: str | None,
    *,
    kind: AnswerKind = "numeric",
    scale: Scale = "percent",
    confident: bool = True,
) -> Reading:
    r"""Read the last answer of a reply, and its confidence.

    ``finish_reason`` is why the model stopped, as the server says, or None; a reply that was cut off is not read. A
    text without a canonical form of the ``kind`` is no answer, or an ambiguous one. ``scale`` is that of a confidence
    without a unit, whose label does not say; and ``confident`` tells whether one was asked for. With status ``ok`` all
    that was asked for is there, otherwise what is unambiguous.

    Examples
    --------
    >>> read_reply("3 + 4 = 7\nAnswer and Confidence (0-100): 7, 90%", "stop")
    Reading(answer='7', confidence=90.0, status=<ParseStatus.OK: 'ok'>)
    """
    if (reply := reply_of(text, finish_reason)) is None:
        return Reading(None, None, ParseStatus.TRUNCATED)
    fields, said = find_fields(reply, scale)
    pairs = [pair for pair in _pairs(fields) if pair[0].rank is None]
    if not pairs:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    last, stated = pairs[-1]
    alternatives = {canonical(field.text, kind) for field, _ in pairs}
    if _CORRECTED.search(said, last.end) or (last.label in ("g", "box") and len(alternatives) > 1):
        return Reading(None, None, ParseStatus.AMBIGUOUS)
    if stated and stated[0].label in ("p", "l") and re.search(r"\w", said[last.end : stated[0].start]):
        stated = []  # a probability of mathematics: its own stands right behind the answer
    if not stated and len(pairs) == 1:
        stated = [field for field in fields if field.end <= last.start]
    reading = _read(last, stated, kind)
    is_bare = last.label == "line" or (last.label == "box" and "%" in last.text)  # a box may hold the confidence
    if is_bare and (reading.confidence is None or _NO_LINE.search(last.text)):
        return Reading(None, None, ParseStatus.NO_ANSWER)
    if not confident:
        return Reading(reading.answer, None, reading.status if reading.answer is None else ParseStatus.OK)
    return reading


def read_guesses(
    text: str, finish_reason: str | None, k: int = 5, *, kind: AnswerKind = "numeric", scale: Scale = "percent"
) -> Guesses:
    """Read a list of guesses: labelled ones (``Guess 1: 18, 60%``, ``G1: 18``, ``P1: 60%``), or numbered lines.

    Of several lists the last whole one counts, otherwise the last. A list may be shorter than ``k``; a longer one, or
    one that is not numbered 1, 2, 3 ..., is ambiguous. The first guess that cannot be read gives the list its status;
    the others are kept. The other parameters are those of :func:`read_reply`.
    """
    if (reply := reply_of(text, finish_reason)) is None:
        return Guesses((), ParseStatus.TRUNCATED)
    fields, said = find_fields(reply, scale)
    if not (is_labelled := any(field.rank is not None for field in fields)):
        fields, said = find_fields(_ITEM.sub(r"Guess \1: ", reply), scale)
    lists: list[list[tuple[int, Reading]]] = []
    for field, stated in _pairs(fields):
        if field.rank is not None:
            lists += [[]] if not lists or field.rank == 1 else []
            lists[-1].append((field.rank, _read(field, stated, kind)))
    are_read = [[reading.status is ParseStatus.OK for _, reading in guesses] for guesses in lists]
    if not lists or not (is_labelled or any(map(any, are_read))):
        return Guesses((), ParseStatus.NO_ANSWER)
    if _CORRECTED.search(said, fields[-1].end):
        return Guesses((), ParseStatus.AMBIGUOUS)
    ranks, readings = zip(*lists[max(range(len(lists)), key=lambda k: (all(are_read[k]), k))], strict=True)
    answers = tuple((r.answer, r.confidence) for r in readings if r.answer is not None and r.confidence is not None)
    if ranks != tuple(range(1, len(ranks) + 1)) or len(ranks) > k:
        return Guesses(answers[:k], ParseStatus.AMBIGUOUS)
    return Guesses(answers, next((r.status for r in readings if r.status is not ParseStatus.OK), ParseStatus.OK))


def read_by_pattern(
    text: str, finish_reason: str | None, pattern: re.Pattern[str], scale: Scale = "percent"
) -> Reading:
    r"""Read a reply by a pattern of the user: its group ``answer``, or the first, and ``confidence``, or the second.

    Of several matches the last counts. The confidence is read as in a field of its own.

    Examples
    --------
    >>> read_by_pattern("So the answer is 18.\nI am 90% sure.", "stop", re.compile(r"answer is (\d+)"))
    Reading(answer='18', confidence=None, status=<ParseStatus.NO_CONFIDENCE: 'no_confidence'>)
    """
    if (reply := reply_of(text, finish_reason)) is None:
        return Reading(None, None, ParseStatus.TRUNCATED)
    answer = pattern.groupindex.get("answer", 1)
    stated = pattern.groupindex.get("confidence", 0 if "answer" in pattern.groupindex else pattern.groups - 1 and 2)
    matches = [match for match in pattern.finditer(reply) if (match[answer] or "").strip()]
    end = next_question(reply, matches[0].end() if matches else 0)
    matches = [match for match in matches if match.start() < end]
    if not matches:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    return Reading(matches[-1][answer].strip(), *read_confidence((stated and matches[-1][stated]) or "", scale))


def read_last_number(text: str, *, confident: bool) -> Reading:
    """Read a reply without a final line as the released code of the paper does.

    The answer is the last number of the text, even a percentage. The confidence, if asked for, is the first percentage;
    without one nothing is read. The status is ``guessed``.

    Examples
    --------
    >>> read_last_number("I am 90% sure that 3 + 4 = 7.", confident=True)
    Reading(answer='7', confidence=90.0, status=<ParseStatus.GUESSED: 'guessed'>)
    """
    answers = re.findall(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s*/\s*\d+)?", text)
    percentages = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?=\s*%)", text)
    if not answers or (confident and not percentages):
        return Reading(None, None, ParseStatus.NO_ANSWER)
    return Reading(answers[-1], min(float(percentages[0]), 100.0) if confident else None, ParseStatus.GUESSED)


def _pairs(fields: list[Field]) -> list[tuple[Field, list[Field]]]:
    """Return the answers, each with the confidences behind it."""
    pairs: list[tuple[Field, list[Field]]] = []
    for field in fields:
        if field.what != "confidence":
            pairs.append((field, []))
        elif pairs and field.rank in (None, pairs[-1][0].rank):
            pairs[-1][1].append(field)
    return pairs


def _read(field: Field, stated: list[Field], kind: AnswerKind) -> Reading:
    """Read an answer, and its confidence in the same field or in others."""
    values = [read_confidence(other.text, other.scale) for other in stated]
    readable = [value for value in values if value[0] is not None]
    confidence, defect = (*readable, *values, (None, ParseStatus.NO_CONFIDENCE))[0]
    if len(set(readable)) > 1:
        confidence, defect = None, ParseStatus.AMBIGUOUS
    answer: str | None = _bare(field.text)
    if not values and (field.what == "both" or field.rank is not None):
        answer, confidence, defect = _split(_bare(field.text), field.scale, kind)
    spelling, following = canonical(answer, kind), field.following
    if kind != "text" and field.label != "box":  # another value counts, but not an option that is explained
        is_value = kind == "numeric" or re.fullmatch(r"\W*\w\W*", following) is not None
        following = following if is_value and canonical(_bare(following), kind) not in (None, spelling) else ""
    is_doubtful = following or (kind == "text" and field.label and _DOUBTFUL.search(answer or ""))
    if answer is None or is_doubtful:
        return Reading(None, confidence, ParseStatus.AMBIGUOUS)
    if spelling is None:
        several = re.search(r"\d" if kind == "numeric" else r"\w", answer)
        return Reading(None, confidence, ParseStatus.AMBIGUOUS if several else ParseStatus.NO_ANSWER)
    return Reading(answer, confidence, defect)


def _split(content: str, scale: Scale, kind: AnswerKind) -> tuple[str | None, float | None, ParseStatus]:
    """Return the answer and the confidence in a text with both; no answer if it cannot be told apart."""
    content = content if kind == "text" else _ENCLOSED.sub(r"\1\2\3", content)
    both = _BOTH.fullmatch(content)
    answer, stated = [part for part in both.groups() if part is not None] if both else (content, "")
    confidence, status = read_confidence(stated, scale)
    has_percent = re.search("%|percent", stated) is not None
    is_torn = kind == "text" and both is not None and both[3] is not None  # brackets may belong to the answer
    is_one = both is None and re.search(r"/\s*\d{1,3}$", answer) is not None  # a fraction, or two values
    is_hedged = kind == "text" and _is_hedge(answer.rpartition(",")[2]) and ("," in answer or "(" in stated)  # twice
    is_unclosed = any(answer.count(left) > answer.count(right) for left, right in ("()", "[]", "{}"))
    is_unclosed |= answer.count('"') == 1
    if is_unclosed or is_hedged or (not has_percent and (is_torn or is_one or "%" in answer or "$" in stated)):
        return None, None, ParseStatus.AMBIGUOUS
    is_word = _is_hedge(stated) if kind == "text" else has_percent or not re.search(r"\d", stated)
    is_number = _NUMBER.fullmatch(stated) and (has_percent or status is ParseStatus.AMBIGUOUS)
    return _bare(answer) if is_word or is_number or confidence is not None else None, confidence, status


def _is_hedge(text: str) -> bool:
    return not re.search(r"\w", _HEDGE.sub("", text))


def read_confidence(text: str, scale: Scale) -> tuple[float | None, ParseStatus]:
    """Return the confidence that a text states, in percent, and ``ok``; or None and the defect.

    It is one number, with hedges around it, or the same number twice. A range, a margin, a bound or a word is missing.
    """
    text = re.sub(r"\d", lambda digit: str(int(digit[0])), plain_characters(text))
    text = re.sub(r"<([^<>]*)>|[*_`$\\]", r"\1", text)
    numbers = [(Decimal(number.replace(",", ".")), *unit) for number, *unit in _NUMBER.findall(text)]
    if not numbers or re.search(r"[\w<>\u2264\u2265\u00b1+]", _HEDGE.sub("", _NUMBER.sub("", text))):
        return None, ParseStatus.AMBIGUOUS if re.search(r"\d", text) else ParseStatus.NO_CONFIDENCE
    if any(total not in ("", "10", "100") for *_, total in numbers):
        return None, ParseStatus.AMBIGUOUS
    (number, percent, total), *others = sorted(numbers, key=lambda number: not number[1])
    has_point = "." in str(number)
    if total or (not percent and (scale == "fraction" or (scale == "probability" and has_point and number <= 1))):
        number *= 100 // int(total or 1)
    elif 0 < number < 1 or (number == 1 and (has_point or not percent)):
        return None, ParseStatus.AMBIGUOUS
    for other, percent, total in others:
        if number != other * (100 // int(total or 100)) and (percent or total or number != 100 * other):
            return None, ParseStatus.AMBIGUOUS
    return (float(abs(number)), ParseStatus.OK) if 0 <= number <= 100 else (None, ParseStatus.OUT_OF_RANGE)


def _bare(text: str) -> str:
    """Return a text in one line, without marks around it."""
    text = re.sub(r"[ \t\r\n]+", " ", text).strip(" ,;|")
    text = re.sub(r"^(?:\*\*\*?)?([^*]*)(?:\*\*\*?)?$", r"\1", text).strip(" ,;|`")
    return re.sub(r"^([*_])([^*_]+)\1$", r"\2", text)
