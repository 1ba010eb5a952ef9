r"""Canonical answers, so that two ways of writing one answer count as one candidate.

Answers are compared in a declared kind: ``numeric`` (an exact rational number), ``choice`` (one letter) or ``text``
(words, without case, leading articles and surrounding punctuation). An answer that would have to be guessed at, such
as a text with two numbers, has no canonical form.
"""

import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Literal

from bayes_direag.errors import ObservationError

AnswerKind = Literal["numeric", "choice", "text"]

_MAX_TEXT = 4000  # characters; longer answers are not read as numbers or choices
_MAX_SIZE = 400  # largest decimal exponent, and number of characters, of a number: limits memory
_PLAIN_DIGITS = 30  # decimal exponents up to this one are written out

# Answers that are canonical already, as most are: they skip the parsing.
_PLAIN: dict[AnswerKind, re.Pattern[str]] = {
    "numeric": re.compile(r"0|-?[1-9][0-9]{0,14}"),
    "choice": re.compile(r"[A-Z]"),
    "text": re.compile(r"(?!(?:the|an?) )[a-z0-9]+(?: [a-z0-9]+)*"),
}
_ARTICLES = re.compile(r"\A(?:(?:the|an|a(?= \w\w)) )+")
_QUOTES = "\"'`*_\u2018\u2019\u201c\u201d\u00ab\u00bb"
_AROUND_WORDS = re.compile(rf"(?<!\S)[{_QUOTES}]+|(?:[{_QUOTES},;:.?]|(?<!\d)!)+(?!\S)")
_BOXED = re.compile(r"\\f?boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[\u2010-\u2015\u2212]", "-"),
        (r"\u2044", "/"),  # the fraction slash of "½"
        (r"</?[A-Za-z][^<>]*>", " "),
        (r"(?<!\d)\*\*|\*\*(?!\d)", ""),  # bold; between digits it is a power
        (r"(?<![\w*])([*_])(\S|\S[^*_]*\S)\1(?![\w*])", r"\2"),  # italics
        (r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}", r" \1 "),
        (r"(?<=\d)\s*\\[dt]?frac", r" \\frac"),
        (r"\\[dt]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(\d)(\d))", r"\1\3/\2\4"),
        (r"\^?\{?\\(?:circ|degree)\}?", "°"),
        (r"\{,\}|(?<=\d)\\,(?=\d{3})", ","),
        (r"\\!", ""),
        (r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\[,;: ()\[\]]", " "),
        (r"\\([$%#&{}])", r"\1"),
        (r"\\(?:times|cdot)(?![A-Za-z])|\u00d7", "*"),
        (r"(?<=\w)[$€£¥₹]", " "),
        (r"[$€£¥₹]", ""),
        (r"(?<=\d)\s*[*x·]\s*10\s*\^\s*\{?\s*([+-]?\d+)\s*\}?", r"e\1"),
        (r"(?<![\w.,^])10\s*\^\s*\{?\s*([+-]?\d+)\s*\}?", r"1e\1"),
        (r"(?<=[^\W\d_])(?<!\d[eE])\^?\{?[23]\}?(?![\w.,]*\d)", ""),  # the power of a unit: m2, cm^3
        (r"[{}]", ""),
        (r"(?<!\w)(?=[^\W\d_])[\w^-]*\d[\w^]*", "w"),  # a name that holds digits: B12, GPT-4, x^2
    )
)
_RELATION = re.compile(r"[<>≤≥≠]|!=")
_SEVERAL = re.compile(r"[;,]\s|\b(?:and|or)\b")  # if between two equals signs, there are two equations
_NOT_A_NUMBER = re.compile(
    r"[\\√π∞±]|\b(?:sqrt|log|ln|sin|cos|tan|exp)\b|\band (?:a|one) (?:half|third|quarter)\b", re.IGNORECASE
)
_TERM = r"(?:\d+(?:[.,]\d+)*|(?<![\d.])\.\d+)"
_WELL_FORMED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d*(?:\.\d+)?")
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NUMBER = re.compile(
    rf"(?:(?P<whole>\d+)\s+(?=\d+\s*/\s*\d))?(?P<top>{_TERM})(?:\s*/\s*(?P<bottom>{_TERM}))?"
    rf"(?:e(?P<exponent>[+-]?\d+))?(?:\s*(?P<scale>{'|'.join(_SCALES)})\b)?",
    re.IGNORECASE,
)
_OPERATOR_BEFORE = re.compile(r"(?:[*/^÷·_]\s*\(?\s*|\w[.,]?|[\w)]\s*[+-]\s+|[\w)][+-]|[+-]\s*[+-]\s*|[+-]\s*\(\s*)$")
_OPERATOR_AFTER = re.compile(r"\s*(?:[*^+÷·_]|/(?!\s*[^\W\d_]{2})|-\s*[^\W\d_](?!\w)|(?:[xyzn]|pi)(?!\w))|[kKMB](?!\w)")
_CHOICE = re.compile(
    r"(?:(?:so|thus|therefore)?,?\s*(?:the|my)?\s*(?:final|correct|best)?\s*"
    r"(?:answer|option|choice)\s*(?:is)?\s*[:=]?\s*)*+"
    r"[(\[\"']*(?P<letter>[a-z])"
    r"(?:[)\]\"']*[.!,;:]?|(?:[)\]:]+\s*|[)\]]*[.:]\s+|\s+-\s+)(?P<rest>\S.*))",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?<!\w)[A-Z](?:\s*[).:\]]|$)")


