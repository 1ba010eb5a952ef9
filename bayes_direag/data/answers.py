r"""Canonical answers, so that two ways of writing one answer count as one candidate.

Answers are compared in a declared kind. What is not wholly an answer of this kind has no canonical form: it is missing,
never another answer. Markdown, LaTeX and "The answer is" before it do not count in any kind.

``numeric``: one exact rational number; the grammar is that of :mod:`bayes_direag.data.amounts`.

``choice``: one letter of any script, alone or before the option's own text; a second label makes it unreadable.

``choices``: a set of letters.

``text``: words without case, leading articles and the signs around words. Apostrophes, quotes, dashes and stops of all
scripts are alike; invisible characters and vowel points go.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Literal

from bayes_direag.data.amounts import MAX_SIZE, amount
from bayes_direag.data.plain import is_missing, spelled, unmarked
from bayes_direag.errors import ObservationError

AnswerKind = Literal["numeric", "choice", "choices", "text"]

_MAX_TEXT = 4000  # characters; longer answers are not read
_PLAIN_DIGITS = 30  # decimal exponents up to this one are written out

# Answers that are canonical already, as most are: they skip the parsing.
_CANONICAL: dict[AnswerKind, re.Pattern[str]] = {
    "numeric": re.compile(r"0|-?[1-9][0-9]{0,14}"),
    "choice": re.compile(r"[A-Z]"),
    "choices": re.compile(r"[A-Z]"),
    "text": re.compile(r"(?!(?:the|an?|answer|option|choice) |(?:nan|null)\Z)[a-z0-9]+(?: [a-z0-9]+)*"),
}
_LEAD = re.compile(
    r"(?:(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my) )?(?:(?:final|correct|right|best) )?"
    r"(?:answer|option|choice)(?: is ?:?| ?[:=]) ?)+(?=\S)",
    re.IGNORECASE,
)
_OPEN, _CLOSE = r"[(\[{\"']*", r"[)\]}\"']*"
_LETTER = r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]"  # of any script in which options are lettered
_BEFORE = (
    r"(?:the )?(?:option|choice|answer) |i (?:choose|pick|select) "
    r"|(?:故?选择?项?|選|答案|答え|正解|정답|ответ)[是为為は은]?:?\s*"
)
_BEHIND = (
    r"[.!,;:]?|选项|選項|번|번?입니다|です| is (?:the )?(?:correct|right|best)?(?: ?(?:answer|option|choice))?[.!]?"
)
_OPTION = re.compile(
    rf"(?:{_BEFORE})?{_OPEN}(?P<letter>{_LETTER})"
    rf"(?:{_CLOSE}(?:{_BEHIND})|(?:[)\]}}\"':]+\s*|[)\]]*[.:]\s+|\s+-\s+)(?P<text>\S.*))",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?<!\S)(?:[(\[]?[A-Z\u0410-\u042f][)\]]|[a-z]\)|[A-Z\u0410-\u042f][.:](?= ))"  # before a text, or in brackets
    r"|(?:^|(?<!\b[A-Z])(?:[,;/&+] ?|(?:^| )(?:and|or) ))[A-Z\u0410-\u042f]\W*$"  # at the end, listed
)
_COMMAS = dict.fromkeys(map(ord, "\u3001\u060c"), ", ")  # of other scripts
_BETWEEN = r"(?: ?[,;/&+|] ?(?:and )?| (?:and )?)"
_LETTERS = re.compile(
    rf"(?:{_OPEN}{_LETTER}{_CLOSE}(?:{_BETWEEN}{_OPEN}{_LETTER}{_CLOSE})+"
    rf"|{_OPEN}(?P<run>(?-i:[A-J]{{2,}}|[\u0410-\u041a]{{2,}})){_CLOSE})\.?",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[-+]?\d+\.0+")  # or with commas between thousands
_DECIMAL_COMMA = re.compile(r"\s*-?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+\s*")
_FOLDS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=[^ ]) ?([+*/=^<>]) ?(?=[^ ])|(?<![^\W\d_]{2}) (-) (?![^\W\d_]{2})", r"\1\2"),  # in formulas
        (r"_\{?(\d+)\}?", r"\1"),  # an index
        (r"(?<=[\w)\]}]) ?([,;]) ?(?=[\w(\[{\\-][^()\[\]{}]{0,60}[)\]}])", r"\1"),  # between parts in brackets
        (r"(?<=\d) (?=[%°])", ""),
    )
)


@lru_cache(maxsize=2**16)
def canonical(text: str | None, kind: AnswerKind) -> str | None:
    r"""Return the spelling shared by an answer and all its equivalents.

    A ``numeric`` text is one number, with a currency or a unit of a table; of an equation the right side counts.
    Percent is a unit (``12%`` is 12). A ``choice`` text names one letter, with or without the option's text, and a
    ``choices`` text several, in any order.

    The spelling of a number is a decimal (``"-0.125"``), a fraction in lowest terms if the decimal does not end
    (``"1/3"``), or scientific form if the exponent exceeds 30 (``"1e31"``). That of a choice is a capital letter, of
    several their list, of a text the folded text. None if the answer is missing, blank, not wholly of this kind, or
    longer than 4000 characters, or if the exponent or the length of a number exceeds 400.

    Examples
    --------
    >>> [canonical(text, "numeric") for text in ("$1,218.00", "2436/2", r"\boxed{1.218e3}", "3:4", "at least 4")]
    ['1218', '1218', '1218', None, None]
    >>> canonical("(b) a cat", "choice"), canonical("C and A", "choices"), canonical("The  New\tYORK.", "text")
    ('B', 'A,C', 'new york')
    """
    if text is None or is_missing(text) or len(text) > _MAX_TEXT:
        return None
    if _CANONICAL[kind].fullmatch(text):
        return text
    if kind == "text":
        return _folded(text)
    bare = without_lead(unmarked(text))
    if kind == "numeric":
        return _spell(amount(bare))
    letters = _letters(without_lead(unmarked(text.translate(_COMMAS)))) if kind == "choices" else []
    return ",".join(sorted({*letters})) if letters else _letter(bare)


def same_answer(first: str | None, second: str | None, kind: AnswerKind) -> bool:
    """Tell whether two answers are equal; an answer without a canonical form equals none, not even itself."""
    spelling = canonical(first, kind)
    return spelling is not None and spelling == canonical(second, kind)


def without_lead(text: str) -> str:
    """Return a text without "The answer is", if it begins so."""
    lead = _LEAD.match(text)
    return text if lead is None else text[lead.end() :]


def infer_kind(golds: Iterable[str], path: str | Path | None = None, lines: Sequence[int | None] = ()) -> AnswerKind:
    """Infer the kind of answers from the gold answers: that which all can be read as; text if there is no other.

    A kind of more than half is that of all, and the others are errors. Raises ObservationError, with ``path`` and, if
    the ``lines`` of the gold answers are given, the line, for the first of these, or if there are no gold answers.
    """
    golds = tuple(golds)
    given = [place for place, gold in enumerate(golds) if not is_missing(gold)]
    if not given:
        raise ObservationError(
            "no question has a right answer, so the kind of answers is not known",
            path=path,
            expected="at least one gold_answer, or a declared kind",
            remedy=f"To learn, label some: `direag label {path or 'FILE'} --out labels.csv --page label.html` chooses "
            "them. Otherwise declare the kind: answers='numeric', 'choice' or 'text' (--answers numeric).",
        )
    kinds: tuple[AnswerKind, ...] = ("numeric", "choice", "choices")
    for kind in kinds:
        odd = [place for place in given if canonical(golds[place], kind) is None]
        if not odd:
            return kind
        commas = [place for place in odd if kind == "numeric" and _DECIMAL_COMMA.fullmatch(golds[place])]
        if 2 * (len(odd) - len(commas)) < len(given):
            first = (commas or odd)[0]
            raise ObservationError(
                "this has a decimal comma" if commas else f"most right answers are {kind}, but not this one",
                path=path,
                line=(lines[first] or None) if lines else None,
                field="gold_answer",
                seen=golds[first],
                expected=f"{kind} answers, with decimal points, or another declared kind",
                remedy="Correct it, leave the question out, or declare answers='text' (on the command line "
                "--answers text): then all answers are compared as texts.",
            )
    return "text"


def _spell(value: Fraction | None) -> str | None:
    """Return the canonical spelling of a rational number, None if it would be too long."""
    if value is None:
        return None
    places = value.denominator.bit_length()  # a decimal that ends has no more places than this
    scaled, rest = divmod(value.numerator * 10**places, value.denominator)
    if rest:
        spelling = str(value)
    else:
        digits = str(scaled).rstrip("0") or "0"
        decimal = Decimal(f"{digits}e{len(str(scaled)) - len(digits) - places}") if scaled else Decimal(0)
        if abs(decimal.adjusted()) > MAX_SIZE:
            return None
        form = "f" if abs(decimal.adjusted()) <= _PLAIN_DIGITS else "e"
        spelling = f"{decimal:{form}}".replace("e+", "e")
    return spelling if len(spelling) <= MAX_SIZE else None


def _letter(text: str) -> str | None:
    """Return the capital letter that a plain text names, None if it names none or several."""
    match = _OPTION.fullmatch(text)
    if match is None or _LABEL.search(re.sub(r"\((?!\w\))[^()]*\)", "", match["text"] or "")):
        return None
    letter = match["letter"].upper()
    return letter if len(letter) == 1 else None


def _letters(text: str) -> list[str]:
    """Return the letters of a list, in its order; none if it is not a list of several."""
    found = _LETTERS.fullmatch(text)
    if found is None:
        return []
    letters = [*found["run"]] if found["run"] else re.findall(rf"\b{_LETTER}\b", text.upper())
    return [] if found["run"] and len({*letters}) < len(letters) else letters


def _folded(text: str) -> str | None:
    """Fold case, characters, spaces, articles and the signs around words; None if the text is blank or missing."""
    before = None
    while text != before and not _CANONICAL["text"].fullmatch(text):
        before, text = text, _folded_once(text)
    return None if is_missing(text) else text


def _folded_once(given: str) -> str:
    plain = without_lead(unmarked(given))
    if re.fullmatch(r"[^(\[{]*(?:[,;/&+]| and )[^(\[{]*", plain) and (letters := _letters(plain)):
        plain = "".join(letters)
    if _WHOLE.fullmatch(plain):
        plain = re.sub(r",|\.0+$", "", plain)
    folded = spelled(plain.replace("İ", "I").casefold())
    for pattern, replacement in _FOLDS:
        folded = pattern.sub(replacement, folded)
    words = [word for word in map(_bare, folded.split()) if word] or folded.split()
    first = 0
    while first < len(words) - 1 and re.match(r"(?:the|an|a(?= \w\w)) ", f"{words[first]} {words[first + 1]}"):
        first += 1
    return " ".join(words[first:])


def _bare(word: str) -> str:
    """Return a word without the quotes around it and the punctuation after it; ``5!`` is a number."""
    word = word.lstrip("\"'*_")
    bare = word.rstrip("\"'*_,;:.?!")
    return f"{bare}!" if bare[-1:].isdigit() and word[len(bare) :].startswith("!") else bare
