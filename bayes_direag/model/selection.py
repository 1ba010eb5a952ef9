"""The forward evaluation, in NumPy: the probability of every state, the selected answer, and its final probability.

The equations are those of :mod:`bayes_direag.model.models`, for every draw of a posterior. What a report counts
depends only on its level and its signals; it is computed once for each combination that occurs, and looked up.
Questions are evaluated in pieces of bounded memory; results do not depend on the pieces.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from bayes_direag.errors import DirEAGError
from bayes_direag.model.equations import Parameters, Reports, clipped_logit

if TYPE_CHECKING:
    import xarray

_TABLE_CELLS = 1 << 23
_PIECE_CELLS = 1 << 16  # small enough to stay in a core's own cache
_LARGEST = math.log(np.finfo(float).max) - 1


#: The coefficients of a final calibration that leaves support as it is; ``share`` is of partial fits alone.
IDENTITY = {"intercept": 0.0, "slope": 1.0, "share": 0.0}


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A final calibration on the logit scale, ``sigmoid(intercept + slope * logit(support))``, for every draw.

    A partial fit adds ``share * log_share`` before the sigmoid: see :func:`log_share`.
    """

    METHODS: ClassVar[tuple[str, ...]] = ("platt", "release", "none")

    method: str
    #: ``intercept`` and ``slope``; of a partial fit also ``share``.
    coefficients: dict[str, Float[np.ndarray, "chain draw"]]
    eps: float
    #: Most usable reports of any fitted question; ``share`` is relative to it.
    most_reports: int = 1

    @classmethod
    def identity(cls, shape: tuple[int, int], eps: float) -> "Recalibration":
        """Return the calibration that leaves support as it is, for this number of chains and draws."""
        return cls("none", {"intercept": np.zeros(shape), "slope": np.ones(shape)}, eps)

    def of_selected(
        self, support: Float[np.ndarray, "#sample problem"], n_reports: Int[np.ndarray, " problem"] | None = None
    ) -> Float[np.ndarray, "sample problem"]:
        """Return the final probability of selected answers in every draw; one row of support may serve all draws.

        ``n_reports`` is the number of usable reports of each question; by default the most.
        """
        if self.method == "none":
            return support
        coefficients = {name: values.reshape(-1, 1) for name, values in self.coefficients.items()}
        score = coefficients["intercept"] + coefficients["slope"] * clipped_logit(support, self.eps)
        if "share" in coefficients and n_reports is not None:
            score = score + coefficients["share"] * log_share(n_reports, self.most_reports)
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-score)))

    def to_dataset(self) -> "xarray.Dataset":
        """Return the coefficients as a dataset, by chain and draw."""
        import xarray as xr

        variables = {name: (("chain", "draw"), values) for name, values in self.coefficients.items()}
        return xr.Dataset(variables, attrs={"method": self.method, "eps": self.eps, "most_reports": self.most_reports})


def log_share(n_reports: Int[np.ndarray, " problem"], most_reports: int) -> Float[np.ndarray, " problem"]:
    """Return the log of the share of the reports that a question has; 0 for more than the most, and for none."""
    share = np.minimum(n_reports / most_reports, 1.0)
    return np.asarray(np.log(np.where(n_reports > 0, share, 1.0)))


class States(NamedTuple):
    """The states of some questions."""

    #: Which of the evaluated questions they are.
    place: slice
    n_candidates: Int[np.ndarray, " problem"]
    #: Usable reports.
    n_reports: Int[np.ndarray, " problem"]
    #: The evidence alpha for every state, the null last; 0 for states that a question lacks.
    concentration: Float[np.ndarray, "state problem sample"]
    #: The probability P of every state, likewise.
    support: Float[np.ndarray, "state problem sample"]


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


class Worth(NamedTuple):
    """What reports add to the states of their questions."""

    #: Concentration added to the report's answer.
    given: Float[np.ndarray, "report sample"]
    #: Concentration added to the null.
    doubt: Float[np.ndarray, "report sample"]
    #: What is added to the log odds of its answer; None without votes.
    vote: Float[np.ndarray, "report sample"] | None


