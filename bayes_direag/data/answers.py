r"""Canonical answers, so that two ways of writing one answer count as one candidate.

Answers are compared in a declared kind. An answer has wholly a form of this kind, or it is missing, and nothing inside
it is rewritten. In every kind characters have their plain form, and the whole may have a stop behind it, stand in
quotation marks, ``**``, ``$``, ``\(\)``, ``\boxed{}`` or ``\textbf{}`` and their like, and follow "The answer is" or
"Answer:".

``numeric``: one exact rational number; the grammar is that of :mod:`bayes_direag.data.amounts`.

``choice``: one letter of any script, alone or in brackets, or with a bracket, stop or colon between it and its option.

``choices``: a set of such letters, separated by commas or "and", or a JSON or Python list of them.

``text``: the whole, without case and one leading article.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from bayes_direag.data.amounts import number
from bayes_direag.data.plain import is_missing
from bayes_direag.errors import ObservationError

AnswerKind = Literal["numeric", "choice", "choices", "text"]
#: The labels of statements.
TRUTH_VALUES = frozenset({"true", "false"})

_MAX_TEXT = 4000  # characters; longer answers are not read

# Answers that are canonical already, as most are: they skip the parsing.
_CANONICAL: dict[AnswerKind, re.Pattern[str]] = {
    "numeric": re.compile(r"0|-?[1-9][0-9]{0,14}"),
    "choice": re.compile(r"[A-Z]"),
    "choices": re.compile(r"[A-Z]"),
    "text": re.compile(r"(?!(?:nan|null)\Z)[a-z0-9]+"),
}


class _Characters(dict[int, str]):
    """The plain form of each character, found when it is first met; powers, indices and circled numbers stay."""

    def __missing__(self, code: int) -> str:
        character, plain = chr(code), unicodedata.normalize("NFKC", chr(code))
        is_other = unicodedata.decomposition(character).startswith(("<super>", "<sub>", "<circle>"))
        plain = str(unicodedata.decimal(plain, plain)) if len(plain) == 1 else plain
        self[code] = character if is_other or (len(plain) > 1 and not plain.isalpha()) else plain
        return self[code]


_CHARACTERS = _Characters(
    {ord(other): plain for plain, others in {
        "'": "\u2018\u2019\u02bc\u02b9\u2032\u00b4", '"': "\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f",
        "-": "\u2010\u2011\u2012\u2013\u2014\u2212\u2796", ".": "\u3002\u0964\u06d4\u066b", "I": "\u0130",
        ",": "\u066c", "%": "\u066a",
    }.items() for other in others}
)  # fmt: skip
_INVISIBLE = (
    "\ufeff\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufe0f"
)
_BRACES = r"(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*"
_LEAD = (
    r"(?:(?:the|my) )?(?:(?:final|correct|right|best) )?(?:answer|option|choice)s?(?:(?: is| are)(?: ?:)?| ?:) ?(?=\S)"
)
#: What may stand around a whole answer.
_AROUND = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(.*[^. ]) ?\.",
        r'"([^"]+)"',
        r"'([^']+)'",
        r"`([^`]+)`",
        r"\*\*((?:(?!\*\*).)+)\*\*",
        r"\$\$?((?:[^$\\]|\\.)+)\$\$?",
        r"\\\(((?:(?!\\[()]).)+)\\\)",
        r"\\\[((?:(?!\\[\[\]]).)+)\\\]",
        rf"\\(?:boxed|fbox|emph|(?:text|math)(?:bf|rm|it|sf|tt)?) ?\{{({_BRACES})\}}",
        rf"(?:{_LEAD})+(.+)",
    )
)
_ARTICLE = re.compile(r"\A(?:(?:the|an) (?=\S)|a (?=[^\W\d_]{2}))(?!(?:the|an?|and|or) )")
_LETTER = r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]"  # of any script in which options are lettered
_OPTION = re.compile(
    rf"(?:(?:the )?(?:option|choice|answer) )?\$?[(\[{{\u3010]?(?P<letter>{_LETTER})"
    r"(?:[)\]}\u3011]?[.:]?|(?:[)\]}\u3011\u3001][.:]? ?|[.:] )"
    r"(?P<text>(?!is(?:n't| not| wrong| incorrect| false)\b)\S.*))",
    re.IGNORECASE,
)
# A second label in the text of an option: before a text, in brackets, or at the end of a list.
_LABEL = re.compile(
    r"(?<!\S)(?:[(\[]?[A-Z\u0410-\u042f][)\]]|[a-z]\)|[A-Z\u0410-\u042f][.:](?= ))"
    r"|(?<!\b[A-Z])(?:[,;/&+] ?|(?:^| )(?:and|or) )[A-Z\u0410-\u042f]\W*$"
)
_ITEM = rf"[(\[\"']?{_LETTER}[)\]\"'.:]?"
_LETTERS = re.compile(
    rf"\[{_ITEM}(?:, ?{_ITEM})*\]|(?:(?:option|choice|answer)s )?{_ITEM}(?:(?:, ?(?:and )?| and ){_ITEM})+",
    re.IGNORECASE,
)
_LIST = re.compile(r"\s*(?:[\[{]\s*(?:[\"'].*|-?[\d.]+\s*,.*)[\]}]|\(\s*[\"'].*,.*\))\s*", re.DOTALL)
#: A number whose comma is no comma between thousands.
DECIMAL_COMMA = re.compile(r"[^\d.,]*(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+)[^\d.,]*")


@lru_cache(maxsize=2**16)
def canonical(text: str | None, kind: AnswerKind) -> str | None:
    r"""Return the spelling shared by an answer and all its equivalents.

    A ``numeric`` text is one number, with a currency, a percent sign or a unit of a table; of an equation the right
    side counts. Percent is a unit (``12%`` is 12). A ``choice`` text names one letter, with or without the option's
    text, and a ``choices`` text several, in any order.

    The spelling of a number is a decimal (``"-0.125"``), a fraction in lowest terms if the decimal does not end
    (``"1/3"``), or scientific form if the exponent exceeds 30 (``"1e31"``). That of a choice is a capital letter, of
    several their list, of a text the text without case. None if the answer is missing, blank, not wholly of this kind,
    or longer than 4000 characters, or if the exponent or the length of a number exceeds 400.

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
    bare = _bare(text)
    if kind == "text":
        before = None
        while bare != before:
            before, bare = bare, _ARTICLE.sub("", _bare(bare.casefold()))
        return None if is_missing(bare) else bare
    if kind == "numeric":
        return number(bare)
    if kind == "choices" and _LETTERS.fullmatch(bare):
        letters = {letter.upper() for letter in re.findall(rf"(?<!\w){_LETTER}(?!\w)", bare)}
        return ",".join(sorted(letters))
    return _letter(bare)


