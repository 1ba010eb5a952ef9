"""Question sets: benchmarks by name or as published files, or tables with named columns.

Nothing is guessed. A row that is not a question is left out, and a question with an unreadable gold answer is asked
without one. Both are listed as odd rows, with line and reason. So are gold answers that a right reply may miss,
because they are rounded or have very many digits; these are kept.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from bayes_direag.data.answers import AnswerKind, canonical, infer_kind
from bayes_direag.data.plain import is_missing
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError

Form = Literal["gsm8k", "svamp", "gsm_hard"]
Record = Mapping[str, object]
#: A row: its line (its number from 1 if rows are not lines) and its fields, numbers as text; its text if it has none.
Row = tuple[int, Record | str]
#: What a row tells: name, question and gold answer, each None if missing.
Told = tuple[str | None, object, object]


@dataclass(frozen=True)
class Problem:
    """One question, which can be written with its replies; raises DirEAGError if it could not."""

    #: Its name, unique in the set; the set it is from; its text.
    problem_id: str
    dataset: str
    question: str
    #: The right answer, with numbers and choices in canonical form; None if it is not known.
    gold_answer: str | None

    def __post_init__(self) -> None:
        values = vars(self) | {"gold_answer": self.gold_answer or ""}
        try:
            kept = Question.model_validate(values | {"observations": ()})
        except ValidationError as error:
            field = str(error.errors(include_url=False)[0]["loc"][0])
        else:
            field = next((name for name in ("problem_id", "question") if getattr(kept, name) != values[name]), "")
        if field:
            raise DirEAGError(
                f"question {self.problem_id!r}: saw {field} {values[field][:80]!r}, which cannot be written to an "
                "observation file; expected text of whole characters that is no word for a missing value. Correct it."
            )


class OddRow(NamedTuple):
    """A row with a defect: what is odd, what was done about it, and the beginning of the row or of the odd part."""

    line: int  # its number from 1 if rows are not lines
    reason: str
    excerpt: str


@dataclass(frozen=True)
class QuestionSet:
    """Questions to ask, and the odd rows of their source, each in its order; and how answers are compared."""

    name: str
    problems: tuple[Problem, ...]
    kind: AnswerKind
    odd_rows: tuple[OddRow, ...] = ()

    @property
    def digest(self) -> str:
        """The SHA-256 of the ids, texts and gold answers of the questions, in their order."""
        texts = [[problem.problem_id, problem.question, problem.gold_answer] for problem in self.problems]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    def sample(self, n: int, seed: int) -> "QuestionSet":
        """Return n questions (all if there are fewer) in random order; a smaller n gives the first of these."""
        shuffled = [*self.problems]
        Random(seed).shuffle(shuffled)  # noqa: S311 (no secret)
        return replace(self, problems=tuple(shuffled[:n]))


def _tell_gsm8k(row: Record) -> Told:
    _, _, gold = str(row.get("answer")).partition("####")
    return (None, row.get("question"), gold.strip())


def _tell_svamp(row: Record) -> Told:
    number = re.fullmatch(r"chal-(\d+)", str(row.get("ID")))
    body, question = row.get("Body"), row.get("Question")
    whole = f"{body.strip()} {question.strip()}" if isinstance(body, str) and isinstance(question, str) else None
    return (f"svamp-{int(number[1]) - 1:05}" if number else None, whole, row.get("Answer"))


def _tell_gsm_hard(row: Record) -> Told:
    target = str(row.get("target"))
    # Targets are floats, which files print with too many digits: 5186630.5999999996 is the float 5186630.6.
    is_float = re.fullmatch(r"-?\d+\.\d+(?:[eE][+-]?\d+)?", target)
    return (None, row.get("input"), repr(float(target)) if is_float else target)


class Benchmark(NamedTuple):
    """Where a benchmark is published, at a pinned revision, its splits, and what a row tells."""

    repository: str
    config: str | None
    revision: str
    splits: tuple[str, ...]
    default: tuple[str, ...]  # the splits that are read without being named
    fields: frozenset[str]  # of every row
    tell: Callable[[Record], Told]


#: The named benchmarks.
BENCHMARKS: Mapping[Form, Benchmark] = {
    "gsm8k": Benchmark(
        "openai/gsm8k",
        "main",
        "cc7b047b6e5bb11b4f1af84efc572db110a51b3c",
        ("train", "test"),
        ("test",),
        frozenset({"question", "answer"}),
        _tell_gsm8k,
    ),
    "svamp": Benchmark(
        "ChilleD/SVAMP",
        None,
        "5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
        ("train", "test"),
        ("train", "test"),
        frozenset({"ID", "Body", "Question", "Answer"}),
        _tell_svamp,
    ),
    "gsm_hard": Benchmark(
        "reasoning-machines/gsm-hard",
        None,
        "960448f73503112d4226baeb8eb41d3fb5ae2506",
        ("train",),
        ("train",),
        frozenset({"input", "code", "target"}),
        _tell_gsm_hard,
    ),
}
#: The fields of a question, and the usual names of their columns.
_USUAL = {"question": ("question",), "gold": ("gold_answer", "answer"), "id": ("problem_id", "id")}
#: What annotation tools write where others have the right answer.
_VERDICTS = ("accept", "reject", "ignore")
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
    path, form = Path(name_or_path), next((form for form in BENCHMARKS if form == name), None)
    if form is not None:
        if columns:
            raise DirEAGError(
                f"saw names of columns for the benchmark {name}, whose columns are known. Leave them out."
            )
        rows, source = _hub_rows(form, split or None), split or BENCHMARKS[form].default[0]
    else:
        rows, source = _read_rows(path), path.stem.lower()
        form = None if columns else _published_form(rows)
    if form is None:
        return _collect(path.stem, path.stem, rows, _teller(path, rows, columns), kind, limit, published=False)
    part = re.search(r"train|test", source) if form == "gsm8k" else None  # which must not share names of questions
    set_name = f"{form}_{part[0]}" if part else form
    return _collect(set_name, form, rows, BENCHMARKS[form].tell, kind or "numeric", limit)


def _published_form(rows: Sequence[Row]) -> Form | None:
    """Return the benchmark that the first record is of, None if it is of none."""
    record = next((record for _, record in rows if not isinstance(record, str)), {})
    is_gsm8k = len(record) == 2 and "####" in str(record.get("answer"))  # other tables have these columns too
    forms = [form for form, benchmark in BENCHMARKS.items() if benchmark.fields <= record.keys()]
    return next((form for form in forms if is_gsm8k or form != "gsm8k"), None)


def _read_rows(path: Path) -> list[Row]:
    """Read the rows of a file of JSON Lines, JSON (a list of objects), CSV or TSV, perhaps compressed.

    Raises DirEAGError if the file cannot be read, or has no row.
    """
    if not path.is_file():
        raise DirEAGError(
            f"{path}: saw no such file; expected one of {', '.join(BENCHMARKS)}, or a file. Check the name or path."
        )
    from bayes_direag.data.files import read_lines

    lines = [*read_lines(path)]
    text = "".join(lines)
    if path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        rows = _table_rows(lines, path)
    elif text.lstrip().startswith("["):
        rows = [*enumerate(_listed(text, path), start=1)]
    else:
        rows = [(number, _record(line)) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if all(isinstance(record, str) for _, record in rows):
        raise DirEAGError(
            f"{path}: there is no question here; saw {text[:60]!r}; expected JSON objects, one a line, a "
            "JSON list of them, or a table whose name ends in .csv or .tsv. Check that this is the right file."
        )
    return rows


def _hub_rows(name: Form, split: str | None) -> list[Row]:
    """Read the rows of a named benchmark with the Hugging Face ``datasets`` library.

    Raises DirEAGError if the library is missing, the benchmark has no such split, or it cannot be loaded.
    """
    source = BENCHMARKS[name]
    if split is not None and split not in source.splits:
        raise DirEAGError(f"{name} has no split {split!r}; expected one of {', '.join(source.splits)}.")
    try:
        load_dataset = import_module("datasets").load_dataset
    except ImportError as error:
        raise DirEAGError(
            f"reading {name} by name needs the Hugging Face datasets library, which is not installed, or "
            'a path to the published file. Run: pip install ".[datasets]" in the checkout of bayes-direag'
        ) from error
    records: list[Record] = []
    for part in source.default if split is None else (split,):
        try:
            data = load_dataset(source.repository, source.config, split=part, revision=source.revision)
            records += [{field: _text(value) for field, value in record.items()} for record in data]
        except Exception as error:
            raise DirEAGError(
                f"{source.repository} (split {part}, revision {source.revision}) cannot be loaded "
                f"({type(error).__name__}: {str(error)[:200]}); expected it on the hub or in the local cache. Check "
                "the connection, or give the path of the published file."
            ) from error
    if name == "svamp":
        records.sort(key=lambda record: _tell_svamp(record)[0] or "")  # the order of the published file
    return [*enumerate(records, start=1)]


def _text(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _listed(text: str, path: Path) -> list[Record | str]:
    try:
        return [one if isinstance(one, dict) else json.dumps(one) for one in _load_json(text)]
    except (ValueError, RecursionError) as error:
        raise DirEAGError(
            f"{path}: this is not JSON ({error}); expected a list of objects. Check that the file is complete."
        ) from error


def _record(line: str) -> Record | str:
    with suppress(ValueError, RecursionError):
        if isinstance(record := _load_json(line), dict):
            return record
    return line


def _load_json(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)


def _table_rows(lines: Sequence[str], path: Path) -> list[Row]:
    from bayes_direag.data.tables import csv_columns

    _, header, columns, numbers = csv_columns(lines, path)
    if repeated := next((name for name in header if name and header.count(name) > 1), None):
        raise DirEAGError(f"{path}: saw the column {repeated!r} twice; expected each name once. Rename one of them.")
    return [
        (line, {name: value or None for name, value in zip(header, values, strict=True) if name})
        for line, *values in zip(numbers, *columns, strict=True)
    ]


def _teller(path: Path, rows: Sequence[Row], columns: Mapping[str, str]) -> Callable[[Record], Told]:
    """Find the columns of a table, and return the function that reads a row."""
    present = {field for _, record in rows if not isinstance(record, str) for field in record}
    if wrong := [field for field, name in columns.items() if field not in _USUAL or not name]:
        raise DirEAGError(f"--column {', '.join(wrong)}=: expected FIELD=NAME with one of {', '.join(_USUAL)}.")

    def column(field: str) -> str:
        named = columns.get(field)
        column_name = next((name for name in ((named,) if named else _USUAL[field]) if name in present), "")
        if not column_name and (named or field == "question"):
            raise DirEAGError(
                f"{path}: there is no column {named or field!r}; saw {', '.join(sorted(present))}. Name the column by "
                f"--column {field}=NAME."
            )
        return column_name

    names = [column(field) for field in ("question", "gold", "id")]
    golds = {line: row.get(names[1]) for line, row in rows if not isinstance(row, str)}
    are_verdicts = "gold" not in columns and all(gold in (None, *_VERDICTS) for gold in golds.values())
    for line, gold in golds.items():
        if isinstance(gold, (bool, list, dict)) or (are_verdicts and gold is not None):
            raise DirEAGError(
                f"{path}, line {line}, field {names[1]}: saw {json.dumps(gold)[:60]}; expected the right answer, as a "
                "text or a number. Name its column by --column gold=NAME, or write right answers into one."
            )

    def tell(row: Record) -> Told:
        question, gold, problem_id = (row.get(name) if name else None for name in names)
        return str(problem_id) if problem_id else None, question, gold

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
        problem_id, question, gold = (None, None, None) if isinstance(record, str) else tell(record)
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
    golds = {line: gold for line, *_, gold in kept if isinstance(gold, str) and not is_missing(gold)}
    kind = kind or (infer_kind(golds.values(), name, [*golds]) if golds else "numeric")
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
