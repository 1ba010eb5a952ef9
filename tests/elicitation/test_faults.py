"""What goes wrong during a run, and that nothing is lost or asked twice for it."""

import json
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from elicitation.engines import EngineError
from elicitation.journal import read_journal
from tests.command_line import direag
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub

N = 10


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("undisturbed")
    runs.ask(N, runs.canned(0.2), folder)
    return runs.observations(folder)


def killed_in_the_middle(stub: Stub, after: int = 10) -> threading.Thread:
    """Kill a server once it has answered a few requests, however long that takes."""

    def kill() -> None:
        while stub.answered.total() < after:
            time.sleep(0.005)
        stub.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_a_server_killed_for_good_loses_nothing(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(delay=0.01, garbage=0.2) as stub:
        stop = killed_in_the_middle(stub)
        with pytest.raises(EngineError, match=r"expected a reply within 0.3 s"):
            runs.ask(N, runs.chat(stub.url, patience=0.3), tmp_path / "run", concurrency=2)
        stop.join()
    kept = runs.seeds(tmp_path / "run")
    assert kept
    with Stub(garbage=0.2) as stub:
        runs.ask(N, runs.chat(stub.url), tmp_path / "run")
        assert not set(kept) & set(stub.answered)
        assert set(stub.answered.values()) == {1}
    assert runs.observations(tmp_path / "run") == undisturbed


def test_a_server_killed_and_revived_ends_in_the_same_set(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(delay=0.01, garbage=0.2) as stub:
        killed = killed_in_the_middle(stub)

        def revive() -> None:
            killed.join()
            time.sleep(0.3)
            stub.revive()

        reviver = threading.Thread(target=revive)
        reviver.start()
        runs.ask(N, runs.chat(stub.url), tmp_path / "run", concurrency=2)
        reviver.join()
    assert runs.observations(tmp_path / "run") == undisturbed


def test_garbage_responses_now_and_then_change_nothing(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(garbage=0.2) as stub:
        stub.faults.extend(["html", "broken", "deep", "empty", "cut", "drop", 500, 503, 429, 408, 409])
        runs.ask(N, runs.chat(stub.url), tmp_path / "run", concurrency=32)
        assert not stub.faults
        assert set(stub.answered.values()) == {1}
    assert runs.observations(tmp_path / "run") == undisturbed


def test_nothing_but_garbage_replies_is_an_unanswered_set(tmp_path: Path) -> None:
    summary = runs.ask(N, runs.canned(1.0), tmp_path)
    assert summary.n_unanswered == N
    assert summary.generations == N * 5 * 3
    assert "ok" not in summary.statuses


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(delay=0.03, garbage=0.2) as stub:
        client = runs.start_client(stub.url, tmp_path / "run", N)
        _wait_for_generations(tmp_path / "run", 8)
        client.send_signal(signal.SIGINT)
        _, error = client.communicate(timeout=30)
        assert b"KeyboardInterrupt" in error
        kept = runs.seeds(tmp_path / "run")
        stub.answered.clear()
        stub.delay = 0
        runs.ask(N, runs.chat(stub.url), tmp_path / "run")
        assert not set(kept) & set(stub.answered)
    assert '"outcome": "KeyboardInterrupt"' in (tmp_path / "run" / "manifest.json").read_text()
    assert runs.observations(tmp_path / "run") == undisturbed


def test_the_command_ends_by_sigterm_as_by_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Stub(delay=0.03) as stub:
        typed = ["elicit", "--questions", "arithmetic:20", "--out", str(folder), "--base-url", stub.url]
        command = [*typed, "--model", "stub", "--concurrency", "2"]
        client = runs.start("from bayes_direag.cli import app; app()", *command)
        _wait_for_generations(folder, 8)
        client.terminate()
        _, error = client.communicate(timeout=30)
        assert (client.returncode, error.splitlines()[-1][:20]) == (143, b"direag: interrupted;")
        kept = runs.seeds(folder)
        stub.answered.clear()
        stub.delay = 0
        assert direag(*command).exit_code == 0
        assert not set(kept) & set(stub.answered)
    sessions = json.loads((folder / "manifest.json").read_text())["sessions"]
    assert [session["outcome"] for session in sessions] == ["KeyboardInterrupt", "complete"]


def test_kill_9_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    assert _kill_repeatedly(tmp_path, n=20, kills=1, seed=1) == (0, 0)


@pytest.mark.slow
def test_kill_9_at_twenty_random_moments_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    assert _kill_repeatedly(tmp_path, n=250, kills=20, seed=2) == (0, 0)


def _kill_repeatedly(folder: Path, *, n: int, kills: int, seed: int) -> tuple[int, int]:
    """Return how many generations were lost, and how many asked again after they had been finished."""
    draw = random.Random(seed)
    again = lost = 0
    before: set[int] = set()
    with Stub(delay=0.02, garbage=0.2) as stub:
        for _ in range(kills):
            stub.answered.clear()
            client = runs.start_client(stub.url, folder / "run", n)
            _wait_for_generations(folder / "run", len(before) + 1)
            time.sleep(draw.uniform(0, 0.4))
            client.kill()
            client.communicate(timeout=10)
            assert client.returncode == -signal.SIGKILL, "the run was over before it was killed"
            again += len(before & set(stub.answered))
            kept = runs.seeds(folder / "run")
            again += len(kept) - len(set(kept))
            lost += len(before - set(kept))
            before = set(kept)
        stub.answered.clear()
        stub.delay = 0
        runs.ask(n, runs.chat(stub.url), folder / "run")
        sessions = json.loads((folder / "run" / "manifest.json").read_text())["sessions"]
        assert [session["outcome"] for session in sessions] == ["killed"] * kills + ["complete"]
        assert all(session["engine"]["server_version"] for session in sessions)
        again += len(before & set(stub.answered))
    final = runs.seeds(folder / "run")
    runs.ask(n, runs.canned(0.2), folder / "undisturbed")
    whole = runs.seeds(folder / "undisturbed")
    lost += len(set(whole) - set(final))
    again += len(final) - len(whole)
    assert runs.observations(folder / "run") == runs.observations(folder / "undisturbed")
    return lost, again


def _wait_for_generations(folder: Path, n: int) -> None:
    deadline = time.monotonic() + 30
    path = folder / "journal.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") <= n:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(read_journal(path)) >= n
