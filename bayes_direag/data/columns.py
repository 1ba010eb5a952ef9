"""Tables that others made: under which names they hold what an observation file holds, and in what form."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from bayes_direag.data.records import OF_QUESTION
from bayes_direag.errors import DirEAGError, ObservationError

Scale = Literal["percent", "fraction"]

type Row = dict[str, object]

_NAMED = ("question", "level", "answer", "confidence", "gold", "correct", "cluster", "group")
_OURS = {"question": "problem_id", "gold": "gold_answer"}


@dataclass(frozen=True)
class Columns:
    """What the columns of a table, or the fields of records, are called.

    Attributes
    ----------
    question, level, answer, confidence, gold, correct, cluster, group : str
        The name of each. A level may be a number from 0, or a name: names are numbered. Reports of a group need none:
        they are the first, second ... of their group in the question.
    levels : sequence of str, optional
        The names of the levels in their order; by default that in which they appear.
    scale : {"percent", "fraction"}, optional
        Whether confidences go from 0 to 100 or from 0 to 1. Left out: percent, and what looks like fractions is
        refused.
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

    @classmethod
    def named(cls, pairs: Iterable[str], scale: Scale | None = None) -> "Columns":
        """Read pairs ``FIELD=NAME``; raise DirEAGError for one that is none."""
        split = {pair: pair.partition("=") for pair in pairs}
        for pair, (field, _, name) in split.items():
            if field not in _NAMED or not name:
                raise DirEAGError(
                    f"--column {pair}: expected FIELD=NAME, the field one of {', '.join(_NAMED)} and the name that "
                    "of a column, as in level=model."
                )
        names: dict[str, str] = {field: name for field, _, name in split.values()}
        return cls(**names, scale=scale)

    @cached_property
    def spelling(self) -> dict[str, str]:
        """The names in the table by those in an observation file."""
        return {_OURS.get(name, name): getattr(self, name) for name in _NAMED}

    @cached_property
    def _inverse(self) -> dict[str, str]:
        return {their: our for our, their in self.spelling.items()}

    def ours(self, name: str) -> str | None:
        """Return what a column is called in an observation file; None for one whose name is taken by another."""
        return self._inverse.get(name, None if name in self.spelling else name)

    def row(self, given: Mapping[str, object]) -> Row:
        """Return a row, or record, under our names, with plain values: what is missing (NaN, NA) is None."""
        named = {self.ours(str(name)): _plain(value) for name, value in given.items()}
        return {name: value for name, value in named.items() if name is not None}

    def nested(self, numbered: Sequence[tuple[int, object]], path: Path | None) -> list[tuple[int, object]]:
        """Return records with observations as :meth:`row` and :meth:`in_our_form` would have them."""
        records = [(line, self.row(given) if isinstance(given, Mapping) else given) for line, given in numbered]
        for _, record in records:
            if isinstance(record, dict) and isinstance(record.get("observations"), Sequence):
                reports = record["observations"]
                record["observations"] = [self.row(own) if isinstance(own, Mapping) else own for own in reports]
        own = [
            (line, report)
            for line, record in records
            if isinstance(record, dict)
            for report in record.get("observations") or ()
            if isinstance(report, dict)
        ]
        self.in_our_form(own, path)
        return records

    def in_our_form(self, numbered: Sequence[tuple[int, Row]], path: Path | None) -> None:
        """Make numbers of levels that are names, and percentages of fractions; in place.

        Raises
        ------
        ObservationError
            For a level that is not among those given, or a fraction above 1.
        """
        n_of: Counter[tuple[object, object]] = Counter()
        for _, row in numbered:
            if row.get("group") is not None and row.get("level") is None:
                of = row.get("problem_id"), row["group"]
                n_of[of] += 1
                row["level"] = f"{row['group']} {n_of[of]}"
        stated = [row["level"] for _, row in numbered if row.get("level") is not None]
        place = dict(zip(self.levels, range(len(self.levels)), strict=True)) if self.levels else {}
        names = all(isinstance(level, str) for level in stated)
        for line, row in numbered:
            level, confidence = row.get("level"), row.get("confidence")
            if names and isinstance(level, str):
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
            if self.scale == "fraction" and isinstance(confidence, int | float):
                if not 0 <= confidence <= 1:
                    raise ObservationError(
                        "this confidence is not a fraction",
                        path=path,
                        line=line,
                        field=self.confidence,
                        seen=confidence,
                        expected="a number from 0 to 1",
                        remedy="Correct it, or say that the confidences are percentages (scale percent).",
                    )
                row["confidence"] = round(100 * float(confidence), 12)
            if row.get("correct") in (0, 1):
                row["correct"] = bool(row["correct"])


def wide_rows(
    records: Sequence[Mapping[str, object]],
    header: Sequence[str],
    columns: Columns,
    *,
    answer: str,
    confidence: str,
    correct: str,
) -> list[tuple[int, Row]]:
    """Put a table with one row a question into long form, under our names, with the number of the row.

    Parameters
    ----------
    answer, confidence, correct
        What a level's columns are called, its name being ``{level}``.

    Raises
    ------
    ObservationError
        If no column is called like an answer, or one of a level's is missing.
    """
    before, marked, after = answer.partition("{level}")
    found = [name for name in header if name.startswith(before) and name.endswith(after) and marked]
    levels = columns.levels or [name[len(before) : len(name) - len(after)] for name in found]
    own = {level: [pattern.replace("{level}", level) for pattern in (answer, confidence, correct)] for level in levels}
    needed = [columns.question, *(name for names in own.values() for name in names[:2])]
    missing = [name for name in (needed if own else [answer]) if name not in header]
    if missing:
        raise ObservationError(
            f"the table has no column {missing[0]}",
            seen=", ".join(header),
            expected="one of that name, {level} standing for the name of a level",
            remedy="Say what the columns are called: question='id', answer='{level}_answer', "
            "confidence='{level}_confidence'.",
        )
    rows: list[tuple[int, Row]] = []
    for line, record in enumerate(records, 1):
        ours = columns.row(record)
        about = {name: ours.get(name) for name in ("problem_id", *OF_QUESTION)}
        said = [
            {"level": level, **dict(zip(("answer", "confidence", "correct"), map(record.get, names), strict=True))}
            for level, names in own.items()
        ]
        rows += [(line, about | report) for report in said]
    return rows


def _plain(value: object) -> object:
    """Return a value as plain Python has it."""
    if isinstance(value, np.generic):
        value = value.item()
    missing = (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType")
    return None if missing else value
