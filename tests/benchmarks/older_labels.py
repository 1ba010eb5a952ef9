"""What the labels of another set of questions add to few new ones: gain in benefit over the new labels alone.

    python -m tests.benchmarks.older_labels ../shared/data/observations/*.jsonl --csv older.csv

Files with the same levels and kind of answers are taken in turn: the one before in the list is the older set of each.
Up to 300 questions of it are older labels. The new file is split at random into 100 labels and up to 500 tested
questions, and the rest counts as unlabelled. ``alone`` is the fit to the new labels, ``as it is`` the older fit, and
numbers are what the older questions count together, each at most 1. Each pair is written as soon as it is measured, and
not measured again.
"""

import argparse
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Fit, Observations
from bayes_direag.fits.fitting import fit_map, fit_map_batch

LABELS, OLDER, TESTED = (10, 30, 100), 300, 500
COUNTS = (30.0, 100.0, float(OLDER))


def measured(new: Observations, older: Observations, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield the benefit of each split, number of labels, and way to use the older ones."""
    usable = np.flatnonzero(older.labelled & older.answered)
    before = older.select(np.sort(np.random.default_rng(0).permutation(usable)[:OLDER]))
    untouched = fit_map(before, unlabelled=older)
    usable = np.flatnonzero(new.labelled & new.answered)
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(usable)
        tested = new.select(order[LABELS[-1] :][:TESTED])
        chosen = np.arange(LABELS[-1]) < np.array(LABELS)[:, None]
        ways: dict[str, list[Fit]] = {"as it is": [untouched] * len(LABELS)}
        pool = new.with_agreement().select(order[: LABELS[-1]])
        ways["alone"] = fit_map_batch(pool, chosen)
        frame = pd.concat([pool.to_frame(), before.to_frame()])
        both = Observations.from_frame(frame, answers=new.kind).with_agreement(new, older)
        kept = np.pad(chosen, ((0, 0), (0, len(before))), constant_values=True)
        for counts in COUNTS:
            weight = np.repeat([1.0, min(1.0, counts / len(before))], [len(pool), len(before)])
            ways[f"{counts:g}"] = fit_map_batch(both.weighted(weight), kept)
        for way, fits in ways.items():
            for n, fit in zip(LABELS, fits, strict=True):
                table = fit.predict(tested, warn=False)
                right, said = tested.is_right(table["answer"]), table["probability"].to_numpy()
                benefit = right.mean() - np.mean((said - right) ** 2)
                yield {"split": split, "labels": n, "older": way, "benefit": benefit}


def pairs(paths: list[Path]) -> Iterator[tuple[Path, Observations, Path, Observations]]:
    """Yield each file with another one that has the same levels and no question in common."""
    read = [(path, Observations.read(path)) for path in paths]
    levels = [[observations.kind, *sorted(observations.level_names)] for _, observations in read]
    order = sorted(range(len(read)), key=lambda number: (levels[number], number))
    for _, alike in groupby(order, key=lambda number: levels[number]):
        files = [read[number] for number in alike]
        for place, (path, new) in enumerate(files):
            before, older = files[place - 1]
            if not set(new.problem_id) & set(older.problem_id):
                yield path, new, before, older


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = pd.read_csv(given.csv) if given.csv.exists() else pd.DataFrame({"file": []})
    for path, new, before, older in pairs(given.files):
        if path.stem not in set(rows["file"]):
            added = pd.DataFrame(measured(new, older, given.splits)).assign(file=path.stem, before=before.stem)
            rows = pd.concat([rows, added], ignore_index=True)
            rows.to_csv(given.csv, index=False)
    benefit = rows.pivot_table(index=["labels", "file"], columns="older", values="benefit")
    gain = benefit.sub(benefit.pop("alone"), axis=0).groupby("labels")
    table = pd.concat({"mean": gain.mean(), "error": gain.sem(), "worst": gain.min()}, axis=1).swaplevel(axis=1)
    print(f"{rows['file'].nunique()} pairs, {given.splits} splits: gain in benefit over the new labels alone")
    print(table.sort_index(axis=1).to_string(float_format="{:+.4f}".format))


if __name__ == "__main__":
    main()
