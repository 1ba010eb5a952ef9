import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation
from elicitation.engines import CannedEngine
from elicitation.generation import ChatRequest, Generation, Sampling
from elicitation.parsing import ParseStatus
from elicitation.progress import LiveView, Tally, facts_of, levels_table
from tests.command_line import direag, refuse, succeed
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub


def shown(view_of: Any, terminal: bool) -> str:
    file = io.StringIO()
    view_of(Console(file=file, force_terminal=terminal, width=100, legacy_windows=False))
    return file.getvalue()


def tally() -> Tally:
    """Return the counts of one question with two levels, the first right, the second unreadable."""
    counts = Tally(4, 2, "numeric")
    good = Observation(level=0, level_name="low", answer="$4", confidence=80)
    bad = Observation(level=1, level_name="high", answer=None, confidence=None)
    counts.add_reply(ParseStatus.REPAIRED, "stop", [good], "4")
    counts.begin()
    counts.add_reply(ParseStatus.NO_ANSWER, "stop", [bad], "4")
    counts.finish_question([good, bad], 0)
    counts.asked, counts.tokens = 1, 100
    return counts


def test_the_counts_are_those_of_the_replies() -> None:
    counts = tally()
    assert (counts.settled, counts.n_slots, counts.n_done) == (2, 4, 1)
    assert (counts.statuses, counts.n_unanswered) == ({"no_answer": 1, "repaired": 1}, 0)
    assert counts.accuracy == 0.5
    unlabelled = Observation(level=0, level_name="low", answer="9", confidence=50)
    counts.add_reply(ParseStatus.OK, "stop", [unlabelled], None)
    low, high = counts.levels.to_dict("records")
    assert [low[name] for name in ("name", "n", "parsed", "accuracy", "mean_confidence")] == ["low", 2, 1, 1, 0.65]
    assert (high["parsed"], high["accuracy"], math.isnan(high["mean_confidence"])) == (0, 0, True)
    assert counts.record()["levels"][1]["mean_confidence"] is None


def test_without_gold_answers_accuracy_is_undefined_and_not_shown() -> None:
    counts = Tally(1, 1, "numeric")
    assert math.isnan(counts.accuracy)
    assert counts.record()["levels"] == []
    assert [*facts_of(counts)] == ["replies", "tokens/s", "unreadable", "time left"]
    assert facts_of(counts)["time left"] == "-"


def test_the_time_left_is_at_the_pace_of_this_session_without_slots_that_are_spared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elicitation.progress.time.monotonic", iter([0.0, 0.0, *[30.0] * 20]).__next__)
    assert facts_of(tally())["time left"] == "1:00"
    monkeypatch.setattr("elicitation.progress.time.monotonic", iter([0.0, *[30.0] * 20]).__next__)
    counts, report = Tally(15, 3, "numeric"), Observation(level=0, answer="4", confidence=80)
    for _ in range(2):
        counts.add_reply(ParseStatus.OK, "stop", [report], "4")
    counts.finish_question([report], 3)  # of five
    facts = facts_of(counts)
    assert (facts["replies"], facts["time left"]) == ("2/12", "1:00")


def test_a_console_that_is_no_terminal_gets_plain_lines() -> None:
    def view_of(console: Console) -> None:
        with LiveView(console, interval=3600.0) as view:
            view.say("making the engine ready")
            for _ in range(50):
                view.show(tally())

    text = shown(view_of, terminal=False)
    assert "\x1b" not in text
    first, *lines = text.splitlines()
    assert first == "making the engine ready"
    assert len(lines) == 2  # the first and the last state
    assert re.fullmatch(
        r"1/2 questions; replies 2/4; tokens/s \d+; unreadable no_answer 1; accuracy 0.500; time left 0:00", lines[-1]
    )


def test_a_terminal_gets_a_panel_that_is_cleared_at_the_end() -> None:
    def view_of(console: Console) -> None:
        with LiveView(console) as view:
            view.say("making the engine ready")
            view._live.refresh()
            view.show(tally())
            view._live.refresh()

    text = shown(view_of, terminal=True)
    assert "making the engine ready" in text
    assert "1/2" in text
    assert "no_answer 1" in text


def test_the_table_of_levels_shows_what_is_undefined_as_a_dash() -> None:
    text = shown(lambda console: console.print(levels_table(tally().levels, "sums")), terminal=False)
    assert text.splitlines()[0].strip() == "sums"
    assert text.splitlines()[-1].split() == ["1", "high", "1", "0.000", "0.000", "-", "-"]


def test_the_command_asks_a_server_and_its_journal_can_be_replayed(tmp_path: Path) -> None:
    asked = ("elicit", "--questions", runs.SUMS, "--limit", 4, "--seed", 5, "--set", "max_tokens=99")
    with Stub() as stub:
        told = succeed(*asked, "--out", tmp_path / "run", "--base-url", stub.url, "--model", "stub")
    assert "very_cautious" in told
    assert "20 generations" in told
    assert runs.manifest(tmp_path / "run")["identity"]["sampling"]["max_tokens"] == 99
    assert len(Observations.read(tmp_path / "run" / "observations.jsonl")) == 4
    journal = tmp_path / "run" / "journal.jsonl"
    replayed = succeed(*asked, "--out", tmp_path / "again", "--replay", journal, "--json")
    assert json.loads(replayed)["statuses"] == {"ok": 20}
    assert runs.observations(tmp_path / "again") == runs.observations(tmp_path / "run")


