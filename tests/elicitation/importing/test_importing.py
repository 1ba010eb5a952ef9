"""Logs of every format: every case in log_cases.json, the logs that the tools wrote, and reported ones."""

import gzip
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bayes_direag import Observations
from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.data.files import read_questions
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError, ObservationError
from elicitation.importing.formats import LOG_FORMATS, LogFormat, import_logs
from elicitation.questions import Problem, QuestionSet, load_questions
from tests.elicitation import runs
from tests.elicitation.importing.logs_of_tools import LM_EVAL, LOGS, lines, of_tool, write

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("log_cases.json").read_text("utf-8"))


def written(folder: Path, name: str, content: Any) -> Path:
    """Write the content of a file of a case: see :func:`test_the_table_of_logs`."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    match content:
        case str():
            path.write_bytes(of_tool(content).read_bytes())
        case {"task": task, "samples": samples}:
            log = lines(of_tool("inspect/pens.json"))
            sample = log["samples"][0] | {"id": 1, "epoch": 1, "scores": {}, "messages": []}
            log["samples"] = None if samples is None else [sample | changes for changes in samples]
            log["eval"]["task"] = task
            path.write_text(json.dumps(log))
        case {"text": text}:
            path.write_text(text)
        case {"latin": text}:
            path.write_bytes(text.encode("latin-1"))
        case [*records]:
            write(path, *map(record_of, records))
    return path


def record_of(record: Any) -> Any:
    match record:
        case {"log": log, "line": line, **others}:
            return lines(of_tool(log))[line] | others.get("with", {})
    return record


def asked_of(asked: Any) -> QuestionSet | None:
    match asked:
        case None:
            return None
        case str():
            return load_questions(LOGS / asked)
    return QuestionSet("q", tuple(Problem(name, "q", text, gold) for name, text, gold in asked), "numeric")


@pytest.mark.parametrize("case", CASES, ids=[f"{case['form']}: {case['why']}" for case in CASES])
def test_importing_the_table_of_logs(case: Mapping[str, Any], tmp_path: Path) -> None:
    """A case has its files, options, and the questions found, or how the error begins.

    A file is the name of a tool's log, the samples of a log of Inspect, a text, or records; a record may be a line of a
    tool's log with changes. A report is its level, answer, confidence, verdict and group; what is None at the end is
    left out.
    """
    paths = [written(tmp_path, name, content) for name, content in case["files"].items()]
    files = [*zip(case["levels"], paths, strict=True)] if "levels" in case else paths
    options = {name: case[name] for name in ("scorers", "kind", "pattern", "scale", "metric") if name in case}
    options["questions"] = asked_of(case.get("questions"))
    if "error" in case:
        with pytest.raises(DirEAGError) as error:
            import_logs(case["form"], files, **options)
        assert str(error.value).replace(f"{tmp_path}/", "").startswith(case["error"])
        return
    imported = import_logs(case["form"], files, **options)
    assert case.get("statuses", imported.statuses) == imported.statuses
    assert case.get("remarks", imported.remarks) == imported.remarks
    assert [question.problem_id for question in imported.questions] == [told["id"] for told in case["found"]]
    for question, told in zip(imported.questions, case["found"], strict=True):
        assert question.gold_answer == told.get("gold")
        assert told.get("question", question.question) == question.question
        assert told.get("model", question.model) == question.model
        assert [values(report) for report in question.observations] == told["reports"]


def values(report: Observation) -> list[Any]:
    confidence = None if report.confidence is None else round(report.confidence, 3)
    listed = [report.level_name, report.answer, confidence, report.correct, report.group]
    while listed[-1] is None:
        listed.pop()
    return listed


def test_importing_has_a_log_of_its_tool_for_every_format() -> None:
    provenance = json.loads((LOGS / "provenance.json").read_text())
    assert {*LOG_FORMATS} - {"transcripts", "observations"} == {*provenance}
    for name, about in provenance.items():
        assert about["version"]
        assert sorted(path.name for path in (LOGS / name).iterdir()) == about["files"]


@pytest.mark.parametrize(("form", "log"), [("lm-eval", LM_EVAL["choice"]), ("batch", LOGS / "batch" / "output.jsonl")])
def test_compressed_logs_are_read_and_workbooks_named(tmp_path: Path, form: LogFormat, log: Path) -> None:
    path = tmp_path / f"{log.name}.gz"
    path.write_bytes(gzip.compress(log.read_bytes()))
    kind: AnswerKind = "choice" if form == "lm-eval" else "numeric"
    compressed, plain = (import_logs(form, {"a": each}, kind=kind) for each in (path, log))
    assert compressed == plain
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ObservationError, match=r"this is a workbook.*Save its sheet as CSV"):
        import_logs(form, [path], kind=kind)


@pytest.mark.parametrize(
    ("log", "scorer", "metric"),
    [
        ("filtered", "strict", "exact_match"),
        ("choice", None, "acc"),
        ("contexts", None, "acc"),
        ("several", None, "acc"),
    ],
)
def test_right_is_what_the_harness_calls_right(log: str, scorer: str | None, metric: str) -> None:
    imported = import_logs("lm-eval", [LM_EVAL[log]], scorers=[scorer] if scorer else [])
    samples = [sample for sample in lines(LM_EVAL[log]) if sample["filter"] == (scorer or "none")]
    said = [question.observations[0] for question in imported.questions]
    assert [bool(one.correct and one.answer) for one in said] == [bool(sample[metric]) for sample in samples]
    for question in imported.questions:
        (one,) = question.observations
        assert question.gold_answer is None or (one.answer == question.gold_answer) is bool(one.correct)


@pytest.mark.parametrize("target", ["[" * 50_000, "[" * 50_000 + "]" * 50_000, "[1," * 20_000])
def test_importing_a_target_that_is_no_list_of_python_as_a_text(tmp_path: Path, target: str) -> None:
    record = lines(LM_EVAL["cautious"])[1] | {"target": target}
    (question,) = import_logs("lm-eval", [write(tmp_path / "a.jsonl", record)], kind="text").questions
    assert (question.gold_answer, question.observations[0].correct) == (target, None)


def test_verdicts_label_a_table_and_kinds_are_inferred() -> None:
    table = Observations.from_questions(import_logs("lm-eval", [LM_EVAL["cautious"], LM_EVAL["confident"]]).questions)
    assert (table.n_levels, table.kind) == (4, "numeric")
    assert Observations.from_questions(import_logs("lm-eval", [LM_EVAL["several"]]).questions).labelled.all()


def test_runs_of_several_models_are_put_together(tmp_path: Path) -> None:
    for name, garbage in [("a", 0.0), ("b", 0.3)]:
        engine = runs.canned(garbage)
        engine.model = f"model-{name}"
        runs.ask(4, engine, tmp_path / name)
    files = {name: tmp_path / name / "observations.jsonl" for name in "ab"}
    together = import_logs("observations", files).questions
    alone = {name: read_questions(path) for name, path in files.items()}
    for number, question in enumerate(together):
        reports = [(name, values(one)) for name in "ab" for one in alone[name][number].observations]
        expected = [[f"{name} {level}", *others] for name, (level, *others) in reports]
        assert [values(one) for one in question.observations] == expected
        assert (question.gold_answer, question.model) == (alone["a"][number].gold_answer, "model-a, model-b")
        raw = [(one.model_extra or {})["raw_output"] for one in question.observations]
        assert raw[7] == (alone["b"][number].observations[2].model_extra or {})["raw_output"]


def test_nothing_of_an_observation_file_is_lost(tmp_path: Path) -> None:
    report = {"level": 0, "level_name": "a", "answer": "7", "confidence": 80.0, "confidences": {"words": 70.0}}
    report |= {"correct": None, "group": "runs", "raw_output": "Answer: 7", "parse_status": "repaired", "tokens": 3}
    record = {"problem_id": "1", "gold_answer": "7", "cluster": "c", "topic": "pens", "observations": [report]}
    imported = import_logs("observations", [write(tmp_path / "a.jsonl", record)])
    (kept,) = (question.model_dump(exclude_unset=True) for question in imported.questions)
    told = Question.model_validate(record).model_dump(exclude_unset=True)
    assert kept["observations"][0].items() >= told.pop("observations")[0].items()
    assert kept.items() >= told.items()


def test_importing_without_inspect_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(DirEAGError, match=r'pip install "\.\[inspect\]"'):
        import_logs("inspect", [LOGS / "inspect" / "pens.eval"])


def test_exports_of_tracing_tools_are_read_as_their_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are made by hand, with the columns that the tools write."""
    page = (Path(__file__).parents[3] / "docs" / "import-logs.md").read_text("utf-8")
    (tmp_path / "logs").symlink_to(LOGS)
    monkeypatch.chdir(tmp_path)
    found = {}
    for command in re.findall(r"^\$ direag fit (.*)$", page, re.MULTILINE):
        file, *options = shlex.split(command)
        given = [*zip(options[::2], options[1::2], strict=True)]
        names = dict(value.split("=", 1) for name, value in given if name == "--column")
        scale = dict(given).get("--scale")
        columns = Columns(**{field: name or None for field, name in names.items()}, scale=scale)  # type: ignore[arg-type]
        found[Path(file).stem] = Observations.read(file, columns=columns)
    assert {*found} == {"langsmith", "langfuse", "weave", "promptfoo"}
    first = found["langsmith"]
    assert (len(first), first.kind, first.level_names) == (12, "numeric", ("small", "large"))
    assert found["promptfoo"].level_names == ("openai:small", "openai:large")
    for table in found.values():
        assert (table.correct == first.correct).all()
    for name in ("weave", "langfuse"):
        assert found[name].level_names == ("small", "large")
        assert (found[name].confidence == first.confidence).all()
    assert (found["promptfoo"].confidence != found["promptfoo"].confidence).all()


