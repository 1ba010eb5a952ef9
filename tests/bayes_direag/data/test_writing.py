"""Files and tables survive being written, or are not there."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.writing import as_records, atomic_path, check_table_path, write_table
from bayes_direag.errors import DirEAGError

SUFFIXES = (".csv", ".jsonl", ".parquet")
TABLE = pd.DataFrame(
    {
        "problem_id": pd.Series(["1", "a,b", 'say "ü"/½\nagain', "d"], dtype="str"),
        "answer": pd.Series(["51", "007", None, "x"], dtype="str"),
        "confidence": [0.1 + 0.2, 1e-300, np.nan, 1 - 2**-53],
        "n_used": np.array([5, 0, 1, 2**53 + 1]),
        "correct": pd.Series([True, False, None, True], dtype="boolean"),
    }
)


def read(path: Path) -> pd.DataFrame:
    text = {"problem_id": "str", "answer": "str", "correct": "boolean"}
    match path.suffix.lower():
        case ".csv":
            return pd.read_csv(path, dtype=text)
        case ".jsonl":
            records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            return pd.DataFrame(records).astype(text)
        case _:
            return pd.read_parquet(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_comes_back_to_the_last_digit(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(TABLE, path)
    pd.testing.assert_frame_equal(read(path), TABLE, check_exact=True)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_json_lines_keep_every_number(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    write_table(pd.DataFrame({"x": numbers}), path)
    assert [json.loads(line)["x"] for line in path.read_text().splitlines()] == numbers


def test_missing_values_are_empty_in_csv_and_null_in_json_lines(tmp_path):
    write_table(TABLE[["answer", "confidence", "correct"]].iloc[2:3], tmp_path / "t.csv")
    write_table(TABLE[["answer", "confidence", "correct"]].iloc[2:3], tmp_path / "t.jsonl")
    assert (tmp_path / "t.csv").read_text() == "answer,confidence,correct\n,,\n"
    assert (tmp_path / "t.jsonl").read_text() == '{"answer": null, "confidence": null, "correct": null}\n'


def test_truth_is_written_as_true_and_false(tmp_path):
    write_table(TABLE[["correct"]].iloc[:2], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "correct\nTrue\nFalse\n"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_without_rows(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_table(TABLE.iloc[:0], path)
    if suffix == ".jsonl":
        assert path.read_text() == ""
    else:
        assert read(path).columns.tolist() == TABLE.columns.tolist()


@pytest.mark.parametrize("suffix", [".CSV", ".JsonL", ".PARQUET"])
def test_the_suffix_may_be_in_capitals(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(TABLE, path)
    pd.testing.assert_frame_equal(read(path), TABLE, check_exact=True)


@pytest.mark.parametrize("name", ["t.xlsx", "t", ".csv", "t.csv.gz"])
def test_another_suffix(tmp_path, name):
    suffix = Path(name).suffix
    with pytest.raises(
        DirEAGError, match=rf"{name}: saw the suffix '{suffix}'; expected one of .csv, .jsonl, .parquet"
    ):
        check_table_path(name)
    with pytest.raises(DirEAGError, match="suffix"):
        write_table(TABLE, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_leaves_the_old_table_and_nothing_else(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    path.write_text("old")

    class Unwritable:
        def __str__(self) -> str:
            raise KeyboardInterrupt

        __repr__ = __str__

    with pytest.raises((KeyboardInterrupt, TypeError, ValueError)):
        write_table(pd.DataFrame({"x": ["a", Unwritable()]}), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_records_hold_plain_values_and_none():
    first, _, third, last = as_records(TABLE)
    assert first == {"problem_id": "1", "answer": "51", "confidence": 0.1 + 0.2, "n_used": 5, "correct": True}
    assert [type(value) for value in last.values()] == [str, str, float, int, bool]
    assert (third["answer"], third["confidence"], third["correct"]) == (None, None, None)


def test_an_infinite_number_is_refused_by_json(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_table(pd.DataFrame({"x": [math.inf]}), tmp_path / "t.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_the_file_appears_when_the_block_is_done(tmp_path):
    path = tmp_path / "out.csv"
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".csv"
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def fail_half_way():
        with atomic_path(str(path)) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "out.csv"):
        pass
