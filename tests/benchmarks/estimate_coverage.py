"""How often the intervals of an estimated accuracy and benefit hold: random splits of labelled files.

``python tests/benchmarks/estimate_coverage.py --splits 50 --labels 30,100 FILE ...``

Each split fits a MAP to some questions and estimates up to 800 others. An interval of probability .9 holds if the
figure of these is in it. ``rmse`` and ``width`` are those of the accuracy, ``worth`` is in labels.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fitting import fit_map

_MOST_NEW = 800


def splits(questions: Observations, n_labels: int, n_splits: int) -> pd.DataFrame:
    """Return an estimate and the actual figures, a row a split."""
    rows = []
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(questions))
        fit, new = fit_map(questions.select(order[:n_labels])), questions.select(order[n_labels : n_labels + _MOST_NEW])
        estimate, table = fit.estimate(new), fit.predict(new)
        right = new.is_right(table["answer"])
        accuracy, benefit = right.mean(), right.mean() - np.mean((table["probability"] - right) ** 2)
        rows.append(
            {
                "error": estimate.accuracy - accuracy,
                "width": estimate.accuracy_high - estimate.accuracy_low,
                "accuracy held": estimate.accuracy_low <= accuracy <= estimate.accuracy_high,
                "benefit held": estimate.benefit_low <= benefit <= estimate.benefit_high,
                "worth": estimate.worth,
                "alarm": estimate.drift is not None and estimate.drift.differs,
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="labelled observation files")
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("--labels", default="30,100", help="numbers of labels")
    options = parser.parse_args()
    for n_labels in map(int, options.labels.split(",")):
        rows = []
        for path in options.files:
            questions = Observations.read(path)
            questions = questions.select(questions.labelled & questions.answered)
            found = splits(questions, n_labels, options.splits)
            mean = found.drop(columns="error").mean()
            rows.append({"file": path.stem, "rmse": np.sqrt((found["error"] ** 2).mean()), **mean})
            print(f"{n_labels} labels: {path.stem}, accuracy held {mean['accuracy held']:.2f}", flush=True)
        table = pd.DataFrame(rows)
        table.loc[len(table)] = {"file": "mean", **table.drop(columns="file").mean()}
        print(f"\n{n_labels} labels, {options.splits} splits\n{table.round(3).to_string(index=False)}\n", flush=True)


if __name__ == "__main__":
    main()
