"""What a way of asking would have cost and been worth on labelled questions, all of whose reports are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.decisions.asking import Asking, worth_a_person
from bayes_direag.model.equations import Reports
from bayes_direag.model.selection import Recalibration

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: Probability of the intervals of a forecast.
INTERVAL_LEVEL = 0.9
#: Halvings of the range of factors on the prices.
_HALVINGS = 14
_LARGEST_FACTOR, _SMALLEST_FACTOR = 1e2, 1e-8
#: What a level of mean price costs along the curve of a forecast, in the unit of benefit.
_CURVE = np.geomspace(1e-6, 0.2, 14)

Asked = Bool[np.ndarray, "problem column"]
#: How many reports of each level are asked in every question.
Numbers = tuple[int, ...]


class Part(NamedTuple):
    """Some of the questions, with what decides about them."""

    asking: Asking
    reports: Reports
    row: Int[np.ndarray, " part"]


class Answers(NamedTuple):
    """The answers to all questions after some of their reports; there is none without reports."""

    support: Float[np.ndarray, " problem"]
    n_reports: Int[np.ndarray, " problem"]
    #: Of the answer, by the calibration of the fit; 0 without reports.
    probability: Float[np.ndarray, " problem"]
    right: Bool[np.ndarray, " problem"]

    @property
    def benefit(self) -> Float[np.ndarray, " problem"]:
        """Accuracy less Brier score of each answer; 0 for none."""
        return np.asarray(self.right - (self.probability - self.right) ** 2)


@dataclass(frozen=True, eq=False)
class Replay:
    """Labelled questions with all their reports, on which ways of asking are tried; a report of each level has a price.

    Parts of the questions may be decided about by different fits.
    """

    questions: "Observations"
    parts: list[Part]
    price: Float[np.ndarray, " level"]
    _benefit: dict[Numbers, Float[np.ndarray, " problem"]] = field(default_factory=dict, repr=False)

    @property
    def usable(self) -> Asked:
        """Which reports there are."""
        return self.questions.usable

    @property
    def level(self) -> Int[np.ndarray, " column"]:
        """The level of each column."""
        return np.array(self.questions.slots or range(self.questions.n_levels))

    def asked(self, factor: float) -> Asked:
        """Return which reports are asked for where a unit of price is worth this much benefit.

        Reports of exchangeable levels are asked for in the order of their columns.
        """
        asked, column_level = np.zeros_like(self.usable), self.level
        of_level = column_level == np.arange(len(self.price))[:, None]
        for asking, reports, row in self.parts:
            rows, usable, own = np.arange(len(row)), self.usable[row], asked[row]
            while len(rows):
                is_open = usable[rows] & ~own[rows]
                can = (is_open[:, None] & of_level).any(axis=2)
                gain = asking.standing(reports.select(rows), column_level, own[rows]).gain
                net = np.where(can, gain - factor * self.price, -np.inf)
                level, goes_on = net.argmax(axis=1), net.max(axis=1) > 0
                rows, level, is_open = rows[goes_on], level[goes_on], is_open[goes_on]
                own[rows, (is_open & of_level[level]).argmax(axis=1)] = True
            asked[row] = own
        return asked

    def fixed(self, numbers: Sequence[int] | Int[np.ndarray, " level"]) -> Asked:
        """Return the reports if every question asks for this many of each level."""
        asked = np.zeros_like(self.usable)
        for level, n in enumerate(numbers):
            own = self.level == level
            asked[:, own] = self.usable[:, own] & (np.cumsum(self.usable[:, own], axis=1) <= n)
        return asked

    def spent(self, asked: Asked) -> Float[np.ndarray, " problem"]:
        """Return the price of what was asked for, by question."""
        return np.asarray(asked @ self.price[self.level])

    def answers(self, asked: Asked, finals: Sequence[Recalibration] | None = None) -> Answers:
        """Return the answers after these reports, by the final calibration of the fit, or by another of each part."""
        n = len(self.questions)
        found = Answers(np.zeros(n), np.zeros(n, int), np.zeros(n), np.zeros(n, bool))
        for number, (asking, reports, row) in enumerate(self.parts):
            leader, support, n_reports, stated, _ = asking.standing(reports, self.level, asked[row])
            if finals is not None:
                stated = np.where(leader >= 0, finals[number].of_selected(support[None], n_reports)[0], 0.0)
            right = (leader >= 0) & self.questions.correct_candidate[row, leader]
            for values, own in zip(found, (support, n_reports, stated, right), strict=True):
                values[row] = own
        return found

    def factor(self, budget: float) -> float:
        """Return the least factor on the prices at which this share of the full price is not exceeded.

        A smaller budget never gives a smaller factor.
        """
        most = budget * self.spent(self.usable).sum()
        ends = np.log([_SMALLEST_FACTOR, _LARGEST_FACTOR]) - np.log(self.price.mean())
        for _ in range(_HALVINGS):
            middle = ends.mean()
            ends[int(self.spent(self.asked(float(np.exp(middle)))).sum() <= most)] = middle
        return float(np.exp(ends[1]))

    def by_number(self, most: float, chosen: Bool[np.ndarray, " problem"]) -> list[tuple[float, Numbers]]:
        """Return the best levels to ask in every question, one more each time, for at most this much (at least one).

        Each step adds the level of greatest benefit on the ``chosen`` questions, which is given with how many reports
        of each level are asked. A level with exchangeable reports may occur several times.
        """
        columns = np.bincount(self.level, minlength=len(self.price))
        steps, numbers = list[tuple[float, Numbers]](), np.zeros(len(columns), int)
        while True:
            trials = [numbers + one for one in np.eye(len(columns), dtype=int) if (numbers + one <= columns).all()]
            trials = [n for n in trials if not steps or self.spent(self.fixed(n)).mean() <= most]
            if not trials:
                return steps
            worth = [float(self._benefit_of(n)[chosen].mean()) for n in trials]
            numbers = trials[int(np.argmax(worth))]
            steps.append((max(worth), tuple(numbers.tolist())))

    def _benefit_of(self, numbers: Int[np.ndarray, " level"]) -> Float[np.ndarray, " problem"]:
        key = tuple(numbers.tolist())
        if key not in self._benefit:
            self._benefit[key] = self.answers(self.fixed(numbers)).benefit
        return self._benefit[key]

    def best_fixed(self, most: float) -> tuple[list[str], Asked]:
        """Return the best levels to ask in every question for at most this much, and what is asked to judge them.

        They look better on the questions on which they were chosen. So each part asks those that are best on the
        others.
        """

        def best(chosen: Bool[np.ndarray, " problem"]) -> Numbers:
            return max(self.by_number(most, chosen), key=lambda step: step[0])[1]

        everywhere, asked = np.ones(len(self.questions), bool), np.zeros_like(self.usable)
        for part in self.parts:
            others = everywhere.copy()
            others[part.row] = False
            asked[part.row] = self.fixed(best(others))[part.row]
        return list(np.repeat(self.questions.learned_levels, best(everywhere)).tolist()), asked

    def forecast(
        self, factor: float, person: float | None, finals: Sequence[Recalibration], fixed: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Compare asking by the gain with asking all, the best fixed levels, and asking by the gain at other factors.

        ``finals`` calibrate the answers of each part where asking stops; a person at this price is given some of them.
        The fixed levels are those named, or else the :meth:`best_fixed` that are at most as dear.
        """
        asked = self.asked(factor)
        own = self.answers(asked, finals)

        def row(name: str, asked: Asked, answers: Answers, levels: Sequence[str] = ()) -> dict[str, Any]:
            spent = self.spent(asked)
            return {
                "asked": name,
                "levels": list(levels),
                "reports": float(asked.sum(axis=1).mean()),
                "share": float(asked.sum() / self.usable.sum()),
                "price": float(spent.mean()),
                "price_share": float(spent.sum() / self.spent(self.usable).sum()),
                "handed_over": 0.0,
                "probability": float(answers.probability.mean()),
                **self._mean("accuracy", answers.right.astype(float)),
                **self._mean("benefit", answers.benefit),
                **self._mean("difference", answers.benefit - own.benefit),
            }

        def by_gain(name: str, factor: float, asked: Asked, answers: Answers) -> dict[str, Any]:
            handed_over = float(worth_a_person(answers.probability, factor, person).mean())
            return row(name, asked, answers) | {"handed_over": handed_over}

        numbers = [*map(fixed.count, self.questions.learned_levels)]
        levels, always = (fixed, self.fixed(numbers)) if fixed else self.best_fixed(float(self.spent(asked).mean()))
        rows = [
            by_gain("policy", factor, asked, own),
            row("all", self.usable, self.answers(self.usable)),
            row("fixed", always, self.answers(always), levels),
        ]
        for other in (_CURVE / self.price.mean()).tolist():
            asked = self.asked(other)
            rows.append(by_gain("curve", other, asked, self.answers(asked, finals)))
        return rows

    def _mean(self, name: str, values: Float[np.ndarray, " problem"]) -> dict[str, float]:
        """Return the mean of a value with its interval, for which questions of one cluster count together."""
        mean, n, cluster = values.mean(), len(values), self.questions.cluster_number
        sums = np.bincount(np.arange(n) if cluster is None else cluster, values - mean)
        error = np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / n
        half = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2) * error
        return {name: float(mean), f"{name}_low": float(mean - half), f"{name}_high": float(mean + half)}
