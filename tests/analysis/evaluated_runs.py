"""Small evaluation folders made by hand: what each method says of each question is given, nothing is fitted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evaluation import Evaluation, EvaluationSettings
from analysis.evaluation_folder import write_evaluation
from analysis.scores.scoring import score
from bayes_direag.data.observations import Observation, Observations, Question
from bayes_direag.model.presets import preset

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
    parts = [
        pd.DataFrame(
            {
                "problem_id": [f"q{number}" for number in range(len(own))],
                "fold": "0",
                "method": method,
                "answer": [None if confidence is None else "1" for confidence, _ in own],
                "confidence": np.array([confidence for confidence, _ in own], float),
                "correct": pd.Series([right for _, right in own], dtype="boolean"),
                "null_probability": np.nan,
            }
        )
        for method, own in said.items()
    ]
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
    table = predictions(said)
    settings = EvaluationSettings(
        fit_method="map",
        preset=preset("paper"),
        sampling=None,
        methods=tuple(said),
        vanilla_level="vanilla",
        n_folds=5 if n_fitted is None else None,
        seed=3,
        n_resamples=200,
        interval_level=level,
    )
    metrics = score(table, seed=3, n_resamples=200, interval_level=level)
    evaluated = questions(max(map(len, said.values())), dataset, model)
    fitted = evaluated if n_fitted is None else questions(n_fitted, "other", model, prefix="f")
    evaluation = Evaluation(table, metrics, pd.DataFrame(), {}, settings)
    write_evaluation(evaluation, folder, fitted, None if n_fitted is None else evaluated)
    return folder


def random_said(rng: np.random.Generator, n: int, *, sharpness: float) -> Said:
    """Return calibrated confidences, nearer 0 and 1 with more sharpness."""
    confidence = rng.beta(1 / sharpness, 1 / sharpness, n)
    return [(float(one), bool(rng.random() < one)) for one in confidence]
