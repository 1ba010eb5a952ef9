r"""The final calibration of questions that lack reports: learned from labelled questions that lack the same.

The *panel* of a question is the number of its usable reports of each level. The labelled questions have more reports
than some new ones, so what a smaller panel S is worth is replayed on them: each question that has S, and perhaps more,
is restricted to S, and predicted with parameters that have not seen its label. The coefficients of S are

.. math:: a_S \sim \mathrm{N}(a, d_S), \quad b_S \sim \mathrm{N}(b, 0.3 d_S), \quad
          y_i \sim \mathrm{Bernoulli}(\operatorname{sigmoid}(a_S + b_S \operatorname{logit} P_{iS})), \quad
          d_S = 0.8 \log(n / |S|)

where a and b are those of the general calibration (:mod:`bayes_direag.inference.recalibration`), :math:`P_{iS}` is the
support of the answer selected from S, and n the mean number of reports of these questions. So the fewer reports are
left, the less the general calibration is relied on, and with all reports it holds exactly. A posterior draws the
coefficients from a normal approximation, given those of the general calibration in the same draw.

More runs of a group than any labelled question has count as the most that one has. A panel that no labelled question
exceeds has the general calibration, and so has one with a level that nobody has labelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from threading import Lock
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.inference.logistic_regression import LogisticRegressions
from bayes_direag.model.forward import Forward
from bayes_direag.model.likelihood_data import LikelihoodData, columns_of_reports
from bayes_direag.model.selection import Recalibration, clipped_logit
from bayes_direag.model.states import States

#: The scale of the prior: of intercept and slope, by the log of how many times fewer reports there are.
PRIOR_SD = np.array([0.8, 0.24])
#: Coefficients are kept to so many decimals: the last digits depend on what is learned at once, as others have asked.
_DECIMALS = 10
#: At most this many labelled questions are replayed for a panel, and about this many replays are evaluated at once.
_MOST_QUESTIONS, _AT_ONCE = 500, 1 << 17
#: So many panels are kept.
_MOST_KEPT = 1 << 16

#: Numbers of usable reports of each level, a panel a row.
Panels = Int[np.ndarray, "panel level"]


class Replays(NamedTuple):
    """The answers of labelled questions with smaller panels, by panel and question: two for each question.

    One is selected without the label, the other with it (:class:`~bayes_direag.inference.recalibration.Outcomes`).
    """

    panel: Int[np.ndarray, " replay"]
    #: The labelled question.
    question: Int[np.ndarray, " replay"]
    #: Support, without the label, of both answers, and whether they are right.
    support: Float[np.ndarray, "2 replay"]
    right: Bool[np.ndarray, "2 replay"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled questions, with draws of the parameters by which they are replayed."""

    questions: Forward
    right: Bool[np.ndarray, "problem state"]
    weight: Float[np.ndarray, " problem"]
    #: The weight of each draw without the label of a question; they sum to 1.
    unseen: Float[np.ndarray, "problem sample"]
    #: The weight of each draw with all labels.
    seen: Float[np.ndarray, " sample"]
    #: An order of the questions, and the place of each report among those of its level in its question, by content.
    order: Int[np.ndarray, " problem"]
    place: Int[np.ndarray, "report problem"]

    @classmethod
    def of(
        cls,
        fitted: Observations,
        questions: Forward,
        unseen: Float[np.ndarray, "problem sample"],
        seen: Float[np.ndarray, " sample"],
    ) -> "Labelled":
        """Take the questions of a fit, as they are and as its program sees them."""
        names = [sha256(name.encode()).digest() for name in fitted.problem_id]
        order = np.array(sorted(range(len(names)), key=names.__getitem__), int)
        place = _places(fitted, names)
        if questions.data.is_sparse:
            place = np.take_along_axis(place, columns_of_reports(fitted.usable), axis=1)
        return cls(questions, fitted.right_state, fitted.weight, unseen, seen, order, place.T)

    @cached_property
    def panels(self) -> Panels:
        """The panel of each question."""
        return self.questions.data.panels

    @cached_property
    def most(self) -> Int[np.ndarray, " level"]:
        """The largest number of reports of each level that a question has; 0 of a level without labels."""
        return np.asarray(self.panels.max(axis=0))

    @cached_property
    def n_reports(self) -> Int[np.ndarray, " problem"]:
        """The number of usable reports of each question."""
        return self.panels.sum(axis=1)

    @cached_property
    def whole(self) -> Replays:
        """Every question with all its reports, in order."""
        n = len(self.order)
        return self._replayed(self.questions.data, np.arange(n), np.zeros(n, int))

    def replays(self, panels: Panels) -> Replays:
        """Predict the questions that have each of these panels, at most 500 for each, without other reports."""
        own, data = self.panels[self.order], self.questions.data
        needed = [np.flatnonzero(panel) for panel in panels]
        have = ((own[:, of] >= panel[of]).all(axis=1) for panel, of in zip(panels, needed, strict=True))
        rows = [self.order[has_panel][:_MOST_QUESTIONS] for has_panel in have]
        row, number = np.concatenate(rows), np.repeat(np.arange(len(panels)), [len(each) for each in rows])
        whole = data.select(row)
        kept = np.take_along_axis(panels[number].T, whole.level_of_report, axis=0)
        return self._replayed(whole.of_reports(self.place[:, row] < kept), row, number)

    def _replayed(self, data: LikelihoodData, row: np.ndarray, number: np.ndarray) -> Replays:
        def selected(states: States) -> tuple[np.ndarray, np.ndarray]:
            question = row[states.questions]
            unseen = np.einsum("kps,ps->kp", states.support, self.unseen[question])
            answers = np.stack([unseen[:-1].argmax(axis=0), (states.support[:-1] @ self.seen).argmax(axis=0)])
            return np.take_along_axis(unseen, answers, axis=0), self.right[question, answers]

        parts = replace(self.questions, data=data.unlabelled).each(selected)
        support, right = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        return Replays(number, row, support, right)


