"""A columnar long table of reports, a row for each, which all sources become.

Each distinct value of a column is checked once, by the rules that its field has in a record. A question with an error
is then made a record, whose validation gives the message.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from bayes_direag.data.answers import DECIMAL_COMMA
from bayes_direag.data.columns import IN_ORDER, LEVEL, RUN, Columns, Layout, Ours
from bayes_direag.data.plain import SCALES, flag, is_percentage, on_percent_scale, plain
from bayes_direag.data.recognition import WHOLE, recognised, scaled, tell
from bayes_direag.data.records import (
    NUMBER,
    NUMBERS,
    OF_OBSERVATION,
    OF_QUESTION,
    SIGNAL_NAME,
    SIGNALS,
    Fields,
    Question,
    field_of,
    question_from_record,
    reports_of,
    type_of,
)
from bayes_direag.data.runs import NO_GROUPS, form_of_runs, group_of
from bayes_direag.data.source_table import (
    DictionaryColumn,
    FileRecord,
    QuestionTable,
    RowTable,
    SourceTable,
    number_of,
    whole,
)
from bayes_direag.errors import ObservationError

#: What is known of a question, which is not looked at where questions are only predicted.
_LABELS = ("gold_answer", "correct", "weight", "dataset", "model", "question")
#: So many confidences of a level tell its scale.
FEWEST_OF_SCALE = 5


@dataclass(frozen=True, eq=False)
class LongTable:
    """Whole questions, with one row for each report, and one for a question without reports.

    Attributes
    ----------
    columns : dict of DictionaryColumn
        The columns of :data:`~bayes_direag.data.records.COLUMNS` that there are, and those of further signals and of
        numbers.
    start : (problem,) array
        The first row of each question.
    is_report : (row,) array
        Whether a row is a report.
    path, line : Path or None, (row,) array
        The file that they were read from, and the line of each row, 0 if it has none.
    names : Columns, optional
        How it was read, if that was said or levels are names.
    is_long : bool
        Whether reports are rows of the file.
    file_records : sequence of FileRecord, optional
        The records of the questions, if they were records already.
    joins : sequence of dict, optional
        For each question, which answer stands for each canonical one, where a function of the user joins them.
    is_between : (row,) array, optional
        Whether a stated confidence is a number between 0 and 1 among percentages, and so missing.
    """

    columns: Mapping[str, DictionaryColumn]
    start: Int[np.ndarray, " problem"]
    is_report: Bool[np.ndarray, " row"]
    path: Path | None
    line: Int[np.ndarray, " row"]
    names: Columns | None
    is_long: bool
    file_records: Sequence[FileRecord] | None = None
    joins: Sequence[Mapping[str, str]] | None = None
    is_between: Bool[np.ndarray, " row"] | None = None

    @classmethod
    def of(cls, source: SourceTable, names: Columns | None = None, *, with_labels: bool = True) -> "LongTable":
        """Take what a source hands over; without ``with_labels`` right answers, flags and weights are not looked at.

        Rows of one question need not be adjacent, and questions are in the order in which they first occur. Raises
        ObservationError if a column is missing, a value or the reports of a record cannot be used, or rows disagree
        about their question.
        """
        hidden = () if with_labels else _LABELS
        if isinstance(source, QuestionTable):
            return cls._of_questions(source, names and names.of_nested, hidden)._with_fractions_missing()
        return cls._of_rows(source, names or Columns(), hidden)._with_fractions_missing()

    @classmethod
    def _of_rows(cls, rows: RowTable, asked: Columns, hidden: Sequence[str]) -> "LongTable":
        names = recognised(rows, asked)
        layout = names.layout(rows.header, rows.path)
        columns, line = _of_layout(rows, layout, hidden), np.repeat(rows.line, len(layout))
        names = scaled(names, columns)
        called, _ = _checked("problem_id", columns["problem_id"])
        question = np.where(called.given, called.code, len(called.values) + np.arange(len(line)))  # or one of its own
        order = np.argsort(question, kind="stable")
        reports = [column.given for name, column in columns.items() if name in OF_OBSERVATION or SIGNALS.holds(name)]
        table = cls(
            columns={name: column.take(order) for name, column in columns.items()},
            start=np.flatnonzero(np.diff(question[order], prepend=-1)),
            is_report=np.logical_or.reduce(reports)[order],
            path=rows.path,
            line=line[order],
            names=names,
            is_long=True,
        )
        table = table._with_levels_of_runs(names)
        tell(asked, table.names or names, rows, columns["level"])
        return table._converted().valid()

    @classmethod
    def _of_questions(cls, questions: QuestionTable, names: Columns | None, hidden: Sequence[str]) -> "LongTable":
        n_reports = questions.n_reports
        n_rows = np.maximum(n_reports, 1)
        question, is_report = np.repeat(np.arange(len(n_rows)), n_rows), np.repeat(n_reports > 0, n_rows)
        report = np.where(is_report, np.cumsum(is_report) - 1, -1)
        columns = {name: column.take(question) for name, column in questions.about.items() if name not in hidden}
        columns |= {name: column.take(report) for name, column in questions.reports.items() if name not in hidden}
        missing = [name for name in (names.numbers if names else ()) if NUMBERS.column(name) not in columns]
        if missing:
            raise ObservationError(
                f"questions have no number {missing[0]}",
                path=questions.path,
                field="numbers",
                expected=f'"numbers": {{"{missing[0]}": 1.5}} in the questions',
                remedy=f"Add it, null where it is not known, or leave out --column number={missing[0]}.",
            )
        table = cls(
            columns=columns,
            start=np.cumsum(n_rows) - n_rows,
            is_report=is_report,
            path=questions.path,
            line=questions.line[question],
            names=names,
            is_long=False,
            file_records=questions.file_records,
        )
        return table._converted().valid(n_reports < 0)

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
    def _columns(self) -> dict[str, tuple[DictionaryColumn, Bool[np.ndarray, " row"]]]:
        return {name: _checked(name, column) for name, column in self.columns.items()}

    def column(self, name: str) -> DictionaryColumn:
        """Return a column as it was given."""
        return self.columns.get(name, DictionaryColumn.missing(len(self.line)))

    @cached_property
    def level_names(self) -> DictionaryColumn:
        """The names by which levels are known: that of each report, or else its number's, such as ``level_3``."""
        named = self.column("level_name").changed(str)
        return named.or_else(self.column("level").changed(lambda level: f"level_{level}"))

    def texts(self, name: str) -> DictionaryColumn:
        """Return a column of texts; blank ones are missing."""
        return self._columns[name][0] if name in self.columns else DictionaryColumn.missing(len(self.line))

    def texts_of_questions(self, name: str) -> DictionaryColumn:
        """Return a column with a row for each question."""
        column = self.texts(name)
        return DictionaryColumn(
            column.values, np.maximum.reduceat(column.code, self.start) if len(self) else column.code
        )

    @property
    def of_question(self) -> tuple[str, ...]:
        """The columns, beside its name, that have one value for each question."""
        return *OF_QUESTION, *filter(NUMBERS.holds, self.columns)

    @property
    def numbers_of_questions(self) -> dict[str, Float[np.ndarray, " problem"]]:
        """The numbers of the questions by name; NaN if missing."""
        names = sorted(filter(NUMBERS.holds, self.columns))
        return {NUMBERS.name(name): self.texts_of_questions(name).numbers() for name in names}

    def numbers(self, name: str) -> Float[np.ndarray, " row"]:
        """Return a column of numbers or flags; NaN if missing."""
        return self.texts(name).numbers()

    @cached_property
    def percents(self) -> dict[str, Float[np.ndarray, " row"]]:
        """The stated confidence, ``number``, and the further signals by name, in percent; NaN if missing."""
        signals = {SIGNALS.name(name): self.numbers(name) for name in sorted(self.columns) if SIGNALS.holds(name)}
        confidence = self.numbers("confidence")
        if self.is_between is not None:
            confidence = np.where(self.is_between, np.nan, confidence)
        return {NUMBER: np.where(np.isnan(confidence), signals.pop(NUMBER, np.nan), confidence), **signals}

    def _converted(self) -> "LongTable":
        """Return the table where levels with names have numbers, and confidences are percentages."""
        if (names := self.names) is None:
            return self
        columns = {**self.columns, "level": self._numbered_in_groups()}

        def refusal(name: str, code: int, problem: str, expected: str, remedy: str) -> ObservationError:
            column, field = columns[name], names.spelling.get(name, name)
            line, seen = int(self.line[column.code == code].min()), column.values[code]
            where: dict[str, Any] = {"path": self.path, "line": line, "field": field, "seen": seen}
            return ObservationError(problem, expected=expected, remedy=remedy, **where)

        level, known = columns["level"], names.levels or ()
        numbers = [number for number in level.values if type(number) in (int, float)]
        if len(numbers) == len(level.values) and any(number % 1 for number in numbers):
            level = level.changed(str)  # such as temperatures
        if len(level.values) and all(isinstance(name, str) for name in level.values):
            for code, name in enumerate(level.values if known else ()):
                if name not in known:
                    expected, remedy = f"one of {', '.join(known)}", "Add it to the levels, or leave its rows out."
                    raise refusal("level", code, "this level is not among those given", expected, remedy)
            in_file = level.take(np.argsort(self.line, kind="stable"))
            named = [*known, *(level.values[code] for code in dict.fromkeys(in_file.code.tolist()) if code >= 0)]
            number = {name: number for number, name in enumerate(dict.fromkeys(named))}
            columns |= {"level": level.changed(number.get), "level_name": level}
        low, high = SCALES[names.scale or "percent"]
        for name in [name for name in columns if high != 100 and (name == "confidence" or SIGNALS.holds(name))]:
            percents = [on_percent_scale(value, names.scale) for value in columns[name].values]
            for code, percent in enumerate(percents):
                if isinstance(percent, int | float) and not 0 <= percent <= 100:
                    problem = f"this confidence is not on the scale {names.scale}"
                    remedy = "Correct it, or declare another scale, such as percent."
                    raise refusal(name, code, problem, f"a number from {low} to {high}", remedy)
            columns[name] = DictionaryColumn.without_missing(percents, columns[name].code)
        table = replace(self, columns=columns)
        return table if names.groups is None else table._grouped(names)

    def _grouped(self, names: Columns) -> "LongTable":
        """Return the table with the group of each report: that which it states, or else that of its level's name."""
        stated, of_name = self.column("group"), self.level_names.changed(lambda level: group_of(names.groups, level))
        if names.groups == NO_GROUPS:
            stated = of_name
        elif names.needs_labels and not of_name.values:
            raise ObservationError(
                "no level has a name of the form of the groups",
                path=self.path,
                seen=", ".join(map(str, self.level_names.values)),
                expected=f"names such as {names.groups}, where {{n}} is a number",
                remedy="Correct the form: groups='{group}_run{n}' (on the command line --groups '{group}_run{n}').",
            )
        return replace(self, columns={**self.columns, "group": stated.or_else(of_name)}, names=names)

    def _with_fractions_missing(self) -> "LongTable":
        """Mark numbers between 0 and 1 among the whole percentages of a level, unless the scale is said.

        They are neither fractions nor percentages. The few of a level without percentages are among those of others.
        """
        if "confidence" not in self.columns or (self.names is not None and self.names.scale is not None):
            return self
        confidence, level = self.numbers("confidence"), self.numbers("level")
        raw = self.columns["confidence"]
        is_number = ~np.array([*map(is_percentage, raw.values), False], bool)[raw.code]
        is_between = is_number & (confidence > 0) & (confidence < 1)
        for number in np.unique(level[is_between]):
            of_level = level == number
            others = confidence[(confidence > 1) & of_level]
            few = not len(others) and np.count_nonzero(of_level & ~np.isnan(confidence)) < FEWEST_OF_SCALE
            others = confidence[confidence > 1] if few else others
            is_between &= ~of_level | (len(others) > 0 and np.mean(others % 1 == 0) >= WHOLE)
        return replace(self, is_between=is_between) if is_between.any() else self

    def _with_levels_of_runs(self, names: Columns) -> "LongTable":
        """Return reports with a level for each run, and its group, where a column of runs alone tells some apart.

        Without such a column, most levels that report several times, and not in copies, have runs in the order of the
        rows, as the reports of a group.
        """
        columns, is_free = (
            {**self.columns},
            names.run == IN_ORDER or (names.needs_labels and isinstance(names.run, Ours)),
        )
        level, run, table = self.column("level"), columns.pop(RUN, None), replace(self, columns=columns)
        rows = np.flatnonzero(level.given & (True if run is None else run.given))
        pairs = np.column_stack([self.question, level.code])[rows]
        if self.column("group").given.any():
            return table
        if run is not None:
            numbered = np.column_stack([pairs, run.code[rows]])
            if len(np.unique(pairs, axis=0)) < len(rows) == len(np.unique(numbered, axis=0)):
                called, codes = level.objects(), np.full(len(level.code), -1)
                called[rows] = [f"{level.value(row)}/{whole(run.value(row))}" for row in rows.tolist()]
                codes[rows] = level.code[rows]
                columns |= {"level": DictionaryColumn.of(called), "group": DictionaryColumn(level.values, codes)}
        elif is_free and len({*map(type, level.values)}) == 1:
            cells = [columns[name].code[rows] for name in columns if name in OF_OBSERVATION]
            n_reports = np.unique(pairs, axis=0, return_counts=True)[1]
            n_distinct = len(np.unique(np.column_stack([pairs, *cells]), axis=0))
            if 2 * np.count_nonzero(n_reports > 1) >= len(n_reports) < n_distinct:
                columns |= {"level": DictionaryColumn.missing(len(level.code)), "group": level}
                return replace(table, names=replace(names, run=IN_ORDER))
        return table

    def _numbered_in_groups(self) -> DictionaryColumn:
        """Return the levels; a report with a group alone is called by it and its number in the question."""
        level, group = self.column("level"), self.column("group")
        rows, names = np.flatnonzero(group.given & ~level.given), level.objects()
        of_group = self.question[rows] * (len(group.values) + 1) + group.code[rows]
        order = np.argsort(of_group, kind="stable")
        number = np.arange(len(rows)) - np.searchsorted(of_group[order], of_group[order])
        pairs = zip(rows[order].tolist(), number.tolist(), strict=True)
        between = "/" if self.names is not None and self.names.run == IN_ORDER else " "  # as of runs with a column
        names[rows[order]] = [f"{group.value(row)}{between}{n + 1}" for row, n in pairs]
        return DictionaryColumn.of(names) if len(rows) else level

    def valid(self, is_wrong: Bool[np.ndarray, " problem"] | bool = False) -> "LongTable":
        """Check every question, and return the table; ObservationError names the first bad one."""
        if not len(self):
            return self
        unusable = [is_bad for _, is_bad in self._columns.values()]
        unusable += [~self.texts("problem_id").given, self.is_report & ~self.texts("level").given]
        for name in filter(SIGNALS.holds, self.columns):
            if not re.fullmatch(SIGNAL_NAME, SIGNALS.name(name)):
                unusable.append(self.columns[name].given)
        if (nameless := NUMBERS.column("")) in self.columns:
            unusable.append(self.columns[nameless].given)
        if (number := SIGNALS.column(NUMBER)) in self.columns:
            twice = self.columns[number].given & self.texts("confidence").given
            unusable.append(twice & (self.numbers(number) != self.numbers("confidence")))
        wrong = np.logical_or.reduceat(np.logical_or.reduce(unusable), self.start) | is_wrong
        for name in self.of_question:
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
        return self

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
        spelling: Mapping[str, str] = {} if self.names is None else self.names.spelling
        about: Fields = {}
        for name in ("problem_id", *self.of_question):
            for row in rows if name in self.columns else ():
                value = self.columns[name].value(row)
                is_blank = name != "problem_id" and not str(value).strip()
                if value is not None and not is_blank and about.setdefault(name, value) != value:
                    raise ObservationError(
                        f"question {about['problem_id']!r} has {about[name]!r} in an earlier row",
                        path=self.path,
                        line=int(self.line[row]) or None,
                        field=spelling.get(name, name),
                        seen=value,
                        expected="one value in all rows of a question",
                        remedy="Make the rows agree, or give the questions different ids.",
                    )
        numbers = {NUMBERS.name(name): about.pop(name) for name in [*about] if NUMBERS.holds(name)}
        about |= {"numbers": numbers.get("", numbers)} if numbers else {}
        reports = [row for row in rows if self.is_report[row]]
        observations = [self._report(row) for row in reports]
        record: object = {**about, "observations": observations}
        if self.file_records is not None:
            record, spelling = self.file_records[question]
            record = record.model_dump(exclude_unset=True) if isinstance(record, Question) else record
            if isinstance(record, dict) and (stated := reports_of(record)) is not None:
                merged = [_merged(*pair) for pair in zip(stated, observations, strict=True)]
                record = {**record, **about, "observations": merged}
        lines = [int(self.line[row]) or None for row in reports if self.is_long]
        return question_from_record(record, self.path, self.line_of(question), spelling, lines)

    def records(self) -> tuple[Question, ...]:
        """Return all questions as records."""
        return tuple(map(self.record, range(len(self))))

    def _report(self, row: int) -> Fields:
        values = {name: column.value(row) for name, column in self.columns.items() if column.code[row] >= 0}
        report = {name: values[name] for name in OF_OBSERVATION if name in values}
        signals = {SIGNALS.name(name): value for name, value in values.items() if SIGNALS.holds(name)}
        return report | ({"confidences": signals.get("", signals)} if signals else {})

    def line_of(self, question: int) -> int | None:
        """Return the line on which a question begins."""
        return int(self.line[self.start[question]]) or None

    def with_runs(self) -> "LongTable":
        """Return the questions with runs of a level in one group, if names say that they are and nothing else is said.

        In files of the released implementation each sample is a level, as there.
        """
        names, columns = self.names or Columns(), self.columns
        is_released = any("samples" in spelling.values() for _, spelling in (self.file_records or ())[:1])
        if names.groups is not None or is_released or "level" not in columns or self.texts("group").given.any():
            return self
        is_wide = LEVEL in names.answer  # and numbers of columns side by side are those of runs
        form = form_of_runs(self.level_names.values, RUN if is_wide else names.level)
        return self if form is None else self._grouped(replace(names, groups=form, are_runs=True))

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
            file_records=self.file_records and [self.file_records[question] for question in questions],
            joins=self.joins and [self.joins[question] for question in questions],
            is_between=None if self.is_between is None else self.is_between[rows],
        )


