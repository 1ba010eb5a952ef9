"""Question sets: the published forms, tables, the hub (a stand-in for it), and rows that are odd."""

import gzip
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bayes_direag.data.answers import canonical
from bayes_direag.errors import DirEAGError
from elicitation.questions import OddRow, Problem, QuestionSet, load_questions
from tests.elicitation.runs import SUMS

PUBLISHED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "questions"


def write(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def published() -> Path:
    if not PUBLISHED.is_dir():
        pytest.skip(f"the published question sets are not at {PUBLISHED}")
    return PUBLISHED


GSM8K = [
    {"question": "Two and two?", "answer": "Two <<2+2=4>>\n#### 4"},
    {"question": " Many? ", "answer": "So many.\n#### 1,080"},
]
SVAMP = [
    {"ID": "chal-7", "Body": "Ann has 3 nuts", "Question": "How many?", "Equation": "3.0", "Answer": 3.0, "Type": "x"},
    {"ID": "chal-2", "Body": "Bo has 2.", "Question": "How many?", "Equation": "2.0", "Answer": 2.5, "Type": "x"},
]
GSM_HARD = [
    {"input": "Big?", "code": "", "target": -9867630.0},
    {"input": "Ugly?", "code": "", "target": 3244047.0999999996},
    {"input": "Tiny?", "code": "", "target": 2.0107e-06},
    {"input": "Plain?", "code": "", "target": 4585.2},
]


def test_gsm8k_golds_are_what_follows_the_marks(tmp_path: Path) -> None:
    questions = load_questions(write(tmp_path / "my_train_part.jsonl", GSM8K))
    assert questions == QuestionSet(
        "gsm8k_train",
        (
            Problem("gsm8k_train-00000", "gsm8k", "Two and two?", "4"),
            Problem("gsm8k_train-00001", "gsm8k", "Many?", "1080"),
        ),
        "numeric",
    )
    assert load_questions(write(tmp_path / "other.jsonl", GSM8K)).name == "gsm8k"


def test_svamp_joins_body_and_question_and_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "SVAMP.json"
    path.write_text(json.dumps(SVAMP))
    questions = load_questions(path)
    assert questions.problems == (
        Problem("svamp-00006", "svamp", "Ann has 3 nuts How many?", "3"),
        Problem("svamp-00001", "svamp", "Bo has 2. How many?", "2.5"),
    )
    assert (questions.name, questions.kind, questions.odd_rows) == ("svamp", "numeric", ())


def test_gsm_hard_golds_are_exact_and_the_ugly_are_reported(tmp_path: Path) -> None:
    text = "\n".join(json.dumps(row) for row in GSM_HARD).replace("4585.2", "4585.19999999999982")  # the same float
    path = tmp_path / "gsmhard.jsonl"
    path.write_text(text)
    questions = load_questions(path)
    golds = [problem.gold_answer for problem in questions.problems]
    assert golds == ["-9867630", "3244047.0999999996", "0.0000020107", "4585.2"]
    reason = "a gold answer of very many digits: kept as published"
    assert questions.odd_rows == (OddRow(2, reason, "3244047.0999999996"), OddRow(3, reason, "2.0107e-06"))


def test_odd_rows_are_listed_and_never_guessed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "gsm8k.jsonl",
        [
            GSM8K[0],
            '{"question": "Cut o',
            {"question": "No marks?", "answer": "It is 5."},
            {"question": "Two?", "answer": "#### 5 or 6"},
            {"question": "Twice?", "answer": "#### 5 #### 5"},
            {"question": " ", "answer": "#### 5"},
            "[1, 2]",
            {"answer": "#### 5"},
            "",
            GSM8K[1],
        ],
    )
    questions = load_questions(path)
    assert [(p.problem_id, p.gold_answer) for p in questions.problems] == [
        ("gsm8k-00000", "4"),
        ("gsm8k-00002", None),
        ("gsm8k-00003", None),
        ("gsm8k-00004", None),
        ("gsm8k-00008", "1080"),
    ]
    assert [(row.line, row.reason) for row in questions.odd_rows] == [
        (2, "not a record of fields: left out"),
        (3, "no gold answer that is numeric: asked without one"),
        (4, "no gold answer that is numeric: asked without one"),
        (5, "no gold answer that is numeric: asked without one"),
        (6, "no question: left out"),
        (7, "not a record of fields: left out"),
        (8, "no question: left out"),
    ]
    assert questions.odd_rows[2].excerpt == "5 or 6"


def test_a_larger_sample_goes_on_from_a_smaller_one() -> None:
    questions = load_questions(SUMS, limit=20)
    smaller, larger, all_of_them = (questions.sample(n, seed=3).problems for n in (4, 9, 99))
    assert smaller == larger[:4] == all_of_them[:4]
    assert set(all_of_them) == set(questions.problems)
    assert questions.problems != all_of_them
    assert questions.sample(9, seed=4).problems != larger


