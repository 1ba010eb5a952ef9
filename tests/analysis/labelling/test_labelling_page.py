"""The page of a table of labels, as it stands in its file."""

import base64
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.labelling import labelling_page
from analysis.labelling.labelling_page import fingerprint
from bayes_direag import Observations, questions_to_label
from tests.analysis.labelling.pages import THEN, hostile, numbers, question, written
from tests.analysis.pages import Page


def data_of(path: Path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def test_what_it_holds(tmp_path):
    path, table = written(numbers(), tmp_path)
    data = data_of(path)
    assert (data["file"], data["column"], data["header"]) == ("labels.csv", 3, table.columns.tolist())
    assert [row[0] for row in data["rows"]] == table["problem_id"].tolist()
    pens = next(one for one in data["questions"] if one["name"] == "pens")
    assert (pens["text"], pens["shown"], pens["right"]) == ("How many pens?", ["$7", "9"], None)
    dogs = next(one for one in data["questions"] if one["name"] == "dogs")
    assert (dogs["answers"], dogs["shown"]) == ([" -1", "2", "4"], ["-1", "2", "4"])
    assert THEN in Page.read(path).text


def test_choices_stand_under_their_letters(tmp_path):
    choices = Observations.from_questions([question("q", "C", "(c)", "B", "a"), question("r", "D")], "choice")
    table = questions_to_label(choices, 2)
    assert set(table["answers"]) == {"(c) | a | B", "D"}
    first = next(one for one in data_of(written(choices, tmp_path, table)[0])["questions"] if one["name"] == "q")
    assert (first["keys"], first["answers"]) == (["A", "B", "C"], ["a", "B", "(c)"])
    by_answer = pd.DataFrame({"problem_id": "q", "answer": ["C", "B", "a"], "correct": ["true", "false", "false"]})
    (judged,) = data_of(written(choices, tmp_path, by_answer)[0])["questions"]
    assert (judged["answers"], judged["rows"], judged["right"]) == (["a", "B", "C"], [2, 1, 0], ["C"])


def test_it_goes_on_where_the_table_is(tmp_path):
    observations = numbers()
    table = questions_to_label(observations, 4).set_index("problem_id", drop=False)
    table["gold_answer"] = {"pens": "7.00", "eggs": "none of these", "cats": "11", "dogs": ""}
    path, _ = written(observations, tmp_path, table.reset_index(drop=True))
    right = {one["name"]: one["right"] for one in data_of(path)["questions"]}
    assert right == {"pens": ["$7"], "eggs": [], "cats": ["11"], "dogs": None}


def test_verdicts_go_on_too(tmp_path):
    observations = hostile()
    table = questions_to_label(observations, 3)
    first = table["problem_id"] == "__proto__"
    table.loc[first, "correct"] = (table["answer"].str.startswith("other") & first)[first].map(str)
    path, _ = written(observations, tmp_path, table)
    right = {one["name"]: one["right"] for one in data_of(path)["questions"]}
    assert sorted(right.pop("__proto__")) == [f"other {k}" for k in range(8)]
    assert [*right.values()] == [None, None]


def test_nothing_that_others_wrote_is_part_of_the_page(tmp_path):
    path, _ = written(hostile(), tmp_path)
    page = Page.read(path)
    assert {name for name, _ in page.tags} == {
        *("html", "head", "meta", "title", "style", "body", "header", "p", "progress", "noscript", "main", "h1", "div"),
        *("pre", "code", "button", "nav", "kbd", "script"),
    }
    assert len(page.attributes("script")) == 2
    script = (Path(labelling_page.__file__).parent / "labelling.js").read_bytes()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    policy = next(meta["content"] for meta in page.attributes("meta") if "http-equiv" in meta)
    assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert "\u202e" not in path.read_text()
    shown = {text for one in data_of(path)["questions"] for text in one["shown"]}
    assert {"\\u202eabc", "<b>bold</b>", "=1+1"} <= shown


def test_the_fingerprint_is_that_of_the_set():
    observations = numbers()
    shuffled = observations.select(np.array([2, 0, 3, 1]))
    labelled = observations.with_labels(questions_to_label(observations, 4).assign(gold_answer="8"))
    assert fingerprint(shuffled) == fingerprint(labelled) == fingerprint(observations)
    assert fingerprint(observations.select(slice(0, 3))) != fingerprint(observations) != fingerprint(hostile())
