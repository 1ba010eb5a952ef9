"""What is said of questions left out, against ArviZ and over outcomes drawn as stated."""

import arviz_stats
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from analysis.diagnosis.checks import (
    ALL_QUESTIONS,
    POOLED,
    SMALLEST_PATTERN,
    agreement_patterns,
    calibration_check,
    calibration_tail_probability,
    compared,
    effective_parameters,
    joint_tail_probability,
    left_out_probabilities,
    loo_summary,
    pareto_counts,
    pooled_patterns,
    predictive_checks,
    selected_is_right,
    worst_questions,
)
from bayes_direag.fits.fit import Fit
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


LEVEL = 0.9


class TestPatterns:
    def test_by_hand(self):
        candidate = np.array([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [2, 1, 0, 2, 2], [-1, 0, -1, 1, 1], [-1] * 5])
        assert agreement_patterns(candidate).tolist() == ["5", "4-1", "3-1-1", "2-1", "0"]

    @given(hnp.arrays(np.int64, (6, 5), elements=st.integers(-1, 4)), st.permutations(range(5)))
    def test_neither_the_order_of_levels_nor_the_names_of_answers_matter(self, candidate, order):
        renamed = np.where(candidate >= 0, np.array([*order, -1])[candidate], -1)
        expected = agreement_patterns(candidate).tolist()
        assert agreement_patterns(candidate[:, order]).tolist() == expected
        assert agreement_patterns(renamed).tolist() == expected

    def test_rare_ones_are_pooled_by_their_largest_group_and_then_together(self):
        few = SMALLEST_PATTERN - 5
        patterns = ["5"] * 40 + ["3-1-1"] * few + ["3-2"] * few + ["2-2-1"] * few + ["1-1-1"] * 2
        pooled = pooled_patterns(np.array(patterns, dtype=object)).tolist()
        assert pooled == ["5"] * 40 + ["3-..."] * 2 * few + [POOLED] * (few + 2)

    def test_nothing_to_pool(self):
        patterns = np.array(["5"] * SMALLEST_PATTERN + ["4-1"] * SMALLEST_PATTERN, dtype=object)
        assert pooled_patterns(patterns).tolist() == patterns.tolist()

    def test_a_large_set_pools_more(self):
        patterns = np.array(["5"] * 960 + ["4-1"] * 39 + ["3-2"], dtype=object)
        assert set(pooled_patterns(patterns)) == {"5", POOLED}
        patterns = np.array(["5"] * 960 + ["4-1"] * 40, dtype=object)
        assert set(pooled_patterns(patterns)) == {"5", "4-1"}


class TestSelectedIsRight:
    def test_one_right_answer(self):
        right = np.array([[True, False, False], [False, True, False], [False, False, False]])
        drawn = np.array([[0, 0, 0], [1, 1, -1], [-1, -1, 1]])
        found = selected_is_right(drawn, np.array([0, 0, 1]), right)
        assert found.tolist() == [[True, True, False], [False, False, False], [False, False, True]]

    def test_several_right_answers_are_one_state(self):
        right = np.array([[True, True, False]])
        drawn = np.array([[0], [1], [2], [-1]])
        assert selected_is_right(drawn, np.array([0]), right).ravel().tolist() == [True, True, False, False]
        assert selected_is_right(drawn, np.array([2]), right).ravel().tolist() == [False, False, True, False]

    @given(
        hnp.arrays(bool, (4, 3)),
        hnp.arrays(np.int64, (4,), elements=st.integers(0, 2)),
        hnp.arrays(np.int64, (5, 4), elements=st.integers(-1, 2)),
    )
    def test_against_sets(self, right, selected, drawn):
        found = selected_is_right(drawn, selected, right)
        for question in range(4):
            correct = set(np.flatnonzero(right[question]))
            states = correct if selected[question] in correct else {selected[question]}
            assert found[:, question].tolist() == [state in states for state in drawn[:, question]]

    def test_it_has_the_probability_that_the_likelihood_gives(self):
        rng = np.random.default_rng(0)
        right, support = np.array([[True, False, True]]), np.array([0.3, 0.4, 0.2, 0.1])
        drawn = rng.choice([0, 1, 2, -1], p=support, size=(40_000, 1))
        assert selected_is_right(drawn, np.array([2]), right).mean() == pytest.approx(0.5, abs=0.01)


class TestCompared:
    def test_by_hand(self):
        replicated = np.arange(1.0, 101.0)[:, None] * np.array([1, 2])
        table = compared(np.array([1.0, 100.0]), replicated, LEVEL)
        assert table["predicted"].tolist() == [50.5, 101]
        assert table["low"].tolist() == pytest.approx([5.95, 11.9])
        assert table["high"].tolist() == pytest.approx([95.05, 190.1])
        assert table["tail_probability"].tolist() == [0.02, 1.0]

    def test_beyond_every_draw(self):
        table = compared(np.array([-1.0, 101.0]), np.repeat(np.arange(101.0)[:, None], 2, axis=1), LEVEL)
        assert table["tail_probability"].tolist() == [0, 0]

    def test_figures_that_do_not_vary(self):
        table = compared(np.array([1.0]), np.ones((50, 1)), LEVEL)
        assert table["tail_probability"].tolist() == [1]


