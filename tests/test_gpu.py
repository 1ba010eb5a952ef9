"""On a machine with a GPU: a small instruct model is fetched, started, and asked under every protocol and wording.

    python3 -m venv ../vllm && ../vllm/bin/pip install "vllm>=0.12"
    DIREAG_VLLM_PYTHON=../vllm/bin/python .venv/bin/pytest -m gpu tests/test_gpu.py -n 0 -s

It fetches Qwen2.5-1.5B-Instruct (3 GB), asks 20 made-up questions, and makes the tables. It has never run on a real
GPU. Expect ``10 passed``, a table of levels for each run, and ``100 generations, 0 of them now`` for the repeated run.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.command_line import direag, succeed
from tests.elicitation.runs import SUMS

MODEL = os.environ.get("DIREAG_GPU_MODEL", "Qwen/Qwen2.5-1.5B-Instruct")
PYTHON = os.environ.get("DIREAG_VLLM_PYTHON")
ASKED = ("--questions", SUMS, "--limit", 20, "--model", MODEL, *(() if PYTHON is None else ("--vllm-python", PYTHON)))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="there is no GPU here (no nvidia-smi)"),
    pytest.mark.skipif(PYTHON is None and shutil.which("vllm") is None, reason="DIREAG_VLLM_PYTHON names no vLLM"),
]


def ask(folder: Path, out: str, *arguments: object) -> dict[str, Any]:
    """Ask in a run of its own, and return its manifest."""
    sys.stdout.write(succeed("elicit", *ASKED, "--out", folder / out, *arguments))  # for pytest -s
    manifest: dict[str, Any] = json.loads((folder / out / "manifest.json").read_text())
    return manifest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.mark.parametrize("wording", ["ours", "paraphrased"])
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
    asked = ("elicit", *ASKED, "--out", folder / "ours-steered")
    assert "0 of them now" in succeed(*asked)
    other = direag(*asked, "--vllm-args", "--quantization fp8")
    assert (other.exit_code, 'server.--quantization: nothing there, "fp8" here' in other.stderr) == (2, True)


@pytest.mark.parametrize("wording", ["ours", "paraphrased"])
def test_tables_are_made_of_the_runs(folder: Path, wording: str) -> None:
    files = {name: folder / f"{wording}-{name}" / "observations.jsonl" for name in ("steered", "samples", "topk")}
    results, baselines = folder / f"results-{wording}", ("--samples", files["samples"], "--topk", files["topk"])
    succeed("evaluate", files["steered"], "--preset", "paper", "--out", results, *baselines)
    metrics = pd.read_csv(results / "metrics.csv").set_index("method")
    assert {"vanilla", "self_consistency", "answer_entropy", "mean_confidence", "topk", "direag"} <= set(metrics.index)
    assert metrics["accuracy"].astype(float).loc[["vanilla", "self_consistency"]].min() > 0.5  # small sums
    tables = succeed("tables", results, "--out", folder / f"tables-{wording}")
    assert "Vanilla" in tables
    sys.stdout.write(tables)