@cache
def _rules(name: str) -> Callable[[list[Any]], list[Any]]:
    """Return the check of a list of values of a field, which are plain already."""
    field = field_of(name)
    rules = [rule for rule in field.metadata if rule != BeforeValidator(plain)]
    values: Any = list[Annotated[field.annotation, *rules] | None]  # type: ignore[name-defined]
    return TypeAdapter(values, config=ConfigDict(coerce_numbers_to_str=True)).validate_python


def _checked(name: str, column: DictionaryColumn) -> tuple[DictionaryColumn, Bool[np.ndarray, " row"]]:
    """Convert a column to its field's type; also return the rows that cannot be converted."""
    check, values = _rules(name), list(column.values)
    is_bad = np.zeros(len(values) + 1, bool)
    try:
        converted = check(values)
    except ValidationError as error:
        is_bad[[int(detail["loc"][0]) for detail in error.errors(include_url=False, include_input=False)]] = True
        converted = check([None if bad else value for bad, value in zip(is_bad, values, strict=False)])
    kept = (value for value in dict.fromkeys(converted) if value is not None)
    code_of = {value: number for number, value in enumerate(kept)}
    code = np.array([*(code_of.get(value, -1) for value in converted), -1])
    return DictionaryColumn([*code_of], code[column.code]), is_bad[column.code]


