"""Question sets: benchmarks by name or as published files, or tables with named columns.

Nothing is guessed. A row that is not a question is left out, and a question with an unreadable gold answer is asked
without one. Both are listed as odd rows, with line and reason. So are gold answers that a right reply may miss,
because they are rounded or have very many digits; these are kept.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from pydantic import ValidationError

from bayes_direag.data.answers import AnswerKind, canonical, infer_kind
from bayes_direag.data.plain import is_missing
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from elicitation.question_sources import HUB, TELL, Form, Record, Row, Told, hub_rows, published_form, read_rows


@dataclass(frozen=True)
class Problem:
    """One question, which can be written with its replies; raises DirEAGError if it could not.

    Attributes
    ----------
    problem_id, dataset, question : str
        Its name, unique in the set; the set it is from; its text.
    gold_answer : str or None
        The right answer, with numbers and choices in canonical form; None if it is not known.
    """

    problem_id: str
    dataset: str
    question: str
    gold_answer: str | None

    def __post_init__(self) -> None:
        given = {"problem_id": self.problem_id, "dataset": self.dataset, "question": self.question}
        given["gold_answer"] = self.gold_answer or ""
        try:
            kept = Question.model_validate(given | {"observations": ()})
        except ValidationError as error:
            field = str(error.errors(include_url=False)[0]["loc"][0])
        else:
            field = next((name for name in ("problem_id", "question") if getattr(kept, name) != given[name]), "")
        if field:
            raise DirEAGError(
                f"question {self.problem_id!r}: saw {field} {given[field][:80]!r}, which cannot be written to an "
                "observation file; expected text of whole characters that is no word for a missing value. Correct it."
            )


class OddRow(NamedTuple):
    """A row with a defect: what is odd, what was done about it, and the beginning of the row or of the odd part."""

    line: int  # its number from 1 if rows are not lines
    reason: str
    excerpt: str


@dataclass(frozen=True)
class QuestionSet:
    """Questions to ask, and the odd rows of their source.

    Attributes
    ----------
    name, kind
        The name of the set, and how its answers are compared.
    problems, odd_rows
        The questions and the odd rows, in the order of the source.
    """

    name: str
    problems: tuple[Problem, ...]
    kind: AnswerKind
    odd_rows: tuple[OddRow, ...] = ()

    def sample(self, n: int, seed: int) -> "QuestionSet":
        """Return n questions (all if there are fewer) in random order; a smaller n gives the first of these."""
        shuffled = [*self.problems]
        Random(seed).shuffle(shuffled)  # noqa: S311 (no secret)
        return replace(self, problems=tuple(shuffled[:n]))


#: The fields of a question, and the usual names of their columns.
_USUAL = {"question": ("question",), "gold": ("gold_answer", "answer"), "id": ("problem_id", "id")}
_MOST_DECIMALS = 6  # replies can hardly be expected to give more
_MOST_DIGITS = 15  # floats represent no more exactly


def load_questions(
    name_or_path: str | Path,
    *,
    limit: int | None = None,
    columns: Mapping[str, str] | None = None,
    kind: AnswerKind | None = None,
) -> QuestionSet:
    """Load a question set by name or from a file.

    Raises DirEAGError if the name is unknown, the file cannot be read or lacks the columns, no question is left, or the
    ``datasets`` library is needed and missing.

    Parameters
    ----------
    name_or_path : str or path-like
        ``gsm8k``, ``svamp`` or ``gsm_hard``, read with the Hugging Face ``datasets`` library, or a split such as
        ``gsm8k:train`` (by default the test split of GSM8K, and all of SVAMP); or a file of JSON Lines, JSON, CSV or
        TSV. A published file of one of the three benchmarks is recognised by its content. Other files need a column of
        questions, and may have one of right answers.
    limit : int, optional
        The number of questions to take, from the start.
    columns : mapping, optional
        The names of the columns of a file: of ``question`` (default ``question``), ``gold`` (``gold_answer`` or
        ``answer``) and ``id`` (``problem_id`` or ``id``).
    kind : {"numeric", "choice", "choices", "text"}, optional
        How answers are compared. By default numeric for benchmarks; for other files inferred from the gold answers
        (:func:`bayes_direag.data.answers.infer_kind`), or numeric if there are none.
    """
    if limit is not None and limit < 1:
        raise DirEAGError(f"the limit of questions is {limit}; expected at least 1. Leave it out to take them all.")
    columns = columns or {}
    name, _, split = str(name_or_path).partition(":")
    benchmark = next((form for form in TELL if form == name), None)
    if benchmark is not None:
        if columns:
            raise DirEAGError(
                f"saw names of columns for the benchmark {name}, whose columns are known. Leave them out."
            )
        rows, source = hub_rows(benchmark, split or None), split or HUB[benchmark].default[0]
        return _collect(_set_name(benchmark, source), benchmark, rows, TELL[benchmark], kind or "numeric", limit)
    path = Path(name_or_path)
    rows = read_rows(path)
    form = None if columns else published_form(rows)
    if form is not None:
        return _collect(_set_name(form, path.stem.lower()), form, rows, TELL[form], kind or "numeric", limit)
    return _collect(path.stem, path.stem, rows, _teller(path, rows, columns), kind, limit, published=False)


def _set_name(form: Form, source: str) -> str:
    """Return the name of a published set; the two parts of GSM8K must not share names of questions."""
    part = re.search(r"train|test", source) if form == "gsm8k" else None
    return f"{form}_{part[0]}" if part else form


def _teller(path: Path, rows: Sequence[Row], columns: Mapping[str, str]) -> Callable[[Record], Told]:
    """Find the columns of a table, and return the function that reads a row."""
    present = {field for row in rows if not isinstance(row.record, str) for field in row.record}
    if unknown := columns.keys() - _USUAL.keys():
        raise DirEAGError(
            f"--column {', '.join(sorted(unknown))}=: expected FIELD=NAME with one of {', '.join(_USUAL)}."
        )

    def column(field: str) -> str | None:
        named = columns.get(field)
        found = next((name for name in ((named,) if named else _USUAL[field]) if name in present), None)
        if found is None and (named or field == "question"):
            raise DirEAGError(
                f"{path}: there is no column {named or field!r}; saw {', '.join(sorted(present))}. Name the column by "
                f"--column {field}=NAME."
            )
        return found

    question, gold, name = column("question"), column("gold"), column("id")

    def tell(row: Record) -> Told:
        problem_id = row.get(name) if name else None
        return Told(str(problem_id) if problem_id else None, row.get(str(question)), row.get(gold) if gold else None)

    return tell


def _collect(
    name: str,
    dataset: str,
    rows: Sequence[Row],
    tell: Callable[[Record], Told],
    kind: AnswerKind | None,
    limit: int | None,
    *,
    published: bool = True,
) -> QuestionSet:
    """Make a question set of rows; those of a ``published`` set must all have a gold answer."""
    kept: list[tuple[int, str, str, object]] = []
    odd: list[OddRow] = []
    names: set[str] = set()
    for position, (line, record) in enumerate(rows):
        if len(kept) == limit:
            break
        problem_id, question, gold = Told(None, None, None) if isinstance(record, str) else tell(record)
        problem_id = problem_id or f"{name}-{position:05}"
        if isinstance(record, str):
            odd.append(OddRow(line, "not a record of fields: left out", record[:60]))
        elif not isinstance(question, str) or not question.strip():
            odd.append(OddRow(line, "no question: left out", str(dict(record))[:60]))
        elif problem_id in names:
            odd.append(OddRow(line, "a name that an earlier question has: left out", problem_id[:60]))
        else:
            names.add(problem_id)
            kept.append((line, problem_id, question.strip(), gold))
    if not kept:
        raise DirEAGError(f"{name}: none of its {len(rows)} rows holds a question; expected at least one.")
    golds = [gold for *_, gold in kept if isinstance(gold, str) and gold.strip()]
    kind = kind or (infer_kind(golds) if golds else "numeric")
    problems = []
    for line, problem_id, question, gold in kept:
        answer = _gold(gold, kind)
        if answer is None and (published or not (gold is None or gold == "")):
            odd.append(OddRow(line, f"no gold answer that is {kind}: asked without one", str(gold)[:60]))
        elif answer is not None and kind == "numeric" and _hardly_met(answer):
            odd.append(OddRow(line, "a gold answer of very many digits: kept as published", str(gold)[:60]))
        try:
            problems.append(Problem(problem_id, dataset, question, answer))
        except DirEAGError as error:
            raise DirEAGError(f"{name}, line {line}: {error}") from None
    return QuestionSet(name, tuple(problems), kind, tuple(sorted(odd)))


def _gold(gold: object, kind: AnswerKind) -> str | None:
    """Return a gold answer in canonical form, or a text as it is; None if it has no canonical form."""
    spelling = canonical(gold, kind) if isinstance(gold, str) and not is_missing(gold) else None
    return gold.strip() if spelling is not None and kind == "text" and isinstance(gold, str) else spelling


def _hardly_met(number: str) -> bool:
    """Tell whether a right reply may give another number, as this one is rounded or has very many digits."""
    _, _, decimals = number.partition(".")
    digits = number.replace(".", "").strip("-0")
    return len(decimals) > _MOST_DECIMALS or len(digits) > _MOST_DIGITS
