"""What settings gain at each number of labels: the benefit of MAP fits over random splits of files, paired by split.

    python -m tests.benchmarks.settings_by_labels FILES --csv usual.csv
    python -m tests.benchmarks.settings_by_labels FILES --csv other.csv --preset my_models:without_votes
    python -m tests.benchmarks.settings_by_labels --against usual.csv --csv other.csv

A split learns from its first labels and is tested on up to 500 questions beyond its 300 first; a file that holds fewer
than 400 usable questions stops at 100 labels. The rest of the file counts as unlabelled questions. Each file is written
as soon as it is measured, and not measured again. The third form compares: by file, and over files with their standard
error. Another checkout is measured by running this file with its packages (PYTHONPATH).
"""

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Observations, Preset, preset
from bayes_direag.fits.fitting import fit_map_batch

LABELS, FEWEST_TESTED, MOST_TESTED = (10, 30, 100, 300), 100, 500


def measured(observations: Observations, settings: Preset, n_splits: int) -> Iterator[dict[str, float]]:
    """Yield the benefit of each split and number of labels."""
    observations = observations.with_agreement()
    usable = np.flatnonzero(observations.labelled & observations.answered)
    counts = [n for n in LABELS if n + FEWEST_TESTED <= len(usable)]
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(usable)
        pool, tested = (observations.select(rows) for rows in (order[: counts[-1]], order[counts[-1] :][:MOST_TESTED]))
        chosen = np.arange(counts[-1]) < np.array(counts)[:, None]
        for n, fit in zip(counts, fit_map_batch(pool, chosen, preset=settings), strict=True):
            table = fit.predict(tested)
            right, said = tested.is_right(table["answer"]), table["probability"].to_numpy()
            yield {"split": split, "labels": n, "benefit": right.mean() - np.mean((said - right) ** 2)}


def compared(usual: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the gain of each file at each number of labels, and last their mean with its standard error."""
    by = ["file", "labels", "split"]
    gain = (other.set_index(by)["benefit"] - usual.set_index(by)["benefit"]).dropna()
    table = gain.groupby(by[:2]).mean().reset_index().pivot_table(index="file", columns="labels", values="benefit")
    mean, error = table.mean(), table.sem()
    return pd.concat([table, pd.DataFrame({"mean": mean, "error": error, "worst": table.min()}).T])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--preset", default="bayes", help="a preset, or MODULE:FUNCTION of a model of your own")
    parser.add_argument("--splits", type=int, default=4)
    given = parser.parse_args()
    module, _, function = given.preset.partition(":")
    settings = preset(getattr(importlib.import_module(module), function) if function else given.preset)
    rows = pd.read_csv(given.csv) if given.csv.exists() else pd.DataFrame({"file": []})
    for path in given.files:
        if path.stem not in set(rows["file"]):
            new = pd.DataFrame(measured(Observations.read(path), settings, given.splits)).assign(file=path.stem)
            rows = pd.concat([rows, new], ignore_index=True)
            rows.to_csv(given.csv, index=False)
    if given.against:
        print(compared(pd.read_csv(given.against), rows).to_string(float_format="{:+.4f}".format))


if __name__ == "__main__":
    main()
