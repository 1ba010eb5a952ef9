"""The equations of the presets (:mod:`bayes_direag.model.models`) once more, in NumPy: what programs are held against.

The axes are ``problem``, ``level`` and ``candidate``. A ``state`` is a candidate or, in the last place, the null. A
question has at most one candidate a level, so there are ``level + 1`` states; those that a question lacks have
probability 0.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayes_direag.fits.container import signal_names
from bayes_direag.model.logits import clipped_logit
from bayes_direag.model.states import States, in_threads

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: Most numbers in one array of a piece: small enough to stay in a core's own cache.
_PIECE_CELLS = 1 << 16
_LARGEST = math.log(np.finfo(float).max) - 1


def logit_signals(signals: Sequence[Float[np.ndarray, "*shape"]], eps: float) -> Float[np.ndarray, "*shape_and_signal"]:
    """Return the clipped logits of signals, 0 where one is missing; a single signal has no axis of its own."""
    logits = clipped_logit(np.nan_to_num(np.stack(signals, axis=-1), nan=0.5), eps)
    return logits if len(signals) > 1 else logits[..., 0]


class Parameters(NamedTuple):
    """The model's natural parameters, for every posterior draw; None for one that has no effect.

    Attributes
    ----------
    weight : (sample, level) array, >= 0
        How much a level's reports count.
    prior_strength : (sample,) array, > 0
        Concentration (eta) that a question's candidates and the null share evenly before any report.
    null_base : (sample,) array, >= 0
        Concentration (beta_0) of the null, in addition to its share of the prior.
    null_gain : (sample,) array
        Factor of the complements' evidence for the null (gamma).
    bias : (sample, level) array or None
        Shift of a level's confidences on the logit scale. None: every report counts in full.
    slope : (sample, level, signal) array or None
        Factor of the stated confidence, or of each signal, on the logit scale. None: confidences are not used.
    sharpness : (sample,) array or None, > 0
        Power to which the concentrations are raised. None: 1.
    vote : (sample, level) array or None
        What a report adds to the log odds of its answer, at any confidence. None: 0.
    vote_slope : (sample, level, signal) array or None
        What it adds for each unit of the logit of its confidence, or of each signal. None: 0.
    label : (sample, answer) array or None
        What is added to the log odds of an answer that is this label. None: 0.
    """

    weight: Float[Any, "sample level"]
    prior_strength: Float[Any, " sample"]
    null_base: Float[Any, " sample"]
    null_gain: Float[Any, " sample"]
    bias: Float[Any, "sample level"] | None = None
    slope: Float[Any, "sample level signal"] | None = None
    sharpness: Float[Any, " sample"] | None = None
    vote: Float[Any, "sample level"] | None = None
    vote_slope: Float[Any, "sample level signal"] | None = None
    label: Float[Any, "sample answer"] | None = None

    @classmethod
    def of_sites(
        cls,
        sites: Mapping[str, Float[Any, "sample ..."]],
        dims: Mapping[str, Sequence[str]],
        n_signals: int,
    ) -> "Parameters":
        """Take the natural parameters from a model's sites, whose axes after the first have these names.

        What has one value for all levels or signals is repeated, and what a model lacks has its neutral value.
        """
        weight = np.asarray(sites["weight"])
        shape = {"level": weight.shape[1], "signal": n_signals}
        axes = dict.fromkeys(("bias", "vote"), ("level",)) | dict.fromkeys(("slope", "vote_slope"), ("level", "signal"))
        parameters: dict[str, np.ndarray] = {}
        for name in cls._fields:
            if name not in sites:
                continue
            values = np.asarray(sites[name])
            if name in axes:
                kept = [dim for dim in axes[name] if dim in dims[name]]
                values = np.moveaxis(values, [1 + list(dims[name]).index(dim) for dim in kept], range(1, 1 + len(kept)))
                places = tuple(slice(None) if dim in kept else None for dim in axes[name])
                values = np.broadcast_to(values[:, *places], (len(values), *(shape[dim] for dim in axes[name])))
            parameters[name] = values
        neutral = {"prior_strength": 1.0, "null_base": 0.0, "null_gain": 1.0}
        return cls(**{name: np.full(len(weight), value) for name, value in neutral.items()} | parameters)

    @property
    def has_votes(self) -> bool:
        """Whether reports add to the log odds of their answers."""
        return not (self.vote is None and self.vote_slope is None)

    def of_slots(self, slots: Sequence[int] | None) -> "Parameters":
        """Repeat the parameters of each level for every column of reports that belongs to it; None: one column each."""
        if slots is None:
            return self
        by_level = {name: getattr(self, name) for name in ("weight", "bias", "slope", "vote", "vote_slope")}
        return self._replace(**{name: value[:, list(slots)] for name, value in by_level.items() if value is not None})


class Reports(NamedTuple):
    """What each level reported on each question.

    Attributes
    ----------
    logit_confidence : (problem, level) or (problem, level, signal) array
        Stated confidences, clipped to ``[eps, 1 - eps]``, on the logit scale. 0 (an even chance) where a report does
        not state one; any finite number where there is no usable report.
    candidate : (problem, level) array
        Index of the reported answer among the question's own candidates; -1 where there is no usable report.
    n_candidates : (problem,) array
        Number of distinct answers, K.
    label : (problem, level) array
        Index of the reported answer among the labels; -1 for any other answer, and where there is no usable report.
    """

    logit_confidence: Float[Any, "problem level *signal"]
    candidate: Int[Any, "problem level"]
    n_candidates: Int[Any, " problem"]
    label: Int[Any, "problem level"]

    @classmethod
    def of(cls, observations: "Observations", eps: float, labels: Sequence[str] = ()) -> "Reports":
        """Take the model's arrays from observations."""
        return cls(
            logit_signals([*observations.signals.values()], eps),
            observations.candidate,
            observations.n_candidates,
            observations.label(labels) if labels else np.full(observations.shape, -1),
        )

    def select(self, index: Int[np.ndarray, " selected"] | slice) -> "Reports":
        """Return some of the questions."""
        return Reports(*(array[index] for array in self))


