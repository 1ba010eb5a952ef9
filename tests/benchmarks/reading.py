"""What it costs to read 20,000 questions of five levels, by format, on this machine.

For each format, the shortest of five readings in one process (wall and CPU time), beside the fingerprint, which is that
of the same questions in every format.

    python tests/benchmarks/reading.py
"""

import tempfile
import time
from pathlib import Path

import pandas as pd

from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations

FILES = ("questions.jsonl", "reports.csv", "questions.parquet", "reports.parquet")


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        observations = simulate_observations(20_000, seed=1)
        for path in (Path(name, file) for file in FILES):
            if path.name == "reports.parquet":
                observations.to_frame().to_parquet(path)
            else:
                observations.write(path)
            costs = [cost(path) for _ in range(5)]
            wall, cpu = map(min, *costs)
            fingerprint = Observations.read(path, "numeric").fingerprint[:12]
            rows.append({"file": path.name, "wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "sha256": fingerprint})
    print(pd.DataFrame(rows).to_string(index=False))


def cost(path: Path) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    Observations.read(path, "numeric")
    return time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
