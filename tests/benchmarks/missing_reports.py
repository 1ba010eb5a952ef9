"""What ordinary and partial fits say of questions that lack reports: benefit, and how far probabilities are off.

    python -m tests.benchmarks.missing_reports FILES --splits 3 --csv missing.csv --picture missing.png

Fits to questions with all reports are tested on up to 800 others, of which a random choice of reports is kept.
``bias`` is the mean probability less the share of right answers, in mean over splits; ``off`` the mean over files of
the absolute value of that.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, headed_figure, save_figure
from bayes_direag import Observations, fit_map
from tests.benchmarks.common import benefit, kept_rows, parser, shuffled, stated

MOST, KEPT = 800, (1, 2, 3, 4, 6, 8)


def measured(path: Path, n: int, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield a row for each split, fit and number of kept reports (0: all)."""
    observations = Observations.read(path).with_agreement()
    for split in range(n_splits):
        order = shuffled(observations, split)
        labelled, tested = (observations.select(np.sort(rows)) for rows in (order[:n], order[n : n + MOST]))
        rank = np.random.default_rng(split).random(tested.shape)
        rank = np.where(tested.usable, rank, np.inf).argsort(axis=1).argsort(axis=1)
        kept = [n_kept for n_kept in KEPT if n_kept < tested.n_levels]
        shown = {n_kept: tested.without(rank >= n_kept) for n_kept in kept} | {0: tested}
        for how in ("ordinary", "partial"):
            fit = fit_map(labelled, partial=how == "partial")
            for n_kept, questions in shown.items():
                right, said = stated(fit, questions)
                bias = said.mean() - right.mean()
                yield {"fit": how, "reports": n_kept, "benefit": benefit(right, said), "bias": bias}


def picture(means: pd.DataFrame, n: int) -> Figure:
    """Draw the bias by the number of reports: a thin line a file, a thick one the mean over files."""
    n_files, how_many = means["file"].nunique(), [*KEPT, 0]
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
            lines = means[means["fit"] == how].pivot_table(index="reports", columns="file", values="bias").loc[how_many]
            axes.plot(lines.to_numpy(), color=colour, linewidth=0.7, alpha=0.4)
            axes.plot(lines.mean(axis=1).to_numpy(), color=colour, marker=marker, label=f"{how} fit")
        axes.set_xticks(range(len(how_many)), [str(number or "all") for number in how_many])
        axes.set(xlabel="usable reports of a question", ylabel="mean probability - accuracy")
        axes.legend(loc="upper right")
    return figure


def main() -> None:
    arguments = parser(__doc__, splits=3)
    arguments.add_argument("--labels", type=int, default=100)
    arguments.add_argument("--csv", type=Path, required=True)
    arguments.add_argument("--picture", type=Path)
    given = arguments.parse_args()
    rows = kept_rows(given.csv, given.files, lambda path: measured(path, given.labels, given.splits))
    means = rows.groupby(["reports", "fit", "file"], as_index=False).mean()
    means["off"] = means["bias"].abs()
    print(f"Mean of {means['file'].nunique()} files, {given.labels} labels (0: all reports)")
    table = means.pivot_table(index="reports", columns="fit", values=["benefit", "bias", "off"])
    print(table.to_string(float_format="{:.3f}".format))
    if given.picture:
        save_figure(picture(means, given.labels), given.picture)


if __name__ == "__main__":
    main()
