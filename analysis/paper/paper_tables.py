"""The paper's Tables 1 and 2 from one's own evaluations, beside the printed figures, and what tells methods apart."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from analysis.runs.evaluated_run import EvaluatedRun, Protocol, paired_methods
from analysis.scores.paired import PairedDifference, control_false_discoveries
from analysis.scores.scoring import SELECTION_SCORES, score

_FOLDER = Path(__file__).parent

#: The metrics of both tables in their order: header, what more the header should say, whether more of it is better.
PRINTED_METRICS: Mapping[str, tuple[str, str, bool]] = MappingProxyType(
    {
        "accuracy": ("Accuracy", "", True),
        "ece": ("ECE", "10 bins", False),
        "brier": ("Brier", "", False),
        "auroc": ("AUROC", "", True),
        "pr_positive": ("PR-P", "", True),
        "pr_negative": ("PR-N", "", True),
    }
)
#: Decimals that the paper prints.
DECIMALS = 4


@dataclass(frozen=True)
class PrintedTable:
    """One of the paper's tables.

    ``number``: its number in the paper. ``subject``: what its rows are. ``rows``: the method of
    :data:`analysis.evaluation.METHODS` that each printed name stands for, in the printed order. ``file``, ``column``:
    where its figures are kept, and the column of the printed names.
    """

    number: int
    subject: str
    rows: Mapping[str, str]
    file: str
    column: str

    def figures(self) -> pd.DataFrame:
        """Return the printed figures, indexed by model, dataset and printed name; NaN where there is none."""
        return _read(self.file).set_index(["model", "dataset", self.column])


METHODS_TABLE = PrintedTable(
    1,
    "methods",
    MappingProxyType(
        {
            "Vanilla": "vanilla",
            "Self-cons.": "self_consistency",
            "Ans. entropy": "answer_entropy",
            "Mean conf.": "mean_confidence",
            "SteerConf": "steerconf",
            "Top-K": "topk",
            "DirEAG": "direag",
        }
    ),
    "table1_main.csv",
    "method",
)
VARIANTS_TABLE = PrintedTable(
    2,
    "variants of the evidence",
    MappingProxyType(
        {
            "Count-only + Cal.": "count_calibrated",
            "+ Level Reliability": "level_calibrated",
            "+ Conf. evidence": "confidence",
            "Full DirEAG": "direag",
        }
    ),
    "table2_ablation.csv",
    "variant",
)
PRINTED_TABLES = (METHODS_TABLE, VARIANTS_TABLE)


def printed_model(name: str) -> str | None:
    """Return what the paper's tables call a model, None if they do not have it.

    The last part of a hub name or path counts, whatever its case and hyphens. Either the printed name or the
    full one will do; another version, size or quantisation is another model.

    Examples
    --------
    >>> printed_model("google/gemma-2-9b-it"), printed_model("mistral_7b_instruct_v0.3")
    ('Gemma-2-9B-it', 'Mistral-7B')
    >>> printed_model("Mistral-7B-Instruct-v0.2") is None
    True
    """
    rows = _read("models.csv")
    known = {_key(name): model for column in rows for name, model in zip(rows[column], rows["model"], strict=True)}
    return known.get(_key(re.split(r"[/\\]", name.rstrip("/\\"))[-1]))


def printed_dataset(name: str) -> str | None:
    """Return what the paper's tables call a dataset, None if they do not have it; compared as models are.

    Examples
    --------
    >>> printed_dataset("gsm_hard"), printed_dataset("gsm8k_test"), printed_dataset("simulated")
    ('GSM-Hard', None, None)
    """
    known = {_key(dataset): dataset for dataset in _read("datasets.csv")["dataset"]}
    return known.get(_key(name))


def printed_protocol(dataset: str) -> Protocol:
    """Return how the paper evaluated a dataset, by the name that :func:`printed_dataset` gives it."""
    rows = {row["dataset"]: row for row in _read("datasets.csv").to_dict("records")}
    counts = [rows[dataset][name] for name in Protocol._fields]
    return Protocol(*(None if math.isnan(count) else int(count) for count in counts))


def as_printed(value: float) -> float:
    """Round to the decimals that the paper prints, exactly as formatting does; NaN stays NaN.

    Examples
    --------
    >>> as_printed(0.66875), round(0.66875, 4), f"{0.66875:.4f}"
    (0.6687, 0.6687, '0.6687')
    """
    return float(f"{value:.{DECIMALS}f}")


@cache
def _read(file: str) -> pd.DataFrame:
    return pd.read_csv(_FOLDER / file)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())


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
    """Return one of the paper's tables: one row per run and printed name, in the printed order.

    Returns: ``table`` (its number), ``run`` (the folder), ``model``, ``dataset``, ``method`` (the printed name),
    ``name`` (of :data:`analysis.evaluation.METHODS`), ``n``, ``unanswered``; and for each metric its value, ``_low``
    and ``_high``, ``_rank`` (1 is the best of the run to the printed precision, 2 the next best, equals being equally
    good), ``_printed`` in the paper, and ``_difference`` (ours minus the printed value). A method that a run does not
    have, and a cell that the paper does not have, is missing throughout; an undefined metric has no rank. Then the
    scores of :data:`~analysis.scores.scoring.SELECTION_SCORES`, which the paper does not have.

    ``level``, ``seed``: of the bootstrap intervals. Those of a run that were made at this level are taken as they are;
    others are drawn again from its predictions, as many times as they were.
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

    Returns: One row per run, method and metric: ``run``, ``model``, ``dataset``, ``method`` (the printed name),
    ``name``, ``n`` (labelled questions), the columns of :func:`~analysis.scores.paired.paired_table` with the other
    method as ``first`` and DirEAG as ``second``, and ``p_adjusted``, the p-value adjusted over all rows by
    :func:`~analysis.scores.paired.control_false_discoveries`. Runs without DirEAG, and methods that a run does not
    have, have no row.

    ``level``: of the bootstrap intervals. ``seed``: every comparison starts from it, so that those on equally many
    questions share their resamples. ``n_resamples``: bootstrap resamples, and permutations, of each comparison.
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
    table = paired_methods(run, name, REFERENCE, COMPARED_METRICS, seed=seed, n_resamples=n_resamples, level=level)
    model, dataset, _ = setting(run)
    where = table.assign(run=str(run.folder), model=model, dataset=dataset, method=printed, name=name)
    return where[[*_COMPARISON, *table.columns.drop("n")]]
