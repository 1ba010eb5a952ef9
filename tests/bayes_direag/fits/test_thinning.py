"""Copies of questions with fewer reports, and the fits that learn from them."""

from itertools import combinations

import jax
import numpy as np
import pandas as pd
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize, stats

from bayes_direag import Fit, Observations, Predictor, fit_map, fit_nuts, simulate_observations
from bayes_direag.errors import FewReportsWarning
from bayes_direag.fits.few_reports import EnoughReports
from bayes_direag.fits.fitting import fit_map_batch
from bayes_direag.fits.thinning import N_COPIES, thinned
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model.models import model_of
from bayes_direag.model.selection import distribution
from bayes_direag.model.settings import SamplingSettings


@pytest.fixture(scope="module")
def questions() -> Observations:
    return simulate_observations(64, seed=4)


@pytest.fixture(scope="module")
def partial(questions: Observations) -> Fit:
    return fit_map(questions, partial=True, seed=2)


def keeping(questions: Observations, n: int) -> Observations:
    """Return questions with their first n usable reports."""
    return questions.without(np.cumsum(questions.usable, axis=1) > n)


class TestCopies:
    def test_the_first_are_whole_and_the_others_have_some_of_the_reports(self, questions: Observations) -> None:
        copies, n = thinned(questions, "map", 0), len(questions)
        assert len(copies) == N_COPIES * n
        assert copies.problem_id == questions.problem_id * N_COPIES
        np.testing.assert_array_equal(copies.candidate[:n], questions.candidate)
        for start in range(n, len(copies), n):
            part = copies.select(slice(start, start + n))
            assert not (part.usable & ~questions.usable).any()
            assert (part.answered == questions.answered).all()
            assert not (part.correct & ~questions.correct).any()
            given, kept = questions.to_frame(), part.to_frame()
            assert len(kept) <= len(given)

    def test_every_number_of_reports_and_every_report_is_equally_likely(self) -> None:
        whole = simulate_observations(2000, seed=1)
        whole = whole.select(whole.usable.all(axis=1))
        copies = thinned(whole, "map", 3).select(slice(len(whole), None))
        counts = np.bincount(copies.usable.sum(axis=1), minlength=6)[1:]
        assert stats.chisquare(counts).pvalue > 1e-3
        alone = copies.usable[copies.usable.sum(axis=1) == 1]
        assert stats.chisquare(alone.sum(axis=0)).pvalue > 1e-3

    def test_a_copy_depends_on_its_own_question_alone(self, questions: Observations) -> None:
        order = np.random.default_rng(0).permutation(len(questions))[:50]
        some, all_of_them = thinned(questions.select(order), "map", 5), thinned(questions, "map", 5)
        n = len(questions)
        places = np.concatenate([order + turn * n for turn in range(N_COPIES)])
        np.testing.assert_array_equal(some.usable, all_of_them.usable[places])
        assert (thinned(questions, "map", 6).usable != all_of_them.usable).any()

    def test_copies_are_one_cluster(self, questions: Observations) -> None:
        n = len(questions)
        number = thinned(questions, "map", 0).cluster_number
        assert number is not None
        np.testing.assert_array_equal(number, np.tile(np.arange(n), N_COPIES))

    def test_a_single_report_stays(self, questions: Observations) -> None:
        alone = keeping(questions, 1)
        np.testing.assert_array_equal(thinned(alone, "map", 0).usable, np.tile(alone.usable, (N_COPIES, 1)))


