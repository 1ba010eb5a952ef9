"""What the tests of runs share: questions, engines, and a client process."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

from elicitation.chat_engine import ChatEngine
from elicitation.engines import CannedEngine
from elicitation.generation import ChatRequest, Generation, Sampling
from elicitation.journal import read_journal
from elicitation.progress import Tally
from elicitation.prompts import ProtocolName, load_protocol
from elicitation.questions import Problem, QuestionSet
from elicitation.run import elicit
from tests.command_line import HEAR_CTRL_C
from tests.elicitation.stub_server import solve

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

SEEDED = Sampling(max_tokens=64, send_seed=True)  # the stub server draws its replies by the seeds of requests
ONCE = SEEDED.model_copy(update={"repairs": 0})


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
    return [entry.seed for entry in read_journal(Path(folder) / "journal.jsonl")[1].values()]


def wait_for_generations(folder: Path, n: int, client: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 900
    path = folder / "journal.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") <= n:
        assert client.poll() is None, client.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(read_journal(path)[1]) >= n


#: A recorded policy; ``python -m tests.elicitation.runs`` makes it anew, where the layout of files changes.
POLICY = Path(__file__).with_name("policy.nc")


def policy() -> "Policy":
    """Return the recorded policy."""
    from bayes_direag.decisions.policy import Policy

    return Policy.load(POLICY)


def made_policy(folder: Path) -> "Policy":
    """Return a policy of a fit to eighty sums; a fifth of the replies cannot be read."""
    from bayes_direag.data.observations import Observations
    from bayes_direag.decisions.policy import policy
    from bayes_direag.fits.making import fit_map

    ask(80, canned(0.2), folder, sampling=ONCE)
    fit = fit_map(Observations.read(folder / "observations.jsonl"))
    prices = {name: 1.0 + number for number, name in enumerate(fit.level_names)}
    return replace(policy(fit, prices=prices, person=20.0), factor=1 / 60)


def start(code: str, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Run code that hears Ctrl-C."""
    command = [sys.executable, "-c", f"{HEAR_CTRL_C}\n{code}", *arguments]
    return subprocess.Popen(command, cwd=cwd, env=os.environ | ENVIRONMENT, stderr=subprocess.PIPE)  # noqa: S603


if __name__ == "__main__":
    with TemporaryDirectory() as run:
        made_policy(Path(run)).save(POLICY)
