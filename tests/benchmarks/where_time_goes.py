"""Where the time of ``direag fit`` goes, by MAP and by NUTS, with an empty compilation cache and with a filled one.

Simulated questions of five levels, NUTS with 4 chains of 500 + 1000 steps. Each run is a process of its own under
cProfile, which itself costs up to a tenth; the steps are cumulative times of the functions named in ``STEPS``. What a
step imports counts to the step.

    python tests/benchmarks/where_time_goes.py --out where-time-goes
"""

import argparse
import os
import pstats
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parents[2]
PROFILED = """
import cProfile, sys
profile = cProfile.Profile()
sys.argv = ["direag", *sys.argv[2:]]
target = {target!r}
profile.enable()
try:
    from bayes_direag.cli import app
    app()
except SystemExit:
    pass
profile.disable()
profile.dump_stats(target)
"""
NUTS = ("--method", "nuts", "--chains", "4", "--warmup", "500", "--draws", "1000")

#: What a step is called, by function. None is called by another of them, but for ``recalibrate`` under NUTS.
STEPS = {
    "read_labelled": "reading",
    "map_estimates": "the mode",
    "nuts_draws": "sampling",
    "map_posterior": "likelihoods, predictive draws",
    "nuts_posterior": "likelihoods, predictive draws",
    "leave_one_out": "leave-one-out",
    "recalibrate": "final calibration",
    "draw_recalibration": "final calibration",
    "save": "writing",
}
REST = "starting, printing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=7473)
    parser.add_argument("--out", type=Path, default=Path("where-time-goes"), help="folder for the table")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        simulate = ("simulate", "--n", str(arguments.questions), "--seed", "1", "--out", "observations.jsonl")
        profiled(place, *simulate, cache=place / "simulate")
        for method, options in (("MAP", ()), ("NUTS", NUTS)):
            for cache in ("empty", "filled"):
                stats = profiled(place, "fit", "observations.jsonl", "--out", "fit.nc", *options, cache=place / method)
                for step, seconds in steps(stats).items():
                    rows.append({"method": method, "cache": cache, "step": step, "seconds": round(seconds, 2)})
    table = pd.DataFrame(rows)
    table.to_csv(arguments.out / "where_time_goes.csv", index=False)
    print(table.pivot_table(index="step", columns=["method", "cache"], values="seconds", sort=False))


def profiled(place: Path, *words: str, cache: Path) -> pstats.Stats:
    """Run a command under cProfile."""
    target = place / "profile"
    environment = os.environ | {
        "PYTHONPATH": str(HERE),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    code = PROFILED.format(target=str(target))
    command = [sys.executable, "-c", code, "direag", *words]
    subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True)  # noqa: S603 - our own command
    return pstats.Stats(str(target))


def steps(stats: pstats.Stats) -> dict[str, float]:
    """Return the seconds of every step, and of all else."""
    seconds = {
        function: cumulative
        for (path, _, function), (_, _, _, cumulative, _) in stats.stats.items()  # type: ignore[attr-defined]
        if function in STEPS and "bayes_direag" in path
    }
    if "draw_recalibration" in seconds:
        seconds.pop("recalibrate", None)
    found = dict.fromkeys([*STEPS.values(), REST], 0.0)
    for function, value in seconds.items():
        found[STEPS[function]] += value
    found[REST] = stats.total_tt - sum(found.values())  # type: ignore[attr-defined]
    return {step: value for step, value in found.items() if value > 0}


if __name__ == "__main__":
    main()
