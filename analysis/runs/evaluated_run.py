"""An evaluation read back from its folder: what was evaluated, how, and the results."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from pydantic import ValidationError

from analysis.display.folders import ResultFolder, unreadable
from analysis.learned import LabelledReports
from analysis.methods.direag import after_calibration, before_calibration, methods_of
from analysis.scores.paired import PairedDifference, paired_table
from analysis.scores.scoring import METRIC_NAMES, cluster_column, scored_rows
from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

MANIFEST = "evaluation.json"
FITS = "fits"
REPORT = "report.html"
TABLES = ("predictions", "metrics", "parameters")

EVALUATION_FOLDER = ResultFolder("evaluation", MANIFEST, TABLES, others=(REPORT, f"{FITS}/*.nc"))

_METRIC_TYPES = {"method": "str", "n": "int64", "unanswered": "int64"} | {
    f"{name}{end}": "float64" for name in METRIC_NAMES for end in ("", "_low", "_high")
}
_PREDICTION_TYPES = {
    "problem_id": "str",
    "fold": "str",
    "method": "str",
    "answer": "str",
    "answer_as_given": "str",
    "confidence": "float64",
    "correct": "boolean",
    "null_probability": "float64",
    "state_probability": "float64",
    "cluster": "Int64",
}


@runtime_checkable
class Evaluated(Protocol):
    """What can be compared as an evaluation."""

    def as_run(self, name: str, /) -> "EvaluatedRun":
        """Return it as read from a folder of that name."""


class Design(NamedTuple):
    """How questions were held out: fits to ``n_fitted`` others, or ``n_folds`` folds of a cross-fit."""

    n_evaluated: int | None
    n_fitted: int | None
    n_folds: int | None

    def __str__(self) -> str:
        how = f"fitted to {self.n_fitted} others" if self.n_folds is None else f"{self.n_folds}-fold cross-fit"
        return f"{self.n_evaluated} questions, {how}"


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """What ``direag evaluate`` left in a folder: what was evaluated, how, the metrics and the predictions.

    ``datasets``, ``models``: as the questions name them. ``preset``: a label, such as ``paper with eps=0.005``.
    """

    folder: Path
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    design: Design
    fit_method: str
    preset: str
    interval_level: float
    n_resamples: int
    seed: int
    metrics: pd.DataFrame
    predictions: pd.DataFrame
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, folder: Path, manifest: Mapping[str, Any], metrics: pd.DataFrame, predictions: pd.DataFrame
    ) -> "EvaluatedRun":
        """Make a run of its files' content; raise KeyError or ValidationError if the manifest lacks something."""
        settings, fitted = manifest["settings"], manifest["observations"]
        evaluated = manifest["test"] or fitted
        n_fitted = fitted["questions"] if manifest["test"] else None
        return cls(
            folder=folder,
            datasets=tuple(evaluated["datasets"]),
            models=tuple(evaluated["models"]),
            design=Design(evaluated["questions"], n_fitted, settings["n_folds"]),
            fit_method=settings["fit_method"],
            preset=label(Preset.model_validate(settings["preset"])),
            interval_level=settings["interval_level"],
            n_resamples=settings["n_resamples"],
            seed=settings["seed"],
            metrics=metrics,
            predictions=predictions,
            manifest=manifest,
        )

    def as_run(self, _name: str) -> "EvaluatedRun":
        """Return itself; an :class:`~analysis.evaluation.Evaluation` becomes a run under a name."""
        return self


def read_evaluated_run(folder: str | Path) -> EvaluatedRun:
    """Read a folder that ``direag evaluate`` has written."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        seen = f"no {MANIFEST} there" if folder.is_dir() else "no such folder"
        raise DirEAGError(f"{folder}: saw {seen}; expected a folder written by direag evaluate. Make one first.")
    try:
        manifest: dict[str, Any] = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        metrics = _read_table(folder / "metrics.csv", _METRIC_TYPES)
        return EvaluatedRun.of(folder, manifest, metrics, _read_table(folder / "predictions.csv", _PREDICTION_TYPES))
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise _unreadable_run(folder / MANIFEST, f"{type(error).__name__} {error}") from error


def _read_table(path: Path, types: Mapping[str, str]) -> pd.DataFrame:
    """Read the columns of these types; only numbers and truth values may be missing."""
    missing = {name: [""] for name in types}
    try:
        return pd.read_csv(path, usecols=list(types), dtype=types, keep_default_na=False, na_values=missing)
    except (FileNotFoundError, ValueError) as error:
        raise _unreadable_run(path, str(error)) from error


def _unreadable_run(path: Path, seen: str) -> DirEAGError:
    return unreadable(path, seen, "direag evaluate", "Evaluate again.")


def method_differences(
    run: EvaluatedRun,
    method: str,
    others: Iterable[str],
    metrics: Sequence[str],
    *,
    seed: int,
    n_resamples: int,
    level: float,
    on_step: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Compare a method with others, question by question: see :func:`~analysis.scores.paired.paired_table`."""
    labelled = run.predictions.dropna(subset="correct").set_index("problem_id")
    by_method = {str(name): rows for name, rows in labelled.groupby("method")}
    tables = [pd.DataFrame(columns=["method", "n", "metric", *PairedDifference._fields])]
    for name in others:
        if name == method or not {name, method} <= by_method.keys():
            continue
        on_step(f"{run.folder}: {method} against {name}")
        both = by_method[name].index.intersection(by_method[method].index)
        pair = (scored_rows(by_method[side].loc[both]) for side in (name, method))
        table = paired_table(*pair, metrics=metrics, seed=seed, n_resamples=n_resamples, level=level)
        table.insert(0, "method", name)
        table.insert(1, "n", len(both))
        tables.append(table)
    return pd.concat(tables[1:] or tables, ignore_index=True)


