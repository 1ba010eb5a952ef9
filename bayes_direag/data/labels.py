"""Labels in a table of their own, as a person fills it in: the gold answer to a question, or a verdict on each answer.

A row names a question, and has a ``gold_answer``; or an ``answer``, and whether it is ``correct``. It says nothing
while ``gold_answer`` or ``correct`` is empty. The name stands under ``problem_id`` or, without such a column, in the
first one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from bayes_direag.data.answers import AnswerKind, infer_kind, is_list, refusal_of_gold
from bayes_direag.data.arrays import standing
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import read_lines, write_csv
from bayes_direag.data.long_table import LongTable
from bayes_direag.data.plain import flag, is_missing, plain
from bayes_direag.data.source_table import DictionaryColumn, whole
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pandas

#: The gold answer of a question to which no report gave the right answer, unless a report gives this very answer.
NONE_OF_THESE = "none of these"
#: Why a question was chosen to be labelled, in the column ``chosen``.
AT_RANDOM, CLOSE_VOTES = "at random", "close votes"
#: The columns that models write, or whoever wrote the questions; and all that do not name a question.
_OF_MODELS = ("question", "answers", "answer")
COLUMNS = (*_OF_MODELS, "gold_answer", "correct", "chosen")
_PATH = "path"

#: Which candidate of a question a text is.
type _Read = Callable[[str | None], str | None]


class LabelRow(NamedTuple):
    """A row: what it has under ``gold_answer`` or ``correct`` is its ``label``, None if that is empty.

    ``chosen``: why its question is in the table, None if that is not known.
    """

    line: int
    problem_id: str
    answer: str | None
    label: str | None
    chosen: str | None


class Known(NamedTuple):
    """Which canonical answers to a question are right, and its gold answer if it has one."""

    right: frozenset[str]
    gold_answer: str | None


@dataclass(frozen=True)
class Labels:
    """The rows of a table of labels, the columns of labels and of names, and the file that they were read from."""

    rows: tuple[LabelRow, ...]
    column: Literal["gold_answer", "correct"]
    path: Path | None
    name: str = "problem_id"

    @classmethod
    def of(cls, source: "pandas.DataFrame | str | Path") -> "Labels":
        """Take a frame, whose first row is line 1, or read a CSV file; ObservationError without the columns."""
        frame = read_labels(source) if isinstance(source, str | Path) else source
        path = frame.attrs.get(_PATH)
        lines = range(1, len(frame) + 1) if path is None else map(int, frame.index)
        header = [str(name) for name in frame.columns]
        question = "problem_id" if "problem_id" in header else header[0] if header else "answer"
        if question in COLUMNS or ("gold_answer" in header) == ({"answer", "correct"} <= {*header}):
            raise ObservationError(
                "this is not a table of labels",
                path=path,
                line=None if path is None else 1,
                seen=", ".join(header),
                expected="columns problem_id (or another, first) and gold_answer, or problem_id, answer and correct",
                remedy="Name the columns so. In a file there are commas, semicolons or tabs between the cells.",
            )
        column: Literal["gold_answer", "correct"] = "gold_answer" if "gold_answer" in header else "correct"
        cells = {name: map(_text, frame.iloc[:, number]) for number, name in enumerate(header)}
        answers, chosen = cells.get("answer", repeat(None)), cells.get("chosen", repeat(None))
        rows = zip(lines, cells[question], answers, cells[column], chosen, strict=False)
        return cls(tuple(LabelRow(line, name or "", *others) for line, name, *others in rows), column, path, question)

    @property
    def at_random(self) -> dict[str, bool]:
        """Whether each question was chosen at random, of those of which that is known."""
        return {row.problem_id: row.chosen == AT_RANDOM for row in self.rows if row.chosen in (AT_RANDOM, CLOSE_VOTES)}

    @property
    def filled(self) -> dict[str, list[LabelRow]]:
        """All rows of each question that has a label in some row."""
        rows: dict[str, list[LabelRow]] = {row.problem_id: [] for row in self.rows if row.label is not None}
        for row in self.rows:
            if row.problem_id in rows:
                rows[row.problem_id].append(row)
        return rows

    def kind(self, golds: Iterable[str]) -> AnswerKind:
        """Infer the kind of these gold answers and others as ``infer_kind`` does; text if there are none."""
        rows = [row for row in self.rows if row.label and not _is_none(row.label) and self.column == "gold_answer"]
        every = [*((row.label or "", row.line) for row in rows), *((gold, None) for gold in golds)]
        return infer_kind([gold for gold, _ in every], self.path, [line for _, line in every]) if every else "text"

    def known(
        self,
        candidates: Mapping[str, Sequence[str]],
        kind: AnswerKind,
        source: Path | None,
        standing: Callable[[str, str | None], str | None],
    ) -> dict[str, Known]:
        """Return what is known of each labelled question, given the candidates of all questions of ``source``.

        ``standing`` tells which candidate of a question a text is.

        Raises ObservationError if nothing is labelled, a question is unknown, a label cannot be read, or labels of one
        question contradict each other or leave out one of its answers.
        """
        filled = self.filled
        if not filled:
            raise ObservationError(
                "no row is filled in",
                path=self.path,
                field=self.column,
                expected="some rows with a label",
                remedy="Fill in some rows: nothing can be learned without any label.",
            )
        self.check_names(chain.from_iterable(filled.values()), candidates, source)
        known: dict[str, Known] = {}
        for name, rows in filled.items():
            read = partial(standing, name)
            if self.column == "gold_answer":
                known[name] = self._of_gold(rows, candidates[name], kind, read)
            else:
                known[name] = self._of_verdicts(rows, candidates[name], read)
        return known

    def check_names(self, rows: Iterable[LabelRow], names: Iterable[str], source: Path | None) -> None:
        """Raise ObservationError for a row that is about no question of ``source``."""
        known = {*names}
        for row in rows:
            if row.problem_id not in known:
                raise ObservationError(
                    "there is no such question",
                    path=self.path,
                    line=row.line,
                    field=self.name,
                    seen=row.problem_id,
                    expected=f"the name of a question of {source or 'the observations'}",
                    remedy="Correct the name, or remove the row.",
                )

    def _of_gold(self, rows: Sequence[LabelRow], candidates: Sequence[str], kind: AnswerKind, read: _Read) -> Known:
        known: dict[str, Known] = {}
        for row in rows:
            if row.label is None:
                continue
            answer = read(row.label)
            if answer not in candidates and _is_none(row.label):
                known.setdefault(NONE_OF_THESE, Known(frozenset(), None))
            elif answer is None or (answer not in candidates and kind != "choices" and is_list(row.label)):
                clause, remedy = refusal_of_gold(row.label, kind)
                raise self._refusal(row, f"this {clause}", f"one {kind} answer", remedy)
            else:
                known.setdefault(answer, Known(frozenset({answer}), row.label))
            if len(known) > 1:
                raise self.contradiction(row)
        return next(iter(known.values()))

    def _of_verdicts(self, rows: Sequence[LabelRow], candidates: Sequence[str], read: _Read) -> Known:
        verdicts: dict[str | None, bool] = {}
        for row in rows:
            if row.label is None:
                continue
            verdict = flag(row.label)
            if not isinstance(verdict, bool):
                raise self._refusal(row, "this is no verdict", "true, false or nothing", "Correct it.")
            if verdicts.setdefault(read(row.answer), verdict) != verdict:
                raise self.contradiction(row)
        for text in candidates:
            if text not in verdicts:
                row = next((row for row in rows if read(row.answer) == text), rows[0])
                problem = f"nothing says whether the answer {text!r} is right, though other answers are judged"
                remedy = "Fill in the rest, or leave all of them empty."
                raise self._refusal(row, problem, "true or false for every answer to the question", remedy)
        return Known(frozenset(text for text in candidates if verdicts[text]), None)

    def contradiction(self, row: LabelRow) -> ObservationError:
        """Return the error of a question that has another label than that of the row."""
        problem = f"question {row.problem_id!r} has another label before"
        return self._refusal(row, problem, "one label", "Keep the one that is right.")

    def _refusal(self, row: LabelRow, problem: str, expected: str, remedy: str) -> ObservationError:
        path, line, field, seen = self.path, row.line, self.column, row.label
        return ObservationError(problem, expected=expected, remedy=remedy, path=path, line=line, field=field, seen=seen)


def read_labels(path: str | Path) -> "pandas.DataFrame":
    """Read a CSV file as texts, with its lines as the index; raise ObservationError if it cannot be read."""
    import pandas as pd

    from bayes_direag.data.tables import csv_columns

    _, header, columns, lines = csv_columns(read_lines(Path(path)), Path(path))
    frame = pd.DataFrame([*zip(*columns, strict=True)], index=lines, columns=header, dtype="str")
    frame.attrs[_PATH] = Path(path)
    return frame


def write_labels(frame: "pandas.DataFrame", path: Path) -> None:
    """Write a table of labels as a CSV file that spreadsheets take for text in UTF-8, completely or not at all."""
    with atomic_path(path) as partial_path, partial_path.open("w", encoding="utf-8-sig", newline="") as file:
        write_csv(inert_cells(frame), file)


def inert_cells(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Return a table in which a spreadsheet computes nothing that a model wrote."""
    return frame.assign(**{name: frame[name].map(inert, na_action="ignore") for name in _OF_MODELS if name in frame})


def inert(text: str) -> str:
    """Return the text of a cell with a space before what a spreadsheet would compute."""
    return f" {text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def labelled_table(table: LongTable, known: Mapping[int, Known], kind: AnswerKind) -> LongTable:
    """Return a table in which some questions, given by their numbers, have a gold answer or else flags."""
    golds, flags = table.texts("gold_answer").objects(), table.texts("correct").objects()
    answers, end = table.texts("answer"), np.append(table.start, len(table.line))
    for number, (right, gold_answer) in known.items():
        rows = slice(end[number], end[number + 1])
        if gold_answer is not None:
            golds[rows] = gold_answer
            continue
        for row in range(rows.start, rows.stop):
            answer = standing(table, number, answers.value(row), kind)
            flags[row] = None if answer is None else answer in right
    columns = {**table.columns, "gold_answer": DictionaryColumn.of(golds), "correct": DictionaryColumn.of(flags)}
    return replace(table, columns=columns)


def _text(value: object) -> str | None:
    """Return a cell as text, None if it is empty or stands for a missing value."""
    value = whole(plain(value))
    return None if value is None or is_missing(str(value)) else str(value)


def _is_none(label: str) -> bool:
    return label.strip().casefold() == NONE_OF_THESE