FIVE, SEVEN = ["5", 90], ["7", 80]
ROMES = [["Rome", None, True], ["Roma", None, True]]
PARIS, NOBODY = ["Paris", None, True], [None, None]
#: The answers of each question in a reported log, their confidences, and the verdicts of the log.
REPORTED: list[tuple[LogFormat, str, dict[str, Any], list[Any]]] = [
    ("lm-eval", "cut_off_in_reasoning", {}, [[[None, None, True]], [["7", 90, True]]]),
    ("lm-eval", "two_contexts", {}, [[["B", 88, True]], [["A", 73, True]]]),
    ("lm-eval", "samples_sub_a samples_sub_b", {}, [[["B", 90, True]], [["C", 70, True]]]),
    ("lm-eval", "mutual_information", {}, [[["B", 73, True]]]),
    ("inspect", "task_a task_b", {}, [[FIVE], [["6", 80]]]),
    ("inspect", "verdict_partial", {"scorers": ["g"]}, [[PARIS, ["in Paris", None, False]], ROMES]),
    ("inspect", "verdict_no_answer", {"scorers": ["g"]}, [[PARIS, NOBODY], ROMES]),
    ("inspect", "verdict_unscored", {"scorers": ["g"]}, [[PARIS, NOBODY], ROMES]),
    ("inspect", "no_input", {}, [[FIVE], [["7", 90]]]),
    ("batch", "null_usage", {}, [[FIVE], [SEVEN]]),
    ("batch", "responses", {}, [[FIVE], []]),
    ("batch", "responses_and_chat", {}, [[FIVE], [SEVEN]]),
    ("batch", "completions", {}, [[FIVE], [SEVEN]]),
    ("batch", "n_is_2_and_a_failure", {}, [[FIVE, ["6", 40]], [NOBODY, NOBODY]]),
    ("transcripts", "fractions", {"scale": "fraction"}, [[["51", 90]], [["51", 85]], [["51", 100]]]),
]


@pytest.mark.parametrize(("form", "names", "options", "expected"), REPORTED)
def test_reported_logs_are_read_rightly(
    real_cases: Path, form: LogFormat, names: str, options: dict[str, Any], expected: list[Any]
) -> None:
    folder = real_cases / form
    files = [next(folder.glob(f"{name}.json*")) for name in names.split()]
    asked = load_questions(folder / "questions.jsonl") if form == "batch" else None
    imported = import_logs(form, files, questions=asked, **options)
    said = [
        [
            [one.answer, one.confidence and round(one.confidence), *([] if one.correct is None else [one.correct])]
            for one in question.observations
        ]
        for question in imported.questions
    ]
    assert said == expected
