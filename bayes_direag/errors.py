"""The errors a user can cause and mend; the command line prints each as one clear line and exits with 2."""

from collections.abc import Iterable
from pathlib import Path


class DirEAGError(Exception):
    """Base of every expected error: its message says what was seen, what was expected and what to do."""


class ObservationError(DirEAGError):
    """An observation file (or record) that cannot be used as it is.

    Parameters
    ----------
    problem : str
        What is wrong, in one clause without a final full stop.
    path : path-like, optional
        The file it stands in.
    line : int, optional
        The 1-based line (or row) of the file.
    field : str, optional
        The field at fault, as the file spells it, for example ``observations[2].confidence``.
    seen : object, optional
        The value found there; shown in ``repr`` form, cut at 60 characters. Leave out for "nothing".
    expected : str
        What would have been right.
    remedy : str
        What to do about it.
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
        place = ", ".join(_place(path, line, field))
        value = "" if seen is ... else f"; saw {_shorten(repr(seen))}"
        super().__init__(f"{place}{': ' if place else ''}{problem}{value}; expected {expected}. {remedy}")
        self.path, self.line, self.field, self.seen = path, line, field, seen


class ArgumentError(DirEAGError, TypeError):
    """An argument of a type that a function does not take."""


class LevelError(DirEAGError):
    """Observations whose levels are not those a fit has learned."""


class ConvergenceError(DirEAGError):
    """An optimiser that did not reach its optimum."""


class FitFileError(DirEAGError):
    """A file that is not a fit, or not one this version can read."""


def _place(path: str | Path | None, line: int | None, field: str | None) -> Iterable[str]:
    if path is not None:
        yield str(path)
    if line is not None:
        yield f"line {line}"
    if field is not None:
        yield f"field {field}"


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
