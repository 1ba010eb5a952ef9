"""The data of a fit: reports, the observed state of each question, and how much each question counts."""

from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, not_observations
from bayes_direag.model import presets
from bayes_direag.model.equations import Reports
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.patterns import Patterns, by_first_mention, distinct_rows
from bayes_direag.model.settings import Preset, Variant

_ARRAYS = ("reports", "target", "merged", "weight", "agreement")


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class LikelihoodData:
    """The argument of :func:`bayes_direag.direag`: a pytree of arrays, with preset and variant as static parts.

    Attributes
    ----------
    reports : Reports
        What each level reported.
    target : (problem,) array or None
        The observed state: the index of the right candidate, or -1 (the null) if no candidate is right. None: the
        states are drawn.
    merged : (problem, level) array
        The candidates of the reports; if several candidates are right, they share the index in ``target``.
    weight : (problem,) array
        Weight of each question's log-likelihood; 0 leaves the question out.
    preset, variant
        Which parameters there are, and their priors.
    slots : tuple of int or None
        The level of each column of the reports, where levels are groups. None: each column is a level.
    n_labels : int
        Number of labels that the answers come from; 0 if the preset has no votes by label.
    n_signals : int
        Number of signals of a report.
    agreement : (learned level,) array or None
        Agreement of each level with the others (x of :mod:`bayes_direag.data.agreement`). None: 0 for all.

    Examples
    --------
    >>> from bayes_direag import LikelihoodData, simulate_observations
    >>> data = LikelihoodData.of(simulate_observations(n=30, seed=1), preset="bayes")
    >>> data.target.shape
    (30,)
    """

    reports: Reports
    target: Int[Array | np.ndarray, "*batch problem"] | None
    merged: Int[Array | np.ndarray, "*batch problem level"]
    weight: Float[Array | np.ndarray, "*batch problem"]
    preset: Preset
    variant: Variant
    slots: tuple[int, ...] | None = None
    n_labels: int = 0
    n_signals: int = 1
    agreement: Float[Array | np.ndarray, " learned"] | None = None

    @classmethod
    def of(
        cls, observations: Observations, *, preset: str | Preset = "bayes", variant: Variant = "confidence"
    ) -> "LikelihoodData":
        """Take the labelled, answered questions; of the others only the agreement of the levels counts.

        Raises
        ------
        DirEAGError
            As :func:`likelihood_weights`, for one if there is no such question.
        """
        if not isinstance(observations, Observations):
            raise not_observations("LikelihoodData.of", observations, "Observations")
        observations, settings, variant = fitted_to(observations, preset, variant)
        observations = learned_from(observations, settings)
        weight = likelihood_weights(np.ones((1, len(observations)), bool), observations, settings)[0]
        return cls.weighted(observations, weight, preset=settings, variant=variant)

    @classmethod
    def weighted(
        cls, observations: Observations, weight: Float[np.ndarray, " problem"], *, preset: Preset, variant: Variant
    ) -> "LikelihoodData":
        """Take all questions with these weights, which must be 0 for unlabelled questions."""
        labels = observations.labels if preset.label_vote else None
        reports = Reports.of(observations, preset.eps, labels)
        right = observations.correct_candidate
        target = np.where(right.any(axis=1), right.argmax(axis=1), -1)
        merged = np.where(observations.correct, target[:, None], reports.candidate)
        sizes = observations.slots, len(labels or ()), len(observations.signal_names)
        score = observations.agreement.score if preset.uses_agreement and observations.agreement else None
        return cls(reports, target, merged, weight, preset.model_settings, variant, *sizes, score)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arrays and the static parts."""
        static = tuple(getattr(self, field.name) for field in fields(self) if field.name not in _ARRAYS)
        return tuple(getattr(self, name) for name in _ARRAYS), static

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: tuple[Any, ...]) -> "LikelihoodData":
        """Build it without checks, since JAX puts other objects in the place of the arrays."""
        data = object.__new__(cls)
        names = (*_ARRAYS, *(field.name for field in fields(cls) if field.name not in _ARRAYS))
        for name, value in zip(names, (*arrays, *static), strict=True):
            object.__setattr__(data, name, value)
        return data

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return int(self.reports.candidate.shape[-1]) if self.slots is None else max(self.slots) + 1

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that determine the shapes of raw parameters: see :func:`~bayes_direag.model.settings.raw_shape`."""
        return {"n_levels": self.n_levels, "n_labels": self.n_labels, "n_signals": self.n_signals}

    @property
    def unlabelled(self) -> "LikelihoodData":
        """The same reports without states, for prior and posterior prediction; no candidates are merged."""
        return replace(self, target=None, merged=self.reports.candidate)

    def in_single_precision(self) -> "LikelihoodData":
        """Return the same data for work in single precision on each question; sums stay in double precision."""
        logits = np.asarray(self.reports.logit_confidence, np.float32)
        return replace(self, reports=self.reports._replace(logit_confidence=logits))

    def with_weight(self, weight: Float[Array | np.ndarray, "*batch problem"]) -> "LikelihoodData":
        """Return the same data with other weights."""
        return replace(self, weight=weight)

    def select(self, index: Int[np.ndarray, " selected"]) -> "LikelihoodData":
        """Return some of the questions."""
        selected: LikelihoodData = jax.tree.map(lambda array: array[index], replace(self, agreement=None))
        return replace(selected, agreement=self.agreement)

    def padded(self, size: int) -> "LikelihoodData":
        """Append questions without reports, of weight 0, until there are ``size``."""
        missing = size - len(self.weight)
        return replace(
            self,
            reports=self.reports.padded(size),
            target=None if self.target is None else np.pad(self.target, (0, missing), constant_values=-1),
            merged=np.pad(self.merged, ((0, missing), (0, 0)), constant_values=-1),
            weight=np.pad(self.weight, (0, missing)),
        )

    def patterns(self) -> Patterns:
        """Find questions that have the same likelihood under all parameters; weights are ignored.

        In such questions the same levels report, agree with each other, and are right; and they are equally confident
        if the model uses confidences.
        """
        usable = np.asarray(self.merged) >= 0
        right = usable & (self.merged == np.asarray(self.target)[:, None])
        columns = [*by_first_mention(np.asarray(self.reports.candidate)).T, *right.T]
        if self.reports.label is not None:
            columns += [*np.asarray(self.reports.label).T]
        if self.variant == "confidence":
            logits = np.asarray(self.reports.logit_confidence).reshape(*usable.shape, self.n_signals)
            columns += [
                *np.where(usable[..., None], logits, 0.0).reshape(len(usable), usable.shape[1] * self.n_signals).T
            ]
        return distinct_rows(columns)

    def counted(self) -> "LikelihoodData":
        """Merge equal questions into one with their total weight, and pad; the likelihood stays the same.

        Worth it for NUTS alone: panels that only vote repeat, and take it 4 to 10 s instead of 38 to 102.
        """
        member, pattern = self.patterns()
        total = np.zeros(len(member))
        np.add.at(total, pattern, self.weight)
        return self.select(member).with_weight(total).padded(padded_size(len(member), least=64, per_octave=8))


