r"""Read the answer and the confidence of a reply, or report why they cannot be read without guessing.

Its fields (:mod:`elicitation.fields`) are read each by itself, as a whole: what is doubtful is missing, and takes no
other field with it. ``docs/replies.md`` has a table of the forms.
"""

import re
from collections.abc import Sequence
from decimal import Decimal

from bayes_direag.data.answers import AnswerKind, canonical
from elicitation.fields import DRAFT, Answer, Scale, find_answers
from elicitation.readings import Guesses, ParseStatus, Reading
from elicitation.reply_text import next_question, plain_characters, reply_of

_CORRECTED = re.compile(
    r"(?i)\b(?:correction|actually|wait|oops|sorry|hmm+|scratch that|apologies|mistake"
    r"|i (?:was wrong|mis\w+|forgot|overlooked)|on (?:second thoughts?|reflection)|let me (?:correct|fix|re\w+)"
    r"|(?:it|that|answer) should (?:be|have been)|(?:correct|right|real|actual|true) answer (?:is|was)"
    r"|(?:is|was|'s) (?:wrong|incorrect|not (?:right|correct)))\b"
    r"|(?<![\w,;] )\bno[,.!:]|\b(?:edit|update):|\bmake (?:that|it)\b|\bi mean\b|\b(?:it|that) must be\b"
)
_CLAUSE = re.compile(r"\A(?:[^.!?;,\n-]|(?<=\d)[.,](?=\d))*+")  # of a confidence: how sure, perhaps of being wrong
# A later answer that no label names.
_BARE_PAIR = re.compile(
    r"(?mi)^[^\w\n]{0,9}+\S{1,60}(?: \S{1,60})? ?[,;|(] ?\d{1,3}(?:\.\d{1,9})? ?%[^\w\n]{0,9}$|\bfinal\W{0,4}(?::|$)"
)
_HEDGE = re.compile(
    r"(?is)\b(?:about|around|roughly|approximately|approx|circa|nearly|almost|maybe|perhaps|probably|very|quite|fairly|pretty"
    r"|extremely|high(?:ly)?|medium|moderate(?:ly)?|low|confident|certain|sure|likely|i(?:'m|'d)?|am|say|my|an?|the"
    r"|(?:confidence|certainty|probability|likelihood)(?:\s+(?:of|is))?|(?:because|since)\b.*)\b"
)
_NUMBER = re.compile(
    r"(?i)((?:(?<!\S)-)?(?<![\w.,])(?:\d+(?:[.,]\d{1,2}|\.\d+)?|\.\d+))(?![\w]|[.,]\d)"
    r"(?:\s*(%|percent\b|per cent\b)|\s*(?:/|out\s+of)\s*(100?)(?![.,]?\d))?"
)
# A confidence stands behind the last comma or, without one, in brackets at the end.
_BOTH = re.compile(r"(.*)(?:[;|\u3001]\s*|,\s+|(?<!\d),)(.*)|(.*\S)\s*\(([^()]*)\)\W*")
_ENCLOSED = re.compile(r"\\boxed\{([^{}]*)\}|[<\[]([^<>\[\]]*)[>\]]|^\(([^()]*)\)$")
# The brackets of a prompt. A text has its own, unless it is of words, or its confidence is in the same.
_COPIED = re.compile(r"<++([^<>\[\]]+)>+|\[++([^<>\[\]]+)\]+|\{([^{}]+)\}")
_WORDS = re.compile(r"<[A-Z][^\d,;\"']*>|\[[^\W\d_][^\d,;\"']*\]")
# What no text is as an answer: one with a confidence, a sentence about an answer, or two sentences.
_DOUBTFUL = re.compile(
    r"(?i)(?:[,;:(/|\u2013\u2014]|\s-\s)\s*~?(?:\d+(?:\.\d+)?\s*%|0?\.\d)|\d\s*(?:%|percent)\s*(?:sure|certain|confiden|likely|prob)"
    r"|\b(?:confiden|certain|probab|likel)\w*(?:\W+(?:of|is|at|about|level|score))*\W+\d|\b(?:confidence|probability)\b.*:"
    r"|\banswer(?:\s+is\b|:)|\w{2}[.!?]\s+(?-i:I|It|This|That|The|They|He|She|We|You|So)\b"
)
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
    answers, said = find_answers(reply, scale)
    answers = [answer for answer in answers if answer.field.rank is None]
    if not answers:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    last, stated = answers[-1]
    if stated and stated[0].label in ("p", "l") and re.search(r"\w", said[last.end : stated[0].start]):
        answers[-1] = Answer(last, [])  # a probability of mathematics: its own stands right behind the answer
    readings = [_read(answer, kind) for answer in answers]
    reading, behind = readings[-1], [field for field in stated if field.start >= last.end]
    places = [last.end, *(place for field in behind for place in (field.start, field.end)), len(said)]
    pieces = [said[slice(*pair)] for pair in zip(places[::2], places[1::2], strict=True)]
    is_corrected = _CORRECTED.search("\n".join([*pieces, *(_CLAUSE.sub("", field.text) for field in behind)]))
    if is_corrected or _BARE_PAIR.search(said, places[-2]) or not _is_last(said, answers, readings, kind):
        return Reading(None, None, ParseStatus.AMBIGUOUS)
    may_be_else = last.label == "line" or (last.label == "box" and "%" in last.text)  # a box may hold the confidence
    if may_be_else and reading.confidence is None:
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
    answers, said = find_answers(reply, scale)
    if not (is_labelled := any(answer.field.rank is not None for answer in answers)):
        answers, said = find_answers(_ITEM.sub(r"Guess \1: ", reply), scale)
    lists: list[list[tuple[int, Reading]]] = []
    for answer in answers:
        if (rank := answer.field.rank) is not None:
            lists += [[]] if not lists or rank == 1 else []
            lists[-1].append((rank, _read(answer, kind)))
    whole = [guesses for guesses in lists if all(reading.status is ParseStatus.OK for _, reading in guesses)]
    if not lists or not (is_labelled or any(r.status is ParseStatus.OK for guesses in lists for _, r in guesses)):
        return Guesses((), ParseStatus.NO_ANSWER)
    if _CORRECTED.search(said, answers[-1].field.end):
        return Guesses((), ParseStatus.AMBIGUOUS)
    ranks, readings = zip(*(whole or lists)[-1], strict=True)
    pairs = tuple((r.answer, r.confidence) for r in readings if r.answer is not None and r.confidence is not None)
    if ranks != tuple(range(1, len(ranks) + 1)) or len(ranks) > k:
        return Guesses(pairs[:k], ParseStatus.AMBIGUOUS)
    return Guesses(pairs, next((r.status for r in readings if r.status is not ParseStatus.OK), ParseStatus.OK))


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


