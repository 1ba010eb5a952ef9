"""The data of a fit: reports, the observed state of each question, and how much each question counts."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Never, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jaxtyping import Array, Bool, Float, Int, Shaped

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, not_observations
from bayes_direag.model import presets
from bayes_direag.model.patterns import Patterns, by_first_mention, distinct_rows, first_mentions
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.selection import clipped_logit
from bayes_direag.model.settings import Preset

_ARRAYS = ("level", "logit", "candidate", "first", "merged", "label", "n_candidates", "target", "weight", "agreement")
#: Those that hold -1 where there is no report or no question.
_INDICES = ("candidate", "merged", "label", "target")
#: Columns are reports where no question has more than this share of the columns of levels.
_SPARSE = 0.5


class Numbers(dict[str, Float[Array | np.ndarray, " problem"]]):
    """Numbers of questions by name; to ask for one that they have not is an error, which says how to give it."""

    def __missing__(self, name: str) -> Never:
        """Raise DirEAGError."""
        raise DirEAGError(
            f"the model reads the number {name!r} of each question; saw {', '.join(self) or 'none'}; expected "
            f'"numbers": {{"{name}": 1.5}} in each record, or a column of this name: --column number={name} (in Python '
            f"numbers=[{name!r}])."
        )


class OfReports:
    """Values of reports that are columns of no level: as of a vector, ``@`` sums over the reports of each question."""

    def __init__(self, values: Float[Array, "report problem"]) -> None:
        self._values = values

    def __matmul__(self, others: Float[Array, "report problem"]) -> Float[Array, " problem"]:
        """Return the sum of products over the reports of each question."""
        return (self._values * others).sum(axis=0)

    def __getitem__(self, index: tuple[slice, None]) -> Float[Array, "report problem"]:
        """Return the values, for ``[:, None]``, which combines them with what is known of reports."""
        if index != (slice(None), None):
            raise IndexError(f"of_columns(...)[{index}]: expected [:, None], or @ with an array of reports.")
        return self._values


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class LikelihoodData:
    """The argument of a model: a pytree of arrays, the questions along the last axis.

    A column of reports is a level or, where most questions lack most levels, the next report of each question, whatever
    its level: the work grows with the reports. A model reads what levels have by :meth:`by_report` and
    :meth:`of_columns`, which know where a report is.

    Attributes
    ----------
    level : (report,), (report, problem) array or None
        The level of each column, where levels are groups, or of each report, 0 where there is none. None: each column
        is a level.
    logit : (report, problem) or (signal, report, problem) array
        Stated confidences, clipped, on the logit scale. 0 (an even chance) where a report does not state one, or
        stated confidences are not used.
    candidate : (report, problem) array
        Index of the reported answer among the question's own candidates; -1 where there is no usable report.
    first : (report, problem) array
        Whether the report is the first that gives its answer.
    merged : (report, problem) array
        The candidates once more; if several candidates are right, they share the index in ``target``.
    label : (report, problem) array
        Index of the reported answer among the labels; -1 for any other answer.
    n_candidates : (problem,) array
        Number of distinct answers, K.
    target : (problem,) array or None
        The observed state: the index of the right candidate, or -1 (the null) if no candidate is right. None: the
        states are drawn.
    weight : (problem,) array
        How often each question counts in the likelihood; 0 leaves it out.
    agreement : (level,) array
        Agreement of each level with the others (x of :mod:`bayes_direag.data.agreement`); 0 where it is not known.
    numbers : dict of (problem,) arrays
        Numbers of the questions by name, as they are given, NaN where missing; presets have none. Scale them by fixed
        figures, such as ``(numbers["length"] - 120) / 60``: a question is predicted without the others.
    n_labels : int
        Number of labels that the answers come from; 0 if they are no labels.
    n_signals : int
        Number of signals of a report; 0 if none states a confidence, or the variant does not look at them.

    Examples
    --------
    >>> from bayes_direag import LikelihoodData, simulate_observations
    >>> data = LikelihoodData.of(simulate_observations(n=30, seed=1), preset="bayes")
    >>> data
    LikelihoodData(logit (5, 30), candidate (5, 30), first (5, 30), merged (5, 30), label (5, 30), n_candidates (30,), \
target (30,), weight (30,), agreement (5,); n_labels=0, n_signals=1, numbers=[])
    """

    level: Int[Array | np.ndarray, " report *problem"] | None
    logit: Float[Array | np.ndarray, "*signal report problem"]
    candidate: Int[Array | np.ndarray, "report problem"]
    first: Bool[Array | np.ndarray, "report problem"]
    merged: Int[Array | np.ndarray, "report problem"]
    label: Int[Array | np.ndarray, "report problem"]
    n_candidates: Int[Array | np.ndarray, " problem"]
    target: Int[Array | np.ndarray, " problem"] | None
    weight: Float[Array | np.ndarray, " problem"]
    agreement: Float[Array | np.ndarray, " level"]
    n_labels: int = 0
    n_signals: int = 1
    numbers: Numbers = field(default_factory=Numbers)

    @classmethod
    def of(cls, observations: Observations, *, preset: PresetLike = "bayes") -> "LikelihoodData":
        """Take the labelled, answered questions; of the others only the agreement of the levels counts.

        Raises
        ------
        DirEAGError
            As :func:`likelihood_weights`, for one if there is no such question.
        """
        if not isinstance(observations, Observations):
            raise not_observations("LikelihoodData.of", observations, "Observations")
        observations, settings = fitted_to(observations, preset)
        labels, observations = settings.labels(observations), learned_from(observations, settings)
        weight = likelihood_weights(np.ones((1, len(observations)), bool), observations, settings)[0]
        return cls.weighted(observations, weight, preset=settings, labels=labels)

    @classmethod
    def weighted(
        cls,
        observations: Observations,
        weight: Float[np.ndarray, " problem"],
        *,
        preset: Preset,
        labels: Sequence[str],
        like: "LikelihoodData | None" = None,
    ) -> "LikelihoodData":
        """Take all questions with these weights, which must be 0 for unlabelled questions.

        A program sees them ``like`` others, in such columns and with confidences if it saw some there. By default it
        sees confidences if any report states one.
        """
        columns = columns_of_reports(observations.usable)
        is_sparse = len(columns.T) <= _SPARSE * observations.n_levels if like is None else like.is_sparse

        def placed(values: Shaped[np.ndarray, "problem level"]) -> Shaped[np.ndarray, "report problem"]:
            return np.ascontiguousarray((np.take_along_axis(values, columns, axis=1) if is_sparse else values).T)

        level = None if observations.slots is None else np.array(observations.slots, np.int32)
        if is_sparse:
            of_column = np.arange(observations.n_levels, dtype=np.int32) if level is None else level
            level = np.where(placed(observations.usable), of_column[columns.T], 0)
        candidate, right = placed(observations.candidate), observations.correct_candidate
        label = observations.label(labels) if labels else np.full(observations.shape, -1)
        target = np.where(right.any(axis=1), right.argmax(axis=1), -1)
        agreement = np.zeros(len(observations.learned_levels))
        if preset.uses_agreement and observations.agreement is not None:
            agreement = observations.agreement.score
        are_stated = preset.variant == "confidence" and bool(observations.stated.any())
        if like is not None:
            are_stated = like.n_signals > 0
        logit = logit_signals([placed(signal) for signal in observations.signals.values()], preset.eps)
        data = cls(
            level=level,
            logit=logit if are_stated else np.zeros(candidate.shape),
            candidate=candidate,
            first=first_mentions(candidate),
            merged=np.where(placed(observations.correct), target, candidate),
            label=placed(label),
            n_candidates=observations.n_candidates,
            target=target,
            weight=weight,
            agreement=agreement,
            n_labels=len(labels),
            n_signals=len(observations.signal_names) if are_stated else 0,
            numbers=Numbers(observations.numbers if preset.is_own else {}),
        )
        return data if like is None else data.widened(len(like.candidate))

    def of_new(self, observations: Observations, *, preset: Preset, labels: Sequence[str]) -> "LikelihoodData":
        """Return other questions of the same levels as a program sees them that was fitted to these.

        The agreement of the levels is that of these, and reports state confidences if any of these does. There are as
        many columns or more, so that what is compiled for these serves.
        """
        new = self.weighted(observations, np.ones(len(observations)), preset=preset, labels=labels, like=self)
        return replace(new, agreement=self.agreement)

    def widened(self, n_reports: int) -> "LikelihoodData":
        """Append columns in which nothing is reported, until there are so many or more."""
        n = n_reports - len(self.candidate)
        if n <= 0 or self.level is None:
            return self
        arrays = {name: self._widened(name, n, axis=-2) for name in ("logit", "candidate", "first", "merged", "label")}
        level = np.pad(self.level, [(0, n), (0, 0)][: self.level.ndim])
        return replace(self, level=level, **arrays)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arrays and the static parts."""
        arrays = *(getattr(self, name) for name in _ARRAYS), dict(self.numbers)
        return arrays, (self.n_labels, self.n_signals)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: tuple[Any, ...]) -> "LikelihoodData":
        """Build it without checks, since JAX puts other objects in the place of the arrays."""
        data = object.__new__(cls)
        names = *_ARRAYS, "numbers", "n_labels", "n_signals"
        *values, numbers = arrays
        numbers = Numbers(numbers) if isinstance(numbers, dict) else numbers
        for name, value in zip(names, (*values, numbers, *static), strict=True):
            object.__setattr__(data, name, value)
        return data

    def __repr__(self) -> str:
        arrays = ((name, getattr(self, name)) for name in _ARRAYS)
        shapes = ", ".join(f"{name} {np.shape(array)}" for name, array in arrays if array is not None)
        static = f"n_labels={self.n_labels}, n_signals={self.n_signals}"
        return f"LikelihoodData({shapes}; {static}, numbers={[*self.numbers]})"

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return int(self.agreement.shape[-1])

    @property
    def is_sparse(self) -> bool:
        """Whether columns are reports of any level."""
        return self.level is not None and self.level.ndim > 1

    @property
    def usable(self) -> Float[Array, "report problem"]:
        """1 for a usable report, 0 otherwise."""
        return (jnp.asarray(self.candidate) >= 0).astype(self.logit.dtype)

    @property
    def panels(self) -> Int[np.ndarray, "problem level"]:
        """The number of usable reports of each level that a question has."""
        n = len(self.weight)
        counts, questions = np.zeros((self.n_levels, n), int), np.arange(n) if self.is_sparse else slice(None)
        level = self.level_of_report if self.is_sparse else self.level_of_report[:, 0]
        for of_report, is_usable in zip(level, np.asarray(self.candidate) >= 0, strict=True):
            counts[of_report, questions] += is_usable
        return np.ascontiguousarray(counts.T)

    @property
    def level_of_report(self) -> Int[np.ndarray, " report #problem"]:
        """The level of each report, whatever columns are."""
        level = np.arange(self.n_levels, dtype=np.int32) if self.level is None else np.asarray(self.level)
        return level.reshape(len(level), -1)

    @property
    def n_states(self) -> Float[Array, " problem"]:
        """Number of states of each question: its candidates, and the null."""
        return jnp.asarray(self.n_candidates + 1, self.logit.dtype)

    def levels(self) -> AbstractContextManager[object]:
        """Return the plate of parameters that each level has."""
        return cast(AbstractContextManager[object], numpyro.plate("level", self.n_levels))

    def answers(self) -> AbstractContextManager[object]:
        """Return the plate of parameters that each label has."""
        return cast(AbstractContextManager[object], numpyro.plate("answer", self.n_labels))

    def signals(self) -> AbstractContextManager[object]:
        """Return the plate of parameters that each signal has; a single signal has no axis of its own."""
        if self.n_signals < 2:
            return nullcontext()
        return cast(AbstractContextManager[object], numpyro.plate("signal", self.n_signals))

    def of_columns(self, values: Float[Array, " level"]) -> "Float[Array, ' report'] | OfReports":
        """Return the value of each report's level as a vector, whose products with @ are sums over reports."""
        of_reports = self._of_level(values)
        return of_reports if of_reports.ndim == 1 else OfReports(of_reports)

    def by_report(self, values: Float[Array, " level"]) -> Float[Array, " report #problem"]:
        """Return the value of each report's level, to be combined with what is known of reports to each question."""
        of_reports = self._of_level(values)
        return of_reports[:, None] if of_reports.ndim == 1 else of_reports

    def _of_level(self, values: Float[Array, " level"]) -> Float[Array, " report *problem"]:
        if self.level is None:
            return jnp.asarray(values)
        found = jnp.asarray(values).at[jnp.asarray(self.level)]
        return found.get(mode="promise_in_bounds", wrap_negative_indices=False)

    def by_level(self, values: Float[Array, "report problem"]) -> Float[Array, " level"]:
        """Return the sum over the reports of each level."""
        of_columns = values if self.is_sparse else values.sum(axis=1)
        if self.level is None:
            return of_columns
        return jnp.zeros(self.n_levels, values.dtype).at[jnp.asarray(self.level)].add(of_columns)

    @property
    def unlabelled(self) -> "LikelihoodData":
        """The same reports without states, for prior and posterior prediction; no candidates are merged."""
        return replace(self, target=None, merged=self.candidate)

    def in_single_precision(self) -> "LikelihoodData":
        """Return the same data for work in single precision on each question; sums stay in double precision."""
        return replace(
            self,
            logit=np.asarray(self.logit, np.float32),
            agreement=np.asarray(self.agreement, np.float32),
            numbers=Numbers({name: np.asarray(values, np.float32) for name, values in self.numbers.items()}),
        )

    def with_weight(self, weight: Float[Array | np.ndarray, " problem"]) -> "LikelihoodData":
        """Return the same data with other weights."""
        return replace(self, weight=weight)

    def select(self, index: Int[np.ndarray, " selected"] | slice) -> "LikelihoodData":
        """Return some of the questions."""
        arrays = {name: getattr(self, name) for name in self._of_questions}
        chosen: dict[str, Any] = {name: array if array is None else array[..., index] for name, array in arrays.items()}
        return replace(self, **chosen, numbers=Numbers({name: array[index] for name, array in self.numbers.items()}))

    def of_reports(self, kept: Bool[np.ndarray, "report problem"]) -> "LikelihoodData":
        """Keep some of the reports; candidates keep their indices."""
        candidate = np.where(kept, self.candidate, -1)
        first = first_mentions(candidate)
        merged, label = (np.where(kept, array, -1) for array in (self.merged, self.label))
        n_candidates = first.sum(axis=0)
        return replace(self, candidate=candidate, first=first, merged=merged, label=label, n_candidates=n_candidates)

    def lone(self, logits: Float[np.ndarray, " report"]) -> "LikelihoodData":
        """Return questions with a single report: of each level in turn, with each of these logits for every signal."""
        level = np.arange(self.n_levels, dtype=np.int32).repeat(len(logits))
        n, candidate = len(level), np.zeros((1, len(level)), int)
        if self.level is None:
            candidate = np.where(level == np.arange(self.n_levels)[:, None], 0, -1)
        stated = np.tile(logits, self.n_levels) if self.n_signals else np.zeros(n)
        return replace(
            self.unlabelled,
            level=None if self.level is None else level[None],
            logit=np.broadcast_to(stated, (*self.logit.shape[:-2], *candidate.shape)).copy(),
            candidate=candidate,
            merged=candidate,
            first=candidate == 0,
            label=np.full(candidate.shape, -1),
            n_candidates=np.ones(n, int),
            weight=np.ones(n),
            numbers=Numbers({name: np.repeat(values[:1], n) for name, values in self.numbers.items()}),
        )

    def padded(self, size: int) -> "LikelihoodData":
        """Append questions without reports, of weight 0, until there are ``size``; their numbers are the first's."""
        n = len(self.weight)
        wide = {name: self._widened(name, size - n, axis=-1) for name in self._of_questions}
        numbers = {
            name: np.pad(values, (0, size - n), constant_values=values[0] if n else 1.0)
            for name, values in self.numbers.items()
        }
        return replace(self, **wide, numbers=Numbers(numbers))

    @property
    def _of_questions(self) -> tuple[str, ...]:
        """The names of arrays that have questions along their last axis."""
        return tuple(name for name in _ARRAYS if name != "agreement" and (name != "level" or self.is_sparse))

    def _widened(self, name: str, n: int, *, axis: int) -> Any:
        """Return an array with n further reports or questions, in which nothing is said."""
        array = getattr(self, name)
        if array is None:
            return None
        widths = [(0, 0)] * array.ndim
        widths[axis] = (0, n)
        return np.pad(array, widths, constant_values=-1 if name in _INDICES else 0)

    def patterns(self) -> Patterns:
        """Find questions that have the same likelihood under all parameters; weights are ignored.

        In such questions the same levels report, agree with each other, and are right; and they are equally confident
        and give the same labels, and numbers are the same.
        """
        usable = np.asarray(self.candidate) >= 0
        right = usable & (np.asarray(self.merged) == np.asarray(self.target))
        stated = np.where(usable, np.asarray(self.logit), 0.0).reshape(-1, len(self.weight))
        said, numbers = by_first_mention(np.asarray(self.candidate).T).T, map(np.asarray, self.numbers.values())
        levels = np.where(usable, self.level_of_report, 0) if self.is_sparse else ()
        return distinct_rows([*levels, *said, *right, *self.label, *stated, *numbers])

    def counted(self) -> "LikelihoodData":
        """Merge equal questions into one with their total weight, and pad; the likelihood stays the same.

        Worth it for NUTS alone: panels that only vote repeat, and take it 4 to 10 s instead of 38 to 102.
        """
        member, pattern = self.patterns()
        total = np.zeros(len(member))
        np.add.at(total, pattern, self.weight)
        return self.select(member).with_weight(total).padded(padded_size(len(member), least=64, per_octave=8))


