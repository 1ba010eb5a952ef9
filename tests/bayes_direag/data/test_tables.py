"""Columns say what records say, and what is wrong with them is said in the words of records."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from bayes_direag.data import tables
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import ObservationError
from tests.bayes_direag.long_tables import long_table, written

FIELDS = ("confidence", "candidate", "status", "correct", "labelled", "conflicting", "weight")


def assert_arrays_are_those_of_records(path: Path, kind: str | None = None) -> None:
    whole = Observations.read(path, kind)
    records = Observations.from_questions(whole.questions, whole.kind)
    assert (whole.fingerprint, whole.problem_id) == (records.fingerprint, records.problem_id)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(whole, field), getattr(records, field), err_msg=field)


@pytest.mark.parametrize("kind", ["numeric", "choice", "text"])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("form", ["a row a report", "a row a question"])
def test_columns_say_what_records_say(tmp_path, kind, seed, form):
    table = long_table(kind, seed=seed, flagged=seed % 2 == 0)
    table["level_name"] = table["level"].map({level: f"level {'dcba'[level]}" for level in range(4)})
    path = written(table, tmp_path / "o.parquet")
    if form == "a row a question":
        long = Observations.read(path, kind)
        long.write(path)
        assert "observations" in parquet.read_schema(path).names
        assert Observations.read(path, kind).fingerprint == long.fingerprint
    assert_arrays_are_those_of_records(path, kind if seed else None)


def test_categories_of_any_type_are_texts():
    """Those of polars are views of strings."""
    texts = {"problem_id": ["a", "a", "b"], "answer": ["7", None, "8"], "gold_answer": ["7", "7", "9"]}
    numbers = {"level": [0, 1, 0], "confidence": [90, 80, 70]}
    plain = Observations.from_frame(pyarrow.table(texts | numbers), answers="numeric")
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()):
        coded = {}
        for name, values in texts.items():
            encoded = pyarrow.array(values).dictionary_encode()
            coded[name] = pyarrow.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(kind))
        table = Observations.from_frame(pyarrow.table(coded | numbers), answers="numeric")
        assert table.fingerprint == plain.fingerprint


@pytest.mark.parametrize("shuffle", ["by level", "at random"])
def test_scattered_rows_are_put_together(tmp_path, shuffle):
    table = long_table("numeric", seed=3)
    mixed = table.sort_values("level", kind="stable") if shuffle == "by level" else table.sample(frac=1, random_state=1)
    path = written(mixed, tmp_path / "o.parquet")
    names = list(dict.fromkeys(mixed["problem_id"]))
    assert Observations.read(path, "numeric").problem_id == tuple(names)
    first = Observations.read(written(table, tmp_path / "sorted.parquet"), "numeric")
    place = [first.problem_id.index(name) for name in names]
    assert Observations.read(path, "numeric").fingerprint == first.select(np.array(place)).fingerprint


def test_foreign_types(tmp_path):
    frame = pd.DataFrame(
        {
            "problem_id": [1, 1, 2, 2, 3],
            "level": [0.0, 1.0, 0.0, 1.0, None],
            "level_name": pd.Categorical(["a", "b", "a", "b", None]),
            "answer": [9.0, 1e16, 1e22, 0.1, None],
            "confidence": pd.array([80, 70, 60, None, None], dtype="Int32"),
            "gold_answer": [b"9", b"9", b"3", b"3", b"4"],
            "model": [None] * 5,
        }
    )
    frame.to_parquet(tmp_path / "o.parquet")
    assert_arrays_are_those_of_records(tmp_path / "o.parquet")
    first, _, last = Observations.read(tmp_path / "o.parquet").questions
    reports = (
        Observation(level=0, level_name="a", answer="9.0", confidence=80.0),
        Observation(level=1, level_name="b", answer="1e+16", confidence=70.0),
    )
    assert first == Question(problem_id="1", gold_answer="9", observations=reports)
    assert last == Question(problem_id="3", gold_answer="4", observations=())


ROWS = [
    {"problem_id": f"q{i // 3}", "level": float(i % 3), "answer": "7", "confidence": 50.0, "gold_answer": "7",
     "dataset": "d", "correct": None}
    for i in range(12)
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "line", "said"),
    [
        ({7: {"problem_id": None}}, 8, "field problem_id: this field is missing"),
        ({7: {"level": None}}, 8, "field level: this field is missing"),
        ({7: {"level": 1.5}}, 8, "field level: this value cannot be used; saw 1.5"),
        ({7: {"level": 2.0**50}}, 8, "field level: this value cannot be used; saw 1125899906842624"),
        ({7: {"level": float("nan")}}, 8, "field level: this field is missing"),
        ({7: {"level": 0.0}}, 8, "field level: this level occurs twice in the question; saw 0"),
        ({7: {"confidence": -1.0}}, 8, "field confidence: this value cannot be used; saw -1.0"),
        ({7: {"gold_answer": "8"}}, 8, "field gold_answer: question 'q2' has '7' in an earlier row; saw '8'"),
        ({7: {"dataset": "e"}}, 8, "field dataset: question 'q2' has 'd' in an earlier row; saw 'e'"),
        ({6: {"gold_answer": "2 or 3"}, 7: {"gold_answer": None}, 8: {"gold_answer": None}}, 7,
         "field gold_answer: the gold answer of question 'q2' cannot be read as numeric; saw '2 or 3'"),
        ({row: {"gold_answer": None, "correct": True if row == 7 else None} for row in (6, 7, 8)}, 7,
         "field correct: question 'q2' has no gold answer, and 1 of its 3 usable"),
        ({6: {"answer": True}, 7: {"confidence": 101.0}}, 7, "field answer"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(tmp_path, changes, line, said):
    rows = [row | changes.get(number, {}) for number, row in enumerate(ROWS)]
    types = {"level": pyarrow.float64(), "confidence": pyarrow.float64(), "correct": pyarrow.bool_()}
    flags = any(row["answer"] is True for row in rows)
    types["answer"] = pyarrow.bool_() if flags else pyarrow.string()
    rows = [row | ({"answer": row["answer"] is True or None} if flags else {}) for row in rows]
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in rows[0]])
    path = tmp_path / "o.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)
    with pytest.raises(ObservationError) as caught:
        Observations.read(path, "numeric")
    assert str(caught.value).startswith(f"{path}, line {line}, {said}")


def test_no_rows_and_no_column(tmp_path):
    path, rows = tmp_path / "o.parquet", pd.DataFrame(ROWS)
    for table, said in ((rows[:0], "no questions"), (rows.drop(columns="level"), "no column level")):
        with pytest.raises(ObservationError, match=said):
            Observations.read(written(table, path), "numeric")
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(ObservationError, match="cannot be read"):
        Observations.read(path, "numeric")


def test_names_that_contradict_earlier_ones_are_errors(tmp_path):
    table = pd.DataFrame(ROWS).assign(level_name=["low", "mid", "high"] * 3 + ["low", "lower", "high"])
    path = written(table, tmp_path / "o.parquet")
    with pytest.raises(ObservationError, match=r"line 10, .*level 1 is called 'mid' before; saw 'lower'"):
        Observations.read(path, "numeric")


def test_a_file_that_claims_to_be_much_larger_is_not_read(tmp_path, monkeypatch):
    """Runs of one value take no room in Parquet."""
    monkeypatch.setattr(tables, "_MOST_VALUES", 5)
    one = {"problem_id": "q", "level": "a", "answer": "7", "confidence": 50.0}
    rows = pyarrow.table({name: pyarrow.array([value] * 60_000) for name, value in one.items()})
    parquet.write_table(rows, tmp_path / "o.parquet")
    with pytest.raises(ObservationError, match=r"it claims to hold 60,000 values in [\d,]+ bytes"):
        Observations.read(tmp_path / "o.parquet", "numeric")


def test_levels_may_be_names_of_which_nothing_is_said(tmp_path):
    """They are numbered as they appear."""
    rows = pd.DataFrame({"problem_id": ["q", "q", "r"], "level": ["small", "large", "large"]})
    rows = rows.assign(answer="7", gold_answer="7", confidence=[90, 80, 70])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    for read in (Observations.read(tmp_path / "rows.csv"), Observations.read(tmp_path / "rows.parquet")):
        assert read.level_names == ("small", "large")
        np.testing.assert_allclose(read.confidence, [[0.9, 0.8], [np.nan, 0.7]])
