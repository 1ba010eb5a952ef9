"""Which values of files, frames and records are missing, and what the others are in Python."""

from decimal import Decimal

#: As programs write a missing value. Case counts: "Na" is sodium, and "none" an answer.
MISSING = frozenset((
    "nan", "NaN", "NAN", "-nan", "-NaN", "<NA>", "NA", "N/A", "n/a", "#NA", "#N/A", "#N/A N/A", "NaT", "None",
    "null", "Null", "NULL", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
))  # fmt: skip


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
