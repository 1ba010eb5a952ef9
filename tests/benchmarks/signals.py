"""What signals beside the stated confidence bring: held-out benefit with each choice of them, on the same splits.

python -m tests.benchmarks.signals ../shared/data/observations/mmlu_pro_12models_signals.jsonl --splits 6

Each split deals 1000 questions to learn from, of which the first 100, 300 and 1000 are taken, and tests on the rest.
"""

import argparse
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from bayes_direag import Observations, fit_map

LABELS = (100, 300, 1000)


def choices(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the first signal alone, all of them, each other one alone, and all less one."""
    some = [(name,) for name in names] + list(combinations(names, len(names) - 1))
    return list(dict.fromkeys([names[:1], names, *some]))


def measured(observations: Observations, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield a row a split, number of labels and choice of signals."""
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(observations))
        for names in choices(observations.signal_names):
            known = observations.of_signals(names)
            tested = known.select(np.sort(order[max(LABELS) :]))
            for n in LABELS:
                table = fit_map(known.select(np.sort(order[:n]))).predict(tested)
                right, said = tested.is_right(table["answer"]), table["probability"].fillna(0).to_numpy()
                benefit = right.mean() - np.mean((said - right) ** 2)
                yield {
                    "split": split,
                    "labels": n,
                    "signals": ", ".join(names),
                    "accuracy": right.mean(),
                    "benefit": benefit,
                }


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each choice, and how much better than the first it is, with its 95 % interval over splits."""
    table = []
    first = rows["signals"].iloc[0]
    for (n, names), own in rows.groupby(["labels", "signals"], sort=False):
        base = rows[(rows["labels"] == n) & (rows["signals"] == first)].set_index("split")["benefit"]
        gain = (own.set_index("split")["benefit"] - base).dropna()
        half = stats.t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain))
        means = {"accuracy": own["accuracy"].mean(), "benefit": own["benefit"].mean()}
        table.append(
            {"labels": n, "signals": names, **means, "gain": gain.mean(), "low": gain.mean() - half}
            | {"high": gain.mean() + half, "splits": len(gain)}
        )
    return pd.DataFrame(table).sort_values("labels", kind="stable")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--rows", type=Path, help="where to write each split's rows as they come")
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    for row in measured(Observations.read(given.file), given.splits):
        rows.append(row)
        if given.rows:
            pd.DataFrame(rows).to_csv(given.rows, index=False)
    print(compared(pd.DataFrame(rows)).to_string(index=False, float_format="{:.4f}".format))


if __name__ == "__main__":
    main()
