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
from bayes_direag.model.selection import Recalibration, Worth, worth

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: The bet on a report that is sure to name the leader has no other side.
_SUREST = 1 - 1e-9


class Panel(NamedTuple):
    """Reports on questions, each of which may have been asked for or not, with what each would add."""

    #: The level of each column.
    level: Int[np.ndarray, " column"]
    #: Whether a report gives a candidate.
    gives: Bool[np.ndarray, "problem candidate column"]
    #: The label that each candidate is; -1 for none.
    label: Int[np.ndarray, "problem candidate"]
    given: Float[np.ndarray, "problem column sample"]
    doubt: Float[np.ndarray, "problem column sample"]
    vote: Float[np.ndarray, "problem column sample"]

    @classmethod
    def of(cls, reports: Reports, level: Int[np.ndarray, " column"], parameters: Parameters) -> "Panel":
        """Take reports, whose columns are of these levels, and parameters by level."""
        n, n_columns = reports.candidate.shape
        logits, label = reports.logit_confidence, None if reports.label is None else reports.label.ravel()
        adds = worth(logits.reshape(n * n_columns, *logits.shape[2:]), np.tile(level, n), label, parameters)
        n_candidates = max(int(reports.n_candidates.max(initial=0)), 1)
        gives = reports.candidate[:, None] == np.arange(n_candidates)[:, None]
        labels = np.full((n, n_candidates), -1)
        if reports.label is not None:
            labels = np.where(gives, reports.label[:, None], -1).max(axis=2, initial=-1)
        return cls(level, gives, labels, *(part.reshape(n, n_columns, part.shape[1]) for part in _parts(adds)))

    @property
    def usable(self) -> Bool[np.ndarray, "problem column"]:
        """Whether there is a report."""
        return self.gives.any(axis=1)

    def select(self, index: Int[np.ndarray, " selected"]) -> "Panel":
        """Return some of the questions."""
        return Panel(self.level, *(part[index] for part in self[1:]))


class Standing(NamedTuple):
    """Where questions stand after the reports that were asked for."""

    #: The answer of greatest probability; -1 without reports.
    leader: Int[np.ndarray, " problem"]
    support: Float[np.ndarray, "sample problem"]
    n_reports: Int[np.ndarray, " problem"]
    #: The probability that the leader is right; 0 without reports.
    probability: Float[np.ndarray, " problem"]
    #: What one more report of each level is worth.
    gain: Float[np.ndarray, "problem level"]