def _is_last(said: str, answers: Sequence[Answer], readings: Sequence[Reading], kind: AnswerKind) -> bool:
    """Tell whether the last answer has the value of all, or stands for the others: as final, or correcting them."""
    last, value = answers[-1].field, canonical(readings[-1].answer, kind)
    pairs = zip(answers, readings, strict=True)
    others = [(one.field, other.answer) for one, other in pairs if canonical(other.answer, kind) != value]
    if value is None or not others:
        return True
    between, read = (others[-1][0].end, last.start), [field for field, answer in others if answer is not None]
    is_later = last.is_final > any(field.is_final for field in read) or _CORRECTED.search(said, *between) is not None
    is_else = any(heading["other"] for heading in DRAFT.finditer(said, *between))
    return not is_else and (not read or (is_later and last.label not in ("g", "box")))


def _read(answer: Answer, kind: AnswerKind) -> Reading:
    """Read an answer, and its confidence in the same field or in others."""
    field, stated = answer
    text: str | None = (bare := _bare(field.text))
    values = [read_confidence(other.text, other.scale) for other in stated]
    pairs = [(_bare(one.text), value) for one, (value, _) in zip(stated, values, strict=True)]
    is_alike = any(value is not None and of[:1] == bare[:1] and _COPIED.fullmatch(of) for of, value in pairs)
    is_copied = kind != "text" or (field.label and (_WORDS.fullmatch(bare) or (is_alike and "," not in bare)))
    if is_copied and (copied := _COPIED.fullmatch(bare)):
        text = _bare(copied[copied.lastindex or 0])
    if not values and (field.what == "both" or field.rank is not None):
        text, *values = _split(bare, field.scale, kind)
    values = list(dict.fromkeys(value for value in values if value[0] is not None)) or values[:1]
    nothing = ParseStatus.AMBIGUOUS if values else ParseStatus.NO_CONFIDENCE
    confidence, defect = values[0] if len(values) == 1 else (None, nothing)
    spelling, following = canonical(text, kind), field.following
    if kind != "text" and field.label != "box":  # another value counts, but not an option that is explained
        is_value = kind == "numeric" or re.fullmatch(r"\W*\w\W*", following) is not None
        following = following if is_value and canonical(_bare(following), kind) not in (None, spelling) else ""
    is_doubtful = following or (kind == "text" and field.label and _DOUBTFUL.search(text or ""))
    if text is None or is_doubtful:
        return Reading(None, confidence, ParseStatus.AMBIGUOUS)
    if spelling is None:
        several = re.search(r"\d" if kind == "numeric" else r"\w", text)
        return Reading(None, confidence, ParseStatus.AMBIGUOUS if several else ParseStatus.NO_ANSWER)
    return Reading(text, confidence, defect)


