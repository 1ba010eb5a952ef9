r"""Which level to ask next, and when to stop: what one more report is worth, from the parameters of a partial fit.

If the leading answer is right with probability :math:`p`, giving it with that confidence has an expected benefit
(accuracy less Brier score) of :math:`p^2`. Level :math:`l` names the leading answer with probability

.. math:: a = p A_l + (1 - p) c

where :math:`A_l` is the probability of its report alone, at its mean confidence, and :math:`c` that a report names a
leader that is wrong. If it does, :math:`p` becomes :math:`p_+`. On average :math:`p` does not change, so the expected
benefit grows by

.. math:: (p_+ - p)^2 \, a / (1 - a)

and by :math:`A_l^2` before the first report. The level with the greatest gain less its price is asked next; where no
gain is above its price, asking stops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.model.equations import Equations, Parameters, Reports, logit_signals
from bayes_direag.model.selection import Recalibration, select
from bayes_direag.model.states import States

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: The bet on a report that is sure to name the leader has no other side.
_SUREST = 1 - 1e-9

PerQuestion = Float[np.ndarray, " problem"]
Leaders = Int[np.ndarray, " problem"]
PerLevel = Float[np.ndarray, "problem level"]


@dataclass(frozen=True, eq=False)
class Asking:
    """What decides which report comes next: the parameters by level of a MAP, and what labelled questions taught.

    Columns of reports may be of any level, which ``level`` says.
    """

    parameters: Parameters
    #: The final calibration, which allows for the number of reports.
    final: Recalibration
    #: The logits of each level's mean confidence, for each signal.
    typical: Float[np.ndarray, "level *signal"]
    #: How often a report names a leading answer that is wrong.
    coincidence: float

    @classmethod
    def of(cls, labelled: "Observations", parameters: Parameters, final: Recalibration, eps: float) -> "Asking":
        """Learn mean confidences, and how often reports coincide in a wrong answer, from labelled questions.

        These have the learned levels and signals of the parameters. Without wrong answers two reports coincide in one
        half of the time (Laplace's rule).
        """
        slots = np.array(labelled.slots or range(labelled.n_levels))
        of_level = [slots == level for level in range(len(labelled.learned_levels))]
        means = [np.array([_mean(values[:, columns]) for columns in of_level]) for values in labelled.signals.values()]
        wrong = labelled.usable & ~labelled.correct
        same = (labelled.candidate[:, :, None] == labelled.candidate[:, None]) & wrong[:, :, None]
        n_same, n_others = same.sum() - wrong.sum(), (wrong.sum(axis=1) * (labelled.usable.sum(axis=1) - 1)).sum()
        return cls(parameters, final, logit_signals(means, eps), float((n_same + 1) / (n_others + 2)))

    def leading(
        self, reports: Reports, level: Sequence[int], final: Recalibration | None = None
    ) -> tuple[Leaders, PerQuestion, PerQuestion]:
        """Return the leading answers, -1 without reports, their support, and the probabilities that they are right.

        These are 0 without reports, and calibrated by the fit, or else by ``final``.
        """
        parts = Equations(reports, self.parameters.of_slots(level)).each(lambda states: select(states)[:2])
        leader, support = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        probability = (final or self.final).of_selected(support, (reports.candidate >= 0).sum(axis=1))
        return leader, np.nan_to_num(support[0]), np.nan_to_num(probability[0])

    def gain(self, reports: Reports, level: Sequence[int], leader: Leaders, probability: PerQuestion) -> PerLevel:
        """Return what one more report of each level is worth, given the :meth:`leading` answers."""
        now, if_named = probability[:, None], self._if_named(reports, level, leader)
        chance = np.minimum(now * self._alone + (1 - now) * self.coincidence, _SUREST)
        return np.asarray((if_named - now) ** 2 * np.where(leader[:, None] >= 0, chance / (1 - chance), 1.0))

    @cached_property
    def _alone(self) -> Float[np.ndarray, " level"]:
        """The probability of a report of each level alone."""
        none = np.zeros((1, 0), int)
        nothing = Reports(np.zeros((1, 0, *self.typical.shape[1:])), none, np.ones(1, int), none)
        return np.asarray(self._if_named(nothing, [], np.zeros(1, int))[0])

    def _if_named(self, reports: Reports, level: Sequence[int], leader: Leaders) -> PerLevel:
        """Return the probability of each leader after one more report that names it, by the level of that report.

        Each question is evaluated once for every level, with a further column for each. The first of its answers leads
        a question without reports.
        """
        n, n_levels = len(leader), len(self.typical)
        row, leader = np.arange(n).repeat(n_levels), np.maximum(leader, 0).repeat(n_levels)
        so_far, is_one = reports.select(row), np.tile(np.eye(n_levels, dtype=bool), (n, 1))
        label = np.where(so_far.candidate == leader[:, None], so_far.label, -1).max(axis=1, initial=-1)
        typical = np.broadcast_to(self.typical, (len(row), *self.typical.shape))
        more = Reports(
            np.concatenate([so_far.logit_confidence, typical], axis=1),
            np.concatenate([so_far.candidate, np.where(is_one, leader[:, None], -1)], axis=1),
            np.maximum(so_far.n_candidates, 1),
            np.concatenate([so_far.label, np.where(is_one, label[:, None], -1)], axis=1),
        )

        def of_leader(states: States) -> Float[np.ndarray, "sample problem"]:
            return np.asarray(states.support[leader[states.place], np.arange(len(states.n_reports))].T)

        named = Equations(more, self.parameters.of_slots([*level, *range(n_levels)])).each(of_leader)
        n_reports = (more.candidate >= 0).sum(axis=1)
        return self.final.of_selected(np.concatenate([*named], axis=1), n_reports).reshape(n, n_levels)


def worth_a_person(probability: PerQuestion, factor: float, person: float | None) -> Bool[np.ndarray, " problem"]:
    """Tell whether a person at this price is worth more than an answer of this probability."""
    return np.asarray(1 - factor * (np.inf if person is None else person) > probability**2)


def _mean(values: Float[np.ndarray, "..."]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
