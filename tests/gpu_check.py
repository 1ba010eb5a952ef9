"""Compare a GPU with the CPU of the same machine: fits by MAP and NUTS, and replies of a small model.

    python tests/gpu_check.py OUT [--cpu-only] [--questions 7473] [--minutes 7] [--server-python PYTHON]

OUT/results.json is written after every step, with its time, exit status and figures; OUT/log.txt has what the steps
print. A step that fails or outlasts its time does not stop the others. The exit status is 1 if anything differs or
could not be compared. Without a GPU, or with ``--cpu-only``, the CPU stands in for it. Besides what bayes-direag needs
(JAX with CUDA), the Python of the server needs torch, transformers and regex.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SERVER = ROOT / "tests" / "tiny_chat_server.py"
#: Replies of one line, whose numbers the model chooses.
LEVELS = r"""
reply_pattern = 'Answer and Confidence \(0-100\): [0-9]{1,3}, [1-9]?[0-9]%'
"""
#: The settings of the two runs of `elicit`: held to the form of the last line, and free.
RUNS = {
    "held": ("--levels", "levels.toml", "--set", "structured=true", "--set", "max_tokens=64"),
    "free": ("--set", "max_tokens=32", "--set", "repairs=0"),
}


class Check:
    """The steps, each under its own time, and their results."""

    def __init__(self, out: Path, work: Path, minutes: float, *, gpu: bool) -> None:
        self.out, self.work, self._end = out, work, time.monotonic() + 60 * minutes
        self.devices = {"gpu": "cuda" if gpu else "cpu", "cpu": "cpu"}
        self.results: dict[str, Any] = {"gpu": gpu}
        self._log = (out / "log.txt").open("w")

    def run(self, name: str, seconds: float, *command: object, device: str = "cpu") -> str | None:
        """Run a command, and return what it prints; None if it fails or takes too long."""
        words = [str(word) for word in command]
        self._log.write(f"\n$ {name}: {' '.join(words)}\n")
        self._log.flush()
        began, left = time.monotonic(), self._end - time.monotonic()
        environment = _environment(words[0]) | {"JAX_PLATFORMS": device, "PYTHONUNBUFFERED": "1"}
        try:
            done = subprocess.run(  # noqa: S603 (our own)
                words,
                cwd=self.work,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=self._log,
                timeout=max(min(seconds, left), 1),
                check=False,
            )
            status, printed = done.returncode, done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired as stopped:
            status, printed = "too long", (stopped.stdout or b"").decode(errors="replace")
        self._log.write(printed)
        self.record(name, {"status": status, "seconds": round(time.monotonic() - began, 2)})
        return printed if status == 0 else None

    def direag(self, name: str, seconds: float, *arguments: object, device: str = "cpu") -> str | None:
        """Run a command of direag on a device of JAX."""
        return self.run(name, seconds, sys.executable, "-m", "bayes_direag", *arguments, device=device)

    def record(self, name: str, figures: object) -> None:
        """Add figures to the results, and write them."""
        self.results[name] = figures
        (self.out / "results.json").write_text(json.dumps(self.results, indent=1) + "\n")
        sys.stdout.write(f"{name}: {json.dumps(figures)}\n")
        sys.stdout.flush()

    def compare(self, name: str, comparison: Any, *arguments: Any) -> None:
        """Record a comparison, or why there is none."""
        try:
            self.record(name, comparison(*arguments))
        except Exception as error:  # what is missing says the step before it
            self.record(name, {"equal": None, "error": f"{type(error).__name__}: {error}"[:300]})

    def differences(self) -> list[str]:
        """Name the comparisons that failed, and what shows that they would have compared nothing."""
        names, found = ["map", "nuts", *(f"elicit {name}" for name in RUNS)], self.results
        failed = [name for name in names if found[name]["equal"] is not True]
        held, devices = found["elicit held"], (found["environment"] or {"devices": ["none"]})["devices"]
        if held.get("different_replies", 0) <= 10 or held.get("statuses") != ["ok"]:
            failed.append("replies that depend on the prompt")
        if self.results["gpu"] and devices[0].startswith(("cpu", "none")):
            failed.append("JAX on the GPU")
        return failed

    @contextmanager
    def served(self, model: Path, device: str, interpreter: str) -> Iterator[str]:
        """Serve a model while the block runs."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [interpreter, str(SERVER), "serve", str(model), str(port), device]
        environment = _environment(interpreter)
        with subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment) as process:  # noqa: S603
            try:
                _wait_until_ready(f"http://127.0.0.1:{port}/v1/models", process, min(time.monotonic() + 60, self._end))
                yield f"http://127.0.0.1:{port}/v1"
            finally:
                process.kill()


def _environment(interpreter: str) -> dict[str, str]:
    """Return the environment of a step, in which another Python than this one has its own packages alone."""
    path = os.environ.get("PYTHONPATH") if interpreter == sys.executable else None
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), path]))}


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], deadline: float) -> None:
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).read()  # noqa: S310 (on loopback)
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def parameters(path: Path) -> dict[str, Any]:
    """Return the draws of every parameter of a fit, as (chain, draw, ...)."""
    import xarray as xr

    with xr.open_datatree(path) as tree:
        return {str(name): values.values for name, values in tree["unconstrained_posterior"].data_vars.items()}


