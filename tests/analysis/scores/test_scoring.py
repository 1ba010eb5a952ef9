"""Scoring method by method, beside whatever else goes on."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from analysis.scores import scoring
from analysis.scores.scoring import (
    Scored,
    Scorer,
    accuracy_of_all,
    benefit,
    log_score,
    mean_score,
    score,
    selection_table,
)


def predictions(method: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(size=n)
    return pd.DataFrame(
        {
            "method": method,
            "confidence": confidence,
            "correct": rng.uniform(size=n) < confidence,
            "state_probability": rng.uniform(size=n),
            "cluster": pd.NA,
        }
    )


def test_a_method_has_the_same_scores_alone_or_among_others() -> None:
    tables = [predictions("a", 40, 1), predictions("b", 30, 2), predictions("c", 40, 3)]
    together = score(pd.concat(tables), seed=5, n_resamples=20)
    assert together["method"].tolist() == ["a", "b", "c"]
    alone = pd.concat([score(table, seed=5, n_resamples=20) for table in tables], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone)


def test_unanswered_questions_count_where_the_selected_answer_is_seen() -> None:
    rows = predictions("a", 40, 1)
    rows.loc[:9, ["confidence", "state_probability"]] = np.nan
    rows.loc[:9, "correct"] = False
    found = score(rows, seed=5, n_resamples=50).iloc[0]
    answered = rows.iloc[10:]
    right, brier = answered["correct"].sum(), ((answered["confidence"] - answered["correct"]) ** 2).sum()
    assert (found["n"], found["unanswered"]) == (30, 10)
    assert found["benefit"] == pytest.approx((right - brier) / 40)
    assert found["accuracy_of_all"] == pytest.approx(right / 40)
    assert found["accuracy"] == pytest.approx(right / 30)
    assert found["log_score"] == pytest.approx(-np.log(answered["state_probability"]).mean())
    for name in ("benefit", "accuracy_of_all", "log_score"):
        assert found[f"{name}_low"] < found[name] < found[f"{name}_high"]


def test_what_sees_the_selected_answers_is_the_same_alone() -> None:
    tables = pd.concat([predictions("a", 40, 1), predictions("b", 40, 2)])
    whole, alone = score(tables, seed=5, n_resamples=20), selection_table(tables, seed=5, n_resamples=20)
    assert alone["benefit"].is_monotonic_decreasing
    shared = [name for name in alone if name != "n"]
    pd.testing.assert_frame_equal(
        alone[shared], whole.sort_values("benefit", ascending=False, ignore_index=True)[shared]
    )


def test_clusters_are_resampled_whole() -> None:
    one = predictions("a", 20, 1)
    copied = pd.concat([one] * 5).assign(cluster=np.tile(np.arange(20), 5))
    names = [f"{name}{end}" for name in ("benefit", "log_score", "brier", "auroc") for end in ("_low", "_high")]
    alone, together = (score(rows, seed=5, n_resamples=50).iloc[0] for rows in (one, copied))
    np.testing.assert_allclose(together[names].astype(float), alone[names].astype(float))


def test_an_error_is_the_one_that_scoring_raised() -> None:
    with pytest.raises(ValueError, match="divide percentages by 100"):
        score(predictions("a", 10, 0).assign(confidence=85.0), seed=0, n_resamples=5)


def test_whoever_is_interrupted_does_not_wait_for_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = []

    def slow(*_: object, **__: object) -> None:
        scored.append(1)
        time.sleep(0.2)

    monkeypatch.setattr(scoring, "bootstrap_metrics", slow)

    def interrupted() -> None:
        with Scorer(seed=0, n_resamples=5, interval_level=0.95) as scorer:
            for number in range(5):
                scorer.add(predictions("a", 10, number))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(scored) < 5


@given(st.floats(0, 1), st.booleans())
def test_benefit_is_twice_the_mean_gain_over_all_prices(confidence: float, correct: bool) -> None:
    def gain(price: float) -> float:
        return (1 - price if correct else -price) if confidence > price else 0.0

    mean, _ = quad(gain, 0, 1, points=[confidence])
    assert benefit(Scored([confidence], [correct]))[0] == pytest.approx(2 * mean, abs=1e-6)


def test_benefit_is_greatest_in_expectation_for_the_likelier_answer_and_its_true_probability() -> None:
    said = np.linspace(0, 1, 101)
    for likely in (0.3, 0.8):
        expected = [
            p * benefit(Scored(said, np.ones(101, bool))) + (1 - p) * benefit(Scored(said, np.zeros(101, bool)))
            for p in (likely, likely - 0.2)
        ]
        assert said[expected[0].argmax()] == pytest.approx(likely)
        assert expected[0].max() > expected[1].max()


def test_no_answer_is_worth_nothing_and_is_not_right() -> None:
    scored = Scored([np.nan, 1.0, 0.0, 1.0], [True, True, False, False], [np.nan, 0.5, 0.0, 1.0])
    assert benefit(scored).tolist() == [0, 1, 0, -1]
    assert accuracy_of_all(scored).tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(log_score(scored), [np.nan, np.log(2), 6 * np.log(10), 0])
    assert np.isnan(log_score(Scored([0.4], [True]))).all()


def test_a_mean_is_over_what_is_defined() -> None:
    value, weight = np.array([1.0, np.nan, 4.0]), np.array([[2, 5, 1], [0, 3, 0]])
    np.testing.assert_allclose(mean_score(value), [2.5])
    np.testing.assert_allclose(mean_score(value, weight), [2, np.nan])
