r"""Select the answers of questions, with their probabilities, from draws of a posterior; on NumPy arrays, without JAX.

The equations are those of :mod:`bayes_direag.model.evidence`. NumPy is faster for many draws of few questions, and a
service that answers questions need not install JAX. The tests compare the two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    import xarray

#: The model's natural parameters by name, each with a leading sample axis.
type Samples = Mapping[str, Float[np.ndarray, "sample ..."]]

#: Columns of a table of questions, by name.
Columns = dict[str, Shaped[np.ndarray, " problem"]]

_VOTES = frozenset({"vote", "label_vote", "vote_slope"})
_LARGEST = math.log(np.finfo(float).max) - 1


def clipped_logit(probability: Float[np.ndarray, "*shape"], eps: float) -> Float[np.ndarray, "*shape"]:
    """Clip probabilities to ``[eps, 1 - eps]`` and return their logits; NaN stays."""
    clipped = np.clip(probability, eps, 1 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))  # several times as fast as scipy's logit


def logit_signals(signals: Sequence[Float[np.ndarray, "*shape"]], eps: float) -> Float[np.ndarray, "*shape_and_signal"]:
    """Return the clipped logits of signals, 0 where one is missing; a single signal has no axis of its own."""
    logits = clipped_logit(np.nan_to_num(np.stack(signals, axis=-1), nan=0.5), eps)
    return logits if len(signals) > 1 else logits[..., 0]


@dataclass(frozen=True, eq=False)
class LogisticRecalibration:
    """A final calibration on the logit scale, ``sigmoid(intercept + slope * logit(support))``, for every draw.

    Attributes
    ----------
    coefficients
        ``intercept`` and ``slope``, each (chain, draw).
    """

    METHODS: ClassVar[tuple[str, ...]] = ("platt", "release", "temperature", "none")

    method: str
    coefficients: dict[str, Float[np.ndarray, "chain draw"]]
    eps: float

    @classmethod
    def identity(cls, shape: tuple[int, int], eps: float) -> "LogisticRecalibration":
        """Return the calibration that leaves support as it is, for this number of chains and draws."""
        return cls("none", {"intercept": np.zeros(shape), "slope": np.ones(shape)}, eps)

    def of_selected(self, support: Float[np.ndarray, "#sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of selected answers in every draw; one row of support may serve all draws."""
        if self.method == "none":
            return support
        intercept, slope = (self.coefficients[name].reshape(-1, 1) for name in ("intercept", "slope"))
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-intercept - slope * clipped_logit(support, self.eps))))

    def to_dataset(self) -> "xarray.Dataset":
        """Return the coefficients as a dataset, by chain and draw."""
        import xarray as xr

        variables = {name: (("chain", "draw"), values) for name, values in self.coefficients.items()}
        return xr.Dataset(variables, attrs={"method": self.method, "eps": self.eps})


