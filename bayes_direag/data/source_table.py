"""What every source hands over: columns of distinct values, a row for each report or a list of reports a question."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayes_direag.data.plain import plain

#: A record of a question under our names, and the names that its file has for fields, where they differ.
type FileRecord = tuple[object, Mapping[str, str]]


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """A column: its distinct values, none of them missing, and the number of each row's value, -1 if it is missing."""

    values: Sequence[Any]
    code: Int[np.ndarray, " row"]

    @classmethod
    def of(cls, values: Iterable[object]) -> "DictionaryColumn":
        """Encode the values of the rows, in the order in which they occur first."""
        values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
        keys: list[object] = values
        kinds = {*map(type, values)} - {NoneType}
        if len(kinds) > 1 or not kinds <= {str, int, float, bool}:  # 1, 1.0 and True are equal, and lists have no hash
            keys = [(type(value), repr(value)) for value in values]
        distinct = dict(zip(keys, values, strict=True))
        number = dict(zip(distinct, range(len(distinct)), strict=True))
        return cls.without_missing(distinct.values(), np.fromiter(map(number.__getitem__, keys), np.int64, len(keys)))

    @classmethod
    def without_missing(cls, values: Iterable[object], code: Int[np.ndarray, " row"]) -> "DictionaryColumn":
        """Make a column of encoded values, some of which may be missing."""
        plain_values = [plain(value) for value in values]
        kept = [number for number, value in enumerate(plain_values) if value is not None]
        code_of = np.full(len(plain_values) + 1, -1)
        code_of[kept] = np.arange(len(kept))
        return cls([plain_values[number] for number in kept], code_of[code])

    @classmethod
    def missing(cls, n: int) -> "DictionaryColumn":
        """Return a column without values."""
        return cls((), np.full(n, -1))

    @property
    def given(self) -> Bool[np.ndarray, " row"]:
        """Whether each row has a value."""
        return self.code >= 0

    def value(self, row: int) -> Any:
        """Return the value of a row, None if it is missing."""
        code = self.code[row]
        return self.values[code] if code >= 0 else None

    def objects(self) -> Shaped[np.ndarray, " row"]:
        """Return the values of the rows, None where they are missing."""
        values = np.full(len(self.values) + 1, None)
        values[:-1] = self.values
        return np.asarray(values[self.code])

    def numbers(self) -> Float[np.ndarray, " row"]:
        """Return the values of the rows, which are numbers or flags; NaN where they are missing."""
        return np.asarray(np.array([*self.values, np.nan], float)[self.code])

    def changed(self, change: Callable[[Any], Any]) -> "DictionaryColumn":
        """Return the column with other values; where they are missing, rows have none."""
        return DictionaryColumn.without_missing(map(change, self.values), self.code)

    def or_else(self, other: "DictionaryColumn") -> "DictionaryColumn":
        """Return the column with the values of another where its own are missing."""
        return DictionaryColumn.of(np.where(self.given, self.objects(), other.objects())) if self.values else other

    def take(self, rows: Int[np.ndarray, " taken"]) -> "DictionaryColumn":
        """Return the column of some rows; -1 stands for a row without a value."""
        return DictionaryColumn(self.values, np.append(self.code, -1)[rows])


@dataclass(frozen=True, eq=False)
class RowTable:
    """A table with a row a report or a question, under its own names.

    Attributes
    ----------
    column : callable
        Returns the column of a name.
    line : (row,) array
        The line of each row in its file.
    delimiter : str, optional
        What divides the cells of a CSV file, whose values are texts, numbers too.
    """

    header: Sequence[str]
    column: Callable[[str], DictionaryColumn]
    line: Int[np.ndarray, " row"]
    path: Path | None = None
    delimiter: str | None = None


@dataclass(frozen=True, eq=False)
class QuestionTable:
    """Questions with their lists of reports, under our names.

    Attributes
    ----------
    about, reports : dict of DictionaryColumn
        The columns with a row for each question, and for each report.
    n_reports : (problem,) array
        The number of each question's reports, -1 where they are no list of objects.
    line : (problem,) array
        The line of each question in its file, 0 if it has none.
    file_records : sequence of FileRecord, optional
        The records of the questions, if they were records already.
    """

    about: Mapping[str, DictionaryColumn]
    reports: Mapping[str, DictionaryColumn]
    n_reports: Int[np.ndarray, " problem"]
    line: Int[np.ndarray, " problem"]
    path: Path | None = None
    file_records: Sequence[FileRecord] | None = None


type SourceTable = RowTable | QuestionTable


def number_of(value: object) -> object:
    """Return the number that a text says, and any other value as it is."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) and "_" not in value else value  # Python takes 1_0 for 10
    return value


def whole(value: object) -> object:
    """Return a float without a fraction as an integer: tables hold integers so where one is missing."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