@dataclass(frozen=True, eq=False)
class Asking:
    """What decides which report comes next.

    Attributes
    ----------
    parameters
        The parameters by level, with a leading axis of posterior draws.
    final
        The final calibration, which allows for the number of reports.
    typical
        The logits of each level's mean confidence, for each signal.
    coincidence
        How often a report names a leading answer that is wrong.
    """

    parameters: Parameters
    final: Recalibration
    typical: Float[np.ndarray, "level *signal"]
    coincidence: float

    @classmethod
    def of(cls, labelled: "Observations", parameters: Parameters, final: Recalibration, eps: float) -> "Asking":
        """Learn mean confidences, and how often reports coincide in a wrong answer, from labelled questions.

        These have the learned levels and signals of the parameters. Without wrong answers two reports coincide in one
        half of the time (Laplace's rule).
        """
        slots = np.array(labelled.slots or range(labelled.n_levels))
        means = [
            [_mean(values[:, slots == level]) for level in range(len(labelled.learned_levels))]
            for values in labelled.signals.values()
        ]
        wrong = labelled.usable & ~labelled.correct
        same = (labelled.candidate[:, :, None] == labelled.candidate[:, None]) & wrong[:, :, None]
        n_same, n_others = same.sum() - wrong.sum(), (wrong.sum(axis=1) * (labelled.usable.sum(axis=1) - 1)).sum()
        return cls(parameters, final, logit_signals([*np.array(means)], eps), float((n_same + 1) / (n_others + 2)))

    @cached_property
    def typical_worth(self) -> tuple[Float[np.ndarray, "label level sample"], ...]:
        """What a report of each level adds at its mean confidence, by label of its answer; the last is no label.

        It adds concentration to its answer and to the null, and log odds to its answer.
        """
        n_levels = len(self.typical)
        n_labels = 0 if self.parameters.label_vote is None else self.parameters.label_vote.shape[-1]
        label, level = np.divmod(np.arange((n_labels + 1) * n_levels), n_levels)
        adds = worth(self.typical[level], level, np.where(label < n_labels, label, -1), self.parameters)
        return tuple(part.reshape(n_labels + 1, n_levels, -1) for part in _parts(adds))

    @cached_property
    def alone(self) -> Float[np.ndarray, "label level"]:
        """The probability of a report of each level alone, by label of its answer; the last is no label."""
        n_labels, share = len(self.typical_worth[0]), self.parameters.prior_strength / 2
        concentration, null = (np.tile(part, (n_labels, 1)) for part in (share, share + self.parameters.null_base))
        nothing = np.zeros_like(null)
        leaders = concentration, nothing, nothing - np.inf, null
        return self._if_named(*leaders, np.arange(n_labels), np.zeros(n_labels, int))

    def standing(self, panel: Panel, asked: Bool[np.ndarray, "problem column"]) -> Standing:
        """Return where questions stand, of whose reports some were asked for."""
        question = np.arange(len(asked))
        gives = panel.gives & asked[:, None]
        named, reported = gives.any(axis=2), gives.any(axis=1)
        n_reports = reported.sum(axis=1)
        share = self.parameters.prior_strength / (np.maximum(named.sum(axis=1), 1)[:, None] + 1)
        null = share + self.parameters.null_base + (panel.doubt * reported[:, :, None]).sum(axis=1)
        concentration, vote = share[:, None] + gives @ panel.given, gives @ panel.vote
        score = np.where(named[:, :, None], self._power(concentration) + vote, -np.inf)
        total = np.logaddexp(np.logaddexp.reduce(score, axis=1), self._power(null))
        support = np.exp(score - total[:, None])
        leader = support.mean(axis=2).argmax(axis=1)
        selected, score[question, leader] = support[question, leader].T, -np.inf
        others, label = np.logaddexp.reduce(score, axis=1), panel.label[question, leader]
        probability = np.where(n_reports > 0, self.final.of_selected(selected, n_reports).mean(axis=0), 0.0)
        leaders = concentration[question, leader], vote[question, leader], others, null
        if_named = self._if_named(*leaders, label, n_reports)
        now = probability[:, None]
        chance = np.minimum(now * self.alone[label] + (1 - now) * self.coincidence, _SUREST)
        odds = np.where(n_reports[:, None] > 0, chance / (1 - chance), 1.0)
        leader = np.where(n_reports > 0, leader, -1)
        return Standing(leader, selected, n_reports, probability, (if_named - now) ** 2 * odds)

    def _if_named(
        self,
        concentration: Float[np.ndarray, "problem sample"],
        vote: Float[np.ndarray, "problem sample"],
        others: Float[np.ndarray, "problem sample"],
        null: Float[np.ndarray, "problem sample"],
        label: Int[np.ndarray, " problem"],
        n_reports: Int[np.ndarray, " problem"],
    ) -> Float[np.ndarray, "problem level"]:
        """Return the probability of each leader after one more report that names it, by the level of that report.

        Given are what the leader has so far, the log of what the other candidates have, and the null's concentration.
        """
        given, doubt, votes = (part[label] for part in self.typical_worth)
        leading = self._power(concentration[:, None] + given) + vote[:, None] + votes
        rest = np.logaddexp(others[:, None], self._power(null[:, None] + doubt))
        with np.errstate(over="ignore"):
            support = 1 / (1 + np.exp(rest - leading))
        n, n_levels, n_samples = support.shape
        flat = support.reshape(-1, n_samples).T
        final = self.final.of_selected(flat, np.repeat(n_reports + 1, n_levels))
        return np.asarray(final.mean(axis=0).reshape(n, n_levels))

    def _power(self, concentration: Float[np.ndarray, "*place sample"]) -> Float[np.ndarray, "*place sample"]:
        """Return the log of concentrations to the power of the sharpness."""
        log = np.log(concentration)
        return log if self.parameters.sharpness is None else log * self.parameters.sharpness


def worth_a_person(
    probability: Float[np.ndarray, "*place"], factor: float, person: float | None
) -> Bool[np.ndarray, "*place"]:
    """Tell whether a person at this price is worth more than an answer of this probability."""
    return np.asarray(1 - factor * (np.inf if person is None else person) > probability**2)


def _parts(adds: Worth) -> tuple[Float[np.ndarray, "report sample"], ...]:
    """Return what reports add, with votes of 0 where the model has none."""
    return adds.given, adds.doubt, np.zeros_like(adds.given) if adds.vote is None else adds.vote


def _mean(values: Float[np.ndarray, "..."]) -> float:
    """Return the mean of the values that are not NaN; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