class HeldOutQuestions(NamedTuple):
    """Predictions of questions by fits that have not seen them, and what is known of the questions.

    ``held_out``: what predicted them, as a clause. ``reports`` and ``observations`` are None if not available.
    """

    predictions: pd.DataFrame
    reports: LabelledReports | None
    name: str
    held_out: str
    observations: Observations | None = None


def require_method(method: str, methods: list[str]) -> None:
    """Raise DirEAGError unless the method is among those that were evaluated."""
    if method not in methods:
        raise DirEAGError(
            f"saw method {method!r}, not evaluated here; expected one of {', '.join(methods)}."
            f"{did_you_mean(method, methods)} Choose one of these."
        )


def held_out_questions(
    run: EvaluatedRun, observations: str | Path | None = None, columns: Columns | None = None
) -> HeldOutQuestions:
    """Return an evaluation's predictions, and the reports on its questions.

    Without the file of observations the reports come from the fits of a cross-fit, if there are any.
    """
    given = None if observations is None else _evaluated_observations(run, observations, columns)
    reports = None if given is None else LabelledReports.of_observations(given)
    if given is None and run.design.n_folds is not None and (paths := sorted((run.folder / FITS).glob("*-*.nc"))):
        variant = paths[0].stem.rpartition("-")[0]
        reports = LabelledReports.of_fits([Fit.load(path) for path in paths if path.stem.startswith(f"{variant}-")])
    return HeldOutQuestions(
        run.predictions,
        reports,
        ", ".join((*run.datasets, *run.models)) or run.folder.name,
        f"{run.design} ({run.fit_method.upper()}): no question is predicted by a fit that has seen it",
        given,
    )


def unseen_questions(fit: Fit, observations: Observations, name: str) -> HeldOutQuestions:
    """Predict the labelled questions that a fit has not learned from, nor from others of their cluster."""
    seen = fit.has_seen(observations)
    learned = set(fit.fitted.cluster or ()) - {None}
    seen |= np.array([name in learned for name in observations.cluster or [None] * len(observations)], bool)
    unseen, n_seen = np.flatnonzero(observations.labelled & ~seen), int(seen.sum())
    if not len(unseen):
        raise DirEAGError(
            f"{name}: saw {len(observations)} questions, {int(observations.labelled.sum())} of them labelled, "
            f"{n_seen} of them learned from; expected labelled ones that the fit has not seen. Give others."
        )
    kept = observations.select(unseen)
    predicted = fit.predict(kept, warn=False)
    right = pd.array(kept.is_right(predicted["answer"]), dtype="boolean")
    aligned = fit.aligned(kept)
    stages = {"support": before_calibration(fit, aligned), "confidence": after_calibration(fit, aligned)}
    shared = predicted[["problem_id", "answer", "answer_as_given"]].assign(correct=right, cluster=cluster_column(kept))
    parts = [
        shared.assign(
            method=method,
            confidence=predicted[column],
            null_probability=stages[column].null_probability,
            state_probability=stages[column].state_probability(aligned),
        )
        for method, column in methods_of(fit.variant).items()
    ]
    held_out = f"{len(kept)} labelled questions that the fit has not seen"
    return HeldOutQuestions(
        pd.concat(parts, ignore_index=True),
        LabelledReports.of_observations(aligned),
        name,
        held_out + (f" ({n_seen} that it has seen are left out)" if n_seen else ""),
    )


def _evaluated_observations(run: EvaluatedRun, path: str | Path, columns: Columns | None) -> Observations:
    """Read observations, and make sure that they are those that were evaluated."""
    evaluated = run.manifest["test"] or run.manifest["observations"]
    given = Observations.read(path, evaluated["answers"], columns)
    if given.fingerprint != evaluated["sha256"]:
        raise DirEAGError(
            f"{path}: saw other observations (SHA-256 {given.fingerprint[:16]}) than those that {run.folder} "
            f"evaluated; expected {evaluated['sha256'][:16]}. Give those."
        )
    return given
