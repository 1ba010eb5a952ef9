"""How often the test of changed reports raises a false alarm, and finds and names a replaced level: random splits.

``python tests/benchmarks/drift_power.py --splits 60 --sizes 100/100,100/300,300/300 FILE ...``

One level, drawn at random, is taken out of the labelled questions. In the new ones its reports stand under the name of
another, as if that model had been replaced. The level is named if it is the most different one of a true alarm.

``--policies`` measures instead how often reports that a policy asked for raise the alarm, by their share of all.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.decisions.drift import Drift
from bayes_direag.decisions.replay import Replay
from bayes_direag.fits.fitting import fit_map


def of_columns(questions: Observations, columns: list[int]) -> Observations:
    """Return the reports of these columns under the names of the first ones, without groups."""
    return replace(
        questions,
        level_names=questions.level_names[: len(columns)],
        groups=None,
        candidate=questions.candidate[:, columns],
        signals={name: values[:, columns] for name, values in questions.signals.items()},
        status=questions.status[:, columns],
    )


def tested(questions: Observations, n_labelled: int, n_new: int, seed: int) -> dict[str, object]:
    """Test a split as it is and with a replaced level."""
    rng = np.random.default_rng([seed, 1])  # apart from that of the random divisions
    order = rng.permutation(len(questions))
    labelled, new = questions.select(order[:n_labelled]), questions.select(order[n_labelled : n_labelled + n_new])
    columns = rng.permutation(questions.n_levels).tolist()
    place = int(rng.integers(len(columns) - 1))
    *before, other = columns
    after = [*before[:place], other, *before[place + 1 :]]
    alike = Drift.between(labelled, new, seed=seed)
    changed = Drift.between(of_columns(labelled, before), of_columns(new, after), seed=seed)
    is_first = changed.levels["level"].iloc[0] == questions.level_names[place]
    return {"false alarm": alike.differs, "found": changed.differs, "named": is_first if changed.differs else np.nan}


def of_policies(questions: Observations, n_labelled: int, n_new: int, seed: int) -> pd.DataFrame:
    """Test the reports that policies at several prices ask for: their share of all, and whether there is an alarm."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(questions.labelled))
    fit = fit_map(questions.select(order[:n_labelled]), partial=True)
    new = questions.select(order[n_labelled : n_labelled + n_new]).align(fit.level_names)
    asking = Asking.of(fit.fitted, fit.predictor.parameters, fit.recalibration, fit.preset.eps)
    price, rows = np.ones(len(fit.level_names)), []
    replay = Replay(new, fit.reports(new), np.zeros(len(new), int), [asking], price)
    for factor in np.geomspace(1e-7, 1e-2, 11).tolist():
        asked = new.without(new.usable & ~replay.asked(factor))
        alarm = Drift.between(fit.fitted, asked, seed=seed).differs
        rows.append({"share": asked.usable.sum() / new.usable.sum(), "alarm": alarm})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="observation files")
    parser.add_argument("--splits", type=int, default=60)
    parser.add_argument("--sizes", default="100/100", help="numbers of labelled and new questions")
    parser.add_argument("--policies", action="store_true", help="the alarms of reports that a policy asked for")
    options = parser.parse_args()
    for size in options.sizes.split(","):
        n_labelled, n_new = map(int, size.split("/"))
        rows = []
        for path in options.files:
            questions = Observations.read(path)
            questions = questions.select(questions.answered)
            if options.policies:
                rows += [of_policies(questions, n_labelled, n_new, seed) for seed in range(options.splits)]
                continue
            found = pd.DataFrame([tested(questions, n_labelled, n_new, seed) for seed in range(options.splits)])
            rows.append({"file": path.stem, **found.astype(float).mean()})
        if options.policies:
            found = pd.concat(rows)
            shares = pd.cut(found["share"], [0, 0.75, 0.85, 0.9, 0.95, 0.98, 1])
            print(found.groupby(shares, observed=True)["alarm"].agg(["mean", "count"]).round(2), flush=True)
            continue
        table = pd.DataFrame(rows)
        table.loc[len(table)] = {"file": "mean", **table.drop(columns="file").mean()}
        print(f"{size} questions, {options.splits} splits\n{table.round(3).to_string(index=False)}\n", flush=True)


if __name__ == "__main__":
    main()
