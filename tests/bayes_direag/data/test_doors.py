"""Values by every door: what they are, what is missing, what is wrong and where; and objects that are none."""

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given
from pyarrow import parquet

from bayes_direag import LikelihoodData, Observations, cross_fit
from bayes_direag.data import tables
from bayes_direag.data.columns import Columns
from bayes_direag.data.json_lines import table_of_records
from bayes_direag.data.long_table import LongTable
from bayes_direag.data.plain import MISSING, plain
from bayes_direag.data.records import FIELDS, OF_OBSERVATION, OF_QUESTION, Observation, Question, type_of
from bayes_direag.errors import ColumnsWarning, DirEAGError, ObservationError
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.long_tables import rows

type Rows = list[dict[str, Any]]
type Read = Callable[[Rows, Path, Columns], Observations]

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
    about = ("problem_id", "gold_answer", "cluster", "weight")
    records = {str(row.get("problem_id")): {name: row[name] for name in about if name in row} for row in rows}
    for name, record in records.items():
        reports = [row for row in rows if str(row.get("problem_id")) == name]
        record["observations"] = [{name: row[name] for name in row if name not in about} for row in reports]
    return list(records.values())


def file(path: Path, content: str, columns: Columns) -> Observations:
    path.write_text(content)
    return Observations.read(path, "numeric", columns)


def json_file(path: Path, records: Rows, columns: Columns) -> Observations:
    return file(path, "\n".join(json.dumps(record, default=str) for record in records), columns)


def parquet_file(path: Path, rows: Rows, columns: Columns) -> Observations:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return Observations.read(path, "numeric", columns if columns.scale else None)


def frame(given: pd.DataFrame | pyarrow.Table, columns: Columns) -> Observations:
    return Observations.from_frame(given, answers="numeric", scale=columns.scale)


DOORS: dict[str, Read] = {
    "records of questions": lambda rows, _, columns: Observations.from_records(questions(rows), "numeric", columns),
    "records of reports": lambda rows, _, columns: Observations.from_records(rows, "numeric", columns),
    "frame": lambda rows, _, columns: frame(pd.DataFrame(rows, dtype=object), columns),
    "JSON Lines": lambda rows, path, columns: json_file(path, questions(rows), columns),
    "JSON Lines of reports": lambda rows, path, columns: json_file(path, rows, columns),
    "CSV": lambda rows, path, columns: file(path, pd.DataFrame(rows).to_csv(index=False), columns),
    "Parquet of reports": lambda rows, path, columns: parquet_file(path, rows, columns),
    "Parquet of questions": lambda rows, path, columns: parquet_file(path, questions(rows), columns),
    "Arrow": lambda rows, _, columns: frame(pyarrow.Table.from_pylist(questions(rows)), columns),
}
OF_REPORTS = ("records of reports", "frame", "JSON Lines of reports", "CSV", "Parquet of reports")
OF_QUESTIONS = tuple(door for door in DOORS if door not in OF_REPORTS)
IN_RECORDS = ("records of questions", "records of reports", "JSON Lines", "JSON Lines of reports")
IN_TEXT = ("JSON Lines", "JSON Lines of reports", "CSV")
TYPED = ("Parquet of reports", "Parquet of questions", "Arrow")
WITHOUT_NAMES = [{name: row[name] for name in row if name != "level_name"} for row in ROWS]
HALF = "5\ud83d"  # a lone surrogate, which cannot be written to any file
WORDS = ("nan", "<NA>", "NaT", "None", "null", "N/A")


def changed(field: str, value: object) -> Rows:
    """Return the rows with another value of a field of q, or of its second report."""
    of_question = field in ("problem_id", *OF_QUESTION)
    return [
        row | {field: value} if row["problem_id"] == "q" and (of_question or row["level"] == 1) else row for row in ROWS
    ]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", ["answer", "confidence", "correct", "level_name", "gold_answer"])
