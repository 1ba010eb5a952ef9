"""What functions accept as observations: Observations, what they are read from, or the bundled examples."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Literal

import numpy as np

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import RUN, Columns
from bayes_direag.data.equality import Sameness
from bayes_direag.data.json_lines import table_of_questions, table_of_records
from bayes_direag.data.long_table import LongTable
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import FIELDS, SIGNALS, Question
from bayes_direag.data.runs import NO_GROUPS, run_number
from bayes_direag.errors import ObservationError, did_you_mean, not_observations

#: The name of the one question that a service is asked.
ASKED = "asked"

ExampleName = Literal["panel", "steered", "samples", "topk", "gsm8k", "judges"]


def example_observations(name: ExampleName = "panel") -> Observations:
    """Return bundled observations of real models; ``bayes_direag/example/SOURCES.md`` says where they come from.

    ``panel``: ten models on 300 multiple-choice questions, each reply with three signals of confidence; the first 40
    are those that ``direag quickstart`` learns from. The others are of one small model: ``steered``, 300 word problems
    under five confidence-steering prompts; ``samples`` and ``topk``, for 100 of these five samples of the neutral
    prompt, and one list of guesses; ``gsm8k``, 150 harder problems under the five prompts; ``judges``, verdicts of five
    prompts on 150 answers.

    Examples
    --------
    >>> observations = example_observations()
    >>> len(observations), observations.n_levels, [*observations.signals]
    (300, 10, ['number', 'logprob', 'words'])
    """
    file = {"panel": "panel.csv", "steered": "observations.jsonl"}.get(name, f"{name}.jsonl")
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
        from bayes_direag.data.tables import table_of_frame

        return Observations.of_table(LongTable.of(table_of_frame(source), columns), answers, same=same)
    if isinstance(source, Sequence):
        return Observations.from_records(source, answers, columns, same)
    raise not_observations("predict", source, "Observations, a path, a DataFrame in long form, or a list of records")


def table_of_reports(reports: Sequence[Mapping[str, object]], read_as: Columns | None) -> LongTable:
    """Take the reports on one question, under our names, on the scale and with the groups of ``read_as``."""
    is_list = isinstance(reports, Sequence) and not isinstance(reports, str | Mapping)
    if odd := [reports] if not is_list else [one for one in reports if not isinstance(one, Mapping)][:1]:
        raise not_observations("answer", odd[0], "a list of reports, each an object")
    known = read_as or Columns()
    names = Columns(scale=known.scale, groups=known.groups, run=known.run, needs_labels=False)
    if not reports:
        return table_of_questions([Question(problem_id=ASKED, observations=())])
    rows = [
        (number, {"answer": None, "confidence": None, **report, "problem_id": ASKED, "level": _level(report, known)})
        for number, report in enumerate(reports, 1)
    ]
    table = LongTable.of(table_of_records(rows, None), names, with_labels=False)
    for percents in table.percents.values() if known.scale is None else ():
        if 0 < (most := np.nanmax(percents, initial=0.0)) <= 1 and (percents % 1 > 0).any():
            raise ObservationError(
                "all confidences are at most 1, so they look like fractions",
                field="confidence",
                seen=float(most),
                expected="percentages, 0 to 100",
                remedy="Multiply them by 100.",
            )
    return table


def unknown_fields(reports: Sequence[Mapping[str, object]]) -> list[str]:
    """Say which fields of reports are not known, and so not used."""
    names = dict.fromkeys(str(name) for report in reports for name in report)
    unknown = [name for name in names if name not in (*FIELDS, RUN) and not SIGNALS.holds(name)]
    return [f"The field {name} is not known, and was not used.{did_you_mean(name, FIELDS)}" for name in unknown]


def _level(report: Mapping[str, object], known: Columns) -> object:
    """Return the name of a report's level, as the fit spells runs; None if it has a group alone."""
    level, name, run = (report.get(field) for field in ("level", "level_name", RUN))
    if level is None and name is None and "group" in report:
        return None
    is_of_one_group = bool(known.groups) and known.groups != NO_GROUPS and "{group}" not in str(known.groups)
    if level is None and name is None and not (is_of_one_group and run is not None):
        raise ObservationError(
            "this report has no field level",
            seen=", ".join(map(str, report)),
            expected="level, answer and confidence, by these names",
            remedy="Name its level.",
        )
    spelled = level if isinstance(level, str) else name or f"level_{level}"
    number = run if level is None and name is None else run_number(str(spelled))
    return spelled if number is None or not is_of_one_group else str(known.groups).replace("{n}", str(number))


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
