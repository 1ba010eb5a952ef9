"""The time of every importer is linear in the number of records of a log, and in the length of their texts."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elicitation.importing.formats import LOG_FORMATS, LogFormat, import_logs
from elicitation.questions import Problem, QuestionSet
from tests.elicitation.importing.logs_of_tools import LM_EVAL, evals_event, lines, of_tool, promptfoo_result, write


def lm_eval(n: int, text: str) -> list[Any]:
    sample: dict[str, Any] = lines(LM_EVAL["confident"])[0] | {"target": "5", "resps": [[text, text]]}
    return [sample | {"doc_id": name, "doc": {"question": text}} for name in range(n)]


def inspect(n: int, text: str) -> list[Any]:
    message = {"role": "assistant", "content": text}
    output = {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}], "completion": text}
    sample = {"epoch": 1, "input": text, "target": "5", "messages": [], "output": output, "scores": {}}
    return [lines(of_tool("inspect/pens.json")) | {"samples": [sample | {"id": str(name)} for name in range(n)]}]


def batch(n: int, text: str) -> list[Any]:
    choices = [{"message": {"content": [{"type": "text", "text": part} for part in text.splitlines(True)]}}] * 3
    response = {"status_code": 200, "body": {"choices": choices}}
    return [{"custom_id": f"{name}/{text[:5]}", "response": response} for name in range(n)]


def uqlm(n: int, text: str) -> list[Any]:
    return [{"data": {"responses": [text] * n, "prompts": [text] * n, "sampled_responses": [[text] * 3] * n}}]


def observations(n: int, text: str) -> list[Any]:
    reports = [{"level": level, "answer": text, "confidence": 80, "raw_output": text} for level in range(3)]
    told = {"question": text, "gold_answer": "5", "observations": reports}
    return [told | {"problem_id": str(name)} for name in range(n)]


#: The records of a log of each format, of n questions with a text.
LOG_OF: dict[LogFormat, Callable[[int, str], list[Any]]] = {
    "lm-eval": lm_eval,
    "inspect": inspect,
    "batch": batch,
    "uqlm": uqlm,
    "promptfoo": lambda n, text: [
        {"results": {"results": [promptfoo_result(name, 0, text, passes=True) for name in range(n)]}}
    ],
    "evals": lambda n, text: [
        evals_event(str(name), "sampling", prompt=[{"content": text}], sampled=[text]) for name in range(n)
    ],
    "transcripts": lambda n, text: [
        {"id": str(name), "text": text, "question": text, "gold_answer": "5", "model": text} for name in range(n)
    ],
    "observations": observations,
}


@pytest.mark.parametrize("grows", ["records", "texts"])
@pytest.mark.parametrize("form", LOG_FORMATS)
def test_the_time_is_linear(tmp_path: Path, form: LogFormat, grows: str) -> None:
    if form == "inspect":
        pytest.importorskip("inspect_ai")

    def seconds(times: int) -> float:
        n, text = (10 * times, "Answer: 5\n") if grows == "records" else (3, "Answer: 5\n" * (100 * times))
        path = write(tmp_path / "log.json", *LOG_OF[form](n, text))
        problems = tuple(Problem(str(name), "asked", text, "5") for name in range(n))
        began = time.process_time()
        import_logs(form, [path], kind="numeric", questions=QuestionSet("asked", problems, "numeric"))
        return time.process_time() - began

    seconds(1)
    # four times as much takes four times as long, and sixteen times if it is quadratic
    assert any(seconds(16) < 8 * max(seconds(4), 1e-3) for _ in range(5))
