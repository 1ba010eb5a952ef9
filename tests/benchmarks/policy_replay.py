"""What asking question by question saves: benefit by the share of calls, replayed where all reports are known.

    python -m tests.benchmarks.policy_replay FILES --labels 100 --splits 3 --out replays.csv

A split makes policies at several budgets from a partial fit to its labelled questions, and tries them on up to 800
others. Every rule's one parameter is swept, and its curve interpolated, from nothing asked on:

- ``gain``: the policies, each with its own final calibration of questions on which asking stops; below the smallest
  budget, that one's policy at higher prices, down to one report a question;
- ``fixed``: the levels that were best on the labelled questions, one more each time, asked in every question;
- ``threshold``: these levels in this order, until the probability of the answer is above a threshold;
- ``consistency``: levels in the order of the file, until it is probable enough that the commonest answer stays the
  commonest (adaptive consistency; Aggarwal et al. 2023);
- ``ordinary``: the same gain, by a fit that has seen whole panels alone.

The probabilities of ``threshold`` and ``consistency`` are calibrated once more where they stop, as a policy's are.
A file and split is written as soon as it is measured, and not measured again.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.special import betainc

from bayes_direag import Fit, Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.decisions.replay import Part, Replay, benefits
from bayes_direag.fits.fitting import fit_map
from bayes_direag.inference.recalibration import Outcomes, recalibrate

RULES = ("gain", "fixed", "threshold", "consistency", "ordinary")
BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
SHARES = (0.1, 0.2, 0.3, 0.5)
THRESHOLDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 1.0)
FACTORS = np.geomspace(1e-5, 1, 26)
#: Reports a question that the smallest budget is for; with less than one, some questions would not be answered.
FEWEST = 1.05
MOST_TRIED, LOSS = 800, 0.01

Curve = list[tuple[float, float]]


class Prefixes(NamedTuple):
    """The answers after the first reports of an order, and after one more each time."""

    n_reports: Int[np.ndarray, "prefix problem"]
    support: Float[np.ndarray, "prefix problem"]
    right: Bool[np.ndarray, "prefix problem"]
    #: The probability of the answer.
    probability: Float[np.ndarray, "prefix problem"]
    #: How probable it is that the commonest answer stays the commonest.
    consistent: Float[np.ndarray, "prefix problem"]

    @classmethod
    def of(cls, replay: Replay, order: list[int]) -> "Prefixes":
        """Ask for the reports of these columns."""
        rows = []
        for n in range(1, len(order) + 1):
            asked = replay.usable & np.isin(np.arange(len(replay.level)), order[:n])
            answers, consistent = replay.answers(asked), np.zeros(len(asked))
            for part in replay.parts:
                gives = part.reports.candidate[:, None] == np.arange(max(part.reports.n_candidates.max(), 1))[:, None]
                votes = np.sort((gives & asked[part.row, None]).sum(axis=2), axis=1)
                second = votes[:, -2] if votes.shape[1] > 1 else 0
                consistent[part.row] = 1 - betainc(votes[:, -1] + 1, second + 1, 0.5)
            rows.append((answers.n_reports, answers.support, answers.right, answers.probability, consistent))
        return cls(*map(np.array, zip(*rows, strict=True)))

    def stopped(self, statistic: Float[np.ndarray, "prefix problem"], above: float) -> "Prefixes":
        """Return the answers where a statistic is first above a limit, or after the last report."""
        over = statistic > above
        over[-1] = True
        return Prefixes(*(np.take_along_axis(part, over.argmax(axis=0)[None], axis=0) for part in self))


def curves(fit: Fit, ordinary: Fit, new: Observations) -> tuple[dict[str, Curve], float, pd.DataFrame]:
    """Return the share of calls and benefit of each rule, the benefit of all reports, and the policies' figures."""
    questions = new.align(fit.level_names)
    labelled, tried = fit._replay, replayed(fit, questions)
    budgets = sorted({max(each, FEWEST / questions.n_levels) for each in BUDGETS})
    policies = []
    for budget in budgets:
        policy = fit.policy(budget=budget)
        forecast, rows = policy.forecast.iloc[0], policy.replay(questions).set_index("asked")
        own, every = rows.loc["policy"], float(rows.loc["all", "benefit"])
        about = {name: own[name] - forecast[name] for name in ("share", "accuracy")}
        policies.append({"share": own["share"], "benefit": own["benefit"], "off": own["confidence"] - own["accuracy"]})
        policies[-1] |= {f"forecast_{name}": error for name, error in about.items()}
        if budget == budgets[0]:
            cheaper = rows.loc[["curve"]].query("share < @own.share")
    found: dict[str, Curve] = {"gain": [(row["share"], row["benefit"]) for row in policies]}
    found["gain"] += zip(cheaper["share"], cheaper["benefit"], strict=True)
    price = np.ones(len(fit.level_names))
    steps = [numbers for _, numbers in labelled.by_number(price, np.inf)]
    found["fixed"] = [point(tried, tried.fixed(numbers)) for numbers in steps]
    order = [int(column) for column in np.concatenate(added(labelled.level, steps))]
    for rule, columns in (("threshold", order), ("consistency", list(range(len(labelled.level))))):
        learned, asked = Prefixes.of(labelled, columns), Prefixes.of(tried, columns)
        name = "probability" if rule == "threshold" else "consistent"
        found[rule] = [stopping(fit, learned, asked, name, above, tried.usable.sum()) for above in THRESHOLDS]
    by_ordinary = replayed(ordinary, questions)
    found["ordinary"] = [point(by_ordinary, by_ordinary.asked(factor * price)) for factor in FACTORS]
    return found, every, pd.DataFrame(policies)