class TestMap:
    def test_it_is_the_mode_of_the_composite_likelihood(self, partial: Fit) -> None:
        """By another optimiser, on the weighted copies of the fit."""
        data = partial.likelihood_data
        assert data.weight.sum() == pytest.approx(2 * partial.n_questions)
        raw = partial.tree["unconstrained_posterior"].to_dataset().isel(chain=0, draw=0)
        found, unravel = ravel_pytree({str(name): values.to_numpy() for name, values in raw.items()})
        found = np.asarray(found)

        @jax.jit
        @jax.value_and_grad
        def loss(vector):
            return penalised_loss(model_of(partial.preset), unravel(vector), data)

        with jax.enable_x64(True):
            here = float(loss(found)[0])
            start = found + np.random.default_rng(0).normal(0, 0.1, len(found))
            theirs = optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8})
        assert here == pytest.approx(theirs.fun, abs=1e-8)
        assert partial.tree["sample_stats"]["loss"].item() == pytest.approx(here, abs=1e-8)

    def test_the_share_of_the_reports_enters_the_final_calibration(self, questions: Observations, partial: Fit) -> None:
        assert partial.recalibration.coefficients.keys() == {"intercept", "slope", "share"}
        assert "share" not in fit_map(questions).recalibration.coefficients
        values = {name: value.item() for name, value in partial.recalibration.coefficients.items()}
        for n in (1, 3):
            table = partial.predict(keeping(questions, n))
            table = table[table["n_used"] > 0]
            share = np.log(table["n_used"] / 5)
            logit = np.log(table["support"]) - np.log1p(-table["support"])
            score = values["intercept"] + values["slope"] * logit + values["share"] * share
            np.testing.assert_allclose(table["probability"], 1 / (1 + np.exp(-score)), rtol=1e-6)

    def test_members_of_a_batch_and_the_order_of_questions_do_not_matter(self, questions: Observations) -> None:
        chosen = np.arange(len(questions)) % 3 != np.arange(2)[:, None]
        together = fit_map_batch(questions, chosen, partial=True, seed=2)[1]
        order = np.random.default_rng(0).permutation(np.flatnonzero(chosen[1]))
        alone = fit_map(questions.select(order), partial=True, seed=2)
        new = keeping(questions, 2)
        np.testing.assert_allclose(together.predict(new)["probability"], alone.predict(new)["probability"], atol=1e-6)

    @pytest.mark.slow
    def test_its_probabilities_hold_for_questions_that_lack_reports(self) -> None:
        """On simulated panels an ordinary fit says too much of a single report, and a partial one what is so."""
        known, new = simulate_observations(300, seed=8), simulate_observations(3000, seed=9)
        order = np.where(new.usable, np.random.default_rng(0).random(new.shape), np.inf).argsort(axis=1)
        new = new.select(new.answered).without(order.argsort(axis=1)[new.answered] > 0)
        bias = {}
        for how in (False, True):
            table = fit_map(known, partial=how).predict(new, warn=False)
            bias[how] = table["probability"].mean() - new.is_right(table["answer"]).mean()
        assert bias[False] > 0.1
        assert abs(bias[True]) < 0.05

    @pytest.mark.parametrize("preset", ["paper", pytest.param("release", marks=pytest.mark.slow)])
    def test_every_preset_takes_it(self, preset: str) -> None:
        questions = simulate_observations(30, seed=4)
        fit = fit_map(questions, preset=preset, partial=True)
        assert fit.predict(keeping(questions, 1))["probability"].dropna().between(0, 1).all()


class TestWhatAFitKeeps:
    def test_file_and_predictor(self, questions: Observations, partial: Fit, tmp_path) -> None:
        partial.save(tmp_path / "fit.nc")
        partial.export(tmp_path / "fit.json")
        loaded, predictor = Fit.load(tmp_path / "fit.nc"), Predictor.load(tmp_path / "fit.json")
        assert loaded.partial
        np.testing.assert_array_equal(loaded.likelihood_data.merged, partial.likelihood_data.merged)
        new = keeping(questions, 2)
        expected = partial.predict(new)
        pd.testing.assert_frame_equal(loaded.predict(new), expected)
        for question, used, confidence in zip(new.questions, new.usable, expected["probability"], strict=True):
            given = [report.model_dump(exclude_none=True) for report in question.observations]
            kept = [report for report in given if used[new.level_names.index(report["level_name"])]]
            said = predictor.predict(kept)["probability"]
            assert said == pytest.approx(None if np.isnan(confidence) else confidence, rel=1e-12)

    def test_its_questions_are_those_given(self, questions: Observations, partial: Fit) -> None:
        n = int((questions.labelled & questions.answered).sum())
        assert partial.n_questions == n == partial.tree["observed_data"].sizes["problem"]
        assert len(partial.likelihood_data.weight) == N_COPIES * n


@pytest.fixture(scope="module")
def drawn(questions: Observations) -> Fit:
    sampling = SamplingSettings(n_chains=2, n_warmup=150, n_draws=100)
    return fit_nuts(questions.select(slice(0, 60)), sampling=sampling, partial=True, seed=2)


