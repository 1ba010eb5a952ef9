"""Questions in long form, by column: what every source becomes, whole or in parts.

Each distinct value of a column is checked once, by the rules that its field has in a record. A question with an error
is then made a record, whose validation gives the message.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from bayes_direag.data.coded import Coded, converted, whole
from bayes_direag.data.columns import Columns
from bayes_direag.data.records import (
    FIELDS,
    NUMBER,
    OF_OBSERVATION,
    OF_QUESTION,
    Observation,
    Origin,
    Question,
    Row,
    is_signal,
    question_from_record,
    signal_column,
    signal_of,
)
from bayes_direag.errors import ObservationError

#: Makes a record of a question's number, its own fields and those of its reports.
type Recorder = Callable[[int, Row, list[Row]], Question]


@dataclass(frozen=True, eq=False)
class LongTable:
    """Whole questions, with one row for each report, and one for a question without reports.

    Attributes
    ----------
    columns : dict of Coded
        The columns of :data:`~bayes_direag.data.records.COLUMNS` that there are, and those of further signals.
    start : (problem,) array
        The first row of each question.
    is_report : (row,) array
        Whether a row is a report.
    path, line : Path or None, (row,) array
        The file that they were read from, and the line of each row, 0 if it has none.
    spelling : dict of str
        The names that the file has for fields, where they differ.
    is_long : bool
        Whether reports are rows of the file.
    recorder : callable, optional
        Makes the record of a question that was a record already.
    number : (problem,) array
        The number by which the recorder knows each question.
    """

    columns: Mapping[str, Coded]
    start: Int[np.ndarray, " problem"]
    is_report: Bool[np.ndarray, " row"]
    path: Path | None
    line: Int[np.ndarray, " row"]
    spelling: Mapping[str, str]
    is_long: bool
    recorder: Recorder | None
    number: Int[np.ndarray, " problem"]

    @classmethod
    def of_rows(
        cls, columns: Mapping[str, Coded], path: Path | None, line: Int[np.ndarray, " row"], names: Columns | None
    ) -> "LongTable":
        """Take the columns of a table, under our names; questions are in the order of their first rows.

        Raises ObservationError if a value cannot be used, or rows disagree about their question.
        """
        columns = {**columns, "level": columns.get("level", Coded.missing(len(line))).changed(whole)}
        name, _ = _checked("problem_id", columns["problem_id"])
        question = np.where(name.given, name.code, len(name.values) + np.arange(len(line)))
        columns = columns if names is None else converted(columns, names, question, line, path)
        reports = [column.given for name, column in columns.items() if name in OF_OBSERVATION or is_signal(name)]
        order = np.argsort(question, kind="stable")
        columns = {name: column.take(order) for name, column in columns.items()}
        start = np.flatnonzero(np.diff(question[order], prepend=-1))
        is_report, spelling = np.logical_or.reduce(reports)[order], {} if names is None else names.spelling
        table = cls(columns, start, is_report, path, line[order], spelling, True, None, np.arange(len(start)))
        table.check()
        return table

    @classmethod
    def of_questions(
        cls,
        about: Mapping[str, Coded],
        reports: Mapping[str, Coded],
        n_reports: Int[np.ndarray, " problem"],
        path: Path | None,
        line: Int[np.ndarray, " problem"],
        names: Columns | None = None,
        *,
        malformed: Bool[np.ndarray, " problem"] | None = None,
        recorder: Recorder | None = None,
    ) -> "LongTable":
        """Take columns with a row for each question, and columns with a row for each report, under our names.

        Only the ``recorder`` can tell what is wrong with ``malformed`` questions. Raises ObservationError if a value
        cannot be used.
        """
        n_rows, spelling = np.maximum(n_reports, 1), {} if names is None else names.spelling
        question, is_report = np.repeat(np.arange(len(line)), n_rows), np.repeat(n_reports > 0, n_rows)
        report = np.where(is_report, np.cumsum(is_report) - 1, -1)
        columns = {name: column.take(question) for name, column in about.items()}
        columns |= {name: column.take(report) for name, column in reports.items()}
        columns = columns if names is None else converted(columns, names, question, line[question], path)
        start = np.cumsum(n_rows) - n_rows
        table = cls(columns, start, is_report, path, line[question], spelling, False, recorder, np.arange(len(start)))
        table.check(malformed)
        return table

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def question(self) -> Int[np.ndarray, " row"]:
        """The number of each row's question."""
        return np.repeat(np.arange(len(self)), np.diff(self.start, append=len(self.line)))

    @cached_property
    def n_reports(self) -> Int[np.ndarray, " problem"]:
        """The number of each question's reports."""
        return np.bincount(self.question[self.is_report], minlength=len(self))

    @cached_property
    def _columns(self) -> dict[str, tuple[Coded, Bool[np.ndarray, " row"]]]:
        return {name: _checked(name, column) for name, column in self.columns.items()}

    def texts(self, name: str) -> Coded:
        """Return a column of texts; blank ones are missing."""
        return self._columns[name][0] if name in self.columns else Coded.missing(len(self.line))

    def texts_of_questions(self, name: str) -> Coded:
        """Return a column of texts with a row for each question."""
        column = self.texts(name)
        return Coded(column.values, np.maximum.reduceat(column.code, self.start) if len(self) else column.code)

    def numbers(self, name: str) -> Float[np.ndarray, " row"]:
        """Return a column of numbers or flags; NaN if missing."""
        column = self.texts(name)
        return np.asarray(np.array([*column.values, np.nan], float)[column.code])

    @cached_property
    def percents(self) -> dict[str, Float[np.ndarray, " row"]]:
        """The stated confidence, ``number``, and the further signals by name, in percent; NaN if missing."""
        signals = {signal_of(name): self.numbers(name) for name in sorted(self.columns) if is_signal(name)}
        confidence = self.numbers("confidence")
        return {NUMBER: np.where(np.isnan(confidence), signals.pop(NUMBER, np.nan), confidence), **signals}

    def check(self, malformed: Bool[np.ndarray, " problem"] | None = None) -> None:
        """Raise ObservationError for the first question that is malformed or has a value that cannot be used."""
        if not len(self):
            return
        unusable = [is_bad for _, is_bad in self._columns.values()]
        unusable += [~self.texts("problem_id").given, self.is_report & ~self.texts("level").given]
        for name in filter(is_signal, self.columns):
            if not _is_signal_name(signal_of(name)):
                unusable.append(self.columns[name].given)
        if (number := signal_column(NUMBER)) in self.columns:
            twice = self.columns[number].given & self.texts("confidence").given
            unusable.append(twice & (self.numbers(number) != self.numbers("confidence")))
        wrong = np.logical_or.reduceat(np.logical_or.reduce(unusable), self.start)
        wrong |= False if malformed is None else malformed
        for name in OF_QUESTION:
            column = self.texts(name)
            first = np.where(column.given, column.code, len(column.values))
            wrong |= np.minimum.reduceat(first, self.start) < np.maximum.reduceat(column.code, self.start)
        for question in np.flatnonzero(wrong).tolist():
            self.record(question)
        if wrong.any():
            raise ObservationError(
                "a column holds values of a type that cannot be used",
                path=self.path,
                expected="texts, numbers, flags and nulls",
                remedy="Convert the column and write the table again.",
            )

    def require_unique(self) -> "LongTable":
        """Return the table itself; raise ObservationError if it has no question, or two of the same name."""
        if not len(self):
            raise ObservationError(
                "there are no questions",
                path=self.path,
                expected="at least one question",
                remedy="Check that the run that should have written them has finished.",
            )
        name = self.texts_of_questions("problem_id")
        _, first = np.unique(name.code, return_index=True)
        for again in np.setdiff1d(np.arange(len(self)), first)[:1].tolist():
            line = self.line_of(int(np.argmax(name.code == name.code[again])))
            raise ObservationError(
                f"this question occurs twice{f', first on line {line}' if line else ''}",
                path=self.path,
                line=self.line_of(again),
                field="problem_id",
                seen=name.value(again),
                expected="every question once",
                remedy="Remove one of the two, or give them different ids.",
            )
        return self

    def record(self, question: int) -> Question:
        """Return a question as a record, or raise ObservationError if it cannot be used."""
        rows = range(*[*self.start[question : question + 2].tolist(), len(self.line)][:2])
        own: Row = {}
        for name in ("problem_id", *OF_QUESTION):
            for row in rows if name in self.columns else ():
                value = self.columns[name].value(row)
                is_blank = name != "problem_id" and not str(value).strip()
                if value is not None and not is_blank and own.setdefault(name, value) != value:
                    raise ObservationError(
                        f"question {own['problem_id']!r} has {own[name]!r} in an earlier row",
                        path=self.path,
                        line=int(self.line[row]) or None,
                        field=self.spelling.get(name, name),
                        seen=value,
                        expected="one value in all rows of a question",
                        remedy="Make the rows agree, or give the questions different ids.",
                    )
        reports = [row for row in rows if self.is_report[row]]
        observations = [self._report(row) for row in reports]
        if self.recorder is not None:
            return self.recorder(int(self.number[question]), own, observations)
        lines = [int(self.line[row]) or None for row in reports if self.is_long]
        record = {**own, "observations": observations}
        return question_from_record(record, self.path, self.line_of(question), self.spelling, lines)

    def records(self) -> tuple[Question, ...]:
        """Return all questions as records."""
        return tuple(map(self.record, range(len(self))))

    def _report(self, row: int) -> Row:
        given = {name: column.value(row) for name, column in self.columns.items() if column.code[row] >= 0}
        report = {name: given[name] for name in OF_OBSERVATION if name in given}
        signals = {signal_of(name): value for name, value in given.items() if is_signal(name) and signal_of(name)}
        return report | ({"confidences": signals} if signals else {})

    @property
    def origin(self) -> Origin:
        """Where the questions were read."""
        return Origin(self.path, tuple(map(self.line_of, range(len(self)))))

    def line_of(self, question: int) -> int | None:
        """Return the line on which a question begins."""
        return int(self.line[self.start[question]]) or None

    def unlabelled(self) -> "LongTable":
        """Return the questions without gold answers and flags."""
        kept = {name: column for name, column in self.columns.items() if name not in ("gold_answer", "correct")}
        return replace(self, columns=kept)

    def take(self, questions: Int[np.ndarray, " taken"]) -> "LongTable":
        """Return some questions, in the order given."""
        n_rows = np.diff(self.start, append=len(self.line))[questions]
        start = np.cumsum(n_rows) - n_rows
        rows = np.repeat(self.start[questions] - start, n_rows) + np.arange(n_rows.sum())
        return replace(
            self,
            columns={name: column.take(rows) for name, column in self.columns.items()},
            start=start,
            is_report=self.is_report[rows],
            line=self.line[rows],
            number=self.number[questions],
        )


