"""The bootstrap against a plain loop over resampled questions, and against the binomial distribution."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import average_precision_score, roc_auc_score

from analysis.scores.bootstrap import Interval, bootstrap_metrics, percentile_interval, resample_weights
from analysis.scores.metrics import evaluate_metrics


@pytest.fixture
def few_wrong() -> tuple[np.ndarray, np.ndarray]:
    """Return 25 questions with tied confidences, of which two were answered wrongly."""
    rng = np.random.default_rng(11)
    return rng.integers(3, 10, 25) / 10, np.arange(25) >= 2


def test_equals_a_loop_over_resampled_questions(few_wrong):
    confidence, correct = few_wrong
    rankings = {
        "auroc": roc_auc_score,
        "pr_positive": average_precision_score,
        "pr_negative": lambda y, f: average_precision_score(~y, 1 - f),
    }
    replicates = []
    for row in resample_weights(25, 200, 5):
        drawn = np.repeat(np.arange(25), row)
        values = vars(evaluate_metrics(confidence[drawn], correct[drawn]))
        both = 0 < correct[drawn].sum() < 25
        ranked = {n: f(correct[drawn], confidence[drawn]) if both else math.nan for n, f in rankings.items()}
        replicates.append(values | ranked)
    intervals = bootstrap_metrics(confidence, correct, resample_weights(len(correct), 200, 5), level=0.8)
    for name, interval in vars(intervals).items():
        values = np.array([replicate[name] for replicate in replicates])
        expected = *np.nanquantile(values, [0.1, 0.9]), np.isnan(values).sum()
        assert interval == pytest.approx(expected, abs=1e-6), name
    assert intervals.auroc.n_undefined > 0


def test_accuracy_varies_as_the_binomial():
    correct = np.arange(1000) < 800
    interval = bootstrap_metrics(np.full(1000, 0.8), correct, resample_weights(1000, 4000, 2)).accuracy
    # Four standard errors, 0.042 standard deviations each, of a 2.5 % quantile of 4,000 draws; one question.
    tolerance = 4 * 0.042 * math.sqrt(0.8 * 0.2 / 1000) + 0.001
    assert interval[:2] == pytest.approx(binom.ppf([0.025, 0.975], 1000, 0.8) / 1000, abs=tolerance)


def test_one_seed_pairs_two_methods(few_wrong):
    confidence, correct = few_wrong
    one, other = (
        bootstrap_metrics(f, correct, resample_weights(len(correct), 50, 7)) for f in (confidence, confidence / 2)
    )
    assert one.accuracy == other.accuracy
    assert one.brier != other.brier
    weight = resample_weights(25, 50, 7)
    shift = evaluate_metrics(confidence, correct, weight).accuracy - np.mean(correct[None] * weight, axis=1)
    assert percentile_interval(shift) == pytest.approx((0, 0, 0), abs=1e-12)


def test_weights_count_draws_with_replacement():
    weight = resample_weights(6, 3000, np.random.default_rng(1))
    assert weight.shape == (3000, 6)
    assert (weight.sum(axis=1) == 6).all()
    # Each count is binomial (6, 1/6): mean 1, variance 5/6; five standard errors.
    np.testing.assert_allclose(weight.mean(axis=0), 1, atol=5 * math.sqrt(5 / 6 / 3000))
    np.testing.assert_allclose(weight.var(axis=0), 5 / 6, atol=0.12)
    np.testing.assert_array_equal(weight, resample_weights(6, 3000, 1))


def test_clusters_are_drawn_whole():
    cluster = np.array([7, 2, 7, 5, 2, 7])
    weight = resample_weights(6, 3000, 1, cluster)
    by_cluster = resample_weights(3, 3000, 1)  # 2, 5, 7
    np.testing.assert_array_equal(weight, by_cluster[:, [2, 0, 2, 1, 0, 2]])
    np.testing.assert_array_equal(resample_weights(6, 30, 1, np.arange(6)), resample_weights(6, 30, 1))


def test_a_mean_over_clusters_varies_as_theory_says():
    value = np.random.default_rng(0).standard_normal(60)
    means = resample_weights(180, 4000, 3, np.repeat(np.arange(60), 3)) @ np.repeat(value, 3) / 180
    # Three copies of a question are no more than one: the standard error is that of 60; its own is 1/sqrt(8000).
    assert means.std() == pytest.approx(value.std() / math.sqrt(60), rel=5 / math.sqrt(8000))


def test_undefined_replicates_are_counted_and_left_out():
    assert percentile_interval(np.array([1.0, math.nan, 3.0]), 0.5) == Interval(1.5, 2.5, 1)
    one_class = bootstrap_metrics([0.4, 0.9], [True, True], resample_weights(2, 10, 0))
    assert one_class.accuracy == (1, 1, 0)
    assert one_class.auroc == pytest.approx((math.nan, math.nan, 10), nan_ok=True)


def test_without_questions_every_replicate_is_undefined():
    for interval in vars(bootstrap_metrics([], [], resample_weights(0, 4, 0))).values():
        assert interval == pytest.approx((math.nan, math.nan, 4), nan_ok=True)


@pytest.mark.parametrize("level", [95.0, 0.0])
def test_a_level_out_of_range_is_named(level):
    with pytest.raises(ValueError, match=f"level is {level}"):
        bootstrap_metrics([0.4, 0.9], [True, False], resample_weights(2, 10, 0), level=level)


def test_no_resamples_at_all_are_refused():
    with pytest.raises(ValueError, match="n_resamples is 0"):
        resample_weights(2, 0, 0)
