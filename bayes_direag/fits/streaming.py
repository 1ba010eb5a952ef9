"""From files of observations to tables of predictions: Parquet with a row a question in batches, here or on a cluster.

Other files are read at once.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow
from jaxtyping import Int
from pyarrow import dataset, parquet

from bayes_direag.data.atomic import folder_beside
from bayes_direag.data.columns import LEVEL, Columns
from bayes_direag.data.files import read_table, write_parts, write_table
from bayes_direag.data.long_table import LongTable
from bayes_direag.data.observations import Observations
from bayes_direag.data.recognition import recognised
from bayes_direag.data.source_table import RowTable
from bayes_direag.data.tables import read_whole, table_of_arrow
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit

#: How many questions are predicted at once, and how many are looked at together.
BATCH, LARGEST_SAMPLE = 1 << 16, 10_000


class Predicted(NamedTuple):
    """Predicted questions: how many usable reports each one has, and :data:`LARGEST_SAMPLE` questions at random."""

    n_reports: Int[np.ndarray, " problem"]
    sample: Observations


def predict_file(
    fit: Fit,
    source: Path,
    target: Path,
    columns: Columns | None = None,
    *,
    interval_level: float = 0.9,
    on_step: Callable[[str], None] = lambda _: None,
) -> Predicted:
    """Predict the questions of a file, and write the table of ``Fit.predict``, completely or not at all.

    Parquet with a row a question, one file or a folder of them, is read in batches, each checked by itself: each must
    name its levels, and a question in two batches goes unseen. ``on_step`` is called with messages on progress. Raises
    what ``Observations.read`` and ``Fit.predict`` do.
    """
    on_step(f"predicting {source}")
    if not _has_a_row_a_question(source):
        read = read_table(source, columns, with_labels=False)
        questions = Observations.of_table(read, fit.answers, same=fit.same)
        table = fit.predict(questions, interval_level=interval_level, warn=False)
        write_table(table, target)
        return Predicted(table["n_used"].to_numpy(), questions.select(_drawn(len(questions))))
    with read_whole(source):
        rows = dataset.dataset(source, format="parquet")
    names = replace(columns or fit.columns or Columns(), needs_labels=False)
    start, n_used = monotonic(), list[np.ndarray]()
    empty = table_of_arrow(rows.schema.empty_table())
    if isinstance(empty, RowTable) and LEVEL not in recognised(empty, names).answer:
        raise _not_a_row_a_question(source, rows.schema.names)

    def predicted() -> Iterator[pd.DataFrame]:
        with read_whole(source):
            for batch in rows.to_batches(batch_size=BATCH):
                part = pyarrow.Table.from_batches([batch])
                table = fit.predict_batch(part, interval_level=interval_level, columns=columns).to_pandas()
                n_used.append(table["n_used"].to_numpy())
                n = sum(map(len, n_used))
                on_step(f"predicted {n:,} questions, {n / (monotonic() - start):,.0f} a second")
                yield table

    write_parts(predicted(), target)
    n_reports = np.concatenate(n_used)
    drawn = table_of_arrow(rows.take(_drawn(len(n_reports))), source)
    sample = LongTable.of(drawn, columns, with_labels=False)
    return Predicted(n_reports, Observations.of_table(sample, fit.answers, same=fit.same))


def _has_a_row_a_question(source: Path) -> bool:
    if not source.is_file():
        return source.is_dir()
    try:
        return "observations" in parquet.read_schema(source).names
    except pyarrow.ArrowInvalid:
        return False  # which the reader explains


def _not_a_row_a_question(source: Path, names: Sequence[str]) -> DirEAGError:
    return DirEAGError(
        f"saw {source} with the columns {', '.join(names)}; expected a row for each question, with its reports in the "
        "column observations, as questions are read in batches. Write it with Observations.write."
    )


def _drawn(n: int) -> Int[np.ndarray, " drawn"]:
    """Return the places of some questions at random, ascending; all of them if there are few."""
    order = np.random.default_rng(0).permutation(n) if n > LARGEST_SAMPLE else np.arange(n)
    return np.sort(order[:LARGEST_SAMPLE])


def predict_on_ray(predict_batch: Callable[[pyarrow.Table], pyarrow.Table], source: Path, target: Path) -> None:
    """Map a function of questions over files that all workers can read; write a folder, in order and completely.

    Ray joins the cluster that it knows of, or starts one on this machine, and repeats the batches of a worker that
    dies. Raises DirEAGError as ``predict_batch`` does, if Ray is not installed, or if files have a row for each report.
    """
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise DirEAGError(
            f"--engine ray: there is no module {error.name!r}; expected Ray Data. Install it: "
            "pip install '.[ray]' in the checkout of bayes-direag"
        ) from error
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    if not ray.is_initialized():
        with warnings.catch_warnings():  # JAX warns of forks; this one is safe, as it runs another program at once
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = context.raise_original_map_exception = True
    context.enable_progress_bars = False
    questions = ray.data.read_parquet(str(source))
    if "observations" not in questions.schema().names:
        raise _not_a_row_a_question(source, questions.schema().names)
    predicted = questions.map_batches(predict_batch, batch_format="pyarrow", zero_copy_batch=True)
    with folder_beside(target) as folder:
        try:
            predicted.write_parquet(str(folder / target.name))
        except ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, DirEAGError):
                raise
            raise DirEAGError(str(error.cause).partition("\n")[0]) from error  # Ray adds lines of its own
        (folder / target.name).rename(target)
