"""The arguments of the equations of :mod:`bayes_direag.model.models`: what was reported, and the natural parameters.

The axes are ``problem``, ``level`` and ``candidate``. A ``state`` is a candidate or, in the last place, the null. A
question has at most one candidate a level, so there are ``level + 1`` states; those that a question lacks have
concentration 0.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations


def clipped_logit(probability: Float[np.ndarray, "*shape"], eps: float) -> Float[np.ndarray, "*shape"]:
    """Clip probabilities to ``[eps, 1 - eps]`` and return their logits; NaN stays."""
    clipped = np.clip(probability, eps, 1 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))  # several times as fast as scipy's logit


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
        found: dict[str, np.ndarray] = {}
        for name in cls._fields:
            if name not in sites:
                continue
            values = np.asarray(sites[name])
            if name in axes:
                own = [dim for dim in axes[name] if dim in dims[name]]
                values = np.moveaxis(values, [1 + list(dims[name]).index(dim) for dim in own], range(1, 1 + len(own)))
                places = tuple(slice(None) if dim in own else None for dim in axes[name])
                values = np.broadcast_to(values[:, *places], (len(values), *(shape[dim] for dim in axes[name])))
            found[name] = values
        neutral = {"prior_strength": 1.0, "null_base": 0.0, "null_gain": 1.0}
        return cls(**{name: np.full(len(weight), value) for name, value in neutral.items()} | found)

    @property
    def is_additive(self) -> bool:
        """Whether support is a share of the evidence, as in the paper: no sharpness, no votes, no prior over labels."""
        return self.sharpness is None and not self.has_votes and self.label is None

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

    @property
    def by_signal(self) -> Float[Any, "signal problem level"]:
        """The logits of each signal."""
        logits = self.logit_confidence
        return logits[None] if logits.ndim == 2 else np.moveaxis(logits, 2, 0)

    def select(self, index: Int[np.ndarray, " selected"] | slice) -> "Reports":
        """Return some of the questions."""
        return Reports(*(array[index] for array in self))
