import asyncio
import io
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from elicitation import server as module
from elicitation.engines import EngineError
from elicitation.journal import JournalError
from elicitation.progress import LiveView, Tally
from elicitation.server import ServedEngine, launch_command
from tests.elicitation import runs, stub_server

STUB = (sys.executable, stub_server.__file__, "--model")


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)


def served(
    folder: Path, *arguments: str, launch: tuple[str, ...] = STUB, vllm: str = "", **settings: Any
) -> ServedEngine:
    """Return an engine whose server gets arguments of its own, which are not part of the run, and those of vLLM."""
    if launch == STUB:
        launch = (*STUB[:2], "--child-file", str(folder / "processes"), *arguments, *STUB[2:])
    engine = ServedEngine("some/model", folder, vllm, "/no/python", **settings)
    engine.model, engine._launch, engine._fetcher, engine._patience = "stub", launch, None, 5.0
    return engine


def assert_all_ended(folder: Path) -> None:
    """Check that server and worker process are gone, the worker not by itself."""
    for process in map(int, (folder / "processes").read_text().split()):
        deadline = time.monotonic() + 10
        while _runs(process):
            assert time.monotonic() < deadline, f"process {process} was left behind"
            time.sleep(0.02)


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize(
    "content", [b"mine, without a newline", b"$ make\n", b"\xff\x00\n$ vllm serve --served-model-name m\n"]
)
def test_a_log_of_another_program_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "server.log").write_bytes(content)
    with pytest.raises(EngineError, match=r"server\.log: saw the log of another program; expected"):
        served(tmp_path)
    assert (tmp_path / "server.log").read_bytes() == content


def test_a_run_starts_its_server_and_stops_it(tmp_path: Path) -> None:
    engine = served(tmp_path)
    engine.stop()  # before it is started, and twice after it
    assert runs.ask(3, engine, tmp_path / "run").asked == 15
    engine.stop()
    assert_all_ended(tmp_path)
    log = (tmp_path / "server.log").read_text()
    for expected in ("--model some/model", "--served-model-name stub", "--host 127.0.0.1", "--generation-config vllm"):
        assert expected in log
    manifest = (tmp_path / "run" / "manifest.json").read_text()
    assert '"kind": "vllm"' in manifest
    assert "127.0.0.1" not in manifest


def test_a_server_that_is_kept_outlives_a_run_but_not_an_error(tmp_path: Path) -> None:
    async def leave(engine: ServedEngine, error: Exception | None) -> None:
        async with engine:
            if error is not None:
                raise error

    engine = served(tmp_path, keep=True)
    asyncio.run(leave(engine, None))
    assert engine.running
    with pytest.raises(ValueError, match="of the run"):
        asyncio.run(leave(engine, ValueError("of the run")))
    assert not engine.running
    assert_all_ended(tmp_path)


def test_a_server_that_dies_ends_the_run_at_once_with_its_last_words(tmp_path: Path) -> None:
    engine = served(tmp_path, "--die-after", "12", "--delay", "0.02")
    engine._patience = 1000.0
    with pytest.raises(EngineError, match=r"(?s)ended with status 7.*the engine is dead.*same command"):
        runs.ask(10, engine, tmp_path / "run", concurrency=2)
    kept = runs.seeds(tmp_path / "run")
    assert 8 <= len(kept) <= 16
    assert_all_ended(tmp_path)


