r"""Read the answer and the confidence of a reply, or report why they cannot be read without guessing.

The last line with the label ``Answer and Confidence (0-100):`` is the final line. After the label it must have one
answer and one confidence in percent, which can be read in only one way.

- The last such line counts, because a model that corrects itself writes it again. A form copied from the prompt
  (``<number>, <confidence>%``) is not a final line, and a new question that the model asks itself (``Question: ...``)
  ends the reply.
- Case, Markdown, LaTeX, brackets, full-width characters and a missing ``(0-100)`` do not matter. Without a final line,
  two lines ``Answer: ...`` and ``Confidence: ...`` count. Numbers in free text never count.
- The confidence comes last, after a comma, another separator or the word. The percent sign may be missing only after a
  comma with a space, or after the word. A comma directly between digits may be part of a number: ``1,234`` is an
  answer without a confidence, ``18,95%`` is two values, and ``1,234%`` is ambiguous.
- A confidence above 0 and below 1 (or 1 without a percent sign) is ambiguous, as it may be on a scale from 0 to 1.
- A truncated reply is not read.

The same rules hold for the final lines of other protocols (``Final Answer: 51``, ``Guess 1: 51, 95%``,
``1. 51, 95%``). The fall-back of the paper's released code, :func:`read_last_number`, does guess.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from bayes_direag.data.answers import AnswerKind, canonical


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
class TopK:
    """A list of guesses: pairs of answer and probability in percent, in the order of the list."""

    answers: tuple[tuple[str, float], ...]
    status: ParseStatus


_CUT_OFF = frozenset({"length", "max_tokens", "content_filter", "abort", "error"})  # finish reasons
_MAX_CONTENT = 500  # characters of a final line
_MAX_LINES = 8  # over which a final line may be broken
_EMPHASIS = " \t*_`\"'"

_CHARACTERS = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms
    | dict.fromkeys((0x00A0, 0x2007, 0x202F, 0x3000), " ")
    | dict.fromkeys((0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))  # invisible: removed
    | {0x3001: ",", 0xFE50: ",", 0x3002: ".", 0x066A: "%", 0xFE6A: "%", 0x2236: ":", 0x2028: "\n", 0x0085: "\n"}
)
_LABEL = re.compile(
    r"answer[ \t*_]*(?:and|&)[ \t*_]*confidence(?:[ \t]+level)?[ \t*_`\"']*"
    r"(?:\([ \t]*0[ \t]*%?[ \t]*(?:[-\u2010-\u2015]|to)[ \t]*100[ \t]*%?[ \t]*\)[ \t*_`\"']*[:=]?|[:=])",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"^(?:[^\w\n]|_)*(?:(?:my|the|final)\s+)*answer[ \t*_]*[:=]", re.I | re.M)
_CONFIDENCE = re.compile(
    r"^(?:[^\w\n]|_)*(?:(?:my|the)\s+)?confidence(?:[ \t]+(?:level|score))?[ \t*_]*(?:\(0\s*-\s*100%?\))?[ \t*_]*[:=]",
    re.I | re.M,
)
_NUMBERED = re.compile(r"^[^\w\n]*(?P<rank>\d{1,3})[ \t*_]*[.)](?=[ \t*_]*[^\s\d*_]|[ \t*_]+\S)", re.M)
_TOP = re.compile(r"^[^\w\n]*top[ \t]+(?:\d+[ \t]+)?(?:answers|guesses)\b[^\n]*$", re.I | re.M)
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s*/\s*\d+)?")
_PERCENTAGE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?=\s*%)")
_GUESS = re.compile(r"^(?:[^\w\n]|_)*guess[ \t]*#?(?P<rank>\d{1,3})[ \t*_]*[:.)=]", re.I | re.M)
_NEW_QUESTION = re.compile(
    r"^[^\w\n]*(?:(?:next|new)\s+)?(?:question|problem|user|human|instructions?)\b[ \t*_]*\d*[ \t*_]*:"
    r"|<\|(?:im_start|start_header_id|user)\|>|<start_of_turn>|\[INST\]",
    re.I | re.M,
)
_PLACEHOLDER = re.compile(
    r"[<\[{(]\s*(?:(?:your|the|a|only|insert)\s+)*(?:number|answer|confidence|probability|final|level|value)\b"
    r"[^<>\[\]{}()\d]*[>\]})]",
    re.I,
)
_PAIR = re.compile(
    r"""
    (?P<answer>.*?)
    (?P<gap>\s*[,;|(\[]\s*|\s*:\s+|\s+[-\u2013\u2014]\s+|\s+)
    (?:[\s\[({<*_$"'~\u2248:=]|\\boxed(?=\{)
      |\b(?:and|with|i|am|i'm|my|a|an|the|is|of|at|about|around|approximately|level|score)\b
      |(?P<word>\b(?:confidence|confident|certainty|probability)\b))*+
    (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))
    [\])}>*_$]*\s*
    (?P<unit>%|percent\b|/\s*100\b|out\s+of\s+100\b)?
    (?:[\s)\]}>*_`"'.$]|\b(?:confidence|confident|certain|sure)\b)*
    (?:\([^()\d]*\))?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ENCLOSED = re.compile(
    r"\\(?:f?boxed|text(?:bf|it)?|math(?:rm|bf))\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}|[(\[<{]([^()\[\]<>{}]*)[)\]>}]"
)


def read_reply(text: str, finish_reason: str | None, *, kind: AnswerKind = "numeric") -> Reading:
    r"""Read the final line of a reply.

    Parameters
    ----------
    text : str
        The reply.
    finish_reason : str or None
        Why the model stopped, as the server says; a truncated reply (``length``) is not read.
    kind : {"numeric", "choice", "text"}
        How answers are compared: a text without a canonical form of this kind is not an answer, or an ambiguous one.

    Returns
    -------
    Reading
        With status ``ok`` it has both values, otherwise those that are unambiguous.

    Examples
    --------
    >>> read_reply("3 + 4 = 7\nAnswer and Confidence (0-100): 7, 90%", "stop")
    Reading(answer='7', confidence=90.0, status=<ParseStatus.OK: 'ok'>)
    >>> read_reply("Answer and Confidence (0-100): 1,234", "stop").status
    <ParseStatus.NO_CONFIDENCE: 'no_confidence'>
    """
    if finish_reason in _CUT_OFF:
        return Reading(None, None, ParseStatus.TRUNCATED)
    content = _final_content(_plain(text))
    return Reading(None, None, ParseStatus.NO_ANSWER) if content is None else _read_pair(content, kind)


def read_answer(text: str, finish_reason: str | None, *, kind: AnswerKind = "numeric") -> Reading:
    r"""Read the last line ``Final Answer: ...`` of a reply that was not asked for a confidence.

    Examples
    --------
    >>> read_answer("3 + 4 = 7\nFinal Answer: 7", "stop")
    Reading(answer='7', confidence=None, status=<ParseStatus.OK: 'ok'>)
    """
    if finish_reason in _CUT_OFF:
        return Reading(None, None, ParseStatus.TRUNCATED)
    lines = _lines(_plain(text), _ANSWER)
    if not lines:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    return _judged(_bare(_PLACEHOLDER.sub(" ", lines[-1][1])), None, ParseStatus.OK, kind)


def read_last_number(text: str, *, confident: bool) -> Reading:
    """Read a reply without a final line as the released code of the paper does.

    The answer is the last number of the text, even a percentage. The confidence, if asked for, is the first percentage;
    without one nothing is read. The status is ``guessed``.

    Examples
    --------
    >>> read_last_number("I am 90% sure that 3 + 4 = 7.", confident=True)
    Reading(answer='7', confidence=90.0, status=<ParseStatus.GUESSED: 'guessed'>)
    """
    answers, percentages = _NUMBER.findall(text), _PERCENTAGE.findall(text)
    if not answers or (confident and not percentages):
        return Reading(None, None, ParseStatus.NO_ANSWER)
    return Reading(answers[-1], min(float(percentages[0]), 100.0) if confident else None, ParseStatus.GUESSED)


def read_top_k(
    text: str, finish_reason: str | None, k: int = 5, *, kind: AnswerKind = "numeric", numbered: bool = False
) -> TopK:
    """Read a list of guesses, each a line ``Guess 1: <number>, <probability>%``.

    Of several lists the last counts. A list may be shorter than ``k``; a longer one, or one that is not numbered 1, 2,
    3 ..., is ambiguous. The first guess that cannot be read gives the list its status; the others are kept.

    Parameters
    ----------
    text, finish_reason, kind
        As for :func:`read_reply`.
    k : int
        The maximum number of guesses.
    numbered : bool
        Whether the lines are ``1. <number>, <probability>%``. The list then follows the last line ``Top Answers``, or,
        without one, consists of the numbered lines with a percentage.
    """
    if finish_reason in _CUT_OFF:
        return TopK((), ParseStatus.TRUNCATED)
    text = _plain(text)
    headings = [*_TOP.finditer(text)] if numbered else []
    labelled = _lines(text[headings[-1].end() if headings else 0 :], _NUMBERED if numbered else _GUESS)
    lines = [(int(label["rank"]), line) for label, line in labelled if headings or not numbered or "%" in line]
    starts = [place for place, (rank, _) in enumerate(lines) if rank == 1]
    lines = lines[starts[-1] if starts else 0 :]
    if not lines:
        return TopK((), ParseStatus.NO_ANSWER)
    readings = [_read_pair(content, kind) for _, content in lines]
    answers = tuple((r.answer, r.confidence) for r in readings if r.answer is not None and r.confidence is not None)
    if [rank for rank, _ in lines] != list(range(1, len(lines) + 1)) or len(lines) > k:
        return TopK(answers[:k], ParseStatus.AMBIGUOUS)
    bad = [reading.status for reading in readings if reading.status is not ParseStatus.OK]
    return TopK(answers, bad[0] if bad else ParseStatus.OK)


def read_by_pattern(text: str, finish_reason: str | None, pattern: re.Pattern[str]) -> Reading:
    r"""Read a reply by a pattern of the user: its first group is the answer, its second, if any, the confidence.

    Of several matches the last counts. The confidence is read as in a final line.

    Examples
    --------
    >>> read_by_pattern("So the answer is 18.\nI am 90% sure.", "stop", re.compile(r"answer is (\d+)"))
    Reading(answer='18', confidence=None, status=<ParseStatus.NO_CONFIDENCE: 'no_confidence'>)
    """
    if finish_reason in _CUT_OFF:
        return Reading(None, None, ParseStatus.TRUNCATED)
    answers = [match for match in pattern.finditer(text) if match[1] and match[1].strip()]
    if not answers:
        return Reading(None, None, ParseStatus.NO_ANSWER)
    answer, *stated = answers[-1].groups()
    pair = _PAIR.fullmatch(f"x, {stated[0].strip().removesuffix('%')}%") if stated and stated[0] else None
    return Reading(answer.strip(), *((None, ParseStatus.NO_CONFIDENCE) if pair is None else _confidence(pair)))


def _plain(text: str) -> str:
    """Return a reply in plain characters, without marked reasoning and end marks."""
    text = text.translate(_CHARACTERS).replace("\r", "\n")
    text = text.rpartition("</think>")[2]
    text = re.sub(r"<\|(?:im_end|eot_id|endoftext|end)\|>|<end_of_turn>|</s>|<eos>", "\n", text)
    text = re.sub(r"<(\w+)>([^<>\n]*)</\1>", r"\2", text)
    return re.sub(r"\\[()\[\]]|\\+(?=[%$#])", "", text)


def _states(content: str) -> bool:
    """Tell whether a line has any words apart from a form copied from the prompt."""
    return re.search(r"\w", _PLACEHOLDER.sub("", content)) is not None


def _lines(text: str, label: re.Pattern[str]) -> list[tuple[re.Match[str], str]]:
    """Return the labels of a text with their contents, if not empty, up to the beginning of a new question.

    The content follows the label, or is on the next line that is not empty.
    """
    lines: list[tuple[re.Match[str], str]] = []
    matches = list(label.finditer(text))
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        if lines and _NEW_QUESTION.search(text, lines[0][0].end(), match.start()):
            break
        content, *rest = text[match.end() : following.start() if following else None].split("\n")
        for line in [line for line in rest if line.strip()][:_MAX_LINES]:
            if re.search(r"\w", content) and not content.rstrip().endswith(","):
                break
            content = f"{content} {line}"
        if _states(content):
            lines.append((match, content))
    return lines


def _final_content(text: str) -> str | None:
    """Return the content of the final line after its label, None if there is no such line."""
    lines = _lines(text, _LABEL) or _lines(text, _ANSWER)
    if not lines:
        return None
    label, content = lines[-1]
    content = re.sub(r"^(?:[^\w\n]|_)*answer[ \t*_]*[:=]", "", content, flags=re.I)
    if "%" not in content and "confidence" not in content.lower():
        confidence = [line for match, line in _lines(text, _CONFIDENCE) if match.start() >= label.end()]
        content = ", ".join([content.rstrip(" \t*_,;."), *confidence[:1]])
    return content


def _read_pair(content: str, kind: AnswerKind) -> Reading:
    """Read one answer and one confidence from the content of a final line."""
    content = _bare(_PLACEHOLDER.sub(" ", content))
    if len(content) > _MAX_CONTENT:
        return Reading(None, None, ParseStatus.AMBIGUOUS)
    pair = _PAIR.fullmatch(content)
    if pair is not None and _separates(pair):
        if _may_be_one_number(pair):
            return Reading(None, None, ParseStatus.AMBIGUOUS)
        return _judged(pair["answer"], *_confidence(pair), kind)
    if re.search(r"\d\s*(?:%|percent)", content):
        return Reading(None, None, ParseStatus.AMBIGUOUS)
    answer, _, comment = content.rpartition(", ")
    if not answer or re.search(r"\d", comment):
        answer = content
    return _judged(answer, None, ParseStatus.NO_CONFIDENCE, kind)


def _bare(content: str) -> str:
    """Return the content of a line without emphasis, and without brackets or commands that enclose all of it."""
    content = re.sub(r"(?<!\d)\*\*|\*\*(?!\d)|`", "", " ".join(content.split())).strip(_EMPHASIS)
    while (enclosed := _ENCLOSED.fullmatch(content.strip(f"{_EMPHASIS}.$"))) is not None:
        content = (enclosed[1] or enclosed[2] or "").strip(_EMPHASIS)
    return content


def _separates(pair: re.Match[str]) -> bool:
    """Tell whether the last number is a confidence: it says so, or follows a comma and a space."""
    if pair["unit"] or pair["word"]:
        return True
    before = pair.string[pair.start("gap") : pair.start("number")]
    parts = re.match(r"\s*[,;|]", before) is not None and pair["gap"] != "," and "$" not in before
    return parts and Decimal(pair["number"]) <= 100


def _may_be_one_number(pair: re.Match[str]) -> bool:
    """Tell whether answer and confidence may be parts of one number, or in the wrong order."""
    answer, number = pair["answer"], pair["number"]
    if not pair["unit"] and "%" in answer:
        return True
    if not re.search(r"(?<![\d.,])\d{1,3}(?:,\d{3})*$", answer):
        return False
    if pair["gap"] == ",":
        return len(number) != 2 or re.search(r"(?<!\d)0$", answer) is not None
    return pair["gap"] == " " and re.match(r"\d{3}", number) is not None


def _confidence(pair: re.Match[str]) -> tuple[float | None, ParseStatus]:
    """Return the confidence of a pair in percent, and its status."""
    value = Decimal(pair["number"])
    if not 0 <= value <= 100:
        return None, ParseStatus.OUT_OF_RANGE
    if 0 < value < 1 or (value == 1 and (not pair["unit"] or "." in pair["number"])):
        return None, ParseStatus.AMBIGUOUS
    return float(abs(value)), ParseStatus.OK


def _judged(answer: str, confidence: float | None, status: ParseStatus, kind: AnswerKind) -> Reading:
    """Return a reading, without the answer if it is not a single answer of its kind."""
    answer = _bare(answer).strip(f"{_EMPHASIS},;:|%" if confidence is None else f"{_EMPHASIS},;:|")
    if canonical(answer, kind) is None:
        several = re.search(r"\d" if kind == "numeric" else r"\w", answer)
        return Reading(None, confidence, ParseStatus.AMBIGUOUS if several else ParseStatus.NO_ANSWER)
    return Reading(answer, confidence, status)
