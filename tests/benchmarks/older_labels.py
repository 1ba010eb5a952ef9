"""What the labels of another set of questions add to few new ones: gain in benefit over the new labels alone.

    python -m tests.benchmarks.older_labels ../shared/data/observations/*.jsonl --csv older.csv

Files with the same levels and kind of answers are taken in turn: the one before in the list is the older set of each.
Up to 300 questions of it are older labels. The new file is split at random into 100 labels and up to 500 tested
questions, and the rest counts as unlabelled. ``alone`` is the fit to the new labels, ``as it is`` the older fit, and
numbers are what the older questions count together, each at most 1.
"""

import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import PRESETS, Fit, Observations
from bayes_direag.fits.making import fit_map, fits_by
from bayes_direag.model.settings import FitSettings
from tests.benchmarks.common import benefit, kept_rows, parser, shuffled, stated

LABELS, OLDER, TESTED = (10, 30, 100), 300, 500
COUNTS = (30.0, 100.0, float(OLDER))
SETTINGS = FitSettings(PRESETS["bayes"])


def measured(new: Observations, older: Observations, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield the benefit of each split, number of labels, and way to use the older ones."""
    before = older.select(np.sort(shuffled(older, 0)[:OLDER]))
    untouched = fit_map(before, unlabelled=older)
    for split in range(n_splits):
        order = shuffled(new, split)
        tested = new.select(order[LABELS[-1] :][:TESTED])
        chosen = np.arange(LABELS[-1]) < np.array(LABELS)[:, None]
        ways: dict[str, list[Fit]] = {"as it is": [untouched] * len(LABELS)}
        pool = new.with_agreement().select(order[: LABELS[-1]])
        ways["alone"] = fits_by(SETTINGS, pool, chosen)
        frame = pd.concat([pool.to_frame(), before.to_frame()])
        both = Observations.from_frame(frame, answers=new.kind).with_agreement(new, older)
        kept = np.pad(chosen, ((0, 0), (0, len(before))), constant_values=True)
        for counts in COUNTS:
            weight = np.repeat([1.0, min(1.0, counts / len(before))], [len(pool), len(before)])
            ways[f"{counts:g}"] = fits_by(SETTINGS, both.weighted(weight), kept)
        for way, fits in ways.items():
            for n, fit in zip(LABELS, fits, strict=True):
                yield {"split": split, "labels": n, "older": way, "benefit": benefit(*stated(fit, tested))}


def pairs(paths: list[Path]) -> Iterator[tuple[Path, Observations, Observations]]:
    """Yield each file and another one that has the same levels and no question in common."""
    read = {path: Observations.read(path) for path in paths}
    levels = {path: [questions.kind, *sorted(questions.level_names)] for path, questions in read.items()}
    for _, alike in groupby(sorted(paths, key=levels.__getitem__), key=levels.__getitem__):
        files = list(alike)
        for place, path in enumerate(files):
            new, older = read[path], read[files[place - 1]]
            if not set(new.problem_id) & set(older.problem_id):
                yield path, new, older


def main() -> None:
    arguments = parser(__doc__, splits=2)
    arguments.add_argument("--csv", type=Path, required=True)
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    found = {path: sets for path, *sets in pairs(given.files)}
    rows = kept_rows(given.csv, found, lambda path: measured(*found[path], given.splits))
    by_file = rows.pivot_table(index=["labels", "file"], columns="older", values="benefit")
    gain = by_file.sub(by_file.pop("alone"), axis=0).groupby("labels")
    table = pd.concat({"mean": gain.mean(), "error": gain.sem(), "worst": gain.min()}, axis=1).swaplevel(axis=1)
    print(f"{rows['file'].nunique()} pairs, {given.splits} splits: gain in benefit over the new labels alone")
    print(table.sort_index(axis=1).to_string(float_format="{:+.4f}".format))


if __name__ == "__main__":
    main()
