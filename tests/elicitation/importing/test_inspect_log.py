"""Logs of Inspect, which it wrote itself, and changed ones."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from tests.elicitation.importing.logs_of_tools import LOGS, first, reports


def test_epochs_are_levels() -> None:
    imported = import_logs("inspect", [LOGS / "inspect" / "pens.eval"])
    assert reports(imported.questions[0]) == [
        ("mockllm/canned epoch 1", "3", 45.0),
        ("mockllm/canned epoch 2", "3", 66.0),
    ]
    question = imported.questions[0]
    assert (question.problem_id, question.gold_answer, question.dataset) == ("pens-0", "3", "pens")
    assert first(imported).group == "mockllm/canned"
    assert imported.statuses == {"ok": 12, "no_answer": 2, "no_confidence": 2}


def test_files_are_levels_and_json_is_read_too() -> None:
    files = {"a": LOGS / "inspect" / "pens.eval", "b": LOGS / "inspect" / "pens.json"}
    imported = import_logs("inspect", files)
    assert [len(question.observations) for question in imported.questions] == [4, 4, 2, 2, 2, 2, 2, 2]
    with pytest.raises(DirEAGError, match=r"pens\.json: question 'pens-0' has this level already, in .*NAME=FILE"):
        import_logs("inspect", list(files.values()))


def test_a_scorer_judges() -> None:
    path = LOGS / "inspect" / "pens_choice.eval"
    imported = import_logs("inspect", [path], scorers=["choice"])
    judged = [(one.answer, one.correct) for question in imported.questions for one in question.observations]
    golds = [question.gold_answer for question in imported.questions]
    assert judged == [(answer, answer == gold) for (answer, _), gold in zip(judged, golds, strict=True)]
    assert {correct for _, correct in judged} == {True, False}
    assert first(imported).confidence is None
    with pytest.raises(DirEAGError, match=r"saw 'chice'; expected one of choice\."):
        import_logs("inspect", [path], scorers=["chice"])


def test_what_is_no_log_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.eval").write_text("nothing")
    with pytest.raises(DirEAGError, match=r"a\.eval: inspect_ai cannot read this log \(.*expected an \.eval"):
        import_logs("inspect", [tmp_path / "a.eval"])
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(DirEAGError, match=r'pip install "\.\[inspect\]"'):
        import_logs("inspect", [tmp_path / "a.eval"])


def log(path: Path, task: str, *samples: dict[str, Any]) -> Path:
    log = json.loads((LOGS / "inspect" / "pens.json").read_text())
    kept = {"id": 1, "epoch": 1, "scores": {}, "messages": []}
    log["samples"] = [log["samples"][0] | kept | sample for sample in samples]
    log["eval"]["task"] = task
    path.write_text(json.dumps(log))
    return path


def test_samples_of_two_tasks_are_questions_of_their_own(tmp_path: Path) -> None:
    files = {
        task: log(tmp_path / f"{task}.json", task, {"input": f"Which {task}?", "target": "5"})
        for task in ("rivers", "metals")
    }
    imported = import_logs("inspect", files, kind="text", pattern="(.*)")
    assert [question.problem_id for question in imported.questions] == ["rivers/1", "metals/1"]
    again = log(tmp_path / "again.json", "rivers", {"input": "Another?", "target": "5"})
    with pytest.raises(DirEAGError, match="two different questions have the name 'rivers/1'"):
        import_logs("inspect", [("a", files["rivers"]), ("b", again)])


def test_a_sample_with_other_choices_is_another_question(tmp_path: Path) -> None:
    files = {
        name: log(tmp_path / f"{name}.json", "t", {"input": "Which?", "target": "A", "choices": choices})
        for name, choices in (("a", ["Oslo", "Rome"]), ("b", ["Rome", "Oslo"]))
    }
    with pytest.raises(DirEAGError, match="two different questions have the name 't/1'; saw 'Which"):
        import_logs("inspect", files)


def test_verdicts_by_rule() -> None:
    """The scorer gives C, I, P, N, NaN, 0.5, 1 and no verdict."""
    imported = import_logs("inspect", [LOGS / "inspect" / "pens_judged.eval"], scorers=["judge"])
    judged = [question.observations[0] for question in imported.questions]
    assert [one.correct for one in judged] == [True, False, False, None, None, False, True, None]
    assert [one.answer for one in judged] == ["3", "3", "3", None, None, "3", "3", None]
    assert [one.confidence for one in judged] == [76, 78, 63, 77, None, 57, 78, None]


@pytest.mark.parametrize(
    ("value", "correct"), [("yes", True), ("False", False), (0.99, False), (7, None), (-1, None), ("fair", None)]
)
def test_other_verdicts(tmp_path: Path, value: object, correct: bool | None) -> None:
    sample = {"target": "Oslo", "input": "Which?", "scores": {"g": {"value": value, "answer": "Oslo"}}}
    imported = import_logs("inspect", [log(tmp_path / "a.json", "t", sample)], scorers=["g"])
    assert (first(imported).answer, first(imported).correct) == ("Oslo", correct)


def test_a_sample_without_input_has_no_question(tmp_path: Path) -> None:
    path = log(tmp_path / "a.json", "t", {"input": [], "target": "5"})
    assert import_logs("inspect", [path], kind="text", pattern="(.*)").questions[0].question is None
    other = log(tmp_path / "b.json", "t", {"input": "Which?", "target": "5"})
    both = import_logs("inspect", {"a": path, "b": other}, kind="text", pattern="(.*)").questions
    assert [question.question for question in both] == ["Which?"]


def test_a_log_without_samples_is_named(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect" / "pens.json").read_text()) | {"samples": None}
    (tmp_path / "a.json").write_text(json.dumps(log))
    with pytest.raises(DirEAGError, match=r"the log has no samples \(its status is success\)"):
        import_logs("inspect", [tmp_path / "a.json"])
