"""How many labels are enough: the benefit of a few methods by number of labels, over random splits of each file.

    python -m tests.benchmarks.learning_curve FILES --splits 20

A split is a random order of the usable questions: methods learn from its first 30, 100, ..., and are tested on those
beyond the largest number. A star: the best method, or one whose 95 % interval of the difference to it includes 0. The
interval's variance is that between splits over their number, plus the share of the questions that a split tests times
the variance of a mean over its test set, which comes from the two halves of that set.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

from analysis.methods.direag import FitLearner, after_calibration
from analysis.methods.method import Method
from analysis.methods.registry import SIMPLE_METHODS
from analysis.scores.scoring import SELECTION_SCORES
from bayes_direag import Observations

LABELS, FEWEST_TESTED, SHARE_TESTED = (30, 100, 300, 1000), 100, 0.2
METHODS = {name: SIMPLE_METHODS[name] for name in ("majority_platt", "vote_logistic", "conditional_logit")}
METHODS |= {"direag": Method(FitLearner("bayes"), after_calibration)}


def measured(observations: Observations, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield the benefit of each method, number of labels and split, on the whole test set and on its halves."""
    observations = observations.with_agreement()
    usable = np.flatnonzero(observations.labelled & observations.answered)
    most = len(usable) - max(FEWEST_TESTED, int(np.ceil(SHARE_TESTED * len(usable))))
    counts = [n for n in LABELS if n <= most]
    for split in range(n_splits):
        order = np.random.default_rng([0, split]).permutation(usable)
        tested = observations.select(order[counts[-1] :])
        for n in counts:
            labelled = observations.select(np.sort(order[:n]))
            for name, method in METHODS.items():
                answers = method.answer(method.learn(labelled, split), tested).scored(tested)
                gain = SELECTION_SCORES["benefit"](answers)
                row = {"method": name, "labels": n, "split": split, "share": len(tested) / len(usable)}
                half = len(gain) // 2
                yield row | {"benefit": gain.mean(), "gap": gain[:half].mean() - gain[half:].mean()}


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean benefits by method and number of labels as text, the best and those not shown to be worse starred."""
    table = {}
    for n, rows in results.groupby("labels"):
        benefit, gap = (rows.pivot_table(index="split", columns="method", values=one) for one in ("benefit", "gap"))
        best = benefit.mean().idxmax()
        difference, apart = benefit.sub(benefit[best], axis=0), gap.sub(gap[best], axis=0)
        error = np.sqrt(difference.var() / len(benefit) + rows["share"].iloc[0] * (apart**2).mean() / 4)
        is_worse = difference.mean() + student.ppf(0.975, len(benefit) - 1) * error < 0
        table[n] = benefit.mean().round(3).astype(str) + np.where(is_worse, "", "*")
    return pd.DataFrame(table).loc[list(METHODS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--splits", type=int, default=20)
    given = parser.parse_args()
    for path in given.files:
        found = summary(pd.DataFrame(measured(Observations.read(path), given.splits)))
        print(f"{path.name}, {given.splits} splits\n{found}\n", flush=True)


if __name__ == "__main__":
    main()