def test_a_limit_reports_only_the_rows_it_reaches(tmp_path: Path) -> None:
    path = write(tmp_path / "gsm8k.jsonl", [GSM8K[0], "odd", GSM8K[1], "odd"])
    assert [len(load_questions(path, limit=n).odd_rows) for n in (1, 2, 9)] == [0, 1, 2]
    assert [len(load_questions(path, limit=n).problems) for n in (1, 2, 9)] == [1, 2, 2]
    with pytest.raises(DirEAGError, match="limit of questions is 0"):
        load_questions(path, limit=0)


def test_tables_with_named_columns(tmp_path: Path) -> None:
    path = tmp_path / "quiz.csv"
    path.write_text('\ufeffno,prompt,solution\nq1,"One, or\ntwo?",b\nq2,Three?,C\nq2,Again?,A\nq5,Five?,\n')
    questions = load_questions(path, columns={"question": "prompt", "gold": "solution", "id": "no"})
    assert questions.kind == "choice"
    assert questions.problems == (
        Problem("q1", "quiz", "One, or\ntwo?", "B"),
        Problem("q2", "quiz", "Three?", "C"),
        Problem("q5", "quiz", "Five?", None),
    )
    assert [(row.line, row.excerpt) for row in questions.odd_rows] == [(5, "q2")]
    packed = tmp_path / "quiz.csv.gz"
    packed.write_bytes(gzip.compress(b"question;answer\nOne, two?;1,5\n"))
    assert [(p.question, p.gold_answer) for p in load_questions(packed, kind="text").problems] == [("One, two?", "1,5")]
    tsv = tmp_path / "quiz.tsv"
    tsv.write_text("question\tanswer\nHow many?\t1,218.0\nHow much?\t$3\n")
    assert [p.gold_answer for p in load_questions(tsv).problems] == ["1218", "3"]
    assert [p.gold_answer for p in load_questions(tsv, kind="text").problems] == ["1,218.0", "$3"]


def test_json_lines_with_the_fields_of_an_observation_file(tmp_path: Path) -> None:
    rows = [
        {"problem_id": "a", "question": "1?", "gold_answer": 0.10, "answer": "wrong column"},
        {"problem_id": 7, "question": "2?", "gold_answer": None},
        {"question": "3?", "gold_answer": [3]},
        {"question": "4?", "gold_answer": True},
    ]
    questions = load_questions(write(tmp_path / "mine.jsonl", rows), kind="numeric")
    assert [(p.problem_id, p.gold_answer) for p in questions.problems] == [
        ("a", "0.1"),
        ("7", None),
        ("mine-00002", None),
        ("mine-00003", None),
    ]
    assert [(row.line, row.excerpt) for row in questions.odd_rows] == [(3, "['3']"), (4, "True")]
    unlabelled = load_questions(write(tmp_path / "bare.jsonl", [{"question": "Why?"}]))
    assert (unlabelled.kind, unlabelled.odd_rows) == ("numeric", ())


@pytest.mark.parametrize(
    ("name", "content", "options", "complaint"),
    [
        ("none.jsonl", None, {}, "saw no such file; expected one of gsm8k, svamp, gsm_hard, or a"),
        ("empty.jsonl", "", {}, "there is no question here"),
        ("text.txt", "hello\nworld\n", {}, "there is no question here; saw 'hello"),
        ("cut.json", '[{"question": "a"', {}, "this is not JSON"),
        ("list.json", "[1, 2]", {}, "there is no question here"),
        ("other.jsonl", '{"prompt": "a", "key": "b"}', {}, "no column 'question'; saw key, prompt"),
        ("other.jsonl", '{"question": "a"}', {"columns": {"gold": "right"}}, "no column 'right'; saw question"),
        ("blank.jsonl", '{"question": ""}', {}, "none of its 1 rows holds a question"),
        ("bad.csv", 'question\n"a" b"\n', {}, "line 2: this is not CSV"),
        ("row.csv", "question,gold\na,1\nb\n", {}, "line 3: this row has 1 cells"),
        ("other.jsonl", '{"question": "a"}', {"columns": {"answer": "b"}}, "FIELD=NAME with one of question, gold, id"),
        ("latin.jsonl", '{"question": "\udcff"}', {}, "this is not UTF-8 text"),
    ],
)
def test_unusable_files_are_refused(
    tmp_path: Path, name: str, content: str | None, options: dict[str, Any], complaint: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, errors="surrogateescape")
    with pytest.raises(DirEAGError, match=complaint):
        load_questions(tmp_path / name, **options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("problem_id", value) for value in ("NA", "null", "N/A", "q\ud83d", "")),
        *((field, "\ud83d?") for field in ("dataset", "question", "gold_answer")),
        *(("question", value) for value in ("NaN", " ")),
    ],
)
def test_what_could_not_be_written_is_refused_before_it_is_asked(field: str, value: str) -> None:
    good = {"problem_id": "a", "dataset": "sums", "question": "1 + 1?", "gold_answer": "2"}
    with pytest.raises(DirEAGError, match=f"saw {field} .*cannot be written to an observation file"):
        Problem(**good | {field: value})


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ('{"problem_id": "NA", "question": "1 + 1?"}', "line 2: question 'NA': saw problem_id 'NA'"),
        ('{"problem_id": "c", "question": "\\ud83d?"}', "line 2: question 'c': saw question"),
        ('{"problem_id": "c", "question": "x", "gold_answer": "\\udcff"}', "line 2: question 'c': saw gold_answer"),
    ],
)
def test_a_row_that_could_not_be_written_is_named(tmp_path: Path, row: str, complaint: str) -> None:
    (tmp_path / "own.jsonl").write_text('{"problem_id": "b", "question": "2 + 2?", "gold_answer": "4"}\n' + row)
    with pytest.raises(DirEAGError, match=complaint):
        load_questions(tmp_path / "own.jsonl", kind="text")


