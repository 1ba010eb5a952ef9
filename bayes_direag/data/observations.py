"""Observations as arrays: the answer of each level to each question, its confidence, and whether it is right."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bayes_direag.data import files
from bayes_direag.data.agreement import Agreement, Comparisons, agreement, comparisons
from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.arrays import (
    check_percentages,
    groups_of,
    joined,
    kind_of,
    levels_of,
    question_arrays,
    ranks,
    standing,
)
from bayes_direag.data.columns import NAMED, WIDE, Columns
from bayes_direag.data.equality import Same, Sameness, require_same
from bayes_direag.data.json_lines import table_of_questions, table_of_records
from bayes_direag.data.long_table import LongTable
from bayes_direag.data.records import Question, Status
from bayes_direag.data.runs import group_of
from bayes_direag.data.source_table import DictionaryColumn
from bayes_direag.errors import DirEAGError, LevelError, WeightError, did_you_mean, not_observations

if TYPE_CHECKING:
    import pandas

_ARRAYS = ("candidate", "status", "correct", "labelled", "conflicting", "weight")
_ABSENT = {"candidate": -1, "correct": False, "status": Status.ABSENT}


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """Answers and confidences, with one row for each question and one column for each level.

    Attributes
    ----------
    problem_id, level_names : tuples of str
        The questions, in the order of the file; the levels, in the order of their numbers.
    kind : {"numeric", "choice", "choices", "text"}
        How answers are compared.
    signals : dict of (problem, level) arrays
        The signals of confidence by name as fractions, 0..1, not clipped; NaN if not stated, or the observation is not
        usable, or only a vote. The first is ``number``, the stated confidence, unless no report states it.
    candidates : tuple of tuples of str
        The distinct canonical answers of each question, in string order.
    candidate : (problem, level) array
        The answer given, as its place among the question's candidates; -1 if not usable.
    status : (problem, level) array
        Why an observation is or is not usable, as :class:`~bayes_direag.data.records.Status`.
    correct : (problem, level) array
        Whether the answer given is right; False if not usable or not labelled.
    labelled : (problem,) array
        Whether correctness is known: there is a gold answer, or all usable observations are flagged.
    conflicting : (problem,) array
        The number of answers whose ``correct`` flags disagree, or call the gold answer wrong.
    weight : (problem,) array
        How many questions each one counts as in a fit; not negative.
    numbers : dict of (problem,) arrays
        The numbers of the questions by name, which a model of one's own may read; NaN if missing.
    table : LongTable
        The reports behind the arrays, perhaps of further questions.
    row : (problem,) array
        The number of each question in the table.
    cluster : tuple of str or None, optional
        The cluster of each question, None for a question without one; None if no question has a cluster.
    groups : tuple of str, optional
        The group of each level, or its name if it has no group; None if no level has a group.
    same : Same, optional
        The function of the user that joined candidates.
    agreement : Agreement, optional
        How often each of the :attr:`learned_levels` agrees with the others, perhaps over further questions; None until
        :meth:`with_agreement` has looked.
    """

    problem_id: tuple[str, ...]
    level_names: tuple[str, ...]
    kind: AnswerKind
    signals: Mapping[str, Float[np.ndarray, "problem level"]]
    candidate: Int[np.ndarray, "problem level"]
    candidates: tuple[tuple[str, ...], ...]
    correct: Bool[np.ndarray, "problem level"]
    labelled: Bool[np.ndarray, " problem"]
    status: Int[np.ndarray, "problem level"]
    conflicting: Int[np.ndarray, " problem"]
    weight: Float[np.ndarray, " problem"]
    table: LongTable
    row: Int[np.ndarray, " problem"]
    cluster: tuple[str | None, ...] | None = None
    groups: tuple[str, ...] | None = None
    agreement: Agreement | None = None
    same: Same | None = None
    numbers: Mapping[str, Float[np.ndarray, " problem"]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        path: str | Path,
        answers: AnswerKind | None = None,
        columns: Columns | None = None,
        labels: "pandas.DataFrame | str | Path | None" = None,
        same: Sameness = None,
    ) -> "Observations":
        """Read an observation file (JSON Lines, Parquet or CSV, recognised by content); see :meth:`from_questions`.

        With ``columns``, tables and JSON Lines with one report a line may have other column names, names as levels,
        fractions as confidences and groups of levels. With ``labels``, those of :meth:`with_labels` are added, and
        count where the kind of answers is inferred.

        ``same`` tells whether two answers, as given, are equal (the right answer comes first): candidates of a question
        that it joins are one, called as the right answer if that is among them. A fit records its name.
        """
        table = files.read_table(Path(path), columns)
        if labels is None:
            return cls.of_table(table, answers, same=same)
        from bayes_direag.data.labels import Labels

        kind = answers or Labels.of(labels).kind(table.texts("gold_answer").values)
        return cls.of_table(table, kind, same=same).with_labels(labels)

    @classmethod
    def from_records(
        cls,
        records: Sequence[Mapping[str, object]],
        answers: AnswerKind | None = None,
        columns: Columns | None = None,
        same: Sameness = None,
    ) -> "Observations":
        """Take dictionaries: one for each question, as in an observation file, or one for each report, in long form.

        Raises ObservationError as :meth:`from_questions` does, where the first record is line 1.

        Examples
        --------
        >>> Observations.from_records([{"problem_id": "a", "level": "bold", "answer": 51, "confidence": 85}], "numeric")
        Observations(1 question, 1 answered, 0 labelled; 1 level: bold; numeric answers)
        """
        table = LongTable.of(table_of_records(list(enumerate(records, 1)), None), columns)
        return cls.of_table(table, answers, same=same)

    @classmethod
    def from_frame(
        cls, frame: "pandas.DataFrame", *, answers: AnswerKind | None = None, same: Sameness = None, **columns: Any
    ) -> "Observations":
        """Take a table in long form: one row for each observation, or for a question that has none.

        The keywords are the attributes of :class:`~bayes_direag.data.columns.Columns`, such as ``level="model"``;
        columns may be named by numbers. ``gold``, ``correct``, ``cluster`` and ``group`` are optional; NaN, None and NA
        are missing values. Raises ObservationError as :meth:`from_questions` does, where the first row is line 1, or if
        a column is missing.
        """
        from bayes_direag.data.tables import table_of_frame

        if not (hasattr(frame, "columns") and (hasattr(frame, "iloc") or hasattr(frame, "__arrow_c_stream__"))):
            raise not_observations("Observations.from_frame", frame, "a DataFrame or an Arrow table")
        named: dict[str, Any] = {}
        for name, value in columns.items():
            if name in NAMED and value is not None and not isinstance(value, str | int):
                raise DirEAGError(
                    f"{name}={value!r}: expected the name of a column, or of several in one text: level='model,prompt'."
                )
            named[name] = str(value) if name in NAMED and (name, value) != ("confidence", None) else value
        return cls.of_table(LongTable.of(table_of_frame(frame), Columns(**named)), answers, same=same)

    @classmethod
    def from_wide(
        cls, frame: "pandas.DataFrame", *, answers: AnswerKind | None = None, **columns: Any
    ) -> "Observations":
        """Take a table with one row for each question, and columns for each level, whose name replaces ``{level}``.

        By default these are ``answer_{level}``, ``confidence_{level}`` and, if there are such, ``correct_{level}``, and
        ``levels`` are those of all matching columns. The keywords and the errors are those of :meth:`from_frame`.
        """
        return cls.from_frame(frame, answers=answers, **WIDE | columns)

    @classmethod
    def from_questions(
        cls, questions: Sequence[Question], answers: AnswerKind | None = None, same: Sameness = None
    ) -> "Observations":
        """Build the arrays from records, at least one.

        An answer is right if more than half of its ``correct`` flags in that question say so, or, if it has none, if it
        equals the gold answer. An observation is not usable if it is missing, or has no readable answer or no signal;
        :attr:`status_counts` counts these. Levels that never state a signal only vote, and need only an answer.

        ``answers`` is how answers are compared, by default inferred from the gold answers, or text if there are only
        flags. Raises ObservationError if there is no question, an id occurs twice, levels and their names contradict
        each other, the kind cannot be inferred, a gold answer is not of this kind, a question without one is flagged in
        part, or confidences look like fractions.
        """
        return cls.of_table(table_of_questions(questions), answers, same=same)

    @classmethod
    def of_table(
        cls,
        table: LongTable,
        answers: AnswerKind | None = None,
        voting: Sequence[str] | None = None,
        same: Sameness = None,
    ) -> "Observations":
        """Build the arrays from questions in long form, as :meth:`from_questions` does.

        ``voting`` names the levels that only vote; by default, those that never state a signal.
        """
        if answers not in (None, *get_args(AnswerKind)):
            raise DirEAGError(f"answers={answers!r} (--answers): expected {', '.join(get_args(AnswerKind))}, or None.")
        table, same = table.require_unique().with_runs(), Same.of(same)
        kind, levels = answers or kind_of(table), levels_of(table)
        groups = groups_of(table, levels)
        table = joined(table, kind, same)
        arrays = question_arrays(table, dict(zip(levels, groups or levels.values(), strict=True)), kind, voting)
        if voting is None and (table.names is None or table.names.scale is None):
            check_percentages(table, levels)
        cluster = tuple(table.texts_of_questions("cluster").objects())
        return cls(
            problem_id=tuple(table.texts_of_questions("problem_id").objects()),
            level_names=tuple(levels.values()),
            kind=kind,
            table=table,
            row=np.arange(len(table)),
            cluster=cluster if any(cluster) else None,
            groups=groups,
            same=same,
            **arrays,
        )

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """The records behind the arrays."""
        return tuple(map(self.table.record, self.row.tolist()))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of data sets that questions state, in the order of their first mention."""
        return self._names("dataset")

    @property
    def models(self) -> tuple[str, ...]:
        """The names of models that questions state, in the order of their first mention."""
        return self._names("model")

    def _names(self, field: str) -> tuple[str, ...]:
        stated = self.table.texts_of_questions(field)
        codes = dict.fromkeys(stated.code[self.row].tolist())
        return tuple(filter(None, (stated.values[code] for code in codes if code >= 0)))

    def __len__(self) -> int:
        return len(self.problem_id)

    def __getitem__(self, index: Any) -> "Observations":
        """Return some of the questions as :meth:`select` does."""
        return self.select(np.atleast_1d(np.arange(len(self))[index]))

    @property
    def question_column(self) -> str:
        """The column of the names of the questions in what they were read from, and in tables about them."""
        return (self.table.names or Columns()).question

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of questions and levels."""
        return len(self), self.n_levels

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return len(self.level_names)

    @property
    def learned_levels(self) -> tuple[str, ...]:
        """The levels that a fit has parameters for: the groups, and the levels without a group."""
        return tuple(dict.fromkeys(self.groups or self.level_names))

    @property
    def slots(self) -> tuple[int, ...] | None:
        """The place of each column's level in :attr:`learned_levels`; None without groups."""
        return None if self.groups is None else tuple(map(self.learned_levels.index, self.groups))

    @property
    def usable(self) -> Bool[np.ndarray, "problem level"]:
        """Whether an observation has an answer, and a confidence unless its level only votes."""
        return np.asarray(self.status == Status.USABLE)

    @property
    def status_counts(self) -> Int[np.ndarray, "level status"]:
        """The number of observations of each level by :class:`Status`; every row sums to the number of questions."""
        return np.asarray((self.status[:, :, None] == np.array(Status)).sum(axis=0))

    @property
    def voting(self) -> tuple[str, ...]:
        """Which of the :attr:`learned_levels` only vote: no usable report states a confidence."""
        names = np.array(self.groups or self.level_names)
        reporting, stating = names[self.usable.any(axis=0)], names[self.stated.any(axis=0)]
        return tuple(name for name in self.learned_levels if name in reporting and name not in stating)

    def voting_as(self, voting: Sequence[str]) -> "Observations":
        """Remove the confidences of the ``voting`` levels of a fit; in others, reports without one become unusable."""
        votes = np.isin(self.groups or self.level_names, voting)
        if (votes & (self.status == Status.NO_CONFIDENCE)).any():
            return self.of_table(self.table.take(self.row), self.kind, voting, self.same)
        changed = replace(self, signals=self._each_signal(lambda values: np.where(votes, np.nan, values)))
        lacking = self.usable & ~self.stated & ~votes
        return changed.without(lacking, Status.NO_CONFIDENCE) if lacking.any() else changed

    def without(self, reports: Bool[np.ndarray, "problem level"], status: Status = Status.ABSENT) -> "Observations":
        """Remove some reports from the arrays; an answer that only they gave is no longer a candidate."""
        kept = np.where(self.usable & ~reports, self.candidate, -1)
        rows = zip(self.candidates, kept.tolist(), strict=True)
        candidates = tuple(tuple(texts[number] for number in sorted({*numbers} - {-1})) for texts, numbers in rows)
        return replace(
            self,
            signals=self._each_signal(lambda values: np.where(kept >= 0, values, np.nan)),
            candidate=ranks(kept).astype(np.int32),
            candidates=candidates,
            correct=self.correct & (kept >= 0),
            status=np.where(reports, status, self.status).astype(np.int8),
        )

    @property
    def signal_names(self) -> tuple[str, ...]:
        """The names of the signals, that of :attr:`confidence` first."""
        return tuple(self.signals)

    @property
    def confidence(self) -> Float[np.ndarray, "problem level"]:
        """The first of the signals."""
        return next(iter(self.signals.values()))

    @property
    def stated(self) -> Bool[np.ndarray, "problem level"]:
        """Whether a report has any signal."""
        return ~np.isnan([*self.signals.values()]).all(axis=0)

    def of_signals(self, names: Sequence[str]) -> "Observations":
        """Keep some signals, the first as :attr:`confidence`; reports without any of them become votes."""
        nothing = np.full(self.shape, np.nan)
        return replace(self, signals={name: self.signals.get(name, nothing) for name in names})

    def _each_signal(self, change: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
        return {name: change(values) for name, values in self.signals.items()}

    @property
    def answered(self) -> Bool[np.ndarray, " problem"]:
        """Whether a question has a usable observation."""
        return self.usable.any(axis=1)

    @property
    def informative(self) -> Bool[np.ndarray, " problem"]:
        """Whether a fit learns from a question: it is labelled and answered, and its weight is not 0."""
        return np.asarray(self.labelled & self.answered & (self.weight > 0))

    @property
    def n_candidates(self) -> Int[np.ndarray, " problem"]:
        """The number of distinct answers to each question."""
        return np.array([len(candidates) for candidates in self.candidates], int)

    @property
    def gold_generated(self) -> Bool[np.ndarray, " problem"]:
        """Whether some level gave a right answer."""
        return self.correct.any(axis=1)

    @property
    def correct_candidate(self) -> Bool[np.ndarray, "problem candidate"]:
        """Whether each candidate is right; padded with False to as many columns as there are levels."""
        right = np.zeros((len(self), self.n_levels), bool)
        rows, columns = np.nonzero(self.correct)
        right[rows, self.candidate[rows, columns]] = True
        return right

    @property
    def cluster_number(self) -> Int[np.ndarray, " problem"] | None:
        """The number of each question's cluster, its own for a question without one; None without clusters."""
        if self.cluster is None:
            return None
        number: dict[str | int, int] = {}
        return np.array([number.setdefault(name or row, len(number)) for row, name in enumerate(self.cluster)], int)

    @property
    def right_state(self) -> Bool[np.ndarray, "problem state"]:
        """Whether each state occurred: the right candidates, or the null, in the last column, if there is none."""
        right = self.correct_candidate[:, : max(int(self.n_candidates.max(initial=0)), 1)]
        return np.column_stack([right, ~right.any(axis=1)])

    def is_right(self, answers: Iterable[object]) -> Bool[np.ndarray, " problem"]:
        """Tell whether a candidate of each question is right; a missing one (None, NaN) is not."""
        rows = zip(answers, self.candidates, self.correct_candidate, strict=True)
        return np.array([isinstance(a, str) and bool(right[texts.index(a)]) for a, texts, right in rows], dtype=bool)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of everything that a fit can depend on; it does not depend on the file format."""
        digest = hashlib.sha256(json.dumps([self.problem_id, self.level_names, self.kind, self.candidates]).encode())
        forms = {"confidence": "<f8", "candidate": "<i4", "correct": "?", "labelled": "?"}
        for name, form in forms.items():
            digest.update(getattr(self, name).astype(form).tobytes())
        weight = [self.weight] if (self.weight != 1).any() else []
        for values in (*[*self.signals.values()][1:], *weight, *self.numbers.values()):
            digest.update(values.astype("<f8").tobytes())
        signal_names = self.signal_names if self.signal_names != ("number",) else None
        for names in filter(None, (self.cluster, self.groups, signal_names, [*self.numbers])):
            digest.update(json.dumps(names).encode())
        return digest.hexdigest()

    def select(self, index: Int[np.ndarray, " selected"] | Bool[np.ndarray, " problem"] | slice) -> "Observations":
        """Return some of the questions, in the order of the index, with all levels."""
        rows = np.arange(len(self))[index]

        def chosen[Value](values: Sequence[Value]) -> tuple[Value, ...]:
            return tuple(values[row] for row in rows)

        arrays: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(
            self,
            signals=self._each_signal(lambda values: values[rows]),
            numbers={name: values[rows] for name, values in self.numbers.items()},
            problem_id=chosen(self.problem_id),
            candidates=chosen(self.candidates),
            row=self.row[rows],
            cluster=None if self.cluster is None else chosen(self.cluster),
            **arrays,
        )

    def label(self, labels: Sequence[str]) -> Int[np.ndarray, "problem level"]:
        """Return the place of each report's answer among the labels; -1 if it is not among them, or not usable."""
        number_of = {text: number for number, text in enumerate(labels)}
        of_candidate = np.full((len(self), self.n_levels + 1), -1)  # the last column stands for no report
        for row, texts in enumerate(self.candidates):
            of_candidate[row, : len(texts)] = [number_of.get(text, -1) for text in texts]
        return np.take_along_axis(of_candidate, self.candidate.astype(int), axis=1)

    def with_agreement(self, *further: "Observations") -> "Observations":
        """Look how often each level agrees with the others in these questions and further sets, of the same levels.

        What is selected keeps it. A question that is in several sets counts once. Raises LevelError for a level that is
        not in these, and DirEAGError if the answers are of another kind.
        """
        if not further and self.agreement is not None:
            return self
        sets, known = [self], set(self.problem_id)
        for unlabelled in further:
            if unlabelled.kind != self.kind:
                raise DirEAGError(
                    f"the answers to unlabelled questions are {unlabelled.kind}; expected {self.kind}, as in the "
                    f"labelled ones. Read them with answers={self.kind!r}."
                )
            is_new = np.array([name not in known for name in unlabelled.problem_id], bool)
            known.update(unlabelled.problem_id)
            sets.append(unlabelled.select(is_new).align(self.learned_levels))
        options = tuple(dict.fromkeys(chain.from_iterable(chain.from_iterable(part.candidates for part in sets))))
        counted = [comparisons(part.label(options), part.slots or range(part.n_levels), len(options)) for part in sets]
        return replace(self, agreement=agreement(reduce(Comparisons.__add__, counted)))

    def with_labels(self, labels: "pandas.DataFrame | str | Path") -> "Observations":
        """Add the labels of a table or a CSV file, as :func:`~bayes_direag.questions_to_label` makes it.

        A row has a ``problem_id``, and a ``gold_answer``, or an ``answer`` and whether it is ``correct``. Rows without
        a label say nothing, and the gold answer ``none of these`` makes all answers wrong. Raises ObservationError if
        nothing is labelled, a label cannot be read, or labels contradict or leave out answers of a question.
        """
        from bayes_direag.data.labels import Labels, labelled_table

        label_table = Labels.of(labels)
        candidates = dict(zip(self.problem_id, self.candidates, strict=True))
        known = label_table.known(candidates, self.kind, self.table.path, self.standing)
        correct, labelled = self.correct.copy(), self.labelled.copy()
        rows = [row for row, name in enumerate(self.problem_id) if name in known]
        for row in rows:
            right = known[self.problem_id[row]].right
            is_right = np.array([*(text in right for text in self.candidates[row]), False])[self.candidate[row]]
            if labelled[row] and (is_right != correct[row]).any():
                raise label_table.contradiction(label_table.filled[self.problem_id[row]][0])
            correct[row], labelled[row] = is_right, True
        numbered = {int(self.row[row]): known[self.problem_id[row]] for row in rows}
        table = labelled_table(self.table, numbered, self.kind)
        if self.same is not None:  # a right answer may join others
            return self.of_table(table, self.kind, same=self.same).select(self.row)
        return replace(self, correct=correct, labelled=labelled, table=table)

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return dict(zip(self.problem_id, self.row.tolist(), strict=True))

    def standing(self, problem_id: str, text: str | None) -> str | None:
        """Return the candidate of a question that a text equals, or else the canonical form of the text."""
        return standing(self.table, self._row_of[problem_id], text, self.kind, self.same)

    def weighted(self, weight: ArrayLike) -> "Observations":
        """Return the questions with other weights, one a question; WeightError if one is negative or not finite."""
        weights = np.array(weight, float)
        if weights.shape != (len(self),) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise WeightError(
                f"saw weights of shape {weights.shape} from {weights.min(initial=0):g} to {weights.max(initial=0):g} "
                f"for {len(self)} questions; expected a finite number from 0 for each. Correct them."
            )
        table = self.table.take(self.row)
        columns = {**table.columns, "weight": DictionaryColumn.of(weights.tolist()).take(table.question)}
        return replace(self, weight=weights, table=replace(table, columns=columns), row=np.arange(len(self)))

    def as_fitted(
        self,
        kind: AnswerKind,
        levels: Sequence[str],
        voting: Sequence[str],
        groups: str | None,
        same: Same | None = None,
    ) -> "Observations":
        """Return the observations with the levels of a fit, single or in groups of this form; ``voting`` ones vote.

        Raises LevelError for an unknown level, and DirEAGError if answers are compared otherwise than in the fit.
        """
        if self.kind != kind:
            raise DirEAGError(
                f"the observations' answers are {self.kind}; expected {kind}, as in the fit. Read them with "
                f"answers={kind!r}."
            )
        require_same(self.same, same)
        of_form = tuple(group_of(groups, name) or name for name in self.level_names)
        known = [form for form in (self.groups, None, of_form) if {*(form or self.level_names)} <= {*levels}]
        return replace(self, groups=known[0] if known else self.groups).voting_as(voting).align(levels)

    def align(self, level_names: Sequence[str], groups: tuple[str, ...] | None = None) -> "Observations":
        """Return the observations with the levels of a fit, in its order; the records do not change.

        A level that the observations lack is absent from every question. A group may have any number of levels, in
        adjacent columns; with ``groups``, ``level_names`` are single levels. Raises LevelError for an unknown level.
        """
        names = (None if groups else self.groups) or self.level_names
        for column, name in enumerate(names):
            if name not in level_names:
                raise self._unknown_level(column, name, level_names)
        position = np.array([level_names.index(name) for name in names], int)
        matches = (np.flatnonzero(position == number).tolist() or [-1] for number in range(len(level_names)))
        columns = [(k, name) for name, numbers in zip(level_names, matches, strict=True) for k in numbers]
        order = np.array([k for k, _ in columns], int)

        def aligned(array: np.ndarray, absent: int | float) -> np.ndarray:
            wider = np.append(array, np.full((len(array), 1), absent, array.dtype), axis=1)
            return np.asarray(wider[:, order])  # of -1: the last, absent

        arrays: dict[str, Any] = {name: aligned(getattr(self, name), absent) for name, absent in _ABSENT.items()}
        return replace(
            self,
            signals=self._each_signal(lambda values: aligned(values, np.nan)),
            level_names=tuple(self.level_names[k] if k >= 0 else name for k, name in columns),
            groups=groups or (self.groups and tuple(name for _, name in columns)),
            agreement=None,
            **arrays,
        )

    def _unknown_level(self, column: int, name: str, known: Sequence[str]) -> LevelError:
        present = self.status[:, column] != Status.ABSENT
        line = self.table.line_of(int(self.row[present.argmax()])) if len(self) else None
        where = "" if self.table.path is None or line is None else f"{self.table.path}, line {line}, field level_name: "
        return LevelError(
            f"{where}this level is unknown to the fit; saw {name!r}; expected one of {', '.join(known)}."
            f"{did_you_mean(name, known)} Rename the level if it is one of these; otherwise remove its observations, "
            "fit again with it, or let it join by how often it agrees (predict --new-levels, Fit.with_levels)."
        )

    def to_frame(self) -> "pandas.DataFrame":
        """Return the records in long form: one row for each observation, in the columns that :meth:`write` writes."""
        from bayes_direag.data.long_frame import long_frame

        return long_frame(self.table.take(self.row))

    def __repr__(self) -> str:
        n, n_levels, shown = len(self), self.n_levels, self.level_names[:5]
        more = f" and {n_levels - len(shown)} more" if n_levels > len(shown) else ""
        source = "" if self.table.path is None else f"; {self.table.path}"
        return (
            f"Observations({n:,} question{'s' * (n != 1)}, {self.answered.sum():,} answered, {self.labelled.sum():,} "
            f"labelled; {n_levels} level{'s' * (n_levels != 1)}: {', '.join(shown)}{more}; {self.kind} answers{source})"
        )

    def _repr_html_(self) -> str:
        import pandas as pd

        names = [status.name.lower().replace("_", " ") for status in Status]
        table = pd.DataFrame(self.status_counts, index=pd.Index(self.level_names, name="level"), columns=names)
        return f"<p>{escape(repr(self))}</p>\n{table.to_html()}"

    def write(self, path: str | Path) -> None:
        """Write JSON Lines or Parquet with one question a line or row, or CSV with one report a row, by suffix."""
        files.write_observations(self.table.take(self.row), path)
