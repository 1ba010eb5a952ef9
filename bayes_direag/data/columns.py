"""Tables of others: the names of their columns, levels that are names, confidences that are fractions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from bayes_direag.data.plain import SCALES, ConfidenceScale
from bayes_direag.data.records import COLUMNS, FIELDS, OF_OBSERVATION, OF_QUESTION, is_signal
from bayes_direag.data.runs import group_of, is_word_for_runs
from bayes_direag.errors import DirEAGError, ObservationError, abridged

_OURS = {"question": "problem_id", "gold": "gold_answer"}
_LEVEL = "{level}"
#: Under this name a layout has the column that tells the runs of one level apart.
RUN = "run"
#: Names that columns of others often have, by field.
_GUESSES = {
    "question": ("id", "qid", "question_id", "problem", "item", "item_id", "example_id", "doc_id", "uid", "index"),
    "level": ("model", "model_name", "prompt", "level_name", "run", "sample", "llm", "judge", "annotator"),
    "answer": ("reply", "response", "prediction", "output", "pred", "generation", "completion", "choice"),
    "confidence": ("p", "prob", "probability", "conf", "score", "certainty", "verbalized_confidence"),
    "gold": ("gold", "truth", "label", "target", "correct_answer", "reference", "expected"),
}
_NEEDED = ("answer", "confidence")
_REQUIRED = ("question", "level", *_NEEDED)


type Layout = Mapping[str | None, Mapping[str, tuple[str, ...]]]
"""Where a table has what: for each report of a row, by the name of its level (None: a column holds it), the columns by
our names. A level may be named by several columns."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table, or of the fields of records.

    Attributes
    ----------
    question, level, answer, confidence, gold, correct, cluster, weight, group : str
        The name of each column. Levels may be numbers from 0 or names, which are then numbered; ``Model,Prompt`` are
        two columns, whose level is, for example, ``small/bold``. Reports with a group need no level: they are the
        first, second ... of their group in the question. Without stated confidences, ``confidence`` is None. With a row
        for each question, ``answer``, ``confidence`` and ``correct`` hold ``{level}`` in place of a level's name.
    groups : str, optional
        The form of the names of levels that are in a group, such as ``{group}_run{n}`` or, for one group, ``{n}``,
        where ``{n}`` is a number. A group that a report states counts instead. With ``none`` every level is one of its
        own. By default, levels whose names or column say that they are runs are a group.
    levels : sequence of str, optional
        The names of the levels in order; by default in order of appearance.
    scale : {"percent", "fraction", "1-5", "0-10"}, optional
        What confidences are in. By default percent, and confidences that look like fractions or ratings are an error.
    needs_labels : bool
        Whether columns of labels and weights must be there if they are named. Not in tables that are only predicted.
    are_runs : bool
        Whether ``groups`` was found, not given.
    """

    question: str = "problem_id"
    level: str = "level"
    answer: str = "answer"
    confidence: str | None = "confidence"
    gold: str = "gold_answer"
    correct: str = "correct"
    cluster: str = "cluster"
    weight: str = "weight"
    group: str = "group"
    groups: str | None = None
    levels: Sequence[str] | None = None
    scale: ConfidenceScale | None = None
    needs_labels: bool = field(default=True, compare=False)
    are_runs: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        group_of(self.groups, "")
        if self.scale not in (None, *SCALES):
            raise DirEAGError(f"scale={self.scale!r} (--scale): expected one of {', '.join(SCALES)}, or None.")
        for name, n in self._given.items():
            if n > 1:
                raise DirEAGError(f"{n} fields are in the column {name!r} (--column): expected a column for each.")

    @classmethod
    def named(cls, pairs: Iterable[str], **about: Any) -> "Columns":
        """Read pairs ``FIELD=NAME``, of which the last of a field counts; raise DirEAGError for anything else.

        A pair without a name, ``confidence=``, says that there is none. ``about``: the attributes from ``groups`` on.
        """
        names: dict[str, str | None] = {}
        for pair in pairs:
            field, _, name = pair.partition("=")
            if field not in NAMED or (not name and pair != "confidence="):
                raise DirEAGError(
                    f"--column {pair}: expected FIELD=NAME, the field one of {', '.join(NAMED)} and the name that "
                    "of a column, such as level=model."
                )
            names[field] = name or None
        return cls(**names, **about)  # type: ignore[arg-type]

    @property
    def pairs(self) -> list[str]:
        """The names that are not ours, as pairs that :meth:`named` reads."""
        names, default = vars(self), vars(Columns())
        return [f"{field}={names[field] or ''}" for field in NAMED if names[field] != default[field]]

    @cached_property
    def _given(self) -> Counter[str]:
        """How many fields have each column, but for optional ones under our own names."""
        names = [(field, vars(self)[field]) for field in NAMED if vars(self)[field] is not None]
        given = [str(name) for field, name in names if field in _REQUIRED or name != getattr(Columns, field)]
        return Counter(part for name in given for part in name.split(","))

    @cached_property
    def spelling(self) -> dict[str, str]:
        """The column names by the field names of observation files, without fields that have no column."""
        own = {field: vars(self)[field] for field in NAMED if vars(self)[field] is not None}
        hidden = {field for field, name in own.items() if name == getattr(Columns, field) and name in self._given}
        return {_our_name(field): name for field, name in own.items() if field in _REQUIRED or field not in hidden}

    def layout(self, header: Sequence[str], path: Path | None) -> Layout:
        """Return where a table has what; raise ObservationError unless it has the required columns, each once.

        A row is a question if the name of the column of answers holds ``{level}``, or if the table has columns such as
        ``answer_bold`` in place of ``answer`` and ``level``. Otherwise it is a report.
        """
        names, others = self, {"answer", self.level, self.group}
        if self.answer == "answer" and not others & {*header} and any(name.startswith("answer_") for name in header):
            confidence = self.confidence and f"{self.confidence}_{_LEVEL}"
            names = replace(self, **WIDE | {"confidence": confidence})
        return names._wide(header, path) if _LEVEL in names.answer else names._long(header, path)

    def _long(self, header: Sequence[str], path: Path | None) -> Layout:
        runs = [name for name in header if is_word_for_runs(name)] if self.group not in header else []
        if runs and self.level == "level" and "level" not in header and "model" in header:
            return replace(self, level="model")._long(header, path)
        default = Columns().spelling
        required = {our for our, name in self.spelling.items() if name != default[our]} | {"problem_id", "answer"}
        required |= {"confidence"} & {*self.spelling} | (set() if self.group in header else {"level"})
        required -= set() if self.needs_labels else {"gold_answer", "correct", "weight"}
        of_level = (self.level,) if self.level in header else tuple(map(str.strip, self.level.split(",")))
        wanted = [self.spelling[our] for our in self.spelling if our in required and our != "level"]
        wanted[1:1] = of_level if "level" in required else ()
        self._require(header, wanted, path)
        columns = {our: (name,) for our, name in self.known(header).items() if name not in of_level}
        apart = {RUN: (runs[0],)} if len(runs) == 1 and runs[0] not in of_level else {}
        return {None: columns | ({"level": of_level} | apart if {*of_level} <= {*header} else {})}

    def _wide(self, header: Sequence[str], path: Path | None) -> Layout:
        of_question = {our: (name,) for our, name in self.known(header).items() if our in ("problem_id", *OF_QUESTION)}
        before, _, after = self.answer.partition(_LEVEL)
        others = {name for (name,) in of_question.values()}
        matching = [name for name in header if name.startswith(before) and name.endswith(after) and name not in others]
        levels = self.levels or [name[len(before) : len(name) - len(after)] for name in matching]
        patterns = {name: vars(self)[name] for name in WIDE if vars(self)[name]}
        named = {level: {our: name.replace(_LEVEL, level) for our, name in patterns.items()} for level in levels}
        needed = [name for of_level in named.values() for our, name in of_level.items() if our in _NEEDED]
        self._require(header, [self.question, *(needed or [self.answer])], path)
        return {
            level: of_question | {our: (name,) for our, name in of_level.items() if name in header}
            for level, of_level in named.items()
        }

    def _require(self, header: Sequence[str], wanted: Sequence[str], path: Path | None) -> None:
        missing = [name for name in wanted if name not in header]
        if missing or len({*header}) < len(header):
            there = ", ".join(header)
            raise ObservationError(
                f"the table has no column {missing[0]}{self._for(missing[0])}"
                if missing
                else "the table has two columns of the same name",
                path=path,
                line=None if path is None else 1,
                expected=f"the columns {', '.join(wanted)}, each once, among {abridged(there, 600)}",
                remedy=self._remedy(header, missing)
                + ("" if path is None else " A file that is not a table must begin with { on every line."),
            )

    def _for(self, name: str) -> str:
        """Say which field a column is of, by the word that names it in options."""
        fields = [field for field in NAMED if name in str(vars(self)[field]).split(",")]
        return f" for the {fields[0]}" if fields else ""

    def _remedy(self, header: Sequence[str], missing: Sequence[str]) -> str:
        """Say what to do about columns that are missing, with the best guess."""
        if _LEVEL in self.answer and self.question not in missing:
            pairs = "--column answer={level}_answer --column confidence={level}_confidence"
            return f"With a row a question: {pairs}; where there is no confidence, --column confidence=."
        guesses: dict[str, str] = {}
        left = [name for name in header if name not in {*self.spelling.values()}]
        by_level = {field: _by_level(left, field) for field in _NEEDED}
        for word in NAMED:
            known = [name for name in left if name.lower() in _GUESSES.get(word, ())]
            if not (vars(self)[word] in missing or (missing and word == "gold" and known and self.gold not in header)):
                continue
            if by_level["answer"] and word in ("level", *_NEEDED):
                guesses |= {word: by_level[word] or ""} if word in _NEEDED else {}
                continue
            near = known or get_close_matches(str(vars(self)[word]), left, n=1, cutoff=0.5)
            guesses[word] = near[0] if near else "" if word == "confidence" else "NAME"
            left = [name for name in left if name != guesses[word]]
        pairs = " ".join(f"--column {word}={name}" for word, name in guesses.items())
        words = ", ".join(f"{word}={name or None!r}" for word, name in guesses.items())
        remedy = f"Name the columns, for example {pairs} (in Python {words})." if guesses else "Rename one of them."
        if "confidence" in guesses:
            remedy += " Where there is no confidence, say --column confidence= (confidence=None)."
        return remedy

    @cached_property
    def _renamed(self) -> dict[str, str | None]:
        """Map their names to ours; None hides a column of theirs that happens to have one of our names."""
        ours = {**dict.fromkeys(map(_our_name, NAMED)), **{their: our for our, their in self.spelling.items()}}
        return {their: our for their, our in ours.items() if their != our}

    def ours[Value](self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Return columns, or the fields of a record, under our names; without those of our names for other columns."""
        if not self._renamed:
            return dict(given)
        named = ((self._renamed.get(name, name), value) for name, value in given.items())
        return {name: value for name, value in named if name is not None}

    def known(self, header: Iterable[str]) -> dict[str, str]:
        """Return which columns of a table are read: their names by ours."""
        columns = self.ours({name: name for name in header})
        return {our: name for our, name in columns.items() if our in COLUMNS or is_signal(our)}


def _by_level(header: Sequence[str], field: str) -> str | None:
    """Return the form of columns that hold a field of one level each, such as ``{level}_reply``; None without two."""
    words = (field, *_GUESSES[field])
    ends = (f"_{word}" for word in words if sum(name.lower().endswith(f"_{word}") for name in header) > 1)
    return next((f"{_LEVEL}{end}" for end in ends), None)


def _our_name(field: str) -> str:
    return _OURS.get(field, field)


#: The attributes of :class:`Columns` that name a column.
NAMED = tuple(name for name in Columns.__dataclass_fields__ if _our_name(name) in FIELDS)
#: Those with a column for each level where a row is a question, and the form of its name.
WIDE: dict[str, Any] = {
    name: f"{name}_{_LEVEL}" for name in NAMED if name in OF_OBSERVATION and name not in ("level", "group")
}
