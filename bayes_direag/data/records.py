"""Questions with their observations: their validated fields, the column names of tables, and the errors of a file."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from bayes_direag.errors import DirEAGError, ObservationError

Scale = Literal["percent", "fraction"]

type Row = dict[str, object]
type SameAnswer = Callable[[str, str, "Question"], bool]
"""Tells whether two different canonical answers to a question are equal."""


OptionalText = Annotated[str | None, AfterValidator(lambda text: text if text and not text.isspace() else None)]
Percent = Annotated[float, Field(ge=0, le=100, strict=True, allow_inf_nan=False)]
SignalName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]

#: The name of the stated confidence among the signals.
NUMBER = "number"
_SIGNAL = "confidence_"


def signal_column(name: str) -> str:
    """Return the name of the column of a signal other than the stated confidence."""
    return f"{_SIGNAL}{name}"


def signal_of(column: str) -> str:
    """Return the name of the signal in a column."""
    return column.removeprefix(_SIGNAL)


def is_signal(column: str) -> bool:
    """Tell whether a column holds a signal other than the stated confidence."""
    return column.startswith(_SIGNAL)


class Status(IntEnum):
    """Why an observation is, or is not, usable."""

    USABLE = 0
    ABSENT = 1
    """The question has no observation of this level."""
    NO_ANSWER = 2
    """The answer is null."""
    UNPARSABLE = 3
    """The answer cannot be read in the declared kind."""
    NO_CONFIDENCE = 4
    """The answer can be read, but the confidence is null."""


class Observation(BaseModel):
    """The report of one level on one question.

    Numbers in text fields become text, blank texts are missing, and further fields are kept as given.

    Attributes
    ----------
    level, level_name
        The number of the level, from 0 and the same in every question, and its name.
    answer, confidence
        The answer as given, and the stated confidence in percent, 0..100.
    confidences
        Signals of confidence by name, each in percent; ``number`` is the stated confidence.
    correct
        Whether the answer is right, if equality with the gold answer does not decide that.
    group
        The name that exchangeable levels, such as runs of one model, share; they have the same parameters.
    """

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    level: Annotated[int, Field(ge=0, lt=2**40, strict=True)]
    level_name: OptionalText = None
    answer: OptionalText = None
    confidence: Percent | None = None
    confidences: dict[SignalName, Percent | None] = {}
    correct: Annotated[bool, Field(strict=True)] | None = None
    group: OptionalText = None

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, given: object) -> object:
        signals = given.get("confidences") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(signals, dict) or signals.get(NUMBER) is None:
            return given
        if given.get("confidence") is None:
            return given | {"confidence": signals[NUMBER]}
        if given["confidence"] != signals[NUMBER]:
            raise PydanticCustomError("two_numbers", "the stated confidence stands here twice, and differs")
        return given


class Question(BaseModel):
    """A question, its gold answer if known, and at most one observation of each level.

    Attributes
    ----------
    problem_id
        The name of the question, unique in the file.
    dataset, model, question
        The source of the question, the model that answered it, and its text.
    cluster
        What dependent questions share: a prompt, a document, a paraphrased question.
    observations
        In the order of the file; may be empty.
    """

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    problem_id: Annotated[str, Field(min_length=1)]
    dataset: OptionalText = None
    model: OptionalText = None
    question: OptionalText = None
    gold_answer: OptionalText = None
    cluster: OptionalText = None
    observations: tuple[Observation, ...]

    @field_validator("observations")
    @classmethod
    def _no_level_twice(cls, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        levels = [observation.level for observation in observations]
        for index, level in enumerate(levels):
            if level in levels[:index]:
                place = {"index": index, "level": level}
                raise PydanticCustomError("duplicate_level", "this level occurs twice in the question", place)
        return observations


#: The columns of a table in long form, with one row for each observation, or for a question that has none.
OF_OBSERVATION = ("level", "level_name", "answer", "confidence", "correct", "group")
OF_QUESTION = ("gold_answer", "cluster", "dataset", "model", "question")
COLUMNS = ("problem_id", *OF_OBSERVATION, *OF_QUESTION)

_NAMED = ("question", "level", "answer", "confidence", "gold", "correct", "cluster", "group")
_OURS = {"question": "problem_id", "gold": "gold_answer"}


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table, or of the fields of records.

    Attributes
    ----------
    question, level, answer, confidence, gold, correct, cluster, group : str
        The name of each column. Levels may be numbers from 0 or names, which are then numbered. Reports with a group
        need no level: they are the first, second ... of their group in the question.
    levels : sequence of str, optional
        The names of the levels in order; by default in order of appearance.
    scale : {"percent", "fraction"}, optional
        Whether confidences go from 0 to 100 or from 0 to 1. By default percent, and confidences that look like
        fractions are an error.
    same_answer : callable, optional
        Tells which answers are equal; see :mod:`bayes_direag.data.equality`.
    """

    question: str = "problem_id"
    level: str = "level"
    answer: str = "answer"
    confidence: str = "confidence"
    gold: str = "gold_answer"
    correct: str = "correct"
    cluster: str = "cluster"
    group: str = "group"
    levels: Sequence[str] | None = None
    scale: Scale | None = None
    same_answer: SameAnswer | None = None

    @classmethod
    def named(
        cls, pairs: Iterable[str], scale: Scale | None = None, same_answer: SameAnswer | None = None
    ) -> "Columns":
        """Read pairs ``FIELD=NAME``; raise DirEAGError for anything else."""
        names: dict[str, str] = {}
        for pair in pairs:
            field, _, name = pair.partition("=")
            if field not in _NAMED or not name:
                raise DirEAGError(
                    f"--column {pair}: expected FIELD=NAME, the field one of {', '.join(_NAMED)} and the name that "
                    "of a column, such as level=model."
                )
            names[field] = name
        return cls(**names, scale=scale, same_answer=same_answer)

    @cached_property
    def spelling(self) -> dict[str, str]:
        """The column names by the field names of observation files."""
        return {_OURS.get(name, name): getattr(self, name) for name in _NAMED}

    def check(self, given: Sequence[str], path: Path | None) -> None:
        """Raise ObservationError unless a table has the columns that are required or renamed, each once."""
        default = Columns().spelling
        required = ("problem_id", *(() if self.group in given else ("level",)), "answer", "confidence")
        wanted = [name for our, name in self.spelling.items() if our in required or name != default[our]]
        missing = [name for name in wanted if name not in given]
        if missing or len(set(given)) < len(given):
            raise ObservationError(
                f"the table has no column {missing[0]}" if missing else "the table has two columns of the same name",
                path=path,
                line=None if path is None else 1,
                seen=", ".join(given),
                expected=f"the columns {', '.join(wanted)}, each once",
                remedy="Name the columns (--column level=NAME; in Python level='NAME'), or rename them. A file that is "
                "not a table must begin with { on every line.",
            )

    def row(self, given: Mapping[str, object]) -> Row:
        """Return a row, or a record with its reports, under our names, with None for missing values (NaN, NA)."""
        named = {self._ours.get(str(name), str(name)): value for name, value in given.items()}
        row = {name: _plain(value) for name, value in named.items() if name is not None}
        if isinstance(reports := row.get("observations"), Sequence):
            row["observations"] = [self.row(report) if isinstance(report, Mapping) else report for report in reports]
        return row

    @cached_property
    def _ours(self) -> dict[str, str | None]:
        """Our names by theirs; None for a column that has our name for another column."""
        return {**dict.fromkeys(self.spelling), **{their: our for our, their in self.spelling.items()}}

    def converted(self, numbered: Iterable[tuple[int, Row]], path: Path | None) -> list[tuple[int, Row]]:
        """Change rows in place, and return them: levels with names get numbers, and fractions become percentages.

        Raises ObservationError for a level that is not in ``levels``, or a fraction outside 0..1.
        """
        numbered = list(numbered)
        n_of_group: Counter[tuple[object, object]] = Counter()
        for _, row in numbered:
            if row.get("group") is not None and row.get("level") is None:
                group = row.get("problem_id"), row["group"]
                n_of_group[group] += 1
                row["level"] = f"{row['group']} {n_of_group[group]}"
        place = {name: number for number, name in enumerate(self.levels or ())}
        named = all(isinstance(row["level"], str) for _, row in numbered if row.get("level") is not None)
        for line, row in numbered:
            level = row.get("level")
            if named and isinstance(level, str):
                if self.levels and level not in place:
                    raise ObservationError(
                        "this level is not among those given",
                        path=path,
                        line=line,
                        field=self.level,
                        seen=level,
                        expected=f"one of {', '.join(self.levels)}",
                        remedy="Add it to the levels, or leave its rows out.",
                    )
                row |= {"level": place.setdefault(level, len(place)), "level_name": level}
            if self.scale == "fraction":
                stated = {name: value for name, value in row.items() if name == "confidence" or is_signal(name)}
                row |= self._percentages(stated, path, line)
                if isinstance(signals := row.get("confidences"), dict):
                    row["confidences"] = self._percentages(signals, path, line)
            if row.get("correct") in (0, 1):
                row["correct"] = bool(row["correct"])
        return numbered

    def _percentages(self, fractions: Row, path: Path | None, line: int) -> Row:
        numbers = {name: value for name, value in fractions.items() if isinstance(value, int | float)}
        for name, fraction in numbers.items():
            if not 0 <= fraction <= 1:
                raise ObservationError(
                    "this confidence is not a fraction",
                    path=path,
                    line=line,
                    field=self.spelling.get(name, name),
                    seen=fraction,
                    expected="a number from 0 to 1",
                    remedy="Correct it, or declare percentages (scale percent).",
                )
        return fractions | {name: round(100 * float(fraction), 12) for name, fraction in numbers.items()}


