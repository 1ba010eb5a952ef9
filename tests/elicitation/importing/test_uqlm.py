"""Results of uqlm, which it wrote itself, and changed ones."""

from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from elicitation.questions import load_questions
from tests.elicitation.importing.logs_of_tools import LOGS, SAID, reports, write


def test_response_and_samples_are_levels() -> None:
    imported = import_logs("uqlm", [LOGS / "uqlm" / "frame.jsonl"], kind="numeric")
    assert reports(imported.questions[0]) == [
        ("response", "3", 76.0),
        ("sample 1", "3", 45.0),
        ("sample 2", "3", 66.0),
        ("sample 3", None, None),
    ]


def test_the_questions_are_joined_in_order() -> None:
    questions = load_questions(LOGS / "batch" / "questions.jsonl")
    imported = import_logs("uqlm", [LOGS / "uqlm" / "result.json"], questions=questions)
    assert [question.problem_id for question in imported.questions] == [f"pens-{i}" for i in range(8)]
    assert [question.gold_answer for question in imported.questions] == [str(3 * i + 3) for i in range(8)]
    both = import_logs("uqlm", [LOGS / "uqlm" / "frame.jsonl"], questions=questions)
    assert list(map(reports, both.questions)) == list(map(reports, imported.questions))
    few = load_questions(LOGS / "batch" / "questions.jsonl", limit=5)
    with pytest.raises(DirEAGError, match="saw '8 rows'; expected 5, one for each question"):
        import_logs("uqlm", [LOGS / "uqlm" / "result.json"], questions=few)


def test_a_score_is_a_level_with_the_answer_of_the_response() -> None:
    imported = import_logs("uqlm", [LOGS / "uqlm" / "result.json"], scorers=["exact_match"], kind="numeric")
    assert reports(imported.questions[7])[0] == ("response", "25", None)
    assert reports(imported.questions[7])[-1] == ("exact_match", "25", pytest.approx(100 / 3))
    with pytest.raises(DirEAGError, match="saw 'cosine_sim'; expected one of exact_match"):
        import_logs("uqlm", [LOGS / "uqlm" / "result.json"], scorers=["cosine_sim"], kind="numeric")


def test_a_score_that_the_tool_cannot_compute_is_missing() -> None:
    imported = import_logs("uqlm", [LOGS / "uqlm" / "white_box.json"], scorers=["sequence_probability"], kind="numeric")
    scored = [question.observations[1] for question in imported.questions]
    assert [one.answer for one in scored] == ["3", "6", "10", "12"]
    # exp of the mean of -0.749137 and -0.847659; the second response has no probabilities of tokens
    assert [one.confidence for one in scored][:2] == [pytest.approx(45.0049, abs=1e-4), None]


def test_columns_name_and_label_the_questions(tmp_path: Path) -> None:
    row = {"response": "Paris", "sampled_responses": ["Rome", "paris"], "id": "q", "ideal": "Paris"}
    imported = import_logs("uqlm", [write(tmp_path / "a.jsonl", row)], pattern="(.*)")
    assert imported.questions[0].problem_id == "q"
    assert [one.answer for one in imported.questions[0].observations] == ["Paris", "Rome", "paris"]
    with pytest.raises(DirEAGError, match=r"none of 3 replies holds an answer \(no_answer 3\).*--pattern, or a scorer"):
        import_logs("uqlm", [tmp_path / "a.jsonl"])
    with pytest.raises(DirEAGError, match="line 1, field response: Field required"):
        import_logs("uqlm", [write(tmp_path / "a.jsonl", {"responses": "Paris"})])
    for columns, field in (
        ({"responses": [["a"]]}, "response"),
        ({"sampled_responses": [[3, {}]]}, "sampled_resp"),
    ):
        result = write(tmp_path / "a.json", {"data": {"responses": [SAID]} | columns})
        with pytest.raises(DirEAGError, match=rf"a\.json, field {field}.*: Input should be a valid string; saw "):
            import_logs("uqlm", [result], kind="numeric")


def test_rows_are_one_question_only_if_they_say_so(tmp_path: Path) -> None:
    def log(name: str, **row: str) -> Path:
        return write(tmp_path / f"{name}.jsonl", {"prompt": f"Be {name}: 2 + 3?", "response": SAID} | row)

    with pytest.raises(DirEAGError, match=r"bold\.jsonl, line 1: two different questions have the name '0'"):
        import_logs("uqlm", {name: log(name) for name in ("wary", "bold")}, kind="numeric")
    result = LOGS / "uqlm" / "result.json"  # of which the tool leaves out the prompts
    with pytest.raises(DirEAGError, match="have the name '0'; saw 'no text that says what is asked'"):
        import_logs("uqlm", {"a": LOGS / "uqlm" / "white_box.json", "b": result}, kind="numeric")
    named = import_logs("uqlm", {name: log(name, id="sum") for name in ("wary", "bold")}, kind="numeric")
    assert reports(named.questions[0]) == [("wary response", "5", 90.0), ("bold response", "5", 90.0)]
    (tmp_path / "q.csv").write_text("id,question,answer\nsum,2 + 3?,5\n")
    asked = load_questions(tmp_path / "q.csv")
    by_order = import_logs("uqlm", {name: log(name) for name in ("wary", "bold")}, questions=asked)
    assert [question.problem_id for question in by_order.questions] == ["sum"]


@pytest.mark.parametrize(
    ("scores", "confidences"),
    [
        ([float("nan"), 0.5], [None, 50.0]),
        ([None, 0.5], [None, 50.0]),
        ([1.0000001192092896, -1e-8], [100.0, 0.0]),
    ],
)
def test_scores_are_missing_or_rounded(tmp_path: Path, scores: list[Any], confidences: list[float | None]) -> None:
    data = {"responses": [SAID, SAID], "sampled_responses": [None, [SAID]], "score": scores}
    path = write(tmp_path / "a.json", {"data": data, "metadata": {}})
    imported = import_logs("uqlm", [path], scorers=["score"], kind="numeric")
    scored = [one for question in imported.questions for one in question.observations if one.level_name == "score"]
    assert [one.confidence for one in scored] == confidences
    wrong = write(tmp_path / "b.json", {"data": data | {"score": [1.5, 0.5]}})
    with pytest.raises(DirEAGError, match="saw 'score'"):
        import_logs("uqlm", [wrong], scorers=["score"], kind="numeric")
