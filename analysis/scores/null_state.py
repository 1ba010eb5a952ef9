r"""The comparisons of the paper's Figures 2 and 3: with the base rate, and of null probabilities.

The base-rate predictor gives every question the same confidence p, the method's own accuracy on these questions. Its
Brier score is p(1 - p), and its AUROC is one half. No other constant has a lower Brier score.

The null probability should be higher where no level gave a right answer than where one did.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from analysis.scores.metrics import Weight, accuracy, auroc, brier
from analysis.scores.scoring import interval_columns, percentile_interval, scored_by_method, scored_rows

#: The groups of questions by candidates and selected answer, in the order of the tables.
NULL_GROUPS = ("right answer selected", "right answer there, another selected", "no candidate right")


def base_rate_gains(
    predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, level: float = 0.95
) -> pd.DataFrame:
    """Return by how much every method beats the constant confidence that equals its accuracy, with intervals.

    A gain is positive if the method is better. Method and base rate are scored on the same resamples, with the base
    rate of each resample.
    """
    rows = []
    for method, scored in scored_by_method(predictions).items():
        answered = scored.answered
        weight = answered.whole_and_resampled(n_resamples, seed)
        share, error, area = (
            metric.replicates(answered.confidence, answered.correct, weight) for metric in (accuracy, brier, auroc)
        )
        row = {"method": method, "n": len(answered.correct), "unanswered": scored.n_unanswered, "accuracy": share[0]}
        row |= {"brier": error[0], "base_rate_brier": share[0] * (1 - share[0]), "auroc": area[0]}
        for name, gain in (("brier_gain", share * (1 - share) - error), ("auroc_gain", area - 0.5)):
            row |= interval_columns(name, gain[0], gain[1:], level)
        rows.append(row | {"auroc_undefined": int(np.isnan(area[1:]).sum())})
    return pd.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class NullState:
    """The null probabilities of questions with and without a right candidate.

    ``questions``: ``problem_id``, ``null_probability`` and ``group``, one of :data:`NULL_GROUPS`. ``summary``: the
    mean of each group; ``right answer there``, that of the first two; ``difference`` and ``difference to selected``,
    the mean of the last group minus that of the first two, and minus that of the first; and ``AUROC``, the probability
    that a question of the last group has the higher null probability. Each has its number of questions ``n``, its
    ``value``, and its interval.
    """

    questions: pd.DataFrame
    summary: pd.DataFrame
    interval_level: float

    def quantity(self, name: str) -> pd.Series:
        """Return one row of the summary."""
        return self.summary[self.summary["quantity"] == name].iloc[0]


def gold_present(predictions: pd.DataFrame) -> pd.Series:
    """Return whether some candidate of each row is right: not if the observed state is as probable as the null.

    NA if this is not known: without a label, an answer or a distribution, or if the answer is wrong and the null has
    probability 0.
    """
    right, null, state = (predictions[name] for name in ("correct", "null_probability", "state_probability"))
    known = right.notna() & null.notna() & state.notna() & (right | (null > 0))
    return (right | (state != null)).where(known).astype("boolean")


def null_state(predictions: pd.DataFrame, *, seed: int, n_resamples: int = 1000, level: float = 0.95) -> NullState:
    """Compare one method's null probability of questions with and without a right candidate."""
    present = gold_present(predictions)
    known = present.notna()
    rows = predictions[known]
    probability = rows["null_probability"].to_numpy(float)
    group = np.where(present[known].to_numpy(bool), np.where(rows["correct"].to_numpy(bool), 0, 1), 2)
    weight = scored_rows(rows).whole_and_resampled(n_resamples, seed)
    values = _quantities(probability, group, weight)
    members = {name: group == number for number, name in enumerate(NULL_GROUPS)} | {"right answer there": group < 2}
    counts = {name: int(members[name].sum()) if name in members else len(rows) for name in values}
    summary = []
    for name, value in values.items():
        interval = percentile_interval(value[1:], level)
        summary.append({"quantity": name, "n": counts[name], "value": value[0], **interval._asdict()})
    questions = pd.DataFrame(
        {
            "problem_id": rows["problem_id"].to_numpy(),
            "null_probability": probability,
            "group": np.array(NULL_GROUPS, dtype=object)[group],
        }
    )
    return NullState(questions, pd.DataFrame(summary), level)


def _quantities(
    probability: Float[np.ndarray, " problem"], group: Int[np.ndarray, " problem"], weight: Weight
) -> dict[str, Float[np.ndarray, " replicate"]]:
    def mean(chosen: Bool[np.ndarray, " problem"]) -> Float[np.ndarray, " replicate"]:
        with np.errstate(invalid="ignore"):  # 0/0: no question of the group in the replicate
            return np.asarray((weight[:, chosen] @ probability[chosen]) / weight[:, chosen].sum(axis=1))

    means = {name: mean(group == number) for number, name in enumerate(NULL_GROUPS)}
    selected, _, absent = means.values()
    there = mean(group < 2)
    return means | {
        "right answer there": there,
        "difference": absent - there,
        "difference to selected": absent - selected,
        "AUROC": auroc.replicates(probability, group == 2, weight),
    }
