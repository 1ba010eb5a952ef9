"""The errors that a user can cause and correct, which the command line prints as one line; and warnings."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

# A value in quotation marks, as repr gives it; an apostrophe follows a letter.
_QUOTED = re.compile(r"(?<![\w\\])(['\"])((?:\\.|(?!\1)[^\\])*)\1(?!\w)")
_MOST_QUOTED = 200


def abridged(message: str, most: int = 4000) -> str:
    """Return a message whose middle is left out if it is longer than that many characters."""
    half = most // 2
    return message if len(message) <= most else f"{message[:half]} [...] {message[-half:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence, after a space, with the known name that is nearest to one that is not; empty if none is near.

    Examples
    --------
    >>> did_you_mean("majorty", ["vanilla", "majority"]), did_you_mean("x", ["vanilla"])
    (' Did you mean majority?', '')
    """
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


class DirEAGError(Exception):
    """The base of all expected errors: the message says what was seen, what was expected and what to do.

    The middle of a quoted value of more than 200 characters is left out.
    """

    def __init__(self, message: str) -> None:
        super().__init__(abridged(_QUOTED.sub(lambda value: abridged(value[0], _MOST_QUOTED), message)))


class ObservationError(DirEAGError):
    """An observation file (or record) that cannot be used as it is.

    Made of what is wrong, in one clause; the file, the line (or row, from 1), and the field as the file spells it; the
    value seen; what would have been right; and what to do about it. The place and the value may be missing.
    """

    def __init__(
        self,
        problem: str,
        *,
        expected: str,
        remedy: str,
        path: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        seen: object = ...,
    ) -> None:
        parts = {"": path, "line ": line, "field ": field}
        place = ", ".join(f"{name}{value}" for name, value in parts.items() if value is not None)
        try:
            shown = repr(seen)
        except ValueError:  # Python writes no integer of more than 4300 digits
            shown = f"{type(seen).__name__} of thousands of digits"
        value = "" if seen is ... else f"; saw {abridged(shown, _MOST_QUOTED)}"
        super().__init__(f"{place}{': ' if place else ''}{problem}{value}; expected {expected}. {remedy}")
        self.path, self.line, self.field, self.seen = path, line, field, seen

    def __reduce__(self) -> tuple[object, ...]:
        return Exception.__new__, (type(self), *self.args), self.__dict__  # to come back from another process


class ArgumentError(DirEAGError, TypeError):
    """An argument of a type that a function does not take."""


class WeightError(DirEAGError, ValueError):
    """Weights of questions that cannot be used."""


class LevelError(DirEAGError):
    """Observations with levels that a fit does not know."""


class ConvergenceError(DirEAGError):
    """An optimiser that did not reach its optimum."""


class FitFileError(DirEAGError):
    """A file that is not a fit, or that this version cannot read."""


class ColumnsWarning(UserWarning):
    """The columns of a table, or the scale of its confidences, were told by what is in it, or columns are left out."""


class FewReportsWarning(UserWarning):
    """Predicted questions have fewer reports, or signals, than those that a fit has learned from."""


def not_observations(function: str, given: object, expected: str) -> ArgumentError:
    """Return the error of something else given in place of observations, with how to make them of it."""
    if isinstance(given, str | Path):
        remedy = f"Read them: Observations.read({str(given)!r})."
    elif hasattr(given, "collect"):
        remedy = "Collect it first: frame.collect()."
    elif hasattr(given, "columns"):
        remedy = (
            "Make them: Observations.from_frame(frame, question='...', level='...', answer='...', confidence='...', "
            "gold='...') for one row a report, Observations.from_wide(...) for one row a question."
        )
    elif isinstance(given, Sequence):
        remedy = "Make them: Observations.from_records(records)."
    else:
        remedy = "Make them with Observations.read, from_frame, from_wide or from_records."
    return ArgumentError(f"{function}: saw {type(given).__name__}; expected {expected}. {remedy}")
