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

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.model.equations import Parameters, Reports, logit_signals
from bayes_direag.model.selection import Recalibration, States, evaluate_samples, worth

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: The bet on a report that is sure to name the leader has no other side.
_SUREST = 1 - 1e-9

PerQuestion = Float[np.ndarray, " problem"]
PerLevel = Float[np.ndarray, "problem level"]


class Standing(NamedTuple):
    """Where questions stand after the reports that were asked for."""

    #: The answer of greatest probability; -1 without reports.
    leader: Int[np.ndarray, " problem"]
    support: PerQuestion
    n_reports: Int[np.ndarray, " problem"]
    #: The probability that the leader is right; 0 without reports.
    probability: PerQuestion
    #: What one more report of each level is worth.
    gain: PerLevel

    def next_level(
        self, is_open: Bool[np.ndarray, "... level"], price: Float[np.ndarray, " level"]
    ) -> tuple[Int[np.ndarray, " problem"], PerQuestion]:
        """Return the open level of greatest gain less its price, and this; asking stops where it is not above 0."""
        net = np.where(is_open, self.gain - price, -np.inf)
        return net.argmax(axis=1), net.max(axis=1)

    def stopped(self, final: Recalibration) -> PerQuestion:
        """Return the probability that the leader is right by another final calibration."""
        stated = final.of_selected(self.support[None], self.n_reports)[0]
        return np.where(self.leader >= 0, stated, 0.0)


@dataclass(frozen=True, eq=False)
class Asking:
    """What decides which report comes next: the parameters by level of a MAP, and what labelled questions taught."""

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
        means = [np.array([_mean(values[:, own]) for own in of_level]) for values in labelled.signals.values()]
        wrong = labelled.usable & ~labelled.correct
        same = (labelled.candidate[:, :, None] == labelled.candidate[:, None]) & wrong[:, :, None]
        n_same, n_others = same.sum() - wrong.sum(), (wrong.sum(axis=1) * (labelled.usable.sum(axis=1) - 1)).sum()
        return cls(parameters, final, logit_signals(means, eps), float((n_same + 1) / (n_others + 2)))

    @cached_property
    def _worth(self) -> list[Float[np.ndarray, " level"]]:
        """What a report of each level adds at its mean confidence: to its answer, to the null, to the log odds."""
        given, doubt, vote = worth(self.typical, np.arange(len(self.typical)), self.parameters)
        return [part[:, 0] for part in (given, doubt, np.zeros_like(given) if vote is None else vote)]

    @cached_property
    def alone(self) -> Float[np.ndarray, " level"]:
        """The probability of a report of each level alone."""
        share = self.parameters.prior_strength / 2
        concentration = np.stack([share, share + self.parameters.null_base])
        leader, null = self._power(concentration)
        found = self._if_named(np.stack([leader, [-np.inf], null]), concentration, np.zeros(1, int))
        return np.asarray(found[0])

    def standing(
        self, reports: Reports, level: Int[np.ndarray, " column"], asked: Bool[np.ndarray, "problem column"]
    ) -> Standing:
        """Return where questions stand, of whose reports (a column may be of any level) some were asked for."""
        given = reports._replace(candidate=np.where(asked, reports.candidate, -1))
        pieces = evaluate_samples(given, self.parameters.of_slots(level.tolist()), self._standing)
        return Standing(*map(np.concatenate, zip(*pieces, strict=True)))

    def _standing(self, states: States) -> Standing:
        question, is_answered = np.arange(len(states.n_reports)), states.n_candidates > 0
        support, concentration = states.support[..., 0], states.concentration[..., 0]
        leader = support[:-1].argmax(axis=0)
        selected, others = support[leader, question], support[:-1].copy()
        others[leader, question] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):  # where there is no answer
            scores = np.log([selected, others.sum(axis=0), support[-1]])
            of_states = np.stack([concentration[leader, question], concentration[-1]])
            if_named = self._if_named(scores, of_states, states.n_reports)
        found = Standing(np.where(is_answered, leader, -1), selected, states.n_reports, selected, if_named)
        probability = found.stopped(self.final)
        now, if_named = probability[:, None], np.where(is_answered[:, None], if_named, self.alone)
        chance = np.minimum(now * self.alone + (1 - now) * self.coincidence, _SUREST)
        odds = np.where(is_answered[:, None], chance / (1 - chance), 1.0)
        return found._replace(probability=probability, gain=(if_named - now) ** 2 * odds)

    def _if_named(
        self,
        scores: Float[np.ndarray, "3 problem"],
        concentration: Float[np.ndarray, "2 problem"],
        n_reports: Int[np.ndarray, " problem"],
    ) -> PerLevel:
        """Return the probability of each leader after one more report that names it, by the level of that report.

        Given are the log support of the leader, the other candidates and the null, up to a constant; and the
        concentration of the leader and the null.
        """
        given, doubt, vote = self._worth
        (leader, others, null), (of_leader, of_null) = scores[..., None], concentration[..., None]
        leading = leader + self._power(1 + given / of_leader) + vote
        rest = np.logaddexp(others, null + self._power(1 + doubt / of_null))
        with np.errstate(over="ignore"):
            support = 1 / (1 + np.exp(rest - leading))
        n_after = np.repeat(n_reports + 1, support.shape[1])
        return np.asarray(self.final.of_selected(support.reshape(1, -1), n_after).reshape(support.shape))

    def _power(self, concentration: Float[np.ndarray, "*place"]) -> Float[np.ndarray, "*place"]:
        """Return the log of concentrations to the power of the sharpness."""
        log = np.log(concentration)
        return log if self.parameters.sharpness is None else log * self.parameters.sharpness


def worth_a_person(probability: PerQuestion, factor: float, person: float | None) -> Bool[np.ndarray, " problem"]:
    """Tell whether a person at this price is worth more than an answer of this probability."""
    return np.asarray(1 - factor * (np.inf if person is None else person) > probability**2)


def _mean(values: Float[np.ndarray, "..."]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
