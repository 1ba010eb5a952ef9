"""The distinct rows of a table are those that NumPy finds."""

import numpy as np

from bayes_direag.model.patterns import distinct_rows


def test_distinct_rows_are_those_of_numpy() -> None:
    table = np.random.default_rng(0).integers(0, 3, size=(500, 4))
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    result = distinct_rows([*table.T])
    np.testing.assert_array_equal(table[result.member], rows)
    np.testing.assert_array_equal(result.pattern, inverse)
    assert len(distinct_rows([np.zeros(0)]).member) == 0
