r"""What values, names of levels and texts are without what does not count: the number of a run, Markdown, LaTeX."""

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from bayes_direag.errors import DirEAGError

#: As programs write a missing value. Case counts: "Na" is sodium, and "none" an answer.
MISSING = frozenset((
    "nan", "NaN", "NAN", "-nan", "-NaN", "<NA>", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NaT", "None",
    "null", "Null", "NULL", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
))  # fmt: skip

ConfidenceScale = Literal["percent", "fraction", "1-5", "0-10"]
#: The least and the largest confidence on each scale.
SCALES: Mapping[str, tuple[float, float]] = {"percent": (0, 100), "fraction": (0, 1), "1-5": (1, 5), "0-10": (0, 10)}


def is_missing(text: str) -> bool:
    """Tell whether a text is blank, or stands for a missing value."""
    return not text.strip() or text.strip() in MISSING


def plain(value: object) -> object:
    """Return the Python value of a NumPy scalar, a number in the fewest digits that tell it; None if it is missing.

    Examples
    --------
    >>> import numpy as np
    >>> [plain(value) for value in (np.float32(5.1), np.int8(3), "NaN", float("nan"), " ")]
    [5.1, 3, None, None, ' ']
    """
    if getattr(value, "ndim", None) == 0:
        is_short = value.dtype.kind == "f" and value.dtype.itemsize < 8  # type: ignore[attr-defined]
        value = float(str(value)) if is_short else value.item()  # type: ignore[attr-defined]
    if isinstance(value, str):
        return None if value in MISSING else value
    if isinstance(value, float | Decimal):
        return value if value == value else None
    return None if type(value).__name__ in ("NAType", "NaTType") else value


_NUMBER = re.compile(r"\s*(\d+(?:[.,]\d*)?|[.,]\d+)\s*(%?)\s*")


def percentage(value: object) -> object:
    """Return the number of a text such as "90%" or "90", or of a Decimal, and any other value as :func:`plain` does.

    Examples
    --------
    >>> [percentage(value) for value in ("90%", "7,5 %", 90, "90", Decimal("0.9"), "NaN")]
    [90.0, 7.5, 90, 90.0, 0.9, None]
    """
    value = plain(value)
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if found:
        return float(found[1].replace(",", "."))
    return float(value) if isinstance(value, Decimal) else value


def is_percentage(value: object) -> bool:
    """Tell whether a value is a text that ends with the sign of percentages."""
    return isinstance(value, str) and value.rstrip().endswith("%")


def group_of(groups: str | None, level: str) -> str | None:
    """Return the group of a level by a pattern such as ``{group}_run{n}``; None if its name has another form.

    Raises DirEAGError for a pattern without ``{group}`` or ``{n}``, which stands for a number.

    Examples
    --------
    >>> group_of("{group}_run{n}", "small_bold_run12")
    'small_bold'
    """
    if groups is None:
        return None
    if groups.count("{group}") != 1 or groups.count("{n}") != 1:
        raise DirEAGError(
            f"groups={groups!r} (--groups): expected the form of the names of levels, with {{group}} and a number "
            "{n}, such as {group}_run{n}."
        )
    pattern = re.escape(groups).replace(r"\{group\}", "(.+?)").replace(r"\{n\}", r"\d+")
    found = re.fullmatch(pattern, level)
    return found and found[1]


_POWER = re.compile(r"([⁰¹²³⁴-⁹⁺⁻]+)")
# Signs that mean the same in all scripts, by their category and name in Unicode.
_SIGNS = tuple(
    (re.compile(pattern), sign)
    for pattern, sign in (
        (r"Cf |Mn VARIATION SELECTOR|Lm ARABIC TATWEEL$", ""),
        (r"Mn (?:HEBREW|ARABIC (?:FATHA|DAMMA|KASRA|SHADDA|SUKUN|LETTER SUPERSCRIPT ALEF))", ""),  # vowels
        (r"Pd |S. (?:MODIFIER LETTER |(?!SET|DOT)\w+ )?MINUS(?: SIGN)?$", "-"),
        (r"(?:P|S|Lm).*(?:SINGLE.* QUOTATION.*|APOSTROPHE|GERESH|HALF RING|(?:TURNED|REVERSED) COMMA)$", "'"),
        (r"(?:P|S|Lm).*(?<!DOUBLE )(?:PRIME|(?:ACUTE|GRAVE) ACCENT)$", "'"),
        (r"[PS].*(?:QUOTATION MARK|(?:CORNER|ANGLE) BRACKET|GERSHAYIM|DOUBLE PRIME)$", '"'),
        (r"P[se] (?:LEFT|RIGHT) .*(?:LENTICULAR|TORTOISE SHELL) BRACKET$", '"'),
        (r"Po .*DECIMAL SEPARATOR$", "."),
        (r"Po .*THOUSANDS SEPARATOR$", ","),
        (r"Po .* (?:FULL STOP|COMMA|SEMICOLON|QUESTION MARK|EXCLAMATION MARK|DANDA|KHAN|SHAD|SECTION)$", ". "),
    )
)


