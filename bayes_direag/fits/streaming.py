"""From a file of observations to a table of predictions, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int

from bayes_direag.data.arrays import Overview
from bayes_direag.data.columns import Columns
from bayes_direag.data.files import read_parts, read_table, write_parts
from bayes_direag.data.observations import Observations
from bayes_direag.errors import ObservationError
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from bayes_direag.data.long_table import LongTable

#: How many questions of a stream are kept, to be looked at together.
LARGEST_SAMPLE = 10_000
#: The rows of a question need not be adjacent in files with at most this many rows.
LARGEST_REGROUPED = 5_000_000


class Predicted(NamedTuple):
    """Predicted questions: how many usable reports each one has, and :data:`LARGEST_SAMPLE` questions at random."""

    n_reports: Int[np.ndarray, " problem"]
    sample: Observations


class _Sample:
    """A random sample of the questions of a stream."""

    def __init__(self, fit: Fit) -> None:
        self._fit, self._rng, self._rank = fit, np.random.default_rng(0), np.empty(0)
        self.questions = fit.fitted.select(slice(0))

    def add(self, questions: Observations) -> None:
        """Draw from further questions."""
        n, rank = len(self.questions), np.append(self._rank, self._rng.random(len(questions)))
        kept = np.sort(np.argsort(rank)[:LARGEST_SAMPLE])
        drawn = self._fit.aligned(questions.select(kept[kept >= n] - n)).of_signals(self.questions.signal_names)
        self.questions, self._rank = Observations.joined([self.questions.select(kept[kept < n]), drawn]), rank[kept]


class _ScatteredError(Exception):
    """Rows of a question are not adjacent, or it occurs twice."""


def predict_file(
    fit: Fit,
    source: Path,
    target: Path,
    columns: Columns | None = None,
    *,
    interval_level: float = 0.9,
    on_step: Callable[[str], None] = lambda _: None,
) -> Predicted:
    """Predict the questions of a file part by part, and write the table of ``Fit.predict``, completely or not at all.

    With columns, or levels that are names, each part is checked by itself; otherwise a level may have its name in any
    earlier part. ``on_step`` is called with messages on progress. Raises what ``Observations.read`` and ``Fit.predict``
    do, and ObservationError if rows of a question are not adjacent in a pipe, or in a file of more than
    :data:`LARGEST_REGROUPED` rows.
    """
    n_used: list[np.ndarray] = []
    sample = _Sample(fit)

    def predicted(parts: Iterable["LongTable"]) -> Iterator[pd.DataFrame]:
        nonlocal sample
        start, overview = monotonic(), Overview()
        n_used.clear()
        sample = _Sample(fit)
        on_step(f"predicting {source}")
        for part in parts:
            questions = Observations.of_table(part, fit.answers, overview=overview if part.names is None else None)
            table = fit.predict(questions, interval_level=interval_level, warn=False)
            n_used.append(table["n_used"].to_numpy(np.int32))
            sample.add(questions)
            n = sum(map(len, n_used))
            on_step(f"predicted {n:,} questions, {n / (monotonic() - start):,.0f} a second")
            yield table

    try:
        write_parts(predicted(_adjacent(source, columns)), target)
    except _ScatteredError:
        write_parts(predicted([read_table(source, columns).unlabelled()]), target)
    return Predicted(np.concatenate(n_used), sample.questions)


def _adjacent(source: Path, columns: Columns | None) -> Iterator["LongTable"]:
    """Yield the parts of a file in which the rows of each question are adjacent; names are compared by their hashes."""
    hashes, lines, n_rows = [], [], 0
    for part in read_parts(source, columns):
        hashes.append(np.fromiter(map(hash, _names(part)), np.int64))
        lines.append(part.line[part.start])
        n_rows += len(part.line) if part.is_long else len(part)
        yield part
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    again = np.delete(np.concatenate(lines), first)
    if not len(again):
        return
    if n_rows <= LARGEST_REGROUPED and source.is_file():
        raise _ScatteredError
    names = ((part.line_of(row), name) for part in read_parts(source, columns) for row, name in enumerate(_names(part)))
    line = int(again[0])
    reason = f"{n_rows:,} rows are too many to be sorted" if source.is_file() else "a pipe cannot be read again"
    raise ObservationError(
        f"rows of this question are not adjacent to its other rows, and {reason}",
        path=source,
        line=line,
        field="problem_id",
        seen=next(name for at, name in names if at == line) if source.is_file() else ...,
        expected="adjacent rows for each question",
        remedy="Sort the file first, for example with DuckDB: COPY (FROM 'in.parquet' ORDER BY problem_id) TO "
        "'sorted.parquet'.",
    )


def _names(part: "LongTable") -> list[str]:
    return list(part.texts_of_questions("problem_id").objects())
