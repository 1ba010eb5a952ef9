"""Which pictures there are of an evaluation and of a fit, and that their numbers come with them."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures.pictures import (
    LeftOut,
    Picture,
    calibrated_method,
    describe_fit,
    evaluation_pictures,
    fit_pictures,
)
from analysis.held_out import HeldOutQuestions
from analysis.labelled_reports import LabelledReports
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit

METHODS = ("vanilla", "majority", "confidence", "direag")


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(50, seed=4)


@pytest.fixture(scope="module")
def questions(observations) -> HeldOutQuestions:
    rng = np.random.default_rng(1)
    parts = [
        pd.DataFrame(
            {
                "problem_id": observations.problem_id,
                "method": method,
                "confidence": rng.random(50),
                "correct": pd.array(observations.gold_generated & (rng.random(50) < 0.7), "boolean"),
                "null_probability": rng.random(50) if method in ("confidence", "direag") else np.nan,
                "state_probability": np.nan,
                "cluster": pd.NA,
            }
        )
        for method in METHODS
    ]
    reports = LabelledReports.of_observations(observations)
    return HeldOutQuestions(pd.concat(parts, ignore_index=True), reports, "A set", "5-fold cross-fit")


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
            "base_rate",
            "null_state",
            "reliability",
            "risk_coverage",
            "stated_confidence",
        ]
        for name, picture in pictures.items():
            held_out = "A set, 50 labelled questions." if name == "stated_confidence" else "A set, 5-fold cross-fit."
            level = [] if name == "stated_confidence" else ["90%"]
            assert all(words in caption(picture) for words in (held_out, *level))
            assert all(len(table) for table in picture.tables.values())
            for table in picture.tables.values():
                if any(column.endswith(("low", "_high")) for column in table) and name != "stated_confidence":
                    assert (table["interval_level"] == 0.9).all()

    def test_reliability_is_drawn_before_and_after(self, pictures):
        assert pictures["reliability"].tables["reliability"]["method"].tolist() == ["confidence", "direag"]
        titles = [axes.get_title(loc="left") for axes in pictures["reliability"].figure.axes[:2]]
        assert titles == ["before recalibration\nconfidence, n = 50", "after recalibration\ndireag, n = 50"]

    def test_what_has_neither_a_before_nor_a_null_state(self, questions):
        pictures, left_out = drawn(evaluation_pictures(questions, "majority", seed=0))
        assert pictures["reliability"].tables["reliability"]["method"].tolist() == ["majority"]
        assert len(pictures["reliability"].figure.axes) == 3
        assert left_out == {"null_state": left_out["null_state"]}
        assert left_out["null_state"].startswith("method majority has no null state")

    def test_without_the_reports(self, questions):
        pictures, left_out = drawn(evaluation_pictures(questions._replace(reports=None), "direag", seed=0))
        assert set(left_out) == {"null_state", "stated_confidence"}
        assert "give --obs" in left_out["null_state"]
        assert len(pictures) == 4

    @pytest.mark.parametrize("seed", [0, 1])
    def test_a_seed_repeats_the_numbers(self, questions, pictures, seed):
        again, _ = drawn(evaluation_pictures(questions, "direag", seed=seed, level=0.9))
        same = {
            name: table.equals(pictures[picture.name].tables[name])
            for picture in again.values()
            for name, table in picture.tables.items()
        }
        drawn_by_chance = {"benefit", "base_rate", "null_state", "reliability_curve", "selective"}
        assert {name for name, equal in same.items() if not equal} == (drawn_by_chance if seed else set())

    def test_an_unknown_method_and_one_that_answered_nothing(self, questions):
        with pytest.raises(DirEAGError, match="saw method 'topk', not evaluated here"):
            list(evaluation_pictures(questions, "topk", seed=0))
        silent = questions.predictions.assign(
            confidence=questions.predictions["confidence"].mask(questions.predictions["method"] == "direag")
        )
        with pytest.raises(DirEAGError, match="method direag has answered no labelled question"):
            list(evaluation_pictures(questions._replace(predictions=silent), "direag", seed=0))


class TestFit:
    def test_every_picture_says_what_was_fitted(self, observations):
        pictures, left_out = drawn(fit_pictures(random_fit(observations, n_draws=6), level=0.9))
        assert left_out == {}
        assert list(pictures) == ["calibration_curves", "levels", "shared", "recalibration"]
        for picture in pictures.values():
            assert "Fitted to 50 questions of handmade" in caption(picture)
            assert "90% interval over the posterior draws" in caption(picture)
            assert all(len(table) for table in picture.tables.values())

    def test_what_a_fit_lacks_is_left_out(self, observations):
        pictures, left_out = drawn(fit_pictures(random_fit(observations, variant="count", recalibration="none")))
        assert list(pictures) == ["levels", "shared"]
        assert set(left_out) == {"calibration_curves", "recalibration"}

    def test_in_words(self, observations):
        fit = random_fit(observations, variant="level", n_draws=6)
        assert describe_fit(fit) == ("Fitted to 50 questions of handmade: NUTS (6 draws), preset paper, variant level.")
        assert calibrated_method(fit) == "level_calibrated"
