"""Which questions and levels of several logs are one."""

from pathlib import Path

import pytest

from bayes_direag import Observations
from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from tests.elicitation.importing.logs_of_tools import LM_EVAL, LOGS, lines, write


def test_subtasks_of_one_run_are_questions_of_their_own(tmp_path: Path) -> None:
    paths = []
    for model in ("m1", "m2"):
        (tmp_path / model).mkdir()
        for animal in ("cows", "hens"):
            paths.append(tmp_path / model / LM_EVAL[animal].name)
            paths[-1].write_bytes(LM_EVAL[animal].read_bytes())
    for files in (paths, [(path.parent.name, path) for path in paths]):
        imported = import_logs("lm-eval", files)
        names = [f"farm_{animal}/{number}" for animal in ("cows", "hens") for number in range(4)]
        assert [question.problem_id for question in imported.questions] == names
        for question in imported.questions:
            assert [one.level_name for one in question.observations] == ["m1", "m2"]
    same = write(tmp_path / "samples_farm_cows.jsonl", lines(LM_EVAL["hens"])[0])
    with pytest.raises(DirEAGError, match="two different questions have the name 'farm_cows/0'"):
        import_logs("lm-eval", [paths[0], same])


def test_repeats_of_subtasks_are_levels_of_one_group(tmp_path: Path) -> None:
    (tmp_path / "m1").mkdir()
    for task in ("rivers", "metals"):
        samples = [sample | {"doc_hash": f"{task} {sample['doc_id']}"} for sample in lines(LM_EVAL["cautious"])]
        write(tmp_path / "m1" / f"samples_{task}.jsonl", *samples)
    imported = import_logs("lm-eval", sorted((tmp_path / "m1").iterdir()))
    observations = Observations.from_questions(imported.questions)
    assert (len(observations), observations.level_names) == (16, ("m1 0", "m1 1"))
    assert {one.group for question in imported.questions for one in question.observations} == {"m1"}


def test_tasks_that_ask_one_question_are_its_levels_beside_other_tasks(tmp_path: Path) -> None:
    hashes = {"pens_wary": "pens", "pens_bold": "pens", "rivers": "rivers"}
    paths = [
        write(tmp_path / f"samples_{task}.jsonl", lines(LM_EVAL["filtered"])[1] | {"doc_hash": doc_hash})
        for task, doc_hash in hashes.items()
    ]
    pens, rivers = import_logs("lm-eval", paths).questions
    assert [one.level_name for one in pens.observations] == ["pens_wary", "pens_bold"]
    assert (rivers.problem_id, [one.level_name for one in rivers.observations]) == ("rivers/1", ["rivers"])


def test_files_of_a_folder_that_share_no_question_are_parts_of_one_level(tmp_path: Path) -> None:
    record = lines(LOGS / "batch" / "output.jsonl")[0]
    files = []
    for model in ("m1", "m2"):
        (tmp_path / model).mkdir()
        for part in (1, 2):
            asked = [record | {"custom_id": f"pens-{2 * part + k}"} for k in range(2)]
            files.append(write(tmp_path / model / f"part-{part}.jsonl", *asked))
    imported = import_logs("batch", files, kind="numeric")
    levels = [[one.level_name for one in question.observations] for question in imported.questions]
    assert levels == [["m1", "m2"]] * 4
    named = import_logs("batch", [("a", files[0]), ("a", files[1])], kind="numeric")
    assert [[one.level_name for one in question.observations] for question in named.questions] == [["a"]] * 4


def test_transcripts_of_two_sets_are_told_apart_or_refused(tmp_path: Path) -> None:
    row = {"id": 1, "level": "a", "text": "Answer: 5", "gold_answer": "5"}
    rows = [row | {"dataset": name, "question": f"How many {name}?"} for name in ("pens", "hens")]
    imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])
    assert [question.problem_id for question in imported.questions] == ["pens/1", "hens/1"]
    again = {"level": "b", "question": " How many  pens?\n"}
    assert len(import_logs("transcripts", [write(tmp_path / "a.jsonl", rows[0], rows[0] | again)]).questions) == 1
    unnamed = [{name: value for name, value in row.items() if name != "dataset"} for row in rows]
    with pytest.raises(DirEAGError, match="line 2: two different questions have the name '1'; saw 'How many hens"):
        import_logs("transcripts", [write(tmp_path / "a.jsonl", *unnamed)])


def test_observations_of_two_sets_are_told_apart(tmp_path: Path) -> None:
    files = {}
    for name in ("pens", "hens"):
        said = {"level": 0, "answer": "7", "confidence": 80}
        record = {"problem_id": "1", "dataset": name, "question": f"How many {name}?", "observations": [said]}
        files[name] = write(tmp_path / f"{name}.jsonl", record)
    imported = import_logs("observations", files, kind="numeric")
    assert [question.problem_id for question in imported.questions] == ["pens/1", "hens/1"]
