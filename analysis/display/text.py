"""Numbers and lists as text."""

import math
import re
from collections.abc import Sequence
from itertools import takewhile

UNDEFINED = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"


def number(value: float, decimals: int = 3, *, signed: bool = False) -> str:
    """Return a number with a true minus sign, without a sign if it rounds to zero; a dash if undefined.

    Examples
    --------
    >>> number(0.0274), number(0.0274, signed=True), number(-0.0001)
    ('0.027', '+0.027', '0.000')
    """
    if math.isnan(value):
        return UNDEFINED
    size = f"{abs(value):.{decimals}f}"
    sign = "" if float(size) == 0 else _MINUS if value < 0 else "+" if signed else ""
    return sign + size


def percent(share: float, decimals: int = 1) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.2867), percent(0.95, 0)
    ('28.7%', '95%')
    """
    return UNDEFINED if math.isnan(share) else f"{number(100 * share, decimals)}%"


def interval(low: float, high: float, decimals: int = 3, *, signed: bool = False, undefined: str = "") -> str:
    """Return an interval in brackets; a signed end has as many decimals as show its side of zero.

    Examples
    --------
    >>> interval(0.022, 0.033), interval(0.022, 0.033, signed=True), interval(float("nan"), float("nan"))
    ('[0.022, 0.033]', '[+0.022, +0.033]', '')
    >>> interval(0.00017, 0.051, signed=True), interval(0.0, 0.0004, signed=True)
    ('[+0.0002, +0.051]', '[0.000, +0.0004]')
    """
    if math.isnan(low) or math.isnan(high):
        return undefined
    places = [_decimals_that_show_the_side(end, decimals) if signed else decimals for end in (low, high)]
    ends = (number(end, n, signed=signed) for end, n in zip((low, high), places, strict=True))
    return f"[{', '.join(ends)}]"


def _decimals_that_show_the_side(end: float, decimals: int) -> int:
    while end != 0 and decimals < 9 and float(f"{end:.{decimals}f}") == 0:
        decimals += 1
    return decimals


def difference_in_words(name: str, difference: float, low: float, high: float, *, n: int, level: float) -> str:
    """Say whether a method is better than another by this difference in benefit, as far as n questions show.

    It is called better or worse if the interval leaves out 0.

    Examples
    --------
    >>> difference_in_words("DirEAG", 0.03, 0.01, 0.05, n=300, level=0.95)
    'DirEAG is better: +0.030 [95%: +0.010, +0.050].'
    >>> difference_in_words("DirEAG", 0.03, 0.0, 0.07, n=300, level=0.95)
    'On 300 questions neither is clearly better: +0.030 [95%: 0.000, +0.070].'
    """
    ends = interval(low, high, signed=True)[1:-1]
    size = f"{number(difference, signed=True)} [{percent(level, 0)}: {ends}]"
    if low > 0 or high < 0:
        return f"{name} is {'better' if difference > 0 else 'worse'}: {size}."
    return f"On {counted(n, 'question')} neither is clearly better: {size}."


def probability(value: float) -> str:
    """Return a probability with two decimals, as 0 or 1 only if it is exactly that; a dash if undefined.

    Examples
    --------
    >>> [probability(value) for value in (0.0, 0.001, 0.834, 0.9999, 1.0)]
    ['0.00', '<0.01', '0.83', '>0.99', '1.00']
    """
    if 0 < value < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= value < 1 else number(value, 2)


def counted(n: int, noun: str) -> str:
    """Return a number of things: ``1 question``, ``2,500 questions``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(texts: Sequence[str]) -> str:
    """Join texts as a sentence does: ``a, b and c``."""
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


def shortened(text: str, width: int) -> str:
    """Return the text on one line, with its no-break spaces; of one longer than ``width`` the beginning and the end.

    Examples
    --------
    >>> shortened("the mitochondria, powerhouse of the cell", 24)
    'the mitochondri…the cell'
    """
    line = re.sub(r"[^\S\N{NO-BREAK SPACE}]+", " ", text).strip()
    if len(line) <= width:
        return line
    tail = width // 3
    return f"{line[: width - tail - 1].rstrip()}…{line[-tail:].lstrip()}"


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """Shorten names; if they would then be alike, leave out the words with which all begin and end.

    Examples
    --------
    >>> told_apart(["some-provider/model-04-instruct-turbo", "some-provider/model-09-instruct-turbo"], 16)
    ['04', '09']
    """
    if len({shortened(name, width) for name in names}) == len({*names}):
        return [shortened(name, width) for name in names]
    words = [re.findall(r"\w+|\W+", name) for name in names]
    first, last = (
        sum(1 for _ in takewhile(lambda same: len({*same}) == 1, zip(*(one[::step] for one in words), strict=False)))
        for step in (1, -1)
    )
    return [shortened("".join(one[first : len(one) - last]), width) for one in words]