def _merged(report: Fields, converted: Fields) -> Fields:
    """Return a report of a record with its converted values; what is missing or unknown stays as given."""
    signals, changed = report.get("confidences"), converted.get("confidences")
    if isinstance(signals, dict) and isinstance(changed, dict):
        signals = signals | changed
    return report | converted | ({"confidences": signals} if "confidences" in report else {})


def _of_layout(rows: RowTable, layout: Layout, hidden: Sequence[str]) -> dict[str, DictionaryColumn]:
    """Return the columns of a table under our names, with a row for each report."""
    n, columns_of = len(rows.line), []
    for level, named in layout.items():
        of_level = {} if level is None else {"level": DictionaryColumn([level], np.zeros(n, int))}
        columns_of.append({our: _read(rows, name, our) for our, name in named.items() if our not in hidden} | of_level)
    every = dict.fromkeys(("level", *chain.from_iterable(columns_of)))
    columns = {our: _alternating([of.get(our, DictionaryColumn.missing(n)) for of in columns_of]) for our in every}
    return columns | {"level": columns["level"].changed(whole)}


def _read(rows: RowTable, name: str, our: str) -> DictionaryColumn:
    """Return a column of a table; texts of a CSV file that say numbers or flags become these where a field takes them.

    Raises ObservationError for a number with a decimal comma between semicolons: 1,234 would be taken for thousands.
    """
    if our == "level" and name not in rows.header:  # of several columns
        parts = zip(*(_read(rows, part.strip(), our).objects() for part in name.split(",")), strict=True)
        return DictionaryColumn.of(None if None in each else "/".join(map(str, map(whole, each))) for each in parts)
    column = rows.column(name)
    kind = str if our == RUN else type_of(our)
    if kind is bool:  # a column with a gap may hold 1.0
        return column.changed(lambda value: flag(str(value)) if rows.delimiter or value in (0, 1) else value)
    if rows.delimiter and kind is not str:
        column = column.changed(number_of)
    commas = [text for text in column.values if rows.delimiter == ";" and DECIMAL_COMMA.fullmatch(str(text))]
    if commas and our in ("answer", "gold_answer"):
        raise ObservationError(
            "this number has a decimal comma",
            path=rows.path,
            line=int(rows.line[column.code == column.values.index(commas[0])].min()),
            field=name,
            seen=commas[0],
            expected="decimal points",
            remedy="Export the table with decimal points (a spreadsheet: with English as its language). If such "
            "answers are texts, export it with commas between the cells.",
        )
    return column


def _alternating(columns: Sequence[DictionaryColumn]) -> DictionaryColumn:
    """Return the values of several columns row by row."""
    objects = np.column_stack([column.objects() for column in columns])
    return columns[0] if len(columns) == 1 else DictionaryColumn.of(objects.ravel())
