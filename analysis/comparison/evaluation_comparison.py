"""One method in several evaluations of the same questions: other presets, other samples, other models, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.runs.evaluated_run import EvaluatedRun
from analysis.scores.paired import control_false_discoveries, paired_table
from analysis.scores.scoring import cluster_of, scored_of
from bayes_direag.errors import DirEAGError


@dataclass(frozen=True, eq=False)
class EvaluationComparison:
    """How the metrics of one method differ between evaluations.

    Attributes
    ----------
    table : DataFrame
        A row an evaluation but the first, and metric: ``evaluation`` (its name), the columns of
        :func:`~analysis.scores.paired.paired_table` with the first evaluation as ``first``, and ``p_adjusted``, the
        p-value adjusted over all rows by :func:`~analysis.scores.paired.control_false_discoveries`.
    reference : str
        Name of the first evaluation.
    n, n_left_out : int
        Labelled questions, which all comparisons are over, and those without a label. Metrics of own answers are over
        those of the n that both evaluations have answered.
    interval_level : float
        Level of the bootstrap intervals.
    """

    table: pd.DataFrame
    reference: str
    n: int
    n_left_out: int
    interval_level: float


def compare_evaluations(
    runs: Mapping[str, EvaluatedRun], method: str = "direag", *, seed: int, n_resamples: int = 1000, level: float = 0.95
) -> EvaluationComparison:
    """Compare every evaluation with the first, on the labelled questions.

    What a method says of a question in an evaluation is said by a fit that has not seen it, so the comparison is of
    held-out predictions. Folds need not be the same.

    Raises DirEAGError if there are fewer than two, one lacks the method, they are of different questions (by
    ``problem_id``), or no question is answered and labelled in all.

    Parameters
    ----------
    runs
        Two or more, by the name they go by in the table.
    method
        Which method, out of those that every evaluation has.
    """
    if len(runs) < 2:
        raise DirEAGError(f"saw {len(runs)} evaluation; expected two or more to compare. Name another.")
    rows = {name: _rows_of(name, run, method) for name, run in runs.items()}
    reference, first = next(iter(rows.items()))
    for name, other in rows.items():
        _check_same_questions((reference, first), (name, other))
    scored = pd.concat([table["correct"].notna().rename(name) for name, table in rows.items()], axis=1).all(axis=1)
    answered = pd.concat([table["confidence"].notna().rename(name) for name, table in rows.items()], axis=1).all(axis=1)
    if not (scored & answered).any():
        raise DirEAGError(
            f"no question is answered and labelled in all of {', '.join(rows)}; expected at least one. Evaluate "
            "labelled observations."
        )
    kept = scored.index[scored]
    chosen = {name: scored_of(table.loc[kept]) for name, table in rows.items()}
    cluster = cluster_of(rows[reference].loc[kept])
    parts = []
    for name in list(rows)[1:]:
        part = paired_table(
            chosen[reference], chosen[name], rng=seed, n_resamples=n_resamples, level=level, cluster=cluster
        )
        part.insert(0, "evaluation", name)
        parts.append(part)
    table = pd.concat(parts, ignore_index=True)
    table["p_adjusted"] = control_false_discoveries(table["p_value"].to_numpy(float))
    return EvaluationComparison(table, reference, int(scored.sum()), int((~scored).sum()), level)


def _rows_of(name: str, run: EvaluatedRun, method: str) -> pd.DataFrame:
    """Return what the method says, by problem_id."""
    has = run.predictions["method"].unique().tolist()
    if method not in has:
        raise DirEAGError(f"{name} has no method {method!r}; expected one of {', '.join(has)}. Name it with --method.")
    rows = run.predictions[run.predictions["method"] == method]
    return rows.set_index("problem_id")


def _check_same_questions(first: tuple[str, pd.DataFrame], other: tuple[str, pd.DataFrame]) -> None:
    (reference, first_rows), (name, rows) = first, other
    here, there = set(first_rows.index), set(rows.index)
    if here != there:
        stranger = min(here ^ there)
        raise DirEAGError(
            f"{reference} and {name} evaluate different questions: saw {len(here)} and {len(there)}, "
            f"{len(here & there)} of them the same, {stranger!r} not among these; expected the same problem_ids. "
            "Evaluate both on the same file."
        )