def odds_against(
    logit_confidence: Float[np.ndarray, "report *signal"], level: Int[np.ndarray, " report"], parameters: Parameters
) -> Float[np.ndarray, "report sample"]:
    """Return the odds against each report after calibration, ``(1 - q~) / q~``; 0 without a bias."""
    if parameters.bias is None:
        return np.zeros((len(level), len(parameters.weight)))
    score = parameters.bias.T[level]
    if parameters.slope is not None:
        score = score + _over_signals(logit_confidence, level, parameters.slope)
    return np.asarray(np.exp(np.minimum(-score, _LARGEST)))


def worth(
    logit_confidence: Float[np.ndarray, "report *signal"],
    level: Int[np.ndarray, " report"],
    parameters: Parameters,
) -> Worth:
    """Return what each report adds to the states of its question in every sample."""
    odds = odds_against(logit_confidence, level, parameters)
    given = parameters.weight.T[level] / (1 + odds)
    doubt = parameters.null_gain * (given * odds)
    if not parameters.has_votes:
        return Worth(given, doubt, None)
    vote = np.zeros_like(given) if parameters.vote is None else parameters.vote.T[level]
    if parameters.vote_slope is not None:
        vote = vote + _over_signals(logit_confidence, level, parameters.vote_slope)
    return Worth(given, doubt, vote)


def _over_signals(
    logits: Float[np.ndarray, "report *signal"],
    level: Int[np.ndarray, " report"],
    slope: Float[np.ndarray, "sample level signal"],
) -> Float[np.ndarray, "report sample"]:
    """Return the sum over signals of slope times logit."""
    by_signal = logits.reshape(-1, slope.shape[2])
    total = np.zeros((len(level), len(slope)))
    for number in range(slope.shape[2]):
        total += by_signal[:, number, None] * slope[:, :, number].T[level]
    return total


