"""Which questions a learning curve learns from, and which it is measured on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError

#: At least so many questions, and at least this share of all, are kept for testing.
FEWEST_TESTED, SHARE_TESTED = 100, 0.2


@dataclass(frozen=True, eq=False)
class Splits:
    """Random splits of the usable questions: those that are both labelled and answered.

    A split is one permutation of the usable questions. Its first n are learned from, for every number n of labels; what
    lies beyond the largest n is tested. So within a split

    - the smaller set of labels is part of the larger, as it is for someone who goes on labelling;
    - all numbers of labels, and all methods, are tested on the very same questions, from which none has learned. Hard
      questions are hard for all, and drop out of every difference along the curve.

    Testing on all that a number of labels leaves over would give the small numbers more questions, and other ones than
    the large.

    Attributes
    ----------
    label_counts : tuple of int
        Numbers of labels, ascending.
    left_out : dict
        Numbers of labels that were asked for and that the questions cannot hold, with the reason.
    n_test : int
        Tested questions of each split: all usable ones less the largest number of labels.
    order : (split, usable) array
        The permutations, as positions in the observations. Questions of one cluster follow each other.
    cluster : (problem,) array or None
        Which questions of the observations hang together.
    """

    label_counts: tuple[int, ...]
    left_out: dict[int, str]
    n_test: int
    order: Int[np.ndarray, "split usable"]
    cluster: Int[np.ndarray, " problem"] | None = None

    @property
    def n_usable(self) -> int:
        """Number of questions that are both labelled and answered."""
        return int(self.order.shape[1])

    @property
    def tested_share(self) -> float:
        """Share of the usable questions that each split tests."""
        return self.n_test / self.n_usable

    def learned(self, split: int, n_labels: int) -> Int[np.ndarray, " problem"]:
        """Return the positions of the questions that are learned from, ascending."""
        return np.sort(self.order[split, :n_labels])

    def tested(self, split: int) -> Int[np.ndarray, " problem"]:
        """Return the positions of the questions that are tested, in random order.

        Without those of a cluster that some have been learned from, which are fewer than the cluster has.
        """
        tested = self.order[split, -self.n_test :]
        if self.cluster is None:
            return tested
        last_learned = self.order[split, self.label_counts[-1] - 1]
        return np.asarray(tested[self.cluster[tested] != self.cluster[last_learned]])


def draw_splits(observations: Observations, label_counts: Sequence[int], *, n_splits: int, seed: int) -> Splits:
    """Draw the splits, for those numbers of labels that leave max(100, 20 %) of the usable questions for testing.

    No tested question is of a cluster that was learned from.

    Raises DirEAGError without numbers of labels, for one below 1, for fewer than two splits, or if no number can be
    had.

    Parameters
    ----------
    label_counts
        In any order; equal ones are taken once.
    n_splits
        At least 2, so that they can be seen to differ. Further splits leave the earlier ones as they are.
    seed
        Of the permutations.

    Examples
    --------
    >>> from bayes_direag import simulate_observations
    >>> splits = draw_splits(simulate_observations(n=150, seed=1), [30, 100], n_splits=2, seed=0)
    >>> splits.label_counts, splits.left_out
    ((30,), {100: '150 usable questions hold at most 50 beside the 100 kept for testing'})
    """
    wanted = sorted(set(label_counts))
    if not wanted or wanted[0] < 1:
        seen = ", ".join(map(str, label_counts)) or "none"
        raise DirEAGError(f"numbers of labels: saw {seen}; expected whole numbers from 1 on, as in 30,100,300.")
    if n_splits < 2:
        raise DirEAGError(f"saw {n_splits} splits; expected at least 2, so that they can be seen to differ.")
    usable = np.flatnonzero(observations.labelled & observations.answered)
    kept = max(FEWEST_TESTED, math.ceil(SHARE_TESTED * len(usable)))
    most = len(usable) - kept
    reason = f"{len(usable)} usable questions hold at most {max(most, 0)} beside the {kept} kept for testing"
    if wanted[0] > most:
        raise DirEAGError(
            f"{wanted[0]} labels: {reason} (usable: both labelled and answered). Ask for fewer, or give more labelled "
            "questions."
        )
    label_counts, cluster = tuple(n for n in wanted if n <= most), observations.cluster_number
    return Splits(
        label_counts=label_counts,
        left_out={n: reason for n in wanted if n > most},
        n_test=len(usable) - label_counts[-1],
        order=np.stack([_permuted(usable, cluster, np.random.default_rng([seed, split])) for split in range(n_splits)]),
        cluster=cluster,
    )


def _permuted(
    usable: Int[np.ndarray, " usable"], cluster: Int[np.ndarray, " problem"] | None, rng: np.random.Generator
) -> Int[np.ndarray, " usable"]:
    """Put questions in random order, the clusters too and each in one piece."""
    order = rng.permutation(usable)
    if cluster is None:
        return order
    _, first, member = np.unique(cluster[order], return_index=True, return_inverse=True)
    return order[np.argsort(first[member], kind="stable")]
