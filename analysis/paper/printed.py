"""What the paper prints: its two tables, and the names it has for models, datasets and methods."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pandas as pd

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
