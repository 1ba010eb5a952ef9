"""Every format has a log of its own tool, and reported logs are read rightly."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.data.answers import AnswerKind
from bayes_direag.errors import ObservationError
from elicitation.importing.formats import LOG_FORMATS, LogFormat, import_logs
from elicitation.questions import load_questions
from tests.elicitation.importing.logs_of_tools import LM_EVAL, LOGS


def test_every_format_has_a_log_of_its_tool() -> None:
    provenance = json.loads((LOGS / "provenance.json").read_text())
    assert {*LOG_FORMATS} - {"transcripts", "observations", "promptfoo", "evals"} == {*provenance}
    for name, about in provenance.items():
        assert about["version"]
        assert sorted(path.name for path in (LOGS / name).iterdir()) == about["files"]


@pytest.mark.parametrize(
    ("form", "log"),
    [
        ("lm-eval", LM_EVAL["choice"]),
        ("batch", LOGS / "batch" / "output.jsonl"),
        ("uqlm", LOGS / "uqlm" / "frame.jsonl"),
        ("uqlm", LOGS / "uqlm" / "result.json"),
    ],
)
def test_compressed_logs_are_read_and_workbooks_named(tmp_path: Path, form: LogFormat, log: Path) -> None:
    path = tmp_path / f"{log.name}.gz"
    path.write_bytes(gzip.compress(log.read_bytes()))
    kind: AnswerKind = "choice" if form == "lm-eval" else "numeric"
    compressed, plain = (import_logs(form, {"a": each}, kind=kind) for each in (path, log))
    assert compressed == plain
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ObservationError, match=r"this is a workbook.*Save its sheet as CSV"):
        import_logs(form, [path], kind=kind)


ROMES = [("Rome", None, True), ("Roma", None, True)]
FIVE, SEVEN = [("5", 90, None)] * 2, [("7", 80, None)] * 2

#: The answers of each question in a reported log, their confidences, and the verdicts of the log.
REPORTED: list[tuple[LogFormat, str, dict[str, Any], list[Any]]] = [
    ("lm-eval", "cut_off_in_reasoning", {}, [[(None, None, True)], [("7", 90, True)]]),
    ("lm-eval", "two_contexts", {}, [[("B", 88, True)], [("A", 73, True)]]),
    ("lm-eval", "samples_sub_a samples_sub_b", {}, [[("B", 90, True)], [("C", 70, True)]]),
    ("lm-eval", "mutual_information", {}, [[("B", 73, True)]]),
    ("inspect", "task_a task_b", {}, [[("5", 90, None)], [("6", 80, None)]]),
    ("inspect", "verdict_partial", {"scorers": ["g"]}, [[("Paris", None, True), ("in Paris", None, False)], ROMES]),
    ("inspect", "verdict_no_answer", {"scorers": ["g"]}, [[("Paris", None, True), (None, None, None)], ROMES]),
    ("inspect", "verdict_unscored", {"scorers": ["g"]}, [[("Paris", None, True), (None, None, None)], ROMES]),
    ("inspect", "no_input", {}, [[("5", 90, None)], [("7", 90, None)]]),
    ("batch", "null_usage", {}, [[("5", 90, None)], [("7", 80, None)]]),
    ("batch", "responses", {}, [[("5", 90, None)], []]),
    ("batch", "responses_and_chat", {}, [[("5", 90, None)], [("7", 80, None)]]),
    ("batch", "completions", {}, [[("5", 90, None)], [("7", 80, None)]]),
    ("batch", "n_is_2_and_a_failure", {}, [[("5", 90, None), ("6", 40, None)], [(None, None, None)] * 2]),
    ("uqlm", "nan_score", {"scorers": ["score"]}, [[*FIVE, ("5", None, None)], [*SEVEN, ("7", 50, None)]]),
    ("uqlm", "score_above_1", {"scorers": ["score"]}, [[*FIVE, ("5", 100, None)], [*SEVEN, ("7", 50, None)]]),
    ("uqlm", "no_samples", {"scorers": ["score"]}, [[("5", 90, None)] * 2, [("7", 80, None)] * 2]),
    ("transcripts", "fractions", {"scale": "fraction"}, [[("51", 90, None)], [("51", 85, None)], [("51", 100, None)]]),
]


@pytest.mark.parametrize(("form", "names", "options", "expected"), REPORTED)
def test_reported_logs_are_read_rightly(
    real_cases: Path,
    form: LogFormat,
    names: str,
    options: dict[str, Any],
    expected: list[Any],
) -> None:
    folder = real_cases / form
    files = [next(folder.glob(f"{name}.json*")) for name in names.split()]
    asked = load_questions(folder / "questions.jsonl") if form == "batch" else None
    kind = "numeric" if form == "uqlm" else None
    imported = import_logs(form, files, questions=asked, kind=kind, **options)
    said = [
        [(one.answer, one.confidence and round(one.confidence), one.correct) for one in question.observations]
        for question in imported.questions
    ]
    assert said == expected