def test_a_run_goes_on_only_with_the_same_precision_and_its_log(tmp_path: Path) -> None:
    first, run = "--dtype bfloat16 --max-num-seqs 8", tmp_path / "run"
    runs.ask(2, served(tmp_path, vllm=first), run)
    with pytest.raises(JournalError, match=r'server\.--quantization: nothing there, "fp8" here'):
        runs.ask(3, served(tmp_path, vllm=f"{first} -q fp8"), run)
    assert runs.ask(3, served(tmp_path, vllm="--dtype=bfloat16 --enforce-eager"), run).asked == 5
    commands = [line for line in (tmp_path / "server.log").read_text().splitlines() if line.startswith("$ ")]
    assert len(commands) == 2


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ((sys.executable, "-c", "print('out of memory'); raise SystemExit(3)"), "(?s)status 3.*out of memory"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "saw no server at .* within 3 s"),
        (("/no-such-python", "-m", "vllm"), "no-such-python"),
    ],
)
def test_a_server_that_does_not_start_is_told_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr(module, "READY_WITHIN", 3.0)
    engine = served(tmp_path, launch=launch)
    with pytest.raises(EngineError, match=message):
        runs.ask(1, engine, tmp_path / "run")
    assert not engine.running


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT))]
)
def test_the_server_does_not_outlive_its_client(tmp_path: Path, number: signal.Signals) -> None:
    code = f"""
from pathlib import Path
from tests.elicitation import runs, test_server
test_server.module.GRACE = 0.1
runs.ask(200, test_server.served(Path({str(tmp_path)!r}), "--delay", "0.05"), {str(tmp_path / "run")!r}, concurrency=2)
"""
    client = runs.start(code)
    runs.wait_for_generations(tmp_path / "run", 3, client)
    client.send_signal(number)
    client.communicate(timeout=20)
    assert client.returncode != 0
    assert_all_ended(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *((told, "saw --.*environment variable") for told in ("--api-key sk-secret", "--hf-token=sk-secret")),
        *(
            (told, "--vllm-args: saw --.* itself")
            for told in ("--port 8000", "--served_model_name=m", "--host 0.0.0.0")
        ),
    ],
)
def test_secrets_and_what_the_run_tells_the_server_are_refused(tmp_path: Path, arguments: str, message: str) -> None:
    with pytest.raises(EngineError, match=message) as error:
        served(tmp_path, vllm=arguments)
    assert "sk-secret" not in str(error.value)


def test_the_command_is_vllm_serve_or_the_module_of_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launch_command("/env/bin/python") == (
        "/env/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"pip install .vllm>=0\.14"):
        launch_command()
    (tmp_path / "vllm").touch(0o755)
    interpreter = tmp_path / "python3"
    for status, expected in ((0, (str(tmp_path / "vllm"), "serve")), (1, (str(interpreter), "-m"))):
        interpreter.write_text(f"#!/bin/sh\nexit {status}\n")  # whether a package called vllm is there
        interpreter.chmod(0o755)
        assert launch_command(interpreter)[:2] == expected
    assert launch_command() == (str(tmp_path / "vllm"), "serve")


@pytest.mark.parametrize(
    ("arguments", "vllm", "expected"),
    [
        ((), "", {2, 4, 6, 8}),
        (("--waiting", "3"), "", {2}),  # no more as long as some wait
        ((), "--max-num-seqs 5", {2, 4, 5}),
    ],
)
def test_as_many_requests_are_in_flight_as_the_server_takes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    vllm: str,
    expected: set[int],
) -> None:
    numbers = {"_MOST_SEQUENCES": 8, "_FIRST_SEQUENCES": 2, "_FURTHER_SEQUENCES": 2, "_LOOK_EVERY": 0.02}
    for name, value in numbers.items():
        monkeypatch.setattr(module, name, value)
    engine, seen = served(tmp_path, "--delay", "0.1", *arguments, vllm=vllm), set()

    class View(LiveView):
        def show(self, tally: Tally) -> None:  # noqa: ARG002
            seen.add(engine._in_flight)

    runs.ask(4 if arguments else 12, engine, tmp_path / "run", view=View(Console(file=io.StringIO())))
    assert {max(expected), 2} <= seen <= expected


@pytest.mark.parametrize(
    ("source", "reproducible", "said"),
    [("some/model", False, "None None"), ("some/model", True, "None 1"), ("/", False, "1 None")],
)
def test_what_the_server_is_told_by_its_environment(tmp_path: Path, source: str, reproducible: bool, said: str) -> None:
    """A folder is served without asking any hub, and replies do not depend on the batch where that is asked for."""
    say = "import os; print(*(os.environ.get(name) for name in ('HF_HUB_OFFLINE', 'VLLM_BATCH_INVARIANT')))"
    server = ServedEngine(source, tmp_path, "", "/no/python", reproducible=reproducible)
    server._launch = (sys.executable, "-c", say)
    server.start()
    assert server._process is not None
    server._process.wait(20)
    server.stop()
    assert server.log.read_text().splitlines()[-1] == said
