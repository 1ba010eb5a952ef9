"""The fold rule against one written from its statement."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fitting import assign_folds


def dealt(n: int, n_folds: int, seed: int) -> list[list[int]]:
    """Shuffle the indices and deal them like cards."""
    cards = list(range(n))
    random.Random(seed).shuffle(cards)
    return [cards[place::n_folds] for place in range(n_folds)]


counts = st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, n)))


@given(counts, st.integers(0, 2**32))
def test_the_rule(count, seed):
    n, n_folds = count
    fold = assign_folds(n, n_folds, seed)
    hands = dealt(n, n_folds, seed)
    assert [sorted(hand) for hand in hands] == [np.flatnonzero(fold == number).tolist() for number in range(n_folds)]


@given(counts, st.integers(0, 2**32))
def test_sizes_differ_by_one_at_most_and_the_first_folds_are_the_larger(count, seed):
    n, n_folds = count
    sizes = np.bincount(assign_folds(n, n_folds, seed), minlength=n_folds)
    assert sizes.tolist() == [n // n_folds + (number < n % n_folds) for number in range(n_folds)]


def test_a_deal_that_is_known():
    # random.Random(0) shuffles 0..6 into 4 2 1 0 5 3 6.
    assert assign_folds(7, 3, 0)[[4, 2, 1, 0, 5, 3, 6]].tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_the_seed_matters_and_the_global_state_does_not():
    random.seed(1)
    state = random.getstate()
    first = assign_folds(30, 5, 7)
    assert random.getstate() == state
    assert first.tolist() == assign_folds(30, 5, 7).tolist()
    assert first.tolist() != assign_folds(30, 5, 8).tolist()


def test_one_question_a_fold_is_leave_one_out():
    assert sorted(assign_folds(6, 6, 3).tolist()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("n", [0, 1, 4])
def test_too_few_questions(n):
    with pytest.raises(DirEAGError, match=rf"cannot deal {n} usable questions into 5 folds.*fewer folds"):
        assign_folds(n, 5, 0)


@pytest.mark.parametrize("n_folds", [1, 0, -3])
def test_too_few_folds(n_folds):
    with pytest.raises(DirEAGError, match=r"at least two folds.*more folds"):
        assign_folds(10, n_folds, 0)
