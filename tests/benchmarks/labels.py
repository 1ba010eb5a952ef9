"""What each way to answer is worth with few and many labels: random splits of files, the same for every way.

    python -m tests.benchmarks.labels FILES --ways direag majority_platt conditional_logit --csv labels.csv
    python -m tests.benchmarks.labels FILES --ways direag nuts --labels 10 30 100 --splits 2 --csv nuts.csv
    python -m tests.benchmarks.labels FILES --labels 30 --apart 200 --csv thirty.csv --by-file

A split learns from its first labels and is tested on up to ``--apart`` other questions; the rest of the file counts as
unlabelled. A way is ``direag`` (MAP of the default model), ``nuts`` (its posterior), a preset's name, or a method of
``direag evaluate``. ``log`` is minus the mean log probability of what occurred, NaN for a way without a distribution;
``claimed`` the mean probability of the selected answers; ``gain`` the benefit less that of the first way, with its
standard error over files. A file is written as soon as it is measured, and not measured again: delete its rows to
repeat it.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.direag import after_calibration
from analysis.methods.method import Answers
from analysis.methods.registry import SIMPLE_METHODS
from bayes_direag import Observations, fit_map, fit_nuts
from bayes_direag.model.settings import SamplingSettings

_SHORT = "{:.4f}".format
SAMPLING = SamplingSettings(n_chains=4, n_warmup=250, n_draws=500)

type Way = Callable[[Observations], Callable[[Observations], Answers]]


def way_of(name: str) -> Way:
    """Return how a way learns from labelled questions and answers others."""
    if name in SIMPLE_METHODS:
        method = SIMPLE_METHODS[name]

        def learn(labelled: Observations) -> Callable[[Observations], Answers]:
            learned = method.learn(labelled, 0)
            return lambda observations: method.answer(learned, observations)

        return learn

    def fit(labelled: Observations) -> Callable[[Observations], Answers]:
        preset = "bayes" if name in ("direag", "nuts") else name
        fitted = fit_nuts(labelled, sampling=SAMPLING) if name == "nuts" else fit_map(labelled, preset=preset)
        return lambda observations: after_calibration(fitted, observations)

    return fit


def measured(
    observations: Observations, ways: list[str], labels: list[int], n_splits: int, apart: int
) -> Iterator[dict[str, object]]:
    """Yield the figures of each split, number of labels and way; numbers that leave under 100 to test are left out."""
    observations = observations.with_agreement()
    usable = np.flatnonzero(observations.labelled & observations.answered)
    counts = [n for n in labels if n + 100 <= len(usable)]
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(usable)
        tested = observations.select(np.sort(order[counts[-1] :][:apart]))
        for n in counts:
            labelled = observations.select(np.sort(order[:n]))
            for way in ways:
                answers = way_of(way)(labelled)(tested)
                right, said = answers.is_right(tested), np.nan_to_num(answers.confidence)
                occurred = np.clip(answers.state_probability(tested), 1e-6, 1)
                yield {
                    "split": split,
                    "labels": n,
                    "way": way,
                    "accuracy": right.mean(),
                    "claimed": said.mean(),
                    "benefit": right.mean() - np.mean((said - right) ** 2),
                    "log": -np.log(occurred).mean(),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--ways", nargs="+", default=["direag", "majority", "majority_platt", "conditional_logit"])
    parser.add_argument("--labels", type=int, nargs="+", default=[10, 30, 100, 300])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--apart", type=int, default=500, help="most questions that are tested")
    parser.add_argument("--by-file", action="store_true", help="a row a file instead of the mean over files")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = pd.read_csv(given.csv) if given.csv.exists() else pd.DataFrame({"file": []})
    for path in given.files:
        if path.stem not in set(rows["file"]):
            figures = measured(Observations.read(path), given.ways, given.labels, given.splits, given.apart)
            rows = pd.concat([rows, pd.DataFrame(figures).assign(file=path.stem)], ignore_index=True)
            rows.to_csv(given.csv, index=False)
    figures = ["accuracy", "claimed", "benefit", "log"]
    by_file = rows.groupby(["labels", "way", "file"], sort=False)[figures].mean().reset_index()
    if given.by_file:
        print(
            by_file.pivot_table(index=["labels", "file"], columns="way", values=figures).to_string(float_format=_SHORT)
        )
        return
    first = by_file[by_file["way"] == rows["way"].iloc[0]].set_index(["labels", "file"])["benefit"]
    by_file["gain"] = (
        by_file["benefit"] - first.reindex(pd.MultiIndex.from_frame(by_file[["labels", "file"]])).to_numpy()
    )
    over_files = by_file.groupby(["labels", "way"], sort=False)
    table = over_files[[*figures, "gain"]].mean().assign(error=over_files["gain"].sem(), files=over_files.size())
    print(table.to_string(float_format=_SHORT))


if __name__ == "__main__":
    main()