def compare_modes(work: Path) -> dict[str, Any]:
    """Compare two modes: the largest difference of a parameter, and of a predicted probability."""
    import numpy as np
    import pandas as pd

    ours, theirs = (parameters(work / f"map-{device}.nc") for device in ("gpu", "cpu"))
    apart = max(float(np.abs(ours[name] - theirs[name]).max()) for name in theirs)
    tables = [pd.read_csv(work / f"map-{device}.csv") for device in ("gpu", "cpu")]
    probability = float((tables[0]["probability"] - tables[1]["probability"]).abs().max())
    return {"parameter": apart, "probability": probability, "equal": apart < 1e-3 and probability < 1e-4}


def compare_posteriors(work: Path) -> dict[str, Any]:
    """Compare the means of two posteriors, in Monte Carlo errors of their difference; 4.5 is rare by chance."""
    import numpy as np
    from arviz_stats.base import array_stats

    ours, theirs = (parameters(work / f"nuts-{device}.nc") for device in ("gpu", "cpu"))
    scores = []
    for name in theirs:
        pair = [draws[name].reshape(*draws[name].shape[:2], -1) for draws in (ours, theirs)]
        for one, other in zip(*(np.moveaxis(draws, -1, 0) for draws in pair), strict=True):
            error = np.hypot(*(float(array_stats.mcse(draws, chain_axis=0, draw_axis=1)) for draws in (one, other)))
            scores.append(abs(one.mean() - other.mean()) / error)
    return {"largest": float(max(scores)), "n": len(scores), "equal": bool(max(scores) < 4.5)}


def compare_runs(work: Path, name: str) -> dict[str, Any]:
    """Compare the observations of two runs, byte by byte."""
    ours, theirs = ((work / f"{name}-{device}" / "observations.jsonl").read_bytes() for device in ("gpu", "cpu"))
    pairs = list(zip(ours.splitlines(), theirs.splitlines(), strict=True))
    reports = [report for line in ours.splitlines() for report in json.loads(line)["observations"]]
    return {
        "questions": len(pairs),
        "questions_that_differ": sum(one != other for one, other in pairs),
        "different_replies": len({report["raw_output"] for report in reports}),
        "statuses": sorted({report["parse_status"] for report in reports}),
        "equal": ours == theirs,
    }


VERSIONS = """
import json, platform
from importlib.metadata import version
names = ("bayes-direag", "jax", "jaxlib", "numpyro", "arviz-stats", "numpy", "torch", "transformers")
def known(name):
    try: return version(name)
    except Exception: return None
import jax
devices = [f"{device.platform} {device.device_kind}" for device in jax.devices()]
print(json.dumps({"python": platform.python_version(), "devices": devices, **{name: known(name) for name in names}}))
"""


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--cpu-only", action="store_true")
    parser.add_argument("--questions", type=int, default=7473)
    parser.add_argument("--warmup", type=int, default=250)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--asked", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--server-python", default=sys.executable)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    gpu = not given.cpu_only and shutil.which("nvidia-smi") is not None
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        check = Check(given.out.resolve(), work, given.minutes, gpu=gpu)
        if gpu:
            about = "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"
            check.record("card", (check.run("nvidia-smi", 20, "nvidia-smi", *about) or "").strip())
        printed = check.run("versions", 60, sys.executable, "-c", VERSIONS, device=check.devices["gpu"])
        check.record("environment", json.loads(printed) if printed else None)
        check.direag("simulate", 60, "simulate", "--n", given.questions, "--seed", 1, "--out", "simulated.jsonl")
        for device, platform in check.devices.items():
            fit = ("fit", "simulated.jsonl", "--method", "map", "--out", f"map-{device}.nc")
            check.direag(f"map on {device}", 120, *fit, device=platform)
            predict = ("predict", f"map-{device}.nc", "simulated.jsonl", "--out", f"map-{device}.csv")
            check.direag(f"predict by {device}", 60, *predict)
        check.compare("map", compare_modes, work)
        elicit(check, given.asked, given.server_python)
        sampling = ("--method", "nuts", "--warmup", given.warmup, "--draws", given.draws)
        for device, platform in check.devices.items():
            fit = ("fit", "simulated.jsonl", *sampling, "--out", f"nuts-{device}.nc")
            check.direag(f"nuts on {device}", 200, *fit, device=platform)
        check.compare("nuts", compare_posteriors, work)
        if different := check.differences():
            sys.exit(f"different, or not compared: {', '.join(different)}")


def elicit(check: Check, n: int, interpreter: str) -> None:
    """Make the model, and ask it on both devices, by the command, held to the form of the last line and free."""
    (check.work / "levels.toml").write_text(LEVELS)
    made = check.run("model", 90, interpreter, SERVER, "make", "model", ROOT / "README.md")
    for device, platform in check.devices.items() if made is not None else ():
        try:
            with check.served(check.work / "model", platform, interpreter) as url:
                for name, settings in RUNS.items():
                    asked = (
                        "--questions",
                        f"{n}.jsonl",
                        "--base-url",
                        url,
                        "--model",
                        "tiny",
                        "--set",
                        "temperature=0",
                    )
                    target = ("--out", f"{name}-{device}", "--concurrency", 4)
                    write_questions(check.work / f"{n}.jsonl", n)
                    check.direag(f"elicit {name} on {device}", 90, "elicit", *asked, *target, *settings)
        except OSError as error:
            check.record(f"server on {device}", str(error))
    for name in RUNS:
        check.compare(f"elicit {name}", compare_runs, check.work, name)


def write_questions(path: Path, n: int) -> None:
    """Write sums to ask for."""
    rows = [
        {"id": f"sum-{i}", "question": f"What is {i} plus {2 * i + 1}?", "answer": str(3 * i + 1)} for i in range(n)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    main()
