"""From a Parquet file of observations to a table of predictions, in bounded memory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import pyarrow
from jaxtyping import Int
from pyarrow import parquet

from bayes_direag.data.atomic import atomic_path
from bayes_direag.data.files import write_table
from bayes_direag.data.long_table import QuestionArrays, level_columns
from bayes_direag.data.parquet import ParquetScan, scan_parquet
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import label_names, sampled_parameters, signal_names
from bayes_direag.model.equations import Reports, logit_signals
from bayes_direag.model.selection import predict


class Predicted(NamedTuple):
    """Number of predicted questions, and of those without a usable report."""

    n: int
    n_unanswered: int


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
        As :meth:`Observations.read <bayes_direag.data.observations.Observations.read>` and ``Fit.predict`` do.
    """
    on_step(f"looking through {source}")
    scan = scan_parquet(source, fit.tree.attrs["answers"], labels=False)
    slots = None
    names = scan.groups or tuple(scan.levels.values())
    columns = level_columns(names, fit.level_names, source, scan.lines.get)
    n_columns = len(fit.level_names)
    if scan.groups is not None:
        slots, columns, n_columns = columns, list(range(len(columns))), len(columns)
    parameters = sampled_parameters(fit.tree, slots)
    predicted = partial(predict, parameters=parameters, final=fit.recalibration, interval_level=interval_level)
    voting = frozenset(number for number, name in zip(scan.levels, names, strict=True) if name in fit.fitted.voting)
    scan = replace(scan, voting=voting, signals=signal_names(fit.tree))
    prediction = _Prediction(scan, predicted, fit.preset.eps, tuple(columns), n_columns, label_names(fit.tree))
    tables = _counted(prediction.tables(), scan.n_questions, on_step)
    if target.suffix.lower() != ".parquet":
        table = pyarrow.concat_tables(tables)
        write_table(table.to_pandas(), target)
        return Predicted(table.num_rows, table["answer"].null_count)
    n = n_unanswered = 0
    writer: parquet.ParquetWriter | None = None
    with atomic_path(target) as partial_path, ExitStack() as stack:
        for table in tables:
            if writer is None:  # the schema that pandas would write, so that pandas reads the same types
                schema = pyarrow.Schema.from_pandas(table.slice(0, 0).to_pandas(), preserve_index=False)
                writer = stack.enter_context(parquet.ParquetWriter(partial_path, schema))
            writer.write_table(table.cast(writer.schema))
            n, n_unanswered = n + table.num_rows, n_unanswered + table["answer"].null_count
    return Predicted(n, n_unanswered)


@dataclass(frozen=True, eq=False)
class _Prediction:
    """Predict the questions of a file."""

    scan: ParquetScan
    predicted: Callable[[Reports], dict[str, np.ndarray]]
    eps: float
    columns: tuple[int, ...]
    n_levels: int
    labels: tuple[str, ...] | None

    def tables(self) -> Iterator[pyarrow.Table]:
        for names, questions in self.scan.arrays():
            predicted = self.predicted(self._reports(questions))
            yield pyarrow.table(
                {
                    "problem_id": names,
                    "answer": _answers(questions, predicted.pop("candidate")),
                    **{name: pyarrow.array(values, from_pandas=True) for name, values in predicted.items()},
                    "n_candidates": questions.candidate.max(axis=1, initial=-1).astype(np.int64) + 1,
                    "n_used": (questions.candidate >= 0).sum(axis=1),
                }
            )

    def _reports(self, questions: QuestionArrays) -> Reports:
        """Return the reports with the levels in the order of the fit."""
        shape = (len(questions.candidate), self.n_levels)
        candidate = np.full(shape, -1, np.int32)
        candidate[:, self.columns] = questions.candidate
        signals = [np.full(shape, np.nan) for _ in self.scan.signals]
        for signal, values in zip(signals, (questions.confidence, *questions.signals.values()), strict=True):
            signal[:, self.columns] = values
        label = None
        if self.labels is not None:
            number = {text: number for number, text in enumerate(self.labels)}
            label_of_text = np.array([*(number.get(text, -1) for text in questions.texts), -1])
            label = np.full(shape, -1)
            label[:, self.columns] = label_of_text[questions.answer]
        logits, n_candidates = logit_signals(signals, self.eps), candidate.max(axis=1, initial=-1) + 1
        return Reports(logits, candidate, n_candidates, label)


def _answers(questions: QuestionArrays, candidate: Int[np.ndarray, " problem"]) -> pyarrow.Array:
    """Return the text of each question's selected candidate; missing for -1."""
    text = np.where(questions.candidate == candidate[:, None], questions.answer, -1).max(axis=1, initial=-1)
    return pyarrow.array(questions.texts, pyarrow.large_string()).take(pyarrow.array(text, mask=candidate < 0))


def _counted(tables: Iterator[pyarrow.Table], n: int, on_step: Callable[[str], None]) -> Iterator[pyarrow.Table]:
    """Yield the tables, and report how many questions have been predicted, and at what rate."""
    start, done = monotonic(), 0
    on_step(f"predicting {n:,} questions")
    for table in tables:
        done += table.num_rows
        on_step(f"predicted {done:,} of {n:,} questions, {done / (monotonic() - start):,.0f} a second")
        yield table
