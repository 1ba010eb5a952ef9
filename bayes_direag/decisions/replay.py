"""What a way of asking would have cost and been worth on labelled questions, all of whose reports are known."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.asking import Asking, worth_a_person
from bayes_direag.model.equations import Reports
from bayes_direag.model.selection import Recalibration

#: Probability of the intervals of a forecast.
INTERVAL_LEVEL = 0.9
#: Halvings of the range of factors on the prices.
_HALVINGS = 14
_SMALLEST_FACTOR, _LARGEST_FACTOR = 1e-8, 1e2

Asked = Bool[np.ndarray, "problem column"]
#: How many reports of each level are asked in every question.
Numbers = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Replay:
    """Labelled questions with all their reports, on which ways of asking are tried; a report of each level has a price.

    They are in parts, and each part has what decides about it.
    """

    questions: Observations
    reports: Reports
    part: Int[np.ndarray, " problem"]
    askings: list[Asking]
    price: Float[np.ndarray, " level"]
    _benefits: dict[Numbers, pd.Series] = field(default_factory=dict, repr=False)

    @property
    def level(self) -> Int[np.ndarray, " column"]:
        """The level of each column."""
        return np.array(self.questions.slots or range(self.questions.n_levels))

    @property
    def kept(self) -> Bool[np.ndarray, "whole_and_part problem"]:
        """All questions, then those outside of each part."""
        return np.asarray(self.part != np.arange(-1, len(self.askings))[:, None])

    def asked(self, factor: float) -> Asked:
        """Return which reports are asked for where a unit of price is worth this much benefit.

        Reports of exchangeable levels are asked for in the order of their columns.
        """
        usable, level = self.questions.usable, self.level
        asked, of_level = np.zeros_like(usable), level == np.arange(len(self.price))[:, None]
        for number, asking in enumerate(self.askings):
            rows = np.flatnonzero(self.part == number)
            while len(rows):
                left = usable[rows] & ~asked[rows]
                standing = asking.standing(self.reports.select(rows), level, asked[rows])
                is_open = (left[:, None] & of_level).any(axis=2)
                chosen, net = standing.next_level(is_open, factor * self.price)
                column = (left & of_level[chosen]).argmax(axis=1)
                rows, column = rows[net > 0], column[net > 0]
                asked[rows, column] = True
        return asked

    def fixed(self, numbers: Sequence[int] | Int[np.ndarray, " level"]) -> Asked:
        """Return the reports if every question asks for this many of each level."""
        asked = self.questions.usable.copy()
        for level, n in enumerate(numbers):
            own = self.level == level
            asked[:, own] &= np.cumsum(asked[:, own], axis=1) <= n
        return asked

    def factor(self, budget: float) -> float:
        """Return the least factor on the prices at which this share of the full price is not exceeded.

        A smaller budget never gives a smaller factor.
        """
        price = self.price[self.level]
        ends = np.log([_SMALLEST_FACTOR, _LARGEST_FACTOR]) - np.log(self.price.mean())
        for _ in range(_HALVINGS):
            spent = (self.asked(float(np.exp(ends.mean()))) @ price).sum()
            ends[int(spent <= budget * (self.questions.usable @ price).sum())] = ends.mean()
        return float(np.exp(ends[1]))

    def answers(self, asked: Asked, finals: Sequence[Recalibration] | None = None) -> pd.DataFrame:
        """Return the answers after these reports, by the final calibration of the fit, or by another of each part.

        Columns: the ``support`` of the answer; how many ``reports`` it has and their ``price``; its ``probability``,
        which is 0 without reports; whether it is right (``accuracy``); and ``benefit``, accuracy less Brier score.
        """
        parts = []
        for number, asking in enumerate(self.askings):
            rows = np.flatnonzero(self.part == number)
            standing = asking.standing(self.reports.select(rows), self.level, asked[rows])
            right = (standing.leader >= 0) & self.questions.correct_candidate[rows, standing.leader]
            stated = standing.probability if finals is None else standing.stopped(finals[number])
            found = {"support": standing.support, "reports": standing.n_reports, "probability": stated}
            parts.append(pd.DataFrame(found | {"accuracy": right.astype(float)}, index=rows))
        table = pd.concat(parts).sort_index()
        benefit = table["accuracy"] - (table["probability"] - table["accuracy"]) ** 2
        return table.assign(price=asked @ self.price[self.level], benefit=benefit)

    def by_number(self, most: float, chosen: Bool[np.ndarray, " problem"]) -> list[tuple[float, Numbers]]:
        """Return the best levels to ask in every question, one more each time, for at most this much (at least one).

        Each step adds the level of greatest benefit on the ``chosen`` questions, which is given with how many reports
        of each level are asked. A level with exchangeable reports may occur several times.
        """
        columns, price = np.bincount(self.level, minlength=len(self.price)), self.price[self.level]
        steps, numbers = list[tuple[float, Numbers]](), np.zeros(len(columns), int)
        while True:
            more: list[Numbers] = [
                tuple(n.tolist())
                for n in numbers + np.eye(len(columns), dtype=int)
                if (n <= columns).all() and (not steps or (self.fixed(n) @ price).mean() <= most)
            ]
            if not more:
                return steps
            for n in set(more) - self._benefits.keys():
                self._benefits[n] = self.answers(self.fixed(n))["benefit"]
            best = max(more, key=lambda n: self._benefits[n][chosen].mean())
            steps.append((self._benefits[best][chosen].mean(), best))
            numbers = np.array(best)

    def best_fixed(self, most: float) -> tuple[list[str], Asked]:
        """Return the best levels to ask in every question for at most this much, and what is asked to judge them.

        They look better on the questions on which they were chosen. So each part asks those that are best on the
        others.
        """
        steps = (self.by_number(most, chosen) for chosen in self.kept)
        best, *of_parts = (max(own, key=lambda step: step[0])[1] for own in steps)
        asked = np.stack([self.fixed(numbers) for numbers in of_parts])[self.part, np.arange(len(self.part))]
        return np.repeat(self.questions.learned_levels, best).tolist(), asked

    def forecast(
        self, factor: float, person: float | None, finals: Sequence[Recalibration], fixed: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Compare asking by the gain with asking all, and the best fixed levels.

        ``finals`` calibrate the answers of each part where asking stops; a person at this price is given some of them.
        The fixed levels are those named, or else the :meth:`best_fixed` that are at most as dear. The columns are those
        of :meth:`Policy.replay <bayes_direag.fits.policy.Policy.replay>`.
        """
        own, every = self.answers(self.asked(factor), finals), self.answers(self.questions.usable)
        numbers = tuple(map(fixed.count, self.questions.learned_levels))
        levels, always = (fixed, self.fixed(numbers)) if fixed else self.best_fixed(own["price"].mean())
        rows = []
        for name, answers in (("policy", own), ("all", every), ("fixed", self.answers(always))):
            is_for_person = name == "policy" and worth_a_person(own["probability"].to_numpy(), factor, person)
            rows.append(
                {
                    "asked": name,
                    "levels": levels if name == "fixed" else [],
                    "reports": answers["reports"].mean(),
                    "share": answers["reports"].sum() / every["reports"].sum(),
                    "price": answers["price"].mean(),
                    "price_share": answers["price"].sum() / every["price"].sum(),
                    "handed_over": np.mean(is_for_person),
                    "probability": answers["probability"].mean(),
                    **self._mean("accuracy", answers["accuracy"]),
                    **self._mean("benefit", answers["benefit"]),
                    **self._mean("difference", answers["benefit"] - own["benefit"]),
                }
            )
        return pd.DataFrame(rows)

    def _mean(self, name: str, values: pd.Series) -> dict[str, float]:
        """Return the mean of a value with its interval, for which questions of one cluster count together."""
        mean, n, cluster = values.mean(), len(values), self.questions.cluster_number
        sums = np.bincount(np.arange(n) if cluster is None else cluster, values - mean)
        error = np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / n
        half = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2) * error
        return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
