"""What holds of every importer: a broken log is refused by its name or read, and the time is linear."""

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_direag.data.files import write_questions
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import LOG_FORMATS, LogFormat, import_logs
from elicitation.questions import Problem, QuestionSet
from tests.elicitation.importing.logs_of_tools import LM_EVAL, lines, of_tool, write


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


def observations(n: int, text: str) -> list[Any]:
    reports = [{"level": level, "answer": text, "confidence": 80, "raw_output": text} for level in range(3)]
    told = {"question": text, "gold_answer": "5", "observations": reports}
    return [told | {"problem_id": str(name)} for name in range(n)]


#: The records of a log of each format, of n questions with a text.
LOG_OF: dict[LogFormat, Callable[[int, str], list[Any]]] = {
    "lm-eval": lm_eval,
    "inspect": inspect,
    "batch": batch,
    "transcripts": lambda n, text: [
        {"id": str(name), "text": text, "question": text, "gold_answer": "5", "model": text} for name in range(n)
    ],
    "observations": observations,
}


@pytest.mark.parametrize("grows", ["records", "texts"])
@pytest.mark.parametrize("form", LOG_FORMATS)
def test_formats_are_read_in_linear_time(tmp_path: Path, form: LogFormat, grows: str) -> None:
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


#: What may stand where a log has something else.
WRONG = (None, True, -1, 1e400, 10**30, "", "x", "NaN", "\ud83d", [], [None], {}, {"text": 3}, ["x", "x"])


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a value, with the key or number of something in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@pytest.mark.parametrize("form", [form for form in LOG_FORMATS if form != "inspect"])
@given(data=st.data())
@settings(max_examples=60)
def test_formats_of_broken_logs_are_refused_by_name_or_read(
    tmp_path_factory: pytest.TempPathFactory, form: LogFormat, data: st.DataObject
) -> None:
    records = copy.deepcopy(LOG_OF[form](3, "Answer: 5\nConfidence: 80%"))
    fault = data.draw(st.sampled_from(["another value", "a field less", "a record twice", "cut off"]))
    container, key = data.draw(st.sampled_from([*places(records)]))
    if fault == "another value":
        container[key] = data.draw(st.sampled_from(WRONG))
    elif fault == "a field less":
        del container[key]
    elif fault == "a record twice":
        records *= 2
    path = write(tmp_path_factory.getbasetemp() / f"broken_{form}.json", *records)
    if fault == "cut off":
        path.write_bytes(path.read_bytes()[: data.draw(st.integers(0, path.stat().st_size - 2))])
    kind, told = data.draw(st.sampled_from([None, "numeric"])), path.name
    try:
        write_questions(import_logs(form, [path], kind=kind).questions, path.with_suffix(".jsonl"))
    except DirEAGError as error:
        told = str(error)
    assert path.name in told
