"""How long a fit takes: the optimum alone once compiled, and the whole command with an empty and a filled cache.

Simulated questions of five levels, under ``bayes``; NUTS with 4 chains of 500 + 1000 steps. Each
run is a process of its own; "cold" finds an empty compilation cache, "warm" what the run before has left there. Beside
the wall clock there is the processor time, which a busy machine changes less. Another checkout can be measured in the
same session, turn by turn. With ``--steps`` instead: where the time of the command goes, under cProfile, which itself
costs up to a tenth; what a step imports counts to the step.

    python tests/benchmarks/fits.py --repeats 3 --csv fits.csv
    python tests/benchmarks/fits.py --against ../older-checkout
    python tests/benchmarks/fits.py --steps
"""

import argparse
import csv
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[2]

COMMAND = "import sys; from bayes_direag.cli import app; sys.argv[0] = 'direag'; app()"
COMPILED = """
import sys, time
import numpy as np
from bayes_direag import Observations, fit_map, preset
from bayes_direag.inference.map import map_estimates
observations = Observations.read(sys.argv[1])
weight = np.ones((1, len(observations)))
fits = [
    lambda: map_estimates(observations, weight, preset=preset("paper")),
    lambda: map_estimates(observations, weight, preset=preset("bayes")),
    lambda: fit_map(observations),
]
for fit in fits:
    for _ in range(6):
        wall, cpu = time.perf_counter(), time.process_time()
        fit()
        print(time.perf_counter() - wall, time.process_time() - cpu)
"""
NUTS = ("--method", "nuts", "--chains", "4", "--warmup", "500", "--draws", "1000")

#: What a step is called, by function. None is called by another of them, but for ``recalibrate`` under NUTS.
STEPS = {
    "read": "reading",
    "map_estimates": "the mode",
    "nuts_draws": "sampling",
    "map_posterior": "likelihoods, predictive draws",
    "nuts_posterior": "likelihoods, predictive draws",
    "leave_one_out": "leave-one-out",
    "recalibrate": "final calibration",
    "draw_recalibration": "final calibration",
    "save": "writing",
}


class Cost(NamedTuple):
    """What one run took, in seconds and MiB."""

    wall: float
    cpu: float
    memory: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=7473)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=("map", "nuts"), default=("map", "nuts"))
    parser.add_argument(
        "--against", type=Path, metavar="FOLDER", help="another checkout, measured in turn with this one"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every run")
    parser.add_argument("--steps", action="store_true", help="print the seconds of every step, and stop")
    arguments = parser.parse_args()
    trees = {"here": HERE} | ({"against": arguments.against.resolve()} if arguments.against else {})
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = place / "observations.jsonl"
        run(HERE, place, "-c", COMMAND, "simulate", "--n", str(arguments.questions), "--seed", "1", "--out", str(data))
        if arguments.steps:
            print_steps(place, data, arguments.methods)
            return
        for number in range(arguments.repeats):
            for tree, root in trees.items():
                for what, cost in one_repeat(root, place, data, arguments.methods):
                    rows.append({"tree": tree, "what": what, "repeat": number, **cost._asdict()})
                    print(f"{tree:8s} {what:22s} " + "  ".join(f"{k} {v:8.2f}" for k, v in cost._asdict().items()))
    print(f"\nmedians of {arguments.repeats} runs, {arguments.questions} questions")
    for tree, what in dict.fromkeys((row["tree"], row["what"]) for row in rows):
        mine = [row for row in rows if (row["tree"], row["what"]) == (tree, what)]
        wall, cpu, memory = (statistics.median(float(str(row[name])) for row in mine) for name in Cost._fields)
        print(f"{tree:8s} {what:22s} wall {wall:7.2f} s  cpu {cpu:7.2f} s  peak {memory:6.0f} MiB")
    if arguments.csv:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


def one_repeat(root: Path, place: Path, data: Path, methods: list[str]) -> list[tuple[str, Cost]]:
    found = []
    for method in methods:
        cache = place / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        options = NUTS if method == "nuts" else ()
        for state in ("cold", "warm"):
            cost, _ = run(root, place, "-c", COMMAND, "fit", str(data), "--out", str(place / "fit.nc"), *options)
            found.append((f"direag fit {method} {state}", cost))
        if method == "map":
            cost, said = run(root, place, "-c", COMPILED, str(data))
            laps = [tuple(map(float, line.split())) for line in said.splitlines()]
            for number, what in enumerate(("optimum, paper", "optimum, bayes", "fit_map")):
                mine = laps[6 * number + 1 : 6 * number + 6]
                wall, cpu = (statistics.median(lap[part] for lap in mine) for part in (0, 1))
                found.append((f"{what}, compiled", Cost(wall, cpu, cost.memory)))
    return found


def print_steps(place: Path, data: Path, methods: list[str]) -> None:
    """Run the command under cProfile, with an empty cache and with a filled one."""
    for method in methods:
        shutil.rmtree(place / "cache", ignore_errors=True)
        options = (str(data), "--out", str(place / "fit.nc"), *(NUTS if method == "nuts" else ()))
        for state in ("cold", "warm"):
            run(HERE, place, "-m", "cProfile", "-o", str(place / "profile"), "-m", "bayes_direag", "fit", *options)
            stats = pstats.Stats(str(place / "profile"))
            seconds = {
                function: cumulative
                for (path, _, function), (_, _, _, cumulative, _) in stats.stats.items()  # type: ignore[attr-defined]
                if function in STEPS and "bayes_direag" in path
            }
            if "draw_recalibration" in seconds:
                seconds.pop("recalibrate", None)
            rest = stats.total_tt - sum(seconds.values())  # type: ignore[attr-defined]
            for step, value in [*((STEPS[name], value) for name, value in seconds.items()), ("starting", rest)]:
                print(f"direag fit {method} {state}  {step:30s} {value:8.2f} s")


def run(root: Path, place: Path, *arguments: str) -> tuple[Cost, str]:
    """Run Python on a checkout; raise if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(root), "JAX_COMPILATION_CACHE_DIR": str(place / "cache")}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    start = time.perf_counter()
    with (place / "said").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen([sys.executable, *arguments], cwd=place, env=environment, stdout=said)  # noqa: S603
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise SystemExit(f"{arguments}: exit code {process.returncode}")
    return Cost(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024), text


if __name__ == "__main__":
    main()
