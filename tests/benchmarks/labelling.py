"""What choosing questions to label brings: fits to chosen and to random questions, tested on the same other ones.

python -m tests.benchmarks.labelling ../shared/data/observations/svamp_llama8b_10runs.jsonl --n 30 --draws 8

Up to 800 questions are there to be chosen from, and as many are tested. ``off`` is how far the mean probability lies
from the share of right answers, in mean over draws.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Observations, questions_to_label
from bayes_direag.fits.fitting import fit_map_batch

MOST = 800


def measured(observations: Observations, n: int, n_draws: int) -> pd.DataFrame:
    """Return a row for each way of choosing and draw."""
    usable = np.flatnonzero(observations.labelled & observations.answered)
    half = min(MOST, len(usable) // 2)
    order = np.random.default_rng(0).permutation(usable)
    pool, tested = (observations.select(np.sort(rows)) for rows in (order[:half], order[half : 2 * half]))
    hidden = Observations.of_table(pool.table.take(pool.row).unlabelled(), pool.kind)
    chosen = {}
    for draw in range(n_draws):
        names = questions_to_label(hidden, n, seed=draw)["problem_id"]
        chosen["chosen", draw] = np.isin(pool.problem_id, names.unique())
        chosen["random", draw] = np.isin(np.arange(half), np.random.default_rng(draw).choice(half, n, replace=False))
    rows = []
    for (how, draw), fit in zip(chosen, fit_map_batch(pool, np.array([*chosen.values()])), strict=True):
        table = fit.predict(tested)
        right, said = tested.is_right(table["answer"]), table["probability"].to_numpy()
        benefit = right.mean() - np.mean((said - right) ** 2)
        rows.append(
            {"how": how, "draw": draw, "accuracy": right.mean(), "benefit": benefit, "bias": said.mean() - right.mean()}
        )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--n", type=int, default=30)
    parser.add_argument("--draws", type=int, default=8)
    given = parser.parse_args()
    gains = []
    for path in given.files:
        rows = measured(Observations.read(path), given.n, given.draws)
        means = rows.assign(off=rows["bias"].abs()).groupby("how")[["accuracy", "benefit", "bias", "off"]].mean()
        gains.append(means.loc["chosen", "benefit"] - means.loc["random", "benefit"])
        print(f"{path.stem}\n{means.to_string(float_format='{:.3f}'.format)}", flush=True)
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    print(f"gain in benefit with {given.n} labels: {np.mean(gains):+.4f} ± {error:.4f} over {len(gains)} files")


if __name__ == "__main__":
    main()
