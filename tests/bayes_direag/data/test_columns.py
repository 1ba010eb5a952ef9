"""Frames, records and tables of others become the observations that their file would give, or one clear error."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, ObservationError
from tests.bayes_direag.long_tables import long_table

NAMES = {
    "question": "question_id",
    "level": "model",
    "answer": "reply",
    "confidence": "p",
    "gold": "truth",
    "cluster": "document",
}


def theirs(n: int = 12, seed: int = 0) -> pd.DataFrame:
    """Return a table under other names: levels are names, confidences fractions, some of each kind missing."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "question_id": question,
            "level": 7,  # of theirs, and not what a level is here
            "model": name,
            "reply": rng.choice([51, 52, np.nan], p=[0.6, 0.3, 0.1]),
            "p": rng.choice([0.0, 0.07, 0.85, 1.0, np.nan]),
            "truth": np.int64(51),
            "document": f"d{question // 3}",
        }
        for question in range(n)
        for name in rng.permutation(["gpt", "llama", "qwen"])
    ]
    return pd.DataFrame(rows)


def ours(table: pd.DataFrame) -> Observations:
    """Build the same by hand."""
    order = list(dict.fromkeys(table["model"]))
    lines = []
    for name, rows in table.groupby("question_id"):
        reports = [
            {
                "level": order.index(row.model),
                "level_name": row.model,
                "answer": None if np.isnan(row.reply) else str(row.reply),
                "confidence": None if np.isnan(row.p) else round(100 * row.p, 9),
            }
            for row in rows.itertuples()
        ]
        about = {"problem_id": str(name), "gold_answer": "51", "cluster": rows["document"].iloc[0]}
        lines.append({**about, "observations": reports})
    return Observations.from_records(lines)


def as_file(table: pd.DataFrame, path: Path) -> Path:
    match path.suffix:
        case ".csv":
            table.to_csv(path, index=False)
        case ".parquet":
            table.to_parquet(path, index=False)
        case ".jsonl":
            table.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", None])
def test_a_table_under_other_names(tmp_path: Path, suffix: str | None) -> None:
    if suffix is None:
        found = Observations.from_frame(theirs(), **NAMES, scale="fraction")
    else:
        found = Observations.read(as_file(theirs(), tmp_path / f"o{suffix}"), None, Columns(**NAMES, scale="fraction"))
    expected = ours(theirs())
    assert found.fingerprint == expected.fingerprint
    assert found.cluster == tuple(f"d{question // 3}" for question in range(12))
    np.testing.assert_array_equal(found.status, expected.status)


def test_records_with_numpy_values_and_every_kind_of_nothing() -> None:
    columns = Columns(**NAMES, scale="fraction")
    records = theirs().to_dict("records")
    for number, record in enumerate(records):
        record |= {"question_id": np.int32(record["question_id"]), "p": np.float32(record["p"])}
        if np.isnan(record["reply"]):
            record["reply"] = [None, pd.NA, np.nan, pd.NaT][number % 4]
    found = Observations.from_records(records, columns=columns)
    np.testing.assert_allclose(found.confidence, ours(theirs()).confidence, rtol=1e-6)
    np.testing.assert_array_equal(found.candidate, ours(theirs()).candidate)


@given(st.permutations(["gpt", "llama", "qwen"]))
def test_an_order_of_levels_is_kept(order: list[str]) -> None:
    found = Observations.from_frame(theirs(), **NAMES, levels=order, scale="fraction")
    first = Observations.from_frame(theirs(), **NAMES, scale="fraction")
    assert found.level_names == tuple(order)
    for column, name in enumerate(order):
        place = first.level_names.index(name)
        np.testing.assert_array_equal(found.confidence[:, column], first.confidence[:, place])


@pytest.mark.parametrize("seed", range(3))
def test_there_and_back(tmp_path: Path, seed: int) -> None:
    drawn = long_table("numeric", seed=seed, flagged=seed % 2 == 0)
    once = Observations.from_frame(drawn, answers="numeric")
    again = Observations.from_frame(once.to_frame(), answers="numeric")
    assert again.fingerprint == once.fingerprint
    pd.testing.assert_frame_equal(again.to_frame(), once.to_frame())
    for name in ("o.parquet", "o.csv", "o.jsonl"):
        once.write(tmp_path / name)
        pd.testing.assert_frame_equal(Observations.read(tmp_path / name, "numeric").to_frame(), once.to_frame())
    assert once.to_frame()["level"].dtype == "Int64"


def test_one_row_a_question() -> None:
    wide = pd.DataFrame(
        {
            "id": ["a", "b"],
            "answer": ["51", "7"],
            "gpt said": ["51 dollars", None],
            "gpt sure": [0.9, np.nan],
            "llama said": [50.0, 7.0],
            "llama sure": [1.0, 0.25],
        }
    )
    names = {"question": "id", "answer": "{level} said", "confidence": "{level} sure"}
    found = Observations.from_wide(wide, **names, gold="answer", scale="fraction")
    assert (found.level_names, found.problem_id) == (("gpt", "llama"), ("a", "b"))
    np.testing.assert_array_equal(found.correct, [[True, False], [False, True]])
    np.testing.assert_allclose(found.confidence, [[0.9, 1.0], [np.nan, 0.25]])
    one = Observations.from_wide(wide, **names, gold="answer", levels=["llama"], scale="fraction")
    assert one.level_names == ("llama",)
    with pytest.raises(ObservationError, match=r"no column gemma said; saw 'id, .*answer='{level}_answer'"):
        Observations.from_wide(wide, **names, levels=["gemma"])


