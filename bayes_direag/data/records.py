"""One question with its observations, as a file states them, and the words for one that cannot be used."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from bayes_direag.errors import ObservationError


def _blank_is_missing(text: str | None) -> str | None:
    return text if text and not text.isspace() else None


OptionalText = Annotated[str | None, AfterValidator(_blank_is_missing)]


class Observation(BaseModel):
    """What one level reported on one question.

    Numbers given for texts become text, a blank text is a missing one, and further fields are kept as given.

    Attributes
    ----------
    level, level_name : int; str, optional
        The 0-based number of the level, which means the same in every question, and what it is called.
    answer : str, optional
        As given.
    confidence : float, optional
        As stated, in percent, 0..100.
    correct : bool, optional
        Whether the answer is right, where equality with the gold answer does not decide that.
    group : str, optional
        What exchangeable levels, such as runs of one model, have in common: all that a fit learns of them.
    """

    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)

    level: Annotated[int, Field(ge=0, lt=2**40, strict=True)]
    level_name: OptionalText = None
    answer: OptionalText = None
    confidence: Annotated[float, Field(ge=0, le=100, strict=True, allow_inf_nan=False)] | None = None
    correct: Annotated[bool, Field(strict=True)] | None = None
    group: OptionalText = None


class Question(BaseModel):
    """A question, its gold answer if known, and its observations: no level twice, any level missing.

    Attributes
    ----------
    problem_id : str
        The name of the question, which no other question of the file has.
    dataset, model, question : str, optional
        Where the question is from, which model answered it, and its text.
    gold_answer : str, optional
        The right answer, if known.
    cluster : str, optional
        What it hangs together by with others of the same cluster: a prompt, a document, a paraphrased question.
    observations : tuple of Observation
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
                raise PydanticCustomError("duplicate_level", "this level stands twice in the question", place)
        return observations


#: The columns of a table in long form: one row an observation, or a question that has none.
OF_OBSERVATION = ("level", "level_name", "answer", "confidence", "correct", "group")
OF_QUESTION = ("gold_answer", "cluster", "dataset", "model", "question")
COLUMNS = ("problem_id", *OF_OBSERVATION, *OF_QUESTION)


class Origin(NamedTuple):
    """Where questions were read: the file, and the line on which each begins; None if they were not."""

    path: Path | None
    lines: tuple[int | None, ...]


def no_questions(path: Path | None) -> ObservationError:
    """Return the error of a file that holds no question."""
    return ObservationError(
        "there are no questions",
        path=path,
        expected="at least one question",
        remedy="Check that the run that should have written them has finished.",
    )


def check_unique(questions: Sequence[Question], source: Origin) -> None:
    """Raise ObservationError if there is no question, or two go by one problem_id."""
    if not questions:
        raise no_questions(source.path)
    lines: dict[str, int | None] = {}
    for question, line in zip(questions, source.lines, strict=True):
        if question.problem_id in lines:
            first = lines[question.problem_id]
            raise ObservationError(
                f"this question stands here twice{f', first on line {first}' if first else ''}",
                path=source.path,
                line=line,
                field="problem_id",
                seen=question.problem_id,
                expected="every question once",
                remedy="Remove one of the two, or give them different ids.",
            )
        lines[question.problem_id] = line


# What each field takes, and what to do where it holds something else.
_EXPECTED = {
    "": ("an object with problem_id and observations", "Write one JSON object a line, one line a question."),
    "problem_id": ("a name that is not empty", "Give every question its own problem_id."),
    "observations": ("a list of objects, one a level", "Write the levels' observations as a list, empty if none."),
    "level": (
        "a whole number from 0, once a question",
        "Number the levels 0, 1, 2 ..., the same way in every question; names of levels are read with --column "
        "level=NAME, NAME being that of the column.",
    ),
    "answer": ("text, a number or null", "Write the answer as text, and null where there is none."),
    "confidence": (
        "a number from 0 to 100, or null",
        "Write confidences in percent, and null (in a table nothing) where none was stated.",
    ),
    "correct": ("true, false or null", "Write true or false without quotation marks, or leave the field out."),
}
_OTHERWISE = ("text, a number or null", "Correct the value, or leave the field out.")


