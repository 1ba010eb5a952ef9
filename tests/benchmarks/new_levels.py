"""What levels without labels bring: half of a panel, or its best level, joins a fit to the others by agreement.

    python -m tests.benchmarks.new_levels FILES --labels 30 100 300 --splits 3 --csv new_levels.csv

The labelled questions lack the new levels, up to 800 others have all. ``old``: the old levels alone; ``joined``: the
new ones joined without a label; ``average``: the same, as levels of mean agreement; ``all``: labels for all levels;
``alone``: only the new levels are left, joined without a label; ``alone, labelled`` and ``alone, vote``: a fit of the
new levels with labels, and their vote under Platt scaling. ``bias`` is the mean probability less the share of right
answers, ``off`` its absolute value by file. Numbers of labels that leave under 100 questions to test are left out.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.registry import SIMPLE_METHODS
from bayes_direag import Fit, Observations, fit_map
from tests.benchmarks.common import benefit, kept_rows, parser, shuffled, stated

MOST, LEAST = 800, 100
VOTE = SIMPLE_METHODS["majority_platt"]


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


def figures(right: np.ndarray, said: np.ndarray) -> dict[str, float]:
    """Return the benefit, and by how much the probabilities are too high in mean."""
    return {"benefit": benefit(right, said), "bias": said.mean() - right.mean()}


def ways_without_old(
    joined: Fit, labelled: Observations, tested: Observations
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the figures of each way to answer from the new levels alone."""
    yield "alone", figures(*stated(joined, tested))
    yield "alone, labelled", figures(*stated(fit_map(labelled), tested))
    votes = VOTE.answer(VOTE.learn(labelled, 0), tested)
    yield "alone, vote", figures(votes.is_right(tested), np.nan_to_num(votes.confidence))


def measured(path: Path, sizes: list[int], n_splits: int) -> Iterator[dict[str, object]]:
    """Yield a row for each split, number of labels, choice of new levels, and way."""
    observations = Observations.read(path)
    names = np.array(observations.level_names)
    best = names[observations.correct.sum(axis=0).argmax()]
    for split in range(n_splits):
        order, rng = shuffled(observations, split), np.random.default_rng(split)
        choices = {"half": {*rng.permutation(names)[: len(names) // 2]}, "best": {best}}
        for n in (n for n in sizes if n + LEAST <= len(order)):
            labelled, tested = (observations.select(np.sort(rows)) for rows in (order[:n], order[n : n + MOST]))
            with_labels = figures(*stated(fit_map(labelled), tested))
            for choice, new in choices.items():
                fit = fit_map(of_levels(labelled, {*names} - new))
                joined = fit.with_levels(tested)
                ways = {
                    "old": figures(*stated(fit, of_levels(tested, {*names} - new))),
                    "joined": figures(*stated(joined, tested)),
                    "average": figures(*stated(as_average(joined, len(new)), tested)),
                    "all": with_labels,
                }
                if choice == "half":
                    ways |= dict(ways_without_old(joined, of_levels(labelled, new), of_levels(tested, new)))
                for way, of_way in ways.items():
                    yield {"new": choice, "labels": n, "way": way, **of_way}


def main() -> None:
    arguments = parser(__doc__, splits=3)
    arguments.add_argument("--labels", type=int, nargs="+", default=[30, 100, 300])
    arguments.add_argument("--csv", type=Path, required=True)
    options = arguments.parse_args()
    rows = kept_rows(options.csv, options.files, lambda path: measured(path, options.labels, options.splits))
    means = rows.groupby(["new", "labels", "way", "file"], as_index=False).mean()
    means["off"] = means["bias"].abs()
    print(f"Mean of {means['file'].nunique()} files")
    table = means.pivot_table(index=["new", "labels"], columns="way", values=["benefit", "bias", "off"])
    print(table.to_string(float_format="{:.3f}".format))
    by_file = means.pivot_table("benefit", ["new", "labels", "file"], "way")
    gains = by_file[["joined", "average", "all"]].sub(by_file["old"], axis=0).groupby(["new", "labels"])
    print("Gain over the old levels alone: mean, standard error, least and most by file; number of files")
    summary = {"mean": gains.mean(), "error": gains.sem(), "least": gains.min(), "most": gains.max()}
    print(pd.concat(summary, axis=1).to_string(float_format="{:.3f}".format), f"{gains.size().to_dict()}")


if __name__ == "__main__":
    main()
