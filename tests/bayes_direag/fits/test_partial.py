"""Copies of questions with fewer reports, the fits that learn from them, and what other fits say of fewer reports."""

from itertools import combinations

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize, stats

from bayes_direag import PRESETS, Fit, Observations, fit_map, fit_nuts, simulate_observations
from bayes_direag.decisions.estimate import estimate
from bayes_direag.errors import FewReportsWarning
from bayes_direag.fits.container import evaluated_draws
from bayes_direag.fits.copies import N_COPIES, thinned
from bayes_direag.fits.making import fits_by
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model.lacking import EnoughReports
from bayes_direag.model.models import model_of
from bayes_direag.model.selection import distribution
from bayes_direag.model.settings import FitSettings


@pytest.fixture(scope="module")
def questions(panel: Observations) -> Observations:
    return panel.select(slice(64))


@pytest.fixture(scope="module")
def whole(questions: Observations) -> Observations:
    return questions.select(questions.usable.all(axis=1))


@pytest.fixture(scope="module")
def ordinary(whole: Observations) -> Fit:
    return fit_map(whole)


def keeping(questions: Observations, n: int) -> Observations:
    """Return questions with their first n usable reports."""
    return questions.without(np.cumsum(questions.usable, axis=1) > n)


class TestCopies:
    def test_the_first_are_whole_and_the_others_have_some_of_the_reports(self, questions: Observations) -> None:
        copies, n = thinned(questions, "map", 0), len(questions)
        assert copies.problem_id == questions.problem_id * N_COPIES
        np.testing.assert_array_equal(copies.candidate[:n], questions.candidate)
        np.testing.assert_array_equal(copies.cluster_number, np.tile(np.arange(n), N_COPIES))
        assert copies.weight.sum() == 2 * n
        assert thinned(questions, "nuts", 0).weight.sum() == n
        usable, correct = (np.tile(each, (N_COPIES, 1)) for each in (questions.usable, questions.correct))
        assert not (copies.usable & ~usable).any()
        assert not (copies.correct & ~correct).any()
        assert (copies.answered == usable.any(axis=1)).all()
        alone = keeping(questions, 1)
        np.testing.assert_array_equal(thinned(alone, "map", 0).usable, np.tile(alone.usable, (N_COPIES, 1)))

    def test_every_number_of_reports_and_every_report_is_equally_likely(self) -> None:
        many = simulate_observations(2000, seed=1)
        many = many.select(many.usable.all(axis=1))
        usable = thinned(many, "map", 3).usable[len(many) :]
        numbers = np.bincount(usable.sum(axis=1), minlength=6)[1:]
        of_lone = usable[usable.sum(axis=1) == 1].sum(axis=0)
        assert min(stats.chisquare(counts).pvalue for counts in (numbers, of_lone)) > 1e-3

    def test_a_copy_depends_on_its_own_question_alone(self, questions: Observations) -> None:
        order, n = np.random.default_rng(0).permutation(len(questions))[:50], len(questions)
        some, all_of_them = thinned(questions.select(order), "map", 5), thinned(questions, "map", 5)
        places = np.concatenate([order + turn * n for turn in range(N_COPIES)])
        np.testing.assert_array_equal(some.usable, all_of_them.usable[places])
        assert (thinned(questions, "map", 6).usable != all_of_them.usable).any()


class TestMap:
    def test_it_is_the_mode_of_the_composite_likelihood(self, partial: Fit, questions: Observations) -> None:
        """By another optimiser, on the weighted copies of the fit."""
        data, n = partial.likelihood_data, questions.informative.sum()
        assert partial.n_questions == n == partial.tree["observed_data"].sizes["problem"]
        assert (data.weight.sum(), len(data.weight)) == (pytest.approx(2 * n), N_COPIES * n)
        unconstrained = partial.tree["unconstrained_posterior"].to_dataset().isel(chain=0, draw=0)
        mode, unravel = ravel_pytree({str(name): values.to_numpy() for name, values in unconstrained.items()})
        mode = np.asarray(mode)
        loss = jax.jit(
            jax.value_and_grad(
                lambda unconstrained: penalised_loss(model_of(partial.preset), unravel(unconstrained), data)
            )
        )
        with jax.enable_x64(True):
            here = float(loss(mode)[0])
            start = mode + np.random.default_rng(0).normal(0, 0.1, len(mode))
            theirs = optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-8})
        assert here == pytest.approx(theirs.fun, abs=1e-8)
        assert partial.tree["sample_stats"]["loss"].item() == pytest.approx(here, abs=1e-8)

    def test_the_share_of_the_reports_enters_the_final_calibration(self, ordinary, partial, questions) -> None:
        assert partial.recalibration.coefficients.keys() == {"intercept", "slope", "share"}
        assert "share" not in ordinary.recalibration.coefficients
        values = {name: value.item() for name, value in partial.recalibration.coefficients.items()}
        for n in (1, 3):
            table = partial.predict(keeping(questions, n)).query("n_used > 0")
            logit = np.log(table["support"]) - np.log1p(-table["support"])
            score = values["intercept"] + values["slope"] * logit + values["share"] * np.log(table["n_used"] / 5)
            np.testing.assert_allclose(table["probability"], 1 / (1 + np.exp(-score)), rtol=1e-6)

    def test_members_of_a_batch_and_the_order_of_questions_do_not_matter(self, questions: Observations) -> None:
        chosen = np.arange(len(questions)) % 3 != np.arange(2)[:, None]
        together = fits_by(FitSettings(PRESETS["bayes"], partial=True, seed=2), questions, chosen)[1]
        order = np.random.default_rng(0).permutation(np.flatnonzero(chosen[1]))
        alone, new = fit_map(questions.select(order), partial=True, seed=2), keeping(questions, 2)
        np.testing.assert_allclose(together.predict(new)["probability"], alone.predict(new)["probability"], atol=1e-6)

    @pytest.mark.slow
    def test_its_probabilities_hold_for_questions_that_lack_reports(self) -> None:
        """On simulated panels an ordinary fit says too much of a single report, and a partial one what is so."""
        known, new = simulate_observations(300, seed=8), simulate_observations(3000, seed=9)
        order = np.where(new.usable, np.random.default_rng(0).random(new.shape), np.inf).argsort(axis=1)
        new = new.select(new.answered).without(order.argsort(axis=1)[new.answered] > 0)
        tables = [fit_map(known, partial=how).predict(new, warn=False) for how in (False, True)]
        bias = [table["probability"].mean() - new.is_right(table["answer"]).mean() for table in tables]
        assert bias[0] > 0.1
        assert abs(bias[1]) < 0.05

    @pytest.mark.slow
    def test_every_preset_takes_it(self, questions: Observations) -> None:
        """Paper is tried with the policies."""
        fit = fit_map(questions, preset="release", partial=True)
        assert fit.predict(keeping(questions, 1))["probability"].dropna().between(0, 1).all()


