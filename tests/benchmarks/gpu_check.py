"""Compare a GPU with the CPU of the same machine: fits by MAP and NUTS, with JAX for CUDA.

    python tests/benchmarks/gpu_check.py OUT [--device cuda] [--questions 7473] [--warmup 250] [--draws 500]

OUT, a new folder, gets the fits, and results.json with versions, seconds and differences. The exit status is 1 if a
fit differs. With ``--device cpu`` the CPU stands in for the GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = """
import json
from importlib.metadata import version
import jax
devices = [f"{device.platform} {device.device_kind}" for device in jax.devices()]
print(json.dumps({name: version(name) for name in ("jax", "jaxlib", "numpyro", "numpy")} | {"devices": devices}))
"""


def run(folder: Path, device: str, *arguments: str) -> tuple[str, float]:
    """Run Python on a device of JAX, and return what it prints, and its seconds.

    Draws that have not converged end with status 1, and are compared like others; of what fails, a file is missing.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment, began = os.environ | {"JAX_PLATFORMS": device, "PYTHONPATH": path}, time.monotonic()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    return done.stdout, round(time.monotonic() - began, 2)


def parameters(path: Path) -> dict[str, Any]:
    """Return the draws of every parameter of a fit, as (chain, draw, ...)."""
    import xarray as xr

    with xr.open_datatree(path) as tree:
        return {str(name): values.values for name, values in tree["unconstrained_posterior"].data_vars.items()}


def compare_modes(folder: Path) -> dict[str, Any]:
    """Compare two modes: the largest difference of a parameter, and of a predicted probability."""
    import numpy as np
    import pandas as pd

    ours, theirs = (parameters(folder / f"map-{side}.nc") for side in ("gpu", "cpu"))
    apart = max(float(np.abs(ours[name] - theirs[name]).max()) for name in theirs)
    tables = [pd.read_csv(folder / f"map-{side}.csv") for side in ("gpu", "cpu")]
    probability = float((tables[0]["probability"] - tables[1]["probability"]).abs().max())
    return {"parameter": apart, "probability": probability, "equal": apart < 1e-3 and probability < 1e-4}


def compare_posteriors(folder: Path) -> dict[str, Any]:
    """Compare the means of two posteriors, in Monte Carlo errors of their difference; 4.5 is rare by chance."""
    import numpy as np
    from arviz_stats.base import array_stats

    ours, theirs = (parameters(folder / f"nuts-{side}.nc") for side in ("gpu", "cpu"))
    scores = []
    for name in theirs:
        pair = [draws[name].reshape(*draws[name].shape[:2], -1) for draws in (ours, theirs)]
        for one, other in zip(*(np.moveaxis(draws, -1, 0) for draws in pair), strict=True):
            error = np.hypot(*(float(array_stats.mcse(draws, chain_axis=0, draw_axis=1)) for draws in (one, other)))
            scores.append(abs(one.mean() - other.mean()) / error)
    return {"largest": float(max(scores)), "n": len(scores), "equal": bool(max(scores) < 4.5)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--questions", default="7473")
    parser.add_argument("--warmup", default="250")
    parser.add_argument("--draws", default="500")
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    folder, direag, seconds = given.out.resolve(), ("-m", "bayes_direag"), {}
    results: dict[str, Any] = {"versions": json.loads(run(folder, given.device, "-c", VERSIONS)[0]), "seconds": seconds}
    run(folder, "cpu", *direag, "simulate", "--n", given.questions, "--seed", "1", "--out", "simulated.jsonl")
    sampling = ("--warmup", given.warmup, "--draws", given.draws)
    for side, device in (("gpu", given.device), ("cpu", "cpu")):
        for method, options in (("map", ()), ("nuts", sampling)):
            fit = ("fit", "simulated.jsonl", "--method", method, "--out", f"{method}-{side}.nc", *options)
            _, seconds[f"{method} on {side}"] = run(folder, device, *direag, *fit)
        run(folder, device, *direag, "predict", f"map-{side}.nc", "simulated.jsonl", "--out", f"map-{side}.csv")
    results |= {"map": compare_modes(folder), "nuts": compare_posteriors(folder)}
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    sys.stdout.write(f"{json.dumps(results, indent=1)}\n")
    sys.exit(not (results["map"]["equal"] and results["nuts"]["equal"]))


if __name__ == "__main__":
    main()
