"""What goes wrong during a run, and that nothing is lost or asked twice for it."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from elicitation.engines import EngineError
from tests.command_line import direag
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub

N = 10
MANY_KILLS = [pytest.mark.slow, pytest.mark.xdist_group("a minute each")]
CLIENT = """
import sys
from tests.elicitation import runs
url, folder, n, *policy = sys.argv[1:]
settings = {"policy": runs.policy(), "sampling": runs.ONCE} if policy else {}
runs.ask(int(n), runs.chat(url), folder, concurrency=4, **settings)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("undisturbed")
    runs.ask(N, runs.canned(0.2), folder)
    return runs.observations(folder)


def test_server_killed_for_good_loses_nothing(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(delay=0.01, garbage=0.2) as stub:
        stub.dies_with = 10
        with pytest.raises(EngineError, match=r"expected a reply within 0.3 s"):
            runs.ask(N, runs.chat(stub.url, patience=0.3), tmp_path / "run", concurrency=2)
    kept = runs.seeds(tmp_path / "run")
    assert kept
    with Stub(garbage=0.2) as stub:
        runs.ask(N, runs.chat(stub.url), tmp_path / "run")
        assert not set(kept) & set(stub.answered)
        assert set(stub.answered.values()) == {1}
    assert runs.observations(tmp_path / "run") == undisturbed


def test_server_killed_and_revived_ends_in_the_same_set(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(delay=0.01, garbage=0.2) as stub:
        stub.dies_with, stub.revives_after = 10, 0.3
        runs.ask(N, runs.chat(stub.url), tmp_path / "run", concurrency=2)
    assert runs.observations(tmp_path / "run") == undisturbed


def test_server_faults_now_and_then_change_nothing(tmp_path: Path, undisturbed: bytes) -> None:
    with Stub(garbage=0.2) as stub:
        stub.faults.extend(["html", "broken", "deep", "empty", "cut", "drop", 500, 503, 429, 408, 409])
        runs.ask(N, runs.chat(stub.url), tmp_path / "run", concurrency=32)
        assert not stub.faults
        assert set(stub.answered.values()) == {1}
    assert runs.observations(tmp_path / "run") == undisturbed


@pytest.mark.parametrize(
    ("number", "status"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)]
)
def test_client_interrupted_asks_no_finished_reply_again(tmp_path: Path, number: signal.Signals, status: int) -> None:
    folder = tmp_path / "run"
    with Stub(delay=0.03) as stub:
        typed = ["elicit", "--questions", str(runs.SUMS), "--limit", "20", "--out", str(folder), "--base-url", stub.url]
        command = [*typed, "--model", "stub", "--concurrency", "2"]
        client = runs.start("from bayes_direag.cli import app; app()", *command)
        runs.wait_for_generations(folder, 8, client)
        client.send_signal(number)
        _, error = client.communicate(timeout=300)
        *_, kept_line, last = error.decode().splitlines()
        assert (client.returncode, last[:20]) == (status, "direag: interrupted;")
        assert kept_line == f"{folder}: finished replies are kept. The same command asks for the others."
        kept = runs.seeds(folder)
        stub.answered.clear()
        stub.delay = 0
        assert direag(*command).exit_code == 0
        assert not set(kept) & set(stub.answered)


@pytest.mark.parametrize(
    ("n", "kills", "by_policy"), [(20, 1, False), (20, 1, True), pytest.param(120, 8, False, marks=MANY_KILLS)]
)
def test_client_killed_loses_and_duplicates_nothing(tmp_path: Path, n: int, kills: int, by_policy: bool) -> None:
    folder = tmp_path / "run"
    draw, kept = random.Random(kills), set[int]()
    settings: dict[str, Any] = {"policy": runs.policy(), "sampling": runs.ONCE} if by_policy else {}
    with Stub(delay=0.02 if kills > 1 else 0.1, garbage=0.2) as stub:
        for kill in range(kills + 1):
            stub.answered.clear()
            if kill < kills:
                client = runs.start(CLIENT, stub.url, str(folder), str(n), *["policy"] * by_policy)
                runs.wait_for_generations(folder, len(kept) + 1, client)
                time.sleep(draw.uniform(0, 0.1 if by_policy else 0.4))
                client.kill()
                client.communicate(timeout=60)
                assert client.returncode == -signal.SIGKILL, "the run was over before it was killed"
                assert not runs.manifest(folder)["complete"]
            else:
                stub.delay = 0
                runs.ask(n, runs.chat(stub.url), folder, **settings)
            assert not kept & set(stub.answered)
            assert kept < set(runs.seeds(folder))
            kept = set(runs.seeds(folder))
    assert runs.manifest(folder)["complete"]
    runs.ask(n, runs.canned(0.2), folder.with_name("undisturbed"), **settings)
    assert sorted(runs.seeds(folder)) == sorted(runs.seeds(folder.with_name("undisturbed")))
    assert runs.observations(folder) == runs.observations(folder.with_name("undisturbed"))