def test_fields_of_the_body_are_part_of_the_run_and_what_a_cut_off_means_is_said_once(tmp_path: Path) -> None:
    asked = ("elicit", "--questions", runs.SUMS, "--limit", 2, "--out", tmp_path / "run", "--model", "stub")
    with Stub() as stub:
        stub.choice = {"message": {"content": None}, "finish_reason": "length"}
        result = direag(*asked, "--base-url", stub.url, "--set", 'body.chat_template_kwargs={"enable_thinking": true}')
        assert {json.dumps(one["chat_template_kwargs"]) for one in stub.requests} == {'{"enable_thinking": true}'}
        assert not any("seed" in one for one in stub.requests)
    assert "10 generations" in result.stdout, result.output
    assert result.stderr.count("still reasoning, and have no answer: 10. In a new folder") == 1
    sampling = runs.manifest(tmp_path / "run")["identity"]["sampling"]
    assert sampling["body"] == {"chat_template_kwargs": {"enable_thinking": True}}
    with Stub() as stub:
        stub.refused = {"budget"}
        further = ("--out", tmp_path / "other", "--set", "body.budget=9", "--base-url", stub.url)
        assert direag(*asked, *further).stderr.count("Leave out what it refuses: --set body.budget") == 1


def test_json_is_asked_for_and_an_unknown_finish_reason_is_named_once(tmp_path: Path) -> None:
    asked = ("elicit", "--questions", runs.SUMS, "--limit", 4, "--out", tmp_path / "run", "--form", "json")
    with Stub() as stub:
        stub.choice = {"finish_reason": "made_up"}
        result = direag(*asked, "--base-url", stub.url, "--model", "stub")
    assert "replies: ok 20." in result.stdout, result.output
    told = "Finish reasons that are not known, whose replies count as whole: 'made_up' 20."
    assert result.stderr.count("made_up") == result.stderr.count(told) == 1
    again = succeed(*asked, "--replay", tmp_path / "run" / "journal.jsonl", "--json")
    assert json.loads(again)["unknown_reasons"] == {"made_up": 20}


@pytest.mark.parametrize(
    ("protocol", "generations", "said"), [("steered", 20, 80), ("samples", 20, None), ("topk", 4, 80)]
)
def test_the_released_wording_is_asked_and_read(tmp_path: Path, protocol: str, generations: int, said: Any) -> None:
    asked = (
        "elicit",
        "--questions",
        runs.SUMS,
        "--limit",
        4,
        "--out",
        tmp_path / "run",
        "--wording",
        "paraphrased",
        "--json",
    )
    with Stub("Qwen2.5-7B-Instruct") as stub:
        server = ("--base-url", stub.url, "--model", "Qwen2.5-7B-Instruct", "--protocol", protocol)
        assert json.loads(succeed(*asked, *server))["statuses"] == {"ok": generations}
    sent = stub.requests[0]
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["repetition_penalty"]) == (0.7, 1.0, 20, 1.05)
    assert sent["add_special_tokens"] is True
    identity = runs.manifest(tmp_path / "run")["identity"]
    assert (identity["seed"], identity["sampling"]["repairs"]) == (20260517, 2 if protocol == "steered" else 0)
    confidences = {one["confidence"] for record in runs.records(tmp_path / "run") for one in record["observations"]}
    assert (confidences == {None}) is (said is None)


def test_a_reply_without_its_final_line_is_guessed_only_if_asked_for(tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> Generation:
        return Generation("It is 7, I am 80% sure, 7", "length" if request.key.level == 4 else "stop")

    sampling = Sampling(lenient=True)
    assert runs.ask(2, CannedEngine(reply), tmp_path / "lenient", sampling=sampling).statuses == {"guessed": 10}
    (first, _) = Observations.read(tmp_path / "lenient" / "observations.jsonl").questions
    assert {(one.answer, one.confidence) for one in first.observations} == {("7", 80.0)}
    assert runs.ask(2, CannedEngine(reply), tmp_path / "strict").statuses == {"no_answer": 8, "truncated": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "saw no engine"),
        (["--model", "m", "--replay", "x"], "saw no engine, or several"),
        (["--base-url", "http://127.0.0.1:1/v1"], "saw no --model"),
        (["--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--set", "reproducible=true"], "was not started here"),
        (["--model", "m", "--set", "body.messages=[]"], "sampling body.messages: saw a field that the run fills"),
        (["--model", "m", "--set", "temprature=1"], "temprature"),
        (["--model", "m", "--set", "temperature=warm"], "saw 'warm'"),
        (["--model", "m", "--vllm-python", "p", "--vllm-args", "--api-key sk-1"], "saw --api-key"),
        (["--model", "m", "--vllm-python", "p", "--vllm-args", "--dtype 'half"], "expected paired quotation marks"),
    ],
)
def test_a_wrong_choice_is_told_before_anything_is_made(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in refuse("elicit", "--questions", runs.SUMS, "--limit", 4, "--out", tmp_path / "run", *arguments)
    assert not (tmp_path / "run").exists()
