"""Tables of others: the names of their columns, levels that are names, confidences that are fractions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from bayes_direag.data.records import COLUMNS, Question, is_signal
from bayes_direag.errors import DirEAGError, ObservationError

ConfidenceScale = Literal["percent", "fraction"]

type SameAnswer = Callable[[str, str, Question], bool]
"""Tells whether two different canonical answers to a question are equal."""

_NAMED = ("question", "level", "answer", "confidence", "gold", "correct", "cluster", "group")
_OURS = {"question": "problem_id", "gold": "gold_answer"}


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table, or of the fields of records.

    Attributes
    ----------
    question, level, answer, confidence, gold, correct, cluster, group : str
        The name of each column. Levels may be numbers from 0 or names, which are then numbered. Reports with a group
        need no level: they are the first, second ... of their group in the question.
    levels : sequence of str, optional
        The names of the levels in order; by default in order of appearance.
    scale : {"percent", "fraction"}, optional
        Whether confidences go from 0 to 100 or from 0 to 1. By default percent, and confidences that look like
        fractions are an error.
    same_answer : callable, optional
        Tells which answers are equal; see :mod:`bayes_direag.data.equality`.
    needs_labels : bool
        Whether the columns of labels must be there if they are named. Not in tables that are only predicted.
    """

    question: str = "problem_id"
    level: str = "level"
    answer: str = "answer"
    confidence: str = "confidence"
    gold: str = "gold_answer"
    correct: str = "correct"
    cluster: str = "cluster"
    group: str = "group"
    levels: Sequence[str] | None = None
    scale: ConfidenceScale | None = None
    same_answer: SameAnswer | None = None
    needs_labels: bool = field(default=True, compare=False)

    @classmethod
    def named(
        cls,
        pairs: Iterable[str],
        scale: ConfidenceScale | None = None,
        same_answer: SameAnswer | None = None,
        needs_labels: bool = True,
    ) -> "Columns":
        """Read pairs ``FIELD=NAME``, of which the last of a field counts; raise DirEAGError for anything else."""
        names: dict[str, str] = {}
        for pair in pairs:
            field, _, name = pair.partition("=")
            if field not in _NAMED or not name:
                raise DirEAGError(
                    f"--column {pair}: expected FIELD=NAME, the field one of {', '.join(_NAMED)} and the name that "
                    "of a column, such as level=model."
                )
            names[field] = name
        return cls(**names, scale=scale, same_answer=same_answer, needs_labels=needs_labels)

    @property
    def pairs(self) -> list[str]:
        """The names that are not ours, as pairs that :meth:`named` reads."""
        names, default = vars(self), vars(Columns())
        return [f"{field}={names[field]}" for field in _NAMED if names[field] != default[field]]

    @cached_property
    def spelling(self) -> dict[str, str]:
        """The column names by the field names of observation files."""
        return {_OURS.get(name, name): getattr(self, name) for name in _NAMED}

    def check(self, given: Sequence[str], path: Path | None) -> None:
        """Raise ObservationError unless a table has the columns that are required or renamed, each once."""
        default = Columns().spelling
        required = {"problem_id", "answer", "confidence"} | (set() if self.group in given else {"level"})
        optional = set() if self.needs_labels else {"gold_answer", "correct"}
        required |= {our for our, name in self.spelling.items() if name != default[our]} - optional
        wanted = [name for our, name in self.spelling.items() if our in required]
        missing = [name for name in wanted if name not in given]
        if missing or len(set(given)) < len(given):
            raise ObservationError(
                f"the table has no column {missing[0]}" if missing else "the table has two columns of the same name",
                path=path,
                line=None if path is None else 1,
                seen=", ".join(given),
                expected=f"the columns {', '.join(wanted)}, each once",
                remedy="Name the columns (--column level=NAME; in Python level='NAME'), or rename them. A file that is "
                "not a table must begin with { on every line.",
            )

    def ours[Value](self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Return columns, or the fields of a record, under our names; without those of our names for other columns."""
        our = {**dict.fromkeys(self.spelling), **{their: our for our, their in self.spelling.items()}}
        named = ((our.get(name, name), value) for name, value in given.items())
        return {name: value for name, value in named if name is not None}

    def known(self, header: Iterable[str]) -> dict[str, str]:
        """Return which columns of a table are read: their names by ours."""
        columns = self.ours({name: name for name in header})
        return {our: name for our, name in columns.items() if our in COLUMNS or is_signal(our)}