class _Spelling(dict[int, str]):
    """The plain spelling of each character, found when it is first met."""

    def __missing__(self, code: int) -> str:
        name = f"{unicodedata.category(chr(code))} {unicodedata.name(chr(code), '')}"
        plain = unicodedata.normalize("NFKC", chr(code)).replace("\u2044", "/")  # the slash of "½"
        if name.startswith("No") and "SCRIPT" not in name:
            self[code] = f" {plain} "  # not glued to a digit: "2½" is not 21/2
        elif plain.isascii():
            self[code] = plain.replace("`", "'")
        else:
            self[code] = next((sign for pattern, sign in _SIGNS if pattern.match(name)), chr(code))
        return self[code]


_SPELLING = _Spelling()
_MARKED = re.compile(r"[\\$*_<{}^]|[(\[] | [)\]]")
_BOXED = re.compile(r"\\f?boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"</?(?:b|i|u|p|br|em|strong|code|span|sup|sub|answer)\b[^<>]*>", " "),
        (r"(?<!\d)\*\*|\*\*(?!\d)", ""),  # bold; between digits it is a power
        (r"(?<![\w*])([*_])(\S|\S[^*_]*\S)\1(?![\w*])", r"\2"),  # italics
        (r"(?<!\\)\$\$?(?! )((?:[^$\\]|\\.)+(?<! ))\$\$?(?!\d)", r" \1 "),  # a formula
        (r"\\(?:text(?:rm|bf|it|sf)?|math(?:rm|bf|it|sf)|mbox|operatorname)\s*\{((?:[^{}]|\{[^{}]*\})*)\}", r" \1"),
        (r"\\[cdst]?frac(?![A-Za-z])\s*", r"\\frac"),
        (r"\\frac(\d)", r"\\frac{\1}"),
        (r"(\\frac\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        (r"\^?\{?\\(?:circ|degree)(?![A-Za-z])\}?|\^\{?°\}?", "°"),
        (r"(?<=\d)(?:\{,\}|\\,|,\\!)(?=\d{3}(?!\d))", ","),
        (r"\\(?:left|right|displaystyle|q?quad)(?![A-Za-z])|\\[,;:! ()\[\]]", " "),
        (r"\\([$%#&{}])", r"\1"),
        (r"\\(?:times|cdot)(?![A-Za-z])|[\u00d7\u2217\u2219\u22c5\u2715\u2716]", "*"),
        (r"([\^_])\{(-?\d+|\w)\}", r"\1\2"),
        (r"([(\[{]) | (?=[)\]}])", r"\1"),
    )
)


def spelled(text: str) -> str:
    """Return a text with powers marked, characters in their plain spelling, and single spaces."""
    plain = unicodedata.normalize("NFKC", _POWER.sub(r"^\1", text).translate(_SPELLING))
    return " ".join(plain.translate(_SPELLING).split())


def unmarked(text: str) -> str:
    r"""Return a text spelled plainly, without Markdown and with one spelling of LaTeX.

    If there is a ``\boxed{}``, only its content counts. A space between thousands is a comma, an index is marked.
    """
    text = re.sub(r"(?<=\d)[\u00a0\u2004-\u200a\u202f](?=\d{3}(?!\d| ?/))", ",", text)
    text = re.sub(r"[\u2061-\u2064]", " ", re.sub(r"([₀-₉]+)", r"_\1", text))
    text = spelled(text)
    if not _MARKED.search(text):
        return text.strip("\"' ")
    boxed = dict.fromkeys(_BOXED.findall(text))
    text = " ; ".join(boxed) if boxed else text
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).strip("*_\"' ")
