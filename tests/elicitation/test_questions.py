"""Question sets: the published forms, tables, the hub (a stand-in for it), and rows that are odd."""

import gzip
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayes_direag.data.answers import canonical
from bayes_direag.errors import DirEAGError
from elicitation.questions import Problem, QuestionSet, load_questions
from tests.conftest import shared_folder
from tests.elicitation.runs import SUMS

GSM8K = [
    {"question": "Two and two?", "answer": "Two <<2+2=4>>\n#### 4"},
    {"question": " Many? ", "answer": "So many.\n#### 1,080"},
]
SVAMP = [
    {"ID": "chal-7", "Body": "Ann has 3 nuts", "Question": "How many?", "Equation": "3.0", "Answer": 3.0, "Type": "x"},
    {"ID": "chal-2", "Body": "Bo has 2.", "Question": "How many?", "Equation": "2.0", "Answer": 2.5, "Type": "x"},
]
DIGITS = "a gold answer of very many digits: kept as published"


CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("question_cases.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case.get("error", case["file"]) for case in CASES])
def test_load_questions_reads_a_file_without_guessing_or_refuses_it(case: dict[str, Any], tmp_path: Path) -> None:
    """A case has a file, its content, and the options; what comes of it, with the odd rows, or words of the error."""
    path = tmp_path / case["file"]
    if case["content"] is not None:
        data = case["content"].encode(errors="surrogateescape")
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    if "error" in case:
        with pytest.raises(DirEAGError) as error:
            load_questions(path, **case["options"])
        assert case["error"] in str(error.value)
        return
    questions = load_questions(path, **case["options"])
    name, dataset, kind = case["about"].split()
    assert (questions.name, questions.kind) == (name, kind)
    assert questions.problems == tuple(Problem(one, dataset, *told) for one, *told in case["problems"])
    assert [[*row] for row in questions.odd_rows] == case["odd"]


def test_sample_of_more_begins_with_a_smaller_one() -> None:
    questions = load_questions(SUMS, limit=20)
    smaller, larger, all_of_them = (questions.sample(n, seed=3).problems for n in (4, 9, 99))
    assert smaller == larger[:4] == all_of_them[:4]
    assert set(all_of_them) == set(questions.problems)
    assert questions.problems != all_of_them
    assert questions.sample(9, seed=4).problems != larger


def test_digest_is_of_ids_texts_gold_answers_and_order() -> None:
    first, second = load_questions(SUMS, limit=2).problems
    changed = [replace(first, **{field: "7"}) for field in ("problem_id", "question", "gold_answer")]
    sets = [(first, second), (second, first), *((one, second) for one in changed)]
    assert len({QuestionSet("sums", problems, "numeric").digest for problems in sets}) == 5
    assert QuestionSet("a", (replace(first, dataset="a"),), "text").digest == load_questions(SUMS, limit=1).digest


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("problem_id", value) for value in ("NA", "null", "N/A", "q\ud83d", "")),
        *((field, "\ud83d?") for field in ("dataset", "question", "gold_answer")),
        *(("question", value) for value in ("NaN", " ")),
    ],
)
def test_problem_refuses_what_could_not_be_written(field: str, value: str) -> None:
    good = {"problem_id": "a", "dataset": "sums", "question": "1 + 1?", "gold_answer": "2"}
    with pytest.raises(DirEAGError, match=f"saw {field} .*cannot be written to an observation file"):
        Problem(**good | {field: value})


def stand_in(monkeypatch: pytest.MonkeyPatch, rows: Mapping[str, list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """Put a stand-in for the datasets library in place, and return the calls that it gets."""
    calls = []

    def load_dataset(path: str, name: str | None, *, split: str, revision: str) -> list[dict[str, Any]]:
        calls.append((path, name, split, revision))
        return rows[split]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_load_questions_reads_pinned_benchmarks_in_published_order(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, {"train": GSM8K[:1], "test": GSM8K})
    questions = load_questions("gsm8k")
    assert [p.problem_id for p in questions.problems] == ["gsm8k_test-00000", "gsm8k_test-00001"]
    assert load_questions("gsm8k:train").name == "gsm8k_train"
    assert [call[:3] for call in calls] == [("openai/gsm8k", "main", "test"), ("openai/gsm8k", "main", "train")]
    assert len(calls[0][3]) == 40
    hub = [row | {"Answer": str(row["Answer"]), "question_concat": "-"} for row in SVAMP]
    calls = stand_in(monkeypatch, {"train": hub[:1], "test": hub[1:]})
    first = Problem("svamp-00001", "svamp", "Bo has 2. How many?", "2.5")
    second = Problem("svamp-00006", "svamp", "Ann has 3 nuts How many?", "3")
    assert load_questions("svamp") == QuestionSet("svamp", (first, second), "numeric")
    assert [call[2] for call in calls] == ["train", "test"]
    assert load_questions("svamp:test").problems == (first,)


def test_load_questions_says_what_to_do_without_library_or_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    for installed, name, options, complaint in (
        (False, "gsm8k", {}, r'pip install "\.\[datasets\]"'),
        (True, "gsm8k", {}, r"openai/gsm8k \(split test, .* cannot be loaded \(KeyError"),
        (True, "gsm8k:dev", {}, "no split 'dev'; expected one of train, test"),
        (True, "svamp", {"columns": {"question": "Body"}}, "saw names of columns for the benchmark svamp"),
    ):
        stand_in(monkeypatch, {})
        if not installed:
            monkeypatch.setitem(sys.modules, "datasets", None)
        with pytest.raises(DirEAGError, match=complaint):
            load_questions(name, **options)


@pytest.mark.parametrize(
    ("file", "name", "rows", "odd"),
    [
        ("gsm8k_train.jsonl", "gsm8k_train", 7473, 0),
        ("gsm8k_test.jsonl", "gsm8k_test", 1319, 0),
        ("svamp.json", "svamp", 1000, 0),
        ("gsm_hard.jsonl", "gsm_hard", 1319, 155),
    ],
)
def test_load_questions_reads_the_published_files(file: str, name: str, rows: int, odd: int) -> None:
    path = shared_folder("questions") / file
    questions = load_questions(path)
    assert (questions.name, questions.kind) == (name, "numeric")
    assert (len(questions.problems), len(questions.odd_rows)) == (rows, odd)
    assert len({problem.problem_id for problem in questions.problems}) == rows
    assert all(p.gold_answer == canonical(p.gold_answer, "numeric") is not None for p in questions.problems)
    assert {row.reason for row in questions.odd_rows} <= {DIGITS}
    if file == "gsm_hard.jsonl":
        targets = [json.loads(line)["target"] for line in path.read_text().splitlines()]
        assert [float(str(problem.gold_answer)) for problem in questions.problems] == targets
