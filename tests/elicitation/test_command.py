"""The command ``direag elicit``: its options over one server, what it refuses, and what it tells."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elicitation.prompts import load_protocol, prompt_hash
from tests.command_line import direag, refuse, succeed
from tests.elicitation import runs
from tests.elicitation.checkout import PROMPTS, write_checkout
from tests.elicitation.stub_server import Stub

MODEL = "Qwen2.5-7B-Instruct"
ELICIT = ("elicit", "--questions", runs.SUMS)
PARAPHRASED = {"temperature": 0.7, "top_p": 1.0, "top_k": 20, "repetition_penalty": 1.05, "add_special_tokens": True}


@pytest.fixture(scope="module")
def server() -> Iterator[Stub]:
    with Stub(MODEL) as stub:
        yield stub


@pytest.mark.parametrize(
    ("arguments", "n", "sent", "seed", "sampling"),
    [
        ("--seed 5 --set max_tokens=99", 20, {"max_tokens": 99, "top_k": 0}, 5, {"max_tokens": 99, "repairs": 2}),
        ("--form json --set body.kept=[1]", 20, {"top_k": 0, "kept": [1]}, 0, {"body": {"kept": [1]}}),
        ("--wording paraphrased", 20, PARAPHRASED, 20260517, {"repairs": 2}),
        ("--wording paraphrased --protocol samples --set top_p=0.9", 20, PARAPHRASED | {"top_p": 0.9}, 20260517, {}),
        ("--wording paraphrased --protocol topk", 4, PARAPHRASED, 20260517, {"repairs": 0}),
    ],
)
def test_options_reach_the_server_and_the_record_and_a_journal_is_replayed(
    server: Stub, tmp_path: Path, arguments: str, n: int, sent: dict[str, Any], seed: int, sampling: dict[str, Any]
) -> None:
    server.requests.clear()
    asked = (*ELICIT, "--limit", 4, *arguments.split())
    told = succeed(*asked, "--out", tmp_path / "run", "--base-url", server.url, "--model", MODEL)
    assert f"4 questions, 0 unanswered; {n} generations, {n} of them now" in told
    assert f"replies: ok {n}." in told
    assert len(server.requests) == n
    for request in server.requests:
        assert {name: request[name] for name in sent} == sent
        assert ("response_format" in request, "seed" in request) == ("json" in arguments, False)
    identity = runs.manifest(tmp_path / "run")["identity"]
    assert (identity["seed"], identity.get("form")) == (seed, "json" if "json" in arguments else None)
    assert {name: identity["sampling"][name] for name in sampling} == sampling
    confidences = {one["confidence"] for record in runs.records(tmp_path / "run") for one in record["observations"]}
    assert (confidences == {None}) is ("samples" in arguments)
    journal = tmp_path / "run" / "journal.jsonl"
    replayed = succeed(*asked, "--seed", seed, "--out", tmp_path / "again", "--replay", journal, "--json")
    assert json.loads(replayed)["statuses"] == {"ok": n}
    assert runs.observations(tmp_path / "again") == runs.observations(tmp_path / "run")


@pytest.mark.parametrize(
    ("reason", "content", "told"),
    [
        ("made_up", "Answer: 7\nConfidence: 80%", "whose replies count as whole: 'made_up' 20."),
        ("length", None, "still reasoning, and have no answer: 20. In a new folder, give more room"),
    ],
)
def test_odd_replies_are_told_once(tmp_path: Path, reason: str, content: str | None, told: str) -> None:
    with Stub() as stub:
        stub.choice = {"message": {"content": content}, "finish_reason": reason}
        result = direag(*ELICIT, "--limit", 4, "--out", tmp_path, "--base-url", stub.url, "--model", "stub")
    assert result.exit_code == (content is None), result.output  # 1 if no reply could be read
    assert "20 generations" in result.stdout
    assert result.stderr.count(told) == 1


HERE = ("--base-url", "http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("levels", "arguments", "message"),
    [
        ("", [], "saw no engine"),
        ("", ["--model", "m", "--replay", "x"], "saw no engine, or several"),
        ("", HERE, "saw no --model"),
        ("", [*HERE, "--model", "m\udcff"], "expected a name of whole, printable characters"),
        ("", ["--model", "./m", "--vllm-python", "p"], "--model ./m: saw no such folder"),
        ("", ["--model", "m", "--set", "temprature=1"], "temprature"),
        ("", ["--model", "m", "--set", "temperature=warm"], "saw 'warm'"),
        ("", ["--model", "m", "--vllm-python", "p", "--vllm-args", "--dtype 'half"], "expected paired quotation marks"),
        ("", ["--model", "m", "--form", "json", "--wording", "paraphrased"], "released code have no JSON form"),
        *(
            ("", ["--model", "m", "--column", pair], "expected FIELD=NAME with one of question, gold, id")
            for pair in ("answer=b", "gold=", "gold")
        ),
        ('model = "m"', [], "level 'a': saw no --base-url, and no base_url of its own; expected"),
        ('model = "m"', ["--model", "n"], "level 'a': saw no --base-url, and no base_url of its own"),
        ('base_url = "http://127.0.0.1:1/v1"', [], "level 'a': saw no --model, and no model of its own"),
        ('warmth = "1"', ["--model", "n"], "field levels.a.warmth: Unexpected keyword argument"),
    ],
)
def test_options_are_refused_before_anything_is_made(
    tmp_path: Path, levels: str, arguments: list[str], message: str
) -> None:
    (tmp_path / "levels.toml").write_text(f"[levels.a]\n{levels}")
    options = ("--levels", tmp_path / "levels.toml") if levels else ()
    assert message in refuse(*ELICIT, "--limit", 4, "--out", tmp_path / "run", *options, *arguments)
    assert not (tmp_path / "run").exists()


def test_odd_rows_of_questions_are_told(server: Stub, tmp_path: Path) -> None:
    rows = ['{"question": "Tom has 1 pen and gets 2?", "answer": "3"}', *["odd"] * 7]
    (tmp_path / "own.jsonl").write_text("\n".join(rows))
    asked = ("elicit", "--questions", tmp_path / "own.jsonl", "--out", tmp_path / "run", "--protocol", "samples")
    told = direag(*asked, "--base-url", server.url, "--model", MODEL).stderr.splitlines()
    assert told[:5] == [f"own, line {line}: not a record of fields: left out (odd)" for line in range(2, 7)]
    assert told[5] == "... and 2 more odd rows; manifest.json lists them all."


def test_prompts_from_asks_in_the_authors_words_and_resumes_in_no_others(server: Stub, tmp_path: Path) -> None:
    folder, run = write_checkout(tmp_path / "checkout"), tmp_path / "run"
    server.requests.clear()
    asked = (*ELICIT, "--out", run, "--prompts-from", folder, "--base-url", server.url, "--model", MODEL)
    assert json.loads(succeed(*asked, "--limit", 2, "--json"))["statuses"] == {"ok": 6}
    assert server.requests[0]["messages"][0]["content"].startswith("Read slowly, and answer.")
    assert server.requests[0]["top_k"] == 20  # as the released code samples
    identity = runs.manifest(run)["identity"]
    assert identity["prompts"] == prompt_hash(load_protocol("steered", prompts_from=folder))
    (folder / "direag_core" / "prompts.py").write_text(PROMPTS.replace("Trust yourself", "Trust yourself more"))
    changed = direag(*asked, "--limit", 3)
    assert "prompts: " in changed.stderr
    assert changed.exit_code == 2
    assert len(server.requests) == 6