def same_answer(first: str | None, second: str | None, kind: AnswerKind) -> bool:
    """Tell whether two answers are equal; an answer without a canonical form equals none, not even itself."""
    spelling = canonical(first, kind)
    return spelling is not None and spelling == canonical(second, kind)


def is_list(text: str) -> bool:
    """Tell whether a text is a list of texts or numbers, or an object, in JSON or as Python prints it."""
    return _LIST.fullmatch(text) is not None


def refusal_of_gold(text: str, kind: AnswerKind) -> tuple[str, str]:
    """Return what is wrong with a right answer that no report can give, as a clause, and what to do about it."""
    if is_list(text):
        return "is a list, which no report gives", (
            "Keep one of them, and say by a function which answers equal it (same=, on the command line --same); or "
            "give each report a flag `correct`. Letters that are right together are of the kind choices."
        )
    remedy = "Correct it, or declare another kind, such as answers='text' (on the command line --answers text)."
    return f"cannot be read as {kind}", remedy


def infer_kind(
    golds: Iterable[str],
    path: str | Path | None = None,
    lines: Sequence[int | None] = (),
    said: Sequence[Iterable[str]] = (),
) -> AnswerKind:
    """Infer the kind of answers from the gold answers: that which all can be read as; text if there is no other.

    A kind of more than half is that of all, and the others are errors. Letters with texts are options if one stands
    alone, or if they begin at A, but then a letter must have one text among the answers ``said`` to a question; others,
    as of ``S. aureus``, are texts. Raises ObservationError, with ``path`` and, if the ``lines`` of the gold answers are
    given, the line, for the first odd answer, for a letter with two texts, or if there are no gold answers.
    """
    golds = tuple(golds)
    stated = [number for number, gold in enumerate(golds) if not is_missing(gold)]
    if not stated:
        raise ObservationError(
            "no question has a right answer, so the kind of answers is not known",
            path=path,
            expected="at least one gold_answer, or a declared kind",
            remedy=f"To learn, label some: `direag label {path or 'FILE'} --out labels.csv --page label.html` chooses "
            "them. If a column has them, or says what is right, name it: --column gold=NAME, or correct=NAME. "
            "Otherwise declare the kind: answers='numeric', 'choice' or 'text' (--answers numeric).",
        )
    kinds: tuple[AnswerKind, ...] = ("numeric", "choice", "choices")
    unread = {kind: [number for number in stated if canonical(golds[number], kind) is None] for kind in kinds}
    texts_of: dict[tuple[int, str], dict[str | None, str]] = {}
    if 2 * len(unread["choice"]) < len(stated):
        texts_of = _texts_of_letters([[golds[number], *(said[number] if said else ())] for number in stated])
    if texts_of and not _begin_at_a({letter for _, letter in texts_of}):
        kinds = ("numeric",)
    if whole := next((kind for kind in kinds if not unread[kind]), None):
        several = next(([*texts.values()] for texts in texts_of.values() if len(texts) > 1), [])
        if whole == "choice" and several:
            raise ObservationError(
                f"right answers may be letters of options or texts: {several[0]!r} and {several[1]!r} have one letter",
                path=path,
                field="gold_answer",
                expected="a declared kind",
                remedy="Declare it: answers='choice', then they are one answer, or 'text', then they are two "
                "(on the command line --answers choice, or text).",
            )
        return whole
    for kind, odd in ((kind, unread[kind]) for kind in kinds):
        commas = [number for number in odd if kind == "numeric" and DECIMAL_COMMA.fullmatch(golds[number])]
        if 2 * (len(odd) - len(commas)) < len(stated):
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


