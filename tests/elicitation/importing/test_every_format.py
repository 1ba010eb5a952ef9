"""What holds of every importer: a broken log is refused by its name or read."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_direag.data.files import write_questions
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import LogFormat, import_logs
from tests.elicitation.importing.logs_of_tools import LM_EVAL, LOGS, lines, write

TEXT = "Answer: 5\nConfidence: 80%"
REPORT = {"level": 0, "answer": "5", "confidence": 80, "raw_output": TEXT}
#: Records of each format, and what names them.
RECORDED: dict[LogFormat, tuple[list[Any], str]] = {
    "lm-eval": (lines(LM_EVAL["confident"])[:3], "doc_id"),
    "batch": (lines(LOGS / "batch" / "output.jsonl")[:3], "custom_id"),
    "transcripts": ([{"id": str(k), "text": TEXT, "gold_answer": "5", "model": "m"} for k in range(3)], "id"),
    "observations": (
        [{"problem_id": str(k), "question": "2 + 3?", "observations": [REPORT]} for k in range(3)],
        "problem_id",
    ),
}


#: What may stand where a log has something else.
WRONG = (None, True, -1, 1e400, 10**30, "", "x", "NaN", "\ud83d", [], [None], {}, {"text": 3}, ["x", "x"])


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a value, with the key or number of something in it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@pytest.mark.parametrize("form", RECORDED)
@given(data=st.data())
@settings(max_examples=60)
def test_formats_of_broken_logs_are_refused_by_name_or_read(
    tmp_path_factory: pytest.TempPathFactory, form: LogFormat, data: st.DataObject
) -> None:
    records = copy.deepcopy(RECORDED[form][0])
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
