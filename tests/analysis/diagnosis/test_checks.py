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
    compared,
    joint_tail_probability,
    leave_one_out_check,
    left_out_probabilities,
    pooled_patterns,
    predictive_checks,
    selected_is_right,
)
from bayes_direag.fits.fit import Fit
from tests.analysis.fits import good_fit, replaced

LEVEL = 0.9


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestLeftOut:
    def test_the_summary_is_arviz_s(self):
        fit = good_fit()
        expected = arviz_stats.loo(fit.tree, pointwise=True, var_name="target")
        found = leave_one_out_check(replaced(fit, "loo", elpd=expected.elpd_i.to_numpy()))
        assert (found.elpd, found.se, found.p_loo) == pytest.approx((expected.elpd, expected.se, expected.p))
        assert (found.n, found.n_bad, found.n_undefined, found.worst) == (120, 0, 0, ())

    def test_the_worst_are_named_the_undefined_first(self):
        fit = good_fit()
        k = np.linspace(0, 0.7, 120)
        k[[7, 30, 31, 32]] = 0.71, np.nan, np.inf, 0.9
        found = leave_one_out_check(replaced(fit, "loo", pareto_k=k))
        assert (found.n_bad, found.n_undefined) == (4, 1)
        assert list(found.worst) == fit.tree["loo"]["problem"].to_numpy()[[30, 31, 32]].tolist()

    def test_probabilities_are_those_of_the_answers_selected_without_their_labels(self):
        fit = good_fit(calibrated=(0.4, 1.7))
        found = left_out_probabilities(fit)
        for name, values in found.items():
            np.testing.assert_array_equal(values, fit.tree["loo"][name])
        assert np.abs(found["confidence"] - found["support"]).mean() > 0.02


class TestCalibration:
    def test_what_is_undefined_is_left_out_and_counted_and_bins_are_those_of_the_ece(self):
        stated = np.array([0.1, 0.1 + 1e-9, np.nan, 0.5, 1.0, 0.0])
        found = calibration_check(stated, np.ones(6, bool), interval_level=LEVEL, rng=rng())
        assert (found.n_undefined, found.reliability.n) == (1, 5)
        assert found.reliability.bins["n"].tolist() == [2, 1, 0, 0, 1, 0, 0, 0, 0, 1]
        alone = calibration_check(stated[~np.isnan(stated)], np.ones(5, bool), interval_level=LEVEL, rng=rng())
        assert (found.reliability.ece, found.calibration) == (alone.reliability.ece, alone.calibration)
        nothing = calibration_check(np.full(4, np.nan), np.ones(4, bool), interval_level=LEVEL, rng=rng())
        assert (nothing.calibration.n, nothing.n_undefined) == (0, 4)


class TestPatterns:
    @given(hnp.arrays(np.int64, (6, 5), elements=st.integers(-1, 4)), st.permutations(range(5)))
    def test_neither_the_order_of_levels_nor_the_names_of_answers_matter(self, candidate, order):
        renamed = np.where(candidate >= 0, np.array([*order, -1])[candidate], -1)
        expected = agreement_patterns(candidate).tolist()
        assert agreement_patterns(candidate[:, order]).tolist() == expected
        assert agreement_patterns(renamed).tolist() == expected

    @pytest.mark.parametrize(
        ("counts", "expected"),
        [
            (
                {"5": 40, "3-1-1": 15, "3-2": 15, "2-2-1": 15, "1-1-1": 2},
                ["5"] * 40 + ["3-..."] * 30 + [POOLED] * 17,
            ),
            ({"5": SMALLEST_PATTERN, "4-1": SMALLEST_PATTERN}, ["5"] * 20 + ["4-1"] * 20),
            ({"5": 960, "4-1": 39, "3-2": 1}, ["5"] * 960 + [POOLED] * 40),
            ({"5": 960, "4-1": 40}, ["5"] * 960 + ["4-1"] * 40),
        ],
        ids=["by the largest group, then together", "nothing to pool", "a large set pools more", "at the limit"],
    )
    def test_rare_ones_are_pooled(self, counts, expected):
        patterns = np.repeat(np.array([*counts], dtype=object), [*counts.values()])
        assert pooled_patterns(patterns).tolist() == expected


@given(
    hnp.arrays(bool, (4, 3)),
    hnp.arrays(np.int64, (4,), elements=st.integers(0, 2)),
    hnp.arrays(np.int64, (5, 4), elements=st.integers(-1, 2)),
)
def test_right_answers_together_are_one_state(right, selected, drawn):
    found = selected_is_right(drawn, selected, right)
    for question in range(4):
        correct = set(np.flatnonzero(right[question]))
        states = correct if selected[question] in correct else {selected[question]}
        assert found[:, question].tolist() == [state in states for state in drawn[:, question]]


