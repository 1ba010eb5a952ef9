"""The paper's Tables 1 and 2: the figures and the names that it prints, and beside them one's own evaluations."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from analysis.display.page import styled
from analysis.evaluation import DIREAG, Evaluation
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag.model.presets import label

#: The metrics of both tables in their order: header, and whether more of it is better.
PRINTED_METRICS: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "accuracy": ("Acc", True),
        "ece": ("ECE", False),
        "brier": ("Brier", False),
        "auroc": ("AUROC", True),
        "pr_positive": ("PR-P", True),
        "pr_negative": ("PR-N", True),
    }
)
#: Decimals that the paper prints.
DECIMALS = 4


#: The title of each table, by the name of its file.
PRINTED_TABLES: Mapping[str, str] = MappingProxyType(
    {"table1": "Methods, as in the paper's Table 1", "table2": "Variants of the evidence, as in the paper's Table 2"}
)
#: The method of an evaluation behind each name in the tables.
PRINTED_METHODS: Mapping[str, str] = MappingProxyType(
    {
        "Vanilla": "vanilla",
        "Self-cons.": "self_consistency",
        "Ans. entropy": "answer_entropy",
        "Mean conf.": "mean_confidence",
        "SteerConf": "steerconf",
        "Top-K": "topk",
        "DirEAG": "direag",
        "Count-only + Cal.": "count_calibrated",
        "+ Level Reliability": "level_calibrated",
        "+ Conf. evidence": "direag_raw",
        "Full DirEAG": "direag",
    }
)
#: Where a row of a table is from, if not from a run, whose preset stands there.
PRINTED = "printed"
#: The preset that the printed figures are of.
PRINTED_PRESET = "release"

_KEYS = ["model", "dataset", "method", "source"]


def printed_figures(table: str) -> pd.DataFrame:
    """Return the figures of a table, indexed by model, dataset and printed name of the method."""
    return _read_csv(f"{table}.csv").set_index(["model", "dataset", "method"])


def printed_model(name: str) -> str | None:
    """Return what the paper's tables call a model, None if they do not have it.

    It is known by the label in the tables, or by the model's full name, which may end a hub name or path; case and
    hyphens do not count. Another version or size is another model, and so is ``Qwen/Qwen2.5-7B``, the base model.

    Examples
    --------
    >>> printed_model("google/gemma-2-9b-it"), printed_model("Mistral-7B")
    ('Gemma-2-9B-it', 'Mistral-7B')
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
    return {_key(dataset): dataset for dataset in printed_sizes()}.get(_key(name))


def printed_sizes() -> dict[str, int]:
    """Return how many questions of each dataset the paper evaluates."""
    return dict(_read_csv("datasets.csv").itertuples(index=False))


@cache
def _read_csv(file: str) -> pd.DataFrame:
    return pd.read_csv(Path(__file__).parent / file)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.casefold())


def setting(run: Evaluation) -> tuple[str, str]:
    """Return model and dataset of a run, under the paper's names if it has them."""
    models, datasets = run.of.models, run.of.datasets
    model = printed_model(models[0]) if len(models) == 1 else None
    dataset = printed_dataset(datasets[0]) if len(datasets) == 1 else None
    return model or ", ".join(models) or "unnamed model", dataset or ", ".join(datasets) or "unnamed dataset"


def in_printed_order(runs: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the runs in the paper's order of models and datasets, others last; ``release`` is the first preset."""
    printed = list(dict.fromkeys(row[:2] for row in printed_figures("table1").index))
    rank = {where: number for number, where in enumerate(printed)}

    def order(run: Evaluation) -> tuple[int, tuple[str, str], bool]:
        where = setting(run)
        return rank.get(where, len(rank)), where, label(run.settings.preset) != PRINTED_PRESET

    return sorted(runs, key=order)


def paper_table(table: str, runs: Sequence[Evaluation]) -> pd.DataFrame:
    """Return ``table1`` or ``table2``: for each setting and method the printed row, and one of each run.

    Columns are ``model``, ``dataset``, ``method`` as printed, ``source`` (``printed``, or the preset of a run), the
    folder of the ``run``, the numbers ``n`` of answered questions and of ``unanswered`` ones, and the metrics. Those of
    runs have intervals, ``_low`` and ``_high``, and benefit. NaN where there is none.
    """
    figures, settings = printed_figures(table), list(dict.fromkeys(map(setting, runs)))
    methods = figures.index.unique("method")
    names = pd.DataFrame({"shown": methods, "method": methods.map(PRINTED_METHODS)})
    parts = [figures.reset_index().assign(source=PRINTED, n=lambda printed: printed["dataset"].map(printed_sizes()))]
    for run in runs:
        model, dataset = setting(run)
        metrics = names.merge(run.metrics, on="method").drop(columns="method").rename(columns={"shown": "method"})
        of_run = {"model": model, "dataset": dataset, "source": label(run.settings.preset), "run": str(run.folder)}
        parts.append(metrics.assign(**of_run))
    order = pd.MultiIndex.from_tuples([(*where, method) for where, method in product(settings, methods)])
    rows = pd.concat(parts, ignore_index=True)
    rows = rows.assign(order=order.get_indexer(pd.MultiIndex.from_frame(rows[_KEYS[:3]])))
    rows = rows[rows["order"] >= 0].sort_values("order", kind="stable", ignore_index=True)
    ends = [f"{name}{end}" for name in (*PRINTED_METRICS, *SELECTION_SCORES) for end in ("", "_low", "_high")]
    whole = rows.reindex(columns=[*_KEYS, "run", "n", "unanswered", *ends])
    return whole.astype(dict.fromkeys(("n", "unanswered"), "Int64"))


def best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return whether each figure is the best printed, or the best of the runs, of its setting.

    Figures that are equal as printed are equally good.
    """
    figures = rows[list(PRINTED_METRICS)].astype(float).map(lambda value: float(f"{value:.{DECIMALS}f}"))
    signed = figures * [1 if more else -1 for _, more in PRINTED_METRICS.values()]
    return signed == signed.groupby([rows["model"], rows["dataset"], rows["source"] == PRINTED]).transform("max")


def typeset(rows: pd.DataFrame, caption: str, *, as_html: bool) -> str:
    """Return a table in LaTeX, or as an HTML page: the best figures underlined, those of the paper's method bold."""
    more, less, underline = r" $\uparrow$", r" $\downarrow$", "underline:--rwrap--latex;"
    if as_html:
        more, less, underline = " ↑", " ↓", "text-decoration:underline;"
    headers = {name: short + (more if is_more else less) for name, (short, is_more) in PRINTED_METRICS.items()}
    figures = rows.set_index(_KEYS)[list(headers)].astype(float)
    is_own = (rows["method"].map(PRINTED_METHODS) == DIREAG).to_numpy()
    marks = np.where(best(rows), underline, "") + np.where(is_own, "font-weight:bold;", "")[:, None].astype(object)
    shown = figures.assign(n=rows["n"].to_numpy()).rename(columns=headers)[["n", *headers.values()]]
    style = shown.style.set_uuid("").set_caption(f"{caption}{more} more is better,{less} less.")
    style = style.apply(lambda _: marks, axis=None, subset=list(headers.values()))
    style = style.format(precision=DECIMALS, na_rep="--")
    if as_html:
        return styled(str(style.format_index(escape="html", axis="index").to_html(doctype_html=True)))
    style = style.format_index(escape="latex", axis="index")
    return str(style.to_latex(environment="longtable", hrules=True, multirow_align="naive", convert_css=True))
