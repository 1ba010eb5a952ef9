"""An evaluation read back from its folder: what was evaluated, how, and the results."""

import json
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import ValidationError

from analysis.display.folders import ResultFolder
from analysis.learned import LabelledReports
from analysis.methods.direag import after_calibration, before_calibration, methods_of
from analysis.scores.paired import paired_table
from analysis.scores.scoring import METRIC_NAMES, cluster_column, scored_rows
from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

MANIFEST = "evaluation.json"
FITS = "fits"
REPORT = "report.html"
TABLES = ("predictions", "metrics", "parameters")

FOLDER = ResultFolder("evaluation", MANIFEST, TABLES, others=(REPORT, f"{FITS}/*.nc"))

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
    """How many questions were evaluated, by fits to ``n_fitted`` other questions or in ``n_folds`` folds."""

    n_evaluated: int | None
    n_fitted: int | None
    n_folds: int | None

    def __str__(self) -> str:
        how = f"fitted to {self.n_fitted} others" if self.n_folds is None else f"{self.n_folds}-fold cross-fit"
        return f"{self.n_evaluated} questions, {how}"


@dataclass(frozen=True, eq=False)
class EvaluatedRun:
    """What ``direag evaluate`` left in a folder.

    ``folder``: where it lies. ``datasets``, ``models``: what the evaluated questions' own dataset and model are called;
    empty where none says. ``protocol``: what was held out. ``fit_method``, ``preset``: how the fitted methods were
    fitted, and with which settings: ``paper with eps=0.005``. ``interval_level``, ``n_resamples``, ``seed``: of the
    intervals in ``metrics``. ``metrics``, ``predictions``: as in :class:`~analysis.evaluation.Evaluation`.
    ``manifest``: ``evaluation.json``.
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
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, folder: Path, manifest: Mapping[str, Any], metrics: pd.DataFrame, predictions: pd.DataFrame
    ) -> "EvaluatedRun":
        """Take from the manifest what it says; raise what a mapping or pydantic raises where that is not all of it."""
        settings, fitted = manifest["settings"], manifest["observations"]
        evaluated = manifest["test"] or fitted
        n_fitted = fitted["questions"] if manifest["test"] else None
        return cls(
            folder=folder,
            datasets=tuple(evaluated["datasets"]),
            models=tuple(evaluated["models"]),
            protocol=Protocol(evaluated["questions"], n_fitted, settings["n_folds"]),
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
        manifest: dict[str, Any] = dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
        metrics = _table(folder / "metrics.csv", _METRIC_TYPES)
        return EvaluatedRun.of(folder, manifest, metrics, _table(folder / "predictions.csv", _PREDICTION_TYPES))
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


def paired_methods(
    run: EvaluatedRun,
    first: str,
    second: str,
    metrics: Sequence[str],
    *,
    seed: int,
    n_resamples: int,
    level: float,
) -> pd.DataFrame:
    """Compare two methods of an evaluation on the labelled questions.

    Returns: :func:`~analysis.scores.paired.paired_table`, and the number of these questions as column ``n``.
    """
    labelled = run.predictions.dropna(subset="correct").set_index("problem_id")
    one, other = (labelled[labelled["method"] == method] for method in (first, second))
    both = one.index.intersection(other.index)
    pair = (scored_rows(rows.loc[both]) for rows in (one, other))
    table = paired_table(*pair, metrics=metrics, seed=seed, n_resamples=n_resamples, level=level)
    return table.assign(n=len(both))


class HeldOutQuestions(NamedTuple):
    """Predictions of questions by fits that have not seen them, and what is known of the questions.

    ``predictions``: as in :class:`~analysis.evaluation.Evaluation`. ``reports``: the evaluated questions' own reports;
    None if not available. ``name``: what was evaluated. ``held_out``: who predicted it: a clause such as
    "5-fold cross-fit". ``observations``: the questions, if their file was given.
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
            f"saw method {method!r}, not evaluated here; expected one of {', '.join(methods)}. Choose one of these."
        )


def held_out_questions(
    run: EvaluatedRun, observations: str | Path | None = None, columns: Columns | None = None
) -> HeldOutQuestions:
    """Return an evaluation's predictions, and the reports on its questions.

    Raises DirEAGError if the observations are not those that were evaluated.

    ``observations``: the file that was evaluated. Left out: the reports come from the fits of a cross-fit, which
    together have learned from every labelled, answered question; there are none where the fits saw other questions.
    ``columns``: the names of what that file holds, where it is a table of another's.
    """
    given = None if observations is None else _evaluated(run, observations, columns)
    reports = None if given is None else LabelledReports.of_observations(given)
    if given is None and run.protocol.n_folds is not None and (paths := sorted((run.folder / FITS).glob("*-*.nc"))):
        variant = paths[0].stem.rpartition("-")[0]
        reports = LabelledReports.of_fits([Fit.load(path) for path in paths if path.stem.startswith(f"{variant}-")])
    return HeldOutQuestions(
        run.predictions,
        reports,
        ", ".join((*run.datasets, *run.models)) or run.folder.name,
        f"{run.protocol} ({run.fit_method.upper()}): no question is predicted by a fit that has seen it",
        given,
    )


def unseen_questions(fit: Fit, observations: Observations, name: str) -> HeldOutQuestions:
    """Predict the labelled questions that a fit has not learned from, before and after its recalibration.

    Nor from others of their cluster.

    Raises DirEAGError if there are none; or as :meth:`~bayes_direag.fits.fit.Fit.predict`.
    """
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
    predicted = fit.predict(kept)
    right = pd.array(kept.is_right(predicted["answer"]), dtype="boolean")
    aligned = fit.aligned(kept)
    stages = {"support": before_calibration(fit, aligned), "confidence": after_calibration(fit, aligned)}
    shared = predicted[["problem_id", "answer"]].assign(correct=right, cluster=cluster_column(kept))
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


def _evaluated(run: EvaluatedRun, path: str | Path, columns: Columns | None) -> Observations:
    """Read observations, and make sure that they are those that were evaluated."""
    evaluated = run.manifest["test"] or run.manifest["observations"]
    given = Observations.read(path, evaluated["answers"], columns)
    if given.fingerprint != evaluated["sha256"]:
        raise DirEAGError(
            f"{path}: saw other observations (SHA-256 {given.fingerprint[:16]}) than those that {run.folder} "
            f"evaluated; expected {evaluated['sha256'][:16]}. Give those."
        )
    return given
