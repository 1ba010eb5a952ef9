"""Fetching a model: what is checked before anything is downloaded, and what is told. Hub and GPU are stand-ins."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from elicitation.engines import EngineError
from elicitation.server import ServedEngine
from tests.command_line import direag, succeed
from tests.elicitation import runs
from tests.elicitation.runs import ROOT
from tests.elicitation.test_server import STUB

REVISION = "c0ffee" * 6 + "c0ff"
GIB = 2.0**30


TORCH = """
from types import SimpleNamespace as Of
SAID = {said!r}
version = Of(cuda={built!r})
cuda = Of(
    is_available=lambda: SAID is not None,
    get_device_properties=lambda _: Of(**SAID),
    device_count=lambda: 2,
    mem_get_info=lambda _: (SAID["free"], 1e12),
)
"""

HUB = """
import json, os, shutil
from pathlib import Path
from types import SimpleNamespace as Of
from huggingface_hub import errors
FOLDER, GATED, TOKEN, LOST = Path({folder!r}), {gated!r}, {token!r}, {lost!r}

def get_token():
    return TOKEN

shutil.disk_usage = lambda _: Of(free={free!r})
constants = Of(HF_HUB_CACHE=str(FOLDER / "cache"))

def try_to_load_from_cache(name, file, revision):
    there = FOLDER / revision / file
    return str(there) if there.exists() else None

class HfApi:
    def model_info(self, name, revision, files_metadata):
        if LOST:
            raise eval(LOST)("lost")
        sizes = [("model-1.safetensors", 15.23e9), ("consolidated.safetensors", 15e9), ("config.json", 99)]
        return Of(sha=revision or {revision!r}, gated=GATED, siblings=[Of(rfilename=n, size=s) for n, s in sizes])

    def auth_check(self, name):
        if TOKEN != "good":
            raise errors.GatedRepoError("gated")

def snapshot_download(name, revision, ignore_patterns=(), local_files_only=False):
    path = FOLDER / (revision or {revision!r})
    if local_files_only and not path.exists():
        raise FileNotFoundError(path)
    path.mkdir(exist_ok=True)
    (path / "left_out").write_text(str(ignore_patterns))
    return str(path)
"""

ERRORS = """
class RepositoryNotFoundError(Exception): pass
class GatedRepoError(RepositoryNotFoundError): pass
class RevisionNotFoundError(Exception): pass
"""


class Machine:
    """A machine with a GPU of its own, before a hub of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        self.set()

    def set(
        self,
        gib: float | None = 24,
        major: int = 8,
        built: str | None = None,
        gated: bool = False,
        token: str | None = None,
        lost: str = "",
        free: float = 1e12,
        broken: str = "",
    ) -> None:
        gpu = {"name": "Test GPU", "major": major, "minor": 0, "free": (gib or 0) * GIB}
        hub = self.folder / "modules" / "huggingface_hub"
        hub.mkdir(parents=True, exist_ok=True)
        (hub.parent / "torch.py").write_text(TORCH.format(said=gpu if gib else None, built=built))
        facts = {"folder": str(self.folder), "gated": gated, "token": token, "lost": lost, "revision": REVISION}
        (hub / "__init__.py").write_text(broken or HUB.format(free=free, **facts))
        (hub / "errors.py").write_text(ERRORS)
        self._monkeypatch.setenv("PYTHONPATH", f"{hub.parent}{os.pathsep}{ROOT}")
        self._monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def server(
        self, source: str = "some/model", arguments: str = "--dtype bfloat16", fetcher: str = sys.executable
    ) -> ServedEngine:
        engine = ServedEngine(source, self.folder / "run", arguments, fetcher)
        engine.model, engine._launch = "stub", STUB
        return engine

    def downloaded(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if len(path.name) == 40]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("given", [None, "a" * 40])
def test_a_model_is_fetched_at_its_commit_and_served_from_its_folder(machine: Machine, given: str | None) -> None:
    server = machine.server()
    server.revision = given
    fetched = asyncio.run(server.fetch())
    assert fetched is not None
    assert fetched.device == "Test GPU"
    assert server.identity == {"server": {"revision": given or REVISION, "--dtype": "bfloat16"}}
    assert machine.downloaded() == [given or REVISION]
    assert "'consolidated*'" in (Path(fetched.path) / "left_out").read_text()  # a second set of Mistral's weights
    server.start()
    server.stop()
    command = server.log.read_text().splitlines()[1]
    assert f"--model {fetched.path} " in command
    assert "--max-model-len auto" in command
    assert "--max-num-seqs" not in command


