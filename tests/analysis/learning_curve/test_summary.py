"""Means, their errors where the truth is known, and who is in the best group."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from analysis.learning_curve.curve import CURVE_METRICS, over_splits, summarise
from tests.analysis.learning_curve.made_results import made_results


class TestOverSplits:
    def test_the_equation(self) -> None:
        value, gap = np.array([0.1, 0.2, 0.3, 0.6]), np.array([0.1, -0.3, 0.1, 0.2])
        found = over_splits(value, gap, tested_share=0.4)
        variance = sum((one - 0.3) ** 2 for one in value) / 3
        error = math.sqrt(variance / 4 + 0.4 * (0.01 + 0.09 + 0.01 + 0.04) / 4 / 4)
        assert found == pytest.approx((4, 0.3, math.sqrt(variance), error))
        reach = error * student.ppf(0.95, 3)
        assert found.interval(0.9) == pytest.approx((0.3 - reach, 0.3 + reach))

    def test_undefined_splits_are_left_out_and_counted(self) -> None:
        found = over_splits(np.array([0.1, np.nan, 0.3]), np.array([np.nan, np.nan, 0.2]), tested_share=0.5)
        assert found[:2] == (2, pytest.approx(0.2))
        assert found.standard_error == pytest.approx(math.sqrt(0.02 / 2 + 0.5 * 0.01))

    def test_too_little(self) -> None:
        nothing = np.array([])
        assert over_splits(nothing, nothing, 0.5).n_splits == 0
        assert np.isnan(over_splits(nothing, nothing, 0.5)[1:]).all()
        one = over_splits(np.array([0.3]), np.array([0.1]), 0.5)
        assert one.mean == 0.3
        assert np.isnan([one.standard_error, *one.interval(0.9)]).all()

    @pytest.mark.parametrize("spread_of_fits", [0.0, 0.1])
    def test_the_error_is_how_far_the_mean_scatters(self, spread_of_fits: float) -> None:
        """Draw questions with losses of their own and fits with luck of their own, anew each time."""
        rng = np.random.default_rng(0)
        n, n_test, n_splits, n_worlds = 200, 80, 15, 400
        means, variances = [], []
        for _ in range(n_worlds):
            loss = rng.exponential(1.0, n)
            tested = np.stack([rng.permutation(n)[:n_test] for _ in range(n_splits)])
            luck = spread_of_fits * rng.standard_normal((n_splits, 1))
            losses = loss[tested] + luck
            gap = losses[:, : n_test // 2].mean(axis=1) - losses[:, n_test // 2 :].mean(axis=1)
            found = over_splits(losses.mean(axis=1), gap, n_test / n)
            means.append(found.mean)
            variances.append(found.standard_error**2)
        # A variance estimated from 400 normal values has a relative error of sqrt(2 / 400) = 7 %.
        assert np.mean(variances) == pytest.approx(np.var(means, ddof=1), rel=0.21)
        expected = 1 / n + spread_of_fits**2 / n_splits
        assert np.mean(variances) == pytest.approx(expected, rel=0.1)


class TestSummarise:
    def test_differences_are_paired(self) -> None:
        rng = np.random.default_rng(1)
        hard = rng.normal(0.5, 0.3, 10)
        results = made_results({"a": {30: hard}, "b": {30: hard + 0.01 + 0.001 * rng.standard_normal(10)}})
        table = summarise(results, tested_share=0.5).set_index(["metric", "method"])
        # Far less than either scatters, and yet distinguishable.
        row = table.loc[("nll", "b")]
        assert row["sd"] > 0.1
        assert row["best"] == "a"
        assert row["difference"] == pytest.approx(0.01, abs=0.002)
        assert 0 < row["low"] < row["difference"] < row["high"]
        assert not row["in_best_group"]
        assert table.loc[("nll", "a"), ["difference", "low", "high"]].tolist() == [0, 0, 0]
        assert table.loc[("nll", "a"), "in_best_group"]

    def test_where_more_is_better_the_other_is_best(self) -> None:
        noise = 0.001 * np.arange(6)
        table = summarise(made_results({"a": {30: 0.5 + noise}, "b": {30: 0.7 + noise**2}}), tested_share=0.5)
        best = table.groupby("metric")["best"].first().to_dict()
        more = {"benefit", "accuracy_of_all", "auroc"}
        assert best == {name: "b" if name in more else "a" for name in CURVE_METRICS}
        grouped = table.set_index(["metric", "method"])["in_best_group"]
        assert grouped[("benefit", "b")]
        assert not grouped[("benefit", "a")]
        assert grouped[("nll", "a")]
        assert not grouped[("nll", "b")]

    def test_the_questions_alone_can_keep_them_together(self) -> None:
        """Two methods whose difference is the same in all splits, but not on all halves of the questions."""
        values = {"a": {30: np.full(5, 0.5)}, "b": {30: np.full(5, 0.6)}}
        results = made_results(values)
        results.loc[results["method"] == "b", "nll_gap"] = 0.5
        table = summarise(results, tested_share=0.5).set_index(["metric", "method"])
        assert table.loc[("nll", "b"), "in_best_group"]
        assert not table.loc[("brier", "b"), "in_best_group"]

    def test_numbers_of_labels_are_compared_on_their_own_and_methods_keep_their_order(self) -> None:
        noise = 0.001 * np.arange(4)
        values = {"z": {100: 0.5 + noise, 30: 0.9 - noise}, "a": {100: 0.6 - noise, 30: 0.8 + noise}}
        table = summarise(made_results(values), tested_share=0.5, level=0.9)
        nll = table[table["metric"] == "nll"]
        assert nll["n_labels"].tolist() == [30, 30, 100, 100]
        assert nll["method"].tolist() == ["z", "a", "z", "a"]
        assert nll["best"].tolist() == ["a", "a", "z", "z"]

    def test_what_is_undefined_is_in_no_group(self) -> None:
        results = made_results({"a": {30: np.full(3, np.nan)}, "b": {30: np.array([0.5, np.nan, 0.7])}})
        table = summarise(results, tested_share=0.5).set_index(["metric", "method"])
        assert table.loc[("auroc", "b"), ["n_splits", "mean", "best"]].tolist() == [2, pytest.approx(0.6), "b"]
        assert table.loc[("auroc", "a"), "n_splits"] == 0
        assert not table.loc[("auroc", "a"), "in_best_group"]
        assert summarise(results[results["method"] == "a"], tested_share=0.5)["best"].isna().all()