class TestJointTailProbability:
    def test_it_is_uniform_where_figures_are_drawn_as_predicted(self):
        rng = np.random.default_rng(1)
        replicated = rng.standard_normal((2000, 5)) @ rng.standard_normal((5, 5))
        found = [
            joint_tail_probability(row, np.delete(replicated, n, axis=0)) for n, row in enumerate(replicated[:400])
        ]
        assert np.mean(found) == pytest.approx(0.5, abs=0.05)
        assert np.mean(np.array(found) < 0.1) == pytest.approx(0.1, abs=0.05)

    def test_many_small_deviations_add_up(self):
        replicated = np.random.default_rng(2).standard_normal((4000, 30))
        assert joint_tail_probability(np.full(30, 1.5), replicated) < 0.002
        assert joint_tail_probability(np.zeros(30), replicated) == 1

    def test_every_figure_counts_in_its_own_units(self):
        replicated = np.random.default_rng(4).standard_normal((1000, 2)) * np.array([1e-3, 1e3])
        assert joint_tail_probability(np.array([6e-3, 0.0]), replicated) == 0

    def test_a_figure_that_no_draw_varies(self):
        replicated = np.column_stack([np.random.default_rng(3).standard_normal(100), np.ones(100)])
        assert joint_tail_probability(np.array([0.0, 1.0]), replicated) > 0.8
        assert joint_tail_probability(np.array([0.0, 0.5]), replicated) == 0


def observed_again(fit: Fit, right: np.ndarray) -> Fit:
    selected_right = right[np.arange(len(right)), fit.tree["loo"]["candidate"].to_numpy()]
    return replaced(replaced(fit, "labels", correct=right), "loo", correct=selected_right)


class TestChecks:
    def test_rows_and_figures(self):
        fit = good_fit(n=200)
        found = predictive_checks(fit, LEVEL)
        table = found.table
        assert table["statistic"].unique().tolist() == ["accuracy", "null"]
        for _, rows in table.groupby("statistic"):
            assert rows["pattern"].iloc[-1] == ALL_QUESTIONS
            assert rows["n"].iloc[:-1].sum() == rows["n"].iloc[-1] == 200
        right = fit.tree["labels"]["correct"].to_numpy()
        overall = table[table["pattern"] == ALL_QUESTIONS].set_index("statistic")
        assert overall.loc["accuracy", "observed"] == fit.tree["loo"]["correct"].to_numpy().mean()
        assert overall.loc["null", "observed"] == (~right.any(axis=1)).mean()
        drawn = fit.tree["posterior_predictive"]["target"].to_numpy().reshape(-1, 200)
        assert overall.loc["null", "predicted"] == pytest.approx((drawn < 0).mean())
        assert overall.loc["null", "low"] == np.quantile((drawn < 0).mean(axis=1), 0.05)
        here = agreement_patterns(fit.tree["constant_data"]["candidate"].to_numpy()) == "5"
        unanimous = table[table["pattern"] == "5"].set_index("statistic")
        assert unanimous.loc["accuracy", "n"] == here.sum()
        assert unanimous.loc["null", "observed"] == (~right[here].any(axis=1)).mean()

    def test_patterns_go_from_most_to_least_agreement(self):
        table = predictive_checks(good_fit(n=200), LEVEL).table
        patterns = table.loc[table["statistic"] == "accuracy", "pattern"].tolist()
        order = [
            "5",
            "5-...",
            "4",
            "4-1",
            "4-...",
            "3-2",
            "3-1-1",
            "3-1",
            "3-...",
            "2-2-1",
            "2-1-1-1",
            "2-...",
            "1-...",
        ]
        assert len(patterns) > 4
        assert patterns == [one for one in [*order, POOLED, ALL_QUESTIONS] if one in patterns]

    def test_labels_from_the_model_lie_inside_at_the_stated_rate(self):
        raw = gaussian_draws(7, spread=0.0, n_draws=100)
        fit = made_posterior(simulate_observations(200, seed=7), raw)
        drawn = fit.tree["posterior_predictive"]["target"].to_numpy().reshape(-1, 200)
        inside, joint = [], []
        for own in drawn[:60]:
            right = own[:, None] == np.arange(5)
            found = predictive_checks(observed_again(fit, right), LEVEL)
            table = found.table
            inside.append(((table["observed"] >= table["low"]) & (table["observed"] <= table["high"])).mean())
            joint.append(found.tail_probability)
        # shares are discrete, so an interval holds a little more than it states
        assert LEVEL - 0.02 <= np.mean(inside) <= LEVEL + 0.07
        assert np.mean(np.array(joint) < 0.1) == pytest.approx(0.1, abs=0.1)

    def test_corrupted_labels_lie_outside(self):
        fit = good_fit(n=300)
        right = fit.tree["labels"]["correct"].to_numpy()
        wrong = np.zeros_like(right)
        found = predictive_checks(observed_again(fit, wrong), LEVEL)
        table = found.table.set_index(["statistic", "pattern"])
        assert table.loc[("null", ALL_QUESTIONS), "tail_probability"] == 0
        assert table.loc[("accuracy", ALL_QUESTIONS), "observed"] == 0
        assert found.tail_probability == 0

    def test_labels_mixed_up_among_the_questions_lie_outside(self):
        fit = good_fit(n=400)
        right = fit.tree["labels"]["correct"].to_numpy()
        found = predictive_checks(observed_again(fit, np.random.default_rng(0).permutation(right)), LEVEL)
        assert found.tail_probability < 0.01
