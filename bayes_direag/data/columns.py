"""Tables of others: the names of their columns, the form of groups, the scale of confidences."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bayes_direag.data.plain import SCALES, ConfidenceScale
from bayes_direag.data.records import COLUMNS, NUMBER, NUMBERS, OF_OBSERVATION, OF_QUESTION, SIGNAL_NAME, SIGNALS
from bayes_direag.data.runs import group_of, is_word_for_runs
from bayes_direag.errors import DirEAGError, ObservationError, abridged, did_you_mean


class Ours(str):
    """A name of a column that was not given, but is ours."""

    __slots__ = ()


_OURS = {"question": "problem_id", "gold": "gold_answer"}
#: In the name of a column, what stands for the level's.
LEVEL = "{level}"
#: In a pair of field and name, what stands before the name of a signal.
SIGNAL = "signal."
#: Under this name a layout has the column that tells the runs of one level apart.
RUN = "run"
#: In the place of this column, runs are numbered as their rows stand.
IN_ORDER = "in the order of rows"
_NEEDED = ("answer", "confidence")
_REQUIRED = ("question", "level", *_NEEDED)


type Layout = Mapping[str | None, Mapping[str, str]]
"""Where a table has what: for each report of a row, by the name of its level (None: columns hold it), the columns by
our names."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table. Those of another's table are told by what is in it, unless they are given.

    Attributes
    ----------
    question, level, answer, confidence, gold, correct, cluster, weight, group : str
        The name of each column. Levels may be numbers from 0 or names, which are then numbered; ``Model,Prompt`` are
        two columns, whose level is, for example, ``small/bold``. Reports with a group need no level: they are the
        first, second ... of their group in the question. Without stated confidences, ``confidence`` is None. With a row
        for each question, ``answer``, ``confidence`` and ``correct`` hold ``{level}`` in place of a level's name.
    run : str
        The column that tells the runs of one level apart, if they are several; by default one called so, or seed.
    signals : dict of str, optional
        The columns of further :mod:`signals <bayes_direag.data.records>` by name, as ``{"tokens": "token_p"}``; one in
        ``confidence_tokens`` need not be named. A table that a fit reads may lack them.
    groups : str, optional
        The form of the names of levels that are in a group, such as ``{group}_run{n}`` or, for one group, ``{n}``,
        where ``{n}`` is a number. A group that a report states counts instead. With ``none`` every level is one of its
        own. By default, levels whose names or column say that they are runs are a group.
    levels : sequence of str, optional
        The names of the levels in order; by default in order of appearance. With a row for each question, other columns
        are no levels.
    numbers : sequence of str
        The columns with numbers of the questions, for models of one's own. Those called ``numbers.NAME`` need no word.
    scale : {"percent", "fraction", "1-5", "0-10"}, optional
        What confidences are in. By default percent, or fractions if all those of a table are; ratings are an error.
    needs_labels : bool
        Whether columns of labels and weights must be there if they are named. Not in tables that a fit reads.
    scale_of_nested : str, optional
        What confidences are in where a fit reads questions with lists of reports; by default percent.
    are_runs : bool
        Whether ``groups`` was found, not given.
    """

    question: str = Ours("problem_id")
    level: str = Ours("level")
    answer: str = Ours("answer")
    confidence: str | None = Ours("confidence")
    gold: str = Ours("gold_answer")
    correct: str = Ours("correct")
    cluster: str = Ours("cluster")
    weight: str = Ours("weight")
    group: str = Ours("group")
    run: str = Ours("run")
    signals: Mapping[str, str] = field(default_factory=dict)
    groups: str | None = None
    levels: Sequence[str] | None = None
    numbers: Sequence[str] = ()
    scale: ConfidenceScale | None = None
    needs_labels: bool = field(default=True, compare=False)
    scale_of_nested: ConfidenceScale | None = field(default=None, compare=False)
    are_runs: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        group_of(self.groups, "")
        if self.scale not in (None, *SCALES):
            raise DirEAGError(f"scale={self.scale!r} (--scale): expected one of {', '.join(SCALES)}, or None.")
        for name in self.signals:
            if not re.fullmatch(SIGNAL_NAME, name) or name == NUMBER:
                raise DirEAGError(f"saw the signal {name!r}; expected letters and digits, such as tokens. Rename it.")
        if isinstance(self.numbers, str):
            raise DirEAGError(f"numbers={self.numbers!r}: expected a list of columns, [{self.numbers!r}].")
        for name, n in self._given.items():
            if n > 1:
                raise DirEAGError(f"{n} fields are in the column {name!r} (--column): expected a column for each.")

    @classmethod
    def named(cls, pairs: Iterable[str], **about: Any) -> "Columns":
        """Read pairs ``FIELD=NAME``, of which the last of a field counts; raise DirEAGError for anything else.

        A pair without a name, ``confidence=``, says that there is none; ``signal.tokens=token_p`` names a signal,
        ``levels=A,B`` levels, and each ``number=NAME`` another number. ``about``: the attributes from ``groups`` on.
        """
        names, signals, numbers = dict[str, Any](), dict[str, str](), dict[str, None]()
        for pair in pairs:
            field, _, name = pair.partition("=")
            if name and field.startswith(SIGNAL):
                signals[field.removeprefix(SIGNAL)] = name
            elif name and field == "number":
                numbers[name] = None
            elif name and field == "levels":
                names[field] = tuple(name.split(","))
            elif field in NAMED and (name or pair == "confidence="):
                names[field] = name or None
            else:
                raise DirEAGError(
                    f"--column {pair}: expected FIELD=NAME, the field one of {', '.join(NAMED)}, {SIGNAL}NAME, "
                    "levels or number, and the name that of a column, such as level=model."
                )
        return cls(**names, signals=signals, numbers=tuple(numbers), **about)

    @property
    def pairs(self) -> list[str]:
        """The names that were given, as pairs that :meth:`named` reads."""
        names = vars(self)
        pairs = [f"{field}={names[field] or ''}" for field in NAMED if not isinstance(names[field], Ours)]
        pairs += [f"levels={','.join(self.levels)}"] if self.levels and LEVEL in self.answer else []
        pairs += [f"{SIGNAL}{signal}={name}" for signal, name in self.signals.items()]
        return [*pairs, *(f"number={name}" for name in self.numbers)]

    @cached_property
    def _given(self) -> Counter[str]:
        """How many fields have each column, but for optional ones under our columns names."""
        chosen = [name for field, name in self._named.items() if field in _REQUIRED or name != getattr(Columns, field)]
        return Counter([part for name in chosen for part in name.split(",")] + [*self.signals.values()])

    @property
    def _named(self) -> dict[str, str]:
        return {field: str(vars(self)[field]) for field in NAMED if vars(self)[field] is not None}

    @cached_property
    def spelling(self) -> dict[str, str]:
        """The column names by the field names of observation files, without fields that have no column."""
        hidden = {
            field for field, name in self._named.items() if name == getattr(Columns, field) and name in self._given
        }
        shown = {_our_name(field): name for field, name in self._named.items() if field not in hidden - {*_REQUIRED}}
        return shown | self._of_signals | {NUMBERS.column(name): name for name in self.numbers}

    @property
    def _of_signals(self) -> dict[str, str]:
        return {SIGNALS.column(signal): name for signal, name in self.signals.items()}

    @property
    def of_nested(self) -> "Columns":
        """How questions with lists of reports are read: under our names, in percent unless that was said of them."""
        scale = self.scale if self.needs_labels else self.scale_of_nested
        kept = {name: vars(self)[name] for name in ("groups", "levels", "numbers", "needs_labels")}
        return Columns(**kept, scale=scale)

    def layout(self, header: Sequence[str], path: Path | None) -> Layout:
        """Return where a table has what; raise ObservationError unless it has the required columns, each once.

        A row is a question if the name of the column of answers holds ``{level}``. Otherwise it is a report.
        """
        return self._wide(header, path) if LEVEL in self.answer else self._long(header, path)

    def _long(self, header: Sequence[str], path: Path | None) -> Layout:
        words = [name for name in header if is_word_for_runs(name) and self.group not in header]
        runs = [self.run] if self.run in header else words
        default = Columns().spelling
        required = {our for our, name in self.spelling.items() if name != default.get(our)} | {"problem_id", "answer"}
        required |= {"confidence"} & {*self.spelling} | (set() if self.group in header else {"level"})
        required -= set() if self.needs_labels else {"gold_answer", "correct", "weight", RUN, *self._of_signals}
        of_level = (self.level,) if self.level in header else tuple(map(str.strip, self.level.split(",")))
        wanted = [self.spelling[our] for our in self.spelling if our in required and our != "level"]
        wanted[1:1] = of_level if "level" in required else ()
        self._require(header, wanted, path)
        columns = {our: name for our, name in self.known(header).items() if name not in of_level}
        of_run = {RUN: runs[0]} if len(runs) == 1 and runs[0] not in of_level else {}
        return {None: columns | ({"level": self.level} | of_run if {*of_level} <= {*header} else {})}

    def side_by_side(self, header: Sequence[str]) -> dict[str, str]:
        """Return the columns of answers by level, of a table with a row for each question."""
        others = {*self._of_question(header).values()}
        forms = {form for our, form in self._of_levels.items() if form != self.answer}
        others |= {form.replace(LEVEL, name) for form in forms for name in header}
        levels = self.levels or levels_of(self.answer, [name for name in header if name not in others])
        return {level: self.answer.replace(LEVEL, level) for level in levels}

    @property
    def _of_levels(self) -> dict[str, str]:
        return {name: self.spelling[name] for name in WIDE if name in self.spelling} | self._of_signals

    def _of_question(self, header: Sequence[str]) -> dict[str, str]:
        known = self.known(header).items()
        return {our: name for our, name in known if our in ("problem_id", *OF_QUESTION) or NUMBERS.holds(our)}

    def _wide(self, header: Sequence[str], path: Path | None) -> Layout:
        about, forms = self._of_question(header), self._of_levels.items()
        named = {level: {our: form.replace(LEVEL, level) for our, form in forms} for level in self.side_by_side(header)}
        needed = [of_level[our] for of_level in named.values() for our in _NEEDED if our in of_level]
        self._require(header, [self.question, *(needed or [self.answer]), *self.numbers], path)
        return {level: about | {our: of[our] for our in of if of[our] in header} for level, of in named.items()}

    def _require(self, header: Sequence[str], wanted: Sequence[str], path: Path | None) -> None:
        missing = [name for name in wanted if name not in header]
        if not missing and max(map([*header].count, (*wanted, *self.known(header).values()))) == 1:
            return  # other columns may share a name, as nobody reads them
        there, name = ", ".join(header), (missing or [""])[0]
        field_of = {part.strip(): field for field in NAMED for part in str(vars(self)[field]).split(",")}
        problem = f"the table has no column {name}{f' for the {field_of[name]}' if name in field_of else ''}"
        if not missing:
            problem, remedy = "the table has two columns of the same name", "Rename one of them."
        elif name in self.numbers:
            remedy = "Correct the name: --column number=NAME (in Python numbers=['NAME'])." + did_you_mean(name, header)
        elif LEVEL in self.answer and self.question not in missing:
            remedy = (
                "Name the columns of levels: --column answer={level}_answer --column confidence={level}_confidence. A "
                "level without confidences has an empty column."
            )
        else:
            fields = [*dict.fromkeys(field_of.get(column, "answer") for column in missing)]
            options = " ".join(f"--column {field}=NAME" for field in fields)
            words = ", ".join(f"{field}='NAME'" for field in fields)
            remedy = f"Name the column{'s' * (len(fields) > 1)}: {options} (in Python {words})."
            if {"question", "answer"} <= {*fields}:
                remedy += " If a row is a question, and levels have columns: answer={level}, or answer={level}_answer."
            remedy += did_you_mean(name, header)
        if path is not None and len(header) == 1:
            remedy += " Between cells are commas, semicolons or tabs. If it is no table, every line must begin with {."
        raise ObservationError(
            problem,
            path=path,
            line=None if path is None else 1,
            expected=f"the columns {', '.join(wanted)}, each once, among {abridged(there, 600)}",
            remedy=remedy,
        )

    def known(self, header: Iterable[str]) -> dict[str, str]:
        """Return which columns of a table are read: their names by ours. One of theirs may hide one of our names."""
        ours = dict.fromkeys(map(_our_name, NAMED)) | {their: our for our, their in self.spelling.items()}
        named = {ours.get(name, name) or "": name for name in header}
        return {our: name for our, name in named.items() if our in COLUMNS or SIGNALS.holds(our) or NUMBERS.holds(our)}


def levels_of(form: str, header: Iterable[str]) -> dict[str, str]:
    """Return the columns whose names have a form, by what stands there for the level, or else by their names."""
    pattern = re.compile(re.escape(form).replace(re.escape(LEVEL), "(.*)", 1), re.DOTALL)
    return {match[match.lastindex or 0]: match[0] for match in map(pattern.fullmatch, header) if match}


def _our_name(field: str) -> str:
    return _OURS.get(field, field)


#: The attributes of :class:`Columns` that name a column.
NAMED = tuple(name for name in Columns.__dataclass_fields__ if _our_name(name) in (*COLUMNS, RUN))
#: Those with a column for each level where a row is a question, and the form of its name.
WIDE: dict[str, Any] = {
    name: f"{name}_{LEVEL}" for name in NAMED if name in OF_OBSERVATION and name not in ("level", "group")
}