def question_from_record(
    record: object,
    path: Path | None,
    line: int,
    *,
    rows: Sequence[int] = (),
    spelling: Mapping[str, str] | None = None,
) -> Question:
    """Validate one record of a file, under the field names of :class:`Question`; line and path are for the error.

    Parameters
    ----------
    rows : sequence of int, optional
        The line of each observation, if the file has one row an observation.
    spelling : mapping, optional
        How the file spells the field names that differ from this project's.

    Raises
    ------
    ObservationError
        On the first field that cannot be used; it names the place, the value, and how many more there are.
    """
    try:
        return Question.model_validate(record)
    except ValidationError as error:
        more = error.error_count() - 1
        raise _record_error(error.errors(include_url=False)[0], more, path, line, rows, spelling or {}) from error


def question_from_rows(
    rows: Sequence[Mapping[str, object]],
    lines: Sequence[int],
    path: Path | None,
    spelling: Mapping[str, str] | None = None,
) -> Question:
    """Make a question of its rows in a table, at least one; a row without anything of a report is no observation.

    Raises
    ------
    ObservationError
        If the rows disagree about the question, or as :func:`question_from_record` does.
    """
    name = rows[0].get("problem_id")
    record: dict[str, object] = {} if name is None else {"problem_id": name}
    observations, places = [], []
    for line, row in zip(lines, rows, strict=True):
        given = {column: value for column, value in row.items() if value is not None}
        for column in OF_QUESTION:
            value = given.get(column, "")
            if str(value).strip() and record.setdefault(column, value) != value:
                raise ObservationError(
                    f"question {name!r} has {record[column]!r} in an earlier row",
                    path=path,
                    line=line,
                    field=(spelling or {}).get(column, column),
                    seen=value,
                    expected="one value in all rows of a question",
                    remedy="Make the rows agree, or give the questions different ids.",
                )
        observation = {column: given[column] for column in OF_OBSERVATION if column in given}
        level = observation.get("level")
        if isinstance(level, float) and level.is_integer():  # tables hold levels as floats where one is missing
            observation["level"] = int(level)
        if observation:
            observations.append(observation)
            places.append(line)
    return question_from_record(
        {**record, "observations": observations}, path, lines[0], rows=places, spelling=spelling
    )


def _record_error(
    first: ErrorDetails,
    more: int,
    path: Path | None,
    line: int,
    rows: Sequence[int],
    spelling: Mapping[str, str],
) -> ObservationError:
    """Return the error of a record, told in the words of the file."""
    steps, seen, problem = list(first["loc"]), first["input"], "this value cannot be used"
    if first["type"] == "duplicate_level":
        steps += [first["ctx"]["index"], "level"]
        seen, problem = first["ctx"]["level"], first["msg"]
    elif first["type"] == "missing":
        seen, problem = ..., "this field is missing"
    name = next((step for step in reversed(steps) if isinstance(step, str)), "")
    if name == "observations" and isinstance(steps[-1], int):
        problem = "this observation is not an object"
    if rows and len(steps) > 1 and isinstance(steps[1], int):
        line, steps = rows[steps[1]], steps[2:]
    spelled = (f"[{step}]" if isinstance(step, int) else f".{spelling.get(step, step)}" for step in steps)
    expected, remedy = _EXPECTED.get(name, _OTHERWISE)
    return ObservationError(
        f"{problem}{f' (and {more} more in this question)' if more else ''}",
        path=path,
        line=line,
        field="".join(spelled).removeprefix(".") or None,
        seen=seen,
        expected=expected,
        remedy=remedy,
    )
