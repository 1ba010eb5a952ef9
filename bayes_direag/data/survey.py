"""A first look through a Parquet file, and then its questions as arrays, in parts, here or on a cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
from pandas.util import hash_array

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.engines import Engine, Job, Span, run_on_ray
from bayes_direag.data.long_table import Overview
from bayes_direag.data.parquet import ROWS_AT_ONCE, group_edges, parts, texts_of, whole_file
from bayes_direag.data.question_arrays import QuestionArrays, question_arrays
from bayes_direag.data.records import no_questions
from bayes_direag.errors import ObservationError

#: A file with more rows than this must have those of a question together.
LARGEST_REGROUPED = 5_000_000

#: What a prediction looks at, and what a fit looks at besides.
_REPORTS = ("problem_id", "level", "level_name", "answer", "confidence")
_LABELS = ("correct", "gold_answer", "dataset", "model")


@dataclass(frozen=True)
class Survey:
    """What has to be known of a whole file before any of it is used.

    Attributes
    ----------
    columns : tuple of str
        Those that are looked at.
    levels, lines : dict
        The name of each level by number, and the line of the first question with a level by name.
    datasets, models : str
        The distinct names, separated by commas; looked for with the labels only.
    together : bool
        Whether the rows of every question stand together.
    cuts : tuple of int
        For every row group in which a question begins, the first such row, from 0: where the file can be cut.
    """

    path: Path
    columns: tuple[str, ...]
    n_rows: int
    n_questions: int
    levels: dict[int, str]
    lines: dict[str, int | None]
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

    def arrays(self, span: Span | None = None) -> Iterator[tuple[pyarrow.Array, QuestionArrays]]:
        """Yield the questions of the file, or of a span of it, in parts of bounded size: their names, and the arrays.

        Raises
        ------
        ObservationError
            Where :meth:`Observations.read <bayes_direag.data.observations.Observations.read>` would, in the same words.
        """
        together = parts(self.path, self.columns, span) if self.together else [whole_file(self.path, self.columns)]
        for part in together:
            part.check()
            yield part.problem_id, question_arrays(part.long_table(), self.levels, self.kind)

    def run(self, job: Job, engine: Engine) -> Iterator[pyarrow.Table]:
        """Yield the tables that a job makes of the file, in its order; raise what the job raises."""
        return job(None) if engine == "local" else run_on_ray(job, self.spans(ROWS_AT_ONCE))


def survey(path: Path, kind: AnswerKind | None, *, labels: bool) -> Survey:
    """Look through a Parquet file, in parts.

    Questions are known by 64 bits of a hash: of ten million, two are taken for one with a probability of three in a
    million; the rows are then taken to be scattered.

    Parameters
    ----------
    kind
        How answers are compared; inferred from the gold answers if not given.
    labels
        Whether it matters which answers are right: if not, gold answers and flags are not looked at.

    Raises
    ------
    ObservationError
        As :meth:`Observations.read <bayes_direag.data.observations.Observations.read>` does; or if the rows of a
        question do not stand together in a file of more than :data:`LARGEST_REGROUPED` rows.
    """
    about = {name: dict[str, None]() for name in ("dataset", "model")}
    telling = ("correct", "gold_answer") if kind is None else ()
    overview, hashes, starts = Overview(), [], []
    for part in parts(path, ("problem_id", "level", "level_name", "confidence", *telling, *(about if labels else ()))):
        overview.add(part.long_table())
        hashes.append(_hashed(part.problem_id))
        starts.append(part.line[part.start] - 1)
        for name, known in about.items():
            known |= dict.fromkeys(texts_of(part.columns[name]).values)
    if not starts:
        raise no_questions(path)
    start, edges = np.concatenate(starts), group_edges(path)
    n_rows = int(edges[-1])
    distinct, first = np.unique(np.concatenate(hashes), return_index=True)
    together = len(distinct) == len(start)
    if not together and n_rows > LARGEST_REGROUPED:
        again = int(start[np.setdiff1d(np.arange(len(start)), first)[0]])
        raise _scattered(path, n_rows, again)
    overview.check_percentages(path)
    kind, levels = overview.kind(kind, path), overview.levels(path)
    return Survey(
        path=path,
        columns=(*_REPORTS, *(_LABELS if labels else ())),
        n_rows=n_rows,
        n_questions=len(distinct),
        levels=levels,
        lines={levels[number]: line for (number, _), line in reversed(overview.pairs.items())},
        kind=kind,
        datasets=", ".join(about["dataset"]),
        models=", ".join(about["model"]),
        together=together,
        cuts=tuple(np.unique(start[np.searchsorted(start, edges[edges <= start[-1]])]).tolist()),
    )


def _hashed(names: pyarrow.Array) -> np.ndarray:
    return np.asarray(hash_array(names.to_numpy(zero_copy_only=False), categorize=False))


def _scattered(path: Path, n_rows: int, again: int) -> ObservationError:
    part = next(parts(path, ("problem_id",), Span(again, again + 1)))
    return ObservationError(
        f"rows of this question stand here apart from its others, and {n_rows:,} rows are too many to be put in order",
        path=path,
        line=again + 1,
        field="problem_id",
        seen=part.problem_id[0].as_py(),
        expected="all rows of a question together",
        remedy="Sort the file first, for example with DuckDB: COPY (FROM 'in.parquet' ORDER BY problem_id) TO "
        "'sorted.parquet'.",
    )
