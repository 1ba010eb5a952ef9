"""Values as Python has them, confidences in percent, and names of levels without the number of a run."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
SCALES: Mapping[str, tuple[int, int]] = {"percent": (0, 100), "fraction": (0, 1), "1-5": (1, 5), "0-10": (0, 10)}

#: In place of a form of groups: every level is one of its own.
NO_GROUPS = "none"
# Words that say of the number after them that it is that of a run.
_WORDS = "(?:run|sample|trial|repeat|seed|draw|try)s?"
_RUN = re.compile(rf"(.*?)([\W_]*(?<![^\W\d_]){_WORDS}[\W_]*)\d+([\W_]*)", re.IGNORECASE)


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


def on_percent_scale(value: object, scale: ConfidenceScale | None) -> object:
    """Return a confidence on a scale in percent; what is no number, or a text with the sign of percentages, stays."""
    given, (low, high) = percentage(value), SCALES[scale or "percent"]
    if high == 100 or is_percentage(value) or isinstance(given, bool) or not isinstance(given, int | float):
        return given
    return round(100 * (given - low) / (high - low), 12)


def flag(text: str) -> object:
    """Return whether a text says true or false, or 1 or 0; any other as it is."""
    flags = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    return flags.get(text.strip().lower(), text)


def is_percentage(value: object) -> bool:
    """Tell whether a value is a text that ends with the sign of percentages."""
    return isinstance(value, str) and value.rstrip().endswith("%")


def group_of(groups: str | None, level: str) -> str | None:
    """Return the group of a level by a form such as ``{group}_run{n}``; None if its name has another form.

    Without ``{group}`` there is one group, called as the form without ``{n}``, or ``runs``. A level that is a number
    alone, such as ``level_3``, has the form ``{n}``. With ``none`` no level has a group. Raises DirEAGError for a form
    without ``{n}``, which stands for a number.

    Examples
    --------
    >>> group_of("{group}_run{n}", "small_bold_run12"), group_of("sample {n}", "sample 3"), group_of("{n}", "level_3")
    ('small_bold', 'sample', 'runs')
    """
    if groups in (None, NO_GROUPS):
        return None
    if groups.count("{group}") > 1 or groups.count("{n}") != 1:
        raise DirEAGError(
            f"groups={groups!r} (--groups): expected the form of the names of levels, with a number {{n}} and "
            "the name of the group {group} if there are several, such as {group}_run{n} or {n}; or none."
        )
    pattern = re.escape(groups).replace(r"\{group\}", "(.+?)").replace(r"\{n\}", r"\d+")
    if "{group}" in groups:
        found = re.fullmatch(pattern, level)
        return found and found[1]
    name = groups.replace("{n}", "").strip(" _-/.:#()[]") or "runs"
    return name if re.fullmatch(pattern, level) or re.fullmatch(pattern, level.removeprefix("level_")) else None


def form_of_runs(levels: Sequence[str], column: str) -> str | None:
    """Return the form of the names of levels that are runs, by their names or by their column; None if they are none.

    Runs are two or more levels of a group whose names end in a word such as *run* and a number, or are numbers in a
    column with such a name. Of several forms, that of the most levels. None if a group would have another level's name.

    Examples
    --------
    >>> form_of_runs(["bold_run0", "bold_run1", "other"], "level"), form_of_runs(["level_0", "level_1"], "run")
    ('{group}_run{n}', '{n}')
    >>> form_of_runs(["gpt-4o-2024-05-13", "gpt-4o-2024-08-06"], "model"), form_of_runs(["prompt1", "prompt2"], "level")
    (None, None)
    """
    *before, last = column.split(",")
    forms = [("{group}/{n}" if before else "{n}")] if is_word_for_runs(last) else []
    named = filter(None, map(_RUN.fullmatch, levels))
    counted = Counter(f"{'{group}' * bool(found[1])}{found[2]}{{n}}{found[3]}" for found in named)
    for form in forms + [form for form, _ in counted.most_common()]:
        group = {level: group_of(form, level) for level in levels}
        sizes = Counter(filter(None, group.values()))
        if any(size > 1 for size in sizes.values()) and not sizes.keys() & {own for own in group if not group[own]}:
            return form
    return None


def is_word_for_runs(name: str) -> bool:
    """Tell whether a column with this name holds the number of a run."""
    return re.fullmatch(rf"{_WORDS}(?:[ _-]?(?:id|number|no|index))?", name.strip(), re.IGNORECASE) is not None
