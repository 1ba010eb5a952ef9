"""Two fits' predictions of the same questions: the table, its summary and scores, what is shown and drawn."""

import numpy as np
import pandas as pd
import pytest

from analysis.comparison import compare, moved, paired_metrics, predicted, side_by_side
from analysis.scores.metrics import evaluate_metrics
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
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
def frames(point: Fit, posterior: Fit, some: Observations) -> dict[str, pd.DataFrame]:
    return {"map": predicted(point, some), "nuts": predicted(posterior, some)}


@pytest.fixture(scope="module")
def table(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return side_by_side(frames).set_index(["model", "problem_id"])


class TestPredictions:
    def test_are_those_of_the_fits(self, table: pd.DataFrame, point: Fit, posterior: Fit, some: Observations) -> None:
        own, theirs = point.predict(some), posterior.predict(some)
        for name, found in (("map", own), ("nuts", theirs)):
            assert table.loc[name].index.tolist() == list(some.problem_id)
            assert table.loc[name]["answer"].dropna().tolist() == found["answer"].dropna().tolist()
            np.testing.assert_array_equal(table.loc[name]["probability"], found["probability"])
        np.testing.assert_array_equal(table.loc["nuts"]["low"], theirs["probability_low"])
        assert table.loc["map"]["high"].isna().all()
        np.testing.assert_array_equal(table.loc["nuts"]["shift"], theirs["probability"] - own["probability"])
        changed = [a != b for a, b in zip(own["answer"], theirs["answer"], strict=True) if isinstance(a, str)]
        assert table.loc["nuts"]["changed"].dropna().tolist() == changed
        assert 0 < sum(changed) < len(changed)
        assert table.loc[("nuts", "silent"), ["answer", "shift", "changed", "correct"]].isna().all()
        assert table.loc["map"]["fitted"].tolist() == [True] * 10 + [False] * 31
        assert table.loc["nuts"]["fitted"].tolist() == [True] * 20 + [False] * 21

    def test_right_answers_are_those_of_gold(self, table: pd.DataFrame, some: Observations) -> None:
        for question in some.questions:
            row = table.loc["nuts", question.problem_id]
            if question.gold_answer is None or question.problem_id == "silent":
                assert pd.isna(row["correct"])
            else:
                assert row["correct"] == (row["answer"] == question.gold_answer)

    def test_scores_are_those_of_the_labelled_answered_questions(self, frames: dict[str, pd.DataFrame]) -> None:
        found = paired_metrics(frames, seed=1, n_resamples=20).set_index("metric")
        assert (found["n"] == 38).all()
        for name, frame in zip(("first", "second"), frames.values(), strict=True):
            scored = frame[frame["correct"].notna()]
            metrics = evaluate_metrics(scored["probability"], scored["correct"].astype(bool))
            expected = {metric: value.item() for metric, value in metrics.items() if metric != "mean_confidence"}
            assert found[name].drop(list(SELECTION_SCORES)).to_dict() == pytest.approx(expected)
            assert found.loc["benefit", name] == pytest.approx(expected["accuracy"] - expected["brier"], abs=1e-5)
            likely = scored["state_probability"].astype(float)
            assert found.loc["log_score", name] == pytest.approx(-np.log(likely).mean())


def test_how_far_they_move() -> None:
    answers, ids = ["1", "1", "1", None], pd.Index(list("abcd"), name="problem_id")
    first = pd.DataFrame(
        {"answer": answers, "probability": [0.5, 0.5, 0.5, np.nan], "fitted": [True, True, False, True]}, ids
    )
    other = pd.DataFrame(
        {"answer": ["1", "2", "1", None], "probability": [0.6, 0.1, 0.5, np.nan], "fitted": False}, ids
    )
    row = moved({"first": first, "other": other}).iloc[1]
    assert row[["n", "unanswered", "changed", "fitted", "largest_at"]].tolist() == [3, 1, 1, 0, "b"]
    assert row["mean_shift"] == pytest.approx(-0.1)
    assert (row["mean_absolute_shift"], row["largest_shift"]) == pytest.approx((0.5 / 3, -0.4))
    nothing = moved({"first": first[3:], "other": other[3:]}).iloc[1]
    assert nothing[["n", "unanswered", "changed"]].tolist() == [0, 1, 0]
    assert np.isnan(nothing["mean_shift"])


def test_what_is_shown_and_recorded(point: Fit, posterior: Fit, some: Observations, table: pd.DataFrame) -> None:
    found = compare({"map": point, "nuts": posterior}, some, seed=1, n_resamples=20)
    rows = table.loc["nuts"]
    changed = rows[rows["changed"].fillna(value=False).astype(bool)]
    assert found.record["moved"][1]["changed"] == len(changed)
    said, _, _, _, metrics, distance, answers = found.blocks()
    assert said.sentences[0].endswith("no verdict. Leave --obs out, or give new questions.")
    assert said.sentences[1].startswith(f"{len(changed)} of 40 answers change from map to nuts")
    assert [row[2].text for row in distance.rows] == ["20"]
    least = changed[["probability", "reference"]].min(axis=1).sort_values(ascending=False, kind="stable")
    assert [row[0].text for row in answers.rows] == least.index.tolist()[:10]
    assert metrics.caption == "nuts (second) minus map (first), 38 labelled questions, 3 others left out"
    _, picture, _ = found.pictures()
    drawn = [len(line.get_xdata()) for line in picture.figure.axes[0].lines if line.get_marker() in ("o", "^")]
    assert drawn == [40 - len(changed), len(changed)]


def test_questions_without_labels_have_no_metrics(point: Fit, posterior: Fit, some: Observations) -> None:
    hidden = [question.model_copy(update={"gold_answer": None}) for question in some.questions[:20]]
    asked = Observations.from_questions(hidden, answers="numeric")
    found = compare({"map": point, "nuts": posterior}, asked, seed=1, n_resamples=20)
    assert list(found.tables) == ["predictions", "parameters", "moved"]