def _split(content: str, scale: Scale, kind: AnswerKind) -> tuple[str | None, tuple[float | None, ParseStatus]]:
    """Return the answer and the confidence in a text with both; no answer if it cannot be told apart."""
    content = content if kind == "text" else _ENCLOSED.sub(r"\1\2\3", content)
    both = _BOTH.fullmatch(content)
    answer, stated = [part for part in both.groups() if part is not None] if both else (content, "")
    confidence, status = read_confidence(stated, scale)
    has_percent = re.search("%|percent", stated) is not None
    is_torn = kind == "text" and both is not None and both[3] is not None  # brackets may belong to the answer
    is_one = both is None and re.search(r"/\s*\d{1,3}$", answer) is not None  # a fraction, or two values
    is_hedged = kind == "text" and _is_hedge(answer.rpartition(",")[2]) and ("," in answer or "(" in stated)  # twice
    is_unclosed = answer.count('"') == 1 or any(answer.count(o) > answer.count(c) for o, c in ("()", "[]", "{}"))
    if is_unclosed or is_hedged or (not has_percent and (is_torn or is_one or "%" in answer or "$" in stated)):
        return None, (None, ParseStatus.AMBIGUOUS)
    is_word = _is_hedge(stated) if kind == "text" else has_percent or not re.search(r"\d", stated)
    is_number = _NUMBER.fullmatch(stated) and (has_percent or status is ParseStatus.AMBIGUOUS)
    return _bare(answer) if is_word or is_number or confidence is not None else None, (confidence, status)


def _is_hedge(text: str) -> bool:
    return not re.search(r"\w", _HEDGE.sub("", text))


def read_confidence(text: str, scale: Scale) -> tuple[float | None, ParseStatus]:
    """Return the confidence that a text states, in percent, and ``ok``; or None and the defect.

    It is one number, with hedges around it, or the same number twice. A range, a margin, a bound or a word is missing.
    """
    text = re.sub(r"\d", lambda digit: str(int(digit[0])), plain_characters(text))
    text = re.sub(r"<([^<>]*)>|[*_`$\\]", r"\1", text)
    numbers = [(Decimal(number.replace(",", ".")), *unit) for number, *unit in _NUMBER.findall(text)]
    if not numbers or re.search(r"[\w<>\u2264\u2265\u00b1+/]", _HEDGE.sub("", _NUMBER.sub("", text))):
        return None, ParseStatus.AMBIGUOUS if re.search(r"\d", text) else ParseStatus.NO_CONFIDENCE
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
