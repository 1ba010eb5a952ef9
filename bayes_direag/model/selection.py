"""What follows from the probabilities of states: the selected answer, and its final probability."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Shaped

from bayes_direag.errors import DirEAGError
from bayes_direag.model.states import Evaluation, States, joined

#: The coefficients of a final calibration that leaves support as it is.
IDENTITY = {"intercept": 0.0, "slope": 1.0}


@runtime_checkable
class Calibration(Protocol):
    """What gives selected answers their final probability, by what reports a question has."""

    @property
    def n_samples(self) -> int:
        """The number of posterior draws, over all chains."""

    def of_selected(
        self, support: Float[np.ndarray, "#sample problem"], panels: Int[np.ndarray, "problem level"]
    ) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of answers that are selected with these reports of each level, in every draw."""


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A final calibration on the logit scale, ``sigmoid(intercept + slope * logit(support))``, for every draw."""

    METHODS: ClassVar[tuple[str, ...]] = ("platt", "release", "none")

    method: str
    #: ``intercept`` and ``slope``.
    coefficients: dict[str, Float[np.ndarray, "chain draw"]]
    eps: float

    @classmethod
    def identity(cls, shape: tuple[int, int], eps: float) -> "Recalibration":
        """Return the calibration that leaves support as it is, for this number of chains and draws."""
        return cls("none", {"intercept": np.zeros(shape), "slope": np.ones(shape)}, eps)

    @property
    def n_samples(self) -> int:
        """The number of posterior draws, over all chains."""
        return self.coefficients["slope"].size

    def of_selected(
        self,
        support: Float[np.ndarray, "#sample problem"],
        panels: Int[np.ndarray, "problem level"] | None = None,  # noqa: ARG002 - see below
    ) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of selected answers in every draw; one row of support may serve all draws.

        It is the same with whatever reports.
        """
        if self.method == "none":
            return support
        coefficients = {name: values.reshape(-1, 1) for name, values in self.coefficients.items()}
        score = coefficients["intercept"] + coefficients["slope"] * clipped_logit(support, self.eps)
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-score)))


class Selection(NamedTuple):
    """The selected answer of each question: the candidate with the greatest mean support over the samples."""

    #: -1 without candidates. Ties go to the first candidate, in string order of the canonical answers.
    candidate: Int[np.ndarray, " problem"]
    #: Support of the selected candidate; NaN without candidates.
    support: Float[np.ndarray, "sample problem"]
    #: Mean support of every state, the null last; 0 for states that a question lacks.
    mean_support: Float[np.ndarray, "problem state"]
    #: Share of the samples in which another candidate would be selected; NaN without candidates.
    change_probability: Float[np.ndarray, " problem"]


def distribution(evaluation: Evaluation, final: Calibration | None = None) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, the null last; without ``final``, the mean support."""

    def of_piece(states: States) -> Float[np.ndarray, "problem state"]:
        if final is None:
            return states.support.mean(axis=2).T
        selection = select(states)
        probability = final.of_selected(selection.support, states.panels).mean(axis=0)
        return final_distribution(selection.mean_support, selection.candidate, probability)

    return joined(evaluation.each(of_piece))


def select(states: States) -> Selection:
    """Select each question's answer: the candidate with the greatest mean support."""
    support, question = states.support, np.arange(len(states.n_candidates))
    mean = support.mean(axis=2)
    best = mean[:-1].argmax(axis=0)
    selected = support[best, question]
    changes = np.zeros(selected.shape, bool)
    for other, of_other in enumerate(support[:-1] if len(support) > 2 else ()):
        changes |= (of_other > selected) | ((of_other == selected) & (other < best)[:, None])
    answered = states.n_candidates > 0
    selected[~answered] = np.nan
    change_probability = np.where(answered, changes.mean(axis=1), np.nan)
    return Selection(np.where(answered, best, -1), selected.T, mean.T, change_probability)


def final_distribution(
    mean_support: Float[np.ndarray, "problem state"],
    candidate: Int[np.ndarray, " problem"],
    probability: Float[np.ndarray, " problem"],
) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, given that of the selected candidate; a question's sum to 1.

    The other states share the rest in proportion to their support, but no other candidate gets as much as the selected
    answer; the null takes any excess, and everything where there are no candidates.
    """
    question = np.flatnonzero(candidate >= 0)
    selected = question, candidate[question]
    of_selected = np.where(candidate >= 0, probability, 0.0)[:, None]
    others = mean_support.copy()
    others[selected] = 0.0
    total = others.sum(axis=1, keepdims=True)
    share = np.divide(1 - of_selected, total, out=np.zeros_like(total), where=total > 0)
    states = np.minimum(others * share, np.nextafter(of_selected, 0.0))
    states[selected] = of_selected[question, 0]
    states[:, -1] = np.maximum(1 - states[:, :-1].sum(axis=1), 0.0)
    return np.asarray(states)


def state_intervals(
    evaluation: Evaluation, final: Calibration, interval_level: float
) -> Float[np.ndarray, "2 problem state"]:
    """Return the ends of the equal-tailed interval of every state's final probability, the null last.

    In each draw the selected answer has its final probability, and the other states share the rest in proportion to
    their support.
    """
    ends = tails(interval_level)

    def of_piece(states: States) -> Float[np.ndarray, "2 problem state"]:
        selection = select(states)
        question = np.flatnonzero(selection.candidate >= 0)
        selected = selection.candidate[question], question
        probability = final.of_selected(selection.support, states.panels).T[question]
        support = states.support.copy()
        support[selected] = 0.0
        rest = np.ones(support.shape[1:])
        rest[question] -= probability
        total = support.sum(axis=0)
        support *= np.divide(rest, total, out=np.zeros_like(total), where=total > 0)
        support[selected] = probability
        return np.asarray(np.quantile(support, ends, axis=2).transpose(0, 2, 1))

    return joined(evaluation.each(of_piece))


def tails(interval_level: float) -> tuple[float, float]:
    """Return the quantiles that an interval ends at; raise DirEAGError if its level is out of range."""
    if not 0 < interval_level < 1:
        raise DirEAGError(f"interval level {interval_level}: expected a probability between 0 and 1, such as 0.9.")
    return (1 - interval_level) / 2, (1 + interval_level) / 2


def predict(
    evaluation: Evaluation, final: Calibration, interval_level: float
) -> dict[str, Shaped[np.ndarray, " problem"]]:
    """Return the computed columns of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`, and ``candidate``.

    Raises DirEAGError if ``interval_level`` is out of range.
    """
    ends = tails(interval_level)

    def of_piece(states: States) -> dict[str, Shaped[np.ndarray, " problem"]]:
        selection = select(states)
        confidence = final.of_selected(selection.support, states.panels)
        mean = confidence.mean(axis=0)
        columns = {"candidate": selection.candidate, "probability": mean}
        if len(confidence) > 1:
            low, high = np.quantile(confidence, ends, axis=0)
            columns |= {
                "probability_low": low,
                "probability_high": high,
                "change_probability": selection.change_probability,
            }
        return columns | {
            "support": selection.support.mean(axis=0),
            "null_probability": final_distribution(selection.mean_support, selection.candidate, mean)[:, -1],
        }

    parts = list(evaluation.each(of_piece))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def clipped_logit(probability: Float[np.ndarray, "*shape"], eps: float) -> Float[np.ndarray, "*shape"]:
    """Clip probabilities to ``[eps, 1 - eps]`` and return their logits; NaN stays."""
    clipped = np.clip(probability, eps, 1 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))  # several times as fast as scipy's logit