@pytest.mark.slow
def test_partial_copies_of_a_question_count_as_one_and_are_left_out_together(questions: Observations) -> None:
    """Unconstrained importance weights come near the smoothed ones, and only if they are those of all copies."""
    sampling = {"num_chains": 2, "num_warmup": 150, "num_samples": 100}
    drawn = fit_nuts(questions.select(slice(0, 60)), **sampling, partial=True, seed=2)
    data, n = drawn.likelihood_data, drawn.n_questions
    assert (data.weight.sum(), len(data.weight)) == (pytest.approx(n), N_COPIES * n)
    draws = {
        str(name): values.to_numpy() for name, values in drawn.tree["unconstrained_posterior"].to_dataset().items()
    }
    by_row = evaluated_draws(model_of(drawn.preset), draws, data).log_likelihood.reshape(200, -1)
    removed = (by_row * np.asarray(data.weight)).reshape(200, N_COPIES, n).sum(axis=1)
    weight = np.exp(-removed) / np.exp(-removed).sum(axis=0)
    expected = np.log((weight * np.exp(by_row[:, :n])).sum(axis=0))
    np.testing.assert_allclose(drawn.left_out["elpd"], expected, atol=0.02)
    plain = np.log(1 / np.exp(-by_row[:, :n]).mean(axis=0))
    assert np.abs(drawn.left_out["elpd"] - expected).sum() < np.abs(drawn.left_out["elpd"] - plain).sum()
    tree = drawn.with_predictive().tree
    groups = ("posterior_predictive", "log_likelihood", "loo", "constant_data")
    assert {tree[group].sizes["problem"] for group in groups} == {n}
    assert set(drawn.recalibration.coefficients) == {"intercept", "slope", "share"}


class TestOrdinaryFits:
    def test_how_much_fewer_reports_do(self, whole: Observations, ordinary: Fit) -> None:
        """By a plain loop over every part of the reports; random ones are within sampling error of that."""
        asked, final = ordinary.evaluation(whole), ordinary.recalibration
        excess = EnoughReports.of(asked, final).excess
        every, expected = distribution(asked, final), []
        for left in range(1, 5):
            moved = []
            for kept in combinations(range(5), left):
                fewer = whole.without(~np.isin(np.arange(5), kept)[None] & whole.usable)
                table = ordinary.predict(fewer, warn=False)
                selected = [
                    answers.index(answer) for answers, answer in zip(whole.candidates, table["answer"], strict=True)
                ]
                moved.append(table["probability"].to_numpy() - every[np.arange(len(whole)), selected])
            expected.append(np.mean(moved))
            assert excess[left - 1] == pytest.approx(expected[-1], abs=4 * np.std(moved) / np.sqrt(len(whole)))
        assert expected[0] > expected[-1]

    def test_few_reports_are_marked_and_warned_of(self, whole: Observations, ordinary: Fit) -> None:
        fit = Fit(ordinary.tree)
        fit.__dict__["enough_reports"] = enough = EnoughReports((0.3, 0.1, 0.05, 0.01))
        missing = np.repeat([2, 3, 2, 1, 0], [1, 1, 1, 1, len(whole) - 4])
        said = r"Too few reports in 3 of \d+ questions: 2 to 3 usable, .*at least 5.*too high by about 7 points"
        with pytest.warns(FewReportsWarning, match=said):
            table = fit.predict(whole.without(missing[:, None] > np.arange(5)))
        assert np.flatnonzero(table["few_reports"]).tolist() == [0, 1, 2]
        assert enough.remark(np.array([4, 5, 0])) is None
        new = simulate_observations(30, seed=9)
        predicted = estimate(fit, new.without(np.repeat([[False, True, True, True, True]], 30, axis=0)))
        assert "This is too high by about 30 points, as reports are missing." in predicted.text()
        reports = [report.model_dump(exclude_none=True) for report in whole.questions[0].observations]
        assert not fit.answer(reports)["few_reports"]
        (remark,) = fit.answer(reports[:1])["remarks"]
        assert "too high by about 30 points" in remark