def _places(fitted: Observations, names: Sequence[bytes]) -> Int[np.ndarray, "problem level"]:
    """Return the place of each report among those of its level, in an order that is the same in whatever columns."""
    slots, usable = np.array(fitted.slots or range(fitted.n_levels)), fitted.usable
    key = np.full(usable.shape, np.inf)
    said = np.stack([fitted.candidate, *fitted.signals.values()], axis=-1)
    of_runs = np.bincount(slots)[slots] > 1
    for row, column in zip(*np.nonzero(usable & of_runs), strict=True):
        digest = sha256(names[row] + said[row, column].tobytes()).digest()
        key[row, column] = int.from_bytes(digest[:6])
    row, column = np.nonzero(usable)
    order = np.lexsort([column, key[row, column], slots[column], row])
    of_level = (row * len(slots) + slots[column])[order]
    _, first, of_run = np.unique(of_level, return_index=True, return_inverse=True)
    place = np.zeros(usable.shape, int)
    place[row[order], column[order]] = np.arange(len(order)) - first[of_run]
    return place


class _Coefficients(NamedTuple):
    """The coefficients of a panel."""

    #: Intercept and slope at their mode, given the mean of the general ones.
    mode: Float[np.ndarray, " 2"]
    #: How far they follow deviations of the general ones from their mean, and the root of their own covariance.
    follows: Float[np.ndarray, "2 2"]
    root: Float[np.ndarray, "2 2"]
    #: How much more often its answers are right than those of the same questions with all reports.
    gain: float


