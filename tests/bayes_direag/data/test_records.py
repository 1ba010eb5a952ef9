"""What is missing is missing in every field and by every door, and columns are checked by the rules of records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given
from pyarrow import parquet

from bayes_direag.data.columns import Columns
from bayes_direag.data.json_lines import table_of_records
from bayes_direag.data.observations import Observations
from bayes_direag.data.plain import MISSING, plain
from bayes_direag.data.records import FIELDS, OF_OBSERVATION, OF_QUESTION, Question, type_of
from bayes_direag.errors import ObservationError

Rows = list[dict[str, Any]]

ROWS: Rows = [
    {
        "problem_id": name,
        "gold_answer": gold,
        "cluster": "c",
        "level": level,
        "level_name": ("low", "high")[level],
        "answer": answer,
        "confidence": 40.0 + level,
        "correct": True,
        "group": "g",
    }
    for name, gold in (("p", "5"), ("q", "7"))
    for level, answer in enumerate(("5", "7"))
]


def questions(rows: Rows) -> Rows:
    """Return a record for each question."""
    about = ("problem_id", "gold_answer", "cluster")
    records = {row["problem_id"]: {name: row[name] for name in about if name in row} for row in rows}
    for record in records.values():
        reports = [row for row in rows if row["problem_id"] == record["problem_id"]]
        record["observations"] = [{name: row[name] for name in row if name not in about} for row in reports]
    return list(records.values())


def file(path: Path, content: str) -> Observations:
    path.write_text(content)
    return Observations.read(path, "numeric", Columns())


def parquet_file(path: Path, rows: Rows) -> Observations:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return Observations.read(path, "numeric")


DOORS: dict[str, Callable[[Rows, Path], Observations]] = {
    "records of questions": lambda rows, _: Observations.from_records(questions(rows), "numeric"),
    "records of reports": lambda rows, _: Observations.from_records(rows, "numeric"),
    "frame": lambda rows, _: Observations.from_frame(pd.DataFrame(rows, dtype=object), answers="numeric"),
    "JSON Lines": lambda rows, path: file(path, "\n".join(map(json.dumps, questions(rows)))),
    "JSON Lines of reports": lambda rows, path: file(path, "\n".join(map(json.dumps, rows))),
    "CSV": lambda rows, path: file(path, pd.DataFrame(rows).to_csv(index=False)),
    "Parquet of reports": lambda rows, path: parquet_file(path, rows),
    "Parquet of questions": lambda rows, path: parquet_file(path, questions(rows)),
    "Arrow": lambda rows, _: Observations.from_frame(pyarrow.Table.from_pylist(questions(rows)), answers="numeric"),
}
WORDS = ("nan", "<NA>", "NaT", "None", "null", "N/A")
IN_TEXT = ("JSON Lines", "JSON Lines of reports", "CSV")
TYPED = ("Parquet of reports", "Parquet of questions", "Arrow")


def without(rows: Rows, field: str, value: object) -> Rows:
    """Replace a field of the second report of q, or of q."""
    of_question = field in OF_QUESTION
    return [
        row | {field: value} if row["problem_id"] == "q" and (of_question or row["level"] == 1) else row for row in rows
    ]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", ["answer", "confidence", "correct", "level_name", "gold_answer"])
def test_what_is_missing_is_missing_by_every_door(tmp_path, door, field):
    rows = [{name: row[name] for name in row if name != "correct" or field == "correct"} for row in ROWS]
    expected = Observations.from_records(questions(without(rows, field, None)), "numeric")
    values: list[object] = [None, *(WORDS if type_of(field) is str or door not in TYPED else ())]
    values += [float("nan")] if type_of(field) is float or door not in TYPED else []
    values += [] if door in (*IN_TEXT, *TYPED) else [pd.NA, pd.NaT, np.float32("nan")]
    for value in values:
        found = DOORS[door](without(rows, field, value), tmp_path / "o")
        assert found.fingerprint == expected.fingerprint, value
        np.testing.assert_array_equal(found.status, expected.status)


def test_what_tables_of_pandas_leave_out_is_missing():
    from pandas._libs.parsers import STR_NA_VALUES

    assert STR_NA_VALUES - {""} <= MISSING
    assert all(plain(word) is None for word in MISSING)


@pytest.mark.parametrize("door", [door for door in DOORS if door not in IN_TEXT])
def test_numbers_are_told_in_the_fewest_digits(tmp_path, door):
    expected = Observations.from_records([row | {"answer": "5.1", "confidence": 85.1} for row in ROWS], "numeric")
    rows = [row | {"answer": np.float32(5.1), "confidence": np.float32(85.1)} for row in ROWS]
    found = DOORS[door](rows, tmp_path / "o")
    assert found.candidates == expected.candidates == (("5.1",), ("5.1",))
    np.testing.assert_array_equal(found.confidence, expected.confidence)


@pytest.mark.parametrize("door", ["records of questions", "records of reports", "JSON Lines", "JSON Lines of reports"])
def test_what_is_no_signals_at_all_is_named(tmp_path, door):
    said = r"line 1, field (observations\[0\]\.)?confidences: this value cannot be used; saw '=1\+1'; expected"
    with pytest.raises(ObservationError, match=said):
        DOORS[door]([ROWS[0] | {"confidences": "=1+1"}, *ROWS[1:]], tmp_path / "o")


class TestHalfACharacter:
    """A lone surrogate cannot be written to any file."""

    @pytest.mark.parametrize("door", ["records of questions", "records of reports", "JSON Lines", "frame"])
    @pytest.mark.parametrize("field", ["problem_id", "answer", "level_name", "gold_answer", "cluster"])
    def test_it_is_refused(self, tmp_path, door, field):
        rows = without(ROWS, field, "5\ud83d")
        with pytest.raises(ObservationError) as caught:
            DOORS[door](rows, tmp_path / "o")
        assert str(caught.value).encode()

    def test_bytes_that_are_no_text_are_refused(self, tmp_path):
        half = "5\ud83d".encode(errors="surrogatepass")
        (tmp_path / "o").write_bytes(pd.DataFrame(ROWS).to_csv(index=False).encode().replace(b",5,", b",%b," % half))
        with pytest.raises(ObservationError, match="o, line 2: this is not UTF-8 text"):
            Observations.read(tmp_path / "o")
        _, ends, data = pyarrow.array([half] * len(ROWS)).buffers()
        answers = pyarrow.StringArray.from_buffers(len(ROWS), ends, data)
        table = pyarrow.Table.from_pylist(ROWS).drop_columns("answer").append_column("answer", answers)
        parquet.write_table(table, tmp_path / "o")
        for read, source, said in ((Observations.read, tmp_path / "o", "o: "), (Observations.from_frame, table, "")):
            with pytest.raises(ObservationError, match=f"{said}texts are not UTF-8; saw b'5"):
                read(source)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 120),
    st.floats(-2, 120),
    st.just(float("nan")),
    st.sampled_from(["", " ", "5", "nan", "a b", "<NA>"]),
    st.just([1]),
    st.just({"x": 1}),
)


@given(st.sampled_from([*FIELDS]), values)
def test_columns_are_checked_by_the_rules_of_records(field, value):
    report: dict[str, object] = {"level": 0, "answer": "5", "confidence": 80.0}
    record: dict[str, object] = {"problem_id": "q", "observations": [report]}
    (record if field in Question.model_fields else report)[field] = value
    try:
        expected = Question.model_validate(record)
    except ValueError:
        with pytest.raises(ObservationError):
            table_of_records([(1, record)], None, None)
    else:
        table = table_of_records([(1, record)], None, None)
        assert table.records() == (expected,)
        kept = ["problem_id", *OF_QUESTION]
        assert [table.texts(name).value(0) for name in kept] == [getattr(expected, name) for name in kept]
        for observation in expected.observations:
            given_texts = [table.texts(name).value(0) for name in OF_OBSERVATION]
            assert given_texts == [getattr(observation, name) for name in OF_OBSERVATION]
