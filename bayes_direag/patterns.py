"""Questions that a model cannot tell apart, counted once: the cost of a fit grows with what is distinct.

What came true has the same probability in two questions if level for level the reports are absent, wrong or right in
both and, where the model uses it, equally confident, and if both have as many answers, and as many right ones. Which
answer a wrong report gave does not matter.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped

from bayes_direag.evidence import Reports
from bayes_direag.model import Labels
from bayes_direag.settings import Variant


class Patterns(NamedTuple):
    """How questions fall into patterns.

    Attributes
    ----------
    member : (pattern,) array
        The number of a question of each pattern. Their order depends on the patterns alone, not on that of the
        questions.
    pattern : (problem,) array
        The number of each question's pattern.
    """

    member: Int[np.ndarray, " pattern"]
    pattern: Int[np.ndarray, " problem"]

    def total(self, weight: Float[np.ndarray, "batch problem"]) -> Float[np.ndarray, "batch pattern"]:
        """Add up what the questions of each pattern weigh."""
        return np.stack([np.bincount(self.pattern, row, len(self.member)) for row in weight])


def likelihood_patterns(reports: Reports, labels: Labels, variant: Variant) -> Patterns:
    """Find the questions whose likelihood is the same whatever the parameters.

    The weights of the labels are not looked at.
    """
    usable = np.asarray(reports.candidate) >= 0
    outcome = np.where(np.asarray(labels.correct), 2, usable.astype(np.int8))
    columns = [np.asarray(reports.n_candidates), np.asarray(labels.n_correct), *outcome.T]
    if variant == "confidence":
        columns += [*np.where(usable, reports.confidence, 0.0).T]
    return distinct_rows(columns)


def distinct_rows(columns: Sequence[Shaped[np.ndarray, " row"]]) -> Patterns:
    """Find the rows of a table that differ, given its columns, at least one.

    Examples
    --------
    >>> distinct_rows([np.array([3, 1, 3, 3]), np.array([0.5, 0.5, 0.5, 0.1])])
    Patterns(member=array([1, 3, 0]), pattern=array([2, 0, 2, 1]))
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        own, values = pd.factorize(column)
        code, _ = pd.factorize(code * len(values) + own)
    _, first = np.unique(code, return_index=True)
    order = np.lexsort([column[first] for column in reversed(columns)])
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Patterns(first[order], place[code])
