"""Every way in which an observation file can be broken, and the round trips of those that are not."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag.data.columns import Columns
from bayes_direag.data.files import as_records, read_questions, write_questions, write_table
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import FIELDS, Observation, Question
from bayes_direag.errors import ObservationError

GOOD = {
    "problem_id": "a",
    "gold_answer": "9",
    "observations": [{"level": 0, "answer": "9", "confidence": 80}, {"level": 1, "answer": None, "confidence": 5}],
}


def written(tmp_path, *lines):
    path = tmp_path / "observations"
    texts = [line if isinstance(line, str | bytes) else json.dumps(line) for line in lines]
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in texts))
    return path


def error_of(path, read=read_questions):
    with pytest.raises(ObservationError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "expected" in message
    assert message.endswith(".")
    return caught.value, message


RELEASED = {"problem_id": "a", "gold_answer_raw": "9.0", "gold_answer_norm": "9", "model_tag": "m"}


@pytest.mark.parametrize(
    ("form", "items", "expected"),
    [
        (
            "outputs",
            [
                {"level_index": 1, "level": -2, "level_name": "low", "pred_answer_norm": "9", "confidence": 80.0},
                {"level_index": 0, "level": 0, "level_name": "high", "pred_answer_norm": None, "pred_answer_raw": "1"},
                {"level_index": 2, "level_name": "raw", "pred_answer_raw": "9 cm", "confidence": 70},
            ],
            [(1, "low", "9", 80.0), (0, "high", None, None), (2, "raw", "9 cm", 70.0)],
        ),
        (
            "samples",
            [{"sample_id": n, "raw_output": "?", "pred_answer_norm": said} for n, said in enumerate(["9", None])],
            [(0, "sample_0", "9", None), (1, "sample_1", None, None)],
        ),
        (
            "topk_items",
            [{"answer_raw": "9.", "answer_norm": "9", "confidence": 60.0}, {"answer_raw": "8", "confidence": 70.0}],
            [(0, "rank_0", "9", 60.0), (1, "rank_1", "8", 70.0)],
        ),
    ],
)
def test_files_of_the_released_code_are_read(tmp_path, form, items, expected):
    best = {"pred_answer_raw": "8", "confidence": 70.0, "raw_output": "?"}  # of a list, which is not read
    first, none = read_questions(
        written(
            tmp_path,
            RELEASED | best | {form: items},
            RELEASED | {"problem_id": "b", "gold_answer_norm": None, form: []},
        )
    )
    assert [(one.level, one.level_name, one.answer, one.confidence) for one in first.observations] == expected
    assert (first.gold_answer, none.gold_answer, none.observations) == ("9", "9.0", ())
    assert first.observations[0].model_extra.keys() >= items[0].keys() - FIELDS.keys() - {"level_index"}
    records = [{"level": level, "level_name": name, "answer": a, "confidence": c} for level, name, a, c in expected]
    record = {"problem_id": "a", "gold_answer": "9", "observations": records}
    ours = Observations.from_records([record], columns=Columns(groups="none"))
    theirs = Observations.read(written(tmp_path, RELEASED | {form: items}))
    assert theirs.fingerprint == ours.fingerprint
    theirs.write(tmp_path / "again.jsonl")
    assert Observations.read(tmp_path / "again.jsonl", None, Columns(groups="none")).fingerprint == ours.fingerprint
    for wrong, said in (({}, "text, a number or null"), ([0], "text, a number or null")):
        field = next(name for name in ("pred_answer_norm", "answer_norm") if name in items[0])
        error, message = error_of(written(tmp_path, RELEASED | {form: [items[0] | {field: wrong}]}))
        assert (error.line, error.field) == (1, f"{form}[0].{field}")
        assert said in message
    for wrong, index in (({}, ""), ([3], "[0]")):
        assert error_of(written(tmp_path, RELEASED | {form: wrong}))[0].field == f"{form}{index}"


def test_file_of_the_released_sample_reads_like_its_table(golden):
    released = Observations.read(golden / "released_form.jsonl")
    table = Observations.read(golden / "weak.parquet")
    assert released.fingerprint == table.select(slice(len(released))).fingerprint


def test_file_with_several_faults_tells_the_first_and_counts_the_others(tmp_path):
    reports = [GOOD["observations"][0] | {"confidence": 101}, GOOD["observations"][1] | {"level": "x"}]
    error, message = error_of(written(tmp_path, GOOD | {"observations": reports}))
    assert error.field == "observations[0].confidence"
    assert "1 more in this question" in message


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        ([GOOD, "{'a': 1}", GOOD | {"problem_id": "c"}], 2, "not JSON"),
        ([GOOD, "[1, 2]"], 2, "one line per question"),
        ([[GOOD]], 1, "one line per question"),
        (["{", '"problem_id": "a"}'], 1, "must stand on one"),
        ([GOOD, GOOD | {"problem_id": "c"}, '{"problem_id": "d", "obs'], 3, "lines before it (2)"),
        ([GOOD, {"problem_id": "a", "question": "?"}], 2, "neither observations nor outputs"),
        ([{"problem_id": "a", "question": "?"}], 1, "no column level for the level"),
        ([GOOD, GOOD | {"problem_id": "b"}, GOOD], 3, "first on line 1"),
        ([GOOD, '{"problem_id": "b", "observations": [{"level": 0, "ans'], 2, "this last line is cut off (EOF"),
        ([""], None, "empty"),
        ([b" \n\n"], None, "empty"),
        ([b'{"problem_id": "a"}\n{"problem_id": "\xff"}'], 2, "UTF-8"),
        ([b"PAR1 and no more"], None, "Parquet"),
        ([b"problem_id,answer,confidence\na,9,80\n"], 1, "no column level"),
        ([b"problem_id,level,answer,answer,confidence\n"], 1, "two columns"),
        ([b"problem_id|level|answer|confidence\n"], 1, "no column problem_id"),
        ([b"problem_id,level,answer,confidence\n"], None, "no questions"),
        ([b"problem_id,level,answer,confidence\na,0,9,80\n\nb,0,9\n"], 4, "this row has 3 cells"),
        ([b'problem_id,level,answer,confidence\na,0,"9\n",80\nd,0,"9,80\n'], 4, "this is not CSV"),
    ],
)  # fmt: skip
def test_file_that_cannot_be_used_says_where_and_why(tmp_path, lines, line, said):
    path = written(tmp_path, *lines)
    error, message = error_of(path)
    assert error.line == line
    assert said in message


def test_file_that_is_missing_and_a_folder_are_told_apart(tmp_path):
    assert "no such file" in error_of(tmp_path / "nothing.jsonl")[1]
    assert "folder" in error_of(tmp_path)[1]


def test_json_lines_keep_further_fields(tmp_path):
    reports = [one | {"raw_text": "Nine!\u2028So 9."} for one in GOOD["observations"]]
    record = GOOD | {"observations": reports, "seed": 3, "prompts": {"a": [1]}}
    path = tmp_path / "again.jsonl"
    write_questions(read_questions(written(tmp_path, record)), path)
    assert json.loads(path.read_text()) == record


def test_byte_order_marks_and_windows_lines_do_no_harm(tmp_path):
    """Files that were joined have a mark in their middle too."""
    path = tmp_path / "windows"
    for *lines, last in (
        [json.dumps(GOOD), json.dumps(GOOD | {"problem_id": "b"})],
        ["problem_id,level,answer,confidence", "b,0,9,80", "a,0,9,80", "a,1,8,20"],
    ):
        path.write_bytes("".join(f"{line}\r\n" for line in ["\ufeff" + lines[0], *lines[1:], "\ufeff" + last]).encode())
        assert {question.problem_id for question in read_questions(path)} == {"a", "b"}


QUESTIONS = [
    Question(
        problem_id="a,1",
        dataset="d",
        model="m",
        question='How many,\n"exactly"?',
        gold_answer="1,206",
        cluster="c",
        observations=(
            Observation(level=2, level_name="high", answer="1206 \u20ac", confidence=99.9, correct=True, group="g"),
            Observation(level=0, level_name="low", answer=" null", confidence=1 / 3),
            Observation(level=1, answer="NaN", confidence=None, correct=False),
        ),
    ),
    Question(problem_id="007", gold_answer="7", observations=()),
    Question(problem_id="é\u2028", gold_answer="3", observations=(Observation(level=0, answer="3", confidence=0.0),)),
]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv", ".CSV"])
def test_file_that_was_written_is_read_again_by_its_content(tmp_path, suffix):
    path = tmp_path / f"observations{suffix}"
    write_questions(QUESTIONS, path)
    assert list(tmp_path.iterdir()) == [path]
    path = path.rename(tmp_path / "observations.txt")
    assert [q.model_dump() for q in read_questions(path)] == [q.model_dump() for q in QUESTIONS]
    assert Observations.read(path).fingerprint == Observations.from_questions(QUESTIONS).fingerprint


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
            exact = {"confidence": lambda cell: float(cell or "nan")}  # to the last digit in every version of pandas
            return pd.read_csv(path, dtype=text, converters=exact)
        case ".jsonl":
            records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            return pd.DataFrame(records).astype(text)
        case _:
            return pd.read_parquet(path)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".CSV", ".JsonL"])
def test_file_of_a_table_comes_back_to_the_last_digit(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(TABLE, path)
    pd.testing.assert_frame_equal(read(path), TABLE, check_exact=True)


def test_missing_values_are_empty_in_csv_and_null_in_json_lines(tmp_path):
    table = TABLE[["answer", "confidence", "correct"]].iloc[2:]
    write_table(table, tmp_path / "t.csv")
    write_table(table, tmp_path / "t.jsonl")
    assert (tmp_path / "t.csv").read_text() == f"answer,confidence,correct\n,,\nx,{1 - 2**-53},True\n"
    first = (tmp_path / "t.jsonl").read_text().splitlines()[0]
    assert first == '{"answer": null, "confidence": null, "correct": null}'
    for suffix in (".csv", ".parquet"):
        write_table(TABLE.iloc[:0], tmp_path / f"none{suffix}")
        assert read(tmp_path / f"none{suffix}").columns.tolist() == TABLE.columns.tolist()


@pytest.mark.parametrize("name", ["t.xlsx", "t", ".csv", "t.csv.gz"])
def test_another_suffix_is_refused_and_a_missing_folder_named(tmp_path, name):
    said = rf"{name}: saw the suffix '{Path(name).suffix}'; expected one of .csv, .jsonl, .parquet"
    for write, content in ((write_table, TABLE), (write_questions, QUESTIONS)):
        with pytest.raises(ObservationError, match=said):
            write(content, tmp_path / name)
    with pytest.raises(ObservationError, match="Create the folder"):
        write_questions(QUESTIONS, tmp_path / "no" / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_records_hold_plain_values_and_none():
    first, _, third, last = as_records(TABLE)
    assert first == {"problem_id": "1", "answer": "51", "confidence": 0.1 + 0.2, "n_used": 5, "correct": True}
    assert [type(value) for value in last.values()] == [str, str, float, int, bool]
    assert (third["answer"], third["confidence"], third["correct"]) == (None, None, None)


def test_file_of_json_takes_no_infinite_number(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_table(pd.DataFrame({"x": [math.inf]}), tmp_path / "t.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"problem_id": "q", "observations": [{"level": 0, "answer": "1", "answer": "2"}]}', "answer"),
        ('{"problem_id": "q", "level": "a", "answer": "1", "confidence" : 10, "confidence": 90}', "confidence"),
        ('{"problem_id": "q", "problem_id": "q", "observations": []}', "problem_id"),
    ],
)
def test_field_that_an_object_has_twice_is_an_error(line: str, field: str, tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text('{"problem_id": "p", "question": "\\"a\\": 1, \\"a\\": 2?", "observations": []}\n' + line + "\n")
    with pytest.raises(ObservationError, match=rf"twice\.jsonl, line 2, field {field}: a field is there twice"):
        Observations.read(path, "numeric")
