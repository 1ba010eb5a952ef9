"""How often abstention misses its target, and how much it answers: random splits of real and simulated questions.

``python tests/benchmarks/abstention_coverage.py --out coverage.md FILE ...``

Every question gets its probability once, without its own label: those of a file by cross-fitting in five folds,
simulated ones from a fit to 200 others. Random splits of these into labelled and new ones then need no further fit. A
run misses if it answers and less than the target of its answers is right: at most 1 - assurance of all runs should.
``calibrated`` are confidences drawn at random and right as often as they say.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fitting import cross_fit, fit_map
from bayes_direag.fits.threshold import allowed_wrong, choose_threshold, wrong_bounds
from bayes_direag.model.simulate import simulate_observations

THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
ASSURANCE = 0.9


def pools(options: argparse.Namespace) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Yield what the questions are, how many splits of them to make, confidences, and which are right."""
    for seed in range(options.simulated):
        questions = simulate_observations(1200, seed=seed)
        others = questions.select(slice(200, None))
        predictions = fit_map(questions.select(slice(0, 200))).predict(others)
        right = others.is_right(predictions["answer"])
        yield "simulated", 500 // options.simulated, predictions["probability"].to_numpy(float), right
    for path in options.files:
        everything = Observations.read(path)
        questions = everything.select(everything.labelled)
        confidence, right = np.full(len(questions), np.nan), np.zeros(len(questions), bool)
        for fold in cross_fit(questions, n_folds=5):
            confidence[fold.index] = fold.predictions["probability"]
            right[fold.index] = questions.select(fold.index).is_right(fold.predictions["answer"])
        yield path.stem, options.splits, confidence, right
    rng = np.random.default_rng(0)
    confidence = rng.beta(3, 1, 200_000)
    yield "calibrated", 500, confidence, rng.random(len(confidence)) < confidence


def outcomes(
    name: str, n_splits: int, confidence: np.ndarray, right: np.ndarray, sizes: list[tuple[int, int]]
) -> Iterator[dict[str, object]]:
    """Yield what came of each split, a row a number of labels and target."""
    confidence, right = confidence[~np.isnan(confidence)], right[~np.isnan(confidence)]
    for (n, m), seed in ((size, seed) for size in sizes if sum(size) <= len(right) for seed in range(n_splits)):
        order = np.random.default_rng(seed).permutation(len(right))[: n + m]
        labelled, new = order[:n], order[n:]
        for target in (0.8, 0.9, 0.95):
            found = choose_threshold(
                confidence[labelled], right[labelled], confidence[new], target=target, assurance=ASSURANCE
            )
            answered = right[new][confidence[new] >= found.threshold]
            yield {
                "set": name if name in {"simulated", "calibrated"} else "real",
                "file": name,
                "labels": n,
                "new": m,
                "target": target,
                "answered": len(answered) / m,
                "limit": limit(confidence[labelled], right[labelled], confidence[new], target),
                "any": bool(len(answered)),
                "missed": bool(len(answered)) and bool(answered.mean() < target - 1e-12),
            }


def limit(confidence: np.ndarray, right: np.ndarray, new: np.ndarray, target: float) -> float:
    """Return the share answered by a rule that does not pay for looking at every number of wrong labelled answers.

    It is no valid rule: each of its bounds holds alone, with all of the risk. A valid one has none that is lower.
    """
    k, bound = wrong_bounds(len(confidence), len(new), target, ASSURANCE)
    levels = np.unique(new)
    n_wrong = np.searchsorted(np.sort(-confidence[~right]), -levels, side="right")
    bounded = n_wrong <= k[-1]
    allowed = allowed_wrong(target, np.searchsorted(np.sort(-new), -levels, side="right"))
    fits = bounded & (bound[np.searchsorted(k, n_wrong, side="right") - 1] <= allowed)
    return float((new >= levels[fits][0]).mean()) if fits.any() else 0.0


def summary(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return shares of runs with Clopper-Pearson intervals."""
    found = []
    for names, part in rows.groupby(by, sort=False):
        share = binomtest(int(part["missed"].sum()), len(part)).proportion_ci(0.95)
        found.append(
            dict(zip(by, names, strict=True))
            | {
                "runs": len(part),
                "answered": f"{part['answered'].mean():.3f}",
                "limit": f"{part['limit'].mean():.3f}",
                "missed": f"{part['missed'].mean():.3f} [{share.low:.3f}, {share.high:.3f}]",
                "runs that answer": int(part["any"].sum()),
                "missed of these": int(part["missed"].sum()),
            }
        )
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="labelled observation files")
    parser.add_argument("--simulated", type=int, default=20, help="simulated sets, among which 500 splits are shared")
    parser.add_argument("--splits", type=int, default=40, help="splits of each file")
    parser.add_argument("--out", type=Path, required=True, help="where to write the tables")
    options = parser.parse_args()
    sizes = [(100, 300), (200, 300), (500, 300), (1500, 1000)]
    rows, by_threshold = [], []
    for name, n_splits, confidence, right in pools(options):
        rows += outcomes(name, n_splits, confidence, right, sizes)
        for threshold in THRESHOLDS:
            above = right[confidence >= threshold]
            by_threshold.append({"file": name, "threshold": threshold, "share": len(above) / len(right)})
            by_threshold[-1]["right"] = above.mean() if len(above) else np.nan
    runs = pd.DataFrame(rows)
    tables = [
        summary(runs, ["set", "labels", "new", "target"]),
        summary(runs[runs["set"] == "real"], ["file", "labels", "new", "target"]) if options.files else None,
        pd.DataFrame(by_threshold).groupby(["file", "threshold"], sort=False).mean().round(3).reset_index(),
    ]
    texts = [table.to_csv(sep="|", index=False) for table in tables if table is not None]
    options.out.write_text("\n".join(texts))


if __name__ == "__main__":
    main()
