"""What the tests of runs share: questions, engines, and the driver of a client process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from elicitation.chat_engine import ChatEngine
from elicitation.engines import CannedEngine
from elicitation.generation import ChatRequest, Generation, Sampling
from elicitation.journal import read_journal
from elicitation.progress import Tally
from elicitation.prompts import ProtocolName, load_protocol
from elicitation.questions import Problem, QuestionSet
from elicitation.run import elicit
from tests.elicitation.stub_server import Stub, solve

if TYPE_CHECKING:
    from bayes_direag.decisions.policy import Policy

PROTOCOLS = {name: load_protocol(name) for name in get_args(ProtocolName)}
PARAPHRASED = {name: load_protocol(name, wording="paraphrased") for name in get_args(ProtocolName)}
JSON_PROTOCOLS = {name: load_protocol(name, form="json") for name in get_args(ProtocolName)}
ROOT = Path(__file__).resolve().parents[2]
#: A file of thirty sums.
SUMS = Path(__file__).with_name("sums.csv")
#: What a process of its own needs: the project, and what the tests have compiled.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache" / "jax"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}

SEEDED = Sampling(max_tokens=64, reproducible=True)  # the stub server draws its replies by the seeds of requests
ONCE = SEEDED.model_copy(update={"repairs": 0})
CLIENT = """
import sys
from tests.elicitation import runs
url, folder, n, *policy = sys.argv[1:]
settings = {"policy": runs.policy(), "sampling": runs.ONCE} if policy else {}
runs.ask(int(n), runs.chat(url), folder, concurrency=4, **settings)
"""


def questions(n: int) -> QuestionSet:
    problems = tuple(
        Problem(f"sum-{i:03}", "sums", f"Tom has {i} pens and gets {2 * i + 1} more. How many has he?", str(3 * i + 1))
        for i in range(n)
    )
    return QuestionSet("sums", problems, "numeric")


def canned(garbage: float = 0.0) -> CannedEngine:
    """Return an engine that replies as the stub server does."""

    def reply(request: ChatRequest) -> Generation:
        text = solve(request.messages[-1]["content"], request.seed, garbage).encode("utf-8", "replace").decode()
        return Generation(text, prompt_tokens=50, completion_tokens=12)

    return CannedEngine(reply, "stub")


def chat(*urls: str, patience: float = 20.0) -> ChatEngine:
    return ChatEngine(urls, "stub", patience=patience, timeout=20.0)


def ask(n: int, engine: Any, folder: str | Path, protocol: Any = "steered", **settings: Any) -> Tally:
    settings = {"sampling": SEEDED, "seed": 7} | settings
    return elicit(questions(n), PROTOCOLS[protocol], engine, folder, **settings)


def observations(folder: str | Path) -> bytes:
    return (Path(folder) / "observations.jsonl").read_bytes()


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in observations(folder).splitlines()]


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return content


def seeds(folder: str | Path) -> list[int]:
    return [entry.seed for entry in read_journal(Path(folder) / "journal.jsonl")]


def wait_for_generations(folder: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    path = folder / "journal.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") <= n:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(read_journal(path)) >= n


def policy() -> "Policy":
    """Return the recorded policy, which a slow test makes anew."""
    from bayes_direag.decisions.policy import Policy

    return Policy.load(Path(__file__).with_name("policy.json"))


def kill_and_resume(folder: Path, n: int, kills: int, *, by_policy: bool = False) -> None:
    """Check that a run, killed at random moments, loses nothing, asks nothing again, and ends in the same set."""
    draw, kept = random.Random(kills), set[int]()
    settings: dict[str, Any] = {"policy": policy(), "sampling": ONCE} if by_policy else {}
    with Stub(delay=0.02, garbage=0.2) as stub:
        for kill in range(kills + 1):
            stub.answered.clear()
            if kill < kills:
                client = start(CLIENT, stub.url, str(folder), str(n), *["policy"] * by_policy)
                wait_for_generations(folder, len(kept) + 1)
                time.sleep(draw.uniform(0, 0.1 if by_policy else 0.4))
                client.kill()
                client.communicate(timeout=10)
                assert client.returncode == -signal.SIGKILL, "the run was over before it was killed"
            else:
                stub.delay = 0
                ask(n, chat(stub.url), folder, **settings)
            assert not kept & set(stub.answered)
            assert kept < set(seeds(folder))
            kept = set(seeds(folder))
    sessions = manifest(folder)["sessions"]
    assert [session["outcome"] for session in sessions] == ["killed"] * kills + ["complete"]
    assert all(session["engine"]["server_version"] for session in sessions)
    ask(n, canned(0.2), folder.with_name("undisturbed"), **settings)
    assert sorted(seeds(folder)) == sorted(seeds(folder.with_name("undisturbed")))
    assert observations(folder) == observations(folder.with_name("undisturbed"))


def start(code: str, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Run code that hears Ctrl-C, even if the tests run in the background, where a shell has that ignored."""
    hearing = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    command = [sys.executable, "-c", hearing, *arguments]
    return subprocess.Popen(command, cwd=cwd, env=os.environ | ENVIRONMENT, stderr=subprocess.PIPE)  # noqa: S603
