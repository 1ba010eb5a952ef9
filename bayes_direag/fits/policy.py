"""A policy: which level to ask next on a question, when to stop, and what that costs; one file, and NumPy alone.

The file is that of a :class:`~bayes_direag.Predictor` with another ``format`` and one more field, ``policy``.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from bayes_direag.decisions.asking import Asking, worth_a_person
from bayes_direag.errors import DirEAGError
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
    import pandas as pd

    from bayes_direag.data.observations import Observations

POLICY_FORMAT, POLICY_VERSION = "bayes-direag policy", 3

#: What to do, by the way of asking that is advised.
_ADVICE = {
    "policy": "Ask by the policy: no other way is clearly better.",
    "all": "Ask all levels: the reports that the policy leaves out are clearly worth their price.",
    "fixed": "Ask {levels} always: for their price that is clearly better than the policy.",
}


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
    #: What labelled questions taught: see :class:`~bayes_direag.decisions.asking.Asking`.
    typical: Float[np.ndarray, "level *signal"]
    coincidence: float
    #: The final calibration of questions on which asking stops.
    stopped: Recalibration
    #: Number of questions on which it was replayed, and the rows of the forecast.
    n_labels: int
    records: list[dict[Hashable, Any]] = field(repr=False)

    @cached_property
    def asking(self) -> Asking:
        """What decides which report comes next."""
        return Asking(self.predictor.parameters, self.predictor.recalibration, self.typical, self.coincidence)

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
        from bayes_direag.decisions.replay import Replay

        predictor = self.predictor
        if observations.kind != predictor.answers:
            raise DirEAGError(f"the observations' answers are {observations.kind}; expected {predictor.answers}.")
        given = observations.select(observations.labelled & observations.answered)
        if not len(given):
            raise DirEAGError(f"none of {len(observations)} questions is both labelled and answered; expected some.")
        given = given.voting_as(tuple(predictor.voting)).align(predictor.levels)
        reports = Reports.of(given.of_signals(predictor.signals), predictor.eps, predictor.labels)
        replay = Replay(given, reports, np.zeros(len(given), int), [self.asking], self.prices)
        return replay.forecast(self.factor, self.person, [self.stopped], self.records[2]["levels"])

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
        from bayes_direag.decisions.replay import INTERVAL_LEVEL

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
            "typical": self.typical.tolist(),
            "coincidence": self.coincidence,
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
        predictor, own = Predictor.of_content(stored), dict(stored["policy"])
        n_levels, n_signals, records = len(predictor.levels), len(predictor.signals), own.pop("forecast")
        of_signals = (n_levels,) if n_signals == 1 else (n_levels, n_signals)
        for name, shape in {"prices": (n_levels,), "most": (n_levels,), "typical": of_signals}.items():
            own[name] = np.array(own[name], int if name == "most" else float)
            if own[name].shape != shape or not np.isfinite(own[name]).all():
                raise ValueError(f"saw {name} {own[name]}; expected numbers for {n_levels} levels")
        own["stopped"] = read_recalibration(own["stopped"])
        policy = cls(predictor=predictor, records=[dict(row) for row in records], **own)
        numbers = np.array([*policy.prices, policy.factor, policy.person or 0.0])
        if not 0 < policy.coincidence < 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
            raise ValueError("saw a negative price, or a probability outside 0 and 1")
        if (n_draws := len(predictor.parameters.weight)) > 1:
            raise ValueError(f"saw {n_draws} draws of the parameters; expected those of a MAP, 1")
        names = {"levels": predictor.levels, "labels": predictor.labels, "signals": predictor.signals}
        require_usable(predictor.parameters, policy.stopped, eps=predictor.eps, **names)
        return policy
