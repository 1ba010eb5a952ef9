"""The folds of questions, dealt in whole clusters."""

import random
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import Preset

#: The number of each question's fold, or of its cluster.
Numbers = Int[np.ndarray, " problem"]
Chosen = Bool[np.ndarray, " problem"]


def assign_folds(n: int, n_folds: int, seed: int, cluster: Numbers | None = None) -> Numbers:
    """Deal ``n`` questions into folds: shuffle their indices with ``random.Random(seed)``, then deal round-robin.

    With clusters, whole ones are dealt after the shuffle, the largest first, each to the smallest fold so far. Sizes
    differ by at most one, or by the size of the largest cluster. Raises DirEAGError with fewer than two folds, or fewer
    questions or clusters than folds.
    """
    _, member, sizes = np.unique(np.arange(n) if cluster is None else cluster, return_inverse=True, return_counts=True)
    if not 2 <= n_folds <= len(sizes):
        remedy = "Ask for more folds." if n_folds < 2 else "Ask for fewer folds, or give more questions."
        seen, unit = f"{n} usable questions", "question"
        if cluster is not None:
            seen, unit = f"{seen} in {len(sizes)} clusters", "cluster"
        raise DirEAGError(
            f"cannot deal {seen} into {n_folds} folds; expected at least two folds and a {unit} for each. {remedy}"
        )
    order = list(range(n))
    random.Random(seed).shuffle(order)  # noqa: S311 - a reproducible deal, not a secret
    return _dealt(member, member[order].tolist(), n_folds)


def _dealt(member: Numbers, order: Sequence[int], n_folds: int) -> Numbers:
    """Deal clusters in this order, but the largest first, each to the smallest fold so far."""
    sizes = np.bincount(member)
    filled, fold = [0] * n_folds, np.empty(len(sizes), np.int64)
    for number in sorted(dict.fromkeys(order), key=lambda number: -sizes[number]):
        fold[number] = smallest = filled.index(min(filled))
        filled[smallest] += sizes[number]
    return np.asarray(fold[member])


def dealt_folds(observations: Observations, chosen: Chosen, n_folds: int, seed: int) -> Numbers:
    """Return the fold of each chosen question, dealt in whole clusters; -1 for the others."""
    fold, cluster = np.full(len(observations), -1), observations.cluster_number
    fold[chosen] = assign_folds(int(chosen.sum()), n_folds, seed, None if cluster is None else cluster[chosen])
    return fold


class Fold(NamedTuple):
    """Which questions a fit is given, and the positions of those that it predicts; ``test`` names a test set."""

    name: str
    fitted: Chosen
    asked: Int[np.ndarray, " asked"]


def dealt(observations: Observations, test: Observations | None, n_folds: int, seed: int) -> list[Fold]:
    """Deal the answered questions by :func:`assign_folds`, or take all to predict a test set: one fold.

    Questions of weight 0 are left out. Raises DirEAGError if there are too few questions for the folds, or the test set
    has a question (a ``problem_id``) or a cluster in common.
    """
    if test is None:
        number = dealt_folds(observations, observations.answered & (observations.weight > 0), n_folds, seed)
        return [Fold(str(k), (number >= 0) & (number != k), np.flatnonzero(number == k)) for k in range(n_folds)]
    names = set(observations.problem_id), {name for name in observations.cluster or () if name}
    of_test = test.problem_id, test.cluster or ()
    for kind, seen, asked in zip(("questions", "clusters"), names, of_test, strict=True):
        if both := seen & set(asked):
            raise DirEAGError(
                f"{len(both)} {kind} of the test set are also in the training set, {min(both)!r} among them; expected "
                "none, so that no question is evaluated by a fit that has seen it, or one of its cluster. Remove them "
                "from one of the two, or rename them if they are others under the same name."
            )
    return [Fold("test", np.ones(len(observations), bool), np.flatnonzero(test.answered))]


def holdout_of(observations: Observations, chosen: Chosen, preset: Preset, seed: int) -> Chosen:
    """Return which of the chosen questions a preset with a split keeps for the final calibration alone."""
    n_parts, learned = preset.recalibration.split, chosen & observations.informative
    return dealt_folds(observations, learned, n_parts, seed) == 0 if n_parts else np.zeros_like(chosen)


def hashed_folds(observations: Observations, chosen: Chosen, n_folds: int, seed: int) -> Numbers:
    """Return folds as :func:`dealt_folds` does, but dealt by a hash of each name and the seed, whatever their order."""
    fold, row, number = np.full(len(observations), -1), np.flatnonzero(chosen), observations.cluster_number
    member = np.unique(row if number is None else number[row], return_inverse=True)[1]
    clusters = observations.cluster or observations.problem_id
    name = {unit: clusters[i] or observations.problem_id[i] for unit, i in zip(member.tolist(), row, strict=True)}
    order = sorted(name, key=lambda unit: sha256(f"{seed} {name[unit]}".encode()).digest())
    fold[row] = _dealt(member, order, n_folds)
    return fold
