"""The guarantee of abstention: exactly, by counting every split of small sets; by simulation, in the hard cases."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_direag.errors import DirEAGError
from bayes_direag.fits.threshold import choose_threshold, wrong_bounds


def splits(n: int, m: int) -> np.ndarray:
    """Return every choice of n labelled questions among n + m."""
    return np.array([[k in chosen for k in range(n + m)] for chosen in map(set, combinations(range(n + m), n))])


def allowed(target: float, n_answered: int) -> int:
    """Return how many may be wrong, by counting up."""
    return max(k for k in range(n_answered + 1) if k == 0 or (n_answered - k) / n_answered >= target - 1e-12)


def missed(sure: np.ndarray, right: np.ndarray, labelled: np.ndarray, target: float, assurance: float) -> bool | None:
    """Say whether too many of the answers given are wrong; None if none is given."""
    new = ~labelled
    found = choose_threshold(sure[labelled], right[labelled], sure[new], target=target, assurance=assurance)
    if not found.n_answered:
        return None
    n_wrong = int((new & ~right & (sure >= found.threshold)).sum())
    return n_wrong > allowed(target, found.n_answered)


@pytest.mark.parametrize(("n", "m", "assurance"), [(5, 6, 0.9), (8, 4, 0.9), (3, 7, 0.7), (6, 6, 0.5), (9, 2, 0.8)])
def test_each_bound_is_the_least_that_holds_in_as_many_splits_as_stated(n: int, m: int, assurance: float) -> None:
    numbers, bounds = wrong_bounds(n, m, 0.1, assurance)
    labelled_so_far = np.cumsum(splits(n, m), axis=1)
    assert numbers.tolist() == list(range(n))
    for k, bound in zip(numbers, bounds, strict=True):

        def fails(bound: int, k: int = k) -> float:
            return (labelled_so_far[:, bound + k] <= k).mean() if bound < m else 0.0

        assert fails(bound) <= 1 - assurance + 1e-9
        assert bound == 0 or fails(bound - 1) > 1 - assurance


@pytest.mark.parametrize("ranks", [[4, 3, 2, 1, 0], [2, 2, 1, 1, 0]])
@pytest.mark.parametrize(("n", "target", "assurance"), [(3, 0.5, 0.6)])
def test_the_target_is_missed_in_as_few_splits_as_stated_whichever_answers_are_wrong(
    ranks: list[int], n: int, target: float, assurance: float
) -> None:
    sure, chosen = 0.999 + np.array(ranks) / 10_000, splits(n, 5 - n)
    worst = max(
        np.mean([bool(missed(sure, np.array(right), labelled, target, assurance)) for labelled in chosen])
        for right in product([False, True], repeat=5)
    )
    assert 0 < worst <= 1 - assurance + 1e-9


def test_calibrated_confidences_seldom_miss_where_something_is_answered() -> None:
    """With 100 labels and a target that is rarely supported, in which most runs that answered used to miss."""
    rng, labelled = np.random.default_rng(1), np.arange(400) < 100
    outcomes = []
    for _ in range(300):
        sure = rng.beta(3, 1, 400)
        outcomes.append(missed(sure, rng.random(400) < sure, labelled, 0.9, 0.9))
    answered = [outcome for outcome in outcomes if outcome is not None]
    assert 50 < len(answered) < 150
    assert np.mean(answered) <= 0.1 + 3 * np.sqrt(0.09 / len(answered))


def test_one_new_question_is_a_conformal_one() -> None:
    """Of ten exchangeable questions the new one is the most doubtful error with probability 1/10."""
    sure, right, new = np.full(9, 0.97), np.ones(9, bool), np.array([0.95])
    found = choose_threshold(sure, right, new, target=1.0, assurance=0.9)
    assert (found.n_answered, found.n_needed) == (1, 9)
    assert choose_threshold(sure[1:], right[1:], new, target=1.0, assurance=0.9).n_answered == 0


def test_confidences_that_do_not_promise_the_target_are_not_answered() -> None:
    sure, right = np.full(200, 0.7), np.ones(200, bool)
    found = choose_threshold(sure, right, sure, target=0.9)
    assert (found.n_answered, found.promised) == (0, False)
    assert choose_threshold(sure, right, sure, target=0.6).n_answered == 200
    # 60 wrong answers are expected; at most 66 are allowed, and 90 % of the time there are at most 70
    assert [choose_threshold(sure, right, sure, target=0.67, assurance=a).promised for a in (0.9, 0.6)] == [False, True]


QUESTIONS = st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8, 0.9, 0.95]), st.booleans()), max_size=40)


@given(
    labelled=QUESTIONS,
    new=st.lists(st.sampled_from([0.2, 0.5, 0.8, 0.9, 0.97]), max_size=40),
    target=st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    seed=st.integers(0, 9),
)
@settings(max_examples=15, deadline=None)
def test_the_decision_is_consistent_and_does_not_depend_on_order(
    labelled: list[tuple[float, bool]], new: list[float], target: float, seed: int
) -> None:
    sure, right = np.array([c for c, _ in labelled]), np.array([r for _, r in labelled], bool)
    fresh = np.array(new)
    found = choose_threshold(sure, right, fresh, target=target, assurance=0.7)
    assert (found.n_labelled, found.n_new) == (len(sure), len(fresh))
    assert np.isnan(found.threshold) == (found.n_answered == 0)
    assert found.n_answered == (fresh >= found.threshold).sum()
    assert found.n_labelled_above == (sure >= found.threshold).sum()
    assert found.n_labelled_wrong == (~right[sure >= found.threshold]).sum()
    if found.n_answered:
        assert found.threshold in fresh
        assert found.most_wrong <= allowed(target, found.n_answered)
    rng = np.random.default_rng(seed)
    order, nothing = rng.permutation(len(sure)), [np.nan, np.nan]
    moved = choose_threshold(
        np.append(sure[order], nothing),
        np.append(right[order], [True, False]),
        np.append(rng.permutation(fresh), nothing),
        target=target,
        assurance=0.7,
    )
    np.testing.assert_equal(moved, found)  # a threshold of NaN equals itself


@pytest.mark.parametrize(("m", "target"), [(30, 0.95), (300, 0.9), (7, 0.5), (9, 1.0)])
def test_the_least_number_of_labels_is_the_least(m: int, target: float) -> None:
    fresh = np.full(m, 0.999)

    def found(n: int) -> tuple[int, int]:
        decision = choose_threshold(np.full(n, 0.999), np.ones(n, bool), fresh, target=target)
        return decision.n_answered, decision.n_needed

    needed = found(1)[1]
    assert found(needed - 1) == (0, needed)
    assert found(needed) == (m, needed)


@pytest.mark.parametrize(("target", "assurance"), [(0.0, 0.9), (1.1, 0.9), (0.9, 0.4), (0.9, 1.0)])
def test_what_cannot_be_asked_for_is_refused(target: float, assurance: float) -> None:
    with pytest.raises(DirEAGError, match=r"expected a (share|probability)"):
        choose_threshold(np.array([0.5]), np.array([True]), np.array([0.5]), target=target, assurance=assurance)