class TestAgainstDraws:
    def test_by_hand(self):
        replicated = np.arange(1.0, 101.0)[:, None] * np.array([1, 2])
        table = compared(np.array([1.0, 100.0]), replicated, LEVEL)
        assert table["predicted"].tolist() == [50.5, 101]
        assert table["low"].tolist() == pytest.approx([5.95, 11.9])
        assert table["high"].tolist() == pytest.approx([95.05, 190.1])
        assert table["tail_probability"].tolist() == [0.02, 1.0]

    def test_beyond_every_draw_and_where_none_varies(self):
        table = compared(np.array([-1.0, 101.0]), np.repeat(np.arange(101.0)[:, None], 2, axis=1), LEVEL)
        assert table["tail_probability"].tolist() == [0, 0]
        assert compared(np.array([1.0]), np.ones((50, 1)), LEVEL)["tail_probability"].tolist() == [1]

    def test_together_they_are_uniform_where_figures_are_drawn_as_predicted(self):
        draw = rng(1)
        replicated = draw.standard_normal((2000, 5)) @ draw.standard_normal((5, 5))
        found = [
            joint_tail_probability(row, np.delete(replicated, n, axis=0)) for n, row in enumerate(replicated[:400])
        ]
        assert np.mean(found) == pytest.approx(0.5, abs=0.05)
        assert np.mean(np.array(found) < 0.1) == pytest.approx(0.1, abs=0.05)

    def test_many_small_deviations_add_up_each_in_its_own_units(self):
        replicated = rng(2).standard_normal((4000, 30)) * np.geomspace(1e-3, 1e3, 30)
        assert joint_tail_probability(1.5 * np.geomspace(1e-3, 1e3, 30), replicated) < 0.002
        assert joint_tail_probability(np.zeros(30), replicated) == 1
        assert joint_tail_probability(np.array([8e-3, *[0.0] * 29]), replicated) < 0.002

    def test_a_figure_that_no_draw_varies(self):
        replicated = np.column_stack([rng(3).standard_normal(100), np.ones(100)])
        assert joint_tail_probability(np.array([0.0, 1.0]), replicated) > 0.8
        assert joint_tail_probability(np.array([0.0, 0.5]), replicated) == 0


def observed_again(fit: Fit, right: np.ndarray) -> Fit:
    selected_right = right[np.arange(len(right)), fit.tree["loo"]["candidate"].to_numpy()]
    return replaced(replaced(fit, "labels", correct=right), "loo", correct=selected_right)


class TestPredictive:
    def test_rows_and_figures(self):
        fit = good_fit()
        table = predictive_checks(fit, LEVEL).table
        assert table["statistic"].unique().tolist() == ["accuracy", "null"]
        for _, rows in table.groupby("statistic"):
            assert rows["n"].iloc[:-1].sum() == rows["n"].iloc[-1] == 120
        right = fit.tree["labels"]["correct"].to_numpy()
        overall = table[table["pattern"] == ALL_QUESTIONS].set_index("statistic")
        assert overall.loc["accuracy", "observed"] == fit.left_out["correct"].to_numpy().mean()
        assert overall.loc["null", "observed"] == (~right.any(axis=1)).mean()
        drawn = fit.tree["posterior_predictive"]["target"].to_numpy().reshape(-1, 120)
        assert overall.loc["null", "predicted"] == pytest.approx((drawn < 0).mean())
        assert overall.loc["null", "low"] == np.quantile((drawn < 0).mean(axis=1), 0.05)
        here = agreement_patterns(fit.tree["constant_data"]["candidate"].to_numpy()) == "5"
        unanimous = table[table["pattern"] == "5"].set_index("statistic")
        assert unanimous.loc["accuracy", "n"] == here.sum()
        assert unanimous.loc["null", "observed"] == (~right[here].any(axis=1)).mean()

    def test_patterns_go_from_most_to_least_agreement(self):
        table = predictive_checks(good_fit(), LEVEL).table
        patterns = table.loc[table["statistic"] == "accuracy", "pattern"].tolist()
        *own, last = patterns
        assert last == ALL_QUESTIONS
        assert POOLED not in own[:-1]
        sizes = [[-int(size) for size in one.replace("...", "0").split("-")] for one in own if one != POOLED]
        assert sizes == sorted(sizes)
        assert len(sizes) > 3

    def test_labels_from_the_model_lie_inside_at_the_stated_rate_and_others_outside(self):
        fit = good_fit()
        drawn = fit.tree["posterior_predictive"]["target"].to_numpy().reshape(-1, 120)
        inside, joint = [], []
        for own in drawn[:30]:
            found = predictive_checks(observed_again(fit, own[:, None] == np.arange(5)), LEVEL)
            inside.append(found.table["observed"].between(found.table["low"], found.table["high"]).mean())
            joint.append(found.tail_probability)
        # shares are discrete, so an interval holds a little more than it states
        assert LEVEL - 0.02 <= np.mean(inside) <= LEVEL + 0.07
        assert np.mean(np.array(joint) < 0.1) == pytest.approx(0.1, abs=0.1)
        right = fit.tree["labels"]["correct"].to_numpy()
        nobody = predictive_checks(observed_again(fit, np.zeros_like(right)), LEVEL)
        assert nobody.table.set_index(["statistic", "pattern"]).loc[("null", ALL_QUESTIONS), "tail_probability"] == 0
        assert nobody.tail_probability == 0
        assert predictive_checks(observed_again(fit, rng().permutation(right)), LEVEL).tail_probability < 0.01
