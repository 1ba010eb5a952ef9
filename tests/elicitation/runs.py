"""What the tests of runs share: questions, engines, and the driver of a client process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

from elicitation.chat_engine import ChatEngine
from elicitation.engines import CannedEngine
from elicitation.generation import ChatRequest, Generation, Sampling
from elicitation.journal import read_journal
from elicitation.prompts import ProtocolName, load_protocol
from elicitation.questions import Problem, QuestionSet
from elicitation.run import RunSummary, elicit
from tests.elicitation.stub_server import solve

PROTOCOLS = {name: load_protocol(name) for name in get_args(ProtocolName)}
JSON_PROTOCOLS = {name: load_protocol(name, form="json") for name in get_args(ProtocolName)}
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}

CLIENT = """
import sys
from tests.elicitation.runs import ask, chat
ask(int(sys.argv[3]), chat(sys.argv[1]), sys.argv[2], concurrency=4)
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


def ask(n: int, engine: Any, folder: str | Path, protocol: Any = "steered", **settings: Any) -> RunSummary:
    settings = {"sampling": Sampling(max_tokens=64), "seed": 7} | settings
    return elicit(questions(n), PROTOCOLS[protocol], engine, folder, **settings)


def observations(folder: str | Path) -> bytes:
    return (Path(folder) / "observations.jsonl").read_bytes()


def seeds(folder: str | Path) -> list[int]:
    return [entry.seed for entry in read_journal(Path(folder) / "journal.jsonl")]


def start_client(url: str, folder: Path, n: int) -> subprocess.Popen[bytes]:
    return start(CLIENT, url, str(folder), str(n))


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Run code that hears Ctrl-C, even if the tests run in the background, where a shell has that ignored."""
    hearing = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    command = [sys.executable, "-c", hearing, *arguments]
    return subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE)  # noqa: S603
