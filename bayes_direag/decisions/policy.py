"""A policy: which level to ask next on a question, when to stop, and what that costs; one file, and NumPy alone.

What it costs and is worth is replayed on labelled questions, all of whose reports are known.

The file is that of a :class:`~bayes_direag.Predictor` with another ``format`` and one more field, ``policy``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.decisions.asking import Asking, PerQuestion, worth_a_person
from bayes_direag.errors import DirEAGError, LevelError
from bayes_direag.model.equations import Reports
from bayes_direag.model.selection import Recalibration
from bayes_direag.predictor import (
    Predictor,
    read_content,
    read_recalibration,
    recalibration_content,
    require_usable,
    write_content,
)

if TYPE_CHECKING:
    import pandas as pd

    from bayes_direag.data.observations import Observations
    from bayes_direag.model.settings import RecalibrationSettings

POLICY_FORMAT, POLICY_VERSION = "bayes-direag policy", 3

#: Probability of the intervals of a forecast.
INTERVAL_LEVEL = 0.9
#: Halvings of the range of factors on the prices.
_HALVINGS, _SMALLEST_FACTOR, _LARGEST_FACTOR = 14, 1e-8, 1e2
#: What to do, by the way of asking that is advised.
_ADVICE = {
    "policy": "Ask by the policy: no other way is clearly better.",
    "all": "Ask all levels: the reports that the policy leaves out are clearly worth their price.",
    "fixed": "Ask {levels} always: for their price that is clearly better than the policy.",
}

#: Which reports are asked for, and how many of each level in every question.
Asked = Bool[np.ndarray, "problem column"]
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """What to do next on a question."""

    #: The level to ask; None: stop.
    ask: str | None
    #: The most probable answer so far; None without a usable report.
    answer: str | None
    #: The probability that it is right; of a question on which asking stops, by the calibration of such questions.
    probability: float | None
    #: What the most valuable report, less its price, is worth in expected benefit.
    gain: float
    #: Whether asking stops and a person is worth their price.
    hand_over: bool


@dataclass(frozen=True, eq=False)
class Policy:
    """Which level to ask next, and when to stop: made by :meth:`Fit.policy <bayes_direag.fits.fit.Fit.policy>`."""

    #: The partial fit, and what decides by it which report comes next.
    predictor: Predictor
    asking: Asking
    #: The price of a report of each level, and of a person's answer; None if there is nobody to hand over to.
    prices: Float[np.ndarray, " level"]
    person: float | None
    #: What a unit of price is worth in the unit of benefit, a right answer at full confidence.
    factor: float
    #: How many reports of each level a question may have: of exchangeable levels as many as a labelled one had.
    most: Int[np.ndarray, " level"]
    #: The final calibration of questions on which asking stops.
    stopped: Recalibration
    #: Number of questions on which it was replayed, and the rows of the forecast.
    n_labels: int
    records: list[dict[str, Any]] = field(repr=False)

    def next(self, reports: Sequence[Mapping[str, object]]) -> Step:
        """Say which level to ask next on a question, given its reports so far, perhaps none.

        A report without a readable answer tells nothing, but its level has been asked. Raises LevelError or
        ObservationError as :meth:`Predictor.predict` does.
        """
        read = self.predictor.read(reports)
        standing = self.asking.standing(read.reports, np.array(read.level, int), np.ones((1, len(read.level)), bool))
        is_open = np.bincount(read.asked, minlength=len(self.most)) < self.most
        (level,), (net,) = standing.next_level(is_open, self.factor * self.prices)
        stops, is_answered = bool(net <= 0), standing.leader[0] >= 0
        probability = standing.stopped(self.stopped) if stops else standing.probability
        return Step(
            ask=None if stops else self.predictor.levels[level],
            answer=read.candidates[standing.leader[0]] if is_answered else None,
            probability=float(probability[0]) if is_answered else None,
            gain=max(float(net), 0.0),
            hand_over=stops and bool(worth_a_person(probability, self.factor, self.person)[0]),
        )

    @property
    def forecast(self) -> "pd.DataFrame":
        """What to expect on questions like the labelled ones, replayed out of fold: see :meth:`replay`."""
        import pandas as pd

        return pd.DataFrame(self.records)

    def replay(self, observations: "Observations") -> "pd.DataFrame":
        """Run the policy on labelled questions with all their reports, and compare it with fixed ways of asking.

        Parameters
        ----------
        observations
            Questions that the fit has not seen, with its levels. Unlabelled and unanswered ones do not count.

        Returns
        -------
        DataFrame
            A row for the ``policy``, for ``all`` reports, and for the best ``fixed`` levels at most as dear as the
            policy: in a replay those of the forecast, which judges them where they were not chosen. Columns: ``levels``
            that are asked in every question; ``reports``, how many a question has; ``share`` of all reports; ``price``
            a question; ``price_share`` of the price of all reports; ``handed_over``, the share of questions for a
            person, who does not count in what follows; ``probability``, the mean of that of the answers; ``accuracy``,
            ``benefit`` (accuracy less Brier score), and ``difference``, the benefit less that of the policy, each with
            ``_low`` and ``_high``.

        Raises
        ------
        DirEAGError
            If no question is both labelled and answered, or the answers are of another kind.
        LevelError
            For a level that the policy does not know.
        """
        import pandas as pd

        predictor = self.predictor
        if observations.kind != predictor.answers:
            raise DirEAGError(f"the observations' answers are {observations.kind}; expected {predictor.answers}.")
        given = observations.select(observations.labelled & observations.answered)
        if not len(given):
            raise DirEAGError(f"none of {len(observations)} questions is both labelled and answered; expected some.")
        given = given.voting_as(tuple(predictor.voting)).align(predictor.levels)
        reports = Reports.of(given.of_signals(predictor.signals), predictor.eps, predictor.labels)
        replay = Replay(given, reports, np.zeros(len(given), int), [self.asking], self.prices)
        return pd.DataFrame(replay.forecast(self.factor, self.person, [self.stopped], self.records[2]["levels"]))

    def advice(self, forecast: "pd.DataFrame | None" = None) -> str:
        """Say which way of asking to take: ``policy``, ``fixed`` or ``all``.

        That is the policy, unless another way is clearly better: unless the interval of the difference in benefit, less
        that in price, lies above 0.
        """
        rows = self.forecast if forecast is None else forecast
        net = rows["difference_low"] - self.factor * (rows["price"] - rows["price"].iloc[0])
        return str(rows["asked"].iloc[int(net.argmax())])

    def text(self, forecast: "pd.DataFrame | None" = None) -> str:
        """Return what to do by a forecast, by default the policy's own, in three lines."""
        found = self.forecast if forecast is None else forecast
        own, every, fixed = found.to_dict("records")
        levels = ", ".join(fixed["levels"])
        figures = "{benefit:.2f} [{benefit_low:.2f}, {benefit_high:.2f}] with {share:.0%} of the reports"
        if np.ptp(self.prices) > 0:
            figures += ", {price_share:.0%} of their price"
        person = "" if self.person is None else f" {own['handed_over']:.0%} of the questions are for a person."
        return (
            f"{_ADVICE[self.advice(found)].format(levels=levels)}\n"
            f"Benefit [interval of probability {INTERVAL_LEVEL:g}]: policy {figures.format_map(own)}; always {levels} "
            f"{figures.format_map(fixed)}; all {figures.format_map(every)}.\n"
            f"The policy's answers claim that {own['probability']:.0%} of them are right; {own['accuracy']:.0%} are "
            f"[{own['accuracy_low']:.0%}, {own['accuracy_high']:.0%}].{person}"
        )

    def content(self) -> dict[str, Any]:
        """Return what the file holds."""
        own = {
            "prices": self.prices.tolist(),
            "person": self.person,
            "factor": self.factor,
            "most": self.most.tolist(),
            "typical": self.asking.typical.tolist(),
            "coincidence": self.asking.coincidence,
            "stopped": recalibration_content(self.stopped),
            "n_labels": self.n_labels,
            "forecast": self.records,
        }
        return self.predictor.content() | {"format": POLICY_FORMAT, "version": POLICY_VERSION, "policy": own}

    def save(self, path: str | Path) -> None:
        """Write the policy as JSON, completely or not at all."""
        write_content(self.content(), path)

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Read a policy; raise FitFileError if there is none, or it is not one that this version can read."""
        remedy = "expected a file written by `direag policy`. Make it again."
        return read_content(path, (POLICY_FORMAT, POLICY_VERSION), cls._of_content, remedy)

    @classmethod
    def _of_content(cls, stored: Mapping[str, Any]) -> "Policy":
        predictor, own = Predictor.of_content(stored), dict(stored["policy"])
        n_levels, n_signals = len(predictor.levels), len(predictor.signals)
        of_signals = (n_levels,) if n_signals == 1 else (n_levels, n_signals)
        for name, shape in {"prices": (n_levels,), "most": (n_levels,), "typical": of_signals}.items():
            own[name] = np.array(own[name], int if name == "most" else float)
            if own[name].shape != shape or not np.isfinite(own[name]).all():
                raise ValueError(f"saw {name} {own[name]}; expected numbers for {n_levels} levels")
        numbers = np.array([*own["prices"], own["factor"], own["person"] or 0.0])
        if not 0 < own["coincidence"] < 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise ValueError("saw a negative price, or a probability outside 0 and 1")
        if (n_draws := len(predictor.parameters.weight)) > 1:
            raise ValueError(f"saw {n_draws} draws of the parameters; expected those of a MAP, 1")
        stopped = read_recalibration(own.pop("stopped"))
        names = {"levels": predictor.levels, "labels": predictor.labels, "signals": predictor.signals}
        require_usable(predictor.parameters, stopped, eps=predictor.eps, **names)
        learned = own.pop("typical"), own.pop("coincidence")
        asking = Asking(predictor.parameters, predictor.recalibration, *learned)
        records = [dict(row) for row in own.pop("forecast")]
        return cls(predictor, asking, stopped=stopped, records=records, **own)


class Answers(NamedTuple):
    """Answers after some reports: their support, the number and price of the reports, and what they turned out to be.

    ``probability`` is 0 without reports; ``accuracy`` says whether an answer is right; and ``benefit`` is accuracy less
    Brier score.
    """

    support: PerQuestion
    reports: Int[np.ndarray, " problem"]
    price: PerQuestion
    probability: PerQuestion
    accuracy: PerQuestion
    benefit: PerQuestion


@dataclass(frozen=True, eq=False)
class Replay:
    """Labelled questions with all their reports, on which ways of asking are tried; a report of each level has a price.

    They are in parts, and each part has what decides about it.
    """

    questions: "Observations"
    reports: Reports
    part: Int[np.ndarray, " problem"]
    askings: list[Asking]
    price: Float[np.ndarray, " level"]
    _benefits: dict[Numbers, PerQuestion] = field(default_factory=dict, repr=False)

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

    def answers(self, asked: Asked, finals: Sequence[Recalibration] | None = None) -> Answers:
        """Return the answers after these reports, by the final calibration of the fit, or by another of each part."""
        support, stated, right = np.zeros((3, len(self.part)))
        for number, asking in enumerate(self.askings):
            rows = np.flatnonzero(self.part == number)
            standing = asking.standing(self.reports.select(rows), self.level, asked[rows])
            right[rows] = (standing.leader >= 0) & self.questions.correct_candidate[rows, standing.leader]
            stated[rows] = standing.probability if finals is None else standing.stopped(finals[number])
            support[rows] = standing.support
        price = asked @ self.price[self.level]
        return Answers(support, asked.sum(axis=1), price, stated, right, right - (stated - right) ** 2)

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
                self._benefits[n] = self.answers(self.fixed(n)).benefit
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
    ) -> list[dict[str, Any]]:
        """Compare asking by the gain with asking all, and the best fixed levels: the rows of :meth:`Policy.replay`.

        ``finals`` calibrate the answers of each part where asking stops; a person at this price is given some of them.
        The fixed levels are those named, or else the :meth:`best_fixed` that are at most as dear.
        """
        own, every = self.answers(self.asked(factor), finals), self.answers(self.questions.usable)
        numbers = tuple(map(fixed.count, self.questions.learned_levels))
        levels, always = (fixed, self.fixed(numbers)) if fixed else self.best_fixed(own.price.mean())
        handed_over = worth_a_person(own.probability, factor, person).mean()
        return [
            {
                "asked": name,
                "levels": levels if name == "fixed" else [],
                "reports": float(answers.reports.mean()),
                "share": float(answers.reports.sum() / every.reports.sum()),
                "price": float(answers.price.mean()),
                "price_share": float(answers.price.sum() / every.price.sum()),
                "handed_over": float(handed_over) if name == "policy" else 0.0,
                "probability": float(answers.probability.mean()),
                **self._mean("accuracy", answers.accuracy),
                **self._mean("benefit", answers.benefit),
                **self._mean("difference", answers.benefit - own.benefit),
            }
            for name, answers in (("policy", own), ("all", every), ("fixed", self.answers(always)))
        ]

    def _mean(self, name: str, values: PerQuestion) -> dict[str, float]:
        """Return the mean of a value with its interval, for which questions of one cluster count together."""
        mean, n, cluster = float(values.mean()), len(values), self.questions.cluster_number
        sums = np.bincount(np.arange(n) if cluster is None else cluster, values - mean)
        error = float(np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1))) / n
        half = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2) * error
        return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}

    def policy(
        self,
        predictor: Predictor,
        asking: Asking,
        final: "RecalibrationSettings",
        *,
        prices: Mapping[str, float] | None,
        budget: float,
        person: float | None,
    ) -> Policy:
        """Make a policy of the whole fit: see :meth:`Fit.policy <bayes_direag.fits.fit.Fit.policy>`.

        The final calibration is fitted once more, to the questions as they were when asking stopped. The confidences of
        a part that enter the forecast are calibrated on the others.
        """
        from bayes_direag.inference.recalibration import Outcomes, recalibrate  # they load JAX

        if not 0 < budget <= 1:
            raise DirEAGError(
                f"budget {budget}: expected a share of the full price above 0 and at most 1, such as 0.3."
            )
        if person is not None and not 0 < person < np.inf:
            raise DirEAGError(f"person {person}: expected a positive number, in the unit of the prices.")
        replay = replace(self, price=_prices(prices, predictor.levels))
        factor, usable = replay.factor(budget), self.questions.usable
        answers = replay.answers(replay.asked(factor))
        is_answered = answers.reports > 0
        weight = (self.kept & is_answered).astype(float)
        if not weight.any(axis=1).all():
            raise DirEAGError(
                f"{is_answered.sum()} of {len(usable)} questions are worth a report; expected more. Give a larger "
                "budget."
            )
        support, right = (np.broadcast_to(each, weight.shape) for each in (answers.support, answers.accuracy > 0))
        stopped, *of_parts = recalibrate(Outcomes(support, right, weight, answers.reports), final)
        most = [usable[:, self.level == level].sum(axis=1).max() for level in range(len(self.price))]
        return Policy(
            predictor=predictor,
            asking=asking,
            prices=replay.price,
            person=person,
            factor=factor,
            most=np.maximum(most, 1),
            stopped=stopped,
            n_labels=len(usable),
            records=replay.forecast(factor, person, of_parts),
        )


def _prices(prices: Mapping[str, float] | None, levels: Sequence[str]) -> Float[np.ndarray, " level"]:
    """Return the price of each level, by default 1; raise LevelError or DirEAGError if these cannot be used."""
    prices = dict.fromkeys(levels, 1.0) if prices is None else prices
    if missing := set(levels) ^ set(prices):
        raise LevelError(
            f"prices: saw {', '.join(prices)}; expected one price for each of {', '.join(levels)}. Look at "
            f"{', '.join(sorted(missing))}."
        )
    price = np.array([prices[level] for level in levels], float)
    if not (np.isfinite(price).all() and (price >= 0).all() and price.any()):
        raise DirEAGError(f"prices: saw {', '.join(map(str, price))}; expected numbers from 0 on, not all of them 0.")
    return price