@pytest.mark.parametrize(
    ("state", "server", "message"),
    [
        ({"major": 7}, {}, r"Test GPU, of compute capability 7\.0; expected 8\.0 or higher"),
        ({"gib": None, "built": "12.8"}, {}, r"saw no GPU; expected one, because this PyTorch is built for CUDA 12\.8"),
        ({"gib": 14}, {}, r"saw 15\.0 GB free on Test GPU; expected more than the 15\.2 GB of the weights"),
        ({"gib": 14}, {"arguments": "--load-format safetensors"}, r"saw 15\.0 GB free on Test GPU"),
        ({"free": 15e9}, {}, r"saw 15\.0 GB free on the disk of .*cache; expected 15\.2 GB for its files"),
        ({"gated": True}, {}, "saw no HF_TOKEN; expected one of an account that has accepted the model's licence"),
        ({"gated": True, "token": "bad"}, {}, r"an HF_TOKEN without access.*accept it at https://huggingface\.co/some"),
        ({"lost": "errors.RepositoryNotFoundError"}, {}, "there is no such model, or HF_TOKEN does not open it"),
        ({"lost": "errors.RevisionNotFoundError"}, {}, "there is no revision"),
        ({"lost": "OSError"}, {}, r"the hub cannot be reached \(OSError: lost\), and the model was not downloaded"),
        ({}, {"source": "./models/mine"}, r"--model \./models/mine: saw no such folder"),
        ({}, {"fetcher": "/bin/echo"}, "of /bin/echo; expected where the model is"),
        ({}, {"arguments": "--tensor-parallel-size two"}, "--vllm-args --tensor-parallel-size: saw 'two'"),
        ({"broken": "raise ValueError('broken')"}, {}, r"(?s)some/model could not be fetched.*ValueError: broken"),
    ],
)
def test_what_cannot_be_served_is_told_before_the_download(
    machine: Machine, state: dict[str, Any], server: dict[str, Any], message: str
) -> None:
    machine.set(**state)
    with pytest.raises(EngineError, match=message):
        asyncio.run(machine.server(**server).fetch())
    assert machine.downloaded() == []


@pytest.mark.parametrize(
    ("state", "arguments"),
    [
        ({"gib": 14}, "--quantization fp8"),
        ({"free": 15.3e9}, "--load-format safetensors"),
        ({"gib": 14}, "--tensor-parallel-size 2"),
        ({"major": 7}, "--dtype half"),
        ({"gib": None}, ""),
        ({"gated": True, "token": "good"}, ""),
    ],
)
def test_what_can_be_served_is_fetched_once(machine: Machine, state: dict[str, Any], arguments: str) -> None:
    machine.set(**state)
    asyncio.run(machine.server(arguments=arguments).fetch())
    assert machine.downloaded() == [REVISION]
    machine.set(**state | {"lost": "OSError"})  # what was fetched before will do
    again = machine.server(arguments=f"{arguments} --revision {REVISION}")
    fetched = asyncio.run(again.fetch())
    assert fetched is not None
    assert fetched.revision == REVISION


def test_a_run_records_the_commit_and_goes_on_with_no_other(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elicitation.server.launch_command", lambda _: (*STUB[:2], "-m", *STUB[2:]))
    run = machine.folder / "run"
    asked = ("elicit", "--questions", runs.SUMS, "--limit", 2, "--out", run, "--model", "some/model", "--json")
    succeed(*asked)
    manifest = runs.manifest(run)
    assert manifest["identity"]["server"] == {"revision": REVISION}
    assert manifest["sessions"][0]["engine"]["device"] == "Test GPU"
    machine.set(lost="errors.RepositoryNotFoundError")  # nothing is left to ask, and the commit is known
    assert json.loads(succeed(*asked))["asked"] == 0
    other = direag(*asked, "--vllm-args", f"--revision {'b' * 40}")
    assert f'server.revision: "{REVISION}" there, "bbb' in other.stderr
