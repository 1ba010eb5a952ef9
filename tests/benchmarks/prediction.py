"""What prediction and fitting cost as questions grow in number, from a thousand to ten million, on this machine.

Parquet files of simulated questions are made (five levels; confidences of five points), and every job runs as a fresh
``direag`` process: wall time, CPU time and peak memory are its own. The posterior is a fit by NUTS with 4000 draws.
A fit keeps a row a question; it stops at ``--largest-fit``.

    python tests/benchmarks/prediction.py --out costs --questions 1000 10000 100000

With ``--one`` instead: what one question costs an exported ``Predictor`` and ``Fit.predict``, each in a fresh process:
import and loading, the median of 200 answers, peak memory.

    python tests/benchmarks/prediction.py --out costs --one
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
from pyarrow import parquet

LEVELS = ("very_cautious", "cautious", "vanilla", "confident", "very_confident")
HABIT, SPREAD = np.array([45, 65, 80, 88, 94.0]), np.array([24, 18, 14, 10, 7.0])
POINTS = np.array([55, 65, 75, 85, 95.0])
AT_ONCE = 100_000
JOBS = {
    "predict, MAP": ("predict", "map.nc", "QUESTIONS"),
    "predict, posterior": ("predict", "nuts.nc", "QUESTIONS"),
    "fit, MAP": ("fit", "QUESTIONS", "--set", "recalibration.out_of_fold=0", "--answers", "numeric"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("prediction-costs"), help="folder for the table")
    parser.add_argument("--questions", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6, 10**7])
    parser.add_argument(
        "--jobs", nargs="+", choices=list(JOBS), default=list(JOBS), metavar="JOB", help=", ".join(JOBS)
    )
    parser.add_argument("--largest-fit", type=int, default=10**5, help="most questions for a fit")
    parser.add_argument("--largest-posterior", type=int, default=10**6, help="most questions for the posterior")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", action="store_true", help="measure the answer to one question, and stop")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.one:
        measure_one().to_csv(arguments.out / "one.csv", index=False)
        return
    measure(arguments).to_csv(arguments.out / "costs.csv", index=False)


def measure(arguments: argparse.Namespace) -> pd.DataFrame:
    """Run every job at every size and return a row for each."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_fits(folder)
        for n in sorted(arguments.questions):
            path = folder / "questions.parquet"
            make_questions(path, n, arguments.seed)
            for job in arguments.jobs:
                largest = {"fit, MAP": arguments.largest_fit, "predict, posterior": arguments.largest_posterior}
                if n > largest.get(job, n):
                    continue
                rows.append({"n": n, "job": job} | run(job, path, folder))
                print(rows[-1], flush=True)
            path.unlink()
    return pd.DataFrame(rows)


ONE = """
import re, statistics, sys, time
start = time.perf_counter()
from bayes_direag import {name}
imported = time.perf_counter()
learned = {name}.load(sys.argv[1])
loaded = time.perf_counter()
pairs = zip(("very_cautious", "cautious", "vanilla", "confident", "very_confident"), (40, 70, 80, 90, 95))
reports = [{{"level_name": name, "level": n, "answer": "5", "confidence": p}} for n, (name, p) in enumerate(pairs)]
given = {given}
learned.predict(given)
times = []
for _ in range(200):
    begin = time.perf_counter()
    learned.predict(given)
    times.append(time.perf_counter() - begin)
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024  # rusage has the parent's
print(1e3 * (imported - start), 1e3 * (loaded - imported), 1e3 * statistics.median(times), peak)
"""


def measure_one() -> pd.DataFrame:
    """Return a row for each way to answer one question, by MAP and by NUTS."""
    ways = {
        "Predictor": ("json", ONE.format(name="Predictor", given="reports")),
        "Fit": ("nc", ONE.format(name="Fit", given='[{"problem_id": "a", "observations": reports}]')),
    }
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_fits(folder)
        for fit in ("map", "nuts"):
            direag("export", f"{fit}.nc", "--out", f"{fit}.json", folder=folder)
            for way, (suffix, script) in ways.items():
                environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
                command = [sys.executable, "-c", script, str(folder / f"{fit}.{suffix}")]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
                columns = ("import_ms", "load_ms", "answer_ms", "peak_mib")
                rows.append({"fit": fit, "by": way} | dict(zip(columns, map(float, done.stdout.split()), strict=True)))
                print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def make_fits(folder: Path) -> None:
    """Fit to 300 simulated questions, once by MAP and once by NUTS."""
    direag("simulate", "--n", "300", "--seed", "1", "--out", "train.jsonl", folder=folder)
    direag("fit", "train.jsonl", "--out", "map.nc", folder=folder)
    direag("fit", "train.jsonl", "--out", "nuts.nc", "--method", "nuts", folder=folder)


def make_questions(path: Path, n: int, seed: int) -> None:
    """Write simulated questions in long form, part by part."""
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, n, AT_ONCE):
        table = questions(np.arange(start, min(start + AT_ONCE, n)), rng)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def questions(number: np.ndarray, rng: np.random.Generator) -> pyarrow.Table:
    """Draw questions: an easy one gets its common answer from most levels, and surer ones."""
    n, n_levels = len(number), len(LEVELS)
    ease = rng.normal(0.8, 1.6, n)
    common = 1 / (1 + np.exp(-ease))
    said = np.where(rng.random((n, n_levels)) < common[:, None], 0, rng.integers(1, 5, (n, n_levels)))
    right = np.where(rng.random(n) < common, 0, rng.integers(1, 7, n))
    name = rng.integers(1, 900, n)[:, None] + rng.permuted(np.tile(np.arange(0, 60, 7), (n, 1)), axis=1)
    stated = HABIT + 6 * np.tanh(ease / 2)[:, None] + np.where(said == 0, 3, -5) + SPREAD * rng.normal(size=said.shape)
    stated = np.round(np.clip(stated, 0, 100))
    stated = POINTS[np.abs(stated[:, :, None] - POINTS).argmin(axis=2)]
    row = np.repeat(np.arange(n), n_levels)
    level = np.tile(np.arange(n_levels), n)
    answer = np.take_along_axis(name, said, axis=1).ravel()
    table = pyarrow.table(
        {
            "problem_id": pyarrow.array(number).cast(pyarrow.string()).take(pyarrow.array(row)),
            "level": level,
            "level_name": pyarrow.array(LEVELS).take(pyarrow.array(level)),
            "answer": pyarrow.array(answer).cast(pyarrow.string()),
            "confidence": stated.ravel(),
            "gold_answer": pyarrow.array(name[row, right[row]]).cast(pyarrow.string()),
        }
    )
    return table.filter(pyarrow.array(rng.random(len(row)) >= 0.02))


def run(job: str, path: Path, folder: Path) -> dict[str, float]:
    """Run a job as a process of its own and return what it cost."""
    command, *rest = (str(path) if word == "QUESTIONS" else word for word in JOBS[job])
    target = "out.parquet" if command == "predict" else "out.nc"
    start = time.monotonic()
    process = start_direag(command, *rest, "--out", target, "--json", folder=folder)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    if status:
        sys.exit(f"{job}: {path} ended with status {status}")
    size = (folder / target).stat().st_size
    (folder / target).unlink()
    return {
        "wall_s": round(wall, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": round(usage.ru_maxrss / 1024),
        "out_mib": round(size / 2**20, 1),
    }


def direag(*arguments: str, folder: Path) -> None:
    if start_direag(*arguments, folder=folder).wait():
        sys.exit(f"direag {' '.join(arguments)} failed")


def start_direag(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    script = "from bayes_direag.cli import app; app()"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603


if __name__ == "__main__":
    main()