def fitted_to(
    observations: Observations, preset: str | Preset, variant: Variant
) -> tuple[Observations, Preset, Variant]:
    """Return the observations, preset and variant that a fit uses.

    Signals that preset or variant do not use are dropped. Variant ``confidence`` becomes ``level`` if no report states
    a confidence. The agreement of the levels is that of all these questions, unless the observations have one.
    """
    preset = presets.preset(preset)
    if preset.uses_agreement:
        observations = observations.with_agreement()
    if preset.signals == "first" or variant != "confidence":
        observations = observations.of_signals(observations.signal_names[:1])
    if variant == "confidence" and not observations.stated.any():
        variant = "level"
    return observations, preset.for_signals(len(observations.signal_names)), variant


def learned_from(observations: Observations, preset: Preset) -> Observations:
    """Return the questions of positive weight; raises as :func:`likelihood_weights` does."""
    return observations.select(likelihood_weights(np.ones((1, len(observations)), bool), observations, preset)[0] > 0)


def likelihood_weights(
    chosen: Bool[np.ndarray, "batch problem"], observations: Observations, preset: Preset
) -> Float[np.ndarray, "batch problem"]:
    """Return the weight of each question in each fit of a batch.

    A chosen question has its own weight, times the preset's null-target weight if no level gave its right answer.
    Unlabelled and unanswered questions have weight 0. Raises DirEAGError if nothing can be learned.
    """
    usable = chosen & observations.informative
    if not usable.any(axis=1).all():
        remedy = (
            "Label some (`direag label FILE`), or give gold answers (gold_answer, or correct on each observation)."
            if observations.answered.any()
            else "A question is answered by an observation with an answer, and a confidence if its level states any: "
            "see whether they are there, and under these names."
        )
        raise DirEAGError(
            f"no labelled, answered question to fit: saw {len(observations)} questions, "
            f"{int(observations.labelled.sum())} labelled, {int(observations.answered.sum())} answered, "
            f"{int((observations.weight > 0).sum())} of a weight above 0; expected at least one that is all three. "
            f"{remedy}"
        )
    present, counts = observations.gold_generated, usable * observations.weight
    if preset.null_target_weight != "balanced":
        return counts * np.where(present, 1.0, preset.null_target_weight)
    n_present, n_absent = counts @ present, counts @ ~present
    if not n_present.all():
        raise DirEAGError(
            f"null_target_weight 'balanced' is questions with the right answer generated / questions without: saw 0 / "
            f"{n_absent[n_present == 0][0]:g}. Set null_target_weight to a number."
        )
    balance = n_present / np.where(n_absent > 0, n_absent, 1.0)
    return np.asarray(counts * np.where(present, 1.0, balance[:, None]))
