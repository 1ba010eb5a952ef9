"""Where a large file is processed: in this process, or on a Ray cluster; the job is the same function of a span.

Ray returns the tables in order, and repeats the spans of a worker that dies.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bayes_direag.data.records import Columns
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    import pyarrow

#: Where a large Parquet file is processed.
Engine = Literal["local", "ray"]

_ERROR = "expected error"


class Span(NamedTuple):
    """Rows of a file, from 0, the last not included."""

    start: int
    stop: int


#: Makes tables, one after the other, of a span of whole questions, or of the whole file (None).
Job = Callable[[Span | None], Iterator["pyarrow.Table"]]


def is_parquet(path: str | Path) -> bool:
    """Tell by its first bytes whether a file is Parquet; False if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def prepare(engine: Engine, path: Path, columns: Columns | None = None) -> None:
    """Check that an engine is installed and can read a file, and start it, before anything that takes long.

    Ray joins the cluster that it knows of, or starts one on this machine, best before JAX has started threads. Raises
    DirEAGError if Ray is not installed, the file is not Parquet, or ``columns`` are given.
    """
    if engine == "local":
        return
    if not is_parquet(path):
        raise DirEAGError(
            f"--engine {engine}: saw {path}, which is not a Parquet file; expected one. Convert it, or leave --engine "
            "out."
        )
    if columns is not None:
        raise DirEAGError(
            f"--engine {engine} needs the standard column names and percentages; saw --column, --scale or --equal. "
            "Leave one of them out."
        )
    _join_cluster()


def _join_cluster() -> None:
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise DirEAGError(
            f"--engine ray: there is no module {error.name!r}; expected Ray Data. Install it: "
            "pip install '.[ray]' in the checkout of bayes-direag"
        ) from error
    if ray.is_initialized():
        return
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # JAX warns of forks; this one is safe, as it runs another program at once
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def run_on_ray(job: Job, spans: Sequence[Span]) -> Iterator["pyarrow.Table"]:
    """Yield the tables that a job makes of each span of a file, in order; all workers must be able to read the file.

    Raises DirEAGError if the job does in a worker, or if Ray is not installed.
    """
    _join_cluster()
    import ray

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    reference = ray.put(job)  # kept in this process, as workers may have to be replaced
    tables = ray.data.from_items([span._asdict() for span in spans], override_num_blocks=len(spans)).map_batches(
        _run_job, fn_kwargs={"references": [reference]}, batch_size=1, batch_format="pyarrow", num_cpus=1
    )
    for table in tables.iter_batches(batch_size=None, batch_format="pyarrow"):
        if _ERROR in table.column_names:
            raise DirEAGError(table[_ERROR].drop_null()[0].as_py())
        yield table


def _run_job(spans: "pyarrow.Table", references: list[Any]) -> Iterator["pyarrow.Table"]:
    """Run the job on some spans; return an expected error as a table, as Ray would bury it in its own traceback."""
    import pyarrow

    job = _fetched(references[0])
    for span in spans.to_pylist():
        try:
            yield from job(Span(**span))
        except DirEAGError as error:
            yield pyarrow.table({_ERROR: [str(error)]})


@lru_cache(maxsize=1)
def _fetched(reference: Any) -> Job:
    """Fetch the job once per worker, so that it keeps what it has cached."""
    import ray

    job: Job = ray.get(reference)
    return job