@pytest.mark.slow
class TestNuts:
    def test_the_copies_of_a_question_count_as_one(self, drawn: Fit) -> None:
        data = drawn.likelihood_data
        assert data.weight.sum() == pytest.approx(drawn.n_questions)
        assert len(data.weight) == N_COPIES * drawn.n_questions

    def test_all_copies_of_a_question_are_left_out_together(self, drawn: Fit) -> None:
        """Raw importance weights come near the smoothed ones, and only if they are those of all copies."""
        from bayes_direag.inference.posterior import evaluated_draws

        raw = drawn.tree["unconstrained_posterior"].to_dataset()
        data = drawn.likelihood_data
        given = {str(name): values.to_numpy() for name, values in raw.items()}
        by_row = evaluated_draws(model_of(drawn.preset), given, data).log_likelihood
        by_row = by_row.reshape(-1, by_row.shape[-1])
        n = drawn.n_questions
        removed = (by_row * np.asarray(data.weight)).reshape(len(by_row), N_COPIES, n).sum(axis=1)
        weight = np.exp(-removed) / np.exp(-removed).sum(axis=0)
        expected = np.log((weight * np.exp(by_row[:, :n])).sum(axis=0))
        np.testing.assert_allclose(drawn.left_out["elpd"], expected, atol=0.02)
        plain = np.log(1 / np.exp(-by_row[:, :n]).mean(axis=0))
        assert np.abs(drawn.left_out["elpd"] - expected).sum() < np.abs(drawn.left_out["elpd"] - plain).sum()

    def test_its_groups_are_of_the_questions_given(self, drawn: Fit) -> None:
        tree = drawn.with_predictive().tree
        for group in ("posterior_predictive", "log_likelihood", "loo", "constant_data"):
            assert tree[group].sizes["problem"] == drawn.n_questions
        assert set(drawn.recalibration.coefficients) == {"intercept", "slope", "share"}


class TestTheGuard:
    def test_how_much_fewer_reports_do(self, questions: Observations) -> None:
        """By a plain loop over every part of the reports; random ones are within sampling error of that."""
        whole = questions.select(questions.usable.all(axis=1))
        fit = fit_map(whole)
        parameters, final = fit.predictor.parameters, fit.recalibration
        found = EnoughReports.of(fit.reports(whole), parameters, final).too_high
        every = distribution(fit.reports(whole), parameters, final)
        expected = []
        for left in range(1, 5):
            moved = []
            for kept in combinations(range(5), left):
                fewer = whole.without(~np.isin(np.arange(5), kept)[None] & whole.usable)
                table = fit.predict(fewer, warn=False)
                place = [own.index(answer) for own, answer in zip(whole.candidates, table["answer"], strict=True)]
                moved.append(table["probability"].to_numpy() - every[np.arange(len(whole)), place])
            expected.append(np.mean(moved))
            assert found[left - 1] == pytest.approx(expected[-1], abs=4 * np.std(moved) / np.sqrt(len(whole)))
        assert expected[0] > expected[-1]

    def test_few_reports_are_marked_and_warned_of(self, questions: Observations, tmp_path) -> None:
        whole = questions.select(questions.usable.all(axis=1))
        fit = fit_map(whole)
        fit.__dict__["enough_reports"] = enough = EnoughReports((0.3, 0.1, 0.05, 0.01))
        missing = np.repeat([2, 3, 2, 1, 0], [1, 1, 1, 1, len(whole) - 4])
        mixed = whole.without(missing[:, None] > np.arange(5))
        said = r"Too few reports in 3 of \d+ questions: 2 to 3 usable, .*at least 5.*too high by about 7 points"
        with pytest.warns(FewReportsWarning, match=said):
            table = fit.predict(mixed)
        assert np.flatnonzero(table["few_reports"]).tolist() == [0, 1, 2]
        assert enough.remark(np.array([4, 5, 0])) is None
        fit.export(tmp_path / "fit.json")
        predictor = Predictor.load(tmp_path / "fit.json")
        assert predictor.enough_reports == enough
        reports = [report.model_dump(exclude_none=True) for report in whole.questions[0].observations]
        assert not predictor.predict(reports)["few_reports"]
        with pytest.warns(FewReportsWarning, match="too high by about 30 points"):
            assert predictor.predict(reports[:1])["few_reports"]

    def test_a_partial_fit_has_none(self, questions: Observations, partial: Fit, tmp_path) -> None:
        assert "few_reports" not in partial.predict(keeping(questions, 1))
        partial.export(tmp_path / "fit.json")
        report = {"level": questions.level_names[0], "answer": "1", "confidence": 90}
        assert "few_reports" not in Predictor.load(tmp_path / "fit.json").predict([report])
