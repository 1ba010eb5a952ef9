"""On a machine with a GPU: fits and replies are those of its CPU. Needs torch, transformers and JAX with CUDA.

    pytest -m gpu tests/test_gpu.py -n 0 -s

tests/gpu_check.py does the same without pytest, and leaves times and figures.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="there is no GPU here (no nvidia-smi)"),
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("gpu")
    subprocess.run([sys.executable, Path(__file__).with_name("gpu_check.py"), out], check=True)  # noqa: S603 (our own)
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    return found


def test_jax_runs_on_the_gpu(results: dict[str, Any]) -> None:
    assert results["gpu"]
    assert not results["environment"]["devices"][0].startswith("cpu")


@pytest.mark.parametrize("comparison", ["map", "nuts", "elicit held", "elicit free"])
def test_the_gpu_gives_what_the_cpu_gives(results: dict[str, Any], comparison: str) -> None:
    assert results[comparison]["equal"] is True, results


def test_replies_depend_on_the_prompt(results: dict[str, Any]) -> None:
    assert results["elicit held"]["different_replies"] > 10
    assert results["elicit held"]["statuses"] == ["ok"]
