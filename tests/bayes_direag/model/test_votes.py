import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.model.votes import Votes


def test_by_hand() -> None:
    candidate = np.array([[0, 0, 1, -1, -1], [0, 0, 0, -1, 0], [-1, -1, -1, -1, -1], [2, 1, -1, 0, 1]])
    votes = Votes.of(candidate, np.array([0, 0, -1, 0]))
    np.testing.assert_allclose(votes.agreement, np.log([2.5 / 1.5, 4.5 / 0.5, 0.5 / 0.5, 1.5 / 3.5]))
    np.testing.assert_allclose(votes.missing, [0.4, 0.2, 1.0, 0.2])


def test_a_batch_of_selections() -> None:
    candidate = np.array([[0, 0, 1], [1, 0, -1]])
    selected = np.array([[0, 1], [1, 0], [1, 1]])
    votes = Votes.of(candidate, selected)
    for row, own in enumerate(selected):
        alone = Votes.of(candidate, own)
        assert (votes.agreement[row] == alone.agreement).all()
        assert (votes.missing[row] == alone.missing).all()


@given(
    st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=1, max_size=6), st.permutations(range(4))
)
def test_the_order_of_levels_and_the_names_of_candidates_mean_nothing(rows: list[list[int]], order: list[int]) -> None:
    candidate = np.array(rows)
    selected = candidate.max(axis=1)
    votes = Votes.of(candidate, selected)
    moved = Votes.of(candidate[:, order], selected)
    names = np.array([2, 0, 3, 1, -1])  # the last is looked up by -1
    renamed = Votes.of(names[candidate], names[selected])
    for other in (moved, renamed):
        np.testing.assert_array_equal(other.agreement, votes.agreement)
        np.testing.assert_array_equal(other.missing, votes.missing)
    assert (np.isfinite(votes.agreement) & (votes.missing >= 0) & (votes.missing <= 1)).all()
