"""What values of others' tables are: on other scales, as texts, as decimals, with spaces and flags of any form."""

import gzip
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from bayes_direag import LikelihoodData, Observations, cross_fit, fit_map
from bayes_direag.data.columns import Columns
from bayes_direag.errors import DirEAGError, ObservationError
from bayes_direag.model.simulate import simulate_observations


def rows(n: int = 24, **columns: object) -> pd.DataFrame:
    """Return a report of one level on each question."""
    plain = {"problem_id": [f"q{i}" for i in range(n)], "level": "a", "answer": "5", "gold_answer": "5"}
    return pd.DataFrame(plain | {"confidence": 80.0} | columns)


@pytest.mark.parametrize(
    ("scale", "stated", "fractions"),
    [
        ("fraction", [Decimal("0.9"), Decimal("0.5")], [0.9, 0.5]),
        ("fraction", ["0.9", ".5"], [0.9, 0.5]),
        ("fraction", ["90%", "50 %"], [0.9, 0.5]),
        ("percent", [Decimal("90"), Decimal("0.5")], [0.9, 0.005]),
        (None, ["90", "40,5"], [0.9, 0.405]),
        (None, ["90 %", "40"], [0.9, 0.4]),
        ("1-5", [1, 4], [0.0, 0.75]),
        ("0-10", [10, 7.5], [1.0, 0.75]),
        ("0-10", ["10", "95%"], [1.0, 0.95]),
    ],
)
def test_every_number_passes_one_conversion(tmp_path: Path, scale, stated, fractions) -> None:
    table = rows(2, confidence=pd.Series(stated, dtype=object))
    found = Observations.from_frame(table, scale=scale)
    np.testing.assert_allclose(found.confidence[:, 0], fractions, rtol=1e-15)
    if all(isinstance(value, Decimal) for value in stated):
        columns = {name: pyarrow.array(table[name].tolist()) for name in table}
        parquet.write_table(pyarrow.table(columns), tmp_path / "o.parquet")
        found = Observations.read(tmp_path / "o.parquet", None, Columns(scale=scale))
    else:
        table.to_csv(tmp_path / "o.csv", index=False)
        found = Observations.read(tmp_path / "o.csv", None, Columns(scale=scale))
    np.testing.assert_allclose(found.confidence[:, 0], fractions, rtol=1e-15)


@pytest.mark.parametrize(
    ("scale", "value"), [("1-5", 0), ("1-5", 5.5), ("0-10", 11), ("fraction", 2), ("0-10", "high")]
)
def test_what_is_not_on_the_scale_is_an_error(scale: str, value: object) -> None:
    with pytest.raises(ObservationError, match=r"line 1, field confidence: this (confidence|value)"):
        Observations.from_frame(rows(2, confidence=pd.Series([value, 1], dtype=object)), scale=scale)


@pytest.mark.parametrize(("largest", "scale"), [(5, "1-5"), (10, "0-10")])
def test_ratings_are_refused_with_their_scale(largest: int, scale: str) -> None:
    table = rows(confidence=np.arange(24) % largest + 1.0)
    with pytest.raises(ObservationError, match=rf"look like ratings.*--scale {scale}"):
        Observations.from_frame(table)
    assert Observations.from_frame(table, scale=scale).confidence.max() == 1
    assert Observations.from_frame(table, scale="percent").confidence.max() == largest / 100
    Observations.from_frame(table.assign(confidence=table["confidence"] * 1.1))  # no ratings
    Observations.from_frame(table.head(19))  # too few to tell


@pytest.mark.parametrize("other", ["gpt ", "GPT", "gpt\u00a0"])
def test_levels_that_differ_in_case_or_spaces_alone_are_an_error(other: str) -> None:
    table = rows(2, level=["gpt", other])
    with pytest.raises(ObservationError, match="line 2, field level_name: two levels have names that differ in"):
        Observations.from_frame(table)


def test_flags_may_be_whole_floats(tmp_path: Path) -> None:
    table = rows(3, correct=[1.0, 0.0, np.nan]).drop(columns="gold_answer")
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"o.{suffix}"
        table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
        found = Observations.read(path)
        assert found.correct[:, 0].tolist() == [True, False, False]
        assert found.labelled.tolist() == [True, True, False]