def test_doors_take_what_is_missing_for_missing(tmp_path, door, field):
    def read(by: str, value: object) -> Observations:
        rows = changed(field, value)
        rows = [{name: row[name] for name in row if name != "correct" or field == "correct"} for row in rows]
        return DOORS[by](rows, tmp_path / "o", Columns())

    expected = read("records of questions", None)
    values: list[object] = [None, *(WORDS if type_of(field) is str or door not in TYPED else ())]
    values += [float("nan")] if type_of(field) is float or door not in TYPED else []
    values += [] if door in (*IN_TEXT, *TYPED) else [pd.NA, pd.NaT, np.float32("nan")]
    for value in values:
        observations = read(door, value)
        assert observations.fingerprint == expected.fingerprint, value
        np.testing.assert_array_equal(observations.status, expected.status)


def test_doors_take_what_tables_of_pandas_leave_out_for_missing():
    from pandas._libs.parsers import STR_NA_VALUES

    assert STR_NA_VALUES - {""} <= MISSING
    assert all(plain(word) is None for word in MISSING)


@pytest.mark.parametrize(
    ("scale", "stated", "percent"),
    [
        ("fraction", Decimal("0.9"), 90),
        ("fraction", ".5", 50),
        ("fraction", "50 %", 50),
        ("percent", Decimal("0.5"), 0.5),
        (None, "90", 90),
        (None, "40,5", 40.5),
        (None, np.float32(85.1), 85.1),
        ("1-5", 4, 75),
        ("0-10", "7.5", 75),
        ("0-10", "95%", 95),
    ],
)
def test_doors_convert_every_number_in_one_way(tmp_path, scale, stated, percent):
    for door, read in DOORS.items():
        rows = [row | {"confidence": stated, "answer": np.float32(5.1)} for row in ROWS]
        observations = read(rows, tmp_path / "o", Columns(scale=scale))
        np.testing.assert_allclose(observations.confidence, percent / 100, rtol=1e-15, err_msg=door)
        assert observations.candidates == (("5.1",), ("5.1",)), door


@pytest.mark.parametrize("door", DOORS)
def test_flags_are_texts_where_a_text_is_expected(tmp_path, door):
    observations = DOORS[door]([row | {"answer": True} for row in ROWS], tmp_path / "o", Columns())
    assert observations.table.record(1).observations[1].answer == ("True" if door == "CSV" else "true")


@pytest.mark.parametrize("door", OF_REPORTS)
def test_levels_may_be_called_by_decimals(tmp_path, door):
    observations = DOORS[door]([row | {"level": row["level"] / 4} for row in WITHOUT_NAMES], tmp_path / "o", Columns())
    assert observations.level_names == ("0", "0.25")


@pytest.mark.parametrize("door", OF_REPORTS)
def test_fractions_in_tables_are_said_and_kept_for_the_files_of_a_fit(tmp_path, door):
    with pytest.warns(ColumnsWarning, match=r"scale fraction, since all .* in 0 to 1.\nTo change it: --scale percent"):
        observations = DOORS[door]([row | {"confidence": 0.9} for row in WITHOUT_NAMES], tmp_path / "o", Columns())
    assert ({*observations.confidence.ravel()}, observations.table.names.scale) == ({0.9}, "fraction")


@pytest.mark.parametrize("door", ["frame", "CSV", "Parquet of reports"])
def test_flags_may_be_whole_floats(tmp_path, door):
    said = {"records of questions": (True, None, False, None), door: (1.0, np.nan, 0.0, np.nan)}
    rows = {by: [row | {"correct": flag} for row, flag in zip(ROWS, said[by], strict=True)] for by in said}
    expected, observations = (DOORS[by](rows[by], tmp_path / "o", Columns()) for by in said)
    assert observations.fingerprint == expected.fingerprint


