"""The level that is right most often, on its own."""

from functools import partial

import numpy as np

from analysis.methods.method import Answerer
from analysis.methods.rules import vanilla
from bayes_direag.data.observations import Observations


def best_level(labelled: Observations, _: int) -> Answerer:
    """Choose the level that gave most right answers to the labelled questions; of equals, the first.

    Every other question gets that level's own answer and stated confidence; it is unanswered where that level's report
    is not usable.
    """
    most = int(np.argmax(labelled.correct.sum(axis=0)))
    return partial(vanilla, level_name=labelled.level_names[most])
