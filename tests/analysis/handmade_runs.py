"""Evaluations of handmade fits: the folder that ``direag evaluate`` writes, without the fitting."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evaluation import Evaluation, EvaluationSettings
from analysis.evaluation_folder import write_evaluation
from analysis.scores.scoring import score
from bayes_direag.data.observations import Observations
from bayes_direag.model.presets import preset
from tests.analysis.handmade_fits import handmade_fit


def handmade_run(
    folder: Path,
    observations: Observations,
    *,
    methods: Sequence[str],
    test: Observations | None = None,
    n_folds: int = 2,
) -> Path:
    """Write an evaluation whose predictions are random; its folds deal the questions in turn."""
    rng = np.random.default_rng(0)
    evaluated = observations if test is None else test
    answered = np.flatnonzero(evaluated.answered)
    fold = np.arange(len(evaluated)) % n_folds if test is None else np.full(len(evaluated), "test")
    parts = []
    for method in methods:
        confidence = np.where(evaluated.answered, rng.random(len(evaluated)), np.nan)
        fitted = method in ("confidence", "direag", "count", "count_calibrated")
        parts.append(
            pd.DataFrame(
                {
                    "problem_id": evaluated.problem_id,
                    "fold": pd.Series(fold.astype(str)).where(evaluated.answered),
                    "method": method,
                    "answer": "1",
                    "confidence": confidence,
                    "correct": pd.array(evaluated.gold_generated & (rng.random(len(evaluated)) < 0.8), "boolean"),
                    "null_probability": rng.random(len(evaluated)) if fitted else np.nan,
                }
            )
        )
        parts[-1].loc[~evaluated.labelled, "correct"] = pd.NA
    predictions = pd.concat(parts, ignore_index=True)
    settings = EvaluationSettings(
        fit_method="map",
        preset=preset("paper"),
        sampling=None,
        methods=tuple(methods),
        vanilla_level="vanilla",
        n_folds=n_folds if test is None else None,
        seed=0,
        n_resamples=5,
        interval_level=0.95,
    )
    fits = {}
    if "direag" in methods and test is None:
        for number in range(n_folds):
            seen = answered[answered % n_folds != number]
            fits["confidence", str(number)] = handmade_fit(observations.select(seen))
    elif "direag" in methods:
        fits["confidence", "test"] = handmade_fit(observations)
    columns = ["fold", "variant", "parameter", "level", "mean", "sd", "relative", "raw"]
    found = Evaluation(
        predictions, score(predictions, seed=0, n_resamples=5), pd.DataFrame(columns=columns), fits, settings
    )
    write_evaluation(found, folder, observations, test)
    return folder
