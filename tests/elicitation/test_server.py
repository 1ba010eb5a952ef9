import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from elicitation import server as module
from elicitation.engines import EngineError
from elicitation.journal import JournalError
from elicitation.server import ServedEngine, launch_command
from tests.elicitation import runs, stub_server


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)


def served(folder: Path, *arguments: str, vllm: str = "", **settings: Any) -> ServedEngine:
    """Return an engine whose server gets arguments of its own, which are not part of the run, and those of vLLM."""
    engine = ServedEngine("some/model", folder, vllm, "/no/python", **settings)
    told = "--child-file", str(folder / "processes"), *arguments, "--model"
    engine.model, engine._launch = "stub", (sys.executable, stub_server.__file__, *told)
    return engine


def assert_all_ended(folder: Path) -> None:
    """Check that server and worker process are gone, the worker not by itself."""
    for process in map(int, (folder / "processes").read_text().split()):
        deadline = time.monotonic() + 60
        while _runs(process):
            assert time.monotonic() < deadline, f"process {process} was left behind"
            time.sleep(0.02)


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_served_engine_starts_its_server_and_stops_it(tmp_path: Path) -> None:
    engine = served(tmp_path)
    engine.stop()  # before it is started, and twice after it
    assert runs.ask(3, engine, tmp_path / "run").asked == 15
    engine.stop()
    assert_all_ended(tmp_path)
    log = (tmp_path / "server.log").read_text()
    for expected in ("--model some/model", "--served-model-name stub", "--host 127.0.0.1", "--generation-config vllm"):
        assert expected in log
    about = runs.manifest(tmp_path / "run")["engine"]
    assert (about["kind"], about["model_source"], "endpoints" in about) == ("vllm", "some/model", False)


def test_served_engine_kept_outlives_a_run_but_not_an_error(tmp_path: Path) -> None:
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


def test_served_engine_that_dies_ends_the_run_at_once_with_its_last_words(tmp_path: Path) -> None:
    engine = served(tmp_path, "--die-after", "12", "--delay", "0.02")
    engine._patience = 1000.0
    with pytest.raises(EngineError, match=r"(?s)server has ended.*the engine is dead.*status 7.*same command"):
        runs.ask(10, engine, tmp_path / "run", concurrency=2)
    assert 8 <= len(runs.seeds(tmp_path / "run")) <= 16
    assert_all_ended(tmp_path)


def test_served_engine_resumes_with_the_same_precision(tmp_path: Path) -> None:
    runs.ask(2, served(tmp_path, vllm="--dtype bfloat16 --max-num-seqs 8"), tmp_path / "run")
    with pytest.raises(JournalError, match=r'server\.--dtype: "bfloat16" there, "half" here'):
        runs.ask(3, served(tmp_path, vllm="--dtype half"), tmp_path / "run")
    assert runs.ask(3, served(tmp_path, vllm="--dtype=bfloat16 --enforce-eager"), tmp_path / "run").asked == 5
    commands = [line for line in (tmp_path / "server.log").read_text().splitlines() if line.startswith("$ ")]
    assert len(commands) == 2


def test_served_engine_takes_as_many_requests_as_its_server(tmp_path: Path) -> None:
    assert [served(tmp_path, vllm=vllm).takes for vllm in ("", "--max-num-seqs 4")] == [256, 4]


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ((sys.executable, "-c", "print('out of memory'); raise SystemExit(3)"), "(?s)out of memory.*status 3"),
        (("/no-such-python", "-m", "vllm"), "no-such-python"),
    ],
)
def test_served_engine_tells_why_its_server_does_not_start(
    tmp_path: Path, launch: tuple[str, ...], message: str
) -> None:
    engine = served(tmp_path)
    engine._launch = launch
    with pytest.raises(EngineError, match=message):
        runs.ask(1, engine, tmp_path / "run")
    assert not engine.running


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT))]
)
def test_served_engine_does_not_outlive_its_client(tmp_path: Path, number: signal.Signals) -> None:
    code = f"""
from pathlib import Path
from tests.elicitation import runs, test_server
test_server.module.GRACE = 0.1
runs.ask(200, test_server.served(Path({str(tmp_path)!r}), "--delay", "0.05"), {str(tmp_path / "run")!r}, concurrency=2)
"""
    client = runs.start(code)
    runs.wait_for_generations(tmp_path / "run", 3, client)
    client.send_signal(number)
    client.communicate(timeout=300)
    assert client.returncode != 0
    assert_all_ended(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--api-key sk-secret", "saw --api-key; expected other arguments.*set VLLM_API_KEY"),
        ("--hf-token=sk-secret", "saw --hf-token; expected other arguments.*set HF_TOKEN"),
        *(
            (told, "--vllm-args: saw --.* itself")
            for told in ("--port 8000", "--served_model_name=m", "--host 0.0.0.0")
        ),
    ],
)
def test_served_engine_refuses_secrets_and_what_the_run_sets(tmp_path: Path, arguments: str, message: str) -> None:
    with pytest.raises(EngineError, match=message) as error:
        served(tmp_path, vllm=arguments)
    assert "sk-secret" not in str(error.value)


def test_launch_command_is_vllm_serve_or_the_module_of_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_of = ("-m", "vllm.entrypoints.openai.api_server", "--model")
    assert launch_command("/env/bin/python") == ("/env/bin/python", *module_of)
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


@pytest.mark.parametrize(("source", "said"), [("some/model", "None"), ("/", "1")])
def test_served_engine_serves_a_folder_without_asking_any_hub(tmp_path: Path, source: str, said: str) -> None:
    server = ServedEngine(source, tmp_path, "", "/no/python")
    server._launch = (sys.executable, "-c", "import os; print(os.environ.get('HF_HUB_OFFLINE'))")
    server.start()
    assert server._process is not None
    server._process.wait(60)
    assert server.log.read_text().splitlines()[-2:] == [said, "ended with status 0"]
