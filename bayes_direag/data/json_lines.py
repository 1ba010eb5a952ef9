"""JSON Lines and lists of records: a question a line, as in this project or in the paper's released code, or a report.

A file of reports is a table in long form.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pydantic_core import from_json

from bayes_direag.data.long_table import LongTable
from bayes_direag.data.plain import plain
from bayes_direag.data.records import (
    NUMBERS,
    OF_OBSERVATION,
    OF_QUESTION,
    SIGNALS,
    ByName,
    Fields,
    Question,
    reports_of,
)
from bayes_direag.data.source_table import DictionaryColumn, FileRecord, QuestionTable, RowTable, SourceTable
from bayes_direag.errors import ObservationError

# The fields of replies, samples and guesses in files of the paper's released implementation, and of their answers.
_RELEASED = {"outputs": "pred_answer_norm", "samples": "pred_answer_norm", "topk_items": "answer_norm"}
_END_OF_FIELD = re.compile(r'"\s*:')
# A record with one of these fields is a question, one without is a row.
_WITH_REPORTS = frozenset({"observations", *_RELEASED})


def json_lines(lines: Sequence[str], path: Path) -> Iterator[tuple[int, object]]:
    """Yield the values of the lines of a file, each with its number; ObservationError for one that is not JSON."""
    n_before = 0
    for number, line in enumerate((line.removesuffix("\n") for line in lines), 1):
        if not line.strip():
            continue
        try:
            value = from_json(line)
        except ValueError as error:
            reason = str(error).replace("line 1 ", "")
            if n_before and "EOF" in reason and not any(map(str.strip, lines[number:])):
                problem, seen = f"this last line is cut off ({reason})", line[-40:]
                remedy = f"The lines before it ({n_before}) are complete: remove this one, or resume the run."
            else:
                problem, seen = f"this line is not JSON ({reason})", line
                remedy = "Correct the line. An object or a list must stand on one line."
            raise ObservationError(
                problem, path=path, line=number, seen=seen, expected="one complete JSON object a line", remedy=remedy
            ) from error
        if (field := field_twice(line, value)) is not None:
            raise ObservationError(
                "a field is there twice in one object",
                path=path,
                line=number,
                field=field,
                expected="each field once",
                remedy="Remove the wrong one.",
            )
        n_before += 1
        yield number, value


def field_twice(text: str, value: object) -> str | None:
    """Return a field that an object of a JSON text has twice, given its value; None if there is none."""
    if len(_END_OF_FIELD.findall(text)) == _n_fields(value):
        return None  # as many as are left, which is quick to see
    twice: list[str] = []

    def looked_at(pairs: list[tuple[str, object]]) -> None:
        twice.extend(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)

    json.loads(text, object_pairs_hook=looked_at)
    return twice[0] if twice else None


def _n_fields(value: object) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_n_fields, value.values()))
    return sum(map(_n_fields, value)) if isinstance(value, list) else 0


def table_of_records(numbered: Sequence[tuple[int, object]], path: Path | None) -> SourceTable:
    """Take records with their lines: a question each, or a report each if none has a list of reports."""
    line = np.array([line for line, _ in numbered], int)
    records: list[Any] = [record for _, record in numbered]
    if records and all(isinstance(record, Mapping) and not _WITH_REPORTS & record.keys() for record in records):
        named = columns_by_name(records, SIGNALS)
        named |= columns_by_name(records, NUMBERS)
        header = [*dict.fromkeys([*(str(name) for row in records for name in row), *named])]

        @cache
        def column(name: str) -> DictionaryColumn:
            return named[name] if name in named else DictionaryColumn.of([row.get(name) for row in records])

        return RowTable(header, column, line, path)
    file_records = [_under_our_names(record) for record in records]
    about = [
        vars(record) if isinstance(record, Question) else record if isinstance(record, dict) else {}
        for record, _ in file_records
    ]
    reports_of_each = [reports_of(record) for record, _ in file_records]
    reports = [*chain.from_iterable(filter(None, reports_of_each))]
    return QuestionTable(
        {name: DictionaryColumn.of([fields.get(name) for fields in about]) for name in ("problem_id", *OF_QUESTION)}
        | columns_by_name(about, NUMBERS),
        {name: DictionaryColumn.of([report.get(name) for report in reports]) for name in OF_OBSERVATION}
        | columns_by_name(reports, SIGNALS),
        np.array([-1 if each is None else len(each) for each in reports_of_each], int),
        line,
        path,
        file_records,
    )


def table_of_questions(questions: Sequence[Question]) -> LongTable:
    """Take records of questions."""
    return LongTable.of(table_of_records([(0, question) for question in questions], None))


def _under_our_names(record: object) -> FileRecord:
    """Return a record under our names, with those of its fields, if it is one of the released implementation.

    Its raw answers are used only if the field of the normalised ones is absent, as a null there means no answer. Its
    ``level`` is the signed strength of the prompt, so the level is its ``level_index``.
    """
    if not isinstance(record, Mapping):
        return record, {}
    form = next((form for form in _RELEASED if form in record and "observations" not in record), None)
    if form is None:
        return dict(record), {}
    items, gold, answer = record[form], record.get("gold_answer_norm"), _RELEASED[form]
    renamed = {name: value for name, value in record.items() if name not in (form, "confidence", "raw_output")}
    renamed["gold_answer"] = record.get("gold_answer_raw") if gold is None else gold
    if isinstance(items, list):
        items = [_renamed(item, form, number) if isinstance(item, dict) else item for number, item in enumerate(items)]
    spelling = {"observations": form, "level": "level_index", "gold_answer": "gold_answer_norm", "answer": answer}
    return {**renamed, "observations": items}, spelling


def _renamed(item: Fields, form: str, number: int) -> Fields:
    answer, kept = (
        _RELEASED[form],
        {name: value for name, value in item.items() if name not in ("level", "level_index")},
    )
    if form != "outputs":
        kept |= {"level": number, "level_name": f"{'sample' if form == 'samples' else 'rank'}_{number}"}
    elif "level_index" in item:
        kept["level"] = item["level_index"]
    return {**kept, "answer": item.get(answer, item.get(answer.replace("_norm", "_raw")))}


def columns_by_name(records: Sequence[Mapping[str, object]], of: ByName) -> dict[str, DictionaryColumn]:
    """Return the columns of values that records have by name in one field; what is no such field has the name ""."""
    if not any(of.field in record for record in records):
        return {}
    stated = [plain(record.get(of.field, {})) for record in records]
    named = [{} if each is None else each if isinstance(each, dict) else {"": each} for each in stated]
    names = dict.fromkeys(chain.from_iterable(named))
    return {of.column(name): DictionaryColumn.of([values.get(name) for values in named]) for name in names}
