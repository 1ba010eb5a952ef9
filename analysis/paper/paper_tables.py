"""The paper's Tables 1 and 2 from one's own evaluations, beside the printed figures, and what tells methods apart."""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from analysis.paper.paper_figures import (
    PRINTED_METRICS,
    PRINTED_TABLES,
    PrintedTable,
    as_printed,
    printed_dataset,
    printed_model,
)
from analysis.runs.evaluated_run import EvaluatedRun
from analysis.scores.paired import PairedDifference, control_false_discoveries, paired_table
from analysis.scores.scoring import SELECTION_SCORES, cluster_of, score, scored_of

#: The method that all others are compared with; in which metrics: benefit, which sees the selected answers, and the
#: paper's own proper score; and those others, with their printed names.
REFERENCE = "direag"
COMPARED_METRICS = ("benefit", "brier")
COMPARED_METHODS = MappingProxyType(
    {name: printed for table in PRINTED_TABLES for printed, name in table.rows.items() if name != REFERENCE}
)
#: Bootstrap resamples, and permutations, of each comparison.
N_RESAMPLES = 1000
_COMPARISON = ("run", "model", "dataset", "method", "name", "n")


class Setting(NamedTuple):
    """Model and dataset of a run: as the paper calls them where it can, and whether it has a cell for the two."""

    model: str
    dataset: str
    is_printed: bool


def setting(run: EvaluatedRun) -> Setting:
    """Return where in the paper's tables a run belongs; one of several models or datasets belongs nowhere."""
    model = printed_model(run.models[0]) if len(run.models) == 1 else None
    dataset = printed_dataset(run.datasets[0]) if len(run.datasets) == 1 else None
    return Setting(
        model or ", ".join(run.models) or "unnamed model",
        dataset or ", ".join(run.datasets) or "unnamed dataset",
        model is not None and dataset is not None,
    )


def in_printed_order(runs: Sequence[EvaluatedRun]) -> list[EvaluatedRun]:
    """Return the runs in the paper's order of models and datasets, those that it does not have at the end."""
    cells = [tuple(row[:2]) for row in PRINTED_TABLES[0].figures().index]

    def place(run: EvaluatedRun) -> int:
        model, dataset, is_printed = setting(run)
        return cells.index((model, dataset)) if is_printed else len(cells)

    return sorted(runs, key=place)


def paper_table(table: PrintedTable, runs: Sequence[EvaluatedRun], *, level: float, seed: int) -> pd.DataFrame:
    """Return one of the paper's tables: a row a run and printed name, in the printed order.

    Returns: ``table`` (its number), ``run`` (the folder), ``model``, ``dataset``, ``method`` (the printed name),
    ``name`` (of :data:`analysis.evaluation.METHODS`), ``n``, ``unanswered``; and for each metric its value, ``_low``
    and ``_high``, ``_rank`` (1 is the best of the run to the printed precision, 2 the next best, equals being equally
    good), ``_printed`` in the paper, and ``_difference`` (ours less that). A method that a run does not have, and a
    cell that the paper does not have, is missing throughout; an undefined metric has no rank. Then the scores of
    :data:`~analysis.scores.scoring.SELECTION_SCORES`, which the paper does not have.

    Parameters
    ----------
    level, seed
        Of the bootstrap intervals. Those of a run that were made at this level are taken as they are; others
        are drawn again from its predictions, as many times as they were.
    """
    parts = [_rows_of_run(table, run, level, seed) for run in runs]
    return pd.concat(parts, ignore_index=True)


