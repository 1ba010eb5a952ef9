"""The columns of a table, told by what is in them where nothing names them.

What a column means is what its content bears out, in one place for each meaning (:class:`_Table`):

question, level    most pairs of both have one report; whole numbers that tell repeated reports apart are runs
gold               says the same in all reports of a question, and some answers equal it
answer             equals a right answer, and differs between reports; without right ones, repeats
confidence         numbers from 0 to 1, or nearly whole ones to 100, called so or larger where answers are right
levels             columns whose names differ in one part, of a row a question, but keys and what agrees with no other
verdict            one for one answer of a question

Our own name of an answer or a verdict is no more than a reason to look there first. Where two columns would do, or
content contradicts a name, it is an error that names both and the option that decides.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations, product, takewhile
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from bayes_direag.data.answers import AnswerKind, canonical, same_answer
from bayes_direag.data.columns import IN_ORDER, LEVEL, WIDE, Columns, Ours, levels_of
from bayes_direag.data.plain import flag, is_percentage, percentage
from bayes_direag.data.records import NUMBERS, SIGNALS
from bayes_direag.data.runs import is_word_for_runs
from bayes_direag.data.source_table import DictionaryColumn, RowTable, number_of, whole
from bayes_direag.errors import ColumnsWarning, ObservationError, abridged

Field = Literal["question", "level", "answer", "confidence", "gold"]
_KINDS: tuple[AnswerKind, ...] = ("text", "numeric", "choice")

#: More than this share of all pairs of a question and a level must have a report, and there are at most so many levels.
#: A question has more than so many reports on average.
_PAIRS, _LEVELS, _REPORTS = 0.5, 100, 1.5
#: Of so many rows of so many levels side by side, this share must have an answer equal to the right one; a second best
#: must be this much worse.
_ROWS, _COMPARED, _EQUAL, _WORSE = 500, 5, 0.05, 0.8
#: The share of confidences that must be whole, unless all are fractions.
WHOLE = 0.9
#: Confidences without a name correlate so much with what is right, and by so many standard errors.
_LARGER, _CLEARLY = 0.1, 3.0
#: So many rows are looked at for keys and verdicts.
_MOST_ROWS = 5000
#: The fewest questions of which one says what a column means.
_FEWEST = 3
#: Verdicts that call a larger share of answers wrong that equal the right one, of so many or more, are none.
_CONTRADICTED, _JUDGED = 0.8, 8
#: The most columns among which those of levels are looked for.
_MOST_COLUMNS = 200
#: Words in the names of confidences; of keys among levels side by side; of columns that hold no answers; and of numbers
#: that are no runs.
_CONFIDENCES = re.compile(r"conf|confidences?|certain(ty)?|sure(ness)?|prob(a|ability)?|p")
_KEYS = re.compile(
    r"ref(erence)?|expected|gold(en)?|target|key|truth|correct|labels?|solution|final|adjudicated|consensus"
)
_MEASURES = "tokens?|costs?|price|times?|latency|duration|sec(ond)?s?|ms|ids?|date|len(gth)?|count|n|chars|words"
_NO_CONFIDENCES = re.compile(_MEASURES)
_NO_ANSWERS = re.compile(f"{_MEASURES}|prompt|scores?|reasoning|rationale|explanation")
_CONDITIONS = re.compile(
    r"prompts?|template|temp(erature)?|variant|version|model|level|size|layer|checkpoint|steps?|shots?|k|depth|persona"
    r"|language|round|turn"
)


def recognised(rows: RowTable, names: Columns) -> Columns:
    """Return the names of the columns of a table, told by what is in them where they are neither ours nor given.

    What cannot be told keeps its name. Raises ObservationError where two columns would do.
    """
    header, ours = {*rows.header}, Columns()
    if len(header) < len(rows.header):
        return names
    if not names.needs_labels and names.answer not in header and {ours.question, ours.answer} <= header:
        return replace(ours, needs_labels=False, groups=names.groups)  # a fit to another's table, and one of ours
    is_free = isinstance(names.answer, Ours) and not {ours.answer, names.level, names.group} & header
    if is_free and names.question in header and any(name.startswith("answer_") for name in header):
        names = replace(names, **WIDE | {"confidence": names.confidence and WIDE["confidence"]})
    elif len(rows.line):
        names = _named(rows, names)
    return _with_levels(rows, names) if LEVEL in names.answer else _with_verdicts(rows, names)


def _named(rows: RowTable, names: Columns) -> Columns:
    header = {*rows.header}
    named: dict[str, str] = {field: vars(names)[field] or "" for field in get_args(Field)}
    fixed = {field: name for field, name in named.items() if not isinstance(name, Ours) or name in header}
    verdicts = [names.correct] if names.correct in header and _may_be_verdicts(rows, names.correct) else []
    is_labelled = names.needs_labels and not verdicts
    needed = {*named} - ({"level"} if names.group in header else set()) - (set() if is_labelled else {"gold"})
    of_reports = (*verdicts, names.group, names.run, *names.signals.values())
    forms = [part.strip() for name in fixed.values() for part in name.split(",")]
    forms += filter(None, (*of_reports, names.cluster, names.weight, *names.numbers))
    taken = {name for form in forms for name in levels_of(form, header).values()}
    beside_answers = {name.replace("answer", "confidence", 1) for name in header if name.startswith("answer_")}
    taken |= {name for name in header - beside_answers if SIGNALS.holds(name)}
    left = [name for name in rows.header if name not in taken and not NUMBERS.holds(name)]
    table = _Table(rows, fixed, left, is_labelled, (*verdicts, "")[0])
    if needed <= fixed.keys() and not ({"question", "level"} <= fixed.keys() and table.may_be_right(fixed["question"])):
        return names
    told = {**fixed, **table.columns()}
    return replace(names, **{field: name or None for field, name in told.items() if name != (vars(names)[field] or "")})  # type: ignore[arg-type]


def scaled(names: Columns, columns: Mapping[str, DictionaryColumn]) -> Columns:
    """Return the names with the scale of fractions, if none is given and all confidences without a sign are such."""
    if names.scale is not None or not names.needs_labels:
        return names
    stated = [column for name, column in columns.items() if name == "confidence" or SIGNALS.holds(name)]
    numbers: list[Any] = [percentage(value) for column in stated for value in column.values if not is_percentage(value)]
    are_fractions = all(type(number) in (int, float) and number <= 1 for number in numbers)
    return replace(names, scale="fraction") if are_fractions and any(0 < number < 1 for number in numbers) else names


def tell(asked: Columns, names: Columns, rows: RowTable, levels: DictionaryColumn) -> None:
    """Warn of what was told by the content of a table, and how to change it."""
    ours = {name: (vars(asked)[name], getattr(Columns, name), WIDE.get(name)) for name in (*get_args(Field), "run")}
    told = {name: vars(names)[name] or "none" for name in ours if vars(names)[name] not in ours[name]}
    last = "level" if "level" in told else ("", *told)[-1]
    options = [f"--column {last}=NAME (in Python {last}='NAME')"] if told else []
    options += ["--groups none"] if "run" in told else []
    options += ["--column confidence=NAME"] if told.get("confidence") == "none" and last != "confidence" else []
    shown = abridged(", ".join(map(str, levels.values)), 200)
    if LEVEL in names.answer and (told or names.levels != asked.levels):
        every = replace(names, levels=None).side_by_side(rows.header)
        others = abridged(", ".join(level for level in every if level not in levels.values), 200)
        told["levels"] = shown + (f" (not {others})" if others else "")
        options += ["--column levels=NAME,NAME"] if others else []
    elif "level" in told:
        told["level"] += f" ({shown})"
    if names.scale != asked.scale:
        told["scale"] = "fraction, since all confidences without % lie in 0 to 1"
        options.append("--scale percent (scale='percent')")
    if told:
        taken = ", ".join(f"{name} {column}" for name, column in told.items())
        remark = f"{rows.path or 'the table'}, by what is in it: {taken}.\nTo change it: {', '.join(options)}."
        warnings.warn(remark, ColumnsWarning, stacklevel=2)


@dataclass
class _Table:
    """A table of which some columns are named (``fixed``) and others ``left``; a ``verdict`` says what is right."""

    rows: RowTable
    fixed: Mapping[str, str] = field(default_factory=dict)
    left: Sequence[str] = ()
    is_labelled: bool = True
    verdict: str = ""
    must_agree: bool = False  # answers must equal right ones
    _counts: dict[tuple[str, ...], int] = field(default_factory=dict)
    _columns: dict[str, set[str]] = field(default_factory=dict)  # of each form of levels side by side

    def columns(self) -> dict[str, str]:
        """Return the columns that can be told; a confidence is "" if there is none.

        An answer under our own name that says the same in all reports of a question is right, if another agrees.
        """
        pair, own = self.question_and_level(), self.fixed.get("answer", "")
        if self.may_be_right(None if pair is None else pair["question"]):
            others = {name: column for name, column in self.fixed.items() if name != "answer"}
            told = _Table(self.rows, others, [str(own), *self.left], must_agree=True).told(pair)
            if "answer" in told:
                return {name: column for name, column in told.items() if name != "gold" or self.is_labelled}
            if pair and "gold" not in self.fixed:
                self.refuse_prose(own, pair["question"])
        return self.told(pair)

    def may_be_right(self, question: str | None) -> bool:
        """Tell whether the answer, named by us alone, says the same in all reports of questions with several."""
        own = self.fixed.get("answer")
        if not isinstance(own, Ours) or not self.left or not (self.is_labelled or self.verdict):
            return False
        if question is None:  # a row a question
            return not {"level", "gold"} & self.fixed.keys() and self.is_labelled
        rows = self.rows.column(question).code[self.rows.column(own).given]
        return int(np.count_nonzero(np.bincount(rows[rows >= 0]) > 1)) >= _FEWEST and self.is_about(question, own)

    def refuse_prose(self, own: str, question: str) -> None:
        """Raise ObservationError if texts of several words differ between reports whose answers do not."""
        for name in (name for name in self.left if not self.is_about(question, name)):
            values = self.rows.column(name).values
            if values and sum(len(str(value).split()) for value in values) >= 3 * len(values):
                raise ObservationError(
                    f"{own} says the same in all reports of every question, as right answers do, and {name} does not",
                    path=self.rows.path,
                    expected="answers in a column of their own",
                    remedy=f"If it has the answers: --column answer={own} (in Python answer={str(own)!r}). If it has "
                    f"the right ones, name that of the answers: --column gold={own} --column answer={name}.",
                )

    def told(self, pair: Mapping[str, str] | None) -> dict[str, str]:
        """Return the columns beside those of question and level, or of levels side by side."""
        is_once = pair is None or self.n(pair["question"]) == len(self.rows.line)
        side_by_side = self.side_by_side() if is_once and "level" not in self.fixed else {}
        if side_by_side or pair is None:
            return side_by_side
        used = {part for name in pair.values() for part in name.split(",")}
        left = [name for name in self.left if name not in used and not is_word_for_runs(name)]
        about = [name for name in left if self.is_about(pair["question"], name)]
        varying = left if is_once else [name for name in left if name not in about]
        forms = {name: {"": name} for name in [*varying, *filter(None, [self.fixed.get("answer")])]}
        return {**pair, **self.of_reports(forms, about)}

    def is_about(self, question: str, name: str) -> bool:
        """Tell whether a column says the same in all rows of every question."""
        return self.n(question, name) == self.n(question, beside=name)

    def question_and_level(self) -> dict[str, str] | None:
        """Return the columns of question, level and perhaps run of a table with a row a report; None if it is none."""
        whole_columns = [name for name in self.left if self.rows.column(name).given.all()]
        questions = [self.fixed["question"]] if "question" in self.fixed else whole_columns
        levels: list[tuple[str, ...]] = [(name,) for name in whole_columns if 1 < self.n(name) <= _LEVELS]
        pairs_of_levels = [one + other for one, other in combinations(levels, 2)]
        if "level" in self.fixed:
            levels, pairs_of_levels = [tuple(map(str.strip, self.fixed["level"].split(",")))], []
        runs = [name for name in self.rows.header if is_word_for_runs(name)][:1]
        runs += [name for name in whole_columns if name not in runs and self.numbers_runs(name)]
        of_runs = [(levels, run) for run in runs]
        for of_level, run in ((levels, ""), *of_runs, (pairs_of_levels, ""), (levels, IN_ORDER)):
            if pairs := [pair for pair in product(questions, of_level) if self.are_reports(*pair, run)]:
                question, level = (dict.fromkeys(names) for names in zip(*pairs, strict=True))
                told = {"question": self.only("question", question), "level": self.only("level", map(",".join, level))}
                return told | ({"run": run} if run not in ("", IN_ORDER) else {})
        return None

    def are_reports(self, question: str, level: tuple[str, ...], run: str) -> bool:
        """Tell whether most pairs of a question and a level, of one of the runs, have a report."""
        n, n_questions, is_named = len(self.rows.line), self.n(question), "level" in self.fixed
        if {question, run} & {*level} or question == run or (self.n(*level) > n_questions and not is_named):
            return False
        if run == IN_ORDER:  # all pairs are there, and equally often
            n_pairs = self.n(question, *level)
            return n_pairs == n_questions * self.n(*level) and n % n_pairs == 0 and n // n_pairs < n_questions
        of_level = (*level, run) if run else level
        is_several = (is_named or n > _REPORTS * n_questions) and (not run or self.n(run) < n_questions)
        return is_several and n > _PAIRS * n_questions * self.n(*of_level) and self.n(question, *of_level) == n

    def numbers_runs(self, name: str) -> bool:
        """Tell whether a column holds whole numbers that may be those of runs."""
        values = [whole(number_of(value)) for value in self.rows.column(name).values[: _LEVELS + 1]]
        are_whole = all(type(value) is int for value in values)
        return are_whole and 1 < len(values) <= _LEVELS and not (_says(name, _CONDITIONS) or _says(name, _CONFIDENCES))

    def side_by_side(self) -> dict[str, str]:
        """Return the columns of a table with a row a question, and levels side by side; empty if it is none."""
        names = self.left[:_MOST_COLUMNS]
        forms = {_form(*pair): dict[str, str]() for pair in combinations(names, 2)}
        forms = {form: levels_of(form, names) for form in sorted(forms.keys() - {LEVEL})}
        columns = self._columns = {form: {*of_level.values()} for form, of_level in forms.items()}
        apart = [name for name in names if not any(name in others for others in columns.values())]
        keys = {name for of_level in forms.values() for level, name in of_level.items() if _says(level, _KEYS)}
        told = self.of_reports(forms, apart)
        told = told if "gold" in told else self.of_reports(forms, [*apart, *sorted(keys)])
        if "answer" not in told:
            return {}
        used = {told.get("gold")}.union(*(columns.get(told[field], ()) for field in ("answer", "confidence")))
        once = [name for name in names if name not in used and self.n(name) == len(self.rows.line)]
        return told | {"question": self.fixed.get("question", once[0])} if once else told

    def of_reports(self, forms: Mapping[str, Mapping[str, str]], golds: Sequence[str]) -> dict[str, str]:
        """Return which forms, of columns by level, hold answers and confidences, and which column right answers."""
        golds = [self.fixed["gold"]] if "gold" in self.fixed else golds if self.is_labelled else []
        names = {form: [*of_form.values()] for form, of_form in forms.items()}
        stated = [form for form in forms if all(map(self.holds_confidences, names[form]))]
        asked = [form for form in forms if form == self.fixed.get("answer", form)]
        equal = {
            form: {gold: self.equal(names[form], gold) for gold in golds if names[form] != [gold]} for form in asked
        }
        answer = self.best("answer", {form: max(shares.values(), default=0.0) for form, shares in equal.items()})
        if not (answer or self.must_agree):
            levels_of_stated = [forms[form].keys() for form in stated]
            texts = [f for f in asked if f not in stated and (LEVEL not in f or forms[f].keys() in levels_of_stated)]
            single = [f for f in texts if LEVEL not in f and not _says(f, _NO_ANSWERS)]
            repeated = [form for form in single if self.n(form) < len(self.rows.line)]
            answer = self.only("answer", repeated or texts)
        gold = self.best("gold", equal.get(answer, {}))
        levels = forms[answer].keys() if answer in forms else None
        others = [form for form in stated if form not in (answer, gold)]
        others = [form for form in others if not levels or forms[form].keys() <= levels or form == WIDE["confidence"]]
        named = [form for form in others if _says(form.replace(LEVEL, ""), _CONFIDENCES)]
        unnamed = [form for form in others if answer in forms and not named and not _says(form, _NO_CONFIDENCES)]
        larger = [form for form in unnamed if self.is_larger(forms[form], forms[answer], gold)]
        told = {"answer": answer, "confidence": self.only("confidence", named or larger), "gold": gold}
        return {field: name for field, name in told.items() if name or field == "confidence"}

    def is_larger(self, stated: Mapping[str, str], answers: Mapping[str, str], gold: str) -> bool:
        """Tell whether numbers are clearly larger where answers are right, within levels."""
        numbers, are_right = [np.zeros(0)], [np.zeros(0)]
        for level in stated.keys() & answers.keys():
            column = self.rows.column(stated[level]).changed(lambda value: number_of(percentage(value)))
            pairs = np.stack([column.numbers(), self.right(answers[level], gold)])
            values, right = pairs[:, ~np.isnan(pairs).any(axis=0)]
            numbers.append(values - (values.mean() if len(values) else 0))
            are_right.append(right)
        number, is_right = np.concatenate(numbers), np.concatenate(are_right)
        fewest = min(np.count_nonzero(is_right), np.count_nonzero(is_right == 0))
        if fewest < _FEWEST or not number.any() or all(self.n(name) < 3 for name in stated.values()):
            return False
        return bool(np.corrcoef(number, is_right)[0, 1] > max(_LARGER, _CLEARLY / np.sqrt(len(number))))

    def right(self, answers: str, gold: str, most: int = _ROWS) -> Float[np.ndarray, " row"]:
        """Return whether answers are right, by the right ones or else by the verdicts; NaN where that is not known."""
        is_right = np.full(len(self.rows.line), np.nan)
        if gold or self.verdict:
            said, judged = self.rows.column(answers), self.rows.column(gold or self.verdict)
            rows = np.flatnonzero(said.given & judged.given)[: most if gold else None]
            flags = np.array([*(flag(str(value)) is True for value in judged.values), False])
            equal = cache(lambda a, g: any(same_answer(str(said.values[a]), str(judged.values[g]), k) for k in _KINDS))
            pairs = zip(said.code[rows].tolist(), judged.code[rows].tolist(), strict=True)
            is_right[rows] = [equal(*pair) for pair in pairs] if gold else flags[judged.code[rows]]
        return is_right

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
        answers = [name for name in answers if name != gold]
        # from the first to the last, as confidences may stand behind the answers under names of one form
        numbers = np.linspace(0, len(answers) - 1, min(_COMPARED, len(answers)), dtype=int).tolist()
        is_right = np.concatenate([np.zeros(0), *(self.right(answers[number], gold) for number in numbers)])
        return float(np.nansum(is_right) / max(np.count_nonzero(~np.isnan(is_right)), 1))

    def holds_confidences(self, name: str) -> bool:
        """Tell whether a column holds two or more numbers from 0 to 1, with % to 100, or nearly whole ones to 100."""
        column = self.rows.column(name)
        numbers = [number_of(percentage(value)) for value in column.values]
        if len(numbers) < 2 or not {*map(type, numbers)} <= {int, float}:
            return False
        code = column.code[column.given]
        stated = np.array(numbers, float)[code]
        unsigned = stated[~np.array([*map(is_percentage, column.values)])[code]]
        are_shares = unsigned.max(initial=0) <= 1 or np.mean(unsigned % 1 == 0) >= WHOLE
        return bool(stated.min() >= 0 and stated.max() <= 100 and are_shares)

    def best(self, field: Field, share: Mapping[str, float]) -> str:
        """Return the column with the largest share; "" if none is large enough."""
        least = max(_EQUAL, _WORSE * max(share.values(), default=0.0))
        return self.only(field, [name for name in share if share[name] >= least])

    def only(self, field: Field, names: Iterable[str]) -> str:
        """Return the only column, or the first of those that part the rows alike; "" if there is none.

        A named one stays, and of forms one with all levels counts. Raises ObservationError if two others would do.
        """
        columns = {name: self._columns.get(name, {name}) for name in names}
        kept = [name for name in columns if not any(columns[name] < more for more in columns.values())]
        if field in self.fixed or not kept:
            return self.fixed.get(field, "")
        first, *others = kept
        for other in others:
            both = first.split(","), other.split(",")
            if LEVEL in first or len({self.n(*parts) for parts in (*both, both[0] + both[1])}) > 1:
                none = f"if there is none; --column signal.NAME={other} if it is another signal."
                raise ObservationError(
                    f"two columns may hold the {'right answer' if field == 'gold' else field}: {first} and {other}",
                    path=self.rows.path,
                    expected="the name of one of them",
                    remedy=f"Name it: --column {field}={first} (in Python {field}={first!r}), or {other}"
                    + (f", or --column confidence= (None) {none}" if field == "confidence" else "."),
                )
        return first


def _with_levels(rows: RowTable, names: Columns) -> Columns:
    """Return the names with the levels that stand side by side, where further columns are named like theirs.

    Keys are named so, or right in every row, and what holds no answers is named so, or never agrees with another level.
    """
    if names.levels is not None:
        return names
    columns, table = names.side_by_side(rows.header), _Table(rows)
    left_out = {level for level in columns if _says(level, _KEYS) or _says(level, _NO_ANSWERS)}
    said = {level: name for level, name in columns.items() if level not in left_out and names.needs_labels}
    gold = names.gold if names.gold in rows.header else ""
    n_known = min(int(rows.column(gold).given.sum()), _MOST_ROWS) if gold else 0
    n_right = {level: np.nansum(table.right(name, gold, _MOST_ROWS)) for level, name in said.items()}
    if _FEWEST < n_known > min(n_right.values(), default=0):
        left_out |= {level for level, n in n_right.items() if n == n_known}
    alike = {level for level, n in n_right.items() if n}
    pairs = [pair for pair in combinations(said, 2) if not {*pair} <= alike]
    alike |= {level for a, b in pairs if np.nansum(table.right(said[a], said[b])) for level in (a, b)}
    left_out |= {*said} - alike if len(rows.line) > _FEWEST and alike else set()
    kept = tuple(level for level in columns if level not in left_out)
    return replace(names, levels=kept) if 0 < len(kept) < len(columns) else names


def _with_verdicts(rows: RowTable, names: Columns) -> Columns:
    """Return the names with right answers in the place of verdicts that are the same for different answers.

    Raises ObservationError if these may be either, if most answers have both verdicts in one question, or if nearly
    all that equal the right answer are judged wrong.
    """
    is_asked = names.needs_labels and isinstance(names.correct, Ours) and _may_be_verdicts(rows, names.correct)
    if not is_asked or not {names.question, names.answer, names.correct} <= {*rows.header}:
        return names
    question, answer, correct = names.question, names.answer, str(names.correct)
    table, gold = _Table(rows, verdict=correct), str(names.gold) if names.gold in rows.header else ""
    said = rows.column(answer).changed(lambda value: canonical(str(value), "numeric") or canonical(str(value), "text"))
    columns = [column.take(np.arange(len(rows.line))[:_MOST_ROWS]) for column in map(rows.column, (question, correct))]
    code = np.column_stack([columns[0].code, DictionaryColumn.of(said.objects()[:_MOST_ROWS]).code, columns[1].code])
    code = code[(code >= 0).all(axis=1)]
    pairs = np.unique(code[:, :2], axis=0)
    differing = code[np.bincount(pairs[:, 0], minlength=1)[code[:, 0]] > 1]
    is_constant = len(differing) > 0 and table.is_about(question, correct)
    if is_constant and table.equal([answer], correct) >= _EQUAL:
        return replace(names, gold=correct)
    n_both = len(np.unique(code, axis=0)) - len(pairs)
    verdicts = table.right(answer, "")[table.right(answer, gold) == 1]
    n_equal, n_wrong = np.count_nonzero(~np.isnan(verdicts)), np.count_nonzero(verdicts == 0)
    evidence = {
        "says the same in all reports of every question, though their answers differ": is_constant
        and len(np.unique(differing[:, 0])) >= _FEWEST
        and len(np.unique(differing[:, 2])) > 1,
        "says of most answers both, right and wrong, in one question": 2 * n_both > len(pairs) >= _FEWEST,
        f"says of nearly all answers that equal {gold} that they are wrong": n_wrong > _CONTRADICTED * n_equal
        and n_equal >= _JUDGED,
    }
    for problem in (problem for problem, is_there in evidence.items() if is_there):
        raise ObservationError(
            f"{correct} {problem}",
            path=rows.path,
            field=correct,
            expected="one verdict for one answer to a question",
            remedy=f"If it judges each answer: --column correct={correct} (in Python correct={correct!r}). If it has "
            f"the right answers: --column gold={correct}. If neither, rename it.",
        )
    return names


def _says(name: str, words: re.Pattern[str]) -> bool:
    """Tell whether a word of a name is one of these."""
    parts = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold())
    return any(map(words.fullmatch, parts))


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
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, others, strict=False)))
