"""What stands out: levels that are copies, err alike or state one confidence, and questions of nearly one name."""

import re
from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import connected_components

from bayes_direag.data.observations import Observations
from bayes_direag.data.plain import spelled

# The smallest share of equal reports (answer and confidence) for one level to be called a copy of another.
_COPIED = 0.95
# The smallest share of equal wrong answers for two levels to be said to make the same mistakes.
_SHARED_MISTAKES = 2 / 3
# The smallest share of one confidence for it to be called constant.
_ONE_CONFIDENCE = 0.6
# The smallest number of reports, or of mistakes, of which a share is remarked on.
_FEWEST = 20
# The largest number of levels of a cluster that are named.
_NAMED = 5


def level_remarks(observations: Observations, among: Collection[str] | None = None) -> tuple[str, ...]:
    """Say which levels repeat one another, and which state nearly constant confidences; empty if no level stands out.

    Two levels are compared on the questions where both are usable, and their mistakes on the labelled ones that at
    least one of them got wrong. Confidences must be equal to the last digit.

    Parameters
    ----------
    among
        The names of the levels to remark on; by default all.
    """
    columns = [column for column, name in enumerate(observations.level_names) if among is None or name in among]
    remarks = *_repetitions(observations, columns), *_constant_confidences(observations, columns)
    return (*remarks, *_zeros_and_ones(observations, columns))


def name_remarks(observations: Observations) -> tuple[str, ...]:
    """Say which questions have names that differ only in spaces or in the form of characters; empty if none do."""
    alike: dict[str, list[str]] = {}
    for name in observations.problem_id:
        alike.setdefault("".join(spelled(name).split()), []).append(name)
    groups = [names for names in alike.values() if len(names) > 1]
    if not groups:
        return ()
    first = " and ".join(map(ascii, groups[0]))
    return (
        f"{sum(map(len, groups))} questions have names that differ only in spaces or in the form of characters: {first}"
        f"{' and others' if len(groups) > 1 else ''}. If they are one question, give them one problem_id.",
    )


def _repetitions(observations: Observations, columns: list[int]) -> list[str]:
    """Name the clusters of levels that repeat one another; levels of one group are known to be alike."""
    names, groups = observations.level_names, observations.groups or observations.level_names
    candidate, correct = observations.candidate, observations.correct
    confidence = np.nan_to_num(observations.confidence, nan=-1)  # two missing ones are equal
    equal, mistaken = np.zeros((2, observations.n_levels, observations.n_levels))
    for a, b in combinations(columns, 2):
        both = observations.usable[:, a] & observations.usable[:, b] & (groups[a] != groups[b])
        agrees = both & (candidate[:, a] == candidate[:, b])
        wrong = both & observations.labelled & ~(correct[:, a] & correct[:, b])
        if both.sum() >= _FEWEST:
            equal[a, b] = (agrees & (confidence[:, a] == confidence[:, b])).sum() / both.sum()
        if wrong.sum() >= _FEWEST:
            mistaken[a, b] = agrees[wrong].mean()
    copies, alike = equal >= _COPIED, mistaken >= _SHARED_MISTAKES
    remarks = [
        f"{_named(names, cluster)} are nearly copies: two of them have the same answer and confidence in "
        f"{_shares(equal[copies & within])} of the questions. {_remedy(names, cluster)}; otherwise keep one of them."
        for cluster, within in _clusters(copies)
    ]
    return remarks + [
        f"{_named(names, cluster)} make the same mistakes: where one of two is wrong, both give the same wrong answer "
        f"in {_shares(mistaken[alike & within])} of the questions, hardly more evidence than one. "
        f"{_remedy(names, cluster)}."
        for cluster, within in _clusters(copies | alike)
        if (alike & ~copies)[within].any()
    ]


def _clusters(linked: Bool[np.ndarray, "level level"]) -> list[tuple[list[int], Bool[np.ndarray, "level level"]]]:
    """Return the levels of each cluster of linked ones, and which pairs are in it."""
    n, number = connected_components(linked, directed=False)
    members = [number == cluster for cluster in range(n)]
    return [(np.flatnonzero(one).tolist(), np.outer(one, one)) for one in members if one.sum() > 1]


def _named(names: Sequence[str], levels: list[int]) -> str:
    *first, last = [names[level] for level in levels[:_NAMED]]
    more = len(levels) - _NAMED
    return ", ".join([*first, last]) + f" and {more} more" if more > 0 else f"{', '.join(first)} and {last}"


def _remedy(names: Sequence[str], levels: list[int]) -> str:
    """Name the group by the pattern that the names have, such as ``{group}_run{n}``."""
    runs = [re.fullmatch(r".+?([\W_]+[^\W\d_]*|)\d+", names[level]) for level in levels]
    ends = {run and run[1] for run in runs}
    end = ends.pop() if len(ends) == 1 else None
    pattern = (
        f"groups='{{group}}{end}{{n}}' (--groups)" if end is not None else "group='COLUMN' (--column group=COLUMN)"
    )
    return f"If they are runs of one model, make them a group: {pattern}"


def _shares(shares: Float[np.ndarray, " pair"]) -> str:
    low, high = f"{shares.min():.0%}", f"{shares.max():.0%}"
    return low if low == high else f"{low} to {high}"


def _constant_confidences(observations: Observations, columns: list[int]) -> list[str]:
    constant = []
    for column in columns:
        name, confidence = observations.level_names[column], observations.confidence[:, column]
        stated = observations.usable[:, column] & ~np.isnan(confidence)
        values, counts = np.unique(confidence[stated], return_counts=True)
        if counts.sum() >= _FEWEST and counts.max() >= _ONE_CONFIDENCE * counts.sum():
            share = counts.max() / counts.sum()
            constant.append((share, f"{name} ({100 * values[counts.argmax()]:.3g}% in {share:.0%})"))
    if not constant:
        return []
    named = ", ".join(text for _, text in sorted(constant, key=lambda level: -level[0]))
    return [f"Most reports of these levels state the same confidence, which tells little: {named}."]


def _zeros_and_ones(observations: Observations, columns: list[int]) -> list[str]:
    confidence = observations.confidence[:, columns]
    is_stated, n_ones = ~np.isnan(confidence), (confidence == 0.01).sum(axis=0)
    n_others = (is_stated & (confidence != 0) & (confidence != 0.01)).sum(axis=0)
    found = np.flatnonzero((is_stated.sum(axis=0) >= _FEWEST) & (n_ones > 0) & (n_others == 0)).tolist()
    if not found:
        return []
    named = ", ".join(observations.level_names[columns[place]] for place in found)
    return [f"All confidences of these levels are 0% or 1%: {named}. If they are fractions, say scale='fraction'."]