def _plain(value: object) -> object:
    """Return the Python value of a NumPy scalar, and None for a missing value."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # type: ignore[attr-defined]
    missing = (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")
    return None if missing else value


class Origin(NamedTuple):
    """Where questions were read: the file, and the line on which each begins; None if there is none."""

    path: Path | None
    lines: tuple[int | None, ...]


def no_questions(path: Path | None) -> ObservationError:
    """Return the error of a file without questions."""
    return ObservationError(
        "there are no questions",
        path=path,
        expected="at least one question",
        remedy="Check that the run that should have written them has finished.",
    )


def check_unique(questions: tuple[Question, ...], source: Origin) -> tuple[tuple[Question, ...], Origin]:
    """Return the arguments; raise ObservationError if there is no question, or two have the same problem_id."""
    if not questions:
        raise no_questions(source.path)
    lines: dict[str, int | None] = {}
    for question, line in zip(questions, source.lines, strict=True):
        if question.problem_id in lines:
            first = lines[question.problem_id]
            raise ObservationError(
                f"this question occurs twice{f', first on line {first}' if first else ''}",
                path=source.path,
                line=line,
                field="problem_id",
                seen=question.problem_id,
                expected="every question once",
                remedy="Remove one of the two, or give them different ids.",
            )
        lines[question.problem_id] = line
    return questions, source


# By field: the values that it takes, and what to do about others.
_EXPECTED = {
    "": ("an object with problem_id and observations", "Write one JSON object per line, one line per question."),
    "problem_id": ("a name that is not empty", "Give every question its own problem_id."),
    "observations": ("a list of objects, one a level", "Write the observations as a list, empty if there are none."),
    "level": (
        "a whole number from 0, once a question",
        "Number the levels 0, 1, 2 ..., the same way in every question. To read names of levels, give --column "
        "level=NAME, where NAME is that of the column.",
    ),
    "answer": ("text, a number or null", "Write the answer as text, and null if there is none."),
    "confidence": (
        "a number from 0 to 100, or null",
        "Write confidences in percent, and null (in a table nothing) if none was stated.",
    ),
    "confidences": (
        "names (a letter, then letters, digits, _, - or .) with numbers from 0 to 100, or null",
        "Rename the signal, for example to logprob.",
    ),
    "correct": ("true, false or null", "Write true or false without quotation marks, or leave the field out."),
}
_OTHERWISE = ("text, a number or null", "Correct the value, or leave the field out.")


def question_from_record(
    record: object, path: Path | None, line: int, spelling: Mapping[str, str] | None = None, rows: Sequence[int] = ()
) -> Question:
    """Validate one record of a file, under the field names of :class:`Question`.

    ``spelling`` holds the file's names of fields where they differ, and ``rows`` the lines of the observations if these
    are rows of a table. Raises ObservationError for the first value that cannot be used; it gives the place, the value,
    and the number of further errors.
    """
    try:
        return Question.model_validate(record)
    except ValidationError as error:
        raise _record_error(error, path, line, spelling or {}, rows) from error


def question_from_rows(
    numbered: Sequence[tuple[int, Mapping[str, object]]], path: Path | None, spelling: Mapping[str, str] | None = None
) -> Question:
    """Make a question of its numbered rows in a table; a row without any field of a report is not an observation.

    Raises ObservationError if the rows disagree about the question, or as :func:`question_from_record` does.
    """
    first, row = numbered[0]
    name = row.get("problem_id")
    record: dict[str, object] = {} if name is None else {"problem_id": name}
    observations, lines = [], []
    for line, row in numbered:
        for column in OF_QUESTION:
            value = row.get(column)
            if value is not None and str(value).strip() and record.setdefault(column, value) != value:
                raise ObservationError(
                    f"question {name!r} has {record[column]!r} in an earlier row",
                    path=path,
                    line=line,
                    field=(spelling or {}).get(column, column),
                    seen=value,
                    expected="one value in all rows of a question",
                    remedy="Make the rows agree, or give the questions different ids.",
                )
        observation = {column: row[column] for column in OF_OBSERVATION if row.get(column) is not None}
        signals = {signal_of(name): value for name, value in row.items() if is_signal(name) and value is not None}
        if signals or row.get("confidences"):
            observation["confidences"] = signals or row["confidences"]
        level = observation.get("level")
        if isinstance(level, float) and level.is_integer():  # a table holds levels as floats if one is missing
            observation["level"] = int(level)
        if observation:
            observations.append(observation)
            lines.append(line)
    return question_from_record({**record, "observations": observations}, path, first, spelling, lines)


def _record_error(
    error: ValidationError, path: Path | None, line: int, spelling: Mapping[str, str], rows: Sequence[int]
) -> ObservationError:
    """Return the first error of a record, with the names that the file uses."""
    first, n_further = error.errors(include_url=False)[0], error.error_count() - 1
    steps, seen, problem = list(first["loc"]), first["input"], "this value cannot be used"
    if first["type"] == "duplicate_level":
        steps += [first["ctx"]["index"], "level"]
        seen, problem = first["ctx"]["level"], first["msg"]
    elif first["type"] == "missing":
        seen, problem = ..., "this field is missing"
    elif first["type"] == "two_numbers":
        steps.append("confidences")
        seen, problem = first["input"]["confidences"], first["msg"]
    name = next((step for step in reversed(steps) if isinstance(step, str)), "")
    if name == "observations" and isinstance(steps[-1], int):
        problem = "this observation is not an object"
    if "confidences" in steps:
        name = "confidences" if steps[-1] == "[key]" else "confidence"
    if rows and len(steps) > 1 and isinstance(steps[1], int):
        line, steps = rows[steps[1]], steps[2:]
        if steps[0] == "confidences" and len(steps) > 1:
            steps = [signal_column(str(steps[1]))]
    spelled = (f"[{step}]" if isinstance(step, int) else f".{spelling.get(step, step)}" for step in steps)
    expected, remedy = _EXPECTED.get(name, _OTHERWISE)
    return ObservationError(
        f"{problem}{f' (and {n_further} more in this question)' if n_further else ''}",
        path=path,
        line=line,
        field="".join(spelled).removeprefix(".") or None,
        seen=seen,
        expected=expected,
        remedy=remedy,
    )
