"""Frames, records and tables of others become the observations that their file would give, or one clear error."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, ObservationError

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


def read_alike(table: pd.DataFrame, folder: Path, **columns: object) -> Observations:
    """Read a table as a frame and from a file of each format, and return what all of them are."""
    observations = Observations.from_frame(table, **columns)
    table.to_csv(folder / "o.csv", index=False)
    table.to_parquet(folder / "o.parquet", index=False)
    table.to_json(folder / "o.jsonl", orient="records", lines=True)
    for name in ("o.csv", "o.parquet", "o.jsonl"):
        again = Observations.read(folder / name, None, Columns(**columns))
        assert (again.fingerprint, again.groups) == (observations.fingerprint, observations.groups)
        np.testing.assert_array_equal(again.status, observations.status)
    return observations


def test_columns_of_a_table_under_other_names(tmp_path: Path) -> None:
    Observations.from_frame(theirs().assign(notes=[[1, {"a": 2}]] * 36), **NAMES, scale="fraction")  # a list not read
    observations, expected = read_alike(theirs(), tmp_path, **NAMES, scale="fraction"), ours(theirs())
    assert observations.fingerprint == expected.fingerprint
    assert observations.cluster == tuple(f"d{question // 3}" for question in range(12))
    np.testing.assert_array_equal(observations.status, expected.status)


def test_columns_keep_an_order_of_levels() -> None:
    order = ("llama", "qwen", "gpt")
    observations, first = (
        Observations.from_frame(theirs(), **NAMES, scale="fraction", **o) for o in ({"levels": order}, {})
    )
    assert observations.level_names == order != first.level_names
    assert observations.align(first.level_names).fingerprint == first.fingerprint


def wide(form: str) -> pd.DataFrame:
    """Return the table with one row for each question, in the order of its levels, and columns of this form."""
    table = theirs()
    values = table.set_index(["question_id", "model"])[["reply", "p"]].unstack()  # noqa: PD010
    columns = {
        form.format(field=field, level=level): values[field, level].to_numpy()
        for level in dict.fromkeys(table["model"])
        for field in ("reply", "p")
    }
    about = table.drop_duplicates("question_id").set_index("question_id")[["truth", "document"]]
    return about.reset_index().assign(**columns)


def test_columns_of_a_row_a_question_in_every_form(tmp_path: Path) -> None:
    of_levels = {"answer": "reply of {level}", "confidence": "p of {level}"}
    table, expected = wide("{field} of {level}"), ours(theirs())
    observations = read_alike(table, tmp_path, **NAMES | of_levels, scale="fraction")
    arrow = Observations.from_frame(pyarrow.Table.from_pandas(table), **NAMES | of_levels, scale="fraction")
    assert observations.fingerprint == arrow.fingerprint == expected.fingerprint
    names = {name: NAMES[name] for name in ("question", "gold", "cluster")} | of_levels | {"scale": "fraction"}
    assert Observations.from_wide(table, **names).fingerprint == expected.fingerprint
    assert Observations.from_wide(table, **names, levels=["llama"]).level_names == ("llama",)
    with pytest.raises(ObservationError, match=r"no column reply of gemma; .*--column answer={level}_answer"):
        Observations.from_wide(table, **names, levels=["gemma"])


def test_our_own_names_of_a_row_a_question_need_not_be_said(tmp_path: Path) -> None:
    renamed = wide("{field}_{level}").rename(
        columns=lambda name: name.replace("reply", "answer").replace("p_", "confidence_")
    )
    renamed = renamed.rename(columns={"question_id": "problem_id", "truth": "gold_answer", "document": "cluster"})
    observations = read_alike(renamed, tmp_path, scale="fraction")
    assert observations.fingerprint == Observations.from_wide(renamed, scale="fraction").fingerprint
    assert observations.fingerprint == ours(theirs()).fingerprint
    with pytest.raises(ObservationError, match="no column confidence_llama"):
        Observations.from_wide(renamed.drop(columns="confidence_llama"), scale="fraction")


GROUPS = "{group}_run{n}"


def runs(**changes: object) -> pd.DataFrame:
    return theirs().assign(model=theirs()["model"].map({"gpt": "a_run0", "llama": "a_run12", "qwen": "b"}), **changes)


def test_columns_take_a_form_of_groups_by_every_door(tmp_path: Path) -> None:
    columns = {**NAMES, "scale": "fraction", "groups": GROUPS}
    observations = read_alike(runs(), tmp_path, **columns)
    assert dict(zip(observations.level_names, observations.groups, strict=True)) == {
        "a_run0": "a",
        "a_run12": "a",
        "b": "b",
    }
    stated = runs(group=runs()["model"].map({"a_run0": "a", "a_run12": "a"}))
    assert Observations.from_frame(stated, **NAMES, scale="fraction").fingerprint == observations.fingerprint
    records = Observations.from_records(runs().to_dict("records"), None, Columns(**columns))
    assert records.fingerprint == observations.fingerprint
    Observations.from_frame(runs(), **NAMES, scale="fraction").write(tmp_path / "nested.jsonl")
    nested = Observations.read(tmp_path / "nested.jsonl", None, Columns(groups=GROUPS))
    assert nested.fingerprint == observations.fingerprint
    with_groups = runs(group=runs()["model"].map({"b": "c"}))  # a stated group counts
    assert {*Observations.from_frame(with_groups, **columns).groups} == {"a", "c"}
    report = {"problem_id": "a", "answer": "1", "confidence": 50}
    numbered = [report | {"level": 0, "level_name": 7}, report | {"level": 1, "level_name": "a_run1"}]
    assert Observations.from_records(numbered, "numeric", Columns(groups=GROUPS)).groups == ("7", "a")


def test_columns_given_to_a_field_are_of_no_optional_one() -> None:
    named = theirs().rename(columns={"model": "group", "p": "weight"})
    columns = NAMES | {"level": "group", "confidence": "weight", "scale": "fraction"}
    expected = Observations.from_frame(theirs(), **NAMES, scale="fraction")
    observations = Observations.from_frame(named, **columns)
    assert (observations.fingerprint, observations.groups) == (expected.fingerprint, None)


def test_columns_of_groups_are_enough(tmp_path: Path) -> None:
    rows = [{"problem_id": name, "group": "g", "answer": n, "confidence": 60 + n} for name in "ab" for n in range(3)]
    assert read_alike(pd.DataFrame(rows).assign(gold_answer=1), tmp_path).groups == ("g", "g", "g")


def test_columns_with_other_forms_of_groups_and_what_is_none() -> None:
    for form in ("run", "{group}", "{n}{n}", "{group}{group}{n}"):
        with pytest.raises(DirEAGError, match=r"groups='.*expected the form of the names of levels"):
            Observations.from_frame(runs(), **NAMES, scale="fraction", groups=form)
    with pytest.raises(ObservationError, match=r"no level has a name of the form of the groups; saw .*a_run0"):
        Observations.from_frame(runs(), **NAMES, scale="fraction", groups="{group}-run{n}")
    dots = runs().assign(model=runs()["model"].str.replace("_run", ".(x)"))
    observations = Observations.from_frame(dots, **NAMES, scale="fraction", groups="{group}.(x){n}")
    assert sorted(observations.learned_levels) == ["a", "b"]


def test_votes_need_no_column_of_confidences(tmp_path: Path) -> None:
    votes = theirs().drop(columns="p").assign(confidence="not a number")
    names = {**NAMES, "confidence": None}
    observations = read_alike(votes, tmp_path, **names)
    assert observations.voting == observations.level_names
    unstated = Observations.from_frame(theirs().assign(p=np.nan), **NAMES)
    np.testing.assert_array_equal(observations.candidate, unstated.candidate)
    pairs = [f"{field}={name or ''}" for field, name in names.items()]
    assert Columns.named(pairs) == Columns(**names)
    assert Columns(**names).pairs == pairs
    asked = {**names, "answer": "{level}", "levels": ["gpt", "llama", "qwen"]}
    of_questions = wide("{field} of {level}").rename(columns=lambda name: name.removeprefix("reply of "))
    assert Observations.from_wide(of_questions, **asked).voting == ("gpt", "llama", "qwen")


def test_columns_may_be_two_for_a_level(tmp_path: Path) -> None:
    table = pd.concat([theirs(seed=seed).assign(prompt=seed) for seed in range(2)], ignore_index=True)
    columns = {**NAMES, "level": "model,prompt", "scale": "fraction", "groups": "{group}/{n}"}
    observations = read_alike(table, tmp_path, **columns)
    joined = table.assign(model=table["model"] + "/" + table["prompt"].astype(str))
    assert observations.fingerprint == Observations.from_frame(joined, **columns | {"level": "model"}).fingerprint
    assert sorted(observations.learned_levels) == ["gpt", "llama", "qwen"]
    with pytest.raises(ObservationError, match="the table has no column version"):
        Observations.from_frame(table, **columns | {"level": "model,version"})


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_cells_with_semicolons_or_tabs_between_them(tmp_path: Path, delimiter: str) -> None:
    path, columns = tmp_path / "o.csv", Columns(**NAMES, scale="fraction")
    table = theirs().assign(reply=theirs()["reply"].map(lambda reply: f"{reply:.0f}, or so", na_action="ignore"))
    expected = Observations.from_frame(table, **NAMES, scale="fraction")
    for about in ({}, {"decimal": ","}, {"quoting": csv.QUOTE_ALL}):
        table.to_csv(path, index=False, sep=delimiter, **about)
        path.write_text("\n" + path.read_text())
        assert Observations.read(path, None, columns).fingerprint == expected.fingerprint


def test_columns_may_be_named_by_numbers_and_levels_are_names_that_are_numbered_as_they_appear(tmp_path: Path) -> None:
    table = pd.DataFrame([["a", "small", "5", 90, "5"], ["a", "large", "6", 80, "5"], ["b", "large", "5", 70, "5"]])
    observations = Observations.from_frame(table, question=0, level=1, answer=2, confidence=3, gold=4)
    named = table.set_axis(["problem_id", "level", "answer", "confidence", "gold_answer"], axis=1)
    assert observations.fingerprint == read_alike(named, tmp_path).fingerprint
    assert observations.level_names == ("small", "large")
    np.testing.assert_allclose(observations.confidence, [[0.9, 0.8], [np.nan, 0.7]])


@pytest.mark.parametrize(
    ("change", "named", "said"),
    [
        ({"p": 0.5}, {"scale": "percent", "confidence": "q"}, "no column q for the confidence; .*--column confidence="),
        ({"p": 85.0}, {"scale": "fraction"}, r"line 1, field p: this confidence is not on the scale fraction; saw 85"),
        ({}, {"level": "modl"}, r"the table has no column modl for the level; .*Did you mean model"),
        ({}, {"levels": ["gpt", "llama"], "scale": "fraction"}, r"field model: this level is not among .*'qwen'"),
        ({"reply": [[1]] * 36}, {"scale": "fraction"}, r"line 1, field reply: .*cannot be used.*saw \[1\]"),
        ({"p": "high"}, {"scale": "fraction"}, r"line 1, field p: this value cannot be used.*saw 'high'"),
        ({"model": [0, *["gpt"] * 34, "qwen"]}, {"scale": "fraction"}, r"field model: .*saw 'gpt'"),
        ({"truth": range(36)}, {"scale": "fraction"}, r"field truth: question 0 has 0 in an earlier row; saw 1"),
        ({"model": ["gpt", "gpt", *theirs()["model"][2:]]}, {"scale": "fraction"}, "this level occurs twice.*'gpt'"),
        ({}, {"level": "model,qid", "question": "qid"}, "2 fields are in the column 'qid' .*: expected a column"),
        ({}, {"scale": "percentage"}, "scale.*percentage"),
        ({}, {"scale": "fraction", "answers": "number"}, "answers.*number"),
    ],
)  # fmt: skip
def test_columns_are_named_in_errors_in_the_words_of_the_table(change, named, said) -> None:
    with pytest.raises((DirEAGError, TypeError), match=f"(?s){said}"):  # a TypeError where types are checked
        Observations.from_frame(theirs().assign(**change), **NAMES | named)


@pytest.mark.parametrize("columns", [Columns(scale="fraction"), Columns(level="model"), None])
@pytest.mark.parametrize(("given", "field"), [(3, ""), ("x", ""), ({"a": 1}, ""), ([3], r"\[0\]"), ([[1]], r"\[0\]")])
def test_observations_that_are_no_list_of_objects(columns, given, field) -> None:
    with pytest.raises(ObservationError, match=f"line 1, field observations{field}: this .* expected a list of obj"):
        Observations.from_records([{"problem_id": "a", "observations": given}], "numeric", columns)


def test_pairs_of_fields_and_names() -> None:
    pairs = ["level=model", "gold=truth"]
    assert Columns.named(pairs, scale="fraction") == Columns(level="model", gold="truth", scale="fraction")
    for pair in ("levl=model", "level", "level=", "scale=fraction"):
        with pytest.raises(DirEAGError, match=f"--column {pair}: expected FIELD=NAME, the field one of question, "):
            Columns.named([pair])