def refusal(door: str, rows: Rows, path: Path) -> ObservationError | None:
    """Return the error of rows; None if this door cannot hold them."""
    try:
        DOORS[door](rows, path, Columns())
    except ObservationError as error:
        return error
    except (pyarrow.ArrowException, UnicodeEncodeError):
        assert door in (*TYPED, "CSV")
    return None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("problem_id", value) for value in ("", None, [1])),
        *(("level", value) for value in (None, -1, 2**50, "x", True, [1])),
        *(("answer", value) for value in (["9"], {"a": 1})),
        *(("confidence", value) for value in (100.5, -1, "high", "1_0", float("inf"), True, [1], "x" * 5000)),
        *(("weight", value) for value in (-1, float("inf"), "much", True, "50%", "1_0")),
        *(("correct", value) for value in ("yes", 2, [1])),
        *((field, value) for field in ("level_name", "gold_answer", "cluster") for value in ([1], {"a": 1})),
        *((field, HALF) for field in ("problem_id", "answer", "level_name", "gold_answer", "cluster")),
    ],
)
def test_doors_name_a_cell_that_cannot_be_used_with_its_place(tmp_path, field, value):
    as_text = ["CSV"] if isinstance(value, bool | list | dict) else []
    errors = {door: refusal(door, changed(field, value), tmp_path / "o") for door in DOORS if door not in as_text}
    refused = {door: error for door, error in errors.items() if error is not None}
    is_half = value == HALF
    assert errors.keys() - refused.keys() <= {*TYPED, *(["CSV"] if is_half else [])}
    of_question = field in ("problem_id", *OF_QUESTION)
    for door, error in refused.items():
        by_row = door in OF_REPORTS
        expected = field if of_question or by_row else f"observations[1].{field}"
        assert error.line == ((4 - of_question + (door == "CSV")) if by_row else 2), door
        assert error.field == expected or (is_half and door.startswith("JSON Lines")), door
        assert value in ("", None) or is_half or repr(value)[:50].strip("'") in str(error), door
        assert "expected" in str(error)
        assert "cut off" not in str(error)
        assert len(str(error).encode()) < 600


UNFLAGGED = [{name: row[name] for name in row if name not in ("correct", "group")} for row in ROWS]
RATINGS = [ROWS[0] | {"problem_id": f"r{n}", "confidence": 1 + n % 5} for n in range(24)]
FRACTIONS = [
    row | {"problem_id": f"r{n}", "confidence": 80 - 79.1 * (row["level"] == 0)} for n in range(5) for row in ROWS[:2]
]


def last(**values: object) -> Rows:
    """Return the rows with other values of the second report on q."""
    return [*ROWS[:3], ROWS[3] | values]