@lru_cache(maxsize=2**16)
def canonical(text: str | None, kind: AnswerKind) -> str | None:
    r"""Return the spelling shared by an answer and all its equivalents.

    A ``numeric`` text must hold exactly one number. Currency, units, thousands separators, Markdown, LaTeX and closing
    punctuation are tolerated; of an equation only the part after the last equals sign counts. Percent is a unit
    (``12%`` is 12), an ordinal is its number (``5th`` is 5), and number words are not read. A ``choice`` text must name
    one letter, with or without the option's text.

    The spelling of a number is a decimal (``"-0.125"``), a fraction in lowest terms if the decimal does not end
    (``"1/3"``), or scientific form if the exponent exceeds 30 (``"1e31"``). That of a choice is a capital letter, that
    of a text the folded text. None if the answer is missing, blank, ambiguous or not of this kind, if the exponent or
    the length of a number exceeds 400, or if a numeric or choice text has more than 4000 characters.

    Examples
    --------
    >>> [canonical(text, "numeric") for text in ("$1,218.00", "2436/2", r"\boxed{1.218e3}", "3:4")]
    ['1218', '1218', '1218', None]
    >>> canonical("(b) a cat", "choice"), canonical("The  New\tYORK.", "text")
    ('B', 'new york')
    """
    if text is None or _PLAIN[kind].fullmatch(text):
        return text
    if kind == "text":
        return _folded(text)
    if len(text) > _MAX_TEXT:
        return None
    return _letter(_plain(text)) if kind == "choice" else _spell(_number(_plain(text)))


def same_answer(first: str | None, second: str | None, kind: AnswerKind) -> bool:
    """Tell whether two answers are equal; an answer without a canonical form equals none, not even itself."""
    spelling = canonical(first, kind)
    return spelling is not None and spelling == canonical(second, kind)


def infer_kind(golds: Iterable[str], path: str | Path | None = None) -> AnswerKind:
    """Infer the kind of answers: numeric or choice if all gold answers are numbers or single letters, else text.

    Raises ObservationError, with ``path``, if there are no gold answers.
    """
    golds = tuple(golds)
    if not golds:
        raise ObservationError(
            "the kind of answers cannot be inferred without gold answers",
            path=path,
            expected="at least one gold_answer, or a declared kind",
            remedy="Declare the kind with --answers numeric, choice or text; in Python answers='numeric'.",
        )
    if all(canonical(gold, "numeric") is not None for gold in golds):
        return "numeric"
    return "choice" if all(re.fullmatch(r"\s*\(?[A-Za-z]\)?\s*", gold) for gold in golds) else "text"


def _plain(text: str) -> str:
    """Remove Markdown, LaTeX and currency signs, and normalise digits, dashes and exponents."""
    text = re.sub(r"([¼-¾⅐-⅞↉])", r" \1", text)  # NFKC would glue "2½" to "21/2"
    text = re.sub(r"([⁰¹²³⁴-⁹⁺⁻]+)", r"^\1", text)  # and "10²" to "102"
    text = re.sub(r"([₀-₉]+)", r"_\1", text)
    text = unicodedata.normalize("NFKC", text)
    boxed = dict.fromkeys(_BOXED.findall(text))
    text = " ; ".join(boxed) if boxed else text
    text = " ".join(text.split())
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).strip("*_`\"' ")


def _number(text: str) -> Fraction | None:
    """Return the number that a plain text states, None if there is none or more than one."""
    if _RELATION.search(text):
        return None
    *left, text = re.split(r"[=≈]", text)
    if any(_SEVERAL.search(part) for part in left[1:]) or _NOT_A_NUMBER.search(text):
        return None
    numbers = list(_NUMBER.finditer(text))
    if len(numbers) != 1 or len(numbers[0].group()) > _MAX_SIZE:
        return None
    match = numbers[0]
    before = text[: match.start()]
    if _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(text, match.end()):
        return None
    value = _value(match)
    return -value if value is not None and before.rstrip().endswith("-") else value


def _value(match: re.Match[str]) -> Fraction | None:
    """Return the exact unsigned value of a match of ``_NUMBER``, None if it is malformed or too large."""
    whole, bottom, exponent = match["whole"], match["bottom"], match["exponent"] or "0"
    terms = (match["top"], bottom or "1")
    if not all(_WELL_FORMED.fullmatch(term) for term in terms) or (bottom and match["exponent"]):
        return None
    top, divisor = (Fraction(term.replace(",", "")) for term in terms)
    if divisor == 0 or (whole and top >= divisor) or abs(int(exponent)) > _MAX_SIZE:
        return None
    power = int(exponent) + _SCALES.get((match["scale"] or "").lower(), 0)
    return (int(whole or 0) + top / divisor) * Fraction(10) ** power


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
        if abs(decimal.adjusted()) > _MAX_SIZE:
            return None
        form = "f" if abs(decimal.adjusted()) <= _PLAIN_DIGITS else "e"
        spelling = f"{decimal:{form}}".replace("e+", "e")
    return spelling if len(spelling) <= _MAX_SIZE else None


def _letter(text: str) -> str | None:
    """Return the capital letter that a plain text names, None if it names none or several."""
    match = _CHOICE.fullmatch(text)
    if match is None or _LABEL.search(match["rest"] or ""):
        return None
    return match["letter"].upper()


def _folded(text: str) -> str | None:
    """Fold case, compatibility forms, spaces, articles and punctuation; None if the text is blank."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    folded = " ".join(folded.split())
    words = " ".join(_AROUND_WORDS.sub("", folded).split()) or folded
    return _ARTICLES.sub("", words) or None
