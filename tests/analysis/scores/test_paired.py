"""Paired comparisons against a loop over resamples."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.scores.metrics import METRICS, evaluate_metrics
from analysis.scores.paired import paired_table
from analysis.scores.scoring import SELECTION_SCORES, Scored, mean_score, resample_weights
from bayes_direag.errors import DirEAGError

#: Steps of 0.1, so that confidences tie within and between methods.
N = 8


@pytest.fixture(scope="module")
def two() -> tuple[Scored, Scored]:
    rng = np.random.default_rng(4)
    confidence = rng.integers(1, 10, (2, N)) / 10
    correct = np.array([[1, 1, 0, 1, 1, 0, 0, 1], [1, 0, 0, 1, 1, 1, 0, 1]], bool)
    state = rng.uniform(0.1, 1, (2, N))
    return Scored(confidence[0], correct[0], state[0]), Scored(confidence[1], correct[1], state[1])


def every_score(scored: Scored) -> dict[str, float]:
    selection = {name: float(mean_score(of_each(scored))[0]) for name, of_each in SELECTION_SCORES.items()}
    answered = scored.answered
    return selection | {
        name: value.item() for name, value in evaluate_metrics(answered.confidence, answered.correct).items()
    }


def paired_differences(first: Scored, second: Scored, **settings: object) -> dict[str, Any]:
    return {row.metric: row for row in paired_table(first, second, **settings).itertuples(index=False)}


class TestDifferences:
    def test_equal_a_loop_over_shared_resamples(self, two):
        first, second = two
        differences = paired_differences(first, second, seed=5, n_resamples=60, level=0.8)
        replicates = []
        for row in resample_weights(N, 60, 5):
            drawn = np.repeat(np.arange(N), row)
            first_scores, other = (every_score(one.select(drawn)) for one in two)
            replicates.append({name: other[name] - first_scores[name] for name in first_scores})
        for name, one in differences.items():
            values = np.array([replicate[name] for replicate in replicates])
            point = [every_score(each)[name] for each in two]
            assert one[1:4] == pytest.approx((*point, point[1] - point[0]))
            assert one[4:6] == pytest.approx(np.nanquantile(values, [0.1, 0.9]), abs=1e-6), name
            assert one.n_undefined == np.isnan(values).sum(), name
        assert differences["auroc"].n_undefined > 0

    def test_change_sign_with_the_order_and_are_none_of_a_method_with_itself(self, two):
        there, back, itself = (
            paired_differences(*pair, seed=2, n_resamples=60) for pair in (two, two[::-1], (two[0], two[0]))
        )
        for name, one in there.items():
            other = back[name]
            assert one.difference == -other.difference
            assert (one.low, one.high) == pytest.approx((-other.high, -other.low), nan_ok=True)
            assert itself[name][3:6] == (0, 0, 0)

    def test_are_undefined_without_questions_and_for_one_class(self):
        empty = Scored(np.zeros(0), np.zeros(0, bool))
        for one in paired_differences(empty, empty, seed=0, n_resamples=9).values():
            assert one[1:] == pytest.approx((*[math.nan] * 5, 9), nan_ok=True)
        pair = (Scored(np.array(stated), np.ones(2, bool)) for stated in ([0.4, 0.9], [0.7, 0.8]))
        right = paired_differences(*pair, seed=0, n_resamples=9)
        assert math.isnan(right["auroc"].difference)

    def test_unanswered_questions_count_for_what_sees_the_selected_answer(self, two):
        first, second = two
        gap = Scored(np.where(np.arange(N) < 3, np.nan, first.confidence), first.correct)
        differences = paired_differences(gap, second, seed=5, n_resamples=20)
        assert math.isnan(differences["log_score"].difference), "one states no distribution"
        filled = np.where(np.arange(N) < 3, 0, first.correct - (first.confidence - first.correct) ** 2)
        assert differences["benefit"].first == pytest.approx(filled.mean())
        assert differences["benefit"].second == pytest.approx(
            np.mean(second.correct - (second.confidence - second.correct) ** 2)
        )
        kept = np.arange(3, N)
        alone = paired_differences(first.select(kept), second.select(kept), seed=5, n_resamples=20)
        assert [differences[name] for name in ("brier", "nll")] == [alone[name] for name in ("brier", "nll")]

    def test_a_cluster_is_one_draw(self, two):
        copies = [one._replace(cluster=np.arange(N)).select(np.tile(np.arange(N), 4)) for one in two]
        alone = paired_table(*two, seed=6, n_resamples=60)
        clustered = paired_table(*copies, seed=6, n_resamples=60)
        kept = alone["metric"] != "adaptive_ece"  # whose cuts are rounded to whole questions
        pd.testing.assert_frame_equal(clustered[kept], alone[kept])

    def test_the_table_holds_the_metrics_asked_for_and_unusable_input_is_named(self, two):
        whole = paired_table(*two, seed=7, n_resamples=30)
        assert whole["metric"].tolist() == [name for name in (*SELECTION_SCORES, *METRICS) if name != "mean_confidence"]
        some = paired_table(*two, metrics=["nll", "auroc"], seed=7, n_resamples=30)
        expected = whole.set_index("metric").loc[["nll", "auroc"]].reset_index()
        pd.testing.assert_frame_equal(some, expected)
        with pytest.raises(DirEAGError, match="interval level 95"):
            paired_table(*two, seed=0, level=95.0)
        with pytest.raises(ValueError, match="n_resamples is 0"):
            paired_table(*two, seed=0, n_resamples=0)
        with pytest.raises(ValueError, match="8 and 7 questions; expected the same"):
            paired_differences(two[0], two[0].select(np.arange(1, N)), seed=0)
