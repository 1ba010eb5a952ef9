"""What new questions lack beside the fitted ones, reports or a whole signal, and what that does to probabilities.

It is told from the fitted questions themselves: they lose the same, and are predicted again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.model.selection import Recalibration, distribution, predict
from bayes_direag.model.states import Evaluation

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations
    from bayes_direag.model.forward import Forward

#: Nothing is said of fewer reports if probabilities are too high by less than this.
_LEAST = 0.02
#: At least this share of the fitted questions have enough reports.
_SHARE = 0.95
#: At most this many fitted questions lose reports or a signal; fewer lose reports if there are many draws.
_QUESTIONS, _EVALUATIONS = 300, 200_000


class EnoughReports(NamedTuple):
    """What fewer reports do, told from the fitted questions themselves."""

    #: By how much the probability of an answer after one, two, ... reports is above that of the same answer after all
    #: reports of the question, in mean; not less with fewer reports. It ends before what 95 % of the questions have.
    excess: tuple[float, ...]

    @classmethod
    def of(cls, fitted: "Forward", final: Recalibration) -> "EnoughReports":
        """Take random reports away from the fitted questions, at most 300 of them, and predict them again."""
        rng, n = np.random.default_rng(0), len(fitted.data.n_candidates)
        n_asked = min(n, _QUESTIONS, max(_EVALUATIONS // fitted.n_draws, 1))
        data = fitted.data.select(np.sort(rng.permutation(n)[:n_asked]))
        usable = np.asarray(data.candidate).T >= 0
        n_reports = usable.sum(axis=1)
        enough = np.sort(n_reports)[int((1 - _SHARE) * len(usable))]
        rank = np.where(usable, rng.random(usable.shape), np.inf).argsort(axis=1).argsort(axis=1)
        whole, excess = distribution(replace(fitted, data=data), final), list[float]()
        for n_left in range(1, enough):
            row = np.flatnonzero(n_reports > n_left)
            fewer = replace(fitted, data=data.select(row).of_reports(n_left > rank[row].T))
            excess.append(_excess(fewer, final, whole[row]))
        return cls(tuple(np.maximum.accumulate(excess[::-1])[::-1].tolist()))

    def few(self, n_reports: Int[np.ndarray, " problem"]) -> Bool[np.ndarray, " problem"]:
        """Tell which questions have so few usable reports, but some, that probabilities are too high by two points."""
        enough = 1 + sum(points >= _LEAST for points in self.excess)
        return (n_reports > 0) & (n_reports < enough)

    def too_high(self, n_reports: Int[np.ndarray, " problem"]) -> float:
        """Return by how much probabilities of questions with such numbers of usable reports are too high, in mean."""
        few: list[int] = n_reports[self.few(n_reports)].tolist()
        return sum(self.excess[number - 1] for number in few) / len(n_reports)

    def remark(self, n_reports: Int[np.ndarray, " problem"]) -> str | None:
        """Say how many questions with such numbers of usable reports have too few, and what it does; None if none."""
        few, n = n_reports[self.few(n_reports)], len(n_reports)
        if not len(few):
            return None
        points = 100 * self.too_high(few)
        return (
            f"Too few reports in {len(few):,} of {n:,} questions: {_range(few)} usable, where the fitted ones had "
            f"at least {len(self.excess) + 1}. With so few, probabilities of the fitted questions are too high by "
            f"about {points:.0f} points. Fit with partial=True (on the command line --partial)."
        )


def _excess(lacking: Evaluation, final: Recalibration, whole: Float[np.ndarray, "problem state"]) -> float:
    """Return by how much selected answers are more probable than with all that the questions have, in mean."""
    selected = predict(lacking, final, 0.5)
    return float(np.mean(selected["probability"] - whole[np.arange(len(whole)), selected["candidate"]]))


def signals_remark(
    asked: "Observations",
    fitted: "Observations",
    evaluation: "Callable[[Observations], Evaluation]",
    final: Recalibration,
) -> str | None:
    """Say which signals of the fitted reports none of the reports asked about states, and what that does; or None.

    ``evaluation`` gives what the fit says of questions that are aligned with it.
    """
    names = fitted.signal_names
    percent = np.stack([*asked.of_signals(names).signals.values()], axis=-1)
    lost = unstated(names, percent[asked.usable & asked.stated])
    if not lost:
        return None
    known = fitted.select(np.sort(np.random.default_rng(0).permutation(len(fitted))[:_QUESTIONS]))
    lacking = known.of_signals([name for name in known.signal_names if name not in lost])
    points = 100 * _excess(evaluation(lacking), final, distribution(evaluation(known), final))
    effect = (
        "Without, probabilities of the fitted questions are too "
        f"{'high' if points > 0 else 'low'} by {abs(points):.1f} points. "
    )
    return unstated_remark(lost, effect)


def unstated(signals: Sequence[str], percent: Float[np.ndarray, "report signal"]) -> list[str]:
    """Return the signals that none of these reports states, which are not votes; none if there is no report."""
    return [
        signal for signal, lacks in zip(signals, np.isnan(percent).all(axis=0), strict=True) if lacks and len(percent)
    ]


def unstated_remark(signals: Sequence[str], effect: str = "") -> str | None:
    """Say which signals of a fit no report states, and what that does; None if there are none."""
    if not signals:
        return None
    return (
        f"No report states {', '.join(signals)}, from which the fit has learned. {effect}Fit to reports without it (in "
        "Python Observations.of_signals), or have it stated."
    )


def _range(numbers: Int[np.ndarray, " problem"]) -> str:
    return f"{numbers.min()}" if numbers.min() == numbers.max() else f"{numbers.min()} to {numbers.max()}"
