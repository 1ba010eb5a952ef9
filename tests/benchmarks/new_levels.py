"""What levels without labels bring: half of a panel, or its best level, joins a fit to the others by agreement.

    python -m tests.benchmarks.new_levels FILES --labels 30 100 --splits 3 --csv new_levels.csv

The labelled questions lack the new levels, up to 800 others have all. ``old``: the old levels alone; ``joined``: the
new ones joined without a label; ``average``: the same, as levels of mean agreement; ``all``: labels for all levels;
``alone``: only the new levels are left, joined without a label; ``alone, labelled``: a fit of the new levels with
labels. ``bias`` is the mean probability less the share of right answers, ``off`` its absolute value by file.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayes_direag import Fit, Observations, fit_map
from tests.benchmarks.common import benefit, kept_rows, parser, shuffled, stated

MOST = 800


def of_levels(observations: Observations, names: Collection[str]) -> Observations:
    """Return the questions with the reports of some levels alone."""
    kept = [
        question.model_copy(
            update={"observations": tuple(one for one in question.observations if one.level_name in names)}
        )
        for question in observations.questions
    ]
    return Observations.from_questions([question for question in kept if question.observations], observations.kind)


def as_average(joined: Fit, n_new: int) -> Fit:
    """Return the fit with new levels of mean agreement."""
    tree = joined.tree.copy()
    data = tree["constant_data"].to_dataset()
    score = np.append(data["agreement_score"].to_numpy()[:-n_new], np.zeros(n_new))
    tree["constant_data"] = data.assign(agreement_score=("level", score))
    return replace(joined, tree=tree)


def measured(path: Path, sizes: list[int], n_splits: int) -> Iterator[dict[str, object]]:
    """Yield a row for each split, number of labels, choice of new levels, and way."""
    observations = Observations.read(path)
    names = np.array(observations.level_names)
    best = names[observations.correct.sum(axis=0).argmax()]
    for split in range(n_splits):
        order, rng = shuffled(observations, split), np.random.default_rng(split)
        for choice, new in (("half", {*rng.permutation(names)[: len(names) // 2]}), ("best", {best})):
            old = {*names} - new
            for n in sizes:
                labelled, tested = (observations.select(np.sort(rows)) for rows in (order[:n], order[n : n + MOST]))
                fit = fit_map(of_levels(labelled, old))
                joined = fit.with_levels(tested)
                ways = {
                    "old": (fit, of_levels(tested, old)),
                    "joined": (joined, tested),
                    "average": (as_average(joined, len(new)), tested),
                    "all": (fit_map(labelled), tested),
                }
                if choice == "half":
                    left = of_levels(tested, new)
                    ways |= {"alone": (joined, left), "alone, labelled": (fit_map(of_levels(labelled, new)), left)}
                for way, (own, questions) in ways.items():
                    right, said = stated(own, questions)
                    figures = {"benefit": benefit(right, said), "bias": said.mean() - right.mean()}
                    yield {"new": choice, "labels": n, "way": way, **figures}


def main() -> None:
    arguments = parser(__doc__, splits=3)
    arguments.add_argument("--labels", type=int, nargs="+", default=[30, 100])
    arguments.add_argument("--csv", type=Path, required=True)
    given = arguments.parse_args()
    rows = kept_rows(given.csv, given.files, lambda path: measured(path, given.labels, given.splits))
    means = rows.groupby(["new", "labels", "way", "file"], as_index=False).mean()
    means["off"] = means["bias"].abs()
    print(f"Mean of {means['file'].nunique()} files")
    table = means.pivot_table(index=["new", "labels"], columns="way", values=["benefit", "bias", "off"])
    print(table.to_string(float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