def test_names_keep_their_commas_where_semicolons_part_cells(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("problem_id;level;answer;confidence\na;small, bold;5;90,5\na;gpt-3,5;5;80\n")
    found = Observations.read(tmp_path / "o.csv", "numeric")
    assert found.level_names == ("small, bold", "gpt-3,5")
    np.testing.assert_allclose(found.confidence, [[0.905, 0.8]])


@pytest.mark.parametrize(
    ("answers", "read"),
    [
        (["3,5", "-2,25 kg", "1.218"], ["3.5", "-2.25", "1218"]),
        (["1.218,50", "2,500", "4"], ["1218.5", "2.5", "4"]),
        (["3.5", "1,218", "1,218.5"], ["3.5", "1218", "1218.5"]),
        (["1,218", "3.5", "3,5"], None),  # some commas are decimal, some points are
        (["1,218", "2,000", "5"], ["1218", "2000", "5"]),
    ],
)
def test_commas_are_decimal_where_a_table_with_semicolons_shows_it(tmp_path: Path, answers, read) -> None:
    path = tmp_path / "o.csv"
    rows(3, answer=answers, gold_answer=answers).to_csv(path, index=False, sep=";")
    if read is None:
        with pytest.raises(ObservationError, match="line 4, field gold_answer: this has a decimal comma; saw '3,5'"):
            Observations.read(path)
    else:
        assert [texts for (texts,) in Observations.read(path).candidates] == read


@pytest.mark.parametrize(
    "text",
    [
        "problem_id, level, answer, confidence, gold_answer\nq, a, 5, 90, 5\n",
        "problem_id,level,answer,confidence,gold_answer,,\nq,a,5,90,5,,\n",
        ' problem_id,"level ", answer,confidence,gold_answer\nq,"a",5,90,5\n',
    ],
)
def test_headers_of_spreadsheets_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "o.csv").write_text(text)
    found = Observations.read(tmp_path / "o.csv")
    assert (found.problem_id, found.level_names, found.correct.tolist()) == (("q",), ("a",), [[True]])


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_gzip_is_read_and_half_of_it_named(tmp_path: Path, suffix: str) -> None:
    observations = simulate_observations(60, seed=1)
    observations.write(tmp_path / f"o.{suffix}")
    whole = gzip.compress((tmp_path / f"o.{suffix}").read_bytes())
    path = tmp_path / f"o.{suffix}.gz"
    path.write_bytes(whole)
    assert Observations.read(path).fingerprint == observations.fingerprint
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ObservationError, match="this is not a whole gzip file"):
        Observations.read(path)


def test_a_workbook_is_named(tmp_path: Path) -> None:
    (tmp_path / "o.xlsx").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ObservationError, match=r"this is a workbook.*Save its sheet as CSV"):
        Observations.read(tmp_path / "o.xlsx")


def test_a_carriage_return_in_a_text_comes_back(tmp_path: Path) -> None:
    table = rows(2, answer=["x\rightarrow", '=1+1\r"'], gold_answer="x")
    Observations.from_frame(table, answers="text").write(tmp_path / "o.csv")
    assert pd.read_csv(tmp_path / "o.csv")["answer"].tolist() == table["answer"].tolist()
    found = Observations.read(tmp_path / "o.csv", "text")
    assert [one.observations[0].answer for one in found.questions] == table["answer"].tolist()


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
def test_what_is_no_frame_is_named(given: object, says: str) -> None:
    with pytest.raises(DirEAGError, match=says):
        Observations.from_frame(given)


def test_other_objects_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request) -> None:
    if request.config.getoption("jaxtyping_packages"):
        pytest.skip("the types of arguments are checked at run time here, in users' programs they are not")
    observations = simulate_observations(60, seed=1)
    for function in (cross_fit, LikelihoodData.of):
        with pytest.raises(DirEAGError, match="saw DataFrame; expected Observations"):
            function(observations.to_frame())
    with pytest.raises(DirEAGError, match="of several in one text: level='model,prompt'"):
        Observations.from_frame(rows(), level=["level", "prompt"])
    monkeypatch.setenv("HOME", str(tmp_path))
    fit_map(observations, preset="paper").save("~/fit.nc")
    assert (tmp_path / "fit.nc").exists()
