"""Where a large file is worked through: here, or on a cluster by Ray; the work is the same function of a span.

On Ray the tables come back in order, and the spans of a worker that dies are worked through again.
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

#: Where a large Parquet file is worked through.
Engine = Literal["local", "ray"]

_ERROR = "expected error"


class Span(NamedTuple):
    """Rows of a file, from 0, the last not included."""

    start: int
    stop: int


#: What is done to a span of whole questions, or to the whole file (None): one table after the other.
Job = Callable[[Span | None], Iterator["pyarrow.Table"]]


def is_parquet(path: str | Path) -> bool:
    """Tell by its first bytes whether there is a Parquet file."""
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def prepare(engine: Engine, path: Path, columns: Columns | None = None) -> None:
    """Make sure that an engine is there, and reads such a file; before anything that takes long.

    Ray joins the cluster that it knows of, or starts one on this machine; best before JAX has any threads.
    Raises DirEAGError if it is not installed, or the file is not Parquet, or not under our own names.
    """
    if engine == "local":
        return
    if not is_parquet(path):
        raise DirEAGError(
            f"--engine {engine}: saw {path}, which is not a Parquet file; expected one. Convert it, or do without "
            "--engine."
        )
    if columns is not None:
        raise DirEAGError(
            f"--engine {engine} reads the columns that observation files have; saw --column or --scale. Do without one "
            "of them."
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
        # what JAX fears of a fork does not befall one that at once becomes another program
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def run_on_ray(job: Job, spans: Sequence[Span]) -> Iterator["pyarrow.Table"]:
    """Yield the tables that a job makes of each span of a file, in order; all workers must see the file.

    Raises DirEAGError as the job does in a worker, or if Ray is not installed.
    """
    _join_cluster()
    import ray

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    kept = ray.put(job)  # here, for as long as workers may have to be replaced
    tables = ray.data.from_items([span._asdict() for span in spans], override_num_blocks=len(spans)).map_batches(
        _done, fn_kwargs={"kept": [kept]}, batch_size=1, batch_format="pyarrow", num_cpus=1
    )
    for table in tables.iter_batches(batch_size=None, batch_format="pyarrow"):
        if _ERROR in table.column_names:
            raise DirEAGError(table[_ERROR].drop_null()[0].as_py())
        yield table


def _done(spans: "pyarrow.Table", kept: list[Any]) -> Iterator["pyarrow.Table"]:
    """Do the job on some spans.

    An expected error comes back as a table: raised, it would come wrapped in pages of Ray's own account of it.
    """
    import pyarrow

    job = _job(kept[0])
    for span in spans.to_pylist():
        try:
            yield from job(Span(**span))
        except DirEAGError as error:
            yield pyarrow.table({_ERROR: [str(error)]})


@lru_cache(maxsize=1)
def _job(kept: Any) -> Job:
    """Return the job from where it is kept, with what it remembers of the spans before."""
    import ray

    job: Job = ray.get(kept)
    return job