@dataclass(frozen=True, eq=False)
class PanelCalibration:
    """The final calibration by panel, which keeps what it has learned."""

    general: Recalibration
    labelled: Labelled | None
    #: Standard normal numbers for each draw; 0 for a MAP.
    noise: Float[np.ndarray, "sample 2"]
    _known: dict[bytes, _Coefficients | None] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def n_samples(self) -> int:
        """The number of posterior draws, over all chains."""
        return self.general.n_samples

    @cached_property
    def _general(self) -> Float[np.ndarray, "sample 2"]:
        return np.stack([self.general.coefficients[name].ravel() for name in ("intercept", "slope")], axis=1)

    def of_selected(
        self, support: Float[np.ndarray, "#sample problem"], panels: Int[np.ndarray, "problem level"]
    ) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of answers that are selected from these panels, in every draw."""
        probability = self.general.of_selected(support)
        number, coefficients = self._of_panels(panels)
        lacking = np.flatnonzero(number >= 0)
        if not len(lacking):
            return probability
        deviation = self._general - self._general.mean(axis=0)
        mode, follows, root, _ = (np.array(each)[number[lacking]] for each in zip(*coefficients, strict=True))
        drawn = mode[None] + np.einsum("pij,sj->spi", follows, deviation) + np.einsum("pij,sj->spi", root, self.noise)
        logit = clipped_logit(support[:, lacking], self.general.eps)
        with np.errstate(over="ignore"):
            probability[:, lacking] = 1 / (1 + np.exp(-(drawn[..., 0] + drawn[..., 1] * logit)))
        return probability

    def coefficients(self, panels: Int[np.ndarray, "problem level"]) -> Float[np.ndarray, "problem 2"]:
        """Return the mean intercept and slope of each of these panels."""
        number, coefficients = self._of_panels(panels)
        means = np.array([*(each.mode for each in coefficients), self._general.mean(axis=0)])
        return np.asarray(means[number])

    def gain(self, panels: Int[np.ndarray, "problem level"]) -> Float[np.ndarray, " problem"]:
        """Return how much more often such panels' answers are right than with all reports; NaN where nothing lacks."""
        number, coefficients = self._of_panels(panels)
        gains = np.array([*(each.gain for each in coefficients), np.nan])
        return np.asarray(gains[number])

    def _of_panels(self, panels: Int[np.ndarray, "problem level"]) -> tuple[np.ndarray, list[_Coefficients]]:
        """Return the number of each panel's coefficients, -1 if they are the general ones; and these."""
        if self.labelled is None:
            return np.full(len(panels), -1), []
        panels = np.where(self.labelled.most > 0, np.minimum(panels, self.labelled.most), panels)
        distinct, of_question = np.unique(panels, axis=0, return_inverse=True)
        keys = [panel.tobytes() for panel in distinct]
        with self._lock:
            fresh = [place for place, key in enumerate(keys) if key not in self._known]
            if fresh:
                if len(self._known) > _MOST_KEPT:
                    self._known.clear()
                    fresh = [*range(len(keys))]
                learned = self._learned(self.labelled, distinct[fresh])
                self._known.update(zip([keys[place] for place in fresh], learned, strict=True))
            coefficients = [self._known[key] for key in keys]
        number, kept = np.full(len(keys), -1), list[_Coefficients]()
        for place, each in enumerate(coefficients):
            if each is not None:
                number[place] = len(kept)
                kept.append(each)
        return number[of_question.ravel()], kept

    def _learned(self, labelled: Labelled, panels: Panels) -> list[_Coefficients | None]:
        n_at_once = max(_AT_ONCE // min(len(labelled.order), _MOST_QUESTIONS), 1)
        parts = np.split(panels, range(n_at_once, len(panels), n_at_once))
        return [each for part in parts for each in self._learned_at_once(labelled, part)]

    def _learned_at_once(self, labelled: Labelled, panels: Panels) -> list[_Coefficients | None]:
        panel, question, support, right = labelled.replays(panels)
        n, weight = len(panels), labelled.weight[question]
        total = np.bincount(panel, weight, n)
        mean = np.bincount(panel, weight * labelled.n_reports[question], n) / np.where(total > 0, total, 1.0)
        times_fewer = np.log(np.maximum(mean, 1) / np.maximum(panels.sum(axis=1), 1))
        lacks = (times_fewer > 0) & (total > 0) & panels.any(axis=1)
        lacking = np.flatnonzero(lacks)
        member = np.full(n, -1)
        member[lacking] = np.arange(len(lacking))
        chosen = lacks[panel]
        logit = clipped_logit(support[:, chosen], self.general.eps).ravel()
        regressions = LogisticRegressions(
            features=np.stack([np.ones(len(logit)), logit]).T,
            right=right[:, chosen].ravel(),
            weight=np.tile(weight[chosen] / 2, 2),
            member=np.tile(member[panel[chosen]], 2),
            prior_mean=self._general.mean(axis=0),
            prior_sd=PRIOR_SD * times_fewer[lacking, None],
        )
        modes, _ = regressions.modes()
        covariance = np.linalg.inv(regressions.hessians(modes))
        follows = covariance / regressions.prior_sd[:, None] ** 2
        roots = np.linalg.cholesky(covariance)
        modes, follows, roots = (each.round(_DECIMALS) for each in (modes, follows, roots))
        gained = np.bincount(panel, weight * (right.mean(axis=0) - labelled.whole.right.mean(axis=0)[question]), n)
        learned: list[_Coefficients | None] = [None] * n
        for number, place in enumerate(lacking.tolist()):
            gain = float(gained[place] / total[place])
            learned[place] = _Coefficients(modes[number], follows[number], roots[number], gain)
        return learned
