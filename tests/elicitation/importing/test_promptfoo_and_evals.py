"""Exports of promptfoo and event logs of OpenAI's evals."""

import json
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from tests.elicitation.importing.logs_of_tools import reports, write


def result(test: int, prompt: int, output: object, *, passes: bool, gold: str | None = "5", **more: object) -> Any:
    asserts = [{"type": "equals", "value": gold}] if gold else []
    return {
        "testIdx": test,
        "promptIdx": prompt,
        "provider": {"id": "openai:gpt-5", "label": ""},
        "prompt": {"raw": "{{question}}", "label": f"p{prompt}"},
        "testCase": {"vars": {"question": "2 + 3?"}, "assert": asserts},
        "response": None if output is None else {"output": output},
        "success": passes,
        "gradingResult": {"pass": passes},
        **more,
    }


RESULTS = [
    result(0, 0, "Answer: 5\nConfidence: 90%", passes=True),
    result(0, 1, {"answer": 6, "confidence": 40}, passes=False),
    result(1, 0, None, passes=False, error="429"),
    result(1, 1, "Answer: five\nConfidence: 40%", passes=True),
]


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_results_of_promptfoo(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"results.{form}"
    if form == "jsonl":
        write(path, *RESULTS)
    else:
        path.write_text(json.dumps({"results": {"version": 3, "results": RESULTS}}))
    imported = import_logs("promptfoo", [path], kind="text")
    assert [question.problem_id for question in imported.questions] == ["0", "1"]
    assert reports(imported.questions[0]) == [
        ("openai:gpt-5 p0", "5", 90),
        ("openai:gpt-5 p1", "6", 40),
    ]
    assert imported.questions[0].question == "2 + 3?"
    table = Observations.from_questions(imported.questions, "text")
    assert table.correct.tolist() == [[True, False], [False, True]]
    with pytest.raises(DirEAGError, match=r"a\.jsonl, line 1, field testIdx: Field required"):
        import_logs("promptfoo", [write(tmp_path / "a.jsonl", {"a": 1})])


def event(name: str, form: str, **data: object) -> dict[str, object]:
    return {"run_id": "r", "event_id": 0, "sample_id": name, "type": form, "data": data}


def test_events_of_evals(tmp_path: Path) -> None:
    said = "Answer: {}\nConfidence: 80%"
    events = [
        {"spec": {"completion_fns": ["gpt-5"], "eval_name": "sums"}},
        event("s.0", "sampling", prompt=[{"role": "user", "content": "2 + 3?"}], sampled=[said.format(5)]),
        event("s.0", "match", correct=True, expected="5", picked="5"),
        event("s.1", "sampling", prompt="3 + 3?", sampled=said.format(5)),
        event("s.1", "match", correct=False, expected=["6", "six"], picked=None),
        {"final_report": {"accuracy": 0.5}},
    ]
    imported = import_logs("evals", [write(tmp_path / "a.jsonl", *events)], kind="numeric")
    assert [reports(question) for question in imported.questions] == [[("gpt-5", "5", 80)]] * 2
    assert [question.question for question in imported.questions] == ["2 + 3?", "3 + 3?"]
    assert Observations.from_questions(imported.questions, "numeric").correct.tolist() == [[True], [False]]
    more = [*events, event("s.1", "sampling", prompt="3 + 3?", sampled=said.format(6))]
    several = import_logs("evals", {"m": write(tmp_path / "b.jsonl", *more)}, kind="numeric")
    assert reports(several.questions[1]) == [("m 0", "5", 80), ("m 1", "6", 80)]
    with pytest.raises(DirEAGError, match="the log has no sampled reply"):
        import_logs("evals", [write(tmp_path / "c.jsonl", *events[:1])])
