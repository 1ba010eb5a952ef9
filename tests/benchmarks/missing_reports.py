"""What ordinary and partial fits say of questions that lack reports: benefit, and how far probabilities are off.

python -m tests.benchmarks.missing_reports FILES --n 100 --draws 3 --csv missing.csv --picture missing.png

Fits to questions with all reports are tested on up to 800 others, of which a random choice of reports is kept.
``bias`` is the mean probability less the share of right answers, in mean over draws; ``off`` the mean over files of the
absolute value of that. A file is written as soon as it is measured, and not measured again.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, headed_figure, save_figure
from bayes_direag import Observations
from bayes_direag.fits.fitting import fit_map_batch

MOST = 800
KEPT = (1, 2, 3, 4, 6, 8)
FORMAT = "{:.3f}".format


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
                right, said = questions.is_right(table["answer"]), table["probability"].fillna(0.0).to_numpy()
                benefit = right.mean() - np.mean((said - right) ** 2)
                rows.append({"fit": how, "reports": n_kept, "benefit": benefit, "bias": said.mean() - right.mean()})
    return pd.DataFrame(rows)


def picture(table: pd.DataFrame, n: int) -> Figure:
    """Draw the bias by the number of reports: a thin line a file, a thick one the mean over files."""
    n_files, how_many = table["file"].nunique(), [*KEPT, 0]
    title = "With fewer reports an ordinary fit says too much"
    caption = (
        f"Mean probability less the share of right answers of {n_files} panels (thin) and their mean (thick), fitted "
        f"to {n} questions with all reports, and tried on up to {MOST} others of which this many reports are kept."
    )
    with figure_style():
        figure = headed_figure(title, caption, 3.6)
        axes = figure.subplots()
        axes.axhline(0, color=REFERENCE, linewidth=1)
        for how, colour, marker in (("ordinary", WRONG, "o"), ("partial", RIGHT, "s")):
            rows = table[table["fit"] == how].pivot_table(index="reports", columns="file", values="bias").loc[how_many]
            axes.plot(rows.to_numpy(), color=colour, linewidth=0.7, alpha=0.4)
            axes.plot(rows.mean(axis=1).to_numpy(), color=colour, marker=marker, label=f"{how} fit")
        axes.set_xticks(range(len(how_many)), [str(number or "all") for number in how_many])
        axes.set(xlabel="usable reports of a question", ylabel="mean probability - accuracy")
        axes.legend(loc="upper right")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--preset", default="bayes")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    table = pd.read_csv(given.csv) if given.csv.exists() else pd.DataFrame({"file": []})
    for path in given.files:
        if path.stem not in set(table["file"]):
            rows = measured(Observations.read(path), given.n, given.draws, given.preset)
            means = rows.groupby(["reports", "fit"], as_index=False)[["benefit", "bias"]].mean()
            table = pd.concat([table, means.assign(file=path.stem)], ignore_index=True)
            table.to_csv(given.csv, index=False)
    table["off"] = table["bias"].abs()
    print(table.pivot_table(index="file", columns=["fit", "reports"], values="bias").to_string(float_format=FORMAT))
    print(f"\nMean of {table['file'].nunique()} files, {given.n} labels (0: all reports)")
    means = table.pivot_table(index="reports", columns="fit", values=["benefit", "bias", "off"])
    print(means.to_string(float_format=FORMAT))
    if given.picture:
        save_figure(picture(table, given.n), given.picture)


if __name__ == "__main__":
    main()
