"""What asking question by question saves: benefit by the share of calls, replayed where all reports are known.

    python -m tests.benchmarks.policy_replay FILES --labels 100 --splits 3 --out replays.csv

A split makes policies at several budgets from a partial fit to its labelled questions, and tries them on up to 800
others. Every rule's one parameter is swept, and its curve interpolated, from nothing asked on:

- ``gain``: the policies, each with its own final calibration of questions on which asking stops; below the smallest
  budget, that one's policy at higher prices, down to one report a question;
- ``fixed``: the levels that were best on the labelled questions, one more each time, asked in every question;
- ``threshold``: these levels in this order, until the probability of the answer is above a threshold, calibrated once
  more where it stops, as a policy's is.

``advised`` is the way that the policy of budget .3 says to ask. A file and split is written as soon as it is measured,
and not measured again.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bayes_direag import Fit, Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.decisions.replay import Replay
from bayes_direag.fits.fitting import fit_map
from bayes_direag.inference.recalibration import Outcomes, recalibrate

RULES = ("gain", "fixed", "threshold")
BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
SHARES = (0.1, 0.2, 0.3, 0.5)
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 1.0)
#: Reports a question that the smallest budget is for; with less than one, some questions would not be answered.
FEWEST = 1.05
#: What a report costs along the curve below the smallest budget, in the unit of benefit.
FACTORS = np.geomspace(1e-6, 0.2, 14)
MOST_TRIED, LOSS = 800, 0.01


def measured(observations: Observations, n_labels: int, split: int) -> dict[str, float]:
    """Return the figures of a split."""
    usable = np.flatnonzero(observations.labelled & observations.answered)
    order = np.random.default_rng(split).permutation(usable)
    fit = fit_map(observations.select(order[:n_labels]), partial=True)
    new = observations.select(order[n_labels:][:MOST_TRIED]).align(fit.level_names)
    row: dict[str, float] = {"tried": len(new)}
    policies, curve = [], []
    for budget in sorted({max(each, FEWEST / new.n_levels) for each in BUDGETS}):
        policy = fit.policy(budget=budget)
        rows = policy.replay(new)
        by_way, own, expected = rows[:3].set_index("asked"), rows.iloc[0], policy.forecast.iloc[0]
        if not curve:
            dearer = (replace(policy, factor=float(factor)).replay(new).iloc[0] for factor in FACTORS)
            curve = [(each["share"], each["benefit"]) for each in dearer if each["share"] < own["share"]]
        if budget == max(0.3, FEWEST / new.n_levels):
            row["advised"] = by_way.loc[policy.advice(), "difference"]
        curve.append((own["share"], own["benefit"]))
        off = {name: own[name] - expected[name] for name in ("share", "accuracy")}
        policies.append({"calls": abs(off["share"]), "accuracy": abs(off["accuracy"]), "bias": -off["accuracy"]})
        policies[-1]["stopped"] = own["probability"] - own["accuracy"]
    every = float(by_way.loc["all", "benefit"])
    found = {"gain": curve, **fixed_and_threshold(fit, new)}
    for rule, points in found.items():
        share, benefit = np.array(sorted([(0.0, 0.0), *points])).T
        row |= {f"{rule} {at:g}": np.interp(at, share, benefit) - every for at in SHARES}
        fine = np.linspace(0, 1, 201)
        row[f"{rule} calls"] = fine[np.interp(fine, share, benefit) >= every - LOSS].min(initial=np.inf)
    return row | {"all": every} | {f"forecast {name}": value for name, value in pd.DataFrame(policies).mean().items()}


def fixed_and_threshold(fit: Fit, new: Observations) -> dict[str, list[tuple[float, float]]]:
    """Return the shares of calls and benefits of fixed levels, and of stopping above a threshold."""
    labelled, price = fit._replay, np.ones(len(fit.level_names))
    asking = Asking.of(fit.fitted, fit.predictor.parameters, fit.recalibration, fit.preset.eps)
    tried = Replay(new, fit.reports(new), np.zeros(len(new), int), [asking], price)
    steps = [numbers for _, numbers in labelled.by_number(np.inf, np.ones(len(labelled.questions), bool))]
    n_all, fixed, threshold = tried.usable.sum(), [], []
    for numbers in steps:
        asked = tried.fixed(numbers)
        fixed.append((asked.sum() / n_all, tried.answers(asked)["benefit"].mean()))
    prefixes = [[each.answers(each.fixed(numbers)) for numbers in steps] for each in (labelled, tried)]
    for above in THRESHOLDS:
        on, stopped = (stopped_above(answers, above) for answers in prefixes)
        weight = (on["reports"] > 0).to_numpy(float)[None]
        given = on["support"].to_numpy()[None], on["accuracy"].to_numpy(bool)[None], weight, on["reports"].to_numpy()
        (final,) = recalibrate(Outcomes(*given), fit.preset.recalibration)
        stated = final.of_selected(stopped["support"].to_numpy()[None], stopped["reports"].to_numpy())[0]
        right, stated = stopped["accuracy"], np.where(stopped["reports"] > 0, stated, 0.0)
        threshold.append((stopped["reports"].sum() / n_all, (right - (stated - right) ** 2).mean()))
    return {"fixed": fixed, "threshold": threshold}


def stopped_above(prefixes: list[pd.DataFrame], above: float) -> pd.DataFrame:
    """Return the answers where the probability is first above a limit, or after the last report."""
    over = np.array([answers["probability"] > above for answers in prefixes])
    over[-1] = True
    tables = np.stack([answers.to_numpy() for answers in prefixes])
    return pd.DataFrame(tables[over.argmax(axis=0), np.arange(over.shape[1])], columns=prefixes[0].columns)


def shown(rows: pd.DataFrame) -> str:
    """Return the tables: by file, and means of the differences and medians of the calls over files."""
    files = rows.drop(columns="split").groupby("file").mean()
    table = []
    for rule in RULES:
        line = {"rule": rule} | {f"{at:.0%}": files[f"{rule} {at:g}"].mean() for at in SHARES}
        table.append(
            line | {"median": files[f"{rule} calls"].median(), "never": (~np.isfinite(files[f"{rule} calls"])).sum()}
        )
    by_file = files[["tried", "all", "gain 0.3", "fixed 0.3", "advised", *(f"{rule} calls" for rule in RULES)]]
    means = (
        files[["all", "advised", *(name for name in files if name.startswith("forecast"))]].mean().to_frame("mean").T
    )
    parts = [by_file, pd.DataFrame(table).set_index("rule"), means]
    return "\n\n".join(str(part.to_string(float_format="{:.3f}".format)) for part in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = pd.read_csv(given.out) if given.out.exists() else pd.DataFrame({"file": [], "split": []})
    for split in range(given.splits):
        for path in given.files:
            if not ((rows["file"] == path.stem) & (rows["split"] == split)).any():
                row = measured(Observations.read(path), given.labels, split)
                rows = pd.concat([rows, pd.DataFrame([{"file": path.stem, "split": split, **row}])], ignore_index=True)
                rows.to_csv(given.out, index=False)
    print(f"Mean of {rows['file'].nunique()} files, {given.labels} labels\n{shown(rows)}")


if __name__ == "__main__":
    main()
