"""On a machine with a GPU: a small instruct model is fetched, started, and asked under every protocol and wording.

Run with ``pytest -m gpu tests/test_gpu.py -n 0 -s``; docs/paper-protocol.md says what it needs and what it shows.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

MODEL = os.environ.get("DIREAG_GPU_MODEL", "Qwen/Qwen2.5-1.5B-Instruct")
PYTHON = os.environ.get("DIREAG_VLLM_PYTHON")
QUESTIONS = ("--questions", "arithmetic:20:1:1-2")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="there is no GPU here (no nvidia-smi)"),
    pytest.mark.skipif(PYTHON is None and shutil.which("vllm") is None, reason="DIREAG_VLLM_PYTHON names no vLLM"),
]


def direag(*arguments: object, folder: Path) -> str:
    command = [sys.executable, "-c", "from bayes_direag.cli import app; app()", *map(str, arguments)]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, f"{arguments[0]}: {done.stdout}"
    sys.stdout.write(done.stdout)  # for pytest -s
    return done.stdout


def ask(folder: Path, out: str, *arguments: object) -> dict[str, Any]:
    """Ask in a run of its own, and return its manifest."""
    interpreter = () if PYTHON is None else ("--vllm-python", PYTHON)
    direag("elicit", *QUESTIONS, "--model", MODEL, *interpreter, "--out", out, *arguments, folder=folder)
    manifest: dict[str, Any] = json.loads((folder / out / "manifest.json").read_text())
    return manifest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.mark.parametrize("wording", ["ours", "released"])
@pytest.mark.parametrize(("protocol", "generations"), [("steered", 100), ("samples", 100), ("topk", 20)])
def test_every_protocol_is_asked_and_mostly_read(folder: Path, wording: str, protocol: str, generations: int) -> None:
    manifest = ask(folder, f"{wording}-{protocol}", "--protocol", protocol, "--wording", wording)
    counts, identity, (session,) = (manifest[name] for name in ("counts", "identity", "sessions"))
    assert counts["settled"] == generations
    assert counts.get("ok", 0) + counts.get("repaired", 0) >= 0.7 * generations, counts
    assert len(identity["server"]["revision"]) == 40
    assert session["engine"]["device"]
    assert session["engine"]["server_version"]


def test_the_server_obeys_a_pattern(folder: Path) -> None:
    counts = ask(folder, "structured", "--structured")["counts"]
    assert counts["ok"] >= 95  # all but those that reach the limit of tokens


def test_a_finished_run_asks_nothing_and_one_in_another_precision_is_refused(folder: Path) -> None:
    interpreter = () if PYTHON is None else ("--vllm-python", PYTHON)
    asked = ("elicit", *QUESTIONS, "--model", MODEL, "--out", "ours-steered", *interpreter)
    assert "0 of them now" in direag(*asked, folder=folder)
    with pytest.raises(AssertionError, match="elicit"):
        direag(*asked, "--vllm-args", "--quantization fp8", folder=folder)


@pytest.mark.parametrize("wording", ["ours", "released"])
def test_tables_are_made_of_the_runs(folder: Path, wording: str) -> None:
    files = {name: f"{wording}-{name}/observations.jsonl" for name in ("steered", "samples", "topk")}
    baselines = ("--samples", files["samples"], "--topk", files["topk"])
    direag("evaluate", files["steered"], "--preset", "paper", "--out", f"results-{wording}", *baselines, folder=folder)
    metrics = pd.read_csv(folder / f"results-{wording}" / "metrics.csv").set_index("method")
    assert {"vanilla", "self_consistency", "answer_entropy", "mean_confidence", "topk", "direag"} <= set(metrics.index)
    assert metrics["accuracy"].astype(float).loc[["vanilla", "self_consistency"]].min() > 0.5  # small sums
    assert "Vanilla" in direag("tables", f"results-{wording}", "--out", f"tables-{wording}", folder=folder)
