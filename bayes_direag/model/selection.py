r"""Which answer a question gets, and how probably it is right, over the draws of a posterior; on NumPy arrays alone.

The equations are those of :mod:`bayes_direag.model.evidence`, here without JAX: many draws of few questions are sooner
done so, and what answers questions as a service needs no more than this. The tests hold them against those.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    import xarray

#: Natural parameters by name, those that the model has, each with a leading sample axis.
type Samples = Mapping[str, Float[np.ndarray, "sample ..."]]

#: Columns by name, each as long as there are questions.
Columns = dict[str, Shaped[np.ndarray, " problem"]]

_VOTES = frozenset({"vote", "label_vote", "vote_slope"})
_LARGEST = math.log(np.finfo(float).max) - 1


def clipped_logit(probability: Float[np.ndarray, "*shape"], eps: float) -> Float[np.ndarray, "*shape"]:
    """Clip probabilities to ``[eps, 1 - eps]`` and return their logits; NaN stays."""
    clipped = np.clip(probability, eps, 1 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))  # several times as fast as scipy's logit


def logit_signals(signals: Sequence[Float[np.ndarray, "*shape"]], eps: float) -> Float[np.ndarray, "*shape_and_signal"]:
    """Return the clipped logits of some signals, 0 where one is missing; those of a single one without an axis."""
    logits = clipped_logit(np.nan_to_num(np.stack(signals, axis=-1), nan=0.5), eps)
    return logits if len(signals) > 1 else logits[..., 0]


@dataclass(frozen=True, eq=False)
class LogisticRecalibration:
    """An intercept and a slope of the logit of support, for every posterior draw.

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
        """Leave support as it is, for so many chains and draws."""
        return cls("none", {"intercept": np.zeros(shape), "slope": np.ones(shape)}, eps)

    def of_selected(self, support: Float[np.ndarray, "#sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of selected answers in every draw, from their support there, or one for all."""
        if self.method == "none":
            return support
        intercept, slope = (self.coefficients[name].reshape(-1, 1) for name in ("intercept", "slope"))
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-intercept - slope * clipped_logit(support, self.eps))))

    def to_dataset(self) -> "xarray.Dataset":
        """Return the coefficients by chain and draw."""
        import xarray as xr

        variables = {name: (("chain", "draw"), values) for name, values in self.coefficients.items()}
        return xr.Dataset(variables, attrs={"method": self.method, "eps": self.eps})


