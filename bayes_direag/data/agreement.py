r"""How often each level agrees with the others, beyond chance. No label is looked at.

.. math::

    k_l &= \frac{a_l - e_l}{1 - e_l} \\
    x_l &= r\,(\operatorname{logit} k_l - \overline{\operatorname{logit} k})

:math:`a_l` is the share of level l's answers that equal the plurality of the other reports on the question. If m
answers tie for the plurality, each is 1 / m of it. :math:`e_l` is the same for an answer and the plurality of another
question: without it, levels would agree by naming the commonest label. :math:`r` is the reliability, the share of the
variance of logit k between levels that is not noise. The mean and the variances weigh each level by its answers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayes_direag.data.arrays import ranks

#: With more distinct answers than this, options have no meaning that all questions share, and nothing agrees by chance.
MOST_OPTIONS = 40
#: Bounds of k, and of x; the least variance of a single comparison.
_BEYOND_CHANCE, _LARGEST, _LEAST_VARIANCE = (0.03, 0.99), 1.0, 0.005


class Agreement(NamedTuple):
    """The agreement of each level with the others."""

    #: a, smoothed by one agreement and one disagreement; NaN for a level that never answers beside another.
    share: Float[np.ndarray, " level"]
    #: e, NaN likewise.
    by_chance: Float[np.ndarray, " level"]
    #: x, from -1 to 1; 0 if nothing is known of a level.
    score: Float[np.ndarray, " level"]


class Comparisons(NamedTuple):
    """Each level's answers, compared with the plurality of the others; those of several sets add up."""

    #: Number of answers that have others beside them.
    n: Float[np.ndarray, " level"]
    #: How many of these equal the plurality.
    n_equal: Float[np.ndarray, " level"]
    #: How often each option was given, and was the plurality; without columns if there are too many options.
    given: Float[np.ndarray, "level option"]
    plurality: Float[np.ndarray, "level option"]

    def __add__(self, other: "Comparisons") -> "Comparisons":  # type: ignore[override]
        """Return the comparisons of both sets."""
        return Comparisons(*(one + further for one, further in zip(self, other, strict=True)))


def comparisons(option: Int[np.ndarray, "problem report"], level: Sequence[int], n_options: int) -> Comparisons:
    """Compare every report with the others on its question.

    ``option`` is the answer of each report, a number below ``n_options`` that means the same in all questions, or -1;
    ``level`` is the level of each column of reports, and counts from 0.
    """
    n_levels, n_shared = max(level) + 1, n_options if n_options <= MOST_OPTIONS else 0
    counted = Comparisons(*(np.zeros((n_levels, *shape)) for shape in ((), (), (n_shared,), (n_shared,))))
    candidate, row = ranks(option), np.arange(len(option))
    option_of, votes = np.full(option.shape, -1), np.zeros(option.shape, int)
    for column, said in enumerate(candidate.T):
        known = said >= 0
        votes[row[known], said[known]] += 1
        option_of[row[known], said[known]] = option[known, column]
    for column, of_level in enumerate(level):
        compared = (candidate[:, column] >= 0) & (votes.sum(axis=1) > 1)
        said, others = candidate[compared, column, None], votes[compared]
        np.put_along_axis(others, said, np.take_along_axis(others, said, axis=1) - 1, axis=1)
        leads = others == others.max(axis=1, keepdims=True)
        plurality = leads / leads.sum(axis=1, keepdims=True)
        counted.n[of_level] += compared.sum()
        counted.n_equal[of_level] += np.take_along_axis(plurality, said, axis=1).sum()
        if n_shared:
            counted.given[of_level] += np.bincount(option[compared, column], minlength=n_shared)
            counted.plurality[of_level] += np.bincount(option_of[compared][leads], plurality[leads], minlength=n_shared)
    return counted


def agreement(counted: Comparisons) -> Agreement:
    """Return how often each level agrees with the others, by chance and beyond it."""
    n, known = counted.n, counted.n > 0
    share = (counted.n_equal + 1) / (n + 2)
    by_chance = (counted.given * counted.plurality).sum(axis=1) / np.maximum(n, 1) ** 2
    left = np.maximum(1 - by_chance, np.finfo(float).eps)
    beyond = np.clip((share - by_chance) / left, *_BEYOND_CHANCE)
    logit, slope = np.log(beyond) - np.log1p(-beyond), 1 / (left * beyond * (1 - beyond))
    weight = n / max(n.sum(), 1)
    noise = weight @ (np.maximum(share * (1 - share), _LEAST_VARIANCE) / np.maximum(n, 1) * slope**2)
    centred = np.where(known, logit - weight @ logit, 0.0)
    variance = weight @ centred**2
    reliability = max(0.0, 1 - noise / variance) if variance > 0 else 0.0
    score = np.clip(reliability * centred, -_LARGEST, _LARGEST)
    return Agreement(np.where(known, share, np.nan), np.where(known, by_chance, np.nan), score)
