r"""The evidence equations, and their arguments: what was reported, and the natural parameters.

Every report of a question passes through its level's calibration curve. The calibrated confidence is evidence for the
report's answer, and its complement is evidence for the *null state* "no candidate is right":

.. math::

    \tilde q_{il} &= \operatorname{sigmoid}(b_l + s \operatorname{logit} q_{il}) \\
    \alpha_i(a) &= \frac{\eta}{K_i + 1} + \sum_{l: a_{il} = a} w_l \tilde q_{il} \\
    \alpha_i(\varnothing) &= \frac{\eta}{K_i + 1} + \beta_0 + \gamma \sum_l w_l (1 - \tilde q_{il}) \\
    P_i &= \alpha_i / \textstyle\sum \alpha_i

That is the paper. Evidence adds up, so support is close to a share of the votes: six of ten agreeing reports cannot
give much more than 0.6. Beyond the paper, evidence may be sharpened, and votes may multiply:

.. math::

    P_i(a) &\propto \alpha_i(a)^{\kappa} \exp \sum_{l: a_{il} = a} (v_l + t_{l a} + u \operatorname{logit} q_{il}) \\
    P_i(\varnothing) &\propto \alpha_i(\varnothing)^{\kappa}

with sharpness :math:`\kappa`, votes :math:`v_l`, votes by label :math:`t_{la}`, and vote slope :math:`u`;
:math:`\kappa = 1`, :math:`v = t = u = 0` is the paper. Votes by label are for answers like yes and no, which mean the
same in all questions: from a judge who nearly always says yes, a no is stronger evidence.

The axes are ``problem``, ``level`` and ``candidate``. A ``state`` is a candidate or, in the last place, the null. A
question has at most one candidate a level, so there are ``level + 1`` states; those that a question lacks have
concentration 0.

:mod:`bayes_direag.model.evidence` has them in JAX, for what is differentiated or drawn inside NumPyro;
:mod:`bayes_direag.model.selection` in NumPy, for everything forward, also in a service without JAX.
"""

from collections.abc import Sequence
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
    """The model's natural parameters; None for one that a variant or preset does not have.

    Attributes
    ----------
    weight : (level,) array, >= 0
        How much a level's reports count.
    prior_strength : () array, > 0
        Concentration (eta) that a question's candidates and the null share evenly before any report.
    null_base : () array, >= 0
        Concentration (beta_0) of the null, in addition to its share of the prior.
    bias : (level,) array or None
        Shift of a level's confidences on the logit scale. None: every report counts in full.
    slope : () or (signal,) array or None
        Factor of the stated confidence, or of each signal, on the logit scale. None: confidences are not used.
    null_gain : () array or None
        Factor of the complements' evidence for the null (gamma). None: 0.
    sharpness : () array or None, > 0
        Power to which the concentrations are raised. None: 1.
    vote : (level,) array or None
        What a report adds to the log odds of its answer, at any confidence. None: 0.
    label_vote : (level, label) array or None
        What it adds if its answer is that label. None: 0.
    vote_slope : () or (signal,) array or None
        What it adds for each unit of the logit of its confidence, or of each signal. None: 0.
    """

    weight: Float[Any, "*sample level"]
    prior_strength: Float[Any, "*sample"]
    null_base: Float[Any, "*sample"]
    bias: Float[Any, "*sample level"] | None = None
    slope: Float[Any, "*sample_and_signal"] | None = None
    null_gain: Float[Any, "*sample"] | None = None
    sharpness: Float[Any, "*sample"] | None = None
    vote: Float[Any, "*sample level"] | None = None
    label_vote: Float[Any, "*sample level label"] | None = None
    vote_slope: Float[Any, "*sample_and_signal"] | None = None

    @property
    def is_additive(self) -> bool:
        """Whether support is a share of the evidence, as in the paper: no sharpness and no votes."""
        return self.sharpness is None and not self.has_votes

    @property
    def has_votes(self) -> bool:
        """Whether reports add to the log odds of their answers."""
        return not (self.vote is None and self.label_vote is None and self.vote_slope is None)

    def of_slots(self, slots: Sequence[int] | None) -> "Parameters":
        """Repeat the parameters of each level for every column of reports that belongs to it; None: one column each."""
        if slots is None:
            return self
        by_level = {"weight": self.weight, "bias": self.bias, "vote": self.vote}
        by_column = {name: value[..., list(slots)] for name, value in by_level.items() if value is not None}
        if self.label_vote is not None:
            by_column["label_vote"] = self.label_vote[..., list(slots), :]
        return self._replace(**by_column)


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
    label : (problem, level) array or None
        Index of the reported answer among the labels; -1 for any other answer, and where there is no usable report.
        None: the model has no votes by label.
    """

    logit_confidence: Float[Any, "problem level *signal"]
    candidate: Int[Any, "problem level"]
    n_candidates: Int[Any, " problem"]
    label: Int[Any, "problem level"] | None = None

    @classmethod
    def of(cls, observations: "Observations", eps: float, labels: Sequence[str] | None = None) -> "Reports":
        """Take the model's arrays from observations; ``labels`` are needed for votes by label only."""
        return cls(
            logit_signals([*observations.signals.values()], eps),
            observations.candidate,
            observations.n_candidates,
            None if labels is None else observations.label(labels),
        )

    @property
    def by_signal(self) -> Float[Any, "signal problem level"]:
        """The logits of each signal."""
        logits = self.logit_confidence
        return logits[None] if logits.ndim == 2 else np.moveaxis(logits, 2, 0)

    def select(self, index: Int[np.ndarray, " selected"] | slice) -> "Reports":
        """Return some of the questions."""
        return Reports(*(None if array is None else array[index] for array in self))

    def padded(self, size: int) -> "Reports":
        """Append questions without reports until there are ``size``."""
        missing = size - len(self.n_candidates)
        return Reports(
            np.pad(self.logit_confidence, [(0, missing), *[(0, 0)] * (np.ndim(self.logit_confidence) - 1)]),
            np.pad(self.candidate, ((0, missing), (0, 0)), constant_values=-1),
            np.pad(self.n_candidates, (0, missing)),
            None if self.label is None else np.pad(self.label, ((0, missing), (0, 0)), constant_values=-1),
        )
