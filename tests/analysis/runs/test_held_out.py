"""Held-out predictions: of an evaluation's folder, and of questions that are new to a fit."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from analysis.evaluation import Evaluation, evaluate_fit
from analysis.learned import LabelledReports
from analysis.scores.null_state import gold_present
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import random_fit
from tests.analysis.handmade_reports import with_gaps
from tests.analysis.made_runs import random_run

METHODS = ("majority", "confidence", "direag")


@pytest.fixture(scope="module")
def observations() -> Observations:
    return with_gaps()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, observations):
    path = tmp_path_factory.mktemp("held_out")
    observations.write(path / "observations.jsonl")
    return random_run(path / "run", observations, methods=METHODS)


class TestEvaluation:
    def test_the_fits_of_a_cross_fit_say_what_the_observations_say(self, folder, observations):
        found = Evaluation.read(folder)
        given = Evaluation.read(folder, folder.parent / "observations.jsonl")
        expected = LabelledReports.of_observations(observations)
        for reports in (found.reports, given.reports):
            order = [reports.problem_id.index(name) for name in expected.problem_id]
            np.testing.assert_array_equal(reports.correct[order], expected.correct)
        assert (found.name, found.design) == ("simulated, simulated", "30 questions, 2-fold cross-fit")
        null = found.predictions.groupby("method")["null_probability"].count()
        assert null.to_dict() == {"majority": 0, "confidence": 30, "direag": 30}

    def test_other_observations_are_refused(self, folder, tmp_path):
        simulate_observations(30, seed=4).write(tmp_path / "other.jsonl")
        with pytest.raises(DirEAGError, match=r"saw other observations \(SHA-256 [0-9a-f]{16}\) than those that"):
            Evaluation.read(folder, tmp_path / "other.jsonl")

    def test_a_test_set_needs_its_observations(self, tmp_path, observations):
        test = simulate_observations(8, seed=5)
        test.write(tmp_path / "test.jsonl")
        run = random_run(tmp_path / "run", observations, methods=METHODS, test=test)
        assert Evaluation.read(run).reports is None
        given = Evaluation.read(run, tmp_path / "test.jsonl")
        assert given.reports.problem_id == test.problem_id
        assert given.design == "8 questions, fitted to 30 others"


class TestUnseen:
    def test_before_and_after_on_the_questions_it_has_not_seen(self, observations):
        fit = random_fit(observations.select(slice(0, 12)))
        found = evaluate_fit(fit, observations, "set.jsonl")
        # The ninth has no report to learn from, so it is as new as those from the twelfth on.
        new = (np.arange(30) >= 12) | (np.arange(30) == 9)
        kept = observations.select(np.flatnonzero(observations.labelled & new))
        predicted = fit.predict(kept)
        for method, column in (("confidence", "support"), ("direag", "confidence")):
            rows = found.predictions[found.predictions["method"] == method].reset_index()
            assert rows["problem_id"].tolist() == list(kept.problem_id)
            np.testing.assert_array_equal(rows["confidence"], predicted[column])
            right = [
                answer in own and bool(correct[own.index(answer)])
                for answer, own, correct in zip(
                    predicted["answer"], kept.candidates, kept.correct_candidate, strict=True
                )
            ]
            assert rows["correct"].tolist() == right
            # The distribution shows where some candidate is right.
            present = gold_present(rows)
            assert present.isna().tolist() == (~kept.answered).tolist()
            assert present[kept.answered].tolist() == kept.gold_generated[kept.answered].tolist()
            assert 0 < present.sum() < kept.answered.sum()
        assert found.reports.problem_id == LabelledReports.of_observations(kept).problem_id
        assert found.design == "19 questions, fitted to 10 others"

    def test_methods_are_named_after_the_variant(self, observations):
        fit = random_fit(observations.select(slice(0, 12)), variant="count")
        found = evaluate_fit(fit, observations, "set.jsonl")
        assert found.predictions["method"].unique().tolist() == ["count", "count_calibrated"]

    def test_a_question_like_one_that_it_has_seen_is_not_new(self, observations):
        first, others = ["a"] * 12, ["a", "b"] * 9
        known = replace(observations, cluster=(*first, *others))
        fit = random_fit(known.select(slice(0, 12)))
        data = fit.tree["constant_data"].to_dataset()
        fit.tree["constant_data"] = xr.DataTree(data.assign(cluster=("problem", ["a"] * data.sizes["problem"])))
        found = evaluate_fit(fit, known, "set.jsonl")
        new = (np.arange(30) >= 12) & (np.arange(30) % 2 == 1) & known.labelled
        assert found.predictions["problem_id"].unique().tolist() == list(known.select(new).problem_id)
        assert (found.predictions["cluster"] == 0).all()

    def test_nothing_new(self, observations):
        kept = observations.select(slice(0, 4))
        with pytest.raises(DirEAGError, match="saw 4 questions, 4 of them labelled, 4 of them learned from"):
            evaluate_fit(random_fit(observations), kept, "set.jsonl")
