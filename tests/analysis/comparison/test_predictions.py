"""Two fits' predictions of the same questions: the table, its summary and scores, what is shown and drawn."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from analysis.comparison.predictions import (
    compare_predictions,
    predictions_side_by_side,
    score_predictions,
    summarise_predictions,
)
from analysis.scores.metrics import evaluate_metrics
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import said
from tests.analysis.fits import around, made_fit, natural

LEVELS = 5


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(60, seed=4)


@pytest.fixture(scope="module")
def posterior(observations: Observations) -> Fit:
    rng = np.random.default_rng(2)
    draws = around(natural(LEVELS), rng, spread=0.3)
    intercept, slope = 0.2 + 0.3 * rng.standard_normal((2, 2, 40))
    return made_fit(observations, draws, intercept=intercept, slope=1 + slope)


@pytest.fixture(scope="module")
def some(observations: Observations) -> Observations:
    """Return questions of which one is unanswered, two are not labelled, and half were fitted to."""
    silent = Question(problem_id="silent", gold_answer="3", observations=())
    more = [q.model_copy(update={"problem_id": f"new {q.problem_id}"}) for q in observations.questions[:20]]
    more[:2] = [q.model_copy(update={"gold_answer": None}) for q in more[:2]]
    return Observations.from_questions([*observations.questions[:20], silent, *more], answers="numeric")


@pytest.fixture(scope="module")
def point(observations: Observations) -> Fit:
    loud = natural(LEVELS, weight=[3.0, 0.1, 0.1, 0.1, 0.1])
    return made_fit(observations.select(slice(0, 10)), loud, preset="paper")


@pytest.fixture(scope="module")
def table(point: Fit, posterior: Fit, some: Observations) -> pd.DataFrame:
    return predictions_side_by_side(point, posterior, some)


class TestPredictions:
    def test_are_those_of_the_fits(self, table: pd.DataFrame, point: Fit, posterior: Fit, some: Observations) -> None:
        own, theirs = point.predict(some), posterior.predict(some)
        assert table["problem_id"].tolist() == list(some.problem_id)
        for name, predicted in (("first", own), ("second", theirs)):
            pd.testing.assert_series_equal(table[f"{name}_answer"], predicted["answer"], check_names=False)
            pd.testing.assert_series_equal(table[f"{name}_confidence"], predicted["confidence"], check_names=False)
        np.testing.assert_array_equal(table["second_low"], theirs["confidence_low"])
        np.testing.assert_array_equal(table["second_high"], theirs["confidence_high"])
        assert table[["first_low", "first_high"]].isna().all(axis=None)
        shift = theirs["confidence"] - own["confidence"]
        np.testing.assert_array_equal(table["shift"], shift)
        changed = [a != b for a, b in zip(own["answer"], theirs["answer"], strict=True) if isinstance(a, str)]
        assert table["changed"].dropna().tolist() == changed
        assert 0 < sum(changed) < len(changed)
        silent = table[table["problem_id"] == "silent"].iloc[0]
        assert silent[["first_answer", "second_answer", "shift", "changed", "first_correct"]].isna().all()
        assert table["first_fitted"].tolist() == [True] * 10 + [False] * 31
        assert table["second_fitted"].tolist() == [True] * 20 + [False] * 21

    def test_right_answers_are_those_of_gold(self, table: pd.DataFrame, some: Observations) -> None:
        for name in ("first", "second"):
            for row, question in zip(table.to_dict("records"), some.questions, strict=True):
                right = row[f"{name}_correct"]
                if question.gold_answer is None or question.problem_id == "silent":
                    assert pd.isna(right)
                else:
                    assert right == (row[f"{name}_answer"] == question.gold_answer)
        assert table["first_correct"].sum() > 0

    def test_scores_are_those_of_the_labelled_answered_questions(self, table: pd.DataFrame) -> None:
        scored = table[table["first_correct"].notna()]
        assert len(scored) == 38
        found = score_predictions(table, seed=1, n_resamples=20).set_index("metric")
        for name in ("first", "second"):
            metrics = evaluate_metrics(scored[f"{name}_confidence"], scored[f"{name}_correct"].astype(bool))
            expected = {metric: value.item() for metric, value in metrics.items() if metric != "mean_confidence"}
            assert found[name].drop(list(SELECTION_SCORES)).to_dict() == pytest.approx(expected)
            assert found.loc["benefit", name] == pytest.approx(expected["accuracy"] - expected["brier"], abs=1e-5)
            likely = scored[f"{name}_state_probability"].astype(float)
            assert found.loc["log_score", name] == pytest.approx(-np.log(likely).mean())


class TestSummary:
    def test_of_a_small_table(self) -> None:
        table = pd.DataFrame(
            {
                "problem_id": ["a", "b", "c", "d"],
                "shift": [0.1, -0.4, 0.0, np.nan],
                "changed": pd.Series([False, True, False, pd.NA], dtype="boolean"),
                "second_low": [0.2, 0.1, 0.5, np.nan],
                "second_high": [0.6, 0.3, 0.8, np.nan],
                "first_fitted": [True, True, False, True],
                "second_fitted": [False, False, True, False],
            }
        )
        found = summarise_predictions(table)
        assert (found.n, found.unanswered, found.changed) == (3, 1, 1)
        assert (found.first_fitted, found.second_fitted) == (2, 1)
        assert found.mean_shift == pytest.approx(-0.1)
        assert found.mean_absolute_shift == pytest.approx(0.5 / 3)
        assert (found.largest_shift, found.largest_at) == (-0.4, "b")
        assert found.mean_width == pytest.approx(0.3)
        nothing = summarise_predictions(table[3:])
        assert (nothing.n, nothing.unanswered, nothing.changed, nothing.largest_at) == (0, 1, 0, None)
        assert np.isnan([nothing.mean_shift, nothing.largest_shift, nothing.mean_width]).all()


def test_what_is_shown_and_recorded(point: Fit, posterior: Fit, some: Observations, table: pd.DataFrame) -> None:
    found = compare_predictions({"map": point, "nuts": posterior}, some, seed=1, n_resamples=20)
    summary, changed = summarise_predictions(table), table[table["changed"].fillna(value=False)]
    pd.testing.assert_frame_equal(found.tables["predictions"], table)
    assert found.record["predictions"]["changed"] == summary.changed == len(found.record["changed"]) == len(changed)
    assert found.record["n_scored"] == 38
    metrics, answers = found.blocks
    assert found.verdict[0].startswith(f"{summary.changed} of 40 answers change from map to nuts")
    assert f"{summary.mean_absolute_shift:.3f} on average" in found.verdict[0]
    assert "in sample: 10 of 40 questions were fitted to by map, 20 by nuts" in found.verdict[0]
    least = changed[["first_confidence", "second_confidence"]].min(axis=1)
    expected = changed.loc[least.sort_values(ascending=False, kind="stable").index, "problem_id"]
    assert [row[0].text for row in answers.rows] == expected.tolist()[:10]
    assert metrics.caption == "Metrics on 38 labelled questions (in sample)"
    figure = found.drawing.picture().figure
    same, other = (one.get_offsets() for one in figure.axes[0].collections if isinstance(one, PathCollection))
    assert (len(same), len(other)) == (40 - summary.changed, summary.changed)
    assert "10 of 40 questions were fitted to by map" in said(figure)


def test_questions_without_labels_have_no_metrics(point: Fit, posterior: Fit, some: Observations) -> None:
    hidden = [question.model_copy(update={"gold_answer": None}) for question in some.questions[:20]]
    asked = Observations.from_questions(hidden, answers="numeric")
    found = compare_predictions({"map": point, "nuts": posterior}, asked, seed=1, n_resamples=20)
    assert list(found.tables) == ["predictions"]
    assert "metrics" not in found.record
    assert len(found.verdict) == 1
