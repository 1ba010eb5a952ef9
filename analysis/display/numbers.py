"""How numbers stand in a report."""

import math

_UNDEFINED = "\N{EN DASH}"
_MINUS = "\N{MINUS SIGN}"


def number(value: float, decimals: int = 3, *, signed: bool = False) -> str:
    """Return a number with so many decimals, a proper minus, and none at what rounds to zero; undefined as a dash.

    Examples
    --------
    >>> number(0.0274), number(0.0274, signed=True), number(-0.0001)
    ('0.027', '+0.027', '0.000')
    """
    if math.isnan(value):
        return _UNDEFINED
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
    return _UNDEFINED if math.isnan(share) else f"{number(100 * share, decimals)}%"


def interval(low: float, high: float, decimals: int = 3, *, signed: bool = False) -> str:
    """Return an interval in brackets; nothing where it is undefined.

    Examples
    --------
    >>> interval(0.022, 0.033), interval(0.022, 0.033, signed=True), interval(float("nan"), float("nan"))
    ('[0.022, 0.033]', '[+0.022, +0.033]', '')
    """
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{number(low, decimals, signed=signed)}, {number(high, decimals, signed=signed)}]"


def counted(n: int, noun: str) -> str:
    """Return a number of things: ``1 question``, ``2,500 questions``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(texts: list[str]) -> str:
    """Join texts as a sentence does: ``a, b and c``."""
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)