@pytest.mark.parametrize(
    ("rows", "doors", "line", "said"),
    [
        ([*WITHOUT_NAMES[:3], WITHOUT_NAMES[3] | {"level": 0}], DOORS, 4,
         "level: this level occurs twice in the question; saw 0.*level='model,prompt'"),
        ([], ["records of reports"], None, "there are no questions; expected at least one"),
        (last(gold_answer="8"), OF_REPORTS, 4, "gold_answer: question 'q' has '7' in an earlier row; saw '8'"),
        (last(cluster="d"), OF_REPORTS, 4, "cluster: question 'q' has 'c' in an earlier row; saw 'd'"),
        ([row | {"weight": 1 + k // 3} for k, row in enumerate(ROWS)], OF_REPORTS, 4,
         r"weight: question 'q' has 1(\.0)? in an earlier row; saw 2"),
        ([ROWS[0] | {"confidences": "=1+1"}, *ROWS[1:]], IN_RECORDS, 1,
         r"confidences: this value cannot be used; saw '=1\+1'; expected"),
        ([ROWS[0] | {"confidences": {"number": 50}}, *ROWS[1:]], IN_RECORDS, 1,
         "confidences: the stated confidence stands here twice, and differs"),
        (last(level_name="higher"), DOORS, 3, "level_name: level 1 is called 'high' before; saw 'higher'"),
        (last(level=2), DOORS, 3, "level_name: this is the name of another level, 'high'; saw 'high'"),
        (last(level=2, level_name="High "), DOORS, 3,
         "level_name: this is the name of another level, 'high'; saw 'High '"),
        (last(group="h"), DOORS, 3, "group: level 'high' is in group 'g' before; saw 'h'"),
        (last(level=2, level_name="g", group=None), DOORS, 1,
         "group: this group has the name of a level that is not in it; saw 'g'"),
        ([*UNFLAGGED[:2], *(row | {"gold_answer": "nine"} for row in UNFLAGGED[2:])], DOORS, 3,
         "gold_answer: the gold answer of question 'q' cannot be read as numeric; saw 'nine'"),
        ([*ROWS[:2], ROWS[2] | {"gold_answer": None}, ROWS[3] | {"gold_answer": None, "correct": None}], DOORS, 3,
         "correct: question 'q' has no gold answer, and 1 of its 2 usable"),
        (FRACTIONS[::2], OF_QUESTIONS, None,
         "confidence: all 5 confidences are at most 1, so .* fractions.*--scale fraction"),
        (FRACTIONS, DOORS, None, "confidence: all 5 confidences of level 'low' are at most 1, so"),
        (RATINGS, DOORS, None, "all 24 confidences are whole and at most 5, so they look like ratings.*--scale 1-5"),
        ([*RATINGS, ROWS[0] | {"confidence": 10}], DOORS, None, "at most 10, so they look like ratings.*--scale 0-10"),
    ],
)  # fmt: skip
def test_doors_name_what_contradicts_itself_with_its_first_line(tmp_path, rows, doors, line, said):
    """A line is that of the row, or of the first row of the question; of a question by doors of questions."""
    for door in doors:
        with pytest.raises(ObservationError, match=said) as caught:
            DOORS[door](rows, tmp_path / "o", Columns())
        of_question = [str(row["problem_id"]) for row in rows]
        number = line and [*dict.fromkeys(of_question)].index(of_question[line - 1]) + 1
        by_row = door in OF_REPORTS
        assert caught.value.line == (line and (line + (door == "CSV") if by_row else number)), door


@given(st.text(min_size=1), st.integers(1, 400), st.text("ab '\"\\\\", max_size=9))
def test_doors_quote_at_most_200_characters_of_a_value(text, times, tail):
    value = text * times + tail
    message = f"question 'q' has {value!r} in levels' names; expected 'b'"
    said = str(DirEAGError(message))
    assert len(said) <= len(message) - max(0, len(repr(value)) - 210)
    assert said == message or len(repr(value)) > 200
    assert said.startswith("question 'q' has ")
    assert said.endswith(" in levels' names; expected 'b'")
    shown = said.removeprefix("question 'q' has ").removesuffix(" in levels' names; expected 'b'")
    error = ObservationError("it is wrong", field="answer", seen=value, expected="'b'", remedy="Correct it.")
    assert str(error) == f"field answer: it is wrong; saw {shown}; expected 'b'. Correct it."
    assert (shown[0], shown[-1]) == (repr(value)[0], repr(value)[-1])


def test_arrays_in_the_rows_of_a_question_are_named():
    for name in ("answer", "gold_answer", "cluster"):
        rows = [row | {name: np.array(["5", "7"])} for row in ROWS]
        for read in (lambda rows: Observations.from_frame(pd.DataFrame(rows)), Observations.from_records):
            with pytest.raises(ObservationError, match=rf"line 1, field {name}: this value .*saw \['5', '7'\]"):
                read(rows)


def test_frames_of_types_that_arrow_lacks():
    frame = pd.DataFrame(ROWS)
    sparse = frame.assign(confidence=pd.arrays.SparseArray(frame["confidence"]))
    assert Observations.from_frame(sparse).fingerprint == Observations.from_frame(frame).fingerprint
    for name, values in {"confidence": [1j] * 4, "answer": pd.period_range("2020", periods=4)}.items():
        with pytest.raises(ObservationError, match=f"line 1, field {name}: this value cannot be used .*; saw "):
            Observations.from_frame(frame.assign(**{name: values}))


def test_columns_of_extension_types_are_read_as_what_they_store_or_named(tmp_path):
    table = pyarrow.Table.from_pylist(ROWS).drop_columns("answer")
    as_json, as_uuid = pyarrow.array(["5", "7"] * 2, pyarrow.json_()), pyarrow.array([bytes(16)] * 4, pyarrow.uuid())
    parquet.write_table(table.append_column("answer", as_json), tmp_path / "o")
    assert Observations.read(tmp_path / "o").candidates == (("5", "7"),) * 2
    parquet.write_table(table.append_column("answer", as_uuid), tmp_path / "o")
    with pytest.raises(ObservationError, match=r"o: a column has a type that is not read; saw 'extension<arrow.uuid>"):
        Observations.read(tmp_path / "o")


def test_bytes_that_are_no_text_are_refused(tmp_path):
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
    parquet.write_table(table.append_column("own name", answers), tmp_path / "o", store_schema=False)
    (tmp_path / "o").write_bytes((tmp_path / "o").read_bytes().replace(b"own name", b"own\xffname"))
    with pytest.raises(ObservationError, match=r"o: texts are not UTF-8; saw b'own"):
        Observations.read(tmp_path / "o")


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
            LongTable.of(table_of_records([(1, record)], None))
    else:
        table = LongTable.of(table_of_records([(1, record)], None))
        assert table.records() == (expected,)
        kept = ["problem_id", *OF_QUESTION]
        assert [table.texts(name).value(0) for name in kept] == [getattr(expected, name) for name in kept]
        for observation in expected.observations:
            given_texts = [table.texts(name).value(0) for name in OF_OBSERVATION]
            assert given_texts == [getattr(observation, name) for name in OF_OBSERVATION]


def test_columns_of_any_type(tmp_path):
    """Categories of polars are views of strings."""
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
    plainly = Observations.read(tmp_path / "o.parquet")
    first, _, last = plainly.questions
    reports = (
        Observation(level=0, level_name="a", answer="9.0", confidence=80.0),
        Observation(level=1, level_name="b", answer="1e+16", confidence=70.0),
    )
    assert first == Question(problem_id="1", gold_answer="9", observations=reports)
    assert last == Question(problem_id="3", gold_answer="4", observations=())
    table = parquet.read_table(tmp_path / "o.parquet")
    names = table["level_name"].combine_chunks()
    for kind in (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view()):
        encoded = names.cast(pyarrow.string()).dictionary_encode()
        coded = pyarrow.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(kind))
        again = Observations.from_frame(table.drop_columns("level_name").append_column("level_name", coded))
        assert (again.fingerprint, again.level_names) == (plainly.fingerprint, ("a", "b"))


def test_doors_do_not_read_a_file_that_claims_to_be_much_larger(tmp_path, monkeypatch):
    """Runs of one value take no room in Parquet."""
    table = pyarrow.table({name: pyarrow.array([value] * 60_000) for name, value in ROWS[0].items()})
    parquet.write_table(table, tmp_path / "o.parquet")
    for bound, most in (("_MOST_A_BYTE", 5), ("_MOST_VALUES", 59_999)):
        with monkeypatch.context() as patched:
            patched.setattr(tables, bound, most)
            with pytest.raises(ObservationError, match=r"it claims to hold 60,000 values in [\d,]+ bytes"):
                Observations.read(tmp_path / "o.parquet", "numeric")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_gzip_is_read_and_half_of_it_named(tmp_path, suffix):
    observations = simulate_observations(60, seed=1)
    observations.write(tmp_path / f"o.{suffix}")
    whole = gzip.compress((tmp_path / f"o.{suffix}").read_bytes())
    path = tmp_path / f"o.{suffix}.gz"
    path.write_bytes(whole)
    assert Observations.read(path).fingerprint == observations.fingerprint
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ObservationError, match="this is not a whole gzip file"):
        Observations.read(path)
    path.write_bytes(gzip.compress(bytes(1 << 22)))
    with pytest.raises(ObservationError, match=r"it unpacks to more than 1,[45]\d\d,\d\d\d bytes"):
        Observations.read(path)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (pd.Series([1]), "saw Series"),
        (None, "saw NoneType"),
        ([{"problem_id": "a"}], r"saw list.*Observations.from_records"),
        ("answers.csv", r"saw str.*Observations.read\('answers.csv'\)"),
        (np.zeros((2, 2)), "saw ndarray"),
    ],
)
def test_doors_name_what_is_no_frame(given, says):
    with pytest.raises(DirEAGError, match=says):
        Observations.from_frame(given)


def test_doors_name_other_objects(small, tmp_path, monkeypatch, request):
    if request.config.getoption("jaxtyping_packages"):
        pytest.skip("the types of arguments are checked at run time here, in users' programs they are not")
    for function in (cross_fit, LikelihoodData.of):
        with pytest.raises(DirEAGError, match="saw DataFrame; expected Observations"):
            function(rows())
    with pytest.raises(DirEAGError, match="of several in one text: level='model,prompt'"):
        Observations.from_frame(rows(), level=["level", "prompt"])
    with pytest.raises(DirEAGError, match="same='equal': expected a function of two answers"):
        Observations.from_frame(rows(), same="equal")
    monkeypatch.setenv("HOME", str(tmp_path))
    small.save("~/fit.nc")
    assert (tmp_path / "fit.nc").exists()