def _rows_of_run(table: PrintedTable, run: EvaluatedRun, level: float, seed: int) -> pd.DataFrame:
    metrics = _metrics_at(run, level, seed).set_index("method").reindex(list(table.rows.values()))
    model, dataset, _ = setting(run)
    cells = pd.MultiIndex.from_product([[model], [dataset], list(table.rows)])
    printed = table.figures().reindex(cells).set_axis(metrics.index)
    columns: dict[str, object] = {
        "table": table.number,
        "run": str(run.folder),
        "model": model,
        "dataset": dataset,
        "method": list(table.rows),
        "name": metrics.index,
        "n": metrics["n"].astype("Int64"),
        "unanswered": metrics["unanswered"].astype("Int64"),
    }
    for metric, (*_, more_is_better) in PRINTED_METRICS.items():
        rank = metrics[metric].map(as_printed).rank(method="dense", ascending=not more_is_better)
        columns |= {
            metric: metrics[metric],
            f"{metric}_low": metrics[f"{metric}_low"],
            f"{metric}_high": metrics[f"{metric}_high"],
            f"{metric}_rank": rank.astype("Int64"),
            f"{metric}_printed": printed[metric],
            f"{metric}_difference": metrics[metric] - printed[metric],
        }
    for metric in SELECTION_SCORES:
        columns |= {f"{metric}{end}": metrics[f"{metric}{end}"] for end in ("", "_low", "_high")}
    return pd.DataFrame(columns)


def _metrics_at(run: EvaluatedRun, level: float, seed: int) -> pd.DataFrame:
    if level == run.interval_level:
        return run.metrics
    return score(run.predictions, seed=seed, n_resamples=run.n_resamples, interval_level=level)


def method_differences(
    runs: Sequence[EvaluatedRun],
    *,
    level: float,
    seed: int,
    n_resamples: int = N_RESAMPLES,
    on_step: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Compare DirEAG with every other method of both tables, on the labelled questions.

    The Brier score is over those of them that both have answered.

    Returns: A row a run, method and metric: ``run``, ``model``, ``dataset``, ``method`` (the printed name), ``name``,
    ``n`` (labelled questions), the columns of :func:`~analysis.scores.paired.paired_table` with the other method as
    ``first`` and DirEAG as ``second``, and ``p_adjusted``, the p-value adjusted over all rows by
    :func:`~analysis.scores.paired.control_false_discoveries`. Runs without DirEAG, and methods that a run does not
    have, have no row.

    Parameters
    ----------
    level
        Of the bootstrap intervals.
    seed
        Every comparison starts from it, so that those on equally many questions share their resamples.
    n_resamples
        Bootstrap resamples, and permutations, of each comparison.
    """
    parts = [
        _difference_rows(run, name, level, seed, n_resamples, on_step) for run in runs for name in _comparable(run)
    ]
    empty = pd.DataFrame(columns=[*_COMPARISON, "metric", *PairedDifference._fields])
    table = pd.concat(parts, ignore_index=True) if parts else empty
    return table.assign(p_adjusted=control_false_discoveries(table["p_value"].to_numpy(float)))


def _comparable(run: EvaluatedRun) -> list[str]:
    has = set(run.predictions["method"])
    return [name for name in COMPARED_METHODS if name in has and REFERENCE in has]


def _difference_rows(
    run: EvaluatedRun, name: str, level: float, seed: int, n_resamples: int, on_step: Callable[[str], None]
) -> pd.DataFrame:
    printed = COMPARED_METHODS[name]
    on_step(f"{run.folder}: DirEAG against {printed}")
    labelled = run.predictions.dropna(subset="correct").set_index("problem_id")
    first, second = (labelled[labelled["method"] == method] for method in (name, REFERENCE))
    both = first.index.intersection(second.index)
    table = paired_table(
        scored_of(first.loc[both]),
        scored_of(second.loc[both]),
        metrics=COMPARED_METRICS,
        rng=seed,
        n_resamples=n_resamples,
        level=level,
        cluster=cluster_of(first.loc[both]),
    )
    model, dataset, _ = setting(run)
    where = table.assign(run=str(run.folder), model=model, dataset=dataset, method=printed, name=name, n=len(both))
    return where[[*_COMPARISON, *table.columns]]