class Contribution(NamedTuple):
    """What reports add to the states of their questions."""

    #: Concentration added to the report's answer.
    given: Float[np.ndarray, "report sample"]
    #: Concentration added to the null.
    doubt: Float[np.ndarray, "report sample"]
    #: What is added to the log odds of its answer; None without votes.
    vote: Float[np.ndarray, "report sample"] | None


def odds_against(
    logit_confidence: Float[np.ndarray, " report *signal"], level: Int[np.ndarray, " report"], parameters: Parameters
) -> Float[np.ndarray, "report sample"]:
    """Return the odds against each report after calibration, ``(1 - q~) / q~``; 0 without a bias."""
    if parameters.bias is None:
        return np.zeros((len(level), len(parameters.weight)))
    score = parameters.bias.T[level]
    if parameters.slope is not None:
        score = score + _over_signals(logit_confidence, level, parameters.slope)
    return np.asarray(np.exp(np.minimum(-score, _LARGEST)))


def contribution(
    logit_confidence: Float[np.ndarray, " report *signal"],
    level: Int[np.ndarray, " report"],
    parameters: Parameters,
) -> Contribution:
    """Return what each report adds to the states of its question in every sample."""
    odds = odds_against(logit_confidence, level, parameters)
    given = parameters.weight.T[level] / (1 + odds)
    doubt = parameters.null_gain * (given * odds)
    if not parameters.has_votes:
        return Contribution(given, doubt, None)
    vote = np.zeros_like(given) if parameters.vote is None else parameters.vote.T[level]
    if parameters.vote_slope is not None:
        vote = vote + _over_signals(logit_confidence, level, parameters.vote_slope)
    return Contribution(given, doubt, vote)


def _over_signals(
    logits: Float[np.ndarray, " report *signal"],
    level: Int[np.ndarray, " report"],
    slope: Float[np.ndarray, "sample level signal"],
) -> Float[np.ndarray, "report sample"]:
    """Return the sum over signals of slope times logit."""
    by_signal = logits.reshape(-1, slope.shape[2])
    total = np.zeros((len(level), len(slope)))
    for number in range(slope.shape[2]):
        total += by_signal[:, number, None] * slope[:, :, number].T[level]
    return total


@dataclass(frozen=True, eq=False)
class Equations:
    """Questions that the equations evaluate: see :class:`~bayes_direag.model.states.Evaluation`."""

    reports: Reports
    parameters: Parameters

    def each[Result](self, then: Callable[[States], Result]) -> Iterator[Result]:
        """Evaluate the questions in every draw, piece by piece; yield ``then`` of each piece, in order."""
        size = max(_PIECE_CELLS // len(self.parameters.weight), 1)
        firsts = range(0, max(len(self.reports.candidate), 1), size)
        yield from in_threads(lambda first: then(self._states(slice(first, first + size))), firsts)

    def _states(self, piece: slice) -> States:
        reports, parameters = self.reports.select(piece), self.parameters
        n, question = len(reports.candidate), np.arange(len(reports.candidate))
        exists = np.zeros((max(reports.n_candidates.max(initial=0), 1) + 1, n), bool)
        exists[reports.candidate, question[:, None]] = True
        exists[-1] = True  # the null, and what is no candidate
        n_candidates = exists.sum(axis=0) - 1
        concentration = np.repeat((parameters.prior_strength / (n_candidates[:, None] + 1))[None], len(exists), axis=0)
        log_odds = np.zeros_like(concentration[:-1])
        concentration[-1] += parameters.null_base
        for level, candidate in enumerate(reports.candidate.T):
            usable, levels = candidate >= 0, np.full(n, level)
            added = contribution(reports.logit_confidence[:, level], levels, parameters)
            concentration[candidate[usable], question[usable]] += added.given[usable]
            concentration[-1] += np.where(usable[:, None], added.doubt, 0.0)
            if added.vote is not None:
                log_odds[candidate[usable], question[usable]] += added.vote[usable]
        if parameters.label is not None:
            label = np.full(exists.shape, -1)
            label[reports.candidate, question[:, None]] = reports.label  # no report is of the null's row
            log_odds += np.pad(parameters.label, ((0, 0), (0, 1))).T[label[:-1]]  # the last, of index -1, is 0
        with np.errstate(divide="ignore"):
            support = np.log(np.where(exists[..., None], concentration, 0.0))
        if parameters.sharpness is not None:
            support *= parameters.sharpness
        support[:-1] += log_odds
        support = np.exp(support - support.max(axis=0))
        n_reports = (reports.candidate >= 0).sum(axis=1)
        return States(slice(piece.start, piece.start + n), n_candidates, n_reports, support / support.sum(axis=0))


def sampled_parameters(tree: Any) -> Parameters:
    """Return the natural parameters of all draws with a leading ``sample`` axis, one chain after the other."""
    posterior = tree["posterior"].to_dataset()
    draws = {name: posterior[name].transpose("chain", "draw", ...) for name in Parameters._fields if name in posterior}
    values = {name: each.to_numpy().reshape(-1, *each.shape[2:]) for name, each in draws.items()}
    dims = {name: tuple(map(str, each.dims[2:])) for name, each in draws.items()}
    return Parameters.of_sites(values, dims, len(signal_names(tree)))
