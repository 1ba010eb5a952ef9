r"""Read the answer and the confidence of a reply, or report why they cannot be read without guessing.

A reply is read in three steps; ``docs/replies.md`` states the grammar, with a table of forms.

1. Its frame is removed: reasoning, marks, later turns.
2. Its fields are found: answers, confidences, or both in one (:mod:`elicitation.fields`, as the first step).
3. Each field is read by itself. What is doubtful is missing, and never takes another field with it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from bayes_direag.data.answers import AnswerKind, canonical, without_lead
from elicitation.fields import (
    OTHER_LABEL,
    PLACEHOLDER,
    Field,
    Scale,
    find_answers,
    find_items,
    next_question,
    plain_characters,
    reply_of,
)


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


def tell_unknown(reasons: Mapping[str, int]) -> str:
    """Return a sentence about replies with unknown finish reasons."""
    counts = ", ".join(f"{reason!r} {n}" for reason, n in sorted(reasons.items()))
    return f"Finish reasons that are not known, whose replies count as whole: {counts}."


@dataclass(frozen=True)
class Reading:
    """The contents of a reply.

    Attributes
    ----------
    answer : str or None
        The answer as given; None if there is none, or more than one.
    confidence : float or None
        In percent, 0..100; None if no readable one was stated.
    status : ParseStatus
        ``ok`` if everything asked for is there, otherwise the defect; ``guessed`` only by :func:`read_last_number`.
    """

    answer: str | None
    confidence: float | None
    status: ParseStatus


@dataclass(frozen=True)
class Guesses:
    """A list of guesses: pairs of answer and probability in percent, in the order of the list."""

    answers: tuple[tuple[str, float], ...]
    status: ParseStatus


_MAX_LINE = 500  # characters of an answer and a confidence in one
_EMPHASIS = " \t*_`\"'"
_ENCLOSED = re.compile(
    r"\\(?:f?boxed|text(?:bf|it)?|math(?:rm|bf))\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|[(\[<{]([^()\[\]<>{}]*)[)\]>}]"
)
_FILLED_IN = re.compile(r"<\s*([\d.,]+\s*%?)\s*>")
_COMMA = re.compile(r"\s*[,;|\u3001(\[]\s*")
_SPACE = re.compile(r"\s*:\s+|\s+[-\u2013\u2014]\s+|\s+")
_HEDGE = (
    r"\b(?:and|with|i(?:'m|'d)?|am|say|my|an?|the|in|this|that|answer|is|of|about|around|roughly|approximately|approx"
    r"|circa|nearly|almost|maybe|perhaps|probably|very|quite|fairly|pretty|extremely|high(?:ly)?|medium|moderate(?:ly)?"
    r"|low|confidence|confident|certainty|certain|sure|probability|likelihood|likely|guess|think|estimate"
    r"|would|it|as|at(?!\s+(?:least|most)))\b\.?|[\s*_$\"'`~\u2248:=]|\\boxed(?=\{)"
)
_BOUND = (
    r"[<>\u2264\u2265]|\b(?:over|above|under|below|less|more|greater|than|at|least|most|up|to|between|from|not|or)\b"
    r"(?!\s*[,;(])"
)
_NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?+|\.\d++)(?!\w|,\d)"
_UNIT = r"[\])}*_$]*\s*(?:%|percent\b|per\s?cent\b)"
_SURE = r"(?:confiden|certain|sure|likel|probab)\w*"
_CLOSE = r"[\s)\]}*_`\"'$.,;:!%|\u3002\uff61\u0964\u0965\u06d4\u0589\u1362]*+"  # full stops of other scripts too
_CONFIDENCE = re.compile(
    rf"""
    (?P<before>(?:{_HEDGE}|[(\[{{,;]|(?P<bound>{_BOUND}))*+)
    (?P<number>{_NUMBER})
    (?:(?P<percent>{_UNIT})|\s*(?:/|out\s+of)\s*(?P<total>\d{{1,3}})(?![\d.,]*\d))?
    (?:\s*(?:\u00b1|\+/?-)\s*{_NUMBER}(?:{_UNIT})?)?
    (?P<range>(?:(?:[-\u2013\u2014/]|(?<=[%t])\s*[-\u2013\u2014]\s*|\s*\b(?:to|and|or)\b\s*){_NUMBER}(?:{_UNIT})?|\+)*)
    {_CLOSE}(?P<sure>{_SURE})?{_CLOSE}
    (?P<remark>
      (?:(?:because|since|as|given|based)\b|\(|(?<=\s)[-\u2013\u2014]|-ish|(?<=[.!]\s)[^\W\d])[^\d+]*
    )?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"[,;|(].*%|[,;(][^,;(]*\b(?:my|sure|certain|confident|probably|likely|high|low|roughly|perhaps|maybe)\b"
    r"|\bi(?:'m|'d)?\s+(?:am|think|know|believe|guess|would|say|feel|suppose)\b|\bas far as\b",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"(?<![\w,;] )(?<![\w'-])(?:correction|actually|wait|oops|sorry|hmm+|scratch that|edit|update|no(?=[,.!:])"
    r"|apologies|on (?:second thoughts?|reflection)|my mistake|i (?:was wrong|mis\w+|made an?)"
    r"|let me (?:correct|fix|re\w+))\b|\bthat(?:'s| is| was) (?:wrong|incorrect|not (?:right|correct))"
    r"|\b(?:it|that|answer) should (?:be|have been)\b|\b(?:correct|right|real|actual|true) answer (?:is|was)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"\w{3}[.!?]\s+(?:I|It|This|That|The|They|These|He|She|We|You|Because|Since|So)\b")
_LAST_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s*/\s*\d+)?")
_PERCENTAGE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?=\s*%)")

_Value = tuple[float | None, ParseStatus]


class _Pair(NamedTuple):
    """An answer and a confidence in one text, and the gap between them."""

    answer: str
    gap: str
    stated: re.Match[str]


def read_reply(
    text: str,
    finish_reason: str | None,
    *,
    kind: AnswerKind = "numeric",
    scale: Scale = "percent",
    confident: bool = True,
) -> Reading:
    r"""Read the last answer of a reply, and its confidence.

    Parameters
    ----------
    text : str
        The reply.
    finish_reason : str or None
        Why the model stopped, as the server says; a reply that was cut off is not read.
    kind : {"numeric", "choice", "choices", "text"}
        How answers are compared: a text without a canonical form of this kind is not an answer, or an ambiguous one.
    scale : {"percent", "fraction"}
        What a confidence is that has no unit, and whose label does not say.
    confident : bool
        Whether a confidence was asked for.

    Returns
    -------
    Reading
        With status ``ok`` it has all that was asked for, otherwise those values that are unambiguous.

    Examples
    --------
    >>> read_reply("3 + 4 = 7\nAnswer and Confidence (0-100): 7, 90%", "stop")
    Reading(answer='7', confidence=90.0, status=<ParseStatus.OK: 'ok'>)
    >>> read_reply('{"answer": "Paris", "confidence": "high"}', "stop", kind="text")
    Reading(answer='Paris', confidence=None, status=<ParseStatus.NO_CONFIDENCE: 'no_confidence'>)
    """
    if (reply := reply_of(text, finish_reason)) is None:
        return Reading(None, None, ParseStatus.TRUNCATED)
    answers = [(field, stated) for field, stated in find_answers(reply, scale) if field.rank is None]
    if not answers:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    last, stated = answers[-1]
    if _CORRECTED.search(reply[last.end : next_question(reply, last.end)]):
        return Reading(None, None, ParseStatus.AMBIGUOUS)
    alternatives = [field.text for field, _ in answers if field.word == last.word in ("guess", "box")]
    if len({canonical(text, kind) for text in alternatives}) > 1:
        return Reading(None, None, ParseStatus.AMBIGUOUS)
    reading = _read(last, stated, kind)
    unsure = last.word == "line" or (last.word == "box" and "%" in last.text)
    if unsure and reading.confidence is None:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    if not confident:
        return Reading(reading.answer, None, reading.status if reading.answer is None else ParseStatus.OK)
    return reading


def read_guesses(
    text: str, finish_reason: str | None, k: int = 5, *, kind: AnswerKind = "numeric", scale: Scale = "percent"
) -> Guesses:
    """Read a list of guesses: labelled ones (``Guess 1: 18, 60%``, ``G1: 18``, ``P1: 60%``), or numbered lines.

    Of several lists the last counts of which every line has answer and probability, otherwise the last of which some
    line has. A list may be shorter than ``k``; a longer one, or one that is not numbered 1, 2, 3 ..., is ambiguous. The
    first guess that cannot be read gives the list its status; the others are kept. The other parameters are those of
    :func:`read_reply`.
    """
    if (reply := reply_of(text, finish_reason)) is None:
        return Guesses((), ParseStatus.TRUNCATED)
    labelled = [pair for pair in find_answers(reply, scale) if pair[0].rank is not None]
    lists: list[list[tuple[int | None, Reading]]] = []
    for field, stated in labelled or [(item, []) for item in find_items(reply, scale)]:
        if not lists or field.rank == 1:
            lists.append([])
        lists[-1].append((field.rank, _read(field, stated, kind)))
    n_read = [sum(reading.status is ParseStatus.OK for _, reading in guesses) for guesses in lists]
    if not any(n_read) and not labelled:
        return Guesses((), ParseStatus.NO_ANSWER)
    best = max(range(len(lists)), key=lambda k: (n_read[k] == len(lists[k]), n_read[k] > 0, k))
    ranks, readings = zip(*lists[best], strict=True)
    answers = tuple((r.answer, r.confidence) for r in readings if r.answer is not None and r.confidence is not None)
    if ranks != tuple(range(1, len(ranks) + 1)) or len(ranks) > k:
        return Guesses(answers[:k], ParseStatus.AMBIGUOUS)
    defects = [reading.status for reading in readings if reading.status is not ParseStatus.OK]
    return Guesses(answers, defects[0] if defects else ParseStatus.OK)


def read_by_pattern(
    text: str, finish_reason: str | None, pattern: re.Pattern[str], scale: Scale = "percent"
) -> Reading:
    r"""Read a reply by a pattern of the user: its first group is the answer, its second, if any, the confidence.

    Of several matches the last counts. The confidence is read as in a field of its own.

    Examples
    --------
    >>> read_by_pattern("So the answer is 18.\nI am 90% sure.", "stop", re.compile(r"answer is (\d+)"))
    Reading(answer='18', confidence=None, status=<ParseStatus.NO_CONFIDENCE: 'no_confidence'>)
    """
    if (reply := reply_of(text, finish_reason)) is None:
        return Reading(None, None, ParseStatus.TRUNCATED)
    answers = [match for match in pattern.finditer(reply) if match[1] and match[1].strip()]
    if answers and (end := next_question(reply, answers[0].end())) is not None:
        answers = [match for match in answers if match.start() < end]
    if not answers:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    answer, *stated = answers[-1].groups()
    return Reading(answer.strip(), *read_confidence((stated and stated[0]) or "", scale))


def read_last_number(text: str, *, confident: bool) -> Reading:
    """Read a reply without a final line as the released code of the paper does.

    The answer is the last number of the text, even a percentage. The confidence, if asked for, is the first percentage;
    without one nothing is read. The status is ``guessed``.

    Examples
    --------
    >>> read_last_number("I am 90% sure that 3 + 4 = 7.", confident=True)
    Reading(answer='7', confidence=90.0, status=<ParseStatus.GUESSED: 'guessed'>)
    """
    answers, percentages = _LAST_NUMBER.findall(text), _PERCENTAGE.findall(text)
    if not answers or (confident and not percentages):
        return Reading(None, None, ParseStatus.NO_ANSWER)
    return Reading(answers[-1], min(float(percentages[0]), 100.0) if confident else None, ParseStatus.GUESSED)


def _read(field: Field, stated: list[Field], kind: AnswerKind) -> Reading:
    """Read an answer, and its confidence in the same field or in others."""
    text: str | None = field.text
    values = [read_confidence(other.text, other.scale) for other in stated]
    content = _bare(_FILLED_IN.sub(r"\1", PLACEHOLDER.sub(" ", field.text)))
    pair = _split(content, kind) if len(content) <= _MAX_LINE else None
    both = field.what == "both" or field.rank is not None
    if both and (not values or (pair is not None and pair.stated["percent"])):
        text, own = _read_both(content, pair, field, kind)
        values.append(own)
    elif pair is not None and re.match("confiden|certain|sure", pair.stated["sure"] or "", re.IGNORECASE):
        text = pair.answer
        values.append(_percent(pair.stated, field.scale))
    elif _is_doubtful(field, None if values else pair, kind):
        text = None
    readable = [value for value in values if value[0] is not None]
    confidence, defect = (readable or values or [(None, ParseStatus.NO_CONFIDENCE)])[0]
    if len(set(readable)) > 1:
        confidence, defect = None, ParseStatus.AMBIGUOUS
    if text is None:
        return Reading(None, confidence, ParseStatus.AMBIGUOUS)
    answer = _bare(text, words=kind == "text").strip(" ,;:|")
    if canonical(answer, kind) is None:
        several = re.search(r"\d" if kind == "numeric" else r"\w", answer)
        return Reading(None, confidence, ParseStatus.AMBIGUOUS if several else ParseStatus.NO_ANSWER)
    return Reading(answer, confidence, defect)


def _is_doubtful(field: Field, pair: _Pair | None, kind: AnswerKind) -> bool:
    """Tell whether an answer may not be all of its text: there is a value, a sentence or another label with it."""
    if field.word == "line" and re.search(r"\bnot\b" if kind != "text" else r"\b(?:not|answer)\b", field.text, re.I):
        return True
    if kind != "text":
        return all(re.match(r"\s*(?:[-*+\u2022]|\d+[.)])\s", line) for line in (field.text, field.more))
    if field.word == "is" or without_lead(field.text.strip()) != field.text.strip():
        return re.search(r"[.!?]\s", field.text) is not None
    if (field.word and field.more) or _SENTENCE.search(field.text):
        return True
    value = "" if pair is None or not field.word else pair.stated["percent"] or pair.stated["number"]
    labelled = field.word == "line" and OTHER_LABEL.match(field.text) is not None
    return labelled or "%" in value or value.startswith("0.")


def _split(content: str, kind: AnswerKind) -> _Pair | None:
    """Return an answer and its confidence, if all the rest after a gap is one.

    That says what it is, or follows a comma and a space. Without a comma it needs a unit or a word.
    """
    for separator in [*_COMMA.finditer(content), *_SPACE.finditer(content)]:
        answer, gap = content[: separator.start()], separator[0]
        if (stated := _CONFIDENCE.fullmatch(content, separator.end())) is None:
            continue
        clear = re.search(_SURE, stated[0], re.IGNORECASE) is not None
        unit = (stated["percent"] or stated["total"]) is not None
        if _COMMA.fullmatch(gap):
            clear |= unit or (gap != "," and "$" not in stated["before"] and Decimal(stated["number"]) <= 100)
        elif stated["remark"] or stated["range"] or re.search(r"[,;(]", stated["before"]):
            continue
        elif unit and gap.isspace():
            clear |= kind != "text" and " " not in answer and canonical(answer, kind) is not None
        else:
            clear |= unit
        if clear:
            return _Pair(answer, gap, stated)
    return None


def _read_both(content: str, pair: _Pair | None, field: Field, kind: AnswerKind) -> tuple[str | None, _Value]:
    """Return the text of the answer in a field with both, None if it cannot be told apart, and the confidence."""
    if pair is not None:
        torn = any(pair.answer.count(left) > pair.answer.count(right) for left, right in ("()", "[]", "{}"))
        if torn or _may_be_one_number(pair, listed=field.rank is not None):
            return None, (None, ParseStatus.AMBIGUOUS)
        spoken = _SPOKEN.search(pair.answer) or re.search(r"\w.*[,;(]", pair.stated["before"])
        return None if spoken and kind == "text" else pair.answer, _percent(pair.stated, field.scale)
    unclear = len(content) > _MAX_LINE or re.search(r"\d\s*(?:%|percent)", content) is not None
    missing = None, ParseStatus.AMBIGUOUS if unclear else ParseStatus.NO_CONFIDENCE
    first = re.match(r"(.{1,100}?)[,;|(\[]\s*[^\W\d_]", content)
    if kind != "text" and first is not None and canonical(first[1], kind) is not None:
        return first[1], missing
    if unclear:
        return None, missing
    content = content.rstrip(" ,;|.%")
    last = re.fullmatch(r"(.+)[,;|(\[](.*)", content)
    if kind != "text" or last is None:
        return content, missing
    hedged = re.fullmatch(rf"(?:{_HEDGE}|{_BOUND})*[)\]]*", last[2], re.IGNORECASE)
    return last[1] if hedged else None, missing


def _may_be_one_number(pair: _Pair, *, listed: bool) -> bool:
    """Tell whether answer and confidence may be parts of one number, in the wrong order, or a range."""
    answer, gap, number = pair.answer, pair.gap, pair.stated["number"]
    if "%" in answer and not pair.stated["percent"]:
        return True
    if gap.strip() in "-\u2013\u2014" and re.search(r"[,;|]\s*\d+$", answer):
        return True
    if not re.search(r"(?<![\d.,])\d{1,3}(?:,\d{3})*$", answer):
        return False
    if gap == ",":
        return (len(number) != 2 and not (listed and number == "100")) or re.search(r"(?<!\d)0$", answer) is not None
    return gap == " " and re.match(r"\d{3}", number) is not None


def read_confidence(text: str, scale: Scale) -> tuple[float | None, ParseStatus]:
    """Return the confidence that a text states, in percent, and ``ok``; or None and the defect.

    It is one number with hedges around it. Of a margin it is the centre; a range, a bound or a word is missing.
    """
    text = _bare(_FILLED_IN.sub(r"\1", plain_characters(text).replace("\\%", "%")))
    text = re.sub(r"\d", lambda digit: str(int(digit[0])), re.sub(r"(?<=\d),(?=\d{1,2}(?!\d))", ".", text))
    if (stated := _CONFIDENCE.fullmatch(text)) is not None:
        return _percent(stated, scale)
    return None, ParseStatus.AMBIGUOUS if re.search(r"\d", text) else ParseStatus.NO_CONFIDENCE


def _percent(stated: re.Match[str], scale: Scale) -> _Value:
    number, total = Decimal(stated["number"]), int(stated["total"] or 0)
    point = "." in stated["number"]
    if stated["bound"] or stated["range"] or total not in (0, 5, 10, 100) or scale == "unknown":
        return None, ParseStatus.AMBIGUOUS
    if total:
        number *= 100 // total
    elif not stated["percent"] and (scale == "fraction" or (scale == "probability" and point and number <= 1)):
        number *= 100
    elif 0 < number < 1 or (number == 1 and (point or not stated["percent"])):
        return None, ParseStatus.AMBIGUOUS
    if not 0 <= number <= 100:
        return None, ParseStatus.OUT_OF_RANGE
    return float(abs(number)), ParseStatus.OK


def _bare(text: str, *, words: bool = False) -> str:
    """Return a text without emphasis, and without brackets or commands that enclose all of it.

    In a text of ``words``, brackets around numbers or several things are part of it.
    """
    text = re.sub(r"(?<!\d)\*\*|\*\*(?!\d)|`", "", re.sub(r"[ \t\r\n]+", " ", text)).strip(_EMPHASIS)
    while (enclosed := _ENCLOSED.fullmatch(text.strip(f"{_EMPHASIS}.$"))) is not None:
        if words and enclosed[1] is None and not re.fullmatch(r"[^\d,]+", enclosed[2]):
            break
        text = (enclosed[1] or enclosed[2] or "").strip(_EMPHASIS)
    return text
