"""The paper's Tables 1 and 2 from one's own evaluations, beside the printed figures, and what tells methods apart."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from analysis.evaluation import Evaluation
from analysis.scores.paired import control_false_discoveries
from analysis.scores.scoring import SELECTION_SCORES, score
from bayes_direag.model.presets import label

_FOLDER = Path(__file__).parent

#: The metrics of both tables in their order: header, what more the header should say, whether more of it is better.
PRINTED_METRICS: Mapping[str, tuple[str, str, bool]] = MappingProxyType(
    {
        "accuracy": ("Acc", "", True),
        "ece": ("ECE", "10 bins", False),
        "brier": ("Brier", "", False),
        "auroc": ("AUROC", "", True),
        "pr_positive": ("PR-P", "", True),
        "pr_negative": ("PR-N", "", True),
    }
)
#: Decimals that the paper prints.
DECIMALS = 4
#: The preset that the printed figures are of.
PRINTED_PRESET = "release"


@dataclass(frozen=True)
class PrintedTable:
    """One of the paper's tables: printed names and the methods they stand for, and where its figures are."""

    number: int
    subject: str
    rows: Mapping[str, str]
    file: str
    column: str

    def figures(self) -> pd.DataFrame:
        """Return the printed figures, indexed by model, dataset and printed name; NaN where there is none."""
        return _read_csv(self.file).set_index(["model", "dataset", self.column])


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

    It is known by the label in the tables, or by the model's full name, which may end a hub name or path; case and
    hyphens do not count. Another version or size is another model, and so is ``Qwen/Qwen2.5-7B``, the base model.

    Examples
    --------
    >>> printed_model("google/gemma-2-9b-it"), printed_model("Mistral-7B")
    ('Gemma-2-9B-it', 'Mistral-7B')
    >>> printed_model("Qwen/Qwen2.5-7B") is None
    True
    """
    *above, last = re.split(r"[/\\]", name.rstrip("/\\"))
    rows = _read_csv("models.csv")
    known = dict(zip(rows["full_name"].map(_key), rows["model"], strict=True))
    labels = {} if above else {_key(model): model for model in rows["model"]}
    return (known | labels).get(_key(last))


def printed_dataset(name: str) -> str | None:
    """Return what the paper's tables call a dataset, None if they do not have it; compared as models are.

    Examples
    --------
    >>> printed_dataset("gsm_hard"), printed_dataset("gsm8k_test"), printed_dataset("simulated")
    ('GSM-Hard', None, None)
    """
    known = {_key(dataset): dataset for dataset in _read_csv("datasets.csv")["dataset"]}
    return known.get(_key(name))


class Design(NamedTuple):
    """How questions were held out: fits to ``n_fitted`` others, or ``n_folds`` folds of a cross-fit."""

    n_evaluated: int | None
    n_fitted: int | None
    n_folds: int | None

    def __str__(self) -> str:
        how = f"fitted to {self.n_fitted} others" if self.n_folds is None else f"{self.n_folds}-fold cross-fit"
        return f"{self.n_evaluated} questions, {how}"


def design(run: Evaluation) -> Design:
    """Return how an evaluation held questions out."""
    n_fitted = run.record.observations.questions if run.record.test else None
    return Design(run.of.questions, n_fitted, run.settings.n_folds)


def printed_design(dataset: str) -> Design:
    """Return how the paper evaluated a dataset, by the name that :func:`printed_dataset` gives it."""
    rows = {row["dataset"]: row for row in _read_csv("datasets.csv").to_dict("records")}
    counts = [rows[dataset][name] for name in Design._fields]
    return Design(*(None if math.isnan(count) else int(count) for count in counts))


def as_printed(value: float) -> float:
    """Round to the decimals that the paper prints, exactly as formatting does; NaN stays NaN.

    Examples
    --------
    >>> as_printed(0.66875), round(0.66875, 4), f"{0.66875:.4f}"
    (0.6687, 0.6687, '0.6687')
    """
    return float(f"{value:.{DECIMALS}f}")


@cache
def _read_csv(file: str) -> pd.DataFrame:
    return pd.read_csv(_FOLDER / file)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())


#: The method that all others are compared with, and the others with their printed names.
REFERENCE_METHOD, REFERENCE_NAME = "direag", "DirEAG"
COMPARED_METHODS = MappingProxyType(
    {name: printed for table in PRINTED_TABLES for printed, name in table.rows.items() if name != REFERENCE_METHOD}
)
#: All pairs that are compared: DirEAG with every other method, and the rungs of the ladder of evidence below it.
PAIRS = (
    *((REFERENCE_METHOD, other) for other in COMPARED_METHODS),
    ("level_calibrated", "count_calibrated"),
    ("confidence", "level_calibrated"),
)
#: The metrics of a comparison: benefit, which sees the selected answers, and those of the paper's claims.
COMPARED_METRICS = ("benefit", "brier", "accuracy", "ece", "auroc")
#: Those whose differences are tested: benefit, and the paper's own proper score.
TESTED_METRICS = COMPARED_METRICS[:2]
#: Bootstrap resamples, and permutations, of each comparison.
N_RESAMPLES = 1000


class Setting(NamedTuple):
    """Model and dataset of a run: as the paper calls them where it can, and whether it has a cell for the two."""

    model: str
    dataset: str
    is_printed: bool


def setting(run: Evaluation) -> Setting:
    """Return where in the paper's tables a run belongs; one of several models or datasets belongs nowhere."""
    model = printed_model(run.of.models[0]) if len(run.of.models) == 1 else None
    dataset = printed_dataset(run.of.datasets[0]) if len(run.of.datasets) == 1 else None
    return Setting(
        model or ", ".join(run.of.models) or "unnamed model",
        dataset or ", ".join(run.of.datasets) or "unnamed dataset",
        model is not None and dataset is not None,
    )


