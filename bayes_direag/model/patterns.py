"""Questions of one pattern: those that a model cannot tell apart, so that one computation serves them all."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int, Shaped


class Patterns(NamedTuple):
    """Which pattern each question has."""

    #: A question of each pattern; the order of the patterns does not depend on that of the questions.
    member: Int[np.ndarray, " pattern"]
    #: The pattern of each question.
    pattern: Int[np.ndarray, " problem"]


def distinct_rows(columns: Sequence[Shaped[np.ndarray, " row"]]) -> Patterns:
    """Find the distinct rows of a table, given its columns, at least one.

    Examples
    --------
    >>> distinct_rows([np.array([3, 1, 3, 3]), np.array([0.5, 0.5, 0.5, 0.1])])
    Patterns(member=array([1, 3, 0]), pattern=array([2, 0, 2, 1]))
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        number, values = pd.factorize(column)
        code, _ = pd.factorize(code * len(values) + number)
    _, first = np.unique(code, return_index=True)
    order = np.lexsort([column[first] for column in reversed(columns)])
    return Patterns(first[order], np.argsort(order)[code])


def by_first_mention(candidate: Int[np.ndarray, "problem level"]) -> Int[np.ndarray, "problem level"]:
    """Renumber each question's candidates in the order in which its levels name them; -1 stays.

    Examples
    --------
    >>> by_first_mention(np.array([[2, 0, -1, 2, 1], [-1, 0, 0, 0, 0]]))
    array([[ 0,  1, -1,  0,  2],
           [-1,  0,  0,  0,  0]])
    """
    n, n_levels = candidate.shape
    question, renumbered = np.arange(n), np.full(candidate.shape, -1)
    number, n_named = np.full((n, n_levels + 1), -1), np.zeros(n, int)  # the last column stands for no report
    for level, named in enumerate(candidate.T):
        fresh = (named >= 0) & (number[question, named] < 0)
        number[question[fresh], named[fresh]] = n_named[fresh]
        n_named += fresh
        renumbered[:, level] = number[question, named]
    return renumbered


def first_mentions(candidate: Int[np.ndarray, "report problem"]) -> Bool[np.ndarray, "report problem"]:
    """Tell whether each report is the first of its question that gives its answer; False without a usable report."""
    earlier = [(candidate[:number] == named).any(axis=0) for number, named in enumerate(candidate)]
    return np.asarray((candidate >= 0) & ~np.array(earlier))