@cache
def _rules(name: str) -> Callable[[list[Any]], list[Any]]:
    """Return the check of a list of values of a field, which are plain already."""
    rules = [rule for rule in FIELDS[name].metadata if not isinstance(rule, BeforeValidator)]
    values: Any = list[Annotated[FIELDS[name].annotation, *rules] | None]  # type: ignore[misc]
    return TypeAdapter(values, config=ConfigDict(coerce_numbers_to_str=True)).validate_python


def _checked(name: str, column: Coded) -> tuple[Coded, Bool[np.ndarray, " row"]]:
    """Return a column as its field has it in a record, and in which rows the value cannot be used."""
    check, values = _rules("confidence" if is_signal(name) else name), list(column.values)
    is_bad = np.zeros(len(values) + 1, bool)
    try:
        found = check(values)
    except ValidationError as error:
        is_bad[[int(detail["loc"][0]) for detail in error.errors(include_url=False, include_input=False)]] = True
        found = check([None if bad else value for bad, value in zip(is_bad, values, strict=False)])
    kept = (value for value in dict.fromkeys(found) if value is not None)
    place = {value: number for number, value in enumerate(kept)}
    code = np.array([*(place.get(value, -1) for value in found), -1])
    return Coded([*place], code[column.code]), is_bad[column.code]


def _is_signal_name(name: str) -> bool:
    try:
        return bool(Observation(level=0, confidences={name: None}))
    except ValidationError:
        return False
