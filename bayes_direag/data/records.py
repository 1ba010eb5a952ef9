"""Questions and their reports: the fields of both, each declared once, and the errors of values that cannot be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from bayes_direag.data.plain import is_percentage, percentage, plain
from bayes_direag.errors import ObservationError

type Fields = dict[str, object]


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


@dataclass(frozen=True)
class Words:
    """What a field takes, and what to do about another value."""

    expected: str
    remedy: str


def _worded(value: object) -> object:
    """Return a flag as a text, and any other value as :func:`plain` does."""
    value = plain(value)
    return str(value).lower() if isinstance(value, bool) else value


def _text(text: str | None) -> str | None:
    """Return a text, None if it is blank; raise ValueError for half a character, which cannot be written."""
    return text if text and text.encode() and not text.isspace() else None


_PLAIN = BeforeValidator(plain)
Text = Annotated[
    str | None,
    BeforeValidator(_worded),
    AfterValidator(_text),
    Words("text, a number or null", "Correct the value, or leave the field out."),
]
Percent = Annotated[
    float | None,
    Field(ge=0, le=100, strict=True, allow_inf_nan=False),
    BeforeValidator(percentage),
    Words(
        "a number from 0 to 100, or null",
        "Write confidences in percent, and null (in a table nothing) if none was stated.",
    ),
]
#: The pattern of the whole name of a signal.
SIGNAL_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"

#: The name of the stated confidence among the signals.
NUMBER = "number"


_UNIT = BeforeValidator(lambda value: value if is_percentage(value) else percentage(value))
Weight = Annotated[
    float | None,
    Field(ge=0, strict=True, allow_inf_nan=False),
    _UNIT,
    Words("a number from 0, or null", "Write how many questions this one counts as, or leave it out for 1."),
]

#: A number of a question that a model of one's own may read.
Number = Annotated[
    float | None,
    Field(strict=True, allow_inf_nan=False),
    _UNIT,
    Words("a number, or null", "Write null (in a table nothing) where a number is not known."),
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", coerce_numbers_to_str=True)


class Observation(_Record):
    """The report of one level on one question.

    Numbers in text fields become text, blank texts and those of :data:`~bayes_direag.data.plain.MISSING` are missing,
    and further fields are kept as given.

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

    level: Annotated[
        int,
        Field(ge=0, lt=2**40, strict=True),
        _PLAIN,
        Words(
            "a whole number from 0, once a question",
            "Number the levels 0, 1, 2 ..., the same way in every question. To read names of levels, give the "
            "name of their column: level='NAME' (on the command line --column level=NAME).",
        ),
    ]
    level_name: Text = None
    answer: Annotated[Text, Words("text, a number or null", "Write the answer as text, and null if there is none.")] = (
        None
    )
    confidence: Percent = None
    confidences: Annotated[
        dict[Annotated[str, Field(pattern=rf"^{SIGNAL_NAME}$")], Percent],
        Words(
            "names (a letter, then letters, digits, _, - or .) with numbers from 0 to 100, or null",
            "Rename the signal, for example to logprob.",
        ),
    ] = {}
    correct: Annotated[
        bool | None,
        Field(strict=True),
        _PLAIN,
        Words("true, false or null", "Write true or false without quotation marks, or leave the field out."),
    ] = None
    group: Text = None

    @model_validator(mode="before")
    @classmethod
    def _one_number(cls, report: object) -> object:
        if not isinstance(report, dict):
            return report
        if "confidences" in report and plain(report["confidences"]) is None:
            report = {name: value for name, value in report.items() if name != "confidences"}
        signals = report.get("confidences")
        number = plain(signals.get(NUMBER)) if isinstance(signals, dict) else None
        if number is None:
            return report
        if plain(report.get("confidence")) is None:
            return report | {"confidence": number}
        if report["confidence"] != number:
            raise PydanticCustomError("two_numbers", "the stated confidence stands here twice, and differs")
        return report


