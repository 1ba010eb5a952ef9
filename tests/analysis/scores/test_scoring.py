"""Scores of methods and their intervals: by hand, and by plain loops."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from analysis.scores.metrics import evaluate_metrics
from analysis.scores.scoring import (
    Interval,
    Scored,
    accuracy_of_all,
    benefit,
    draw_columns,
    log_score,
    mean_score,
    percentile_interval,
    resample_weights,
)
from bayes_direag.errors import DirEAGError
from tests.analysis.made import score


def predictions(method: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(size=n)
    columns = {"method": method, "probability": confidence, "correct": rng.uniform(size=n) < confidence}
    return pd.DataFrame(columns | {"state_probability": rng.uniform(size=n), "cluster": pd.NA})


class TestScores:
    @given(st.floats(0, 1), st.booleans())
    def test_benefit_is_twice_the_mean_gain_over_all_prices(self, confidence: float, correct: bool) -> None:
        def gain(price: float) -> float:
            return (1 - price if correct else -price) if confidence > price else 0.0

        mean, _ = quad(gain, 0, 1, points=[confidence])
        assert benefit(Scored(np.array([confidence]), np.array([correct])))[0] == pytest.approx(2 * mean, abs=1e-6)

    def test_no_answer_is_worth_nothing_and_is_not_right(self) -> None:
        right, state = np.array([True, True, False, False]), np.array([np.nan, 0.5, 0.0, 1.0])
        scored = Scored(np.array([np.nan, 1.0, 0.0, 1.0]), right, state)
        assert benefit(scored).tolist() == [0, 1, 0, -1]
        assert accuracy_of_all(scored).tolist() == [0, 1, 0, 0]
        np.testing.assert_allclose(log_score(scored), [np.nan, np.log(2), 6 * np.log(10), 0])
        assert np.isnan(log_score(scored._replace(state_probability=None))).all()
        value, weight = np.array([1.0, np.nan, 4.0]), np.array([[2, 5, 1], [0, 3, 0]])
        np.testing.assert_allclose(mean_score(value), [2.5])
        np.testing.assert_allclose(mean_score(value, weight), [2, np.nan])

    def test_unanswered_questions_count_where_the_selected_answer_is_seen(self) -> None:
        rows = predictions("a", 40, 1)
        rows.loc[:9, ["probability", "state_probability"]] = np.nan
        rows.loc[:9, "correct"] = False
        scores = score(rows, seed=5, n_resamples=50).iloc[0]
        answered = rows.iloc[10:]
        right, brier = answered["correct"].sum(), ((answered["probability"] - answered["correct"]) ** 2).sum()
        assert (scores["n"], scores["unanswered"]) == (30, 10)
        expected = {"benefit": (right - brier) / 40, "accuracy_of_all": right / 40}
        expected["log_score"] = -np.log(answered["state_probability"]).mean()
        for name, value in expected.items():
            assert scores[name] == pytest.approx(value)
            assert scores[f"{name}_low"] < scores[name] < scores[f"{name}_high"]
        assert scores["accuracy"] == pytest.approx(right / 30)

    def test_a_method_has_the_same_scores_alone_or_among_others_and_an_error_is_raised(self) -> None:
        tables = [predictions("a", 40, 1), predictions("b", 30, 2), predictions("c", 40, 3)]
        together = score(pd.concat(tables), seed=5, n_resamples=20)
        assert together["method"].tolist() == ["a", "b", "c"]
        alone = pd.concat([score(table, seed=5, n_resamples=20) for table in tables], ignore_index=True)
        pd.testing.assert_frame_equal(together, alone)
        with pytest.raises(ValueError, match="divide percentages by 100"):
            score(tables[0].assign(probability=85.0), seed=0, n_resamples=5)

    def test_clusters_are_resampled_whole(self) -> None:
        one = predictions("a", 20, 1)
        copied = pd.concat([one] * 5).assign(cluster=np.tile(np.arange(20), 5))
        names = [f"{name}{end}" for name in ("benefit", "log_score", "brier", "auroc") for end in ("_low", "_high")]
        alone, together = (score(rows, seed=5, n_resamples=50).iloc[0] for rows in (one, copied))
        np.testing.assert_allclose(together[names].astype(float), alone[names].astype(float))


class TestIntervals:
    def test_they_are_percentiles_over_the_resamples_that_are_defined(self) -> None:
        confidence, correct = np.random.default_rng(11).integers(3, 10, 25) / 10, np.arange(25) >= 2
        weight = resample_weights(25, 80, 5)
        metrics = evaluate_metrics(confidence, correct, weight)
        for name, values in metrics.items():
            expected = *np.nanquantile(values, [0.1, 0.9]), np.isnan(values).sum()
            assert percentile_interval(values, 0.8) == pytest.approx(expected, abs=1e-12), name
        assert np.isnan(metrics["auroc"]).any()
        one = draw_columns(weight[:1].astype(float), 0.8, "mean")
        assert one["mean"].tolist() == weight[0].tolist()
        assert np.isnan([one["low"], one["high"]]).all()
        assert percentile_interval(np.array([1.0, math.nan, 3.0]), 0.5) == Interval(1.5, 2.5, 1)
        for values in evaluate_metrics([], [], resample_weights(0, 4, 0)).values():
            assert percentile_interval(values) == pytest.approx((math.nan, math.nan, 4), nan_ok=True)
        for level in (95.0, 0.0):
            with pytest.raises(DirEAGError, match=f"interval level {level}"):
                percentile_interval(np.array([0.4, 0.9]), level)

    def test_weights_count_draws_with_replacement_of_questions_or_whole_clusters(self) -> None:
        weight = resample_weights(6, 3000, np.random.default_rng(1))
        assert weight.shape == (3000, 6)
        assert (weight.sum(axis=1) == 6).all()
        # Each count is binomial (6, 1/6): mean 1, variance 5/6; five standard errors.
        np.testing.assert_allclose(weight.mean(axis=0), 1, atol=5 * math.sqrt(5 / 6 / 3000))
        np.testing.assert_allclose(weight.var(axis=0), 5 / 6, atol=0.12)
        np.testing.assert_array_equal(weight, resample_weights(6, 3000, 1))
        by_cluster = resample_weights(3, 30, 1)  # 2, 5, 7
        cluster = np.array([7, 2, 7, 5, 2, 7])
        np.testing.assert_array_equal(resample_weights(6, 30, 1, cluster), by_cluster[:, [2, 0, 2, 1, 0, 2]])
        np.testing.assert_array_equal(resample_weights(6, 30, 1, np.arange(6)), resample_weights(6, 30, 1))
        with pytest.raises(ValueError, match="n_resamples is 0"):
            resample_weights(2, 0, 0)
