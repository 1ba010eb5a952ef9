r"""Canonical answers, so that two ways of writing one answer count as one candidate.

Answers are compared in a declared kind. A doubtful answer has no canonical form: it is missing, never another answer.

``numeric``: one exact rational number; the grammar is that of :mod:`bayes_direag.data.amounts`.

``choice``: one letter, alone or before the option's own text; a second label makes it unreadable.

``text``: words without case, leading articles and the signs around words. Apostrophes, quotes, dashes and stops of all
scripts are alike, and invisible characters go.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Literal

from bayes_direag.data.amounts import MAX_SIZE, amount
from bayes_direag.data.plain import is_missing, spelled, unmarked
from bayes_direag.errors import ObservationError

AnswerKind = Literal["numeric", "choice", "text"]

_MAX_TEXT = 4000  # characters; longer answers are not read
_PLAIN_DIGITS = 30  # decimal exponents up to this one are written out

# Answers that are canonical already, as most are: they skip the parsing.
_CANONICAL: dict[AnswerKind, re.Pattern[str]] = {
    "numeric": re.compile(r"0|-?[1-9][0-9]{0,14}"),
    "choice": re.compile(r"[A-Z]"),
    "text": re.compile(r"(?!(?:the|an?) |(?:nan|null)\Z)[a-z0-9]+(?: [a-z0-9]+)*"),
}
_OPTION = re.compile(
    r"(?:(?:so|thus|therefore)?,?\s*(?:the|my)?\s*(?:final|correct|best)?\s*"
    r"(?:answer|option|choice)\s*(?:is)?\s*[:=]?\s*)*+"
    r"[(\[\"']*(?P<letter>[a-z])"
    r"(?:[)\]\"']*[.!,;:]?|(?:[)\]:]+\s*|[)\]]*[.:]\s+|\s+-\s+)(?P<text>\S.*))",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?<!\S)(?:[(\[]?[A-Z][)\]]|[a-z]\)|[A-Z][.:](?= ))"  # before an option's text, or in brackets
    r"|(?:^|(?<!\b[A-Z])(?:[,;/&+] ?|(?:^| )(?:and|or) ))[A-Z]\W*$"  # at the end, listed
)


@lru_cache(maxsize=2**16)
def canonical(text: str | None, kind: AnswerKind) -> str | None:
    r"""Return the spelling shared by an answer and all its equivalents.

    A ``numeric`` text must hold exactly one number. Currency, units, thousands separators, Markdown, LaTeX and closing
    punctuation are tolerated; of an equation the part after the last equals sign counts. Percent is a unit (``12%`` is
    12), an ordinal is its number (``5th`` is 5), and number words are not read. A ``choice`` text must name one letter,
    with or without the option's text.

    The spelling of a number is a decimal (``"-0.125"``), a fraction in lowest terms if the decimal does not end
    (``"1/3"``), or scientific form if the exponent exceeds 30 (``"1e31"``). That of a choice is a capital letter, that
    of a text the folded text. None if the answer is missing, blank, ambiguous, not of this kind, or longer than 4000
    characters, or if the exponent or the length of a number exceeds 400.

    Examples
    --------
    >>> [canonical(text, "numeric") for text in ("$1,218.00", "2436/2", r"\boxed{1.218e3}", "3:4", "4 dozen")]
    ['1218', '1218', '1218', None, None]
    >>> canonical("(b) a cat", "choice"), canonical("The  New\tYORK.", "text")
    ('B', 'new york')
    """
    if text is None or is_missing(text) or len(text) > _MAX_TEXT:
        return None
    if _CANONICAL[kind].fullmatch(text):
        return text
    if kind == "text":
        return _folded(text)
    return _letter(unmarked(text)) if kind == "choice" else _spell(amount(unmarked(text)))


def same_answer(first: str | None, second: str | None, kind: AnswerKind) -> bool:
    """Tell whether two answers are equal; an answer without a canonical form equals none, not even itself."""
    spelling = canonical(first, kind)
    return spelling is not None and spelling == canonical(second, kind)


def infer_kind(golds: Iterable[str], path: str | Path | None = None) -> AnswerKind:
    """Infer the kind of answers: numeric or choice if all gold answers are numbers or single letters, else text.

    Raises ObservationError, with ``path``, if there are no gold answers.
    """
    golds = tuple(gold for gold in golds if not is_missing(gold))
    if not golds:
        raise ObservationError(
            "the kind of answers cannot be inferred without gold answers",
            path=path,
            expected="at least one gold_answer, or a declared kind",
            remedy="Declare the kind: answers='numeric', 'choice' or 'text' (on the command line --answers numeric).",
        )
    if all(canonical(gold, "numeric") is not None for gold in golds):
        return "numeric"
    return "choice" if all(re.fullmatch(r"\s*\(?[A-Za-z]\)?\s*", gold) for gold in golds) else "text"


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
    return match["letter"].upper()


def _folded(given: str) -> str | None:
    """Fold case, characters, spaces, articles and the signs around words; None if the text is blank or missing."""
    folded = spelled(spelled(given).casefold())
    words = [word for word in map(_bare, folded.split()) if word] or folded.split()
    first = 0
    while first < len(words) - 1 and re.match(r"(?:the|an|a(?= \w\w)) ", f"{words[first]} {words[first + 1]}"):
        first += 1
    text = " ".join(words[first:])
    return None if is_missing(text) else text


def _bare(word: str) -> str:
    """Return a word without the quotes around it and the punctuation after it; ``5!`` is a number."""
    word = word.lstrip("\"'*_")
    bare = word.rstrip("\"'*_,;:.?!")
    return f"{bare}!" if bare[-1:].isdigit() and word[len(bare) :].startswith("!") else bare
