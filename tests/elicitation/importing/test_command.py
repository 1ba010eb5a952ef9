"""The command ``direag import``."""

import re
from pathlib import Path

import pytest

from bayes_direag import Observations
from tests.command_line import direag, refuse, succeed
from tests.elicitation.importing.logs_of_tools import LM_EVAL, LOGS, write


def run(*arguments: object) -> str:
    return succeed("import", *arguments)


def test_logs_become_an_observation_file(tmp_path: Path) -> None:
    target = tmp_path / "observations.jsonl"
    told = run("lm-eval", f"wary={LM_EVAL['cautious']}", f"bold={LM_EVAL['confident']}", "--out", target)
    assert told.splitlines() == [
        "8 questions, 0 unanswered, 0 without a gold answer; levels: wary 0, wary 1, bold 0, bold 1; "
        "replies: no_answer 3, no_confidence 2, ok 27.",
        f"{target} is ready for direag evaluate and direag fit.",
    ]
    assert Observations.read(target).level_names == ("wary 0", "wary 1", "bold 0", "bold 1")


def test_import_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[3] / "docs" / "import-logs.md"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").symlink_to(LOGS)
    shown = re.findall(r"^\$ direag import (.*)\n((?:[^$`].*\n)+)", page.read_text(), re.MULTILINE)
    folders = {path.name for path in LOGS.iterdir() if path.is_dir()}
    assert {command.split()[0] for command, _ in shown} == folders - {"tables"}
    for command, output in shown:
        assert run(*command.split()).startswith(output)


def test_import_never_writes_over_a_log(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_bytes(LM_EVAL["cautious"].read_bytes())
    assert "saw one of the logs; expected another file" in refuse(
        "import", "lm-eval", log, "--out", tmp_path / "." / "a.jsonl"
    )
    assert log.read_bytes() == LM_EVAL["cautious"].read_bytes()


def test_import_takes_names_for_all_files_or_none(tmp_path: Path) -> None:
    one, other = LM_EVAL["cautious"], LM_EVAL["confident"]
    for files, message in (
        ((f"a={one}", other), "expected LEVEL=FILE for every file, or for none"),
        ((f"a={one}", f"a={other}"), "question '0' has this level already, in "),
        ((f"a={tmp_path}/c-*.jsonl",), "saw no such file"),
        ((one, "--column", "id=name"), "--column: saw names of columns, and no --questions"),
    ):
        assert message in refuse("import", "lm-eval", *files, "--out", tmp_path / "a.jsonl")


def test_import_of_a_level_may_have_several_files_named_by_a_pattern(tmp_path: Path) -> None:
    for name, questions in (("a", (0, 1, 2)), ("b", (3, 4))):
        for part in "xy"[: len(questions) - 1]:
            rows = [{"id": f"{part}{n}", "text": "Answer: 5\nConfidence: .9", "gold_answer": "5"} for n in questions]
            write(tmp_path / f"{name}-{part}.jsonl", *rows)
    files = (f"a={tmp_path}/a-*.jsonl", f"b={tmp_path}/b-?.jsonl")
    told = run("transcripts", *files, "--scale", "fraction", "--out", tmp_path / "o.jsonl")
    assert told.startswith("8 questions, 0 unanswered, 0 without a gold answer; levels: a, b; replies: ok 8.")


@pytest.mark.parametrize(("n", "gold", "usable"), [(5, "5", None), (4, "5", 4), (9, None, 0)])
def test_ready_is_said_of_what_evaluate_takes(tmp_path: Path, n: int, gold: str | None, usable: int | None) -> None:
    rows = [{"id": k, "text": "Answer: 5\nConfidence: 90%", "gold_answer": gold} for k in range(n)]
    write(tmp_path / "a.jsonl", *rows)
    told = run("transcripts", tmp_path / "a.jsonl", "--answers", "numeric", "--out", tmp_path / "o.jsonl")
    assert ("is ready for direag evaluate and direag fit." in told) is (usable is None)
    assert f": {usable} questions have a right answer and a usable report" in told or usable is None


def test_import_names_once_a_kind_that_gold_answers_do_not_say_and_unknown_finish_reasons(tmp_path: Path) -> None:
    row = {"text": "Answer: about 5\nConfidence: 90%", "gold_answer": "5", "finish_reason": "made_up"}
    log = write(tmp_path / "a.jsonl", *({"id": k} | row for k in range(5)))
    result = direag("import", "transcripts", log, "--answers", "text", "--out", tmp_path / "o.jsonl")
    assert "is ready for direag evaluate and direag fit with --answers text." in result.stdout
    assert result.stderr.count("'made_up' 5") == 1


def test_import_of_a_file_with_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    log = tmp_path / "samples_t=1.jsonl"
    log.write_bytes(LM_EVAL["filtered"].read_bytes())
    assert "levels: t=1;" in run("lm-eval", log, "--out", tmp_path / "a.jsonl")
