"""Which levels stand out: runs, nearly copies of one another, or of one confidence."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np
import scipy  # which loads its slow parts when they are used
from jaxtyping import Shaped
from scipy.sparse.csgraph import connected_components

from bayes_direag.data.arrays import spellings
from bayes_direag.data.observations import Observations
from bayes_direag.data.plain import group_of
from bayes_direag.errors import DirEAGError

# The smallest share of equal reports (answer and confidence) for one level to be called a copy of another.
_COPIED = 0.95
# The smallest share of one confidence for it to be called constant.
_ONE_CONFIDENCE = 0.6
# The smallest number of reports of which a share is remarked on.
_FEWEST = 20
# The smallest share of labelled questions in which a text is an answer, for one that is never right to be named.
_FAILED = 0.1
# The smallest number of questions on which levels are called exchangeable, and p-values that say they are not.
_TESTED, _DIFFERENT = 50, 0.05
# The largest number of levels of a cluster that are named.
_NAMED = 5


def level_remarks(observations: Observations, among: Collection[str] | None = None) -> tuple[str, ...]:
    """Say which levels are nearly copies, and which state nearly constant confidences; empty if no level stands out.

    Of all levels, also say which are taken for runs, which with numbered names cannot be told apart, and which texts
    are the answer to many questions and never right, as words for a failed parse.

    Two levels are compared on the questions where both are usable; those of one group are known to be alike.
    Confidences must be equal to the last digit.

    Parameters
    ----------
    among
        The names of the levels to remark on; by default all.
    """
    columns = [column for column, name in enumerate(observations.level_names) if among is None or name in among]
    copies = _copies(observations, columns)
    whole = [*runs_remark(observations), *_failed_parses(observations)] if among is None else []
    alike = _exchangeable(observations) if among is None and not copies else []
    return (*whole, *copies, *alike, *_constant_confidences(observations, columns))


def runs_remark(observations: Observations) -> list[str]:
    """Say which levels are taken for runs because of their names, and how they become levels of their own."""
    names, groups = observations.table.names, observations.groups
    if names is None or not names.are_runs or groups is None:
        return []
    of_group = {
        group: [name for name, own in zip(observations.level_names, groups, strict=True) if own == group]
        for group in dict.fromkeys(groups)
    }
    runs = {group: own for group, own in of_group.items() if own != [group]}
    named = "; ".join(f"{_listed(own)} ({group})" for group, own in runs.items())
    return [
        f"These are taken for runs, each group as one level: {named}. With --groups none (groups='none') every run "
        "is a level of its own."
    ]


def _failed_parses(observations: Observations) -> list[str]:
    labelled = np.flatnonzero(observations.labelled)
    if observations.kind != "text" or len(labelled) < _FEWEST:
        return []
    candidates, given = observations.candidates, spellings(observations.table, observations.kind)
    answered = Counter(text for question in labelled for text in candidates[question])
    right = {
        text
        for question in labelled
        for text, is_right in zip(candidates[question], observations.correct_candidate[question], strict=False)
        if is_right
    }
    often = [text for text, n in answered.most_common() if n >= _FAILED * len(labelled) and text not in right]
    if not often:
        return []
    as_given = {text: said for question in labelled for text, said in given[observations.row[question]].items()}
    named = ", ".join(f"{as_given[text][:60]!r} ({answered[text] / len(labelled):.0%})" for text in often[:_NAMED])
    return [
        f"These texts answer many labelled questions and are never right: {named}. If they stand for a reply that "
        "could not be read, leave the answer empty (null): now such reports agree with each other."
    ]


def _copies(observations: Observations, columns: list[int]) -> list[str]:
    names, groups = observations.level_names, observations.groups or observations.level_names
    confidence = np.nan_to_num(observations.confidence, nan=-1)  # two missing ones are equal
    equal = np.zeros((observations.n_levels, observations.n_levels))
    for a, b in combinations(columns, 2):
        both = observations.usable[:, a] & observations.usable[:, b] & (groups[a] != groups[b])
        same = (observations.candidate[:, a] == observations.candidate[:, b]) & (confidence[:, a] == confidence[:, b])
        if both.sum() >= _FEWEST:
            equal[a, b] = same[both].mean()
    n, cluster = connected_components(equal >= _COPIED, directed=False)
    remarks = []
    for members in (np.flatnonzero(cluster == number) for number in range(n)):
        if len(members) > 1:
            own = equal[np.ix_(members, members)]
            copied = [names[member] for member in members]
            pattern = _pattern(copied)
            option = "group='COLUMN' (--column group=COLUMN)" if pattern is None else f"groups='{pattern}' (--groups)"
            remarks.append(
                f"These levels are nearly copies: {_listed(copied)}. Two of them have the same answer "
                f"and confidence in at least {own[own >= _COPIED].min():.0%} of the questions. If they are runs of one "
                f"model, make them a group: {option}. Otherwise keep one of them."
            )
    return remarks


def _exchangeable(observations: Observations) -> list[str]:
    """Name levels with numbers that differ in neither agreement nor confidence, by Friedman's tests."""
    remarks, numbered = [], defaultdict[str, list[int]](list)
    for column, name in enumerate(observations.level_names):
        if observations.groups is None or observations.groups[column] == name:
            numbered[re.sub(r"\d+(?=\D*$)", "{n}", name)].append(column)
    for form, members in numbered.items():
        names = [observations.level_names[member] for member in members]
        both = observations.usable[:, members].all(axis=1)
        if "{n}" not in form or len(members) < 3 or both.sum() < _TESTED or (pattern := _pattern(names)) is None:
            continue
        candidate = observations.candidate[both][:, members]
        agreement = (candidate[:, :, None] == candidate[:, None]).sum(axis=2)
        if not any(_differ(values) for values in (agreement, observations.confidence[both][:, members])):
            remarks.append(
                f"{_listed(names)} differ neither in how often they agree nor in their confidences. If they are runs "
                f"of one model, make them a group: groups='{pattern}' (--groups)."
            )
    return remarks


def _differ(values: Shaped[np.ndarray, "question level"]) -> bool:
    if np.isnan(values).any() or (values == values[:, :1]).all():
        return False
    return bool(scipy.stats.friedmanchisquare(*values.T).pvalue < _DIFFERENT)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _pattern(names: Sequence[str]) -> str | None:
    """Return a pattern by which these names are one group, such as ``{group}_run{n}``; None if there is none."""
    for number in re.finditer(r"\d+", names[0]):
        before, after = names[0][: number.start()], names[0][number.end() :]
        word = re.search(r"([\W_]+[^\W\d_]*)?$", before)
        ends = dict.fromkeys([word[0] if word else "", ""])
        for pattern in (f"{start}{{n}}{after}" for start in [*("{group}" + end for end in ends), before]):
            try:
                groups = {group_of(pattern, name) for name in names}
            except DirEAGError:  # not a form of groups
                continue
            if len(groups) == 1 and None not in groups:
                return pattern
    return None


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