def columns_of_reports(usable: Bool[np.ndarray, "problem level"]) -> Int[np.ndarray, "problem report"]:
    """Return the columns of the usable reports of each question, about as many as a question has at most.

    Questions with fewer reports have those of others after them.
    """
    n_reports = padded_size(int(usable.sum(axis=1).max(initial=1)), least=1, per_octave=4)
    return np.argsort(~usable, axis=1, kind="stable")[:, :n_reports]


def fitted_to(observations: Observations, preset: PresetLike) -> tuple[Observations, Preset]:
    """Return the observations and preset that a fit uses.

    Signals that the preset does not use are dropped. The agreement of the levels is that of all these questions, unless
    the observations have one.
    """
    settings = presets.preset(preset)
    if settings.uses_agreement:
        observations = observations.with_agreement()
    if settings.plain_reports:
        observations = observations.of_signals(observations.signal_names[:1])
    return observations, settings


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
        return np.asarray(counts * np.where(present, 1.0, preset.null_target_weight))
    n_present, n_absent = counts @ present, counts @ ~present
    if not n_present.all():
        raise DirEAGError(
            f"null_target_weight 'balanced' is questions with the right answer generated / questions without: saw 0 / "
            f"{n_absent[n_present == 0][0]:g}. Set null_target_weight to a number."
        )
    balance = n_present / np.where(n_absent > 0, n_absent, 1.0)
    return np.asarray(counts * np.where(present, 1.0, balance[:, None]))


def padded_size(n: int, *, least: int = 1024, per_octave: int = 1) -> int:
    """Round a size up, so that few shapes are compiled: ``per_octave`` sizes between a number and its double.

    Examples
    --------
    >>> [padded_size(n) for n in (3, 1024, 1025)]
    [1024, 1024, 2048]
    >>> [padded_size(n, least=64, per_octave=8) for n in (3, 65, 1000, 1319)]
    [64, 72, 1024, 1408]
    """
    octave = max(least, 1 << max(n - 1, 0).bit_length()) // 2
    step = max(octave // per_octave, 1)
    return max(least, -(-n // step) * step)


def logit_signals(signals: Sequence[Float[np.ndarray, "*shape"]], eps: float) -> Float[np.ndarray, "*signal_and_shape"]:
    """Return the clipped logits of signals, 0 where one is missing; a single signal has no axis of its own."""
    logits = clipped_logit(np.nan_to_num(np.stack(signals), nan=0.5), eps)
    return logits if len(signals) > 1 else logits[0]
