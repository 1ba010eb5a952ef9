"""What asking question by question saves: benefit by the share of calls, replayed where all reports are known.

    python -m tests.benchmarks.policy_replay FILES --labels 100 --splits 3 --csv replays.csv

A split makes policies at several budgets from a fit to its labelled questions, and tries them on up to 800
others. Every rule's one parameter is swept, and its curve interpolated, from nothing asked on:

- ``gain``: the policies, each with its own final calibration of questions on which asking stops; below the smallest
  budget, that one's policy at higher prices, down to one report a question;
- ``fixed``: the levels that were best on the labelled questions, one more each time, asked in every question;
- ``threshold``: these levels in this order, until the probability of the answer is above a threshold, calibrated once
  more where it stops, as a policy's is.

``advised`` is the way that the policy of budget .3 says to ask, and ``forecast`` how far forecasts of policies are off.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Fit, Observations
from bayes_direag.decisions.policy import Asking, Replay, policy
from bayes_direag.fits.making import fit_map
from bayes_direag.inference.recalibration import Outcomes, recalibrate
from tests.benchmarks.common import kept_rows, parser, shuffled

BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
SHARES = (0.1, 0.2, 0.3, 0.5)
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 1.0)
#: Reports a question that the smallest budget is for; with less than one, some questions would not be answered.
FEWEST = 1.05
#: What a report costs along the curve below the smallest budget, in the unit of benefit.
FACTORS = np.geomspace(1e-6, 0.2, 14)
MOST_TRIED, LOSS = 800, 0.01


def measured(path: Path, n_labels: int, n_splits: int) -> Iterator[dict[str, object]]:
    """Yield the figures of each split."""
    observations = Observations.read(path)
    for split in range(n_splits):
        order = shuffled(observations, split)
        fit = fit_map(observations.select(order[:n_labels]))
        new = observations.select(order[n_labels:][:MOST_TRIED]).align(fit.level_names)
        found = {"gain": [], **fixed_and_threshold(fit, new)}
        row: dict[str, object] = {"split": split, "tried": len(new)}
        forecasts = []
        for budget in sorted({max(each, FEWEST / new.n_levels) for each in BUDGETS}):
            made = policy(fit, budget=budget)
            ways = made.replay(new)
            by_way, own, expected = ways[:3].set_index("asked"), ways.iloc[0], made.forecast.iloc[0]
            if not found["gain"]:
                dearer = (replace(made, factor=float(factor)).replay(new).iloc[0] for factor in FACTORS)
                found["gain"] = [(each["share"], each["benefit"]) for each in dearer if each["share"] < own["share"]]
            if budget == max(0.3, FEWEST / new.n_levels):
                row["advised"] = by_way.loc[made.advice(), "difference"]
            found["gain"].append((own["share"], own["benefit"]))
            off = own[["share", "accuracy"]] - expected[["share", "accuracy"]]
            forecasts.append([*off.abs(), own["probability"] - own["accuracy"]])
        every = float(by_way.loc["all", "benefit"])
        for rule, points in found.items():
            share, benefit = np.array(sorted([(0.0, 0.0), *points])).T
            row |= {f"{rule} {at:g}": np.interp(at, share, benefit) - every for at in SHARES}
            fine = np.linspace(0, 1, 201)
            row[f"{rule} needs"] = fine[np.interp(fine, share, benefit) >= every - LOSS].min(initial=np.inf)
        names = ("forecast of calls", "forecast of accuracy", "claimed too much")
        yield row | {"all": every, **dict(zip(names, np.mean(forecasts, axis=0), strict=True))}


def fixed_and_threshold(fit: Fit, new: Observations) -> dict[str, list[tuple[float, float]]]:
    """Return the shares of calls and benefits of fixed levels, and of stopping above a threshold."""
    price = np.ones(len(fit.level_names))
    labelled = Replay.of(fit, price)
    tried = Replay(new, fit.evaluation(new).data, np.zeros(len(new), int), [Asking.of(fit)], price)
    (by_number,) = labelled.by_number(np.inf, np.ones((1, len(labelled.questions)), bool))
    steps = [numbers for _, numbers in by_number]
    n_all, fixed, threshold = tried.questions.usable.sum(), [], []
    for numbers in steps:
        asked = tried.fixed(numbers)
        fixed.append((asked.sum() / n_all, tried.answers(asked).benefit.mean()))
    prefixes = [[each.answers(each.fixed(numbers)) for numbers in steps] for each in (labelled, tried)]
    for above in THRESHOLDS:
        on, stopped = (stopped_above(answers, above) for answers in prefixes)
        weight = (on["reports"] > 0).to_numpy(float)[None]
        given = on["probability"].to_numpy()[None], on["accuracy"].to_numpy(bool)[None], weight
        (final,) = recalibrate(Outcomes(*given), fit.preset.recalibration)
        stated = final.of_selected(stopped["probability"].to_numpy()[None])[0]
        right, stated = stopped["accuracy"], np.where(stopped["reports"] > 0, stated, 0.0)
        threshold.append((stopped["reports"].sum() / n_all, (right - (stated - right) ** 2).mean()))
    return {"fixed": fixed, "threshold": threshold}


def stopped_above(prefixes: list[pd.DataFrame], above: float) -> pd.DataFrame:
    """Return the answers where the probability is first above a limit, or after the last report."""
    over = np.array([answers["probability"] > above for answers in prefixes])
    over[-1] = True
    tables = np.stack([answers.to_numpy() for answers in prefixes])
    return pd.DataFrame(tables[over.argmax(axis=0), np.arange(over.shape[1])], columns=prefixes[0].columns)


def main() -> None:
    arguments = parser(__doc__, splits=3)
    arguments.add_argument("--labels", type=int, default=100)
    arguments.add_argument("--csv", type=Path, required=True)
    given = arguments.parse_args()
    rows = kept_rows(given.csv, given.files, lambda path: measured(path, given.labels, given.splits))
    files = rows.drop(columns="split").groupby("file", sort=False).mean().T
    print(f"{given.labels} labels")
    print(files.assign(mean=files.mean(axis=1), median=files.median(axis=1)).to_string(float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
