"""Runs whose replies come from a batch service, in as many rounds as it takes."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.batch_engine import BatchEngine
from elicitation.engines import EngineError
from elicitation.generation import Sampling
from elicitation.journal import read_journal
from elicitation.run import RunSummary, elicit
from tests.command_line import one_line, refuse, succeed
from tests.elicitation import runs
from tests.elicitation.stub_server import solve

N = 6
Answer = Callable[[int, dict[str, Any]], dict[str, Any]]


def completion(text: str, finish_reason: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62}
    return {
        "response": {"status_code": 200, "body": {"model": "m", "choices": [choice], "usage": usage}},
        "error": None,
    }


def stub(garbage: float = 0.0) -> Answer:
    """Answer as the test server and the canned engine do."""

    def answer(_: int, body: dict[str, Any]) -> dict[str, Any]:
        text = solve(body["messages"][-1]["content"], body["seed"], garbage).encode("utf-8", "replace").decode()
        return completion(text)

    return answer


def refusal(status: int, message: str) -> dict[str, Any]:
    return {"response": {"status_code": status, "body": {"error": {"message": message}}}, "error": None}


def serve(folder: Path, number: int, answer: Answer) -> Path:
    """Answer a file of requests as a batch service: in any order."""
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert len({request["custom_id"] for request in requests}) == len(requests)
    answered = [{"custom_id": one["custom_id"]} | answer(place, one["body"]) for place, one in enumerate(requests)]
    path = folder / f"results-{number}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in reversed(answered)))
    return path


def ask(folder: Path, *results: Path, n: int = N) -> tuple[RunSummary, BatchEngine]:
    engine = BatchEngine("stub", folder / "requests.jsonl", results)
    return runs.ask(n, engine, folder / "run"), engine


def n_requests(folder: Path) -> int:
    return len((folder / "requests.jsonl").read_text().splitlines())


def test_requests_then_results_make_a_normal_run(tmp_path: Path) -> None:
    summary, _ = ask(tmp_path)
    assert (summary.waiting, summary.generations, n_requests(tmp_path)) == (5 * N, 0, 5 * N)
    assert not (tmp_path / "run" / "observations.jsonl").exists()
    assert runs.manifest(tmp_path / "run")["sessions"][-1]["outcome"] == "waiting"
    summary, _ = ask(tmp_path, serve(tmp_path, 1, stub()))
    assert (summary.waiting, summary.generations, runs.manifest(tmp_path / "run")["sessions"][-1]["outcome"]) == (
        0,
        5 * N,
        "complete",
    )
    runs.ask(N, runs.canned(), tmp_path / "asked")
    assert runs.observations(tmp_path / "run") == runs.observations(tmp_path / "asked")
    (entry, *_) = read_journal(tmp_path / "run" / "journal.jsonl")
    assert (entry.prompt_tokens, entry.completion_tokens) == (50, 12)


def test_unreadable_replies_are_asked_again_in_the_next_round(tmp_path: Path) -> None:
    garbage = 0.5
    results, left = list[Path](), [5 * N]
    ask(tmp_path)
    while left[-1]:
        results.append(serve(tmp_path, len(results), stub(garbage)))
        left.append(ask(tmp_path, results[-1])[0].waiting)
    assert left == sorted(left, reverse=True)
    assert len(results) == 3  # the first reply and two repairs
    runs.ask(N, runs.canned(garbage), tmp_path / "asked")
    assert runs.observations(tmp_path / "run") == runs.observations(tmp_path / "asked")


def test_failed_requests_are_written_again_and_told(tmp_path: Path) -> None:
    ask(tmp_path)
    half = serve(tmp_path, 1, lambda place, body: refusal(500, "busy") if place % 2 else stub()(place, body))
    summary, engine = ask(tmp_path, half)
    assert summary.waiting == len(engine.failed) == n_requests(tmp_path) == 15
    assert "busy" in engine.failed[0]
    summary, engine = ask(tmp_path, half, serve(tmp_path, 2, stub()))
    assert (summary.waiting, engine.failed) == (0, [])


def test_a_prompt_too_long_and_a_reply_cut_off_are_replies(tmp_path: Path) -> None:
    message = "This model's maximum context length is 2048 tokens."
    ask(tmp_path, n=1)
    kinds = [refusal(400, message), *(completion("", "length") for _ in range(4))]
    summary, _ = ask(tmp_path, serve(tmp_path, 1, lambda place, _: kinds[place]), n=1)
    assert (summary.waiting, n_requests(tmp_path)) == (4, 4)  # the replies that were cut off are asked for again
    assert [entry.finish_reason for entry in read_journal(tmp_path / "run" / "journal.jsonl")].count("context") == 1


def test_results_of_other_requests_are_refused(tmp_path: Path) -> None:
    ask(tmp_path)
    results = serve(tmp_path, 1, stub())
    engine = BatchEngine("stub", tmp_path / "other.jsonl", [results])
    with pytest.raises(EngineError, match="none of 30 results answers an open request"):
        runs.ask(N, engine, tmp_path / "other", seed=8)
    assert not (tmp_path / "other.jsonl").exists()


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    for content in ["", "mine\n", '{"custom_id": 1}\n', "[1]\n", "[" * 100_000]:
        (tmp_path / "requests.jsonl").write_text(content)
        with pytest.raises(EngineError, match=r"requests\.jsonl: saw a file of another kind; expected no file"):
            ask(tmp_path)
        assert (tmp_path / "requests.jsonl").read_text() == content


def test_results_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"none\.jsonl: saw no such file; expected results"):
        BatchEngine("stub", tmp_path / "requests.jsonl", [tmp_path / "none.jsonl"])
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(DirEAGError, match=r"a\.jsonl, line 1, field custom_id: Field required"):
        BatchEngine("stub", tmp_path / "requests.jsonl", [tmp_path / "a.jsonl"])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = (
        "elicit",
        "--questions",
        runs.SUMS,
        "--limit",
        2,
        "--model",
        "m",
        "--out",
        "run",
        "--set",
        "temperature=none",
    )
    command = (*asked, "--batch", "requests.jsonl")
    told = one_line(succeed(*command))
    assert "10 replies are open; their requests are in requests.jsonl. Submit it to the service" in told
    body = json.loads((tmp_path / "requests.jsonl").read_text().splitlines()[0])["body"]
    assert body["model"] == "m"
    assert "temperature" not in body
    results = serve(tmp_path, 1, lambda *_: completion("Answer and Confidence (0-100): 7, 80%"))
    done = one_line(succeed(*command, "--results", results))
    assert "run/observations.jsonl is ready" in done
    assert "open" not in done
    for wrong in (("--base-url", "http://127.0.0.1:9/v1"), ("--replay", "run/journal.jsonl")):
        assert "saw no engine, or several" in refuse(*command, *wrong)


@pytest.mark.vllm
def test_a_run_through_the_batch_runner_of_vllm(tmp_path: Path) -> None:
    interpreter, model = os.environ.get("DIREAG_VLLM_PYTHON"), os.environ.get("DIREAG_VLLM_MODEL")
    if not interpreter or not model:
        pytest.skip("DIREAG_VLLM_PYTHON and DIREAG_VLLM_MODEL do not name an environment (see .ci/vllm-environment)")
    final_line = r"Answer and Confidence \(0-100\): [1-9][0-9]?, [1-9][0-9]?%"
    protocol = replace(runs.PROTOCOLS["steered"], reply_pattern=final_line)
    sampling = Sampling(max_tokens=64, structured=True)

    def go_on(*results: Path) -> RunSummary:
        engine = BatchEngine("tiny", tmp_path / "requests.jsonl", results)
        return elicit(runs.questions(2), protocol, engine, tmp_path / "run", sampling, seed=3)

    assert go_on().waiting == 10
    runner = "-m vllm.entrypoints.openai.run_batch -i requests.jsonl -o results.jsonl --served-model-name tiny --model"
    for_a_cpu = "--dtype bfloat16 --max-model-len 2048 --max-num-seqs 32 --enforce-eager --no-enable-chunked-prefill"
    subprocess.run(  # noqa: S603
        [interpreter, *runner.split(), model, *for_a_cpu.split(), "--max-num-batched-tokens", "4096"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        check=True,
        capture_output=True,
    )
    summary = go_on(tmp_path / "results.jsonl")
    assert (summary.waiting, summary.statuses) == (0, {"ok": 10})
    assert len({entry.text for entry in read_journal(tmp_path / "run" / "journal.jsonl")}) > 5
