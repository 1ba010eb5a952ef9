"""Observations as arrays: which answer each level gave to each question, how confidently, and if rightly."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns, Scale, wide_rows
from bayes_direag.data.files import (
    as_records,
    check_columns,
    long_frame,
    questions_of_records,
    questions_of_rows,
    read_file,
    write_questions,
)
from bayes_direag.data.long_table import LongTable, Overview, Status, aligned_columns, long_table, question_arrays
from bayes_direag.data.quality import ObservationQuality
from bayes_direag.data.records import Observation, Origin, Question, check_unique

if TYPE_CHECKING:
    import pandas

__all__ = [
    "Observation",
    "Observations",
    "Question",
    "Status",
    "example_observations",
    "read_questions",
    "write_questions",
]

_EXAMPLES = {"steered": "observations.jsonl", "samples": "samples.jsonl", "topk": "topk.jsonl"}


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """A labelled table of answers and confidences, one row a question and one column a level.

    Attributes
    ----------
    problem_id : tuple of str
        The questions, in the order of the file.
    level_names : tuple of str
        The levels, in the order of their numbers.
    kind : {"numeric", "choice", "text"}
        How answers are compared.
    confidence : array, (problem, level)
        Stated confidences as fractions, 0..1, not clipped; NaN where an observation is not usable.
    candidate : array, (problem, level)
        The answer given, as an index into the question's own candidates; -1 where not usable.
    candidates : tuple of tuples of str
        The distinct canonical answers of each question, in string order.
    correct : array, (problem, level)
        Whether the answer given is right; False where not usable or not labelled.
    labelled : array, (problem,)
        Whether the question's correctness is known: it has a gold answer, or all its usable observations are
        flagged.
    status : array, (problem, level)
        Why an observation is or is not usable, as :class:`Status`.
    conflicting : array, (problem,)
        The number of answers whose ``correct`` flags disagree.
    questions : tuple of Question
        The records behind the arrays.
    origin : Origin
        The file they were read from, and the line of each question.
    multiplicity : array, (problem,), optional
        How many questions each row stands for; None if one. See :mod:`~bayes_direag.data.counted`.
    cluster : tuple of str or None, optional
        The cluster of each question, None for one that hangs together with no other; None if none is in any.
    groups : tuple of str, optional
        The group of each level, or its own name where it is in none; None if no level is in any.
    """

    problem_id: tuple[str, ...]
    level_names: tuple[str, ...]
    kind: AnswerKind
    confidence: Float[np.ndarray, "problem level"]
    candidate: Int[np.ndarray, "problem level"]
    candidates: tuple[tuple[str, ...], ...]
    correct: Bool[np.ndarray, "problem level"]
    labelled: Bool[np.ndarray, "problem"]
    status: Int[np.ndarray, "problem level"]
    conflicting: Int[np.ndarray, "problem"]
    questions: tuple[Question, ...]
    origin: Origin
    multiplicity: Int[np.ndarray, "problem"] | None = None
    cluster: tuple[str | None, ...] | None = None
    groups: tuple[str, ...] | None = None

    @classmethod
    def read(
        cls, path: str | Path, answers: AnswerKind | None = None, columns: Columns | None = None
    ) -> "Observations":
        """Read an observation file (JSON Lines, Parquet or CSV, told apart by content); see :meth:`from_questions`.

        Parameters
        ----------
        columns
            The names that a table, or JSON Lines with a line a report, has for what is in it; its levels may then be
            names and its confidences fractions.
        """
        return cls._of(*read_file(Path(path), columns), answers, columns)

    @classmethod
    def from_records(
        cls,
        records: Sequence[Mapping[str, object]],
        answers: AnswerKind | None = None,
        columns: Columns | None = None,
    ) -> "Observations":
        """Take dictionaries: one a question, as on the lines of an observation file, or one a report, in long form.

        Raises ObservationError as :meth:`from_questions` does; it calls the first record line 1.

        Examples
        --------
        >>> Observations.from_records([{"problem_id": "a", "level": "bold", "answer": 51, "confidence": 85}], "numeric")
        Observations(1 question, 1 answered, 0 labelled; 1 level: bold; numeric answers)
        """
        columns = columns or Columns()
        numbered: list[tuple[int, object]] = [*enumerate(records, 1)]
        return cls._of_records(*questions_of_records(numbered, None, columns), answers, columns)

    @classmethod
    def from_frame(
        cls,
        frame: "pandas.DataFrame",
        *,
        question: str = "problem_id",
        level: str = "level",
        answer: str = "answer",
        confidence: str = "confidence",
        gold: str = "gold_answer",
        correct: str = "correct",
        cluster: str = "cluster",
        group: str = "group",
        levels: Sequence[str] | None = None,
        scale: Scale | None = None,
        answers: AnswerKind | None = None,
    ) -> "Observations":
        """Take a table in long form: one row an observation, or a question that has none.

        Parameters
        ----------
        question, level, answer, confidence, gold, correct, cluster, group
            The names of its columns; the last four need not be there. See :mod:`bayes_direag.data.records` for what
            they hold. Levels may be numbers from 0, or names, which are numbered; reports of a group need none. NaN,
            None and NA are missing.
        levels
            The names of the levels in their order; by default that in which they appear.
        scale
            Whether confidences go from 0 to 100 (``percent``) or from 0 to 1 (``fraction``).
        answers
            As in :meth:`from_questions`.

        Raises
        ------
        ObservationError
            As :meth:`from_questions` does; it calls the first row line 1. Or if a column is not there.
        """
        columns = Columns(question, level, answer, confidence, gold, correct, cluster, group, levels, scale)
        check_columns([str(name) for name in frame.columns], None, columns)
        return cls.from_records(as_records(frame), answers, columns)

    @classmethod
    def from_wide(
        cls,
        frame: "pandas.DataFrame",
        *,
        answer: str = "answer_{level}",
        confidence: str = "confidence_{level}",
        correct: str = "correct_{level}",
        question: str = "problem_id",
        gold: str = "gold_answer",
        cluster: str = "cluster",
        levels: Sequence[str] | None = None,
        scale: Scale | None = None,
        answers: AnswerKind | None = None,
    ) -> "Observations":
        """Take a table with one row a question, and columns for every level.

        Parameters
        ----------
        answer, confidence, correct
            What these columns are called, with ``{level}`` in the place of the level's name; ``correct`` need not be
            there.
        levels
            The names of the levels; by default those of all columns called so.

        See :meth:`from_frame` for the others, and for what is raised.
        """
        columns = Columns(question=question, gold=gold, cluster=cluster, levels=levels, scale=scale)
        header = [str(name) for name in frame.columns]
        rows = wide_rows(as_records(frame), header, columns, answer=answer, confidence=confidence, correct=correct)
        return cls._of_records(*questions_of_rows(rows, None, columns), answers, columns)

    @classmethod
    def from_questions(
        cls, questions: Sequence[Question], answers: AnswerKind | None = None, source: Origin | None = None
    ) -> "Observations":
        """Build the arrays from records.

        An answer is right if more than half of its ``correct`` flags in that question say so, or, where it
        carries none, if it equals the gold answer. A level that is missing, without an answer that can be
        read or without a confidence is not usable; :meth:`quality` counts these.

        Parameters
        ----------
        questions : sequence of Question
            At least one.
        answers : {"numeric", "choice", "text"}, optional
            How answers are compared. By default the kind that all gold answers given show; text if
            correctness is only flagged.
        source : Origin, optional
            Where the questions were read, for the errors.

        Raises
        ------
        ObservationError
            If there is no question, an id stands twice, levels and their names contradict each other, the
            kind cannot be inferred, a gold answer is not of that kind, a question without one is flagged in
            part, or the confidences look like fractions instead of percentages.
        """
        return cls._of_records(questions, source or Origin(None, (None,) * len(questions)), answers)

    @classmethod
    def _of_records(
        cls, questions: Sequence[Question], origin: Origin, answers: AnswerKind | None, columns: Columns | None = None
    ) -> "Observations":
        check_unique(questions, origin)
        return cls._of(long_table(questions, origin), questions, answers, columns)

    @classmethod
    def _of(
        cls,
        table: LongTable,
        questions: Sequence[Question],
        answers: AnswerKind | None,
        columns: Columns | None = None,
    ) -> "Observations":
        overview, path = Overview(), table.source.path
        overview.add(table)
        kind, levels = overview.kind(answers, path), overview.levels(path)
        arrays = question_arrays(table, levels, kind)
        if columns is None or columns.scale is None:
            overview.check_percentages(path)
        cluster = tuple(question.cluster for question in questions)
        return cls(
            problem_id=tuple(question.problem_id for question in questions),
            level_names=tuple(levels.values()),
            kind=kind,
            confidence=arrays.confidence,
            candidate=arrays.candidate,
            candidates=arrays.candidates(),
            correct=arrays.correct,
            labelled=arrays.labelled,
            status=arrays.status,
            conflicting=arrays.conflicting,
            questions=tuple(questions),
            origin=table.source,
            cluster=cluster if any(cluster) else None,
            groups=overview.groups(levels, path),
        )

    def __len__(self) -> int:
        return len(self.problem_id)

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return len(self.level_names)

    @property
    def learned_levels(self) -> tuple[str, ...]:
        """What a fit calls its levels: the groups, and the levels that are in none."""
        return tuple(dict.fromkeys(self.groups or self.level_names))

    @property
    def slots(self) -> tuple[int, ...] | None:
        """Which of the :attr:`learned_levels` each column holds reports of; None where each has its own."""
        return None if self.groups is None else tuple(map(self.learned_levels.index, self.groups))

    @property
    def usable(self) -> Bool[np.ndarray, "problem level"]:
        """Whether an observation has both an answer and a confidence."""
        return np.asarray(self.status == Status.USABLE)

    @property
    def answered(self) -> Bool[np.ndarray, "problem"]:
        """Whether a question has any usable observation."""
        return self.usable.any(axis=1)

    @property
    def n_candidates(self) -> Int[np.ndarray, "problem"]:
        """The number of distinct answers to each question."""
        return np.array([len(candidates) for candidates in self.candidates], int)

    @property
    def gold_generated(self) -> Bool[np.ndarray, "problem"]:
        """Whether some level gave a right answer."""
        return self.correct.any(axis=1)

    @property
    def correct_candidate(self) -> Bool[np.ndarray, "problem candidate"]:
        """Whether each candidate is right; as many columns as levels, padded with False."""
        right = np.zeros((len(self), self.n_levels), bool)
        rows, columns = np.nonzero(self.correct)
        right[rows, self.candidate[rows, columns]] = True
        return right

    @property
    def cluster_number(self) -> Int[np.ndarray, " problem"] | None:
        """Which questions hang together, by number, each with itself at least; None where no cluster is given."""
        if self.cluster is None:
            return None
        place: dict[str | int, int] = {}
        return np.array([place.setdefault(name or row, len(place)) for row, name in enumerate(self.cluster)], int)

    @property
    def right_state(self) -> Bool[np.ndarray, "problem state"]:
        """Whether each state came true: the right candidates, or else the null, which is the last."""
        right = self.correct_candidate[:, : max(int(self.n_candidates.max(initial=0)), 1)]
        return np.column_stack([right, ~right.any(axis=1)])

    def is_right(self, answers: Iterable[object]) -> Bool[np.ndarray, " problem"]:
        """Say of a candidate of each question whether it is right; a missing one (None, NaN) is not."""
        rows = zip(answers, self.candidates, self.correct_candidate, strict=True)
        return np.array([isinstance(a, str) and bool(right[own.index(a)]) for a, own, right in rows], dtype=bool)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all that a fit can depend on, whatever file format the observations came in."""
        texts = [self.problem_id, self.level_names, self.kind, self.candidates]
        digest = hashlib.sha256(json.dumps(texts).encode())
        for array, form in (
            (self.confidence, "<f8"),
            (self.candidate, "<i4"),
            (self.correct, "?"),
            (self.labelled, "?"),
        ):
            digest.update(array.astype(form).tobytes())
        if self.multiplicity is not None:
            digest.update(self.multiplicity.astype("<i8").tobytes())
        for names in (self.cluster, self.groups):
            if names is not None:
                digest.update(json.dumps(names).encode())
        return digest.hexdigest()

    def select(self, index: Int[np.ndarray, "selected"] | Bool[np.ndarray, "problem"] | slice) -> "Observations":
        """Return some of the questions, in the order given as in indexing an array, with all the levels."""
        rows = np.arange(len(self))[index]
        return replace(
            self,
            problem_id=tuple(self.problem_id[row] for row in rows),
            confidence=self.confidence[rows],
            candidate=self.candidate[rows],
            candidates=tuple(self.candidates[row] for row in rows),
            correct=self.correct[rows],
            labelled=self.labelled[rows],
            status=self.status[rows],
            conflicting=self.conflicting[rows],
            questions=tuple(self.questions[row] for row in rows),
            origin=Origin(self.origin.path, tuple(self.origin.lines[row] for row in rows)),
            multiplicity=None if self.multiplicity is None else self.multiplicity[rows],
            cluster=None if self.cluster is None else tuple(self.cluster[row] for row in rows),
        )

    def align(self, level_names: Sequence[str], groups: tuple[str, ...] | None = None) -> "Observations":
        """Return the same observations under the levels of a fit, in its order.

        A level of the fit that these observations lack is absent from every question. Of a group that the fit knows
        there may be any number of levels, one beside the other. The records stay as they are, so :meth:`write` writes
        the levels of the file. With ``groups`` the names are those of single levels, and these their groups. Raises
        LevelError if the fit does not know a level.
        """
        own = (None if groups else self.groups) or self.level_names
        order, names = aligned_columns(
            own, level_names, self.origin.path, lambda name: self._first_line_of(own.index(name))
        )

        def aligned(array: np.ndarray, absent: int | float) -> np.ndarray:
            wider = np.full((len(self), len(order)), absent, array.dtype)
            wider[:, order >= 0] = array[:, order[order >= 0]]
            return wider

        return replace(
            self,
            level_names=tuple(self.level_names[k] if k >= 0 else name for k, name in zip(order, names, strict=True)),
            groups=groups or (self.groups and names),
            confidence=aligned(self.confidence, np.nan),
            candidate=aligned(self.candidate, -1),
            correct=aligned(self.correct, False),
            status=aligned(self.status, Status.ABSENT),
        )

    def _first_line_of(self, column: int) -> int | None:
        """Return the line of the first question that has a level, as far as that is known."""
        row = int(np.argmax(np.not_equal(self.status[:, column], Status.ABSENT))) if len(self) else 0
        return self.origin.lines[row] if self.origin.lines else None

    def to_frame(self) -> "pandas.DataFrame":
        """Return the records in long form: a row an observation, in the columns that :meth:`write` writes."""
        return long_frame(self.questions)

    def __repr__(self) -> str:
        source = "" if self.origin.path is None else f"; {self.origin.path}"
        return f"Observations({self.quality().summary}; {self.kind} answers{source})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>\n{self.quality().to_html()}"

    def write(self, path: str | Path) -> None:
        """Write the records as JSON Lines, Parquet or CSV, whichever the suffix says."""
        write_questions(self.questions, path)

    def quality(self) -> ObservationQuality:
        """Count what can be used, by level and over all."""
        return ObservationQuality.of(self)


def read_questions(path: str | Path) -> list[Question]:
    """Read the records of an observation file, in its order; ObservationError if something in it cannot be used."""
    return list(read_file(Path(path))[1])


def example_observations(protocol: Literal["steered", "samples", "topk"] = "steered") -> Observations:
    """Return the bundled observations of one protocol, really elicited from a small model; see docs/example.md.

    Of the same questions: five confidence-steering prompts, five samples of the neutral one, one list of five guesses.

    Examples
    --------
    >>> observations = example_observations()
    >>> len(observations), observations.level_names[0]
    (300, 'very_cautious')
    """
    with as_file(files("bayes_direag") / "example" / _EXAMPLES[protocol]) as path:
        return Observations.read(path, "numeric")