def in_printed_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the runs in the paper's order of models and datasets, ``release`` first, and others at the end."""
    cells = [tuple(row[:2]) for row in PRINTED_TABLES[0].figures().index]

    def place(run: Evaluation) -> tuple[int, bool]:
        model, dataset, is_printed = setting(run)
        return cells.index((model, dataset)) if is_printed else len(cells), label(run.settings.preset) != PRINTED_PRESET

    return sorted(runs, key=place)


def paper_table(table: PrintedTable, runs: Sequence[Evaluation], *, level: float, seed: int) -> pd.DataFrame:
    """Return one of the paper's tables: a row for each run and printed name, in the printed order.

    Each metric has an interval, its ``_rank`` in the run (to the printed precision), the ``_printed`` value and the
    ``_difference`` to it.
    """
    parts = [_rows_of_run(table, run, level, seed) for run in runs]
    return pd.concat(parts, ignore_index=True)


def _rows_of_run(table: PrintedTable, run: Evaluation, level: float, seed: int) -> pd.DataFrame:
    metrics = _metrics_at_level(run, level, seed).set_index("method").reindex(list(table.rows.values()))
    model, dataset, _ = setting(run)
    cells = pd.MultiIndex.from_product([[model], [dataset], list(table.rows)])
    printed = table.figures().reindex(cells).set_axis(metrics.index)
    columns: dict[str, object] = {
        "table": table.number,
        "run": str(run.folder),
        "model": model,
        "dataset": dataset,
        "preset": label(run.settings.preset),
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


def _metrics_at_level(run: Evaluation, level: float, seed: int) -> pd.DataFrame:
    if level == run.settings.interval_level:
        return run.metrics
    return score(run.predictions, seed=seed, n_resamples=run.settings.n_resamples, interval_level=level)


def paper_differences(
    runs: Sequence[Evaluation],
    *,
    level: float,
    seed: int,
    n_resamples: int = N_RESAMPLES,
    on_step: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Compare the methods of :data:`PAIRS`: ``method`` and ``other`` by printed names, and ``method`` minus ``other``.

    The p-values of DirEAG's :data:`TESTED_METRICS` are adjusted over all runs together, the others are not.
    """
    parts = []
    for run in runs:
        options: dict[str, Any] = {"seed": seed, "n_resamples": n_resamples, "level": level, "on_step": on_step}
        model, dataset, _ = setting(run)
        where = {"run": str(run.folder), "model": model, "dataset": dataset, "preset": label(run.settings.preset)}
        for method, pairs in groupby(PAIRS, key=itemgetter(0)):
            table = run.against(method, [other for _, other in pairs], COMPARED_METRICS, **options)
            other = table.pop("method").map(printed_method)
            named = pd.DataFrame(where, table.index).assign(method=printed_method(method), other=other)
            parts.append(named.join(table))
    whole = pd.concat(parts, ignore_index=True)
    tested = (whole["method"] == REFERENCE_NAME) & whole["metric"].isin(TESTED_METRICS)
    return whole.assign(p_adjusted=control_false_discoveries(whole["p_value"].where(tested).to_numpy(float)))


def printed_method(name: str) -> str:
    """Return what the paper's tables call a method."""
    return COMPARED_METHODS.get(name, REFERENCE_NAME)