def evaluate_samples[Result](
    reports: Reports, parameters: Parameters, then: Callable[[States], Result]
) -> Iterator[Result]:
    """Evaluate questions in every sample, piece by piece, on all cores; yield ``then`` of each piece, in order."""
    size = max(_PIECE_CELLS // len(parameters.weight), 1)

    def result(block: _Block, first: int) -> Result:
        return then(_states(block, slice(first, first + size), parameters))

    for block in _blocks(reports, parameters):
        firsts = range(0, max(len(block.kind), 1), size)
        if len(firsts) == 1:
            yield result(block, 0)
        else:
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                yield from threads.map(partial(result, block), firsts)


class _Block(NamedTuple):
    """Some of the questions, with what reports of each distinct kind add to the states."""

    #: The number of the first question.
    start: int
    reports: Reports
    #: The kind of each report.
    kind: Int[np.ndarray, "problem level"]
    #: What a report of each kind adds.
    worth: Worth


def _blocks(reports: Reports, parameters: Parameters) -> Iterator[_Block]:
    """Yield the questions in as few blocks as bounded memory allows."""
    kinds = _kinds(reports)
    n, n_levels = kinds.shape
    n_samples = len(parameters.weight)
    all_fit = (kinds.max(initial=0) + 1) * n_samples <= _TABLE_CELLS
    size = max(n if all_fit else _TABLE_CELLS // (n_levels * n_samples), 1)
    for start in range(0, max(n, 1), size):
        block = reports.select(slice(start, start + size))
        _, first, kind = np.unique(kinds[start : start + size], return_index=True, return_inverse=True)
        question, level = np.unravel_index(first, kind.shape)
        worths = worth(block.logit_confidence[question, level], level, parameters)
        for part in worths:
            if part is not None:
                part[block.candidate[question, level] < 0] = 0.0
        yield _Block(start, block, kind, worths)


def _kinds(reports: Reports) -> Int[np.ndarray, "problem level"]:
    """Return a number for each level and signals of a report; all that are not usable share one.

    With few questions hardly any are alike, so each report has its own number, and a service needs no pandas.
    """
    usable = reports.candidate >= 0
    n, n_levels = usable.shape
    if n <= max(n_levels, 1):
        return np.arange(usable.size).reshape(n, n_levels)
    import pandas as pd

    kind = np.where(usable, np.arange(n_levels), n_levels)
    for column in reports.by_signal:
        number, values = pd.factorize(np.where(usable, column, 0).ravel())
        kind = pd.factorize(kind.ravel() * len(values) + number)[0].reshape(n, n_levels)
    return kind


def _states(block: _Block, piece: slice, parameters: Parameters) -> States:
    candidate, kind, worths = block.reports.candidate[piece], block.kind[piece], block.worth
    question, (n, n_levels) = np.arange(len(candidate)), candidate.shape
    named = np.zeros((max(block.reports.n_candidates[piece].max(initial=0), 1) + 1, n), bool)
    named[candidate, question[:, None]] = True
    named[-1] = True  # the null, and what is no candidate
    n_candidates = named.sum(axis=0) - 1
    share = parameters.prior_strength / (n_candidates[:, None] + 1)
    concentration = np.repeat(share[None], len(named), axis=0)
    candidates, null = concentration[:-1], concentration[-1]
    null += parameters.null_base
    for level in range(n_levels):  # no report is of candidate -1, and adds 0
        candidates[candidate[:, level], question] += worths.given[kind[:, level]]
        null += worths.doubt[kind[:, level]]
    concentration[~named] = 0.0
    if parameters.is_additive:
        support = concentration.copy()
    else:
        with np.errstate(divide="ignore"):
            support = np.log(concentration)
        if parameters.sharpness is not None:
            support *= parameters.sharpness
        if worths.vote is not None:
            for level in range(n_levels):
                support[:-1][candidate[:, level], question] += worths.vote[kind[:, level]]
        if parameters.label is not None:
            label = np.full(named.shape, -1)
            label[candidate, question[:, None]] = block.reports.label[piece]  # no report is of the null's row
            support[:-1] += np.pad(parameters.label, ((0, 0), (0, 1))).T[label[:-1]]  # the last, of index -1, is 0
        support -= support.max(axis=0)
        np.exp(support, out=support)
    support /= support.sum(axis=0)
    start = block.start + piece.start
    n_reports = (candidate >= 0).sum(axis=1)
    return States(slice(start, start + n), n_candidates, n_reports, concentration, support)


def supports(reports: Reports, parameters: Parameters) -> Float[np.ndarray, "sample problem state"]:
    """Return the probability of every state in every sample, the null last: see :class:`States`."""
    return joined(evaluate_samples(reports, parameters, lambda states: states.support.T))


def distribution(
    reports: Reports, parameters: Parameters, final: Recalibration | None = None
) -> Float[np.ndarray, "problem state"]:
    """Return the final probability of every state, the null last; without ``final``, the mean support."""

    def of_piece(states: States) -> Float[np.ndarray, "problem state"]:
        if final is None:
            return states.support.mean(axis=2).T
        selection = select(states)
        probability = final.of_selected(selection.support, states.n_reports).mean(axis=0)
        return final_distribution(selection.mean_support, selection.candidate, probability)

    return joined(evaluate_samples(reports, parameters, of_piece))


def joined(parts: Iterable[Float[np.ndarray, "..."]]) -> Float[np.ndarray, "*sample problem state"]:
    """Join the questions of several pieces; a piece with fewer states gets more of probability 0, before the null."""
    pieces = list(parts)
    most = max(piece.shape[-1] for piece in pieces)
    wide = [np.insert(piece, [-1] * (most - piece.shape[-1]), 0.0, axis=-1) for piece in pieces]
    return np.concatenate(wide, axis=-2)


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


def tails(interval_level: float) -> tuple[float, float]:
    """Return the quantiles that an interval ends at; raise DirEAGError if its level is out of range."""
    if not 0 < interval_level < 1:
        raise DirEAGError(f"interval level {interval_level}: expected a probability between 0 and 1, such as 0.9.")
    return (1 - interval_level) / 2, (1 + interval_level) / 2


def predict(
    reports: Reports, parameters: Parameters, final: Recalibration, interval_level: float
) -> dict[str, Shaped[np.ndarray, " problem"]]:
    """Return the computed columns of :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>`, and ``candidate``.

    Raises DirEAGError if ``interval_level`` is out of range.
    """
    ends = tails(interval_level)

    def of_piece(states: States) -> dict[str, Shaped[np.ndarray, " problem"]]:
        selection = select(states)
        confidence = final.of_selected(selection.support, states.n_reports)
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

    order = np.argsort(reports.n_candidates, kind="stable")  # a piece has as many states as its largest question
    parts = list(evaluate_samples(reports.select(order), parameters, of_piece))
    return {name: np.concatenate([part[name] for part in parts])[np.argsort(order)] for name in parts[0]}
