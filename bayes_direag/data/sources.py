"""What a function is given in the place of observations: it reads that, or says what makes observations of it."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.observations import Observations
from bayes_direag.errors import ArgumentError


def observations_of(source: object, answers: AnswerKind) -> Observations:
    """Return observations as they are, or read those of a path, a frame in long form, or records.

    Raises
    ------
    ArgumentError
        For anything else.
    ObservationError
        As :class:`Observations` does when it reads.
    """
    if isinstance(source, Observations):
        return source
    if isinstance(source, str | Path):
        return Observations.read(source, answers)
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return Observations.from_frame(source, answers=answers)  # type: ignore[arg-type]
    if isinstance(source, Sequence):
        return Observations.from_records(source, answers)
    raise _not_observations("predict", source, "Observations, a path, a DataFrame in long form, or a list of records")


def takes_observations[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Have a function refuse, as its argument ``observations``, what is none, and say what makes them of it.

    The error is an :class:`~bayes_direag.errors.ArgumentError`.
    """
    parameters = signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = parameters.bind_partial(*args, **kwargs).arguments.get("observations")
        if given is not None and not isinstance(given, Observations):
            raise _not_observations(function.__qualname__, given, "Observations")
        return function(*args, **kwargs)

    return checked


def _not_observations(function: str, given: object, expected: str) -> ArgumentError:
    if isinstance(given, str | Path):
        remedy = f"Read them: Observations.read({str(given)!r})."
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
