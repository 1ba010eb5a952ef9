"""Two fits side by side: what no choice of scale may change, what the table says, what the predictions say."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis.comparison.comparison import (
    SHIFT_QUANTILES,
    compare_parameters,
    compare_predictions,
    score_predictions,
    summarise_predictions,
)
from analysis.scores.metrics import evaluate_metrics
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import natural_draws
from bayes_direag.model.presets import preset
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import around, made_fit, natural
from tests.bayes_direag.family import VOTING

LEVELS = 5


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(60, seed=4)


@pytest.fixture(scope="module")
def posterior(observations: Observations) -> Fit:
    rng = np.random.default_rng(2)
    draws = around(natural(LEVELS), rng, spread=0.3)
    intercept, slope = 0.2 + 0.3 * rng.standard_normal((2, 2, 40))
    return made_fit(observations, draws, intercept=intercept, slope=1 + slope)


@pytest.fixture(scope="module")
def some(observations: Observations) -> Observations:
    """Return questions of which one is unanswered, two are not labelled, and half were fitted to."""
    silent = Question(problem_id="silent", gold_answer="3", observations=())
    more = [q.model_copy(update={"problem_id": f"new {q.problem_id}"}) for q in observations.questions[:20]]
    more[:2] = [q.model_copy(update={"gold_answer": None}) for q in more[:2]]
    return Observations.from_questions([*observations.questions[:20], silent, *more], answers="numeric")


@pytest.fixture(scope="module")
def point(observations: Observations) -> Fit:
    loud = natural(LEVELS, weight=[3.0, 0.1, 0.1, 0.1, 0.1])
    return made_fit(observations.select(slice(0, 10)), loud, preset="paper")


@pytest.fixture(scope="module")
def table(point: Fit, posterior: Fit, some: Observations) -> pd.DataFrame:
    return compare_predictions(point, posterior, some, interval_level=0.5)


def rows(table: pd.DataFrame) -> dict[tuple[str, str | None], dict[str, float]]:
    return {(row["quantity"], None if pd.isna(row["level"]) else row["level"]): row for row in table.to_dict("records")}


class TestParameters:
    def test_relative_quantities_are_ratios_in_every_draw(self, observations: Observations, posterior: Fit) -> None:
        given = natural(LEVELS)
        found = compare_parameters(made_fit(observations, given, preset="paper"), posterior, interval_level=0.8)
        assert found.scale == "relative"
        assert found.interval_level == 0.8
        table, draws = rows(found.table), natural_draws(posterior.tree)
        total = draws["weight"].to_numpy().sum(axis=2)
        expected = {
            ("weight_share", "cautious"): (0.9 / 6.5, draws["weight"].to_numpy()[:, :, 1] / total),
            ("bias", "confident"): (-0.9, draws["bias"].to_numpy()[:, :, 3]),
            ("slope", None): (0.8, draws["slope"].to_numpy()),
            ("null_gain", None): (0.3, draws["null_gain"].to_numpy()),
            ("prior_strength_relative", None): (0.4 / 6.5, draws["prior_strength"].to_numpy() / total),
            ("null_base_relative", None): (0.2 / 6.5, draws["null_base"].to_numpy() / total),
            ("recalibration_intercept", None): (0, posterior.tree["recalibration"]["intercept"].to_numpy()),
            ("recalibration_slope", None): (1, posterior.tree["recalibration"]["slope"].to_numpy()),
        }
        assert len(table) == 2 * LEVELS + 6
        for key, (point, of_draws) in expected.items():
            row, flat = table[key], of_draws.ravel()
            assert row["point"] == pytest.approx(point)
            assert row["mean"] == pytest.approx(flat.mean())
            assert row["sd"] == pytest.approx(flat.std(ddof=1))
            assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(flat, [0.1, 0.9])))
            assert row["distance"] == pytest.approx((point - flat.mean()) / flat.std(ddof=1))

    def test_they_do_not_depend_on_the_scale(self, observations: Observations, posterior: Fit) -> None:
        one = natural(LEVELS)
        larger = one | {name: 7 * np.asarray(one[name]) for name in ("weight", "prior_strength", "null_base")}
        tables = [
            compare_parameters(made_fit(observations, given, preset="paper"), posterior).table
            for given in (one, larger)
        ]
        pd.testing.assert_frame_equal(*tables)

    def test_of_variant_level_neither_do_they_on_its_second_scale(self, observations: Observations) -> None:
        """Weight, bias and null_gain can be changed together so that no prediction changes; nor may the table."""
        one = {name: value for name, value in natural(LEVELS).items() if name != "slope"}
        weight, bias = np.asarray(one["weight"]), np.asarray(one["bias"])
        given, doubt = weight / (1 + np.exp(-bias)), 0.3 * weight / (1 + np.exp(bias))
        other = one | {"weight": given + doubt / 2.5, "bias": np.log(given / (doubt / 2.5)), "null_gain": 2.5}
        posterior = made_fit(observations, around(one, np.random.default_rng(0)), variant="level")
        fits = [made_fit(observations, each, preset="paper", variant="level") for each in (one, other)]
        predicted = [fit.predict(observations) for fit in fits]
        pd.testing.assert_frame_equal(*predicted, rtol=1e-10)
        tables = [compare_parameters(fit, posterior).table for fit in fits]
        pd.testing.assert_frame_equal(*tables, rtol=1e-10)
        table = rows(tables[0])
        assert table["evidence_share", "vanilla"]["point"] == pytest.approx(given[2] / given.sum())
        assert table["doubt_relative", "vanilla"]["point"] == pytest.approx(doubt[2] / given.sum())
        assert table["null_base_relative", None]["point"] == pytest.approx(0.2 / given.sum())
        assert {name for name, _ in table}.isdisjoint({"weight_share", "bias", "null_gain"})

    def test_presets_that_fix_one_scale_are_compared_raw(self, observations: Observations) -> None:
        raw = {"weight_raw": [1.0, 2.0, 3.0, 0.5, 0.1], "bias_raw": [0.1, 0, -1, -2, -3], "null_base_raw": -0.5}
        given = natural(LEVELS, prior_strength=1.0) | raw | {"slope_raw": -0.7, "null_gain_raw": -1.2}
        apart = preset("bayes").override(weight_spread=None, bias_spread=None, vote=None, vote_spread=None)
        posterior = made_fit(observations, around(given, np.random.default_rng(0)), preset=apart)
        found = compare_parameters(made_fit(observations, given, preset=apart), posterior)
        assert found.scale == "raw"
        table = rows(found.table)
        assert table["log_weight", "cautious"]["point"] == 2.0
        assert table["log_weight", "cautious"]["mean"] == pytest.approx(
            float(posterior.tree["unconstrained_posterior"]["weight_raw"].sel(level="cautious").mean())
        )
        assert table["inverse_softplus_null_base", None]["point"] == -0.5
        assert table["log_slope", None]["point"] == -0.7
        assert not any("prior_strength" in name for name, _ in table)

    def test_pooled_levels_are_put_together_first(self, observations: Observations) -> None:
        offsets = {name: np.linspace(-1, 1.5, LEVELS) for name in ("weight_raw", "bias_raw", "vote_raw")}
        pooled = {"weight_centre": 1.2, "weight_spread": 0.3, "bias_centre": -0.4, "bias_spread": 2.0}
        pooled |= {"vote_centre": 0.1, "vote_spread": 0.2}
        given = natural(
            LEVELS,
            weight=np.exp(1.2 + 0.3 * offsets["weight_raw"]).tolist(),
            bias=(-0.4 + 2.0 * offsets["bias_raw"]).tolist(),
            vote=(0.1 + 0.2 * offsets["vote_raw"]).tolist(),
        )
        fit = made_fit(observations, given | offsets | pooled, preset=VOTING)
        table = rows(compare_parameters(fit, fit).table)
        for position, level in enumerate(fit.level_names):
            assert table["log_weight", level]["point"] == pytest.approx(math.log(given["weight"][position]))
            for name in ("bias", "vote"):
                assert table[name, level]["point"] == pytest.approx(given[name][position])

    def test_levels_are_matched_by_name(self, observations: Observations, posterior: Fit) -> None:
        backwards = observations.align(observations.level_names[::-1])
        given = natural(LEVELS)
        turned = given | {name: list(reversed(given[name])) for name in ("weight", "bias")}
        fits = [made_fit(observations, given, preset="paper"), made_fit(backwards, turned, preset="paper")]
        tables = [compare_parameters(fit, posterior).table for fit in fits]
        key = ["quantity", "level"]
        pd.testing.assert_frame_equal(*(table.sort_values(key, ignore_index=True) for table in tables))
        assert tables[1]["level"].iloc[0] == "very_confident"

    def test_a_single_draw_has_no_spread(self, observations: Observations) -> None:
        fit = made_fit(observations, natural(LEVELS), preset="paper")
        found = compare_parameters(fit, fit)
        assert found.scale == "relative"  # a penalty fixes none
        table = found.table
        assert table[["sd", "low", "high", "distance"]].isna().all(axis=None)
        pd.testing.assert_series_equal(table["point"], table["mean"], check_names=False)

    def test_what_does_not_vary_has_no_distance(self) -> None:
        said = Observation(level=0, level_name="only", answer="1", confidence=80)
        one = Observations.from_questions([Question(problem_id="q", gold_answer="1", observations=(said,))])
        posterior = made_fit(one, around(natural(1), np.random.default_rng(1)))
        row = rows(compare_parameters(made_fit(one, natural(1), preset="paper"), posterior).table)[
            "weight_share", "only"
        ]
        assert (row["point"], row["mean"]) == pytest.approx((1, 1))
        assert math.isnan(row["distance"])

    def test_what_cannot_be_compared_is_said(self, observations: Observations, posterior: Fit) -> None:
        counted = made_fit(observations, {"weight": [1.0] * 5, "prior_strength": 1, "null_base": 1}, variant="count")
        with pytest.raises(DirEAGError, match="different variants, count and confidence; expected the same"):
            compare_parameters(counted, posterior)
        fewer = made_fit(observations.align([*observations.level_names, "sixth"]), natural(6))
        with pytest.raises(DirEAGError, match="different levels: 1 are in one of them only, 'sixth' among"):
            compare_parameters(fewer, posterior)


class TestPredictions:
    def test_are_those_of_the_fits(self, table: pd.DataFrame, point: Fit, posterior: Fit, some: Observations) -> None:
        own, theirs = point.predict(some), posterior.predict(some, interval_level=0.5)
        assert table["problem_id"].tolist() == list(some.problem_id)
        for name, predicted in (("first", own), ("second", theirs)):
            pd.testing.assert_series_equal(table[f"{name}_answer"], predicted["answer"], check_names=False)
            pd.testing.assert_series_equal(table[f"{name}_confidence"], predicted["confidence"], check_names=False)
        np.testing.assert_array_equal(table["second_low"], theirs["confidence_low"])
        np.testing.assert_array_equal(table["second_high"], theirs["confidence_high"])
        assert table[["first_low", "first_high"]].isna().all(axis=None)
        shift = theirs["confidence"] - own["confidence"]
        np.testing.assert_array_equal(table["shift"], shift)
        changed = [a != b for a, b in zip(own["answer"], theirs["answer"], strict=True) if isinstance(a, str)]
        assert table["changed"].dropna().tolist() == changed
        assert 0 < sum(changed) < len(changed)
        silent = table[table["problem_id"] == "silent"].iloc[0]
        assert silent[["first_answer", "second_answer", "shift", "changed", "first_correct"]].isna().all()
        assert table["first_fitted"].tolist() == [True] * 10 + [False] * 31
        assert table["second_fitted"].tolist() == [True] * 20 + [False] * 21

    def test_right_answers_are_those_of_gold(self, table: pd.DataFrame, some: Observations) -> None:
        for name in ("first", "second"):
            for row, question in zip(table.to_dict("records"), some.questions, strict=True):
                right = row[f"{name}_correct"]
                if question.gold_answer is None or question.problem_id == "silent":
                    assert pd.isna(right)
                else:
                    assert right == (row[f"{name}_answer"] == question.gold_answer)
        assert table["first_correct"].sum() > 0

    def test_scores_are_those_of_the_labelled_answered_questions(self, table: pd.DataFrame) -> None:
        scored = table[table["first_correct"].notna()]
        assert len(scored) == 38
        found = score_predictions(table, seed=1, n_resamples=20).set_index("metric")
        for name in ("first", "second"):
            expected = evaluate_metrics(scored[f"{name}_confidence"], scored[f"{name}_correct"].astype(bool))
            own = found[name].drop(list(SELECTION_SCORES)).to_dict()
            assert own | {"mean_confidence": expected.mean_confidence} == pytest.approx(vars(expected))
            assert found.loc["benefit", name] == pytest.approx(expected.accuracy - expected.brier, abs=1e-5)
            likely = scored[f"{name}_state_probability"].astype(float)
            assert found.loc["log_score", name] == pytest.approx(-np.log(likely).mean())


class TestSummary:
    def test_of_a_small_table(self) -> None:
        table = pd.DataFrame(
            {
                "problem_id": ["a", "b", "c", "d"],
                "shift": [0.1, -0.4, 0.0, np.nan],
                "changed": pd.Series([False, True, False, pd.NA], dtype="boolean"),
                "second_low": [0.2, 0.1, 0.5, np.nan],
                "second_high": [0.6, 0.3, 0.8, np.nan],
                "first_fitted": [True, True, False, True],
                "second_fitted": [False, False, True, False],
            }
        )
        found = summarise_predictions(table)
        assert (found.n, found.unanswered, found.changed) == (3, 1, 1)
        assert (found.first_fitted, found.second_fitted) == (2, 1)
        assert found.mean_shift == pytest.approx(-0.1)
        assert found.mean_absolute_shift == pytest.approx(0.5 / 3)
        assert (found.largest_shift, found.largest_at) == (-0.4, "b")
        assert list(found.shift_quantiles) == list(SHIFT_QUANTILES)
        assert list(found.shift_quantiles.values()) == pytest.approx(np.quantile([0.1, -0.4, 0], SHIFT_QUANTILES))
        assert (found.mean_width, found.median_width, found.largest_width) == pytest.approx((0.3, 0.3, 0.4))
        nothing = summarise_predictions(table[3:])
        assert (nothing.n, nothing.unanswered, nothing.changed, nothing.largest_at) == (0, 1, 0, None)
        assert math.isnan(nothing.mean_shift)
        assert math.isnan(nothing.largest_shift)
        assert all(map(math.isnan, nothing.shift_quantiles.values()))