def replayed(fit: Fit, questions: Observations) -> Replay:
    """Return questions that the fit has not seen, for a replay by it."""
    asking = Asking.of(fit.fitted, fit.predictor.parameters, fit.recalibration, fit.preset.eps)
    return Replay.of(questions, [Part(asking, fit.reports(questions), np.arange(len(questions)))])


def point(replay: Replay, asked: Bool[np.ndarray, "problem column"]) -> tuple[float, float]:
    """Return the share of calls and the benefit if these reports are asked for."""
    answers = replay.answers(asked)
    return asked.sum() / replay.usable.sum(), benefits(answers.right, answers.probability).mean()


def added(level: Int[np.ndarray, " column"], steps: list[Int[np.ndarray, " level"]]) -> list[Int[np.ndarray, " added"]]:
    """Return the column that each step adds; of exchangeable levels the next one."""
    before = np.zeros_like(steps[0])
    columns = []
    for numbers in steps:
        (one,) = np.flatnonzero(numbers - before)
        columns.append(np.flatnonzero(level == one)[[before[one]]])
        before = numbers
    return columns


def stopping(fit: Fit, learned: Prefixes, asked: Prefixes, name: str, above: float, n_all: int) -> tuple[float, float]:
    """Return the share of calls and the benefit if asking stops at a limit, calibrated on where it stops."""
    on, stopped = (each.stopped(getattr(each, name), above) for each in (learned, asked))
    weight = (on.n_reports > 0).astype(float)
    (final,) = recalibrate(Outcomes(on.support, on.right, weight, on.n_reports[0]), fit.preset.recalibration)
    stated = final.of_selected(stopped.support, stopped.n_reports[0])
    stated = np.where(stopped.n_reports > 0, stated, 0.0)
    return stopped.n_reports.sum() / n_all, benefits(stopped.right[0], stated[0]).mean()


def measured(observations: Observations, n_labels: int, split: int) -> dict[str, float]:
    """Return the figures of a split."""
    usable = np.flatnonzero(observations.labelled & observations.answered)
    order = np.random.default_rng(split).permutation(usable)
    labelled, new = observations.select(order[:n_labels]), observations.select(order[n_labels:][:MOST_TRIED])
    found, every, policies = curves(fit_map(labelled, partial=True), fit_map(labelled), new)
    row = {"tried": len(new), "all": every}
    for rule, curve in found.items():
        share, benefit = np.array(sorted([(0.0, 0.0), *curve])).T
        row |= {f"{rule} {at:g}": np.interp(at, share, benefit) - every for at in SHARES}
        fine = np.linspace(0, 1, 201)
        enough = fine[np.interp(fine, share, benefit) >= every - LOSS]
        row[f"{rule} calls"] = enough.min(initial=np.inf)
    return row | {
        "forecast calls": policies["forecast_share"].abs().mean(),
        "forecast accuracy": policies["forecast_accuracy"].abs().mean(),
        "forecast accuracy bias": -policies["forecast_accuracy"].mean(),
        "stopped": policies["off"].abs().mean(),
        "stopped bias": policies["off"].mean(),
    }


def shown(rows: pd.DataFrame) -> str:
    """Return the table: means of the differences, and medians and means over files of the calls."""
    files = rows.drop(columns="split").groupby("file").mean()
    table = []
    for rule in RULES:
        calls = files[f"{rule} calls"]
        never = ~np.isfinite(calls)
        line = {"rule": rule} | {f"{at:.0%}": files[f"{rule} {at:g}"].mean() for at in SHARES}
        table.append(line | {"median": calls.median(), "mean": calls[~never].mean(), "never": never.sum()})
    off = files[[name for name in files if name.startswith(("forecast", "stopped"))]].mean()
    by_file = files[["tried", "all", "gain 0.3", "fixed 0.3", *(f"{rule} calls" for rule in RULES)]]
    parts = [by_file, pd.DataFrame(table).set_index("rule"), off.to_frame("mean").T]
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
                new = pd.DataFrame([{"file": path.stem, "split": split, **row}])
                rows = pd.concat([rows, new], ignore_index=True)
                rows.to_csv(given.out, index=False)
    print(f"Mean of {rows['file'].nunique()} files, {given.labels} labels\n{shown(rows)}")


if __name__ == "__main__":
    main()
