"""A first look through a Parquet table in long form: what has to be known of all of it before any of it is used.

That is where questions begin, which levels there are and what they are called, and of what kind the answers are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from bayes_direag.data.answers import AnswerKind, infer_kind
from bayes_direag.data.long_form import check_columns
from bayes_direag.data.parquet_rows import Rows, Span, is_columnar, normal, parquet_errors, question_starts, stream_rows
from bayes_direag.data.readings import level_table
from bayes_direag.data.records import Observation, Origin, Question
from bayes_direag.errors import ObservationError

if TYPE_CHECKING:
    import pyarrow

#: What a prediction looks at, and what a fit looks at besides.
REPORT_COLUMNS = ("problem_id", "level", "level_name", "answer", "confidence")
LABEL_COLUMNS = ("correct", "gold_answer", "dataset", "model")

#: A file with more rows than this must have those of a question together.
LARGEST_REGROUPED = 5_000_000


@dataclass(frozen=True)
class Survey:
    """What a first look found.

    Attributes
    ----------
    path : Path
        The file.
    labels : bool
        Whether the columns that say which answers are right are looked at.
    n_rows, n_questions : int
        How many there are.
    levels : dict of int to str
        The level numbers, in order, each with its name.
    lines : dict of str to int
        For each level's name the line of the first question that has it.
    kind : {"numeric", "choice", "text"}
        How answers are compared.
    datasets, models : str
        The distinct names, separated by commas; looked for with the labels only.
    together : bool
        Whether the rows of every question stand together.
    cuts : tuple of int
        For every row group in which a question begins, the first such row, from 0: where the file can be cut.
    """

    path: Path
    labels: bool
    n_rows: int
    n_questions: int
    levels: dict[int, str]
    lines: dict[str, int]
    kind: AnswerKind
    datasets: str
    models: str
    together: bool
    cuts: tuple[int, ...]

    def spans(self, n_rows: int) -> list[Span]:
        """Cut the file at edges of row groups into spans of at least so many rows, but for the last."""
        starts = [0]
        for cut in self.cuts if self.together else ():
            if cut - starts[-1] >= n_rows:
                starts.append(cut)
        return [Span(*pair) for pair in zip(starts, [*starts[1:], self.n_rows], strict=True)]

    def rows(self, span: Span | None = None) -> Iterator[Rows]:
        """Yield all rows, or those of a span, by whole questions."""
        columns = _columns(labels=self.labels)
        return stream_rows(self.path, columns, span) if self.together else _regrouped(self.path, columns)


def survey(path: Path, kind: AnswerKind | None, *, labels: bool) -> Survey | None:
    """Look through a Parquet file; None if its columns are of types that only the ordinary reader takes.

    To see that no question comes twice, it holds 8 bytes a question.

    Parameters
    ----------
    kind
        How answers are compared; inferred from the gold answers if not given.
    labels
        Whether it matters which answers are right.

    Raises
    ------
    ObservationError
        If the file cannot be read, lacks a column or holds no question; if levels and their names contradict each
        other; if the kind cannot be inferred; or if the rows of a question do not stand together in a file of more
        than :data:`LARGEST_REGROUPED` rows.
    """
    from pyarrow import parquet

    with parquet_errors(path), parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    check_columns(schema.names, path)
    if not is_columnar(schema, _columns(labels=labels)):
        return None
    seen = _Seen(np.cumsum([0, *sizes]))
    for rows in stream_rows(path, [*_NEEDED, *(_ORIGINS if labels else ()), *(_TELLING if kind is None else ())]):
        seen.add(rows, infer=kind is None)
    if not seen.names:
        raise ObservationError(
            "there are no questions",
            path=path,
            expected="at least one question",
            remedy="Check that the run that should have written them has finished.",
        )
    again = _again(path, np.concatenate(seen.names))
    if again is not None and sum(sizes) > LARGEST_REGROUPED:
        raise _scattered(path, sum(sizes), again)
    levels = seen.level_table(path)
    return Survey(
        path=path,
        labels=labels,
        n_rows=sum(sizes),
        n_questions=len(np.unique(np.concatenate(seen.names))),
        levels=levels,
        lines={levels[number]: line for (number, _), line in reversed(seen.levels.items())},
        kind=kind or seen.kind(path),
        datasets=", ".join(seen.origins["dataset"]),
        models=", ".join(seen.origins["model"]),
        together=again is None,
        cuts=tuple(seen.cuts),
    )


_ORIGINS = ("dataset", "model")
_NEEDED, _TELLING = ("problem_id", "level", "level_name"), ("correct", "gold_answer")


def _columns(*, labels: bool) -> tuple[str, ...]:
    return (*REPORT_COLUMNS, *(LABEL_COLUMNS if labels else ()))


def whole_levels(level: Float[np.ndarray, " row"]) -> Bool[np.ndarray, " row"]:
    """Tell which level numbers are whole and not negative; a missing one (NaN) is not."""
    return np.asarray((level >= 0) & (np.floor(level) == level))


@dataclass
class _Seen:
    """What has been seen of a file so far."""

    edges: Int[np.ndarray, " edge"]  # of row groups, those not reached yet
    names: list[UInt64[np.ndarray, " problem"]] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    levels: dict[tuple[int, str | None], int] = field(default_factory=dict)
    kinds: set[AnswerKind] = field(default_factory=set)
    flagged: bool = False
    origins: dict[str, dict[str, None]] = field(default_factory=lambda: {name: {} for name in _ORIGINS})

    def add(self, rows: Rows, *, infer: bool) -> None:
        """Take in some whole questions."""
        self.names.append(_hashed(rows.table["problem_id"].take(rows.start)))
        first = rows.line[rows.start] - 1
        n_reached = int(np.searchsorted(self.edges, first[-1], side="right"))
        cuts = np.unique(first[np.searchsorted(first, self.edges[:n_reached])])
        self.cuts += cuts.tolist()
        self.edges = self.edges[n_reached:]
        self._add_levels(rows)
        if infer and "correct" in rows.table.column_names:
            self.flagged |= rows.table["correct"].null_count < rows.table.num_rows
        if infer and "gold_answer" in rows.table.column_names:
            golds = _distinct(rows.table["gold_answer"])
            self.kinds |= {infer_kind(golds)} if golds else set()
        for name in set(_ORIGINS) & set(rows.table.column_names):
            self.origins[name] |= dict.fromkeys(_distinct(rows.table[name]))

    def _add_levels(self, rows: Rows) -> None:
        import pandas as pd

        level = rows.table["level"].to_numpy().astype(float)
        if "level_name" in rows.table.column_names:
            named = rows.table["level_name"].combine_chunks().dictionary_encode()
            names = [None, *(name if not name.isspace() else None for name in named.dictionary.to_pylist())]
            code = named.indices.fill_null(-1).to_numpy() + 1
        else:
            names, code = [None], np.zeros(len(level), int)
        usable = whole_levels(level)
        pair = np.where(usable, level * len(names) + code, -1)
        for value in pd.unique(pair[usable]).tolist():
            known = int(value // len(names)), names[int(value % len(names))] or None
            if known not in self.levels:
                row = int(np.argmax(pair == value))
                self.levels[known] = int(rows.line[rows.start[np.searchsorted(rows.start, row, side="right") - 1]])

    def level_table(self, path: Path) -> dict[int, str]:
        """Return the levels by number; see :func:`~bayes_direag.data.readings.level_table`."""
        seen = [
            Question(problem_id="any", observations=(Observation(level=level, level_name=name),))
            for level, name in self.levels
        ]
        return level_table(seen, Origin(path, tuple(self.levels.values())))

    def kind(self, path: Path) -> AnswerKind:
        """Return what the gold answers show; text if there are only flags."""
        if not self.kinds:
            return "text" if self.flagged else infer_kind([], path)
        return next(iter(self.kinds)) if len(self.kinds) == 1 else "text"


def _distinct(column: "pyarrow.ChunkedArray") -> list[str]:
    """Return the distinct texts of a column, in the order in which they come, less the blank ones."""
    return [text for text in column.unique().to_pylist() if text and not text.isspace()]


def _hashed(names: "pyarrow.ChunkedArray") -> UInt64[np.ndarray, " problem"]:
    from pandas.util import hash_array

    return np.asarray(hash_array(names.to_numpy(), categorize=False))


class _Again(NamedTuple):
    name: str | None
    line: int


def _again(path: Path, hashed: UInt64[np.ndarray, " problem"]) -> _Again | None:
    """Return the first question that begins a second time; hashes that agree by chance are told apart."""
    inorder = np.sort(hashed)
    suspects = np.unique(inorder[1:][inorder[1:] == inorder[:-1]])
    if not len(suspects):
        return None
    known: set[str | None] = set()
    for rows in stream_rows(path, ["problem_id"]):
        names = rows.table["problem_id"].take(rows.start)
        for place in np.flatnonzero(np.isin(_hashed(names), suspects)):
            name = names[int(place)].as_py()
            if name in known:
                return _Again(name, int(rows.line[rows.start[place]]))
            known.add(name)
    return None


def _scattered(path: Path, n_rows: int, again: _Again) -> ObservationError:
    return ObservationError(
        f"rows of this question stand here apart from its others, and {n_rows:,} rows are too many to be put in order",
        path=path,
        line=again.line,
        field="problem_id",
        seen=again.name,
        expected="all rows of a question together",
        remedy="Sort the file first, for example with DuckDB: COPY (FROM 'in.parquet' ORDER BY problem_id) TO "
        "'sorted.parquet'.",
    )


def _regrouped(path: Path, columns: tuple[str, ...]) -> Iterator[Rows]:
    """Yield the whole file at once, the rows of each question put together, questions in the order of their first."""
    from pyarrow import parquet

    with parquet_errors(path), parquet.ParquetFile(path) as file:
        table = normal(file.read(columns=[name for name in columns if name in file.schema_arrow.names]))
    code = table["problem_id"].combine_chunks().dictionary_encode(null_encoding="encode")
    order = np.argsort(code.indices.to_numpy(), kind="stable")
    together = normal(table.take(order))
    yield Rows(together, order + 1, question_starts(together))
