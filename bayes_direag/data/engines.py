"""Where the work on a large file is done: here, or on a cluster by Ray; the work is the same function of a span."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bayes_direag.data.parquet_rows import ROWS_AT_ONCE, Span, is_parquet
from bayes_direag.data.parquet_survey import Survey
from bayes_direag.data.ray_engine import run_on_ray, start
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    import pyarrow

Engine = Literal["local", "ray"]

#: What is done to a span of whole questions, or to the whole file (None): one table after the other.
Job = Callable[[Span | None], Iterator["pyarrow.Table"]]


def prepare(engine: Engine, path: Path) -> None:
    """Make sure that an engine is there, and reads such a file; before anything that takes long.

    Raises
    ------
    DirEAGError
        If it is not installed, or the file is not Parquet.
    """
    if engine == "local":
        return
    if not is_parquet(path):
        raise DirEAGError(
            f"--engine {engine}: saw {path}, which is not a Parquet file; expected one. Convert it, or do without "
            "--engine."
        )
    start()


def run(job: Job, survey: Survey, engine: Engine) -> Iterator["pyarrow.Table"]:
    """Yield the tables that a job makes of a surveyed file, in the order of the file; raise what the job raises."""
    if engine == "local":
        return job(None)
    return run_on_ray(job, survey.spans(ROWS_AT_ONCE))
