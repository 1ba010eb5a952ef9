"""The base rate and the null state against closed forms, hand-made cases and a plain loop."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from analysis.scores.null_state import NULL_GROUPS, base_rate_gains, null_state
from analysis.scores.scoring import percentile_interval, resample_weights


def predictions(method: str, confidence: np.ndarray, correct: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"method": method, "probability": confidence, "correct": pd.array(correct, "boolean")})


@pytest.fixture(scope="module")
def noisy() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    confidence = rng.integers(0, 21, 120) / 20
    return predictions("noisy", confidence, rng.random(120) < confidence)


class TestBaseRate:
    def test_a_constant_gains_nothing_and_certainty_that_is_right_everything(self, noisy):
        correct = np.arange(10) < 7
        constant, certain = (
            base_rate_gains(predictions("m", confidence, correct), seed=0, n_resamples=20).iloc[0]
            for confidence in (np.full(10, 0.7), correct.astype(float))
        )
        assert (constant["brier_gain"], constant["auroc_gain"]) == pytest.approx((0, 0))
        # In a resample the base rate is its own, so the constant can only lose.
        assert constant["brier_gain_high"] <= 1e-12
        assert (certain["brier_gain"], certain["auroc_gain"]) == pytest.approx((0.21, 0.5), abs=1e-6)
        assert certain["base_rate_brier"] == pytest.approx(0.21)
        said, right = noisy["probability"].clip(1e-6, 1 - 1e-6), noisy["correct"].astype(float)
        gain = base_rate_gains(noisy, seed=0, n_resamples=1).loc[0, "brier_gain"]
        assert gain == pytest.approx(right.mean() * (1 - right.mean()) - ((said - right) ** 2).mean())

    def test_one_class_has_no_auroc_and_unanswered_questions_are_counted(self):
        rows = predictions("m", np.array([0.4, np.nan, 0.9]), np.array([True, False, True]))
        row = base_rate_gains(rows, seed=0, n_resamples=5).iloc[0]
        assert np.isnan(row[["auroc", "auroc_gain_low"]].astype(float)).all()
        assert row["auroc_undefined"] == 5
        assert row["brier_gain"] == pytest.approx(-(0.6**2 + 0.1**2) / 2)
        assert (row["n"], row["unanswered"]) == (2, 1)


def null_rows(null: list[float], correct: list[bool | None], present: Sequence[bool | None]) -> pd.DataFrame:
    """Return rows whose distribution gives the state that occurred the null probability where no candidate is right."""
    state = {True: lambda p: p / 2 + 0.01, False: lambda p: p, None: lambda _: np.nan}
    return pd.DataFrame(
        {
            "problem_id": [f"q{number}" for number in range(len(null))],
            "probability": 0.5,
            "null_probability": null,
            "state_probability": [state[there](p) for p, there in zip(null, present, strict=True)],
            "correct": pd.array(correct, "boolean"),
        }
    )


class TestNullState:
    def test_by_hand(self):
        present = [True, True, True, False, False]
        rows = null_rows([0.1, 0.3, 0.2, 0.6, 0.3], [True, True, False, False, False], present)
        found = null_state(rows, seed=0, n_resamples=20)
        value = found.summary.set_index("quantity")["value"]
        assert value[list(NULL_GROUPS)].tolist() == pytest.approx([0.2, 0.2, 0.45])
        assert value["right answer there"] == pytest.approx(0.2)
        assert value["difference"] == pytest.approx(0.25)
        assert value["difference to selected"] == pytest.approx(0.25)
        assert value["AUROC"] == pytest.approx((3 + 3 - 0.5) / 6)
        counts = found.summary.set_index("quantity")["n"]
        assert counts[list(NULL_GROUPS)].tolist() == [2, 1, 2]
        assert counts["right answer there"] == 3
        assert counts["AUROC"] == 5
        assert found.questions["group"].tolist() == [NULL_GROUPS[g] for g in (0, 0, 1, 2, 2)]

    def test_intervals_are_those_of_a_loop(self):
        rng = np.random.default_rng(7)
        null, absent = rng.integers(1, 10, 80) / 20, rng.random(80) < 0.3
        right = ~absent & (rng.random(80) < 0.6)
        rows = null_rows(null.tolist(), right.tolist(), (~absent).tolist())
        found = null_state(rows, seed=5, n_resamples=40, level=0.8)
        differences, areas, selected = [], [], []
        for weight in resample_weights(80, 40, 5):
            p, away, picked = (np.repeat(values, weight) for values in (null, absent, right))
            differences.append(p[away].mean() - p[~away].mean())
            selected.append(p[away].mean() - p[picked].mean())
            areas.append(roc_auc_score(away, p))
        for name, values in (("difference", differences), ("difference to selected", selected), ("AUROC", areas)):
            row = found.quantity(name)
            expected = percentile_interval(np.array(values), 0.8)
            assert (row["low"], row["high"], row["n_undefined"]) == pytest.approx(tuple(expected), abs=1e-9)

    def test_what_is_not_known_is_left_out_and_counted(self):
        null, right = [0.1, 0.3, np.nan, 0.5, 0.0], [True, None, False, False, False]
        found = null_state(null_rows(null, right, [True, True, False, None, False]), seed=0, n_resamples=5)
        assert found.questions["problem_id"].tolist() == ["q0"]

    def test_without_a_question_of_a_group_there_is_no_difference(self):
        found = null_state(null_rows([0.1, 0.3], [True, False], [True, True]), seed=0, n_resamples=5)
        for name in ("no candidate right", "difference", "AUROC"):
            row = found.quantity(name)
            assert row[["value", "low", "high"]].isna().all()
            assert row["n_undefined"] == 5
        assert found.quantity("right answer there")["value"] == pytest.approx(0.2)
