"""The time of every importer is linear in the number of records of a log, and in the length of their texts."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elicitation.importing.formats import LOG_FORMATS, LogFormat, import_logs
from elicitation.questions import Problem, QuestionSet
from tests.elicitation.importing.logs_of_tools import LM_EVAL, LOGS, evals_event, lines, promptfoo_result


def transcript(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "text": text, "question": text, "gold_answer": "5", "model": text}


def observations(name: str, text: str) -> dict[str, Any]:
    reports = [{"level": level, "answer": text, "confidence": 80, "raw_output": text} for level in range(3)]
    return {"problem_id": name, "question": text, "gold_answer": "5", "observations": reports}


def batch(name: str, text: str) -> dict[str, Any]:
    choices = [{"message": {"content": [{"type": "text", "text": part} for part in text.splitlines(True)]}}] * 3
    return {"custom_id": f"{name}/{text[:5]}", "response": {"status_code": 200, "body": {"choices": choices}}}


def lm_eval(name: str, text: str) -> dict[str, Any]:
    sample: dict[str, Any] = lines(LM_EVAL["confident"])[0]
    return sample | {"doc_id": int(name), "doc": {"question": text}, "target": "5", "resps": [[text, text]]}


def uqlm(n: int, text: str) -> dict[str, Any]:
    responses = [text] * n
    return {"data": {"responses": responses, "prompts": responses, "sampled_responses": [[text] * 3] * n}}


def promptfoo(n: int, text: str) -> dict[str, Any]:
    return {"results": {"results": [promptfoo_result(name, 0, text, passes=True) for name in range(n)]}}


def evals(name: str, text: str) -> dict[str, Any]:
    return evals_event(name, "sampling", prompt=[{"content": text}], sampled=[text])


def inspect(n: int, text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads((LOGS / "inspect" / "pens.json").read_text())
    message = {"role": "assistant", "content": text}
    output = {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}], "completion": text}
    sample = {"epoch": 1, "input": text, "target": "5", "messages": [], "output": output, "scores": {}}
    return log | {"samples": [sample | {"id": str(name)} for name in range(n)]}


OF_RECORD: dict[LogFormat, Callable[[str, str], dict[str, Any]]] = {
    "transcripts": transcript,
    "observations": observations,
    "batch": batch,
    "lm-eval": lm_eval,
    "evals": evals,
}
OF_FILE: dict[LogFormat, Callable[[int, str], dict[str, Any]]] = {
    "uqlm": uqlm,
    "inspect": inspect,
    "promptfoo": promptfoo,
}


def test_every_format_is_timed() -> None:
    assert {*OF_RECORD, *OF_FILE} == {*LOG_FORMATS}


@pytest.mark.parametrize("grows", ["records", "texts"])
@pytest.mark.parametrize("form", LOG_FORMATS)
def test_the_time_is_linear(tmp_path: Path, form: LogFormat, grows: str) -> None:
    if form == "inspect":
        pytest.importorskip("inspect_ai")
    path = tmp_path / "log.json"

    def seconds(times: int) -> float:
        n, text = (10 * times, "Answer: 5\n") if grows == "records" else (3, "Answer: 5\n" * (100 * times))
        if form in OF_FILE:
            path.write_text(json.dumps(OF_FILE[form](n, text)))
        else:
            path.write_text("".join(json.dumps(OF_RECORD[form](str(name), text)) + "\n" for name in range(n)))
        problems = tuple(Problem(str(name), "asked", text, "5") for name in range(n))
        began = time.process_time()
        import_logs(form, [path], kind="numeric", questions=QuestionSet("asked", problems, "numeric"))
        return time.process_time() - began

    seconds(1)
    # four times as much takes four times as long, and sixteen times if it is quadratic
    assert any(seconds(16) < 8 * max(seconds(4), 1e-3) for _ in range(5))
