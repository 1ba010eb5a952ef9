"""Which questions a method learns from and which it answers, fold by fold: none that it has seen."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from analysis.methods.direag import DirEAG
from analysis.methods.method import Learner
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fitting import check_apart, fold_of_question


class Part(NamedTuple):
    """One fold, or the whole of a test set.

    Attributes
    ----------
    fold : str
        ``0``, ``1``, ...; ``test`` for a test set.
    labelled : Observations
        The labelled, answered questions to learn from.
    asked : (problem,)
        The questions to answer, as positions in the evaluated ones, ascending.
    """

    fold: str
    labelled: Observations
    asked: Int[np.ndarray, " problem"]


def deal(observations: Observations, test: Observations | None, n_folds: int | None, seed: int) -> tuple[Part, ...]:
    """Deal the answered questions into folds, the same for all methods; with a test set there is one part.

    Raises DirEAGError if there are too few questions for the folds, nothing to learn from in one of them, or a question
    (or one of its cluster) is both learned from and tested.
    """
    usable = observations.labelled & observations.answered
    if test is None:
        fold = fold_of_question(observations, n_folds or 0, seed)
        parts = tuple(
            Part(str(number), observations.select(usable & (fold != number)), np.flatnonzero(fold == number))
            for number in range(n_folds or 0)
        )
    else:
        check_apart(observations, test)
        parts = (Part("test", observations.select(usable), np.flatnonzero(test.answered)),)
    if not all(len(part.labelled) for part in parts):
        raise DirEAGError(
            "saw no labelled, answered question to learn from; expected at least one outside each fold. Give more, or "
            "name methods that learn nothing: majority, mean_confidence, steerconf."
        )
    return parts


def learn_each(
    learner: Learner,
    parts: Sequence[Part],
    observations: Observations,
    test: Observations | None,
    n_folds: int | None,
    seed: int,
) -> list[Any]:
    """Learn from every part of what :func:`deal` dealt of the same; fits of all folds are made at once."""
    if isinstance(learner, DirEAG):
        return learner.of_each_fold(observations, test, n_folds, seed)
    return [learner(part.labelled, seed) for part in parts]
