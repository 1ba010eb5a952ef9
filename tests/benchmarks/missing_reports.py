"""What ordinary and partial fits say of questions that lack reports: benefit, and how far probabilities are off.

python -m tests.benchmarks.missing_reports ../shared/data/observations/mmlu_pro_*.jsonl --n 100 --draws 4

Fits to questions with all reports are tested on up to 800 others, of which a random choice of reports is kept.
``bias`` is the mean probability less the share of right answers, in mean over draws; ``off`` the mean over files of the
absolute value of that.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Observations
from bayes_direag.fits.fitting import fit_map_batch

MOST = 800
KEPT = (1, 2, 3, 4, 6, 8)


def measured(observations: Observations, n: int, n_draws: int, preset: str) -> pd.DataFrame:
    """Return a row for each fit, number of kept reports (0: all) and draw."""
    usable = np.flatnonzero(observations.labelled & observations.answered)
    half = min(MOST, len(usable) // 2)
    order = np.random.default_rng(0).permutation(usable)
    pool, tested = (observations.select(np.sort(rows)) for rows in (order[:half], order[half : 2 * half]))
    chosen = np.zeros((n_draws, half), bool)
    for draw, row in enumerate(chosen):
        row[np.random.default_rng(draw).choice(half, min(n, half), replace=False)] = True
    rank = np.random.default_rng(1).random(tested.shape)
    rank = np.where(tested.usable, rank, np.inf).argsort(axis=1).argsort(axis=1)
    kept = [n_kept for n_kept in KEPT if n_kept < tested.n_levels]
    shown = {n_kept: tested.without(rank >= n_kept) for n_kept in kept} | {0: tested}
    rows = []
    for how in ("ordinary", "partial"):
        for fit in fit_map_batch(pool, chosen, preset=preset, partial=how == "partial"):
            for n_kept, questions in shown.items():
                table = fit.predict(questions, warn=False)
                right, said = questions.is_right(table["answer"]), table["confidence"].fillna(0.0).to_numpy()
                benefit = right.mean() - np.mean((said - right) ** 2)
                rows.append({"fit": how, "reports": n_kept, "benefit": benefit, "bias": said.mean() - right.mean()})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--preset", default="bayes")
    given = parser.parse_args()
    by_file = {}
    for path in given.files:
        rows = measured(Observations.read(path), given.n, given.draws, given.preset)
        by_file[path.stem] = rows.groupby(["reports", "fit"], as_index=False)[["benefit", "bias"]].mean()
        print(f"{path.stem}\n{_shown(by_file[path.stem], ['benefit', 'bias'])}", flush=True)
    table = pd.concat(by_file.values()).assign(off=lambda table: table["bias"].abs())
    print(f"\nMean of {len(by_file)} files, {given.n} labels (0: all reports)")
    print(_shown(table, ["benefit", "bias", "off"]))


def _shown(table: pd.DataFrame, values: list[str]) -> str:
    means = table.pivot_table(index="reports", columns="fit", values=values)[values]
    return str(means.to_string(float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
