"""From a folder of Parquet files, one row a question, to a folder of predictions, by a Ray cluster."""

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bayes_direag.data.atomic import folder_beside
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    import pyarrow

#: Where questions are predicted.
PredictionEngine = Literal["local", "ray"]


def predict_on_ray(predict_batch: Callable[["pyarrow.Table"], "pyarrow.Table"], source: Path, target: Path) -> None:
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
        raise DirEAGError(
            f"--engine ray: saw {source} with the columns {', '.join(questions.schema().names)}; expected a row for "
            "each question, with its reports in the column observations. Write it with Observations.write."
        )
    predicted = questions.map_batches(predict_batch, batch_format="pyarrow", zero_copy_batch=True)
    with folder_beside(target) as folder:
        try:
            predicted.write_parquet(str(folder / target.name))
        except ray.exceptions.RayTaskError as error:
            if not isinstance(error.cause, DirEAGError):
                raise
            raise DirEAGError(str(error.cause).partition("\n")[0]) from error  # Ray adds lines of its own
        (folder / target.name).rename(target)
