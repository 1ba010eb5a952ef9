"""Output files of batch services: those of vLLM, and lines of others."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from elicitation.questions import load_questions
from tests.elicitation.importing.logs_of_tools import LOGS, SAID, lines, reports, write


def test_levels_stand_in_the_custom_id() -> None:
    questions = load_questions(LOGS / "batch" / "questions.jsonl")
    imported = import_logs("batch", [LOGS / "batch" / "output.jsonl"], questions=questions)
    replies = {record["custom_id"]: record for record in lines(LOGS / "batch" / "output.jsonl")}
    names = [[one.level_name for one in question.observations] for question in imported.questions]
    assert names == [["cautious", "confident"]] * 8
    for question in imported.questions:
        for one in question.observations:
            response = replies[f"{question.problem_id}/{one.level_name}"]["response"]
            said = response["body"]["choices"][0]["message"]["content"] if response["status_code"] == 200 else None
            assert (one.model_extra or {})["raw_output"] == said
    assert imported.statuses == {"ok": 14, "truncated": 1, "no_answer": 1}


def test_names_and_levels(tmp_path: Path) -> None:
    """Levels are files or choices where no name says them; a question may have a slash in its name."""
    record = lines(LOGS / "batch" / "output.jsonl")[0]
    named = record | {"custom_id": "pens-0"}
    files = [write(tmp_path / f"{name}.jsonl", named) for name in "ab"]
    imported = import_logs("batch", files, kind="numeric")
    assert [level for level, *_ in reports(imported.questions[0])] == ["a", "b"]
    several = json.loads(json.dumps(record))
    several["response"]["body"]["choices"] *= 2
    imported = import_logs("batch", [write(tmp_path / "a.jsonl", several)], kind="numeric")
    assert [level for level, *_ in reports(imported.questions[0])] == ["cautious 0", "cautious 1"]
    (tmp_path / "q.csv").write_text("id,question,answer\nset/7,How many?,5\n")
    questions, path = load_questions(tmp_path / "q.csv"), write(tmp_path / "a.jsonl", record | {"custom_id": "set/7"})
    assert [level for level, *_ in reports(import_logs("batch", [path], questions=questions).questions[0])] == ["a"]
    path = write(tmp_path / "a.jsonl", record | {"custom_id": "pens-9/a"})
    with pytest.raises(DirEAGError, match=r"line 1: this question is not among those of --questions; saw 'pens-9'"):
        import_logs("batch", [path], questions=questions)


PART = [{"type": "text", "text": SAID}]
BODIES: list[dict[str, Any]] = [
    {"choices": [{"message": {"content": SAID}, "finish_reason": "stop"}], "usage": {"prompt_tokens": None}},
    {"choices": [{"message": {"content": PART}}], "usage": 3},
    {"choices": [{"text": SAID, "finish_reason": "stop"}]},
    {"output": [{"type": "reasoning"}, {"type": "message", "content": PART}], "incomplete_details": None},
]
OUTPUTS: list[dict[str, Any]] = [
    {"content": PART},
    {"results": [{"outputText": SAID, "completionReason": "FINISH"}]},
    {"outputs": [{"text": SAID, "stop_reason": "stop"}]},
    {"generation": SAID, "stop_reason": "stop"},
    {"output": {"message": {"role": "assistant", "content": [{"text": SAID}]}}, "stopReason": "end_turn"},
]


CALLED = {"answer": 5, "confidence": 90}
AS_TEXT = json.dumps(CALLED)
CALLS: list[dict[str, Any]] = [
    {"choices": [{"message": {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": AS_TEXT}}]}}]},
    {"choices": [{"message": {"content": "", "function_call": {"name": "f", "arguments": AS_TEXT}}}]},
    {"output": [{"type": "reasoning", "summary": []}, {"type": "function_call", "arguments": AS_TEXT}]},
    {"content": [{"type": "thinking", "thinking": "7"}, {"type": "tool_use", "name": "f", "input": CALLED}]},
    {"candidates": [{"content": {"parts": [{"text": "7", "thought": True}, {"functionCall": {"args": CALLED}}]}}]},
    {"output": {"message": {"content": [{"toolUse": {"name": "f", "input": CALLED}}]}}},
    {"choices": [{"message": "Answer: 5\nConfidence: 90%"}]},
    {"choices": [{"message": ["Answer: 5\n", "Confidence: 90%"]}]},
    {"candidates": [{"content": "Answer: 5\nConfidence: 90%"}]},
    {"output": [{"type": "message", "content": "Answer: 5\nConfidence: 90%"}], "incomplete_details": {}},
]


@pytest.mark.parametrize(
    "line",
    [
        *(
            {"custom_id": "sum-1", "response": {"status_code": 200, "body": body}, "error": None}
            for body in (*BODIES, *CALLS)
        ),
        *({"recordId": "sum-1", "modelInput": {}, "modelOutput": output} for output in OUTPUTS),
        {"custom_id": "sum-1", "result": {"type": "succeeded", "message": {"content": PART}}},
        {"key": "sum-1", "response": {"candidates": [{"content": {"parts": PART}, "finishReason": "STOP"}]}},
        {"custom_id": "sum-1", "response": BODIES[0], "error": None},
    ],
)
def test_lines_and_bodies_of_every_shape(tmp_path: Path, line: dict[str, Any]) -> None:
    imported = import_logs("batch", [write(tmp_path / "a.jsonl", line)], kind="numeric")
    assert reports(imported.questions[0]) == [("a", "5", 90.0)]


@pytest.mark.parametrize(
    "line",
    [
        *(
            {"response": {"status_code": 200, "body": body}}
            for body in ({"choices": []}, {"choices": [3]}, {"id": "x"}, {"output": []}, "text", 7, None)
        ),
        *({}, {"response": {"id": 1}}, {"body": {"messages": []}}, {"response": "text"}),
    ],
)
def test_a_line_without_a_reply_or_an_error_is_an_error(tmp_path: Path, line: dict[str, Any]) -> None:
    good = {"custom_id": "s1", "response": {"status_code": 200, "body": BODIES[0]}}
    with pytest.raises(DirEAGError, match=r"a\.jsonl, line 2: this response holds no reply; saw "):
        import_logs("batch", [write(tmp_path / "a.jsonl", good, {"custom_id": "s2"} | line)], kind="numeric")


def test_requests_that_failed_are_answered_by_nobody(tmp_path: Path) -> None:
    failed: list[dict[str, Any]] = [
        {"response": {"status_code": 500, "body": {"choices": []}}},
        {"response": None, "error": {"message": "expired"}},
        {"modelInput": {}, "error": {"errorCode": 400, "errorMessage": "bad request"}},
        {"result": {"type": "errored", "error": {"type": "invalid_request"}}},
        {"response": {"promptFeedback": {"blockReason": "SAFETY"}}},
        {"response": {"status_code": 200, "body": BODIES[3] | {"incomplete_details": {"reason": "max_output_tokens"}}}},
    ]
    good = {"custom_id": "sum", "response": {"status_code": 200, "body": {"choices": [{"text": SAID}]}}}
    path = write(tmp_path / "a.jsonl", good, *({"custom_id": f"q{k}"} | line for k, line in enumerate(failed)))
    assert import_logs("batch", [path], kind="numeric").statuses == {"ok": 1, "no_answer": 4, "truncated": 2}


def test_a_request_that_failed_is_no_level_of_its_own(tmp_path: Path) -> None:
    choices = [{"message": {"content": text}} for text in (SAID, "Answer: 6\nConfidence: 40%")]
    lines = [
        {"custom_id": "sum-1", "response": {"status_code": 200, "body": {"choices": choices}}},
        {"custom_id": "sum-2", "response": {"status_code": 500, "body": {"error": 1}}},
        {"custom_id": "sum-3", "error": {"message": "expired"}},
    ]
    imported = import_logs("batch", [write(tmp_path / "a.jsonl", *lines)], kind="numeric")
    assert reports(imported.questions[0]) == [("a 0", "5", 90.0), ("a 1", "6", 40.0)]
    for question in imported.questions[1:]:
        assert reports(question) == [("a 0", None, None), ("a 1", None, None)]
