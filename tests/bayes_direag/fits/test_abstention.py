"""The guarantee of abstention: exactly, by counting every split of small sets; by simulation, in the hard cases."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from bayes_direag.errors import DirEAGError
from bayes_direag.fits import abstention as bounds_module
from bayes_direag.fits.abstention import (
    choose_threshold,
    failure_probability,
    least_labelled,
    lowest_threshold,
    wrong_bounds,
)


def splits(n: int, m: int) -> np.ndarray:
    """Return every choice of n labelled questions among n + m."""
    return np.array([[k in chosen for k in range(n + m)] for chosen in map(set, combinations(range(n + m), n))])


def allowed(target: float, n_answered: int) -> int:
    """Return how many may be wrong, by counting up."""
    return max(k for k in range(n_answered + 1) if k == 0 or (n_answered - k) / n_answered >= target - 1e-12)


@pytest.mark.parametrize(("n", "m", "assurance"), [(5, 6, 0.9), (8, 4, 0.9), (3, 7, 0.7), (6, 6, 0.5), (9, 2, 0.8)])
def test_all_bounds_hold_together_in_as_many_splits_as_stated(n: int, m: int, assurance: float) -> None:
    bounds = wrong_bounds(n, m, assurance, most=m)
    labelled_so_far = np.cumsum(splits(n, m), axis=1)
    fails = np.zeros(len(labelled_so_far), bool)
    for e, bound in enumerate(bounds):
        if e + bound + 1 <= n + m:
            fails |= labelled_so_far[:, e + bound] <= e
    assert failure_probability(bounds, n, m) == pytest.approx(fails.mean(), abs=1e-12)
    assert 0 < fails.mean() <= 1 - assurance + 1e-9


@pytest.mark.parametrize("confidence", [[0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.9, 0.9, 0.8, 0.8, 0.8, 0.7], [0.5] * 6])
@pytest.mark.parametrize(("n", "assurance"), [(3, 0.6), (4, 0.7), (5, 0.8)])
def test_level_is_exact_over_every_split_of_every_pattern_of_errors(
    confidence: list[float], n: int, assurance: float
) -> None:
    sure, chosen = np.array(confidence), splits(n, 6 - n)
    worst = 0.0
    for pattern, target in product(product([False, True], repeat=6), (0.5, 1.0)):
        right = np.array(pattern)
        missed = 0
        for labelled in chosen:
            lowest, _ = lowest_threshold(sure[labelled], ~right[labelled], sure[~labelled], target, assurance)
            answered = ~labelled & (sure >= lowest)
            missed += int((answered & ~right).sum()) > allowed(target, int(answered.sum()))
        worst = max(worst, missed / len(chosen))
    assert 0 < worst <= 1 - assurance + 1e-9


@pytest.mark.parametrize(("n", "m"), [(200, 300), (50, 400), (300, 40)])
def test_failure_agrees_with_simulation_and_little_of_it_is_wasted(n: int, m: int) -> None:
    bounds = wrong_bounds(n, m, 0.9, most=m // 5)
    stated = failure_probability(bounds, n, m)
    rng = np.random.default_rng(1)
    j = bounds + np.arange(len(bounds))
    fails = 0
    for _ in range(20):
        labelled = rng.permuted(np.broadcast_to(np.arange(n + m) < n, (500, n + m)), axis=1)
        fails += (np.cumsum(labelled, axis=1)[:, j] <= np.arange(len(bounds))).any(axis=1).sum()
    assert fails / 10_000 == pytest.approx(stated, abs=4 * np.sqrt(0.09 / 10_000))
    assert 0.08 < stated <= 0.1


def test_bounds_become_those_of_a_population() -> None:
    """With few labelled and very many new, the share of errors up to a labelled one is as an order statistic."""
    n, m = 20, 2_000_000
    bounds = wrong_bounds(n, m, 0.9, most=m // 2)
    share = bounds / m
    ranked = np.sort(np.random.default_rng(1).random((40_000, n)), axis=1)
    fails = (ranked[:, : len(bounds)] > share).any(axis=1).mean()
    assert fails == pytest.approx(failure_probability(bounds, n, m), abs=4 * np.sqrt(0.09 / 40_000))


def test_one_new_question_is_a_conformal_one() -> None:
    """Of ten exchangeable questions the new one is the most doubtful error with probability 1/10."""
    sure = np.linspace(0.5, 0.9, 9)
    right = np.ones(9, bool)
    assert choose_threshold(sure, right, np.array([0.7]), target=1.0, assurance=0.9).n_answered == 1
    assert choose_threshold(sure[1:], right[1:], np.array([0.7]), target=1.0, assurance=0.9).n_answered == 0
    assert least_labelled(1, 1.0, 0.9) == 9


@given(n=st.integers(1, 25), m=st.integers(1, 25), assurance=st.sampled_from([0.5, 0.8, 0.9, 0.99]))
@settings(max_examples=8, deadline=None)
def test_bounds_never_fall_and_are_at_least_those_of_one_threshold(n: int, m: int, assurance: float) -> None:
    bounds = wrong_bounds(n, m, assurance, most=m)
    assert (np.diff(bounds) >= 0).all()
    assert failure_probability(bounds, n, m) <= (1 - assurance) * (1 + 1e-6)
    wrong = np.arange(len(bounds))
    breaks = bounds + wrong + 1
    alone = np.where(breaks > n + m, 0.0, hypergeom.cdf(wrong, n + m, n, np.minimum(breaks, n + m)))
    assert (alone <= 1 - assurance + 1e-9).all()


@given(n=st.integers(1, 300), m=st.integers(1, 300), j=st.integers(1, 600), e=st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_chances_are_hypergeometric(n: int, m: int, j: int, e: int) -> None:
    total, j = n + m, min(j, n + m)
    e = min(e, j - 1, n)
    count, drawn = np.array([e]), np.array([j])
    assert bounds_module._chance(count, drawn, n, total)[0] == pytest.approx(hypergeom.pmf(e, total, n, j), abs=1e-10)
    at_most = bounds_module._chance_of_at_most(count, drawn, n, total)[0]
    assert at_most == pytest.approx(hypergeom.cdf(e, total, n, j), abs=1e-10)


QUESTIONS = st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.6, 0.9, 0.95]), st.booleans()), min_size=1, max_size=40)


@given(
    labelled=QUESTIONS,
    new=st.lists(st.sampled_from([0.2, 0.5, 0.6, 0.9, 0.97]), min_size=1, max_size=40),
    target=st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    seed=st.integers(0, 9),
)
@settings(max_examples=15, deadline=None)
def test_the_decision_is_consistent_and_depends_on_ranks_alone(
    labelled: list[tuple[float, bool]], new: list[float], target: float, seed: int
) -> None:
    sure, right = np.array([c for c, _ in labelled]), np.array([r for _, r in labelled])
    fresh = np.array(new)
    found = choose_threshold(sure, right, fresh, target=target, assurance=0.7)
    assert (found.n_labelled, found.n_new) == (len(sure), len(fresh))
    if found.n_answered:
        assert found.threshold in fresh
        assert found.n_answered == (fresh >= found.threshold).sum()
        assert found.n_labelled_above == (sure >= found.threshold).sum()
        assert found.n_labelled_wrong == (~right[sure >= found.threshold]).sum()
        assert found.most_wrong <= allowed(target, found.n_answered)
    else:
        assert np.isnan(found.threshold)
        if not np.isnan(found.attainable):
            assert found.attainable < target
            assert choose_threshold(sure, right, fresh, target=found.attainable, assurance=0.7).n_answered
    rng = np.random.default_rng(seed)
    order, other = rng.permutation(len(sure)), rng.permutation(len(fresh))
    moved = choose_threshold(sure[order] ** 3, right[order], fresh[other] ** 3, target=target, assurance=0.7)
    assert moved.n_answered == found.n_answered
    assert moved.most_wrong == found.most_wrong


def test_questions_without_an_answer_are_left_out() -> None:
    sure, right, fresh = np.linspace(0.5, 1, 100), np.arange(100) > 20, np.linspace(0.4, 1, 80)
    found = choose_threshold(sure, right, fresh, target=0.9, assurance=0.9)
    more = choose_threshold(
        np.append(sure, [np.nan, np.nan]), np.append(right, [True, False]), np.append(fresh, np.nan), target=0.9
    )
    assert more == found
    assert 0 < found.n_answered < 80


def test_nothing_is_answered_where_the_labels_support_nothing() -> None:
    sure, fresh = np.linspace(0.5, 1, 30), np.linspace(0.5, 1, 20)
    wrong = choose_threshold(sure, np.zeros(30, bool), fresh, target=0.8)
    assert wrong.n_answered == 0
    assert np.isnan(wrong.threshold)
    assert np.isnan(wrong.attainable)
    assert choose_threshold(sure[:0], np.zeros(0, bool), fresh, target=0.8).n_answered == 0
    empty = choose_threshold(sure, np.ones(30, bool), fresh[:0], target=0.8)
    assert (empty.n_answered, empty.n_new, empty.n_needed) == (0, 0, 0)


@pytest.mark.parametrize(("m", "target"), [(30, 0.95), (300, 0.9), (7, 0.5), (9, 1.0)])
def test_the_least_number_of_labels_is_the_least(m: int, target: float) -> None:
    fresh = np.linspace(0.1, 0.9, m)
    few = least_labelled(m, target, 0.9) - 1

    def answered(n: int) -> int:
        return choose_threshold(np.full(n, 0.95), np.ones(n, bool), fresh, target=target).n_answered

    assert answered(few) == 0
    assert answered(few + 1) == m
    assert choose_threshold(np.full(few, 0.95), np.ones(few, bool), fresh, target=target).n_needed == few + 1


@pytest.mark.parametrize(("target", "assurance"), [(0.0, 0.9), (1.1, 0.9), (0.9, 0.4), (0.9, 1.0)])
def test_what_cannot_be_asked_for_is_refused(target: float, assurance: float) -> None:
    with pytest.raises(DirEAGError, match=r"expected a (share|probability)"):
        choose_threshold(np.array([0.5]), np.array([True]), np.array([0.5]), target=target, assurance=assurance)


def hard_case(name: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw confidences that promise much, and right answers, at a target of 0.8."""
    sure = rng.random(n)
    accuracy = {
        "at the target everywhere": np.full(n, 0.8),
        "just below": np.full(n, 0.77),
        "worst where surest": np.where(sure > 0.9, 0.5, 0.85),
        "good, then at the target": np.where(sure > 0.7, 1.0, 0.71),
        "ties": np.array([0.9, 0.78, 0.85, 0.6])[np.floor(4 * sure).astype(int)],
    }[name]
    return (np.floor(4 * sure) / 4 if name == "ties" else sure), rng.random(n) < accuracy


@pytest.mark.parametrize(
    "name", ["at the target everywhere", "just below", "worst where surest", "good, then at the target", "ties"]
)
@pytest.mark.parametrize(("n", "m"), [(150, 200), (12, 90), (120, 6)])
def test_hard_cases_miss_the_target_seldom_enough(name: str, n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    missed, n_runs = 0, 250
    for _ in range(n_runs):
        sure, right = hard_case(name, n + m, rng)
        lowest, _ = lowest_threshold(sure[:n], ~right[:n], sure[n:], 0.8, 0.9)
        answered = sure[n:] >= lowest
        missed += int((answered & ~right[n:]).sum()) > allowed(0.8, int(answered.sum()))
    assert missed / n_runs <= 0.1 + 3 * np.sqrt(0.09 / n_runs)
