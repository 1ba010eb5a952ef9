"""Which pictures there are of an evaluation and of a fit, and that their numbers come with them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.display.document import LeftOut, Picture
from analysis.evaluation import Evaluation
from analysis.learned import LabelledReports, fit_pictures, stated_confidences
from analysis.pictures import (
    base_rate_figure,
    benefit_figure,
    evaluation_pictures,
    null_state_figure,
    selective_figure,
    stated_confidence_figure,
)
from analysis.scores.null_state import NULL_GROUPS, null_state
from analysis.scores.scoring import scored_by_method
from analysis.scores.selective import risk_coverage, selective_table
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone, said
from tests.analysis.fits import random_fit
from tests.analysis.made_runs import made_evaluation

METHODS = ("vanilla", "majority", "confidence", "direag")


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(50, seed=4)


@pytest.fixture(scope="module")
def questions(observations) -> Evaluation:
    rng = np.random.default_rng(1)
    parts = [
        pd.DataFrame(
            {
                "problem_id": observations.problem_id,
                "method": method,
                "confidence": rng.random(50),
                "correct": pd.array(observations.gold_generated & (rng.random(50) < 0.7), "boolean"),
                "null_probability": null,
                "state_probability": np.where(observations.gold_generated, rng.random(50), null),
                "cluster": pd.NA,
            }
        )
        for method in METHODS
        for null in [rng.random(50) if method in ("confidence", "direag") else np.full(50, np.nan)]
    ]
    return made_evaluation(
        pd.concat(parts, ignore_index=True),
        {},
        n_folds=5,
        seed=0,
        n_resamples=5,
        data=(observations, None),
        told=observations,
    )


def drawn(pictures) -> tuple[dict[str, Picture], dict[str, str]]:
    found = list(pictures)
    return (
        {one.name: one for one in found if isinstance(one, Picture)},
        {one.name: one.reason for one in found if isinstance(one, LeftOut)},
    )


def caption(picture: Picture) -> str:
    return " ".join(picture.figure.get_supxlabel().split())


@pytest.fixture(scope="module")
def pictures(questions) -> dict[str, Picture]:
    found, left_out = drawn(evaluation_pictures(questions, "direag", seed=0, level=0.9))
    assert left_out == {}
    return found


class TestEvaluation:
    def test_every_picture_says_what_was_held_out_and_brings_its_numbers(self, pictures):
        assert list(pictures) == [
            "benefit",
            "reliability",
            "base_rate",
            "risk_coverage",
            "null_state",
            "stated_confidence",
        ]
        for name, picture in pictures.items():
            held_out = (
                "simulated, simulated, 50 labelled questions."
                if name == "stated_confidence"
                else "5-fold cross-fit (MAP)"
            )
            level = [] if name == "stated_confidence" else ["90%"]
            assert all(words in caption(picture) for words in (held_out, *level))
            assert all(len(table) for table in picture.tables.values())
            for table in picture.tables.values():
                if any(column.endswith(("low", "_high")) for column in table) and name != "stated_confidence":
                    assert (table["interval_level"] == 0.9).all()

    def test_reliability_is_drawn_before_and_after(self, pictures):
        assert pictures["reliability"].tables["reliability"]["method"].unique().tolist() == ["confidence", "direag"]
        titles = [axes.get_title(loc="left") for axes in pictures["reliability"].figure.axes[:2]]
        assert titles == ["before recalibration\nconfidence, n = 50", "after recalibration\ndireag, n = 50"]

    def test_what_has_neither_a_before_nor_a_null_state_nor_reports(self, questions):
        pictures, left_out = drawn(evaluation_pictures(replace(questions, observations=None), "majority", seed=0))
        assert set(pictures["reliability"].tables["reliability"]["method"]) == {"majority"}
        assert len(pictures["reliability"].figure.axes) == 3
        assert set(left_out) == {"null_state", "stated_confidence"}
        assert left_out["null_state"].startswith("method majority has no null state")

    def test_the_seed_is_that_of_the_intervals_alone(self, questions, pictures):
        again, _ = drawn(evaluation_pictures(questions, "direag", seed=1, level=0.9))
        same = {
            name: table.equals(pictures[picture.name].tables[name])
            for picture in again.values()
            for name, table in picture.tables.items()
        }
        drawn_by_chance = {"benefit", "base_rate", "null_state", "selective"}
        assert {name for name, equal in same.items() if not equal} == drawn_by_chance

    def test_an_unknown_method_and_one_that_answered_nothing(self, questions):
        with pytest.raises(DirEAGError, match="saw method 'topk', not evaluated here"):
            list(evaluation_pictures(questions, "topk", seed=0))
        silent = questions.predictions.assign(
            confidence=questions.predictions["confidence"].mask(questions.predictions["method"] == "direag")
        )
        with pytest.raises(DirEAGError, match="method direag has answered no labelled question"):
            list(evaluation_pictures(replace(questions, predictions=silent), "direag", seed=0))


class TestFit:
    def test_every_picture_says_what_was_fitted(self, observations):
        pictures, left_out = drawn(fit_pictures(random_fit(observations, n_draws=6), level=0.9))
        assert left_out == {}
        assert list(pictures) == ["levels", "calibration_curves", "shared", "recalibration"]
        for picture in pictures.values():
            assert "Fitted to 50 questions of handmade" in caption(picture)
            assert "90% interval over the posterior draws" in caption(picture)
            assert all(len(table) for table in picture.tables.values())


ABOUT = "Some set, 5-fold cross-fit: no question is predicted by a fit that has seen it."


def gains(n_methods: int, *, unanswered: int = 0) -> pd.DataFrame:
    place = np.arange(n_methods)
    return pd.DataFrame(
        {
            "method": [f"method_{number}" for number in place],
            "n": 100 - unanswered * (place == 0),
            "unanswered": unanswered * (place == 0),
            "accuracy": 0.5,
            "brier_gain": 0.02 * place - 0.03,
            "brier_gain_low": 0.02 * place - 0.05,
            "brier_gain_high": 0.02 * place - 0.01,
            "auroc_gain": 0.1 + 0 * place,
            "auroc_gain_low": 0.05 + 0 * place,
            "auroc_gain_high": 0.15 + 0 * place,
        }
    )


def test_benefit_and_accuracy_stand_in_the_order_given():
    place = np.arange(4)
    values = {"benefit": 0.6 - 0.2 * place, "accuracy_of_all": 0.8 - 0.1 * place}
    ends = {
        f"{name}{end}": value + by for name, value in values.items() for end, by in (("_low", -0.05), ("_high", 0.05))
    }
    worth = pd.DataFrame({"method": [f"method_{k}" for k in place], "n": 100, **values, **ends})
    figure = benefit_figure(worth, ABOUT, 0.9)
    assert_stands_alone(figure, ABOUT, "n = 100 labelled questions", "90% bootstrap interval")
    for axes, name in zip(figure.axes, values, strict=True):
        np.testing.assert_allclose(axes.collections[1].get_offsets()[:, 0], values[name])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == worth["method"].tolist()


class TestBaseRate:
    def test_points_are_filled_where_all_of_the_interval_is_above_zero(self):
        table = gains(5)
        figure = base_rate_figure(table, table["method"].tolist(), ABOUT, 0.9)
        assert_stands_alone(figure, ABOUT, "90% bootstrap interval")
        left, _ = figure.axes
        dots = left.collections[1]
        np.testing.assert_allclose(dots.get_offsets()[:, 0], table["brier_gain"])
        hollow = (dots.get_facecolor()[:, :3] == 1).all(axis=1)
        assert hollow.tolist() == (table["brier_gain_low"] <= 0).tolist() == [True, True, True, False, False]


def null(n: int, group: np.ndarray) -> pd.DataFrame:
    probability = np.linspace(0.01, 0.6, n)
    return pd.DataFrame(
        {
            "problem_id": [f"q{number}" for number in range(n)],
            "confidence": 0.5,
            "null_probability": probability,
            "state_probability": np.where(group < 2, 0.7, probability),
            "correct": pd.array(group == 0, "boolean"),
        }
    )


class TestNullState:
    def test_each_group_adds_up_to_all_of_it(self):
        group = np.arange(60) // 20
        rows = null(60, group)
        found = null_state(rows, seed=0, n_resamples=50, level=0.9)
        figure = null_state_figure(found, "direag", ABOUT)
        assert_stands_alone(figure, ABOUT, "direag, n = 60", "90% interval")
        for axes, name in zip(figure.axes, NULL_GROUPS, strict=True):
            assert sum(bar.get_height() for bar in axes.containers[0]) == pytest.approx(100)
            assert axes.get_title(loc="left").startswith(f"{name}: n = 20, mean 0.")
        difference = found.quantity("difference")
        assert f"{difference['value']:+.3f} [{difference['low']:+.3f}, {difference['high']:+.3f}]" in said(figure)

    def test_a_group_without_questions_says_so(self):
        rows = null(10, np.zeros(10, int))
        found = null_state(rows, seed=0, n_resamples=5)
        figure = null_state_figure(found, "direag", ABOUT)
        assert_stands_alone(figure, "undefined")
        assert "no candidate right: n = 0, mean undefined" in said(figure)


@pytest.mark.parametrize("n_levels", [2, 5])
def test_stated_confidences_are_stacked(n_levels):
    rng = np.random.default_rng(2)
    confidence = rng.integers(0, 101, (40, n_levels)) / 100
    confidence[:, 0] = np.nan
    correct = ~np.isnan(confidence) & (rng.random((40, n_levels)) < 0.5)
    levels = tuple(f"some-provider/long-model-name-{number}" for number in range(n_levels))
    stated = stated_confidences(LabelledReports(tuple(map(str, range(40))), levels, confidence, correct))
    figure = stated_confidence_figure(stated, "Some set, 40 labelled questions.")
    assert_stands_alone(figure, "40 labelled questions")
    assert len(figure.axes) == n_levels
    for number, axes in enumerate(figure.axes):
        right, wrong = axes.containers
        heights = [[bar.get_height() for bar in bars] for bars in (right, wrong)]
        assert heights == stated.loc[stated["level"] == levels[number], ["right", "wrong"]].T.to_numpy().tolist()
        assert [bar.get_y() for bar in wrong] == heights[0]
    assert "n = 0" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize("n_methods", [1, 5])
def test_three_methods_are_named_and_the_others_grey(n_methods):
    rng = np.random.default_rng(n_methods)
    parts = []
    for number in range(n_methods):
        confidence = rng.integers(0, 6, 80) / 5 if number == 0 else rng.random(80)
        correct = pd.array(rng.random(80) < 0.3 + confidence / (2 + number), "boolean")
        name = "direag" if number == n_methods - 1 else f"method_{number}"  # the last, and not the best
        parts.append(pd.DataFrame({"method": name, "confidence": confidence, "correct": correct}))
    parts.append(pd.DataFrame({"method": "silent", "confidence": [np.nan] * 80, "correct": parts[0]["correct"]}))
    table = pd.concat(parts, ignore_index=True)
    curves = {name: risk_coverage(*one.answered[:2]) for name, one in scored_by_method(table).items()}
    summary = selective_table(table, seed=0, n_resamples=20, level=0.9)
    figure = selective_figure(curves, summary, "Some set, held out.", 0.9)
    assert_stands_alone(figure, "Some set, held out.", "90% bootstrap interval")
    (axes,) = figure.axes
    named = {line.get_label().partition(",")[0]: line for line in axes.lines if line.get_linewidth() == 2}
    assert len(axes.lines) == n_methods
    assert len(named) == min(n_methods, 3)
    assert "direag" in named
    best = summary.nsmallest(1, "aurc").iloc[0]
    assert f"{best['method']}, n = 80: AURC {best['aurc']:.3f} [{best['aurc_low']:.3f}" in said(figure)
    for name, line in named.items():
        np.testing.assert_allclose(line.get_xydata(), 100 * curves[name][["coverage", "risk"]])
    few = [name for name, line in named.items() if line.get_marker() == "o"]
    assert few == [name for name in named if curves[name]["attainable"].sum() == 6]


@pytest.mark.parametrize("confidence", [[0.2, 0.9], [np.nan, np.nan]])
def test_everything_right_and_nothing_answered(confidence):
    table = pd.DataFrame({"method": "m", "confidence": confidence, "correct": pd.array([True, True], "boolean")})
    curves = {name: risk_coverage(*one.answered[:2]) for name, one in scored_by_method(table).items()}
    assert_stands_alone(selective_figure(curves, selective_table(table, seed=0, n_resamples=5), "Some set.", 0.95))
