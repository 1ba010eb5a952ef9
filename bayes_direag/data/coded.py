"""Columns of distinct values, and what makes ours of those of others: levels that are names, and fractions."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from bayes_direag.data.columns import Columns
from bayes_direag.data.missing import plain
from bayes_direag.data.records import is_signal
from bayes_direag.errors import ObservationError


@dataclass(frozen=True, eq=False)
class Coded:
    """A column: its distinct values, none of them missing, and the place of each row's value, -1 if it is missing."""

    values: Sequence[Any]
    code: Int[np.ndarray, " row"]

    @classmethod
    def of(cls, values: Iterable[object]) -> "Coded":
        """Code the values of the rows, in the order in which they occur first."""
        values = list(values)
        keys: list[object] = values
        kinds = {*map(type, values)} - {NoneType}
        if len(kinds) > 1 or not kinds <= {str, int, float, bool}:  # 1, 1.0 and True are equal, and lists have no hash
            keys = [(type(value), repr(value)) for value in values]
        distinct = dict(zip(keys, values, strict=True))
        place = dict(zip(distinct, range(len(distinct)), strict=True))
        return cls.without_missing(distinct.values(), np.fromiter(map(place.__getitem__, keys), np.int64, len(keys)))

    @classmethod
    def without_missing(cls, values: Iterable[object], code: Int[np.ndarray, " row"]) -> "Coded":
        """Make a column of coded values, some of which may be missing."""
        found = [plain(value) for value in values]
        kept = [place for place, value in enumerate(found) if value is not None]
        code_of = np.full(len(found) + 1, -1)
        code_of[kept] = np.arange(len(kept))
        return cls([found[place] for place in kept], code_of[code])

    @classmethod
    def missing(cls, n: int) -> "Coded":
        """Return a column without values."""
        return cls((), np.full(n, -1))

    @property
    def given(self) -> Bool[np.ndarray, " row"]:
        """Whether each row has a value."""
        return self.code >= 0

    def value(self, row: int) -> Any:
        """Return the value of a row, None if it is missing."""
        place = self.code[row]
        return self.values[place] if place >= 0 else None

    def objects(self) -> Shaped[np.ndarray, " row"]:
        """Return the values of the rows, None where they are missing."""
        values = np.full(len(self.values) + 1, None)
        values[:-1] = self.values
        return np.asarray(values[self.code])

    def changed(self, change: Callable[[Any], Any]) -> "Coded":
        """Return the column with other values; where they are missing, rows have none."""
        return Coded.without_missing(map(change, self.values), self.code)

    def take(self, rows: Int[np.ndarray, " taken"]) -> "Coded":
        """Return the column of some rows; -1 stands for a row without a value."""
        return Coded(self.values, np.append(self.code, -1)[rows])


def whole(value: object) -> object:
    """Return a float without a fraction as an integer: tables hold integers so where one is missing."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def converted(
    columns: Mapping[str, Coded],
    names: Columns,
    question: Int[np.ndarray, " row"],
    line: Int[np.ndarray, " row"],
    path: Path | None,
) -> dict[str, Coded]:
    """Return columns, under our names, where levels with names have numbers, and fractions are percentages.

    Raises ObservationError for a level that is not in ``levels``, or a fraction outside 0..1.
    """
    columns = {**columns, "level": _numbered_in_groups(columns, question)}

    def refuse(name: str, value: int, problem: str, expected: str, remedy: str) -> ObservationError:
        column = columns[name]
        return ObservationError(
            problem,
            path=path,
            line=int(line[np.argmax(column.code == value)]),
            field=names.spelling.get(name, name),
            seen=column.values[value],
            expected=expected,
            remedy=remedy,
        )

    called = columns["level"].values
    if len(called) and all(isinstance(name, str) for name in called):
        place = {name: number for number, name in enumerate(names.levels or ())}
        for value, name in enumerate(called):
            if names.levels and name not in place:
                remedy = "Add it to the levels, or leave its rows out."
                one_of = f"one of {', '.join(names.levels)}"
                raise refuse("level", value, "this level is not among those given", one_of, remedy)
            place.setdefault(name, len(place))
        columns |= {"level": columns["level"].changed(place.get), "level_name": columns["level"]}
    for name, column in columns.items() if names.scale == "fraction" else ():
        if name == "confidence" or is_signal(name):
            for value, fraction in enumerate(column.values):
                if _is_number(fraction) and not 0 <= fraction <= 1:
                    remedy = "Correct it, or declare percentages (scale percent)."
                    raise refuse(name, value, "this confidence is not a fraction", "a number from 0 to 1", remedy)
            columns[name] = column.changed(
                lambda fraction: round(100 * float(fraction), 12) if _is_number(fraction) else fraction
            )
    if "correct" in columns:
        columns["correct"] = columns["correct"].changed(lambda flag: bool(flag) if flag in (0, 1) else flag)
    return columns


def _numbered_in_groups(columns: Mapping[str, Coded], question: Int[np.ndarray, " row"]) -> Coded:
    """Return the levels, where reports with a group alone are called by the group and their number in the question."""
    missing = Coded.missing(len(question))
    level, group = columns.get("level", missing), columns.get("group", missing)
    lacking = group.given & ~level.given
    if not lacking.any():
        return level
    names, n_of_group = [level.value(row) for row in range(len(question))], Counter[tuple[int, int]]()
    for row in np.flatnonzero(lacking).tolist():
        key = int(question[row]), int(group.code[row])
        n_of_group[key] += 1
        names[row] = f"{group.value(row)} {n_of_group[key]}"
    return Coded.of(names)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
