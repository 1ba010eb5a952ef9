"""Posterior predictive checks: by hand, against brute force, and over many labels drawn from the model itself."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from analysis.diagnosis.posterior_checks import (
    ALL_QUESTIONS,
    POOLED,
    SMALLEST_PATTERN,
    agreement_patterns,
    compared,
    joint_tail_probability,
    pooled_patterns,
    predictive_checks,
    selected_is_right,
)
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, good_fit, made_posterior, replaced

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
