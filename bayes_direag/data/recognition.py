"""The columns of a table, told by what is in them where nothing names them.

With a row a report, a question repeats, and a level occurs once a question, so that most questions have most levels.
Right answers are one a question, and some answers equal them. Confidences are numbers from 0 to 100, nearly all whole,
or from 0 to 1. With a row a question, columns whose names differ in one part are a field of several levels. Where two
columns would do, it is an error that names both.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, product
from typing import Literal, get_args

import numpy as np

from bayes_direag.data.answers import AnswerKind, same_answer
from bayes_direag.data.columns import LEVEL, WIDE, Columns
from bayes_direag.data.plain import is_percentage, percentage
from bayes_direag.data.records import NUMBERS, SIGNALS
from bayes_direag.data.runs import is_word_for_runs
from bayes_direag.data.source_table import RowTable, number_of
from bayes_direag.errors import ObservationError

Field = Literal["question", "level", "answer", "confidence", "gold"]
_KINDS: tuple[AnswerKind, ...] = ("text", "numeric", "choice")

#: More than this share of all pairs of a question and a level must have a report, and there are at most so many levels.
#: A question has more than so many reports on average.
_PAIRS, _LEVELS, _REPORTS = 0.5, 100, 1.5
#: Of so many rows of so many levels side by side, this share must have an answer equal to the right one; a second best
#: must be this much worse.
_ROWS, _COMPARED, _EQUAL, _WORSE = 500, 5, 0.05, 0.8
#: The share of confidences that must be whole, unless all are fractions.
_WHOLE = 0.9
#: The most columns among which those of levels are looked for.
_MOST_COLUMNS = 200


def recognised(rows: RowTable, names: Columns) -> Columns:
    """Return the names of the columns of a table, told by what is in them where they are neither ours nor given.

    What cannot be told keeps its name. Raises ObservationError where two columns would do.
    """
    header, ours = {*rows.header}, Columns()
    if len(header) < len(rows.header):
        return names
    if not names.needs_labels and names.answer not in header and {ours.question, ours.answer} <= header:
        return replace(ours, needs_labels=False, groups=names.groups)  # a fit to another's table, and one of ours
    is_free = names.answer == ours.answer and not {ours.answer, names.level, names.group} & header
    if is_free and names.question in header and any(name.startswith("answer_") for name in header):
        return replace(names, **WIDE | {"confidence": names.confidence and WIDE["confidence"]})
    named: dict[Field, str] = {field: vars(names)[field] or "" for field in get_args(Field)}
    fixed = {field: name for field, name in named.items() if name != vars(ours)[field] or name in header}
    verdicts = {*header} & {names.correct} if _may_be_verdicts(rows, names.correct) else set()
    is_labelled = names.needs_labels and not verdicts
    needed = {*named} - ({"level"} if names.group in header else set()) - (set() if is_labelled else {"gold"})
    if needed <= fixed.keys() or LEVEL in fixed.get("answer", "") or not len(rows.line):
        return names
    taken = {part.strip() for name in fixed.values() for part in name.split(",")}
    taken |= verdicts | {names.cluster, names.weight, names.group, *names.signals.values(), *names.numbers}
    ends = [form.split(LEVEL) for form in names.signals.values() if LEVEL in form]
    taken |= {name for name in header for before, after in ends if name.startswith(before) and name.endswith(after)}
    beside_answers = {name.replace("answer", "confidence", 1) for name in header if name.startswith("answer_")}
    left = [
        name
        for name in rows.header
        if name not in taken and not NUMBERS.holds(name) and (name in beside_answers or not SIGNALS.holds(name))
    ]
    told = _Table(rows, fixed, left, is_labelled=is_labelled).columns()
    if is_labelled and fixed.get("answer") == ours.answer and not {"level", "gold"} & (fixed.keys() | told.keys()):
        others: dict[Field, str] = {field: name for field, name in fixed.items() if field != "answer"}
        with suppress(ObservationError):  # `answer` may be the right one, beside levels side by side
            beside = _Table(rows, others, [*left, ours.answer], is_labelled=True).columns()
            if LEVEL in beside.get("answer", ""):
                fixed, told = others, beside
    return replace(names, **{field: name or None for field, name in told.items() if field not in fixed})  # type: ignore[arg-type]


class _Table:
    """A table of which some columns are named (``fixed``), and others are ``left``."""

    def __init__(self, rows: RowTable, fixed: Mapping[Field, str], left: Sequence[str], *, is_labelled: bool) -> None:
        self.rows, self.fixed, self.left, self.is_labelled = rows, fixed, left, is_labelled
        self._counts: dict[tuple[str, ...], int] = {}
        self._columns: dict[str, set[str]] = {}  # of each form of levels side by side

    def columns(self) -> dict[Field, str]:
        """Return the columns that can be told; a confidence is "" if there is none."""
        pair = self.question_and_level()
        is_once = pair is None or self.n(pair[0]) == len(self.rows.line)
        side_by_side = self.side_by_side() if is_once and "level" not in self.fixed else {}
        if side_by_side or pair is None:
            return side_by_side
        question, level = pair
        left = [name for name in self.left if name not in (question, *level.split(","))]
        one_each = [name for name in left if self.n(question, name) == self.n(question, beside=name)]
        varying = left if is_once else [name for name in left if name not in one_each]
        forms = {name: {"": name} for name in [*varying, *filter(None, [self.fixed.get("answer")])]}
        told: dict[Field, str] = {"question": question, "level": level}
        return told | self.of_reports(forms, one_each)

    def question_and_level(self) -> tuple[str, str] | None:
        """Return the columns of question and level of a table with a row a report; None if it is none."""
        n, whole = len(self.rows.line), [name for name in self.left if self.rows.column(name).given.all()]
        questions = [self.fixed["question"]] if "question" in self.fixed else whole
        levels: list[tuple[str, ...]] = [(name,) for name in whole if 1 < self.n(name) <= _LEVELS]
        pairs_of_levels = [one + other for one, other in combinations(levels, 2)]
        if is_named := "level" in self.fixed:
            levels, pairs_of_levels = [tuple(map(str.strip, self.fixed["level"].split(",")))], []
        runs = [name for name in self.rows.header if is_word_for_runs(name)][:1]
        for of_level, run in ((levels, []), (levels, runs), (pairs_of_levels, [])):
            pairs = [
                (question, level)
                for question, level in product(questions, of_level)
                if question not in level
                and (is_named or self.n(*level) <= self.n(question))
                and n > _PAIRS * self.n(question) * self.n(*level)
                and (is_named or n > _REPORTS * self.n(question))
                and self.n(question, *level, *run) == n
            ]
            if pairs:
                question, level = (dict.fromkeys(names) for names in zip(*pairs, strict=True))
                return self.one_of("question", question), self.one_of("level", map(",".join, level))
        return None

    def side_by_side(self) -> dict[Field, str]:
        """Return the columns of a table with a row a question, and levels side by side; empty if it is none."""
        names, forms = self.left[:_MOST_COLUMNS], dict[str, dict[str, str]]()
        for form in {_form(*pair) for pair in combinations(names, 2)} - {LEVEL}:
            before, after = form.split(LEVEL)
            of_form = (name for name in names if name.startswith(before) and name.endswith(after))
            forms[form] = {name[len(before) : len(name) - len(after)]: name for name in of_form}
        columns = self._columns = {form: {*of_level.values()} for form, of_level in forms.items()}
        apart = [name for name in names if not any(name in others for others in columns.values())]
        told = self.of_reports(dict(sorted(forms.items())), apart, are_levels=True)
        if "answer" not in told:
            return {}
        used = {told.get("gold")}.union(*(columns.get(told[field], ()) for field in ("answer", "confidence")))
        question = [name for name in names if name not in used and self.n(name) == len(self.rows.line)][:1]
        return told | ({"question": question[0]} if question else {})

    def of_reports(
        self, forms: Mapping[str, Mapping[str, str]], golds: Sequence[str], *, are_levels: bool = False
    ) -> dict[Field, str]:
        """Return which forms, of columns by level, hold answers and confidences, and which column right answers."""
        golds = [self.fixed["gold"]] if "gold" in self.fixed else golds if self.is_labelled else []
        stated = [form for form, names in forms.items() if all(map(self.holds_confidences, names.values()))]
        equal = {
            form: {gold: self.equal([*names.values()], gold) for gold in golds if gold not in names.values()}
            for form, names in forms.items()
            if form == self.fixed.get("answer", form)
        }
        texts = [
            form
            for form in equal
            if form not in stated and (not are_levels or any(forms[form].keys() == forms[s].keys() for s in stated))
        ]
        answer = self.best("answer", {form: max(shares.values(), default=0.0) for form, shares in equal.items()})
        answer = answer or self.only("answer", texts)
        gold = self.best("gold", equal.get(answer, {}))
        levels = forms[answer].keys() if answer in forms else None
        others = [form for form in stated if not levels or forms[form].keys() <= levels or form == WIDE["confidence"]]
        confidence = self.only("confidence", [form for form in others if form not in (answer, gold)])
        told: dict[Field, str] = {"answer": answer, "confidence": confidence, "gold": gold}
        return {field: name for field, name in told.items() if name or field == "confidence"}

    def n(self, *names: str, beside: str | None = None) -> int:
        """Return the number of different values of columns together, where all of them, and ``beside``, have one."""
        key = (*names, f"given {beside}")
        if key not in self._counts:
            code = np.stack([self.rows.column(name).code for name in (*names, beside or names[0])])
            number = np.zeros(code.shape[1], np.int64)
            for of_name in code[:-1]:
                number = np.unique(number * (of_name.max() + 2) + of_name, return_inverse=True)[1]
            self._counts[key] = len(np.unique(number[(code >= 0).all(axis=0)]))
        return self._counts[key]

    def equal(self, answers: Sequence[str], gold: str) -> float:
        """Return the share of answers that equal the right one, as texts, numbers or letters."""
        right, n_equal, n = self.rows.column(gold), 0, 0
        # from the first to the last, as confidences may stand behind the answers under names of one form
        for number in np.linspace(0, len(answers) - 1, min(_COMPARED, len(answers)), dtype=int):
            said = self.rows.column(answers[number])
            rows = np.flatnonzero(said.given & right.given)[:_ROWS]
            pairs, counts = np.unique(np.column_stack([said.code[rows], right.code[rows]]), axis=0, return_counts=True)
            for (a, g), count in zip(pairs.tolist(), counts.tolist(), strict=True):
                n_equal += count * any(same_answer(str(said.values[a]), str(right.values[g]), kind) for kind in _KINDS)
                n += count
        return n_equal / max(n, 1)

    def holds_confidences(self, name: str) -> bool:
        """Tell whether a column holds two or more numbers from 0 to 1, with % to 100, or nearly whole ones to 100."""
        column = self.rows.column(name)
        numbers = [number_of(percentage(value)) for value in column.values]
        if len(numbers) < 2 or any(
            isinstance(number, bool) or not isinstance(number, int | float) for number in numbers
        ):
            return False
        stated = np.array(numbers, float)[column.code[column.given]]
        unsigned = stated[~np.array([*map(is_percentage, column.values)])[column.code[column.given]]]
        are_shares = unsigned.max(initial=0) <= 1 or np.mean(unsigned % 1 == 0) >= _WHOLE
        return bool(stated.min() >= 0 and stated.max() <= 100 and are_shares)

    def best(self, field: Field, share: Mapping[str, float]) -> str:
        """Return the column with the largest share; "" if none is large enough."""
        least = max(_EQUAL, _WORSE * max(share.values(), default=0.0))
        return self.only(field, [name for name in share if share[name] >= least])

    def only(self, field: Field, names: Sequence[str]) -> str:
        """Return the only column; "" if there is none, or the field is named. Of forms, one with all levels counts."""
        columns = {name: self._columns.get(name, {name}) for name in names}
        names = [name for name in names if not any(columns[name] < more for more in columns.values())]
        return self.one_of(field, names) if names and field not in self.fixed else self.fixed.get(field, "")

    def one_of(self, field: Field, names: Iterable[str]) -> str:
        """Return the first of columns that part the rows alike; raise ObservationError for others."""
        first, *others = names
        for other in others:
            both = first.split(","), other.split(",")
            if LEVEL in first or len({self.n(*parts) for parts in (*both, both[0] + both[1])}) > 1:
                word = {"gold": "right answer"}.get(field, field)
                raise ObservationError(
                    f"two columns may hold the {word}: {first} and {other}",
                    path=self.rows.path,
                    expected="the name of one of them",
                    remedy=f"Name it: --column {field}={first} (in Python {field}={first!r}), or {other}"
                    + (
                        f", or --column confidence= (None) if there is none; --column signal.NAME={other} if it is "
                        "another signal."
                        if field == "confidence"
                        else "."
                    ),
                )
        return first


def _may_be_verdicts(rows: RowTable, name: str) -> bool:
    """Tell whether some value of a column, if there is one, says whether a report is right: else it may be answers."""
    words = {str(value).casefold() for value in rows.column(name).values} if name in rows.header else set()
    return not words or bool(words & {"true", "false", "yes", "no", "0", "1"})


def _form(one: str, other: str) -> str:
    """Return the form of two names that differ in one part between signs or numbers, such as ``{level}_reply``.

    Of ``gpt-4_reply`` and ``gpt-4-mini_reply`` this part is all before the last sign, as one level begins the other.
    """
    parts, others = (re.findall(r"\d+|[^\W\d_]+|[\W_]", name) for name in (one, other))
    before = _n_alike(parts, others)
    after = _n_alike(parts[before:][::-1], others[before:][::-1])
    if before + after >= min(len(parts), len(others)):
        before, after = (0, after) if after >= 2 else (2, 0) if before > 2 else (0, 0)
    return "".join([*parts[:before], LEVEL, *parts[len(parts) - after :]])


def _n_alike(parts: Sequence[str], others: Sequence[str]) -> int:
    pairs = enumerate(zip(parts, others, strict=False))
    return next((n for n, (part, other) in pairs if part != other), min(len(parts), len(others)))