@dataclass(frozen=True, eq=False)
class IsotonicRecalibration:
    """The monotone function of isotonic regression: linear between its knots, constant beyond."""

    support: Float[np.ndarray, " knot"]
    probability: Float[np.ndarray, " knot"]
    method: str = "isotonic"

    def of_selected(self, support: Float[np.ndarray, "#sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of selected answers, from their support."""
        return np.asarray(np.interp(support, self.support, self.probability))

    def to_dataset(self) -> "xarray.Dataset":
        """Return the knots."""
        import xarray as xr

        variables = {"support": ("knot", self.support), "probability": ("knot", self.probability)}
        return xr.Dataset(variables, attrs={"method": self.method})


#: A map from the support of the selected answer to its probability, one for each posterior draw.
Recalibration = LogisticRecalibration | IsotonicRecalibration


class Selection(NamedTuple):
    """The selected answers of some questions.

    Attributes
    ----------
    candidate : (problem,) array
        The candidate of greatest mean support over the samples; -1 for a question without candidates. Ties go to
        the one whose canonical answer comes first in string order, which is the order of the candidates.
    support : (sample, problem) array
        Its support in every sample; NaN without candidates.
    mean_support : (problem, state) array
        Mean support of every state, the null last; 0 for one that a question does not have.
    change_probability : (problem,) array
        Share of the samples in which another candidate has more support; NaN without candidates.
    tied : (problem,) array
        Whether another candidate has as much support, in the mean or in a sample, so that their order matters.
    """

    candidate: Int[np.ndarray, " problem"]
    support: Float[np.ndarray, "sample problem"]
    mean_support: Float[np.ndarray, "problem state"]
    change_probability: Float[np.ndarray, " problem"]
    tied: Bool[np.ndarray, " problem"]


class Table(NamedTuple):
    """What reports count.

    Attributes
    ----------
    given : (entry, sample) array
        Concentration that a report gives its answer; the last entry is that of no report, 0.
    doubt : (entry, sample) array
        Concentration that it gives the null for what it lacks of certainty.
    vote : (entry, sample) array or None
        What it adds to the log odds of its answer; None without votes.
    entry : (problem, level) array
        Which entry is that of each report.
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
    """Return what each report gives its answer, what the null, and its vote, in every sample."""
    weight = np.asarray(samples["weight"].T[level])

    def times(slope: Float[np.ndarray, "sample *signal"]) -> Float[np.ndarray, "report sample"]:
        n_signals = slope[0].size
        return np.asarray(logit_confidence.reshape(-1, n_signals) @ slope.reshape(-1, n_signals).T)

    vote = None
    if samples.keys() & _VOTES:
        vote = np.asarray(samples["vote"].T[level]) if "vote" in samples else np.zeros_like(weight)
        if "label_vote" in samples:
            besides = np.pad(samples["label_vote"], ((0, 0), (0, 0), (0, 1)))  # the last, or number -1, is no label
            vote = vote + besides[:, level, label].T
        if "vote_slope" in samples:
            vote = vote + times(samples["vote_slope"])
    if "bias" not in samples:
        return weight, np.zeros_like(weight), vote
    score = samples["bias"].T[level]
    if "slope" in samples:
        score = score + times(samples["slope"])
    odds_against = np.exp(np.minimum(-score, _LARGEST))
    given = weight / (1 + odds_against)
    return given, samples.get("null_gain", np.zeros(1)) * (given * odds_against), vote


def select(
    candidate: Int[np.ndarray, "problem level"],
    n_candidates: Int[np.ndarray, " problem"],
    table: Table,
    samples: Samples,
) -> Selection:
    """Select one answer a question from what its reports count: the one of greatest mean support."""
    entry = table.entry
    n, n_levels = candidate.shape
    question = np.arange(n)
    share = samples["prior_strength"] / (n_candidates[:, None] + 1)
    states = np.repeat(share[None], max(n_candidates.max(initial=0), 1) + 1, axis=0)
    alpha, null = states[:-1], states[-1]
    null += samples["null_base"]
    for level in range(n_levels):
        alpha[candidate[:, level], question] += table.given[entry[:, level]]  # without a report, nothing to the last
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
    mine = states[best, question]
    changes, tied = np.zeros(mine.shape, bool), (mean[:-1] == mean[best, question]).sum(axis=0) > 1
    for other, reached in enumerate(alpha if len(alpha) > 1 else ()):
        same = reached == mine
        changes |= (reached > mine) | (same & (other < best)[:, None])
        tied |= (other != best) & same.any(axis=1)
    some = n_candidates > 0
    mine[~some] = np.nan
    return Selection(
        np.where(some, best, -1), mine.T, mean.T, np.where(some, changes.mean(axis=1), np.nan), some & tied
    )


def final_distribution(
    support: Float[np.ndarray, "problem state"],
    candidate: Int[np.ndarray, " problem"],
    probability: Float[np.ndarray, " problem"],
) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, the null last; those of a question sum to 1.

    What the selected answer leaves is divided among the other states by their support. No other candidate gets as much
    as the selected answer: what is above that is the null's, as is all of a question without candidates.

    Parameters
    ----------
    support
        Mean support of every state.
    candidate, probability
        The selected candidate and its final probability; -1 and NaN without candidates.
    """
    question = np.flatnonzero(candidate >= 0)
    selected = question, candidate[question]
    own = np.where(candidate >= 0, probability, 0.0)[:, None]
    others = support.copy()
    others[selected] = 0.0
    total = others.sum(axis=1, keepdims=True)
    share = np.divide(1 - own, total, out=np.zeros_like(total), where=total > 0)
    states = np.minimum(others * share, np.nextafter(own, 0.0))
    states[selected] = own[question, 0]
    states[:, -1] = np.maximum(1 - states[:, :-1].sum(axis=1), 0.0)
    return np.asarray(states)


def summary(selection: Selection, final: Recalibration, interval_level: float) -> Columns:
    """Return what a prediction says of selected answers, by name."""
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