@dataclass(frozen=True, eq=False)
class IsotonicRecalibration:
    """The monotone function of an isotonic regression: linear between its knots, constant beyond them."""

    support: Float[np.ndarray, " knot"]
    probability: Float[np.ndarray, " knot"]
    method: str = "isotonic"

    def of_selected(self, support: Float[np.ndarray, "#sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of selected answers."""
        return np.asarray(np.interp(support, self.support, self.probability))

    def to_dataset(self) -> "xarray.Dataset":
        """Return the knots as a dataset."""
        import xarray as xr

        variables = {"support": ("knot", self.support), "probability": ("knot", self.probability)}
        return xr.Dataset(variables, attrs={"method": self.method})


#: A map from the support of the selected answer to its probability, one for each posterior draw.
Recalibration = LogisticRecalibration | IsotonicRecalibration


class Selection(NamedTuple):
    """The selected answer of each question.

    Attributes
    ----------
    candidate : (problem,) array
        The candidate with the greatest mean support over the samples; -1 without candidates. Ties go to the first
        candidate; candidates are in string order of their canonical answers.
    support : (sample, problem) array
        Its support in every sample; NaN without candidates.
    mean_support : (problem, state) array
        Mean support of every state, the null last; 0 for states that a question lacks.
    change_probability : (problem,) array
        Share of the samples in which another candidate would be selected; NaN without candidates.
    tied : (problem,) array
        Whether another candidate has equal support, in the mean or in a sample, so that their order decides.
    """

    candidate: Int[np.ndarray, " problem"]
    support: Float[np.ndarray, "sample problem"]
    mean_support: Float[np.ndarray, "problem state"]
    change_probability: Float[np.ndarray, " problem"]
    tied: Bool[np.ndarray, " problem"]


class Table(NamedTuple):
    """What each distinct report adds to the states of its question, looked up by every report.

    Attributes
    ----------
    given : (entry, sample) array
        Concentration added to its answer. The last entry stands for no report and is 0.
    doubt : (entry, sample) array
        Concentration added to the null.
    vote : (entry, sample) array or None
        What is added to the log odds of its answer; None without votes.
    entry : (problem, level) array
        The entry of each report.
    """

    given: Float[np.ndarray, "entry sample"]
    doubt: Float[np.ndarray, "entry sample"]
    vote: Float[np.ndarray, "entry sample"] | None
    entry: Int[np.ndarray, "problem level"]


def worth(
    logit_confidence: Float[np.ndarray, "report *signal"],
    level: Int[np.ndarray, " report"],
    samples: Samples,
    label: Int[np.ndarray, " report"] | None = None,
) -> tuple[
    Float[np.ndarray, "report sample"], Float[np.ndarray, "report sample"], Float[np.ndarray, "report sample"] | None
]:
    """Return what each report adds to its answer and to the null, and its vote, in every sample."""
    weight = np.asarray(samples["weight"].T[level])

    def over_signals(slope: Float[np.ndarray, "sample *signal"]) -> Float[np.ndarray, "report sample"]:
        n_signals = slope[0].size
        return np.asarray(logit_confidence.reshape(-1, n_signals) @ slope.reshape(-1, n_signals).T)

    vote = None
    if samples.keys() & _VOTES:
        vote = np.asarray(samples["vote"].T[level]) if "vote" in samples else np.zeros_like(weight)
        if "label_vote" in samples:
            label_votes = np.pad(samples["label_vote"], ((0, 0), (0, 0), (0, 1)))  # the last, index -1, is no label
            vote = vote + label_votes[:, level, label].T
        if "vote_slope" in samples:
            vote = vote + over_signals(samples["vote_slope"])
    if "bias" not in samples:
        return weight, np.zeros_like(weight), vote
    score = samples["bias"].T[level]
    if "slope" in samples:
        score = score + over_signals(samples["slope"])
    odds_against = np.exp(np.minimum(-score, _LARGEST))
    given = weight / (1 + odds_against)
    return given, samples.get("null_gain", np.zeros(1)) * (given * odds_against), vote


def select(
    candidate: Int[np.ndarray, "problem level"],
    n_candidates: Int[np.ndarray, " problem"],
    table: Table,
    samples: Samples,
) -> Selection:
    """Select each question's answer: the candidate with the greatest mean support."""
    entry = table.entry
    n_questions, n_levels = candidate.shape
    question = np.arange(n_questions)
    share = samples["prior_strength"] / (n_candidates[:, None] + 1)
    states = np.repeat(share[None], max(n_candidates.max(initial=0), 1) + 1, axis=0)
    alpha, null = states[:-1], states[-1]
    null += samples["null_base"]
    for level in range(n_levels):
        alpha[candidate[:, level], question] += table.given[entry[:, level]]  # no report (-1) adds 0 to the last
        null += table.doubt[entry[:, level]]
    alpha[np.arange(len(alpha))[:, None] >= n_candidates] = 0.0
    if samples.keys() & {"sharpness", *_VOTES}:
        sharpness = samples.get("sharpness", np.ones(1))
        with np.errstate(divide="ignore"):
            states[:] = sharpness * np.log(states)
        if table.vote is not None:
            for level in range(n_levels):
                alpha[candidate[:, level], question] += table.vote[entry[:, level]]
        states -= states.max(axis=0)
        np.exp(states, out=states)
    states /= states.sum(axis=0)
    mean = states.mean(axis=2)
    best = mean[:-1].argmax(axis=0)
    selected = states[best, question]
    changes, tied = np.zeros(selected.shape, bool), (mean[:-1] == mean[best, question]).sum(axis=0) > 1
    for other, support in enumerate(alpha if len(alpha) > 1 else ()):
        equal = support == selected
        changes |= (support > selected) | (equal & (other < best)[:, None])
        tied |= (other != best) & equal.any(axis=1)
    answered = n_candidates > 0
    selected[~answered] = np.nan
    change_probability = np.where(answered, changes.mean(axis=1), np.nan)
    return Selection(np.where(answered, best, -1), selected.T, mean.T, change_probability, answered & tied)


def final_distribution(
    support: Float[np.ndarray, "problem state"],
    candidate: Int[np.ndarray, " problem"],
    probability: Float[np.ndarray, " problem"],
) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, the null last; the states of a question sum to 1.

    The other states share the rest in proportion to their support, but no other candidate gets as much as the selected
    answer; the null takes any excess, and everything where there are no candidates.

    Parameters
    ----------
    support
        Mean support of every state.
    candidate, probability
        The selected candidate and its final probability; -1 and NaN without candidates.
    """
    question = np.flatnonzero(candidate >= 0)
    selected = question, candidate[question]
    of_selected = np.where(candidate >= 0, probability, 0.0)[:, None]
    others = support.copy()
    others[selected] = 0.0
    total = others.sum(axis=1, keepdims=True)
    share = np.divide(1 - of_selected, total, out=np.zeros_like(total), where=total > 0)
    states = np.minimum(others * share, np.nextafter(of_selected, 0.0))
    states[selected] = of_selected[question, 0]
    states[:, -1] = np.maximum(1 - states[:, :-1].sum(axis=1), 0.0)
    return np.asarray(states)


def summary(selection: Selection, final: Recalibration, interval_level: float) -> Columns:
    """Return the columns of a prediction."""
    confidence = final.of_selected(selection.support)
    mean = confidence.mean(axis=0)
    columns = {"candidate": selection.candidate, "confidence": mean}
    if len(confidence) > 1:
        tails = [(1 - interval_level) / 2, (1 + interval_level) / 2]
        low, high = np.quantile(confidence, tails, axis=0)
        columns |= {
            "confidence_low": low,
            "confidence_high": high,
            "change_probability": selection.change_probability,
        }
    return columns | {
        "support": selection.support.mean(axis=0),
        "null_probability": final_distribution(selection.mean_support, selection.candidate, mean)[:, -1],
        "tied": selection.tied,
    }