def _texts_of_letters(answers: Iterable[Iterable[str]]) -> dict[tuple[int, str], dict[str | None, str]]:
    """Return the answers with each letter of each question, by their other text; nothing if a letter stands alone."""
    texts_of: dict[tuple[int, str], dict[str | None, str]] = {}
    for question, texts in enumerate(answers):
        for text in texts:
            match = _OPTION.fullmatch(_bare(text))
            if match and not match["text"]:
                return {}
            if match:
                texts_of.setdefault((question, match["letter"].upper()), {})[canonical(match["text"], "text")] = text
    return texts_of


def _begin_at_a(letters: set[str]) -> bool:
    """Tell whether most of the first letters of an alphabet are there, as of options."""
    return min(letters) > "Z" or ("A" in letters and max(map(ord, letters)) - ord("A") < 2 * len(letters))


def _bare(text: str) -> str:
    """Return a text in plain characters and single spaces, without what stands around the whole."""
    before, text = None, unicodedata.normalize("NFC", text.translate(_CHARACTERS))
    while text != before:
        before, text = text, " ".join(text.split()).strip(_INVISIBLE)
        for pattern in _AROUND:
            if (whole := pattern.fullmatch(text)) is not None:
                text = whole[1]
    return text


def _letter(text: str) -> str | None:
    """Return the capital letter that a plain text names, None if it names none or several."""
    match = _OPTION.fullmatch(text)
    if match is None or _LABEL.search(re.sub(r"\((?!\w\))[^()]*\)", "", match["text"] or "")):
        return None
    letter = match["letter"].upper()
    return letter if len(letter) == 1 else None
