"""What a way of asking would have cost and been worth on labelled questions, all of whose reports are known."""

from collections.abc import Sequence
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


class Part(NamedTuple):
    """Some of the questions, with what decides about them."""

    asking: Asking
    reports: Reports
    row: Int[np.ndarray, " part"]


class StoppedAnswers(NamedTuple):
    """The answers to all questions after some of their reports."""

    answered: Bool[np.ndarray, " problem"]
    support: Float[np.ndarray, " problem"]
    n_reports: Int[np.ndarray, " problem"]
    #: Of the answer, by the calibration of the fit; 0 without reports.
    probability: Float[np.ndarray, " problem"]
    right: Bool[np.ndarray, " problem"]


class Replay(NamedTuple):
    """Labelled questions with all their reports, on which ways of asking are tried."""

    parts: list[Part]
    #: Whether each candidate is right.
    right: Bool[np.ndarray, "problem candidate"]
    cluster: Int[np.ndarray, " problem"]
    usable: Bool[np.ndarray, "problem column"]
    #: The level of each column.
    level: Int[np.ndarray, " column"]
    #: The names of the levels.
    names: tuple[str, ...]

    @classmethod
    def of(cls, observations: "Observations", parts: list[Part]) -> "Replay":
        """Take questions, of which parts are decided about by different fits."""
        cluster, correct = observations.cluster_number, observations.correct_candidate
        return cls(
            parts,
            correct[:, : max(int(observations.n_candidates.max(initial=0)), 1)],
            np.arange(len(observations)) if cluster is None else cluster,
            observations.usable,
            np.array(observations.slots or range(observations.n_levels)),
            observations.learned_levels,
        )

    def asked(self, price: Float[np.ndarray, " level"]) -> Bool[np.ndarray, "problem column"]:
        """Return which reports are asked for where a level costs this much, in the unit of benefit.

        Reports of exchangeable levels are asked for in the order of their columns.
        """
        asked = np.zeros_like(self.usable)
        of_level = self.level == np.arange(len(price))[:, None]
        for part in self.parts:
            rows = np.arange(len(part.row))
            usable, own = self.usable[part.row], asked[part.row]
            while len(rows):
                is_open = usable[rows] & ~own[rows]
                can = (is_open[:, None] & of_level).any(axis=2)
                gain = part.asking.standing(part.reports.select(rows), self.level, own[rows]).gain
                net = np.where(can, gain - price, -np.inf)
                level, goes_on = net.argmax(axis=1), net.max(axis=1) > 0
                rows, level, is_open = rows[goes_on], level[goes_on], is_open[goes_on]
                own[rows, (is_open & of_level[level]).argmax(axis=1)] = True
            asked[part.row] = own
        return asked

    def answers(self, asked: Bool[np.ndarray, "problem column"]) -> StoppedAnswers:
        """Return the answers after these reports."""
        n = len(self.right)
        found = StoppedAnswers(np.zeros(n, bool), np.zeros(n), np.zeros(n, int), np.zeros(n), np.zeros(n, bool))
        for asking, reports, row in self.parts:
            standing = asking.standing(reports, self.level, asked[row])
            found.answered[row] = answered = standing.leader >= 0
            found.support[row] = standing.support
            found.n_reports[row], found.probability[row] = standing.n_reports, standing.probability
            found.right[row] = answered & self.right[row, standing.leader]
        return found

    def stopped(self, answers: StoppedAnswers, finals: Sequence[Recalibration]) -> Float[np.ndarray, " problem"]:
        """Return the probabilities of answers by a final calibration for each part; 0 without an answer."""
        stated = np.zeros(len(self.right))
        for final, part in zip(finals, self.parts, strict=True):
            row = part.row[answers.answered[part.row]]
            stated[row] = final.of_selected(answers.support[None, row], answers.n_reports[row])[0]
        return stated

    def spent(
        self, asked: Bool[np.ndarray, "problem column"], price: Float[np.ndarray, " level"]
    ) -> Float[np.ndarray, " problem"]:
        """Return the price of what was asked for, by question."""
        return np.asarray(asked @ price[self.level])

    def factor(self, price: Float[np.ndarray, " level"], budget: float) -> float:
        """Return the least factor on the prices at which this share of the full price is not exceeded.

        A smaller budget never gives a smaller factor.
        """
        most = budget * self.spent(self.usable, price).sum()
        ends = np.log([_SMALLEST_FACTOR, _LARGEST_FACTOR]) - np.log(price.mean())
        for _ in range(_HALVINGS):
            middle = ends.mean()
            holds = self.spent(self.asked(np.exp(middle) * price), price).sum() <= most
            ends[int(holds)] = middle
        return float(np.exp(ends[1]))

    def fixed(self, n_reports: Int[np.ndarray, " level"]) -> Bool[np.ndarray, "problem column"]:
        """Return the reports if every question asks for this many of each level."""
        asked = np.zeros_like(self.usable)
        for level, n in enumerate(n_reports):
            own = self.level == level
            asked[:, own] = self.usable[:, own] & (np.cumsum(self.usable[:, own], axis=1) <= n)
        return asked

    def by_number(
        self, price: Float[np.ndarray, " level"], most: float
    ) -> list[tuple[float, Int[np.ndarray, " level"]]]:
        """Return the best levels to ask in every question, one more each time, for at most this much (at least one).

        Each step adds the level of greatest benefit, which is given with how many reports of each level are asked. A
        level with exchangeable reports may occur several times.
        """
        n_columns, found = np.bincount(self.level, minlength=len(price)), np.zeros(len(price), int)
        steps: list[tuple[float, Int[np.ndarray, " level"]]] = []
        while True:
            trials = [found + one for one in np.eye(len(price), dtype=int) if (found + one <= n_columns).all()]
            trials = [n for n in trials if not steps or self.spent(self.fixed(n), price).mean() <= most]
            if not trials:
                return steps
            answers = [self.answers(self.fixed(n)) for n in trials]
            worth = [benefits(each.right, each.probability).mean() for each in answers]
            found = trials[int(np.argmax(worth))]
            steps.append((max(worth), found))

    def best_fixed(self, price: Float[np.ndarray, " level"], most: float) -> list[str]:
        """Return the levels to ask in every question for at most this much (at least one), found one by one."""
        numbers = max(self.by_number(price, most), key=lambda step: step[0])[1]
        return list(np.repeat(self.names, numbers).tolist())

    def forecast(
        self,
        factor: float,
        price: Float[np.ndarray, " level"],
        person: float | None,
        finals: Sequence[Recalibration],
        fixed: dict[str, list[str]] | None = None,
    ) -> list[dict[str, Any]]:
        """Compare asking by the gain with fixed ways of asking, and with asking by the gain at other factors.

        ``finals`` calibrate the answers of each part where asking stops; a person at this price is given some of them.
        ``fixed`` names the levels of fixed ways, by default those of greatest benefit on these questions.
        """

        def by_gain(name: str, factor: float) -> dict[str, Any]:
            asked = self.asked(factor * price)
            answers = self.answers(asked)
            stated = self.stopped(answers, finals)
            handed_over = float(worth_a_person(stated, factor, person).mean())
            return self._record(name, asked, price, answers.right, stated) | {"handed_over": handed_over}

        def always(name: str, levels: list[str], asked: Bool[np.ndarray, "problem column"]) -> dict[str, Any]:
            answers = self.answers(asked)
            return self._record(name, asked, price, answers.right, answers.probability) | {"levels": levels}

        own = by_gain("policy", factor)
        if fixed is None:
            fixed = {"fixed": self.best_fixed(price, own["price"]), "one": self.best_fixed(price, 0.0)}
        numbers = {name: np.array([*map(levels.count, self.names)]) for name, levels in fixed.items()}
        return [
            own,
            always("all", [], self.usable),
            *(always(name, levels, self.fixed(numbers[name])) for name, levels in fixed.items()),
            *(by_gain("curve", other) for other in _CURVE / price.mean()),
        ]

    def _record(
        self,
        name: str,
        asked: Bool[np.ndarray, "problem column"],
        price: Float[np.ndarray, " level"],
        right: Bool[np.ndarray, " problem"],
        stated: Float[np.ndarray, " problem"],
    ) -> dict[str, Any]:
        """Return what a way of asking costs and is worth."""
        spent = self.spent(asked, price)
        return {
            "asked": name,
            "levels": [],
            "reports": float(asked.sum(axis=1).mean()),
            "share": float(asked.sum() / self.usable.sum()),
            "price": float(spent.mean()),
            "price_share": float(spent.sum() / self.spent(self.usable, price).sum()),
            "handed_over": 0.0,
            "confidence": float(stated.mean()),
            **self._mean("accuracy", right.astype(float)),
            **self._mean("benefit", benefits(right, stated)),
        }

    def _mean(self, name: str, values: Float[np.ndarray, " problem"]) -> dict[str, float]:
        """Return the mean of a value with its interval, for which questions of one cluster count together."""
        mean, n = values.mean(), len(values)
        sums = np.bincount(self.cluster, values - mean)
        error = np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / n
        half = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2) * error
        return {name: float(mean), f"{name}_low": float(mean - half), f"{name}_high": float(mean + half)}


def benefits(
    right: Bool[np.ndarray, " problem"], confidence: Float[np.ndarray, " problem"]
) -> Float[np.ndarray, " problem"]:
    """Return accuracy less Brier score of each answer; 0 for none, at confidence 0."""
    return np.asarray(right - (confidence - right) ** 2)
