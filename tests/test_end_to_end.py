"""From questions to a calibrated table, with real vLLM serving a real folder: every command as a user types it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bayes_direag.data.observations import Observations
from tests.elicitation.runs import SUMS

FOR_A_CPU = (
    "--dtype bfloat16 --max-model-len 2048 --max-num-seqs 32 --enforce-eager --no-enable-chunked-prefill "
    "--max-num-batched-tokens 4096"
)
ONE_LINE = r"""reply_pattern = 'Answer and Confidence \(0-100\): [1-9][0-9]?, [1-9][0-9]?%'"""


def direag(*arguments: object, folder: Path) -> str:
    command = [sys.executable, "-c", "from bayes_direag.cli import app; app()", *map(str, arguments)]
    environment = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, f"{arguments[0]}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.vllm
@pytest.mark.xdist_group("a minute each")
def test_from_questions_to_a_table(tmp_path: Path) -> None:
    interpreter, model = os.environ.get("DIREAG_VLLM_PYTHON"), os.environ.get("DIREAG_VLLM_MODEL")
    if not interpreter or not model:
        pytest.skip("DIREAG_VLLM_PYTHON and DIREAG_VLLM_MODEL do not name an environment (see .ci/vllm-environment)")
    (tmp_path / "levels.toml").write_text(ONE_LINE + "\n")
    elicit = (
        "elicit", "--questions", SUMS, "--limit", 20, "--model", model, "--vllm-python", interpreter,
        "--vllm-args", FOR_A_CPU, "--levels", "levels.toml", "--set", "structured=true", "--set", "max_tokens=64",
        "--seed", 3, "--out", "run",
    )  # fmt: skip
    direag(*elicit, folder=tmp_path)
    observations = Observations.read(tmp_path / "run" / "observations.jsonl")
    assert (len(observations), observations.n_levels) == (20, 5)
    assert observations.usable.all()
    assert observations.labelled.all()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["counts"]["statuses"] == {"ok": 100}
    engine = manifest["engine"]
    assert (engine["server_version"][:2], engine["context"]) == ("0.", 2048)
    assert len({(report.answer, report.confidence) for q in observations.questions for report in q.observations}) > 10
    left_over = subprocess.run(["pgrep", "-f", str(Path(model).resolve())], capture_output=True, text=True, check=False)  # noqa: S603, S607
    assert left_over.stdout == ""

    again = direag(*elicit, folder=tmp_path)
    assert "100 generations, 0 of them now" in again

    direag("evaluate", "run/observations.jsonl", "--out", "results", "--resamples", 20, folder=tmp_path)
    metrics = pd.read_csv(tmp_path / "results" / "metrics.csv").set_index("method")
    assert (metrics["n"] == 20).all()
    assert {"vanilla", "majority", "best_level", "direag"} <= set(metrics.index)
    assert metrics["brier"].between(0, 1).all()
