"""What enters a likelihood: the labelled questions, perhaps copies of them, and questions of an older set."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.thinning import N_COPIES, WEIGHT_OF_COPY, thinned
from bayes_direag.model.likelihood_data import LikelihoodData, likelihood_weights
from bayes_direag.model.settings import FitMethod, Preset, Variant


class Older(NamedTuple):
    """Labelled questions of an older set, with the levels of the new one."""

    observations: Observations
    #: What each one counts in the likelihood: a power prior (Ibrahim and Chen 2000, Statistical Science 15, 46-60).
    weight: float

    @classmethod
    def beside(cls, new: Observations, older: Observations, counts: float) -> tuple[Observations, "Older"]:
        """Give both sets the levels of either; no older question counts more than 1.

        Raises DirEAGError if the sets have a question in common, or differ in how answers are compared; if the older
        one has no labelled, answered question; or if ``counts`` is not positive.
        """
        if older.kind != new.kind:
            raise DirEAGError(
                f"the older answers are {older.kind}; expected {new.kind}, as the new ones. Read both with the same "
                f"kind, for example answers={new.kind!r}."
            )
        if both := set(new.problem_id) & set(older.problem_id):
            raise DirEAGError(
                f"{len(both)} of {len(older)} older questions are also among the new ones, {min(both)!r} among them; "
                "expected none. Remove them from the older set, or rename them if they are other questions under the "
                "same problem_id."
            )
        usable = older.labelled & older.answered
        if not usable.any() or not counts > 0:
            raise DirEAGError(
                f"saw {usable.sum()} labelled, answered older questions, which count {counts:g} together; expected "
                "some, and a number above 0. Leave out the older set, or give it labels."
            )
        levels = tuple(dict.fromkeys((*new.learned_levels, *older.learned_levels)))
        only_older = (level for level in older.voting if level not in new.learned_levels)
        known = older.select(usable).voting_as([*new.voting, *only_older]).align(levels)
        signals = {name: known.signals.get(name, np.full(known.shape, np.nan)) for name in new.signal_names}
        return new.align(levels), cls(replace(known, signals=signals), min(1.0, counts / len(known)))


class Rows(NamedTuple):
    """The rows of a likelihood. The first ones are the questions themselves."""

    observations: Observations
    #: The place of the question that a row is, or is a copy of; -1 for an older question.
    question: Int[np.ndarray, " row"]
    #: What a row counts.
    counts: Float[np.ndarray, " row"]

    @classmethod
    def of(cls, questions: Observations, older: Older | None, method: FitMethod, *, partial: bool, seed: int) -> "Rows":
        """Take questions, in a partial fit with their copies, then older ones likewise."""
        n_copies, count = (N_COPIES, WEIGHT_OF_COPY[method]) if partial else (1, 1.0)
        number = np.tile(np.arange(len(questions)), n_copies)
        rows = thinned(questions, seed) if partial else questions
        if older is None:
            return cls(rows, number, np.full(len(rows), count))
        further = thinned(older.observations, seed) if partial else older.observations
        counts = np.repeat([count, count * older.weight], [len(rows), len(further)])
        joined = Observations.joined([rows, further])
        return cls(joined, np.concatenate([number, np.full(len(further), -1)]), counts)

    @property
    def own(self) -> Bool[np.ndarray, " row"]:
        """Which rows are not of an older set."""
        return self.question >= 0

    def of_chosen(self, chosen: Bool[np.ndarray, "batch problem"]) -> Bool[np.ndarray, "batch row"]:
        """Return which rows are there for chosen questions: theirs, and all older ones."""
        return np.asarray(chosen[:, self.question] | ~self.own)

    def weights(self, chosen: Bool[np.ndarray, "batch row"], preset: Preset) -> Float[np.ndarray, "batch row"]:
        """Return the weight of each row; 0 for those not chosen. Raises DirEAGError if nothing can be learned."""
        return np.asarray(self.counts * likelihood_weights(chosen, self.observations, preset))


def fitted_rows(
    questions: Observations,
    preset: Preset,
    variant: Variant,
    method: FitMethod,
    *,
    older: Older | None,
    partial: bool,
    seed: int,
) -> tuple[Rows, LikelihoodData]:
    """Return the rows of the labelled, answered questions, with the data of their likelihood.

    Raises DirEAGError as :func:`~bayes_direag.model.likelihood_data.likelihood_weights` does.
    """
    weight = likelihood_weights(np.ones((1, len(questions)), bool), questions, preset)[0]
    rows = Rows.of(questions.select(weight > 0), older, method, partial=partial, seed=seed)
    counted = rows.weights(np.ones((1, len(rows.observations)), bool), preset)[0]
    return rows, LikelihoodData.weighted(rows.observations, counted, preset=preset, variant=variant)
