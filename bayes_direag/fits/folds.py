"""The fold rule: who is held out with whom."""

import random

import numpy as np
from jaxtyping import Int

from bayes_direag.errors import DirEAGError


def assign_folds(n: int, n_folds: int, seed: int) -> Int[np.ndarray, " problem"]:
    """Deal ``n`` questions into folds: shuffle their indices with ``random.Random(seed)``, then deal round-robin.

    Returns
    -------
    (problem,) array
        The fold of each question, 0-based. Sizes differ by one at most.

    Raises
    ------
    DirEAGError
        With fewer than two folds, or fewer questions than folds (in particular without questions).
    """
    if not 2 <= n_folds <= n:
        remedy = "Ask for more folds." if n_folds < 2 else "Ask for fewer folds, or give more questions."
        raise DirEAGError(
            f"cannot deal {n} usable questions into {n_folds} folds; expected at least two folds and a question for "
            f"each. {remedy}"
        )
    order = list(range(n))
    random.Random(seed).shuffle(order)  # noqa: S311 - a reproducible deal, not a secret
    folds = np.empty(n, np.int64)
    folds[order] = np.arange(n) % n_folds
    return folds
