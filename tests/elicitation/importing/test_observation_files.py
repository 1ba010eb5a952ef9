"""Observation files of several runs, put together."""

import json
from pathlib import Path

import pytest

from bayes_direag import Observations
from bayes_direag.data.files import read_questions
from bayes_direag.data.records import Question
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from tests.elicitation import runs
from tests.elicitation.importing.logs_of_tools import reports, write


def test_runs_of_several_models_are_put_together(tmp_path: Path) -> None:
    for name, garbage in [("a", 0.0), ("b", 0.3)]:
        engine = runs.canned(garbage)
        engine.model = f"model-{name}"
        runs.ask(4, engine, tmp_path / name)
    files = {name: tmp_path / name / "observations.jsonl" for name in "ab"}
    together = import_logs("observations", files).questions
    alone = {name: read_questions(path) for name, path in files.items()}
    for place, question in enumerate(together):
        assert reports(question) == [
            (f"{name} {level}", answer, confidence)
            for name in "ab"
            for level, answer, confidence in reports(alone[name][place])
        ]
        assert (question.gold_answer, question.model) == (alone["a"][place].gold_answer, "model-a, model-b")
        raw = [(one.model_extra or {})["raw_output"] for one in question.observations]
        assert raw[7] == (alone["b"][place].observations[2].model_extra or {})["raw_output"]
    assert Observations.from_questions(together).n_levels == 10


def test_nothing_of_a_file_is_lost(tmp_path: Path) -> None:
    report = {"level": 0, "level_name": "a", "answer": "7", "confidence": 80.0, "confidences": {"words": 70.0}}
    report |= {"correct": None, "group": "runs", "raw_output": "Answer: 7", "parse_status": "repaired", "tokens": 3}
    record = {"problem_id": "1", "gold_answer": "7", "cluster": "c", "topic": "pens", "observations": [report]}
    imported = import_logs("observations", [write(tmp_path / "a.jsonl", record)])
    (kept,) = (question.model_dump(exclude_unset=True) for question in imported.questions)
    told = Question.model_validate(record).model_dump(exclude_unset=True)
    assert kept["observations"][0].items() >= told.pop("observations")[0].items()
    assert kept.items() >= told.items()
    other = write(tmp_path / "b.jsonl", record | {"cluster": "d"})
    with pytest.raises(DirEAGError, match="question '1' has the cluster 'c' elsewhere; saw 'd'"):
        import_logs("observations", {"a": tmp_path / "a.jsonl", "b": other})


def test_runs_of_one_model_are_no_group_with_those_of_another(tmp_path: Path) -> None:
    said = [{"level": k, "answer": "7", "confidence": 80, "group": "runs"} for k in range(2)]
    for name in "ab":
        record = {"problem_id": "pens", "gold_answer": "7", "observations": said}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
    together = import_logs("observations", {name: tmp_path / f"{name}.jsonl" for name in "ab"}).questions
    assert [one.group for one in together[0].observations] == ["a runs", "a runs", "b runs", "b runs"]
