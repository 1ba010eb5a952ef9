"""Values as Python has them, and confidences in percent."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

#: As programs write a missing value. Case counts: "Na" is sodium, and "none" an answer.
MISSING = frozenset((
    "nan", "NaN", "NAN", "-nan", "-NaN", "<NA>", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NaT", "None",
    "null", "Null", "NULL", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
))  # fmt: skip

ConfidenceScale = Literal["percent", "fraction", "1-5", "0-10"]
#: The least and the largest confidence on each scale.
SCALES: Mapping[str, tuple[int, int]] = {"percent": (0, 100), "fraction": (0, 1), "1-5": (1, 5), "0-10": (0, 10)}


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
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match:
        return float(match[1].replace(",", "."))
    return float(value) if isinstance(value, Decimal) else value


def on_percent_scale(value: object, scale: ConfidenceScale | None) -> object:
    """Return a confidence on a scale in percent; what is no number, or a text with the sign of percentages, stays."""
    number, (low, high) = percentage(value), SCALES[scale or "percent"]
    if high == 100 or is_percentage(value) or isinstance(number, bool) or not isinstance(number, int | float):
        return number
    return round(100 * (number - low) / (high - low), 12)


def flag(text: str) -> object:
    """Return whether a text says true or false, or 1 or 0; any other as it is."""
    flags = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    return flags.get(text.strip().lower(), text)


def is_percentage(value: object) -> bool:
    """Tell whether a value is a text that ends with the sign of percentages."""
    return isinstance(value, str) and value.rstrip().endswith("%")
