"""A policy: which level to ask next on a question, when to stop, and what that costs; one file, and NumPy alone.

The file is that of a :class:`~bayes_direag.Predictor` with another ``format`` and one more field, ``policy``.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from bayes_direag.decisions.asking import Asking, worth_a_person
from bayes_direag.decisions.replay import INTERVAL_LEVEL, Part, Replay
from bayes_direag.errors import DirEAGError, LevelError
from bayes_direag.fits.checked import require_usable
from bayes_direag.fits.predictor import (
    Predictor,
    read_content,
    read_recalibration,
    recalibration_content,
    write_content,
)
from bayes_direag.model.equations import Reports
from bayes_direag.model.selection import Recalibration

if TYPE_CHECKING:
    import pandas

    from bayes_direag.data.observations import Observations

POLICY_FORMAT, POLICY_VERSION = "bayes-direag policy", 2


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

    #: The partial fit.
    predictor: Predictor
    #: The price of a report of each level, and of a person's answer; None if there is nobody to hand over to.
    prices: Float[np.ndarray, " level"]
    person: float | None
    #: What a unit of price is worth in the unit of benefit, a right answer at full confidence.
    factor: float
    #: How many reports of each level a question may have: of exchangeable levels as many as a labelled one had.
    most: Int[np.ndarray, " level"]
    #: What decides which report comes next.
    asking: Asking
    #: The final calibration of questions on which asking stops.
    stopped: Recalibration
    #: Number of questions on which it was replayed.
    n_labels: int
    records: list[dict[str, Any]] = field(repr=False)

    def next(self, reports: Sequence[Mapping[str, object]]) -> Step:
        """Say which level to ask next on a question, given its reports so far, perhaps none.

        A report without a readable answer tells nothing, but its level has been asked.

        Raises
        ------
        LevelError, ObservationError
            As :meth:`Predictor.predict` does.
        """
        read = self.predictor.read(reports)
        standing = self.asking.standing(read.reports, np.array(read.level, int), np.ones((1, len(read.level)), bool))
        is_open = np.bincount(read.asked, minlength=len(self.most)) < self.most
        net = np.where(is_open, standing.gain[0] - self.factor * self.prices, -np.inf)
        level, leader = int(net.argmax()), int(standing.leader[0])
        stops, probability = net[level] <= 0, float(standing.probability[0])
        if stops and leader >= 0:
            probability = float(self.stopped.of_selected(standing.support[None], standing.n_reports)[0, 0])
        return Step(
            ask=None if stops else self.predictor.levels[level],
            answer=None if leader < 0 else read.candidates[leader],
            probability=None if leader < 0 else probability,
            gain=max(float(net[level]), 0.0),
            hand_over=bool(stops and worth_a_person(np.array(probability), self.factor, self.person)),
        )

    @property
    def forecast(self) -> "pandas.DataFrame":
        """What to expect on questions like the labelled ones, replayed out of fold: see :meth:`replay`."""
        return _frame(self.records)

    def replay(self, observations: "Observations") -> "pandas.DataFrame":
        """Run the policy on labelled questions with all their reports, and compare it with fixed ways of asking.

        Parameters
        ----------
        observations
            Questions that the fit has not seen, with its levels. Unlabelled and unanswered ones do not count.

        Returns
        -------
        DataFrame
            A row for the ``policy``, for ``all`` reports, and for the best ``fixed`` levels at most as dear as the
            policy: in a replay those of the forecast, which judges them where they were not chosen. Then the ``curve``:
            the policy at other prices, from the lowest on, by its own final calibration. Columns: ``levels`` that are
            asked in every question; ``reports``, how many a question has; ``share`` of all reports; ``price`` a
            question; ``price_share`` of the price of all reports; ``handed_over``, the share of questions for a person,
            who does not count in what follows; ``probability``, the mean of that of the answers; ``accuracy``,
            ``benefit`` (accuracy less Brier score), and ``difference``, the benefit less that of the policy, each with
            ``_low`` and ``_high``.

        Raises
        ------
        DirEAGError
            If no question is both labelled and answered, or the answers are of another kind.
        LevelError
            For a level that the policy does not know.
        """
        predictor = self.predictor
        if observations.kind != predictor.answers:
            raise DirEAGError(f"the observations' answers are {observations.kind}; expected {predictor.answers}.")
        given = observations.select(observations.labelled & observations.answered)
        if not len(given):
            raise DirEAGError(f"none of {len(observations)} questions is both labelled and answered; expected some.")
        given = given.voting_as(tuple(predictor.voting)).align(predictor.levels)
        reports = Reports.of(given.of_signals(predictor.signals), predictor.eps, None)
        replay = Replay(given, [Part(self.asking, reports, np.arange(len(given)))], self.prices)
        fixed = next(row["levels"] for row in self.records if row["asked"] == "fixed")
        return _frame(replay.forecast(self.factor, self.person, [self.stopped], fixed))

    def advice(self, forecast: "pandas.DataFrame | None" = None) -> str:
        """Say which way of asking to take: ``policy``, ``fixed`` or ``all``.

        That is the policy, unless another way is clearly better: unless the interval of the difference in benefit, less
        that in price, lies above 0.
        """
        rows = (self.forecast if forecast is None else forecast).iloc[:3].to_dict("records")
        dearer = [self.factor * (row["price"] - rows[0]["price"]) for row in rows]
        net = [row["difference_low"] - price for row, price in zip(rows, dearer, strict=True)]
        return str(rows[int(np.argmax(net))]["asked"])

    def text(self, forecast: "pandas.DataFrame | None" = None) -> str:
        """Return what to do by a forecast, by default the policy's own, in three lines."""
        found = self.forecast if forecast is None else forecast
        own, every, fixed = found.iloc[:3].to_dict("records")
        n, names = len(fixed["levels"]), ", ".join(fixed["levels"])
        levels = f"these {n} levels" if n > 1 else "this level"
        say = {
            "policy": "Ask by the policy: no other way is clearly better.",
            "fixed": f"Ask {levels} always ({names}): for their price they are clearly better than the policy.",
            "all": "Ask all levels: the reports that the policy leaves out are clearly worth their price.",
        }
        person = "" if self.person is None else f" {own['handed_over']:.0%} of the questions are for a person."
        return (
            f"{say[self.advice(found)]}\n"
            f"Benefit [interval of probability {INTERVAL_LEVEL:g}]: policy {self._shown(own)}; always {names} "
            f"{self._shown(fixed)}; all {self._shown(every)}.\n"
            f"The policy's answers claim that {own['probability']:.0%} of them are right; {own['accuracy']:.0%} are "
            f"[{own['accuracy_low']:.0%}, {own['accuracy_high']:.0%}].{person}"
        )

    def _shown(self, row: Mapping[Hashable, Any]) -> str:
        price = f", {row['price_share']:.0%} of their price" if np.ptp(self.prices) > 0 else ""
        benefit = f"{row['benefit']:.2f} [{row['benefit_low']:.2f}, {row['benefit_high']:.2f}]"
        return f"{benefit} with {row['share']:.0%} of the reports{price}"

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
        named = {"format": POLICY_FORMAT, "version": POLICY_VERSION}
        return self.predictor.content() | named | {"policy": own}

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
        predictor, own = Predictor.of_content(stored), stored["policy"]
        n_levels, n_signals = len(predictor.levels), len(predictor.signals)
        decides = np.array(own["typical"], float), float(own["coincidence"])
        asking = Asking(predictor.parameters, predictor.recalibration, *decides)
        policy = cls(
            predictor=predictor,
            prices=np.array(own["prices"], float),
            person=None if own["person"] is None else float(own["person"]),
            factor=float(own["factor"]),
            most=np.array(own["most"], int),
            asking=asking,
            stopped=read_recalibration(own["stopped"]),
            n_labels=int(own["n_labels"]),
            records=[dict(row) for row in own["forecast"]],
        )
        of_levels = (n_levels,) if n_signals == 1 else (n_levels, n_signals)
        shapes = policy.prices.shape, policy.most.shape, asking.typical.shape
        numbers = *policy.prices, *asking.typical.ravel(), policy.factor, asking.coincidence, policy.person or 0.0
        if shapes != ((n_levels,), (n_levels,), of_levels) or not np.isfinite(numbers).all():
            raise ValueError(f"prices, numbers of reports and mean confidences are not those of {n_levels} levels")
        if (n_draws := len(predictor.parameters.weight)) > 1:
            raise ValueError(f"saw {n_draws} draws of the parameters; expected those of a MAP, 1")
        if not 0 < asking.coincidence < 1 or min(*policy.prices, policy.factor) < 0:
            raise ValueError("saw a negative price, or a probability outside 0 and 1")
        names = {"levels": predictor.levels, "labels": predictor.labels, "signals": predictor.signals}
        require_usable(predictor.parameters, policy.stopped, eps=predictor.eps, **names)
        return policy


def prices_by_level(prices: Mapping[str, float] | None, levels: Sequence[str]) -> Float[np.ndarray, " level"]:
    """Return the price of each level, by default 1; raise an error unless each has one that is not negative."""
    if prices is None:
        return np.ones(len(levels))
    if missing := set(levels) ^ set(prices):
        raise LevelError(
            f"prices: saw {', '.join(prices)}; expected one price for each of {', '.join(levels)}. Look at "
            f"{', '.join(sorted(missing))}."
        )
    found = np.array([prices[level] for level in levels], float)
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise DirEAGError(f"prices: saw {', '.join(map(str, found))}; expected numbers from 0 on, not all of them 0.")
    return found


def _frame(records: list[dict[str, Any]]) -> "pandas.DataFrame":
    import pandas as pd

    return pd.DataFrame(records)
