"""``direag predict``: a row a question, which to answer, and what cannot be predicted."""

import json
import re

import pandas as pd
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.estimate import estimate
from bayes_direag.fits import streaming
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag.fits.test_new_levels import joined_by
from tests.command_line import one_line, refuse, succeed


def test_predict_answers_only_the_surest(tmp_path, fitted):
    labelled, new, target = (tmp_path / name for name in ("labelled.jsonl", "new.jsonl", "p.csv"))
    simulate_observations(200, seed=77).write(labelled)
    simulate_observations(60, seed=78).write(new)
    options = ["--target-accuracy", 0.6, "--assurance", 0.8, "--labelled", labelled]
    printed = one_line(succeed("predict", fitted[0], new, "--out", target, *options))
    table = pd.read_csv(target)
    n = int(table["answered"].sum())
    assert 0 < n < 60
    assert f"{n} of 60 new questions are answered" in printed
    assert "for an accuracy of 0.6 with assurance 0.8" in printed
    assert table.loc[table["answered"], "probability"].min() > table.loc[~table["answered"], "probability"].max()
    record = json.loads(succeed("predict", fitted[0], new, "--out", target, "--json", *options))
    assert (record["abstention"]["n_answered"], record["abstention"]["is_approximate"]) == (n, False)


def test_predict_writes_a_row_a_question_in_order(tmp_path, fitted, questions):
    path, expected = tmp_path / "p.csv", Fit.load(fitted[0]).predict(Observations.read(questions, "numeric"))
    assert "81 questions, 1 of them unanswered." in succeed("predict", fitted[0], questions, "--out", path)
    table = pd.read_csv(path, dtype={"problem_id": "str", "answer": "str", "answer_as_given": "str"})
    pd.testing.assert_frame_equal(table, expected, check_exact=True)
    shown = json.loads(succeed("predict", fitted[0], questions, "--out", tmp_path / "p.parquet", "--json"))
    assert {name: shown[name] for name in ("n", "unanswered")} == {"n": 81, "unanswered": 1}
    assert "remarks" not in shown, "one question lacks reports, which costs the others nothing"
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected, check_exact=True)


def test_how_many_are_right_stands_at_the_end(tmp_path, fitted, questions):
    new, target = tmp_path / "new.jsonl", tmp_path / "p.csv"
    simulate_observations(60, seed=78).write(new)
    predicted = estimate(Fit.load(fitted[0]), new)
    assert one_line(succeed("predict", fitted[0], new, "--out", target)).endswith(one_line(predicted.text()))
    record = json.loads(succeed("predict", fitted[0], new, "--out", target, "--json"))
    assert record["estimate"] == predicted.record()
    seen = one_line(succeed("predict", fitted[0], questions, "--out", target))
    assert "cannot be estimated: of 81 questions 80 are answered, and none of these is new" in seen


def test_predict_remarks_on_many_by_a_sample(tmp_path, monkeypatch, fitted):
    monkeypatch.setattr(streaming, "LARGEST_SAMPLE", 50)
    simulate_observations(60, seed=78).write(tmp_path / "new.jsonl")
    printed = succeed("predict", fitted[0], tmp_path / "new.jsonl", "--out", tmp_path / "p.csv")
    assert "From 50 of them, drawn at random: " in printed
    assert "of these 50 answers are right" in printed


def test_predict_writes_every_candidate(tmp_path, fitted, questions):
    path = tmp_path / "candidates.csv"
    assert "81 questions, 1 of them unanswered." in succeed(
        "predict", fitted[0], questions, "--out", path, "--candidates"
    )
    table = pd.read_csv(path, dtype={"answer": "str"})
    assert table.columns.tolist() == ["problem_id", "answer", "answer_as_given", "probability"]
    assert table["answer"].isna().sum() == table["problem_id"].nunique() == 81
    assert table.groupby("problem_id")["probability"].sum().tolist() == pytest.approx([1] * 81)


def test_predict_lets_new_levels_join(tmp_path, fitted):
    new, few, out = tmp_path / "new.jsonl", tmp_path / "few.jsonl", ("--out", tmp_path / "p.csv")
    joined_by(simulate_observations(40, seed=78), "echo", "stranger").write(new)
    joined_by(simulate_observations(20, seed=78), "echo").write(few)
    assert "or let it join by how often it agrees (predict --new-levels" in refuse("predict", fitted[0], new, *out)
    assert "expected at least 30" in refuse("predict", fitted[0], few, *out, "--new-levels")
    decided = "predict", fitted[0], new, *out, "--new-levels", "--target-accuracy", 0.5
    printed = one_line(succeed(*decided))
    assert re.search(r"New level stranger: agrees with most others on \d% of 40 questions; counts 0\.\d times", printed)
    assert "It does not cover the new levels, which no labelled question has." in printed
    assert [level["level"] for level in json.loads(succeed(*decided, "--json"))["new_levels"]] == ["echo", "stranger"]


def test_predict_keeps_the_joined_fit_which_predicts_alike(tmp_path, fitted):
    """Asked again, no level of the file is new to it, which is said."""
    new, joined = tmp_path / "new.jsonl", tmp_path / "joined.nc"
    joined_by(simulate_observations(40, seed=78), "echo").write(new)
    first = succeed("predict", fitted[0], new, "--out", tmp_path / "p.csv", "--save-joined", joined)
    assert f"\n{joined}: the fit with the new levels.\n" in first
    again = succeed("predict", joined, new, "--out", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_text() == (tmp_path / "p.csv").read_text()
    assert "New level echo" in again
    said = succeed("predict", joined, new, "--out", tmp_path / "q.csv", "--new-levels")
    assert "No level of new.jsonl is new to the fit." in said
    assert (tmp_path / "q.csv").read_text() == (tmp_path / "p.csv").read_text()
    refused = refuse("predict", fitted[0], new, "--out", tmp_path / "q.csv", "--save-joined", fitted[0])
    assert "--save-joined" in refused
    assert "a file that is read here" in refused


def test_predict_refuses(tmp_path, fitted, observations):
    labels = ("--out", tmp_path / "p.csv", "--labelled", observations)
    assert "--labelled is for --target-accuracy" in refuse("predict", fitted[0], observations, *labels)
    assert "no such file" in refuse("show", tmp_path / "none.nc")
    swapped = refuse("predict", observations, fitted[0], "--out", tmp_path / "p.csv")
    assert "in the second place; expected FIT, then OBS" in swapped
    line = refuse("predict", fitted[0], observations, "--out", tmp_path / "p.xlsx")
    assert "saw the suffix '.xlsx'; expected one of .csv, .jsonl, .parquet" in line
    column = ("--out", tmp_path / "p.csv", "--column", "levl=prompt")
    assert "--column levl=prompt: expected FIELD=NAME" in refuse("predict", fitted[0], observations, *column)
