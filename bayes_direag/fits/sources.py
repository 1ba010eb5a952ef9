"""What functions accept as observations: Observations, what they are read from, or the bundled examples."""

from collections.abc import Callable, Sequence
from functools import wraps
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Literal

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.data.equality import Sameness
from bayes_direag.data.observations import Observations
from bayes_direag.errors import not_observations

ExampleName = Literal["steered", "samples", "topk", "gsm8k", "judges"]


def example_observations(name: ExampleName = "steered") -> Observations:
    """Return bundled observations that were elicited from a small model; see docs/tutorial.md.

    ``steered``: 300 word problems under five confidence-steering prompts. ``samples`` and ``topk``: for 100 of these,
    five samples of the neutral prompt, and one list of guesses. ``gsm8k``: 150 harder problems under the five prompts.
    ``judges``: verdicts of five prompts on 150 answers.

    Examples
    --------
    >>> observations = example_observations()
    >>> len(observations), observations.level_names[0]
    (300, 'very_cautious')
    """
    file = "observations.jsonl" if name == "steered" else f"{name}.jsonl"
    with resources.as_file(resources.files("bayes_direag") / "example" / file) as path:
        return Observations.read(path)


def observations_of(
    source: object, answers: AnswerKind | None, columns: Columns | None, same: Sameness = None
) -> Observations:
    """Return Observations as they are, and read them from a path, a frame in long form, or records with these columns.

    Raises ArgumentError for anything else, and ObservationError as :class:`Observations` does when it reads.
    """
    if isinstance(source, Observations):
        return source
    if isinstance(source, str | Path):
        return Observations.read(source, answers, columns, same=same)
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        from bayes_direag.data.long_table import LongTable
        from bayes_direag.data.tables import table_of_frame

        return Observations.of_table(LongTable.of(table_of_frame(source), columns), answers, same=same)
    if isinstance(source, Sequence):
        return Observations.from_records(source, answers, columns, same)
    raise not_observations("predict", source, "Observations, a path, a DataFrame in long form, or a list of records")


def takes_observations[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise ArgumentError if ``observations`` or ``unlabelled`` is given and not Observations."""
    parameters = signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        arguments = parameters.bind_partial(*args, **kwargs).arguments
        for argument in map(arguments.get, ("observations", "unlabelled")):
            if argument is not None and not isinstance(argument, Observations):
                raise not_observations(function.__qualname__, argument, "Observations")
        return function(*args, **kwargs)

    return checked
