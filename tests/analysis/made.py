"""Observations and evaluations made by hand: what every level says of a question, or every method of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evaluation import Evaluation
from analysis.evaluation_record import EvaluationRecord, EvaluationSettings
from analysis.scores.scoring import scores_of
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.model.presets import preset
from bayes_direag.model.simulate import simulate_observations

type Report = tuple[str | None, float | None] | None
#: Of each question the confidence (None: unanswered) and whether the answer is right (None: not known).
type Said = Sequence[tuple[float | None, bool | None]]

#: Would run, load or close something, were it taken for markup.
ATTACK = "\"'><script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)></table></section>`${x}{{7*7}}"


def observe(*table: list[Report], gold: str | None = None, names: Sequence[str] = ()) -> Observations:
    """Build observations from the (answer, percentage) of every level of every question; None where it is missing.

    The right answer is the same to all. ``names``: of the levels.
    """
    names = names or [f"level {level}" for level in range(len(table[0]))]
    questions = [
        Question(
            problem_id=str(number),
            gold_answer=gold,
            observations=tuple(
                Observation(level=level, level_name=names[level], answer=report[0], confidence=report[1])
                for level, report in enumerate(row)
                if report is not None
            ),
        )
        for number, row in enumerate([*table, [("7", 50)] * len(names)])  # the last one has all levels
    ]
    return Observations.from_questions(questions, "numeric").select(slice(len(table)))


def attacking_observations() -> Observations:
    """Return questions with an attack in every text that a file can hold."""
    rng = np.random.default_rng(0)
    questions = []
    for number, one in enumerate(simulate_observations(20, seed=6).questions):
        told = tuple(
            report.model_copy(
                update={"answer": f"{ATTACK} {rng.integers(3)}", "level_name": f"{report.level} {ATTACK}"}
            )
            for report in one.observations
        )
        record = {"problem_id": f"{number} {ATTACK}", "gold_answer": f"{ATTACK} 1", "observations": told}
        questions.append(one.model_copy(update=dict.fromkeys(("dataset", "model", "question"), ATTACK) | record))
    return Observations.from_questions(questions, "text")


def random_said(rng: np.random.Generator, n: int, *, sharpness: float) -> Said:
    """Return calibrated confidences, nearer 0 and 1 with more sharpness."""
    confidence = rng.beta(1 / sharpness, 1 / sharpness, n)
    return [(float(one), bool(rng.random() < one)) for one in confidence]


def predictions(said: Mapping[str, Said]) -> pd.DataFrame:
    """Return the table of an evaluation in which each method says this of questions q0, q1, ..."""
    parts = []
    for method, answers in said.items():
        confidence = np.array([confidence for confidence, _ in answers], float)
        answered = ~np.isnan(confidence)
        columns = {
            "problem_id": [f"q{number}" for number in range(len(answers))],
            "fold": "0",
            "method": method,
            "answer": np.where(answered, "1", None),
            "answer_as_given": np.where(answered, "1.0", None),
            "probability": confidence,
            "correct": pd.array([right for _, right in answers], dtype="boolean"),
            "null_probability": np.nan,
            "state_probability": np.nan,
            "cluster": pd.array([None] * len(answers), "Int64"),
            "at_random": pd.array([None] * len(answers), "boolean"),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def score(table: pd.DataFrame, *, seed: int, n_resamples: int, interval_level: float = 0.95) -> pd.DataFrame:
    """Return the metrics of an evaluation with these predictions."""
    parts = [rows for _, rows in table.groupby("method", sort=False)]
    return scores_of(parts, seed=seed, n_resamples=n_resamples, interval_level=interval_level)


def made_evaluation(
    said: Mapping[str, Said] | pd.DataFrame,
    *,
    dataset: str | None = "svamp",
    model: str | None = "Qwen/Qwen2.5-7B-Instruct",
    presets: str = "paper",
    n_fitted: int | None = None,
    level: float = 0.95,
    n_resamples: int = 200,
) -> Evaluation:
    """Return an evaluation of seed 3 without fits, cross-fitted in five folds or fitted to other questions."""
    table = said if isinstance(said, pd.DataFrame) else predictions(said)
    settings = EvaluationSettings(
        fit_method="map",
        preset=preset(presets),
        sampling=None,
        methods=tuple(table["method"].unique()),
        vanilla_level="vanilla",
        n_folds=5 if n_fitted is None else None,
        seed=3,
        n_resamples=n_resamples,
        interval_level=level,
    )
    names = table["problem_id"].unique()
    evaluated = _alike(names, dataset, model)
    data = {"observations": evaluated}
    if n_fitted is not None:
        data = {"observations": _alike([f"f{k}" for k in range(n_fitted)], "other", model), "test": evaluated}
    metrics = score(table, seed=3, n_resamples=n_resamples, interval_level=level)
    parameters = pd.DataFrame(columns=["fold", "variant", "parameter", "level", "identified", "mode"])
    return Evaluation(table, metrics, parameters, EvaluationRecord.of(settings, **data), {})


def write_run(folder: Path, said: Mapping[str, Said], **options: object) -> Path:
    """Write such an evaluation into a folder."""
    made_evaluation(said, **options).write(folder)
    return folder


def _alike(names: Sequence[str], dataset: str | None, model: str | None) -> Observations:
    told = Observation(level=0, level_name="vanilla", answer="1", confidence=90)
    about = {"dataset": dataset, "model": model, "gold_answer": "1", "observations": (told,)}
    return Observations.from_questions([Question(problem_id=name, **about) for name in names], "numeric")
