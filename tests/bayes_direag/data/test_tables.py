"""Tables: every form says what records say; and CSV as people and spreadsheets write it."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status
from bayes_direag.errors import ColumnsWarning, ObservationError
from tests.bayes_direag.long_tables import long_table, rows

FIELDS = ("confidence", "candidate", "status", "correct", "labelled", "conflicting", "weight")


@pytest.mark.parametrize("kind", ["numeric", "choice", "text"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tables_of_every_form_say_what_records_say(tmp_path, kind, seed):
    table = long_table(kind, seed=seed, flagged=seed % 2 == 0)
    table["level_name"] = table["level"].map({level: f"level {'dcba'[level]}" for level in range(4)})
    table.to_parquet(tmp_path / "long.parquet")
    whole = Observations.read(tmp_path / "long.parquet", kind if seed else None)
    records = Observations.from_questions(whole.questions, whole.kind)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(whole, field), getattr(records, field), err_msg=field)
    assert whole.to_frame()["level"].dtype == "Int64"
    again = [records, Observations.from_frame(table, answers=kind), Observations.from_frame(whole.to_frame())]
    for name in ("o.parquet", "o.csv", "o.jsonl"):
        whole.write(tmp_path / name)
        again.append(Observations.read(tmp_path / name, whole.kind))
    assert "observations" in parquet.read_schema(tmp_path / "o.parquet").names
    for one in again:
        assert one.fingerprint == whole.fingerprint
        pd.testing.assert_frame_equal(one.to_frame(), whole.to_frame())


@pytest.mark.parametrize("shuffle", ["by level", "at random"])
def test_scattered_rows_are_put_together(shuffle):
    table = long_table("numeric", seed=3)
    mixed = table.sort_values("level", kind="stable") if shuffle == "by level" else table.sample(frac=1, random_state=1)
    observations, first = (Observations.from_frame(one, answers="numeric") for one in (mixed, table))
    names = list(dict.fromkeys(mixed["problem_id"]))
    assert observations.problem_id == tuple(names)
    assert observations.fingerprint == first.select(np.array([*map(first.problem_id.index, names)])).fingerprint


def test_cells_of_any_length_and_lines_are_read(tmp_path):
    path = tmp_path / "table.csv"
    rows = [f'a,0,9,80,"{"x" * 200_000}"', 'b,0,"9\n",80,"of two\nlines"', "", "c,0,007,80,"]
    path.write_text("problem_id,level,answer,confidence,question\n" + "\n".join(rows) + "\n")
    observations = Observations.read(path, "text")
    assert [len(question.question or "") for question in observations.questions] == [200_000, 12, 0]
    assert observations.candidates == (("9",), ("9",), ("007",))
    assert [observations.table.line_of(row) for row in range(3)] == [2, 3, 7]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("row", "line"), [('b,0,"9\n",70', 5), ("", 4), ("b,0,9,70", 4)])
def test_lines_are_counted_whatever_their_ends(tmp_path, end, row, line):
    rows = ["problem_id,level,answer,confidence", "a,0,9,80", row, "c,0,9,60"]
    (tmp_path / "o.csv").write_text(end.join(rows), newline="")
    table = Observations.read(tmp_path / "o.csv", "text").table
    assert [table.line_of(question) for question in range(len(table))] == [2, *([3] if row else []), line]


@pytest.mark.parametrize(
    "text",
    [
        "problem_id, level, answer, confidence, gold_answer\nq, a, 5, 90, 5\n",
        "problem_id,level,answer,confidence,gold_answer,,\nq,a,5,90,5,,\n",
        ' problem_id,"level ", answer,confidence,gold_answer\nq,"a",5,90,5\n',
        'problem_id,level,answer,confidence,gold_answer\n="q",a,="5",90,="5"\n',
    ],
)
def test_headers_of_spreadsheets_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "o.csv").write_text(text)
    observations = Observations.read(tmp_path / "o.csv")
    assert (observations.problem_id, observations.level_names, observations.correct.tolist()) == (
        ("q",),
        ("a",),
        [[True]],
    )


def test_columns_that_parquet_of_questions_has_beside_ours_are_named(tmp_path: Path) -> None:
    Observations.from_frame(rows(3)).write(tmp_path / "o.parquet")
    table = parquet.read_table(tmp_path / "o.parquet")
    parquet.write_table(table.append_column("topic", table["gold_answer"]), tmp_path / "more.parquet")
    with pytest.warns(ColumnsWarning, match=r"more.parquet: not read, and not written again: topic. JSON Lines keep"):
        more = Observations.read(tmp_path / "more.parquet")
    assert more.fingerprint == Observations.read(tmp_path / "o.parquet").fingerprint


def test_tables_call_a_column_without_a_name_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text(",level,answer,confidence\nq,a,5,90\nr,a,5,90\n")
    for columns in ({"question": "column 1"}, {}):
        with pytest.warns(ColumnsWarning, match=": question column 1") if not columns else nullcontext():
            assert Observations.read(tmp_path / "o.csv", "numeric", Columns(**columns)).problem_id == ("q", "r")


def test_tables_keep_commas_in_names_where_semicolons_part_cells(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("problem_id;level;answer;confidence\na;small, bold;5;90,5\na;gpt-3,5;5;80\n")
    observations = Observations.read(tmp_path / "o.csv", "numeric")
    assert observations.level_names == ("small, bold", "gpt-3,5")
    np.testing.assert_allclose(observations.confidence, [[0.905, 0.8]])


def test_tables_may_begin_with_the_separator_that_a_spreadsheet_writes(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("sep=;\nproblem_id;level;answer;confidence\na;x,y;5;90\n")
    assert Observations.read(tmp_path / "o.csv", "numeric").level_names == ("x,y",)


@pytest.mark.parametrize("answer", ["3,5", "-2,25 kg", "1.218,50"])
def test_tables_with_a_decimal_comma_between_semicolons_are_refused(tmp_path: Path, answer: str) -> None:
    path, table = tmp_path / "o.csv", rows(3, answer=["1,234", answer, "4"], gold_answer="4")
    table.to_csv(path, index=False, sep=";")
    with pytest.raises(ObservationError, match=r"line 3, field answer: this number .*saw '.*Export .* decimal points"):
        Observations.read(path)
    table.to_csv(path, index=False)
    assert Observations.read(path, "text").status_counts[0, Status.USABLE] == 3


def test_tables_give_back_a_carriage_return_in_a_text(tmp_path: Path) -> None:
    table = rows(2, answer=["x\rightarrow", '=1+1\r"'], gold_answer="x")
    Observations.from_frame(table, answers="text").write(tmp_path / "o.csv")
    assert pd.read_csv(tmp_path / "o.csv")["answer"].tolist() == table["answer"].tolist()
    observations = Observations.read(tmp_path / "o.csv", "text")
    assert [one.observations[0].answer for one in observations.questions] == table["answer"].tolist()


@pytest.mark.parametrize(
    ("scale", "value"), [("1-5", 0), ("1-5", 5.5), ("0-10", 11), ("fraction", 2), ("0-10", "high")]
)
def test_tables_with_what_is_not_on_the_scale_are_refused(scale: str, value: object) -> None:
    with pytest.raises(ObservationError, match=r"line 1, field confidence: this (confidence|value)"):
        Observations.from_frame(rows(2, confidence=pd.Series([value, 1], dtype=object)), scale=scale)


@pytest.mark.parametrize(
    ("confidences", "n"), [([1, 2, 3, 4, 5.5], 30), ([1, 2, 3, 4, 5], 19), ([0, 0], 9), ([1.5, 1.5], 9)]
)
def test_tables_with_neither_ratings_nor_fractions_are_in_percent(confidences, n) -> None:
    stated = np.resize(confidences, n)
    np.testing.assert_allclose(Observations.from_frame(rows(n, confidence=stated)).confidence[:, 0], stated / 100)


@pytest.mark.parametrize(("largest", "scale"), [(5, "1-5"), (10, "0-10")])
def test_ratings_are_read_on_their_scale(largest: int, scale: str) -> None:
    table = rows(confidence=np.arange(24) % largest + 1.0)
    assert Observations.from_frame(table, scale=scale).confidence.max() == 1
    assert Observations.from_frame(table, scale="percent").confidence.max() == largest / 100