def test_correctness_may_be_zeros_and_ones() -> None:
    table = theirs().drop(columns="truth").assign(judged=lambda t: (t["reply"] == 51).astype(float), reply="word")
    names = {name: column for name, column in NAMES.items() if name != "gold"}
    found = Observations.from_frame(table, **names, correct="judged", scale="fraction")
    flagged = [report.correct for question in found.questions for report in question.observations]
    assert flagged == table["judged"].astype(bool).tolist()


def test_columns_may_be_named_by_numbers() -> None:
    table = pd.DataFrame([["a", 0, "5", 90, "5"], ["b", 0, "6", 80, "5"]])
    found = Observations.from_frame(table, question=0, level=1, answer=2, confidence=3, gold=4)
    named = table.set_axis(["problem_id", "level", "answer", "confidence", "gold_answer"], axis=1)
    assert found.fingerprint == Observations.from_frame(named).fingerprint


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("change", "named", "said"),
        [
            ({"p": 0.5}, {}, r"all 36 confidences are at most 1.*saw 0.5; .*scale='fraction'"),
            ({"p": 85.0}, {"scale": "fraction"}, r"line 1, field p: this confidence is not a fraction; saw 85.0"),
            ({}, {"level": "modl"}, r"the table has no column modl; saw 'question_id, .*level='NAME'"),
            ({}, {"levels": ["gpt", "llama"], "scale": "fraction"}, r"field model: this level is not among .*'qwen'"),
            (
                {"reply": [[1]] * 36},
                {"scale": "fraction"},
                r"line 1, field reply: this value cannot be used.*saw \[1\]",
            ),
            ({"p": "high"}, {"scale": "fraction"}, r"line 1, field p: this value cannot be used.*saw 'high'"),
            (
                {"model": [0, *["gpt", "llama"] * 17, "qwen"]},
                {"scale": "fraction"},
                r"field model: .*saw '(gpt|llama)'",
            ),
            ({"truth": range(36)}, {"scale": "fraction"}, r"field truth: question 0 has 0 in an earlier row; saw 1"),
        ],
    )
    def test_it_is_said_in_the_words_of_the_table(self, change, named, said) -> None:
        with pytest.raises(ObservationError, match=said):
            Observations.from_frame(theirs().assign(**change), **NAMES | named)

    def test_lists_do_harm_only_where_they_are_read(self) -> None:
        expected = Observations.from_frame(theirs(), **NAMES, scale="fraction")
        unused = theirs().assign(notes=[[1, {"a": 2}]] * 36)
        assert Observations.from_frame(unused, **NAMES, scale="fraction").fingerprint == expected.fingerprint
        for field in ("question_id", "model", "document"):
            with pytest.raises(ObservationError, match=rf"line 1, field {field}: this value cannot be used.*saw \[1\]"):
                Observations.from_frame(theirs().assign(**{field: [[1]] * 36}), **NAMES, scale="fraction")

    @pytest.mark.parametrize("columns", [Columns(scale="fraction"), Columns(level="model"), None])
    @pytest.mark.parametrize(
        ("given", "field"), [(3, ""), ("x", ""), ({"a": 1}, ""), ([3], r"\[0\]"), ([[1]], r"\[0\]")]
    )
    def test_observations_that_are_no_list_of_objects(self, columns, given, field) -> None:
        with pytest.raises(
            ObservationError, match=f"line 1, field observations{field}: this .* expected a list of obj"
        ):
            Observations.from_records([{"problem_id": "a", "observations": given}], "numeric", columns)

    def test_percentages_that_look_like_fractions_may_be_some(self) -> None:
        low = theirs().assign(p=0.5)
        found = Observations.from_frame(low, **NAMES, scale="percent")
        assert np.nanmax(found.confidence) == 0.005

    def test_pairs_that_are_none(self) -> None:
        assert Columns.named(["level=model", "gold=truth"], "fraction") == Columns(
            level="model", gold="truth", scale="fraction"
        )
        for pair in ("levl=model", "level", "level=", "scale=fraction"):
            with pytest.raises(DirEAGError, match=f"--column {pair}: expected FIELD=NAME, the field one of question, "):
                Columns.named([pair])

    def test_lines_that_are_neither(self, tmp_path: Path) -> None:
        path = tmp_path / "o.jsonl"
        path.write_text(json.dumps({"id": "a", "level": 0, "answer": "1"}) + "\n")
        with pytest.raises(ObservationError, match="a line a report, name its columns"):
            Observations.read(path)
        with pytest.raises(ObservationError, match="no column confidence; saw 'id, level, answer'"):
            Observations.read(path, columns=Columns(question="id"))


def test_records_of_questions_may_have_other_names_too() -> None:
    records = [
        {"id": "a", "gold_answer": "1", "observations": [{"level": name, "answer": "1", "p": p} for name, p in said]}
        for said in ([("x", 0.5), ("y", 1.0)], [("y", 0.25)])
    ]
    records[1]["id"] = "b"
    found = Observations.from_records(records, columns=Columns(question="id", confidence="p", scale="fraction"))
    np.testing.assert_allclose(found.confidence, [[0.5, 1.0], [np.nan, 0.25]])
    assert found.level_names == ("x", "y")
