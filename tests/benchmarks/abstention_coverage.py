"""How often abstention misses its target, and how much it answers: random splits of real and simulated questions.

    python -m tests.benchmarks.abstention_coverage FILES

Every question gets its probability once, without its own label: those of a file by cross-fitting in five folds,
simulated ones from a fit to 200 others. Random splits of these into labelled and new ones then need no further fit. A
run misses if it answers and less than the target of its answers is right: at most 1 - assurance of all runs should.
``calibrated`` are probabilities drawn at random and right as often as they say.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Observations, simulate_observations
from bayes_direag.decisions.abstention import lowest_threshold
from bayes_direag.fits.making import cross_fit, fit_map
from tests.benchmarks.common import parser, stated

ASSURANCE, TARGETS = 0.9, (0.8, 0.9, 0.95)
#: Numbers of labelled and new questions.
SIZES = ((100, 300), (200, 300), (500, 300), (1500, 1000))
N_SIMULATED, N_SPLITS, N_OF_A_FILE = 20, 500, 40


def pools(files: list[Path]) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Yield what the questions are, how many splits of them to make, which are right, and probabilities."""
    for seed in range(N_SIMULATED):
        questions = simulate_observations(1200, seed=seed)
        fit = fit_map(questions.select(slice(0, 200)))
        yield "simulated", N_SPLITS // N_SIMULATED, *stated(fit, questions.select(slice(200, None)))
    for path in files:
        questions = Observations.read(path)
        questions = questions.select(questions.labelled & questions.answered)
        folds = [stated(fold.fit, questions.select(fold.index)) for fold in cross_fit(questions, n_folds=5)]
        yield path.stem, N_OF_A_FILE, *map(np.concatenate, zip(*folds, strict=True))
    rng = np.random.default_rng(0)
    probability = rng.beta(3, 1, 200_000)
    yield "calibrated", N_SPLITS, rng.random(len(probability)) < probability, probability


def runs(name: str, n_splits: int, right: np.ndarray, probability: np.ndarray) -> Iterator[dict[str, object]]:
    """Yield what came of each split, a row a number of labels and target."""
    for (n, m), seed in ((size, seed) for size in SIZES if sum(size) <= len(right) for seed in range(n_splits)):
        order = np.random.default_rng(seed).permutation(len(right))[: n + m]
        known, new = order[:n], order[n:]
        for target in TARGETS:
            given = probability[known], right[known], probability[new]
            found = lowest_threshold(*given, target=target, assurance=ASSURANCE)
            answered = right[new][probability[new] >= found]
            missed = bool(len(answered)) and bool(answered.mean() < target - 1e-12)
            row = {"file": name, "labels": n, "new": m, "target": target, "runs": 1, "answered": len(answered) / m}
            yield row | {"answering": bool(len(answered)), "missed": missed}


def main() -> None:
    table = pd.DataFrame([row for pool in pools(parser(__doc__, files="*").parse_args().files) for row in runs(*pool)])
    figures = {"runs": "sum", "answered": "mean", "answering": "sum", "missed": "sum"}
    real = table[~table["file"].isin(["simulated", "calibrated"])].assign(file="real")
    for rows in (table, real):
        by_kind = rows.groupby(["file", "labels", "new", "target"], sort=False).agg(figures)
        print(by_kind.round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
