"""From a Parquet file of observations to a table of predictions, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import pyarrow
from pyarrow import parquet

from bayes_direag.data.arrays import Overview
from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import write_table
from bayes_direag.data.observations import Observations
from bayes_direag.data.tables import parquet_parts
from bayes_direag.errors import ObservationError
from bayes_direag.fits.fit import Fit

#: The rows of a question need not be adjacent in files with at most this many rows.
LARGEST_REGROUPED = 5_000_000


class Predicted(NamedTuple):
    """Number of predicted questions, and of those without a usable report."""

    n: int
    n_unanswered: int


class _ScatteredError(Exception):
    """Rows of a question are not adjacent, or it occurs twice."""


def predict_parquet(
    fit: Fit,
    source: Path,
    target: Path,
    *,
    interval_level: float = 0.9,
    on_step: Callable[[str], None] = lambda _: None,
) -> Predicted:
    """Predict the questions of a Parquet file part by part.

    The table has the columns and values of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`. Parquet is written
    part by part, completely or not at all; CSV and JSON Lines are written at the end.

    Parameters
    ----------
    on_step
        Called with messages on progress.

    Raises
    ------
    ObservationError, LevelError, DirEAGError
        As :meth:`Observations.read <bayes_direag.data.observations.Observations.read>` and ``Fit.predict`` do, or if
        rows of a question are not adjacent in a file of more than :data:`LARGEST_REGROUPED` rows.
    """

    def predicted(parts: Iterable[Observations]) -> Iterator[pyarrow.Table]:
        start, n = monotonic(), 0
        on_step(f"predicting {source}")
        for questions in parts:
            yield pyarrow.Table.from_pandas(fit.predict(questions, interval_level=interval_level), preserve_index=False)
            n += len(questions)
            on_step(f"predicted {n:,} questions, {n / (monotonic() - start):,.0f} a second")

    try:
        return _written(predicted(_parts(source, fit)), target)
    except _ScatteredError:
        return _written(predicted([Observations.read(source, fit.answers)]), target)


def _parts(source: Path, fit: Fit) -> Iterator[Observations]:
    """Yield the questions of a file in parts; names are compared by a hash of 64 bits."""
    overview, hashes, lines = Overview(), [], []
    for part in parquet_parts(source):
        questions = Observations.of_table(part, fit.answers, overview=overview)
        hashes.append(np.fromiter(map(hash, questions.problem_id), np.int64))
        lines.append(part.line[part.start])
        yield questions
    line = np.concatenate(lines)
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    if len(first) == len(line):
        return
    with parquet.ParquetFile(source) as file:
        n_rows = file.metadata.num_rows
        if n_rows <= LARGEST_REGROUPED:
            raise _ScatteredError
        again = int(np.delete(line, first)[0])
        raise ObservationError(
            f"rows of this question are not adjacent to its other rows, and {n_rows:,} rows are too many to be sorted",
            path=source,
            line=again,
            field="problem_id",
            seen=file.read(columns=["problem_id"])["problem_id"][again - 1].as_py(),
            expected="adjacent rows for each question",
            remedy="Sort the file first, for example with DuckDB: COPY (FROM 'in.parquet' ORDER BY problem_id) TO "
            "'sorted.parquet'.",
        )


def _written(tables: Iterator[pyarrow.Table], target: Path) -> Predicted:
    """Write tables of predictions, and count them."""
    if target.suffix.lower() != ".parquet":
        table = pyarrow.concat_tables(tables)
        write_table(table.to_pandas(), target)
        return Predicted(table.num_rows, table["answer"].null_count)
    n = n_unanswered = 0
    writer: parquet.ParquetWriter | None = None
    with atomic_path(target) as partial_path, ExitStack() as stack:
        for table in tables:
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(partial_path, table.schema))
            writer.write_table(table)
            n, n_unanswered = n + table.num_rows, n_unanswered + table["answer"].null_count
    return Predicted(n, n_unanswered)
