"""Who learns and who is tested."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.learning_curve.splits import draw_splits
from bayes_direag.data.observations import Observations, Question
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Return 200 usable questions beside ten that are not labelled and one that is not answered."""
    simulated = [*simulate_observations(150, seed=4).questions, *simulate_observations(150, seed=5).questions[:60]]
    hidden = [question.model_copy(update={"gold_answer": None}) for question in simulated[:10]]
    silent = Question(problem_id="silent", gold_answer="3", observations=())
    return Observations.from_questions([*hidden, *simulated[10:], silent], answers="numeric")


def test_labels_are_nested_and_tests_are_common_and_never_learned_from(observations: Observations) -> None:
    splits = draw_splits(observations, [60, 20, 100, 20], n_splits=5, seed=1)
    assert splits.label_counts == (20, 60, 100)
    assert (splits.n_usable, splits.n_test, splits.tested_share) == (200, 100, 0.5)
    usable = set(np.flatnonzero(observations.labelled & observations.answered).tolist())
    for split in range(5):
        learned = [set(splits.learned(split, n).tolist()) for n in splits.label_counts]
        tested = set(splits.tested(split).tolist())
        assert [len(part) for part in (*learned, tested)] == [20, 60, 100, 100]
        assert learned[0] < learned[1] < learned[2]
        assert not learned[2] & tested
        assert learned[2] | tested == usable


def test_splits_differ_and_more_of_them_leave_the_first_as_they_are(observations: Observations) -> None:
    few, many = (draw_splits(observations, [50], n_splits=n, seed=7).order for n in (2, 4))
    np.testing.assert_array_equal(many[:2], few)
    assert len({tuple(row) for row in many.tolist()}) == 4
    assert not np.array_equal(draw_splits(observations, [50], n_splits=2, seed=8).order, few)


def test_every_question_takes_part_equally_often(observations: Observations) -> None:
    order = draw_splits(observations, [100], n_splits=400, seed=0).order
    tested = np.bincount(order[:, -100:].ravel(), minlength=211)[10:210]
    # Binomial(400, 1/2) each: 6 standard deviations of 10.
    assert np.abs(tested - 200).max() < 60


def test_what_the_file_cannot_hold_is_left_out_with_the_reason(observations: Observations) -> None:
    splits = draw_splits(observations, [30, 100, 101], n_splits=2, seed=0)
    assert splits.label_counts == (30, 100)
    assert splits.left_out == {101: "200 usable questions hold at most 100 beside the 100 kept for testing"}


def test_a_fifth_of_many_questions_is_kept(observations: Observations) -> None:
    usable = np.flatnonzero(observations.labelled & observations.answered)
    splits = draw_splits(observations.select(np.tile(usable, 3)), [30, 480, 481], n_splits=2, seed=0)
    assert splits.n_test == 120
    assert "at most 480 beside the 120" in splits.left_out[481]


@pytest.mark.parametrize(
    ("counts", "n_splits", "says"),
    [
        ([], 2, "numbers of labels: saw none"),
        ([0, 30], 2, "numbers of labels: saw 0, 30"),
        ([30], 1, "saw 1 splits; expected at least 2"),
        ([101, 300], 2, "101 labels: 200 usable questions hold at most 100"),
    ],
)
def test_refusals(observations: Observations, counts: list[int], n_splits: int, says: str) -> None:
    with pytest.raises(DirEAGError, match=says):
        draw_splits(observations, counts, n_splits=n_splits, seed=0)


def test_no_tested_question_is_of_a_cluster_that_was_learned_from() -> None:
    cluster = np.random.default_rng(0).integers(0, 40, 200)
    observations = replace(simulate_observations(200, seed=1), cluster=tuple(map(str, cluster)))
    splits = draw_splits(observations, [20, 61], n_splits=6, seed=0)
    for split in range(6):
        learned, tested = splits.learned(split, 61), splits.tested(split)
        assert not set(cluster[learned]) & set(cluster[tested])
        assert len(learned) == 61
        size = np.bincount(cluster).max()
        assert splits.n_test - size < len(tested) <= splits.n_test
        pieces = np.flatnonzero(np.diff(cluster[splits.order[split]])).size + 1
        assert pieces == len(set(cluster.tolist()))
        assert sorted(splits.order[split]) == list(range(200))


def test_clusters_of_one_change_nothing() -> None:
    observations = simulate_observations(150, seed=1)
    alone, clustered = (
        draw_splits(replace(observations, cluster=cluster), [30], n_splits=2, seed=0)
        for cluster in (None, ("alone", *[None] * 149))
    )
    np.testing.assert_array_equal(alone.order, clustered.order)
    np.testing.assert_array_equal(alone.tested(1), clustered.tested(1))