def stand_in(monkeypatch: pytest.MonkeyPatch, rows: Mapping[str, list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
    """Put a stand-in for the datasets library in place, and return the calls that it gets."""
    calls = []

    def load_dataset(path: str, name: str | None, *, split: str, revision: str) -> list[dict[str, Any]]:
        calls.append((path, name, split, revision))
        return rows[split]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return calls


def test_benchmarks_from_the_hub_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, {"train": GSM8K[:1], "test": GSM8K})
    questions = load_questions("gsm8k")
    assert [p.problem_id for p in questions.problems] == ["gsm8k_test-00000", "gsm8k_test-00001"]
    assert load_questions("gsm8k:train").name == "gsm8k_train"
    assert [call[:3] for call in calls] == [("openai/gsm8k", "main", "test"), ("openai/gsm8k", "main", "train")]
    assert len(calls[0][3]) == 40


def test_svamp_from_the_hub_is_all_of_it_in_published_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = [row | {"Answer": str(row["Answer"]), "question_concat": "-"} for row in SVAMP]
    calls = stand_in(monkeypatch, {"train": hub[:1], "test": hub[1:]})
    questions = load_questions("svamp")
    path = tmp_path / "svamp.json"
    path.write_text(json.dumps(SVAMP[::-1]))
    assert questions == load_questions(path)
    assert [call[2] for call in calls] == ["train", "test"]
    assert load_questions("svamp:test").problems[0].problem_id == "svamp-00001"


def test_a_missing_library_and_a_failing_hub_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DirEAGError, match=r'pip install "\.\[datasets\]"'):
        load_questions("gsm8k")
    stand_in(monkeypatch, {})
    with pytest.raises(DirEAGError, match=r"openai/gsm8k \(split test, .* cannot be loaded \(KeyError"):
        load_questions("gsm8k")
    with pytest.raises(DirEAGError, match="no split 'dev'; expected one of train, test"):
        load_questions("gsm8k:dev")
    with pytest.raises(DirEAGError, match="saw names of columns for the benchmark svamp"):
        load_questions("svamp", columns={"question": "Body"})


@pytest.mark.parametrize(
    ("file", "name", "rows", "odd"),
    [
        ("gsm8k_train.jsonl", "gsm8k_train", 7473, 0),
        ("gsm8k_test.jsonl", "gsm8k_test", 1319, 0),
        ("svamp.json", "svamp", 1000, 0),
        ("gsm_hard.jsonl", "gsm_hard", 1319, 155),
    ],
)
def test_the_published_files(published: Path, file: str, name: str, rows: int, odd: int) -> None:
    questions = load_questions(published / file)
    assert (questions.name, questions.kind) == (name, "numeric")
    assert (len(questions.problems), len(questions.odd_rows)) == (rows, odd)
    assert len({problem.problem_id for problem in questions.problems}) == rows
    assert all(p.gold_answer == canonical(p.gold_answer, "numeric") is not None for p in questions.problems)
    assert {row.reason for row in questions.odd_rows} <= {"a gold answer of very many digits: kept as published"}
    if file == "gsm_hard.jsonl":
        targets = [json.loads(line)["target"] for line in (published / file).read_text().splitlines()]
        assert [float(str(problem.gold_answer)) for problem in questions.problems] == targets
