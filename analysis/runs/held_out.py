"""What each method said of questions that nothing was fitted to: of an evaluation, or of those new to a fit."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.learned.labelled_reports import LabelledReports
from analysis.methods.direag import FITTED_METHODS, Fitted, after_calibration, before_calibration
from analysis.runs.evaluated_run import read_evaluated_run
from analysis.runs.folder import FITS, MANIFEST
from analysis.scores.scoring import cluster_column
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Columns
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit


class HeldOutQuestions(NamedTuple):
    """Predictions of questions by fits that have not seen them, and what is known of the questions.

    Attributes
    ----------
    predictions : DataFrame
        As in :class:`~analysis.evaluation.Evaluation`.
    reports : LabelledReports or None
        The evaluated questions' own reports; None where they are not at hand.
    name : str
        What was evaluated.
    held_out : str
        Who predicted it: a clause such as "5-fold cross-fit".
    """

    predictions: pd.DataFrame
    reports: LabelledReports | None
    name: str
    held_out: str


def require_method(method: str, methods: list[str]) -> None:
    """Raise DirEAGError unless the method is among those that were evaluated."""
    if method not in methods:
        raise DirEAGError(
            f"saw method {method!r}, not evaluated here; expected one of {', '.join(methods)}. Choose one of these."
        )


def read_held_out(
    folder: str | Path, observations: str | Path | None = None, columns: Columns | None = None
) -> HeldOutQuestions:
    """Read an evaluation's predictions, and the reports on its questions.

    Raises DirEAGError if the folder cannot be read, or the observations are not those that were evaluated.

    Parameters
    ----------
    folder
        Written by ``direag evaluate``.
    observations
        The file that was evaluated. Left out: the reports come from the fits of a cross-fit, which together have
        learned from every labelled, answered question; there are none where the fits saw other questions.
    columns
        The names of what that file holds, where it is a table of another's.
    """
    folder = Path(folder)
    run = read_evaluated_run(folder)
    reports = None
    if observations is not None:
        reports = LabelledReports.of_observations(_evaluated(folder, observations, columns))
    elif run.protocol.n_folds is not None and (paths := sorted((folder / FITS).glob("*-*.nc"))):
        variant = paths[0].stem.rpartition("-")[0]
        reports = LabelledReports.of_fits([Fit.load(path) for path in paths if path.stem.startswith(f"{variant}-")])
    return HeldOutQuestions(
        run.predictions,
        reports,
        ", ".join((*run.datasets, *run.models)) or folder.name,
        f"{run.protocol} ({run.fit_method.upper()}): no question is predicted by a fit that has seen it",
    )


def unseen_questions(fit: Fit, observations: Observations, name: str) -> HeldOutQuestions:
    """Predict the labelled questions that a fit has not learned from, before and after its recalibration.

    Nor from others of their cluster.

    Raises DirEAGError if there are none; or as :meth:`~bayes_direag.fits.fit.Fit.predict`.
    """
    seen = fit.has_seen(observations)
    if seen is None:
        raise DirEAGError(
            f"{name}: the fit counted its {fit.n_questions:,} questions by pattern and does not say which they were; "
            "expected one that does. Fit with --keep-questions, or evaluate on a test set (direag evaluate --test)."
        )
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
    aligned = kept.align(fit.level_names)
    fitted = Fitted(fit)
    stages = {"support": before_calibration(fitted, aligned), "confidence": after_calibration(fitted, aligned)}
    shared = predicted[["problem_id", "answer"]].assign(correct=right, cluster=cluster_column(kept))
    parts = [
        shared.assign(
            method=method,
            confidence=predicted[column],
            null_probability=stages[column].null_probability,
            state_probability=stages[column].state_probability(aligned),
        )
        for method, (variant, column) in FITTED_METHODS.items()
        if variant == fit.variant
    ]
    held_out = f"{len(kept)} labelled questions that the fit has not seen"
    return HeldOutQuestions(
        pd.concat(parts, ignore_index=True),
        LabelledReports.of_observations(aligned),
        name,
        held_out + (f" ({n_seen} that it has seen are left out)" if n_seen else ""),
    )


def _evaluated(folder: Path, path: str | Path, columns: Columns | None) -> Observations:
    """Read observations, and make sure that they are those that were evaluated."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    evaluated = manifest["test"] or manifest["observations"]
    given = Observations.read(path, evaluated["answers"], columns)
    if given.fingerprint != evaluated["sha256"]:
        raise DirEAGError(
            f"{path}: saw other observations (SHA-256 {given.fingerprint[:16]}) than those that {folder} evaluated; "
            f"expected {evaluated['sha256'][:16]}. Give those."
        )
    return given
