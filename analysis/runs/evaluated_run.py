"""An evaluation read back from its folder: what was evaluated, how, and what came out."""

import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError

from analysis.runs.folder import MANIFEST
from analysis.scores.scoring import METRIC_NAMES
from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

_METRIC_TYPES = {"method": "str", "n": "int64", "unanswered": "int64"} | {
    f"{name}{end}": "float64" for name in METRIC_NAMES for end in ("", "_low", "_high")
}
_PREDICTION_TYPES = {
    "problem_id": "str",
    "fold": "str",
    "method": "str",
    "answer": "str",
    "confidence": "float64",
    "correct": "boolean",
    "null_probability": "float64",
    "state_probability": "float64",
    "cluster": "Int64",
}


@typing.runtime_checkable
class Evaluated(typing.Protocol):
    """What can be compared as an evaluation."""

    def as_run(self, name: str, /) -> "EvaluatedRun":
        """Return it as read from a folder of that name."""


class Protocol(NamedTuple):
    """Who was evaluated, by fits to whom: ``n_fitted`` other questions, or ``n_folds`` of the same ones."""

    n_evaluated: int | None
    n_fitted: int | None
    n_folds: int | None

    def __str__(self) -> str:
        how = f"fitted to {self.n_fitted} others" if self.n_folds is None else f"{self.n_folds}-fold cross-fit"
        return f"{self.n_evaluated} questions, {how}"


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """What ``direag evaluate`` left in a folder.

    Attributes
    ----------
    folder : Path
        Where it lies.
    datasets, models : tuple of str
        What the evaluated questions' own dataset and model are called; empty where none says.
    protocol : Protocol
        What was held out.
    fit_method, preset : str
        How the fitted methods were fitted, and with which settings: ``paper with eps=0.005``.
    interval_level, n_resamples, seed
        Of the intervals in ``metrics``.
    metrics, predictions : DataFrame
        As in :class:`~analysis.evaluation.Evaluation`.
    """

    folder: Path
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    protocol: Protocol
    fit_method: str
    preset: str
    interval_level: float
    n_resamples: int
    seed: int
    metrics: pd.DataFrame
    predictions: pd.DataFrame

    def as_run(self, _name: str) -> "EvaluatedRun":
        """Return itself; what :func:`~analysis.evaluation.evaluate` returns becomes one under a name."""
        return self


def read_evaluated_run(folder: str | Path) -> EvaluatedRun:
    """Read a folder that ``direag evaluate`` has written.

    Raises DirEAGError if it is no such folder, or one whose files lack something.
    """
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        seen = f"no {MANIFEST} there" if folder.is_dir() else "no such folder"
        raise DirEAGError(f"{folder}: saw {seen}; expected a folder written by direag evaluate. Make one first.")
    try:
        manifest: Mapping[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        settings, fitted = manifest["settings"], manifest["observations"]
        evaluated = manifest["test"] or fitted
        n_fitted = fitted["questions"] if manifest["test"] else None
        return EvaluatedRun(
            folder=folder,
            datasets=tuple(evaluated["datasets"]),
            models=tuple(evaluated["models"]),
            protocol=Protocol(evaluated["questions"], n_fitted, settings["n_folds"]),
            fit_method=settings["fit_method"],
            preset=label(Preset.model_validate(settings["preset"])),
            interval_level=settings["interval_level"],
            n_resamples=settings["n_resamples"],
            seed=settings["seed"],
            metrics=_table(folder / "metrics.csv", _METRIC_TYPES),
            predictions=_table(folder / "predictions.csv", _PREDICTION_TYPES),
        )
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise _unreadable(folder / MANIFEST, f"{type(error).__name__} {error}") from error


def _table(path: Path, types: Mapping[str, str]) -> pd.DataFrame:
    """Read the columns of these types; only numbers and truth values may be missing."""
    missing = {name: [""] for name in types}
    try:
        return pd.read_csv(path, usecols=list(types), dtype=types, keep_default_na=False, na_values=missing)
    except (FileNotFoundError, ValueError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, seen: str) -> DirEAGError:
    return DirEAGError(
        f"{path}: this cannot be read; saw {' '.join(seen.split())[:200]}; expected it as direag evaluate "
        "writes it. Evaluate again."
    )
