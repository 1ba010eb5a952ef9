"""One method in several evaluations of the same questions: paired differences of every metric."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from analysis.comparison.findings import Drawing, Findings, benefit_sentence, paired_metrics_table
from analysis.comparison.predictions import BOOTSTRAP_LEVEL
from analysis.display.glossary import METRIC_WORDS
from analysis.display.style import REFERENCE, RIGHT, forest, row_labels
from analysis.runs.evaluated_run import EvaluatedRun
from analysis.scores.paired import control_false_discoveries, paired_table
from analysis.scores.scoring import scored_rows
from bayes_direag.data.files import as_records
from bayes_direag.errors import DirEAGError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def compare_evaluations(runs: Mapping[str, EvaluatedRun], method: str, *, seed: int, n_resamples: int) -> Findings:
    """Compare a method in every evaluation with that in the first, on questions that all have labelled.

    Predictions are held out in every evaluation; their folds need not be the same.
    """
    rows = {name: _rows_of_method(name, run, method) for name, run in runs.items()}
    reference, first = next(iter(rows.items()))
    for name, other in rows.items():
        _check_same_questions((reference, first), (name, other))
    labelled, answered = (
        pd.concat({name: table[column].notna() for name, table in rows.items()}, axis=1).all(axis=1)
        for column in ("correct", "confidence")
    )
    if not (labelled & answered).any():
        raise DirEAGError(
            f"no question is answered and labelled in all of {', '.join(rows)}; expected at least one. Evaluate "
            "labelled observations."
        )
    kept = labelled.index[labelled]
    scored = {name: scored_rows(table.loc[kept]) for name, table in rows.items()}
    tables = []
    for name in list(rows)[1:]:
        table = paired_table(scored[reference], scored[name], seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
        table.insert(0, "evaluation", name)
        tables.append(table)
    metrics = pd.concat(tables, ignore_index=True)
    metrics["p_adjusted"] = control_false_discoveries(metrics["p_value"].to_numpy(float))
    n, n_left_out = int(labelled.sum()), int((~labelled).sum())
    left_out = f", {n_left_out} without a label left out" if n_left_out else ""
    verdict, blocks = [], []
    for label, part in metrics.groupby("evaluation", sort=False):
        names = reference, str(label)
        title = f"{method}: {label} against {reference}, {n} held-out questions{left_out}"
        verdict.append(benefit_sentence(part, names, n, BOOTSTRAP_LEVEL))
        blocks.append(paired_metrics_table(part, title, names, BOOTSTRAP_LEVEL))
    drawing = Drawing(
        "metric_differences",
        f"{method}: metrics minus those of {reference}",
        f"{n} held-out questions, the same in all. Bars: {BOOTSTRAP_LEVEL:.0%} bootstrap interval of the paired "
        "difference. ↑ more is better, ↓ less.",
        0.6 + 0.24 * len(metrics),
        partial(draw_differences, metrics=metrics),
    )
    record = {"method": method, "reference": reference, "n": n, "left_out": n_left_out}
    record |= {"metrics_level": BOOTSTRAP_LEVEL, "metrics": as_records(metrics)}
    return Findings(tuple(verdict), tuple(blocks), {"metrics": metrics}, drawing, record)


def draw_differences(axes: "Axes", metrics: pd.DataFrame) -> None:
    """Draw every metric's difference to the first evaluation, with its interval."""
    axes.axvline(0, color=REFERENCE, linewidth=1)
    forest(axes, metrics[["difference", "low", "high"]], colour=RIGHT)
    several = len(set(metrics["evaluation"])) > 1
    names = [f"{name.replace('_', ' ')} {METRIC_WORDS[name].arrow}" for name in metrics["metric"]]
    row_labels(
        axes, [f"{of} · {name}" if several else name for of, name in zip(metrics["evaluation"], names, strict=True)]
    )
    axes.set_xlabel("difference")


def _rows_of_method(name: str, run: EvaluatedRun, method: str) -> pd.DataFrame:
    """Return the method's predictions by problem_id."""
    has = run.predictions["method"].unique().tolist()
    if method not in has:
        meant = did_you_mean(method, has)
        raise DirEAGError(
            f"{name} has no method {method!r}; expected one of {', '.join(has)}.{meant} Name it (method=, --method)."
        )
    return run.predictions[run.predictions["method"] == method].set_index("problem_id")


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
