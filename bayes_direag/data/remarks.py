"""What stands out in the reports of levels: copies of one another, one confidence, ratings among percentages."""

from collections.abc import Collection
from itertools import combinations

import numpy as np

from bayes_direag.data.observations import Observations

#: The fewest reports of which a share is remarked on, and the shares that make a copy and a constant confidence.
_FEWEST, _COPIED, _CONSTANT = 20, 0.95, 0.6
#: The largest rating.
_LARGEST_RATING = 0.1


def level_remark(observations: Observations, among: Collection[str] | None = None) -> str:
    """Say in a paragraph which levels are nearly copies, state one confidence, or ratings; empty if none does.

    Two levels are copies if answer and stated confidence are equal in nearly all questions with both, to the last
    digit. Levels of one group are known to be alike, and a level of one confidence is not compared.

    Parameters
    ----------
    among
        The names of the levels to remark on; by default all.
    """
    names, groups = observations.level_names, observations.groups or observations.level_names
    stated = np.where(observations.usable, observations.confidence, np.nan)
    constant, ratings, varied = [], [], []
    for column in [column for column, name in enumerate(names) if among is None or name in among]:
        values, counts = np.unique(stated[~np.isnan(stated[:, column]), column], return_counts=True)
        if counts.sum() < _FEWEST:
            continue
        if counts.max() >= _CONSTANT * counts.sum():
            said = f"{100 * values[counts.argmax()]:.3g}% in {counts.max() / counts.sum():.0%}"
            constant.append(f"{names[column]} ({said})")
        else:
            varied.append(column)
        if 0.01 < values.max() <= _LARGEST_RATING < np.nanmax(stated) and not (np.round(values * 100, 9) % 1).any():
            ratings.append(f"{names[column]} (at most {100 * values.max():.0f}%)")
    copies = {}  # of each level, the first that it copies
    for a, b in combinations(varied, 2):
        both = ~np.isnan(stated[:, a] + stated[:, b]) & (groups[a] != groups[b])
        same = (observations.candidate[:, a] == observations.candidate[:, b]) & (stated[:, a] == stated[:, b])
        if both.sum() >= _FEWEST and same[both].mean() >= _COPIED:
            copies.setdefault(b, f"{names[a]} and {names[b]} ({same[both].mean():.0%})")
    sentences = {
        "These levels are nearly copies, with one answer and confidence: {}. Keep one of them, or make runs of one "
        "model a group (--column group=COLUMN, --groups).": copies.values(),
        "Most reports of these levels state the same confidence, which tells little: {}.": constant,
        "Confidences of these levels look like ratings, not percentages: {}. If they are, write percentages.": ratings,
    }
    return " ".join(sentence.format(", ".join(found)) for sentence, found in sentences.items() if found)