class Question(_Record):
    """A question, its gold answer if known, and at most one observation of each level.

    Attributes
    ----------
    problem_id
        The name of the question, unique in the file.
    dataset, model, question
        The source of the question, the model that answered it, and its text.
    cluster
        What dependent questions share: a prompt, a document, a paraphrased question.
    weight
        How many questions it counts as in a fit; 1 if it is missing, and 0 is as if it had no label.
    numbers
        Numbers by name, such as a length or the score of a retrieval, for models of one's own.
    observations
        In the order of the file; may be empty.
    """

    problem_id: Annotated[
        str,
        Field(min_length=1),
        _PLAIN,
        Words("a name that is not empty", "Give every question its own problem_id."),
    ]
    dataset: Text = None
    model: Text = None
    question: Text = None
    gold_answer: Text = None
    cluster: Text = None
    weight: Weight = None
    numbers: Annotated[
        dict[Annotated[str, Field(min_length=1)], Number],
        BeforeValidator(lambda numbers: {} if plain(numbers) is None else numbers),
        Words("names with numbers, or null", 'Name each number: {"length": 120}.'),
    ] = {}
    observations: Annotated[
        tuple[Observation, ...],
        Words("a list of objects, one a level", "Write the observations as a list, empty if there are none."),
    ]

    @field_validator("observations")
    @classmethod
    def _no_level_twice(cls, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        first: dict[int, int] = {}
        for index, observation in enumerate(observations):
            if first.setdefault(observation.level, index) != index:
                context = {"index": index, "level": observation.level_name or observation.level}
                raise PydanticCustomError("duplicate_level", "this level occurs twice in the question", context)
        return observations


#: All fields by name; in a table each is a column, but the confidences have one for every signal, as numbers have.
FIELDS = Question.model_fields | Observation.model_fields | {"number": FieldInfo.from_annotation(Number)}  # type: ignore[arg-type]
#: The columns of a table in long form, with one row for each observation, or for a question that has none.
OF_OBSERVATION = tuple(name for name in Observation.model_fields if name != "confidences")
OF_QUESTION = ("gold_answer", "cluster", "weight", "dataset", "model", "question")
COLUMNS = ("problem_id", *OF_OBSERVATION, *OF_QUESTION)


class ByName(NamedTuple):
    """Values that records have by name in one field, and tables in a column for each name."""

    field: str
    prefix: str

    def column(self, name: str) -> str:
        """Return the column of a name."""
        return f"{self.prefix}{name}"

    def name(self, column: str) -> str:
        """Return the name of what is in a column."""
        return column.removeprefix(self.prefix)

    def holds(self, column: str) -> bool:
        """Tell whether a column holds such values."""
        return column.startswith(self.prefix)


#: The signals of a report other than the stated confidence, and the numbers of a question.
SIGNALS, NUMBERS = ByName("confidences", "confidence_"), ByName("numbers", "numbers.")


def field_of(column: str) -> FieldInfo:
    """Return the field whose rules hold for the values of a column."""
    return FIELDS["confidence" if SIGNALS.holds(column) else "number" if NUMBERS.holds(column) else column]


def type_of(column: str) -> type:
    """Return the type of a column's values: str, int, float or bool."""
    annotation = field_of(column).annotation
    types: tuple[type, ...] = get_args(annotation) or (annotation,)
    return types[0]


def reports_of(record: object) -> Sequence[Fields] | None:
    """Return the reports of a question in a file; None if they are not a list of objects."""
    if isinstance(record, Question):
        return list(map(vars, record.observations))
    reports = record.get("observations") if isinstance(record, dict) else None
    return reports if isinstance(reports, list | tuple) and {*map(type, reports)} <= {dict} else None


def question_from_record(
    record: object,
    path: Path | None,
    line: int | None,
    spelling: Mapping[str, str],
    rows: Sequence[int | None] = (),
) -> Question:
    """Validate one record of a file, under the field names of :class:`Question`.

    ``spelling`` holds the file's names of fields where they differ, and ``rows`` the lines of the observations if these
    are rows of a table. Raises ObservationError for the first value that cannot be used; it gives the place, the value,
    and the number of further errors.
    """
    if isinstance(record, dict) and "observations" not in record:
        raise ObservationError(
            "this object has neither observations nor outputs",
            path=path,
            line=line,
            seen=sorted(record),
            expected="observations (this project's form) or outputs (the released implementation's)",
            remedy="Check that this is an observation file and not, for example, a question set; if it has a line a "
            "report, name its columns: level='NAME' (on the command line --column level=NAME).",
        )
    try:
        return Question.model_validate(record)
    except ValidationError as error:
        raise _record_error(error, path, line, spelling, rows) from error


_OF_RECORDS = Words(
    "an object with problem_id and observations", "Write one JSON object per line, one line per question."
)


_ONCE = Words(
    "each level once a question",
    "Remove one of the two, or tell them apart: by a second column, level='model,prompt' (on the command line --column "
    "level=model,prompt), or as runs of one level, by a column of groups and none of levels.",
)


def _record_error(
    error: ValidationError,
    path: Path | None,
    line: int | None,
    spelling: Mapping[str, str],
    rows: Sequence[int | None],
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
    name = next((step for step in reversed(steps) if isinstance(step, str)), None)
    if name == "observations" and isinstance(steps[-1], int):
        problem = "this observation is not an object"
    if "confidences" in steps:
        name = "confidences" if steps[-1] == "[key]" else "confidence"
    if steps[:1] == ["numbers"] and len(steps) > 1:
        name, steps = "numbers" if steps[-1] == "[key]" else "number", [NUMBERS.column(str(steps[1]))]
    if rows and len(steps) > 1 and isinstance(steps[1], int):
        line, steps = rows[steps[1]], steps[2:]
        if steps[0] == "confidences" and len(steps) > 1:
            steps = [SIGNALS.column(str(steps[1]))]
    spelled = (f"[{step}]" if isinstance(step, int) else f".{spelling.get(step, step)}" for step in steps)
    metadata = [_OF_RECORDS] if name is None else FIELDS[name].metadata
    if first["type"] == "duplicate_level":
        metadata = [_ONCE]
    (*_, words) = (meant for meant in metadata if isinstance(meant, Words))
    return ObservationError(
        f"{problem}{f' (and {n_further} more in this question)' if n_further else ''}",
        path=path,
        line=line,
        field="".join(spelled).removeprefix(".") or None,
        seen=seen,
        expected=words.expected,
        remedy=words.remedy,
    )
