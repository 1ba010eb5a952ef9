"""What the paper printed in its Tables 1 and 2, and what its names mean here."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from analysis.runs.evaluated_run import Protocol

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

    Attributes
    ----------
    number : int
        Its number in the paper.
    subject : str
        What its rows are.
    rows : mapping
        The method of :data:`analysis.evaluation.METHODS` that each printed name stands for, in the printed order.
    file, column : str
        Where its figures are kept, and the column of the printed names.
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
