"""Small evaluation folders made by hand: what each method says of each question is given or drawn at random."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evaluation import Evaluation
from analysis.evaluation_record import EvaluationRecord, EvaluationSettings
from analysis.scores.scoring import score
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import preset
from tests.analysis.fits import random_fit

#: Of each question the confidence (None: unanswered) and whether the answer is right (None: not known).
Said = Sequence[tuple[float | None, bool | None]]


def questions(n: int, dataset: str | None, model: str | None, prefix: str = "q") -> Observations:
    """Return n questions, all alike."""
    told = Observation(level=0, level_name="vanilla", answer="1", confidence=90)
    return Observations.from_questions(
        [
            Question(
                problem_id=f"{prefix}{number}", dataset=dataset, model=model, gold_answer="1", observations=(told,)
            )
            for number in range(n)
        ],
        "numeric",
    )


def predictions(said: Mapping[str, Said]) -> pd.DataFrame:
    """Return the table of an evaluation in which each method says this of questions q0, q1, ..."""
    parts = []
    for method, own in said.items():
        confidence = np.array([confidence for confidence, _ in own], float)
        correct = pd.Series([right for _, right in own], dtype="boolean")
        ids = [f"q{number}" for number in range(len(own))]
        parts.append(_rows(ids, "0", method, confidence, correct, np.nan))
    return pd.concat(parts, ignore_index=True)


def write_run(
    folder: Path,
    said: Mapping[str, Said],
    *,
    dataset: str | None = "svamp",
    model: str | None = "Qwen/Qwen2.5-7B-Instruct",
    n_fitted: int | None = None,
    level: float = 0.95,
) -> Path:
    """Write a run of 200 resamples and seed 3, cross-fitted in five folds or fitted to other questions."""
    evaluated = questions(max(map(len, said.values())), dataset, model)
    fitted = evaluated if n_fitted is None else questions(n_fitted, "other", model, prefix="f")
    n_folds, test = (5, None) if n_fitted is None else (None, evaluated)
    evaluation = made_evaluation(
        predictions(said), {}, n_folds=n_folds, seed=3, n_resamples=200, level=level, data=(fitted, test)
    )
    evaluation.write(folder)
    return folder


def random_run(
    folder: Path,
    observations: Observations,
    *,
    methods: Sequence[str],
    test: Observations | None = None,
    n_folds: int = 2,
) -> Path:
    """Write an evaluation whose predictions and fits are random; its folds deal the questions in turn."""
    rng = np.random.default_rng(0)
    evaluated = observations if test is None else test
    answered = np.flatnonzero(evaluated.answered)
    number = np.arange(len(evaluated)) % n_folds
    fold = pd.Series(number.astype(str) if test is None else "test", range(len(evaluated))).where(evaluated.answered)
    parts = []
    for method in methods:
        confidence = np.where(evaluated.answered, rng.random(len(evaluated)), np.nan)
        right = pd.Series(evaluated.gold_generated & (rng.random(len(evaluated)) < 0.8), dtype="boolean")
        fitted = method in ("confidence", "direag", "count", "count_calibrated")
        null = rng.random(len(evaluated)) if fitted else np.nan
        state = np.where(evaluated.gold_generated, rng.random(len(evaluated)), null)
        right = right.where(evaluated.labelled)
        parts.append(_rows(evaluated.problem_id, fold, method, confidence, right, null, state))
    seen: dict[str, Observations] = {}
    if "direag" in methods and test is None:
        seen = {str(k): observations.select(answered[answered % n_folds != k]) for k in range(n_folds)}
    elif "direag" in methods:
        seen = {"test": observations}
    fits = {("confidence", name): random_fit(own) for name, own in seen.items()}
    table = pd.concat(parts, ignore_index=True)
    evaluation = made_evaluation(
        table, fits, n_folds=n_folds if test is None else None, seed=0, n_resamples=5, data=(observations, test)
    )
    evaluation.write(folder)
    return folder


def random_said(rng: np.random.Generator, n: int, *, sharpness: float) -> Said:
    """Return calibrated confidences, nearer 0 and 1 with more sharpness."""
    confidence = rng.beta(1 / sharpness, 1 / sharpness, n)
    return [(float(one), bool(rng.random() < one)) for one in confidence]


def _rows(
    ids: Sequence[str],
    fold: str | pd.Series,
    method: str,
    confidence: np.ndarray,
    correct: pd.Series,
    null_probability: float | np.ndarray,
    state_probability: float | np.ndarray = np.nan,
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "problem_id": ids,
            "fold": fold,
            "method": method,
            "answer": np.where(np.isnan(confidence), None, "1"),
            "answer_as_given": np.where(np.isnan(confidence), None, "1.0"),
            "probability": confidence,
            "correct": correct,
            "null_probability": null_probability,
            "state_probability": state_probability,
            "cluster": pd.array([None] * len(ids), "Int64"),
        }
    )


def made_evaluation(
    table: pd.DataFrame,
    fits: dict[tuple[str, str], Fit],
    *,
    n_folds: int | None,
    seed: int,
    n_resamples: int,
    data: tuple[Observations, Observations | None],
    level: float = 0.95,
    told: Observations | None = None,
) -> Evaluation:
    settings = EvaluationSettings(
        fit_method="map",
        preset=preset("paper"),
        sampling=None,
        methods=tuple(table["method"].unique()),
        vanilla_level="vanilla",
        n_folds=n_folds,
        seed=seed,
        n_resamples=n_resamples,
        interval_level=level,
    )
    metrics = score(table, seed=seed, n_resamples=n_resamples, interval_level=level)
    columns = ["fold", "variant", "parameter", "level", "mode", "relative", "raw"]
    record = EvaluationRecord.of(settings, observations=data[0], test=data[1])
    return Evaluation(table, metrics, pd.DataFrame(columns=columns), record, fits, told)
