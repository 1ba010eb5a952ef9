"""What is said of questions left out, against ArviZ and over outcomes drawn as stated."""

import arviz_stats
import numpy as np
import pytest

from analysis.diagnosis.loo_checks import (
    calibration_check,
    calibration_tail_probability,
    effective_parameters,
    left_out_probabilities,
    loo_summary,
    pareto_counts,
    worst_questions,
)
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import around, gaussian_draws, good_fit, made_fit, made_posterior, natural, replaced


class TestSummary:
    def test_against_arviz(self):
        fit = good_fit()
        expected = arviz_stats.loo(fit.tree, pointwise=True, var_name="target")
        found = loo_summary(replaced(fit, "loo", elpd=expected.elpd_i.to_numpy()))
        assert found.elpd == pytest.approx(expected.elpd)
        assert found.se == pytest.approx(expected.se)
        assert found.p_loo == pytest.approx(expected.p)
        assert found.n == 120


class TestPareto:
    def test_the_ranges_hold_their_upper_ends(self):
        k = np.array([-0.3, 0.5, 0.51, 0.7, 0.71, 1.0, 1.01, np.inf, np.nan, np.nan])
        assert pareto_counts(k)["n"].tolist() == [2, 2, 2, 2, 2]

    def test_no_questions(self):
        assert pareto_counts(np.zeros(0))["n"].tolist() == [0, 0, 0, 0, 0]

    def test_the_worst_are_named_the_undefined_first(self):
        fit = good_fit()
        k = np.linspace(0, 0.4, 120)
        k[[7, 30, 31]] = 0.9, np.nan, 1.4
        worst = worst_questions(replaced(fit, "loo", pareto_k=k), most=4)
        names = fit.tree["loo"]["problem"].to_numpy()
        assert worst["problem_id"].tolist() == names[[30, 31, 7, 119]].tolist()
        assert worst["elpd"].tolist() == fit.tree["loo"]["elpd"].to_numpy()[[30, 31, 7, 119]].tolist()


class TestProbabilities:
    def test_they_are_those_of_the_answers_selected_without_their_labels(self):
        fit = good_fit(calibrated=(0.4, 1.7))
        found = left_out_probabilities(fit)
        for name, values in found.items():
            np.testing.assert_array_equal(values, fit.tree["loo"][name])
        assert np.abs(found["confidence"] - found["support"]).mean() > 0.02

    def test_without_a_calibration_there_is_support_alone(self):
        settings = named_preset("bayes").override(recalibration={"method": "none"})
        fit = made_posterior(simulate_observations(30, seed=1), gaussian_draws(1), preset=settings)
        assert list(left_out_probabilities(fit)) == ["support"]


class TestCalibration:
    def check(self, stated: np.ndarray, correct: np.ndarray, seed: int = 0) -> float:
        return calibration_tail_probability(stated, correct, np.random.default_rng(seed))

    def test_answers_right_as_often_as_stated(self):
        rng = np.random.default_rng(3)
        stated = rng.beta(2, 1.3, 150)
        tails = [self.check(stated, rng.random(150) < stated, seed) for seed in range(120)]
        assert np.mean(tails) == pytest.approx(0.5, abs=0.08)
        assert np.mean(np.array(tails) < 0.1) == pytest.approx(0.1, abs=0.06)

    @pytest.mark.parametrize("off", [-0.2, 0.2])
    def test_stated_too_low_or_too_high(self, off):
        rng = np.random.default_rng(4)
        stated = rng.uniform(0.25, 0.75, 400)
        assert self.check(stated, rng.random(400) < stated + off) < 0.005

    def test_bins_are_those_of_the_ece(self):
        stated = np.array([0.1, 0.1 + 1e-9, 0.5, 1.0, 0.0])
        found = calibration_check(stated, np.array([True] * 5), interval_level=0.9, rng=np.random.default_rng(0))
        assert found.reliability.bins["n"].tolist() == [2, 1, 0, 0, 1, 0, 0, 0, 0, 1]

    def test_what_is_undefined_is_left_out_and_counted(self):
        rng = np.random.default_rng(5)
        stated = rng.uniform(0.2, 0.9, 50)
        correct = rng.random(50) < stated
        some = stated.copy()
        some[:10] = np.nan
        found = calibration_check(some, correct, interval_level=0.9, rng=np.random.default_rng(0))
        alone = calibration_check(stated[10:], correct[10:], interval_level=0.9, rng=np.random.default_rng(0))
        assert found.n_undefined == 10
        assert found.reliability.n == 40
        assert found.reliability.ece == alone.reliability.ece

    def test_nothing_defined(self):
        found = calibration_check(
            np.full(4, np.nan), np.ones(4, bool), interval_level=0.9, rng=np.random.default_rng(0)
        )
        assert np.isnan(found.tail_probability)
        assert found.n_undefined == 4

    def test_one_seed_one_answer(self):
        stated = np.linspace(0.1, 0.9, 60)
        correct = stated > 0.45
        assert self.check(stated, correct, 1) == self.check(stated, correct, 1)


def test_effective_parameters_of_a_normal_mean() -> None:
    """A normal mean under a flat prior: y_i given the others is normal with variance 1 + 1 / (n - 1)."""
    rng, n = np.random.default_rng(3), 60
    y = rng.standard_normal(n)
    mean = y.mean() + rng.standard_normal((4, 1000)) / np.sqrt(n)
    log_likelihood = -0.5 * np.log(2 * np.pi) - 0.5 * (y - mean[..., None]) ** 2
    given = around(natural(5), rng, n_draws=1000)
    given = {name: np.concatenate([value, value]) for name, value in given.items()}
    fit = made_fit(simulate_observations(n, seed=0), given, log_likelihood=log_likelihood)

    def log_normal(value: np.ndarray, centre: np.ndarray | float, variance: float) -> np.ndarray:
        return -0.5 * np.log(2 * np.pi * variance) - (value - centre) ** 2 / (2 * variance)

    others = (y.sum() - y) / (n - 1)
    left_out = log_normal(y, others, 1 + 1 / (n - 1)).sum()
    assert fit.tree["loo"]["elpd"].sum().item() == pytest.approx(left_out, abs=0.1)
    seen = log_normal(y, y.mean(), 1 + 1 / n).sum()
    assert effective_parameters(fit) == pytest.approx(seen - left_out, abs=0.1)
    assert 0.5 < seen - left_out < 1.5
