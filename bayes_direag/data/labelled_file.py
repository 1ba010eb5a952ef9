"""How a file of labelled questions is read for a fit: question by question, or counted by pattern."""

from collections.abc import Callable
from pathlib import Path

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.engines import Engine, prepare
from bayes_direag.data.observations import Observations
from bayes_direag.data.parquet_rows import is_parquet, number_of_rows

#: A Parquet file with more rows than this is counted by pattern unless told otherwise.
LARGEST_KEPT = 1_000_000


def read_labelled(
    path: Path,
    answers: AnswerKind | None = None,
    *,
    by_pattern: bool | None = None,
    engine: Engine = "local",
    on_step: Callable[[str], None] = lambda _: None,
) -> Observations:
    """Read an observation file for a fit.

    Parameters
    ----------
    answers
        How answers are compared; inferred from the gold answers if not given.
    by_pattern
        Keep a row a pattern, see :mod:`~bayes_direag.data.counted`, instead of a row a question. Left out: for
        Parquet files of more than :data:`LARGEST_KEPT` rows, and on another engine than this process.

    Raises
    ------
    ObservationError
        If the file or something in it cannot be used.
    DirEAGError
        If the engine is not installed, or cannot read such a file.
    """
    prepare(engine, path)
    if by_pattern is None:
        by_pattern = engine != "local" or (is_parquet(path) and number_of_rows(path) > LARGEST_KEPT)
    if not by_pattern:
        return Observations.read(path, answers)
    from bayes_direag.data.counted import count_parquet, count_patterns

    counted = count_parquet(path, answers, engine=engine, on_step=on_step) if is_parquet(path) else None
    return count_patterns(Observations.read(path, answers)) if counted is None else counted
