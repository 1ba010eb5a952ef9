"""What is told of replies that were not read, and the pattern that reads them afterwards."""

import json
from pathlib import Path

from bayes_direag.data.records import Question
from elicitation.unread import tell_unread
from tests.command_line import direag, succeed
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub


def question(name: str, *replies: tuple[str, str | None, str]) -> Question:
    reports = [
        {"level": level, "level_name": f"l{level}", "answer": answer, "raw_output": text, "parse_status": status}
        for level, (text, answer, status) in enumerate(replies)
    ]
    return Question.model_validate({"problem_id": name, "observations": reports})


def test_unread_replies_are_counted_by_level_and_three_are_shown() -> None:
    read, long = ("Answer: 5", "5", "ok"), ("word " * 90 + "so 5", None, "no_answer")
    questions = [question("a", read, long), question("b", read, ("Answer: 5 or 6", None, "ambiguous"))]
    told = tell_unread([*questions, question("c", ("", None, "truncated"), long), question("d", read, long)], "Do so.")
    assert told is not None
    first, *shown, last = told.splitlines()
    assert first == "Read 3 of 7 replies: l0 3 of 3, l1 0 of 4. Not read, for example:"
    assert shown[0].startswith("  a, l1 (no_answer): ... word word")
    assert [line.split()[0] for line in shown] == ["a,", "b,", "c,"]
    assert shown[1] == "  b, l1 (ambiguous): Answer: 5 or 6"
    assert max(map(len, shown)) < 140
    assert last == "Do so."


def test_unread_is_silent_if_all_replies_were_read() -> None:
    assert tell_unread([question("a", ("Answer: 5", "5", "ok"), ("", None, "truncated"))], "Do so.") is None


def test_unread_runs_are_not_ready_until_a_pattern_reads_them(tmp_path: Path) -> None:
    run = ("elicit", "--questions", runs.SUMS, "--limit", 5, "--set", "repairs=0", "--out", tmp_path / "run")
    with Stub("small", garbage=1.0) as server:
        result = direag(*run, "--base-url", server.url, "--model", "small")
    written = tmp_path / "run" / "observations.jsonl"
    assert f"No reply could be read: {written} is not ready for direag evaluate." in result.stdout
    assert "Read 0 of 25 replies: very_cautious 0 of 5, " in result.stderr
    assert f"give it: direag import observations {written} --pattern " in result.stderr
    again = ("import", "observations", written, "--out", tmp_path / "again.jsonl")
    told = succeed(*again, "--pattern", r"(?P<confidence>\d+), or (?P<answer>\d+)")
    assert "is ready for direag evaluate and direag fit." in told
    reports = [
        report
        for record in map(json.loads, (tmp_path / "again.jsonl").read_text().splitlines())
        for report in record["observations"]
    ]
    assert {(report["answer"], report["confidence"], report["parse_status"]) for report in reports} == {("7", 12, "ok")}
