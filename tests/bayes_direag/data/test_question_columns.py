"""The columnar reader finds what the ordinary one finds, and refuses what that refuses, in the same words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from bayes_direag.data import parquet_rows
from bayes_direag.data.observations import Observations
from bayes_direag.data.parquet_survey import survey
from bayes_direag.data.question_columns import QuestionColumns, read_columns
from bayes_direag.errors import ObservationError
from tests.bayes_direag.long_tables import long_table, written

FIELDS = ("confidence", "candidate", "status", "correct", "labelled", "conflicting")


def read(path: Path, kind: str | None = None, *, labels: bool = True) -> list[QuestionColumns]:
    found = survey(path, kind, labels=labels)
    assert found is not None
    return list(read_columns(found))


def same_as_ordinary(path: Path, kind: str | None = None) -> None:
    expected = Observations.read(path, kind)
    found = survey(path, kind, labels=True)
    assert (found.kind, tuple(found.levels.values())) == (expected.kind, expected.level_names)
    assert found.n_questions == len(expected)
    parts = list(read_columns(found))
    assert tuple(name for part in parts for name in part.problem_id.to_pylist()) == expected.problem_id
    for field in FIELDS:
        seen = np.concatenate([getattr(part, field) for part in parts])
        np.testing.assert_array_equal(seen, getattr(expected, field), err_msg=field)
    for number in range(expected.n_levels):
        wanted = np.where(expected.n_candidates > number, number, -1)
        texts, start = [], 0
        for part in parts:
            texts += part.answers(wanted[start : start + len(part.problem_id)]).to_pylist()
            start += len(part.problem_id)
        assert texts == [own[number] if len(own) > number else None for own in expected.candidates]


@pytest.mark.parametrize("kind", ["numeric", "choice", "text"])
@pytest.mark.parametrize(("seed", "rows_at_once"), [(0, 30), (1, 1000), (2, 9)])
def test_it_finds_what_the_ordinary_reader_finds(tmp_path, monkeypatch, kind, seed, rows_at_once):
    monkeypatch.setattr(parquet_rows, "ROWS_AT_ONCE", rows_at_once)
    path = written(long_table(kind, seed=seed, flagged=seed % 2 == 0), tmp_path / "o.parquet")
    same_as_ordinary(path, kind if seed else None)


@pytest.mark.parametrize("shuffle", ["by level", "at random"])
def test_scattered_rows_are_put_together(tmp_path, shuffle):
    table = long_table("numeric", seed=3)
    mixed = table.sort_values("level", kind="stable") if shuffle == "by level" else table.sample(frac=1, random_state=1)
    path = written(mixed, tmp_path / "o.parquet")
    assert not survey(path, "numeric", labels=True).together
    same_as_ordinary(path, "numeric")


def test_foreign_types_are_read_as_ever(tmp_path):
    frame = pd.DataFrame(
        {
            "problem_id": [1, 1, 2, 2, 3],
            "level": [0.0, 1.0, 0.0, 1.0, None],
            "level_name": pd.Categorical(["a", "b", "a", "b", None]),
            "answer": [9.0, 1e16, 1e22, 0.1, None],
            "confidence": pd.array([80, 70, 60, None, None], dtype="Int32"),
            "gold_answer": [9, 9, 3, 3, 4],
            "model": [None] * 5,
        }
    )
    frame.to_parquet(tmp_path / "o.parquet")
    same_as_ordinary(tmp_path / "o.parquet")
    frame.assign(confidence=frame["confidence"].astype("string")).to_parquet(tmp_path / "text.parquet")
    assert survey(tmp_path / "text.parquet", "numeric", labels=False) is None  # the ordinary reader says why


@pytest.mark.parametrize("golden_name", ["strong", "weak"])
def test_recorded_sets(golden, golden_name):
    same_as_ordinary(golden / f"{golden_name}.parquet")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("problem_id", None),
        ("problem_id", ""),
        ("level", None),
        ("level", -1),
        ("level", 0.5),
        ("level", float("nan")),
        ("level", "twice"),
        ("confidence", 100.5),
        ("confidence", -1.0),
        ("confidence", float("nan")),
        ("gold_answer", "other"),
        ("gold_answer", "two or three"),
        ("dataset", "other"),
        ("correct", "only here"),
    ],
)
@pytest.mark.parametrize("rows_at_once", [5])
def test_what_is_wrong_is_said_in_the_same_words(tmp_path, monkeypatch, column, value, rows_at_once):
    monkeypatch.setattr(parquet_rows, "ROWS_AT_ONCE", rows_at_once)
    rows = [
        {"problem_id": f"q{i // 3}", "level": float(i % 3), "answer": "7", "confidence": 50.0, "gold_answer": "7",
         "dataset": "d", "correct": None}
        for i in range(12)
    ]  # fmt: skip
    if value == "twice":
        rows[7]["level"] = rows[6]["level"]
    elif column == "correct":
        rows[7]["correct"] = True
        rows[6]["gold_answer"] = rows[7]["gold_answer"] = rows[8]["gold_answer"] = None
    elif value == "two or three":
        rows[6][column] = rows[7][column] = rows[8][column] = value
    else:
        rows[7][column] = value
    path = tmp_path / "o.parquet"
    numbers = {"level": pyarrow.float64(), "confidence": pyarrow.float64(), "correct": pyarrow.bool_()}
    schema = pyarrow.schema([(name, numbers.get(name, pyarrow.string())) for name in rows[0]])
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)
    with pytest.raises(ObservationError) as expected:
        Observations.read(path, "numeric")
    with pytest.raises(ObservationError) as found:
        read(path, "numeric")
    assert str(found.value) == str(expected.value)


def test_labels_are_not_looked_at_unless_asked_for(tmp_path):
    path = written(long_table("numeric", seed=1).assign(gold_answer="no number"), tmp_path / "o.parquet")
    parts = read(path, "numeric", labels=False)
    assert not any(part.correct.any() or part.labelled.any() for part in parts)
    with pytest.raises(ObservationError, match="gold answer"):
        read(path, "numeric")
