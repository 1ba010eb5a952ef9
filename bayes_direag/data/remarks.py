"""What stands out: levels that are copies, err alike or state one confidence, and questions of nearly one name."""

from collections.abc import Collection
from itertools import combinations

import numpy as np

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


def level_remarks(observations: Observations, among: Collection[str] | None = None) -> tuple[str, ...]:
    """Say which levels repeat another, and which state nearly constant confidences; empty if no level stands out.

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
    names, candidate = observations.level_names, observations.candidate
    right = np.take_along_axis(observations.correct_candidate, np.maximum(candidate, 0), axis=1)
    confidence = np.nan_to_num(observations.confidence, nan=-1)  # two missing ones are equal
    remarks = []
    for a, b in combinations(columns, 2):
        both = observations.usable[:, a] & observations.usable[:, b]
        mistaken = both & observations.labelled & ~(right[:, a] & right[:, b])
        agrees = candidate[:, a] == candidate[:, b]
        equal = agrees & (confidence[:, a] == confidence[:, b])
        if both.sum() >= _FEWEST and equal[both].mean() >= _COPIED:
            remarks.append(
                f"{names[b]} is nearly a copy of {names[a]}: the same answer and confidence in "
                f"{equal[both].mean():.0%} of {both.sum()} questions. Leave one of them out."
            )
        elif mistaken.sum() >= _FEWEST and agrees[mistaken].mean() >= _SHARED_MISTAKES:
            remarks.append(
                f"{names[a]} and {names[b]} make the same mistakes: {agrees[mistaken].mean():.0%} of the "
                f"{mistaken.sum()} questions that one of them got wrong have the same wrong answer from both. Where "
                "they agree, that is hardly more evidence than one of them."
            )
    return remarks


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
    return [f"All confidences of these levels are 0% or 1%: {named}. If they are fractions, give --scale fraction."]
