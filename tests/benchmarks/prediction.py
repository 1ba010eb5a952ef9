"""What one question costs an exported ``Predictor`` and ``Fit.predict``, by MAP and by NUTS with 4000 draws.

    python -m tests.benchmarks.prediction

Each row is a fresh process: import and loading, the median of 200 answers, peak memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bayes_direag import fit_map, fit_nuts, simulate_observations

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
print(*(f"{{1e3 * cost:10.2f}}" for cost in (imported - start, loaded - imported, statistics.median(times))), end="")
print(f"{{peak:10.0f}}")
"""


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    questions = '[{"problem_id": "a", "observations": reports}]'
    print("fit   by          import, load, answer (ms), peak (MiB)")
    with tempfile.TemporaryDirectory() as folder:
        for method, learn in (("map", fit_map), ("nuts", fit_nuts)):
            fit = learn(simulate_observations(300, seed=1))
            fit.save(Path(folder, "Fit"))
            fit.export(Path(folder, "Predictor"))
            for by, given in (("Predictor", "reports"), ("Fit", questions)):
                command = [sys.executable, "-c", ONE.format(name=by, given=given), str(Path(folder, by))]
                environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
                print(f"{method:5} {by:9}", end="", flush=True)
                subprocess.run(command, env=environment, check=True)  # noqa: S603


if __name__ == "__main__":
    main()
