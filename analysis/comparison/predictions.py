"""How far the predictions of two fits differ on the same questions, and how well each does on labelled ones."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from analysis.comparison.findings import Drawing, Findings, benefit_sentence, paired_metrics_table, short_names
from analysis.display.document import Cell, Column, Table
from analysis.display.folders import jsonable
from analysis.display.style import RIGHT, WRONG, diagonal, without_formulas
from analysis.display.text import counted, interval, number, shortened
from analysis.methods.direag import after_calibration
from analysis.scores.paired import control_false_discoveries, paired_table
from analysis.scores.scoring import cluster_column, scored_rows
from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Posterior probability of the intervals of confidences; level of the bootstrap intervals of metrics.
INTERVAL_LEVEL, BOOTSTRAP_LEVEL = 0.9, 0.95
_SHOWN = 10


def compare_predictions(fits: Mapping[str, Fit], questions: Observations, *, seed: int, n_resamples: int) -> Findings:
    """Compare two fits' predictions of the same questions and, for labelled ones, their metrics."""
    (first_name, first), (second_name, second) = fits.items()
    names = first_name, second_name
    table = predictions_side_by_side(first, second, questions)
    summary = summarise_predictions(table)
    changed = table[table["changed"].fillna(value=False)]
    tables: dict[str, pd.DataFrame] = {}
    verdict, blocks = [_moved(summary, names)], []
    record: dict[str, object] = {
        "observations_sha256": questions.fingerprint,
        "interval_level": INTERVAL_LEVEL,
        "predictions": jsonable(summary),
        "changed": as_records(changed),
    }
    n_scored = int(table["first_correct"].notna().sum())
    if n_scored:
        metrics = score_predictions(table, seed=seed, n_resamples=n_resamples)
        title = f"Metrics on {n_scored} labelled questions ({'held out' if summary.held_out else 'in sample'})"
        verdict.append(benefit_sentence(metrics, names, n_scored, BOOTSTRAP_LEVEL))
        blocks.append(paired_metrics_table(metrics, title, names, BOOTSTRAP_LEVEL))
        tables["metrics"] = metrics
        record |= {"n_scored": n_scored, "metrics_level": BOOTSTRAP_LEVEL, "metrics": as_records(metrics)}
    tables["predictions"] = table
    if len(changed):
        blocks.append(_changed_table(changed, names))
    caption = f"{summary.n} answered questions, {summary.seen_in_fitting(names)}."
    if table["second_low"].notna().any():
        caption += f" Lines: {INTERVAL_LEVEL:.0%} posterior interval."
    draw = partial(draw_confidences, predictions=table, names=names)
    drawing = Drawing("confidence_shift", "Confidence in the selected answer", caption, 5.4, draw)
    return Findings(tuple(verdict), tuple(blocks), tables, drawing, record)


def predictions_side_by_side(first: Fit, second: Fit, observations: Observations) -> pd.DataFrame:
    """Predict the same questions from two fits, a row a question, with columns ``first_*`` and ``second_*``.

    ``changed``: whether the answers differ. ``shift``: the second confidence minus the first.
    """
    columns: dict[str, object] = {
        "problem_id": pd.Series(observations.problem_id, dtype="str"),
        "cluster": cluster_column(observations),
    }
    for name, fit in (("first", first), ("second", second)):
        predicted = fit.predict(observations, interval_level=INTERVAL_LEVEL, warn=False)
        right = pd.Series(observations.is_right(predicted["answer"]), dtype="boolean")
        aligned = fit.aligned(observations)
        columns |= {
            f"{name}_answer": predicted["answer"],
            f"{name}_confidence": predicted["confidence"],
            f"{name}_low": predicted.get("confidence_low", np.nan),
            f"{name}_high": predicted.get("confidence_high", np.nan),
            f"{name}_correct": right.where(observations.labelled & observations.answered),
            f"{name}_state_probability": after_calibration(fit, aligned).state_probability(aligned),
            f"{name}_fitted": fit.has_seen(observations),
        }
    table = pd.DataFrame(columns)
    differ = (table["first_answer"] != table["second_answer"]).astype("boolean")
    return table.assign(
        changed=differ.where(observations.answered), shift=table["second_confidence"] - table["first_confidence"]
    )


class PredictionSummary(NamedTuple):
    """The differences between two fits' predictions of ``n`` answered questions; shifts and widths are NaN without any.

    ``first_fitted``, ``second_fitted``: how many of the questions each fit learned from. ``mean_width``: of the second
    fit's intervals.
    """

    n: int
    unanswered: int
    first_fitted: int
    second_fitted: int
    changed: int
    mean_shift: float
    mean_absolute_shift: float
    largest_shift: float
    largest_at: str | None
    mean_width: float

    @property
    def held_out(self) -> bool:
        """Whether neither fit learned from any of the questions."""
        return self.first_fitted == 0 == self.second_fitted

    def seen_in_fitting(self, names: tuple[str, str]) -> str:
        """Say whether the questions were held out from both fits, and if not, how many were fitted to."""
        if self.held_out:
            return "held out: neither fit has learned from any of them"
        same = self.first_fitted == self.second_fitted
        by = "both fits" if same else f"{names[0]}, {self.second_fitted} by {names[1]}"
        return f"in sample: {self.first_fitted} of {self.n} questions were fitted to by {by}"


def summarise_predictions(table: pd.DataFrame) -> PredictionSummary:
    """Summarise the table of :func:`predictions_side_by_side`."""
    answered = table[table["shift"].notna()]
    shift, width = answered["shift"], answered["second_high"] - answered["second_low"]
    farthest = answered.iloc[int(shift.abs().argmax())] if len(answered) else None
    return PredictionSummary(
        n=len(answered),
        unanswered=len(table) - len(answered),
        first_fitted=int(answered["first_fitted"].sum()),
        second_fitted=int(answered["second_fitted"].sum()),
        changed=int(answered["changed"].sum()),
        mean_shift=float(shift.mean()),
        mean_absolute_shift=float(shift.abs().mean()),
        largest_shift=np.nan if farthest is None else float(farthest["shift"]),
        largest_at=None if farthest is None else str(farthest["problem_id"]),
        mean_width=float(width.mean()),
    )


def score_predictions(table: pd.DataFrame, *, seed: int, n_resamples: int) -> pd.DataFrame:
    """Score both fits on answered questions with a known answer: see :func:`~analysis.scores.paired.paired_table`."""
    parts = ("confidence", "correct", "state_probability")
    first, second = (
        scored_rows(table[["cluster"]].assign(**{part: table[f"{name}_{part}"] for part in parts}))
        for name in ("first", "second")
    )
    metrics = paired_table(first, second, seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
    return metrics.assign(p_adjusted=control_false_discoveries(metrics["p_value"].to_numpy(float)))


def draw_confidences(axes: "Axes", predictions: pd.DataFrame, names: tuple[str, str]) -> None:
    """Draw the confidences of two fits against each other, with changed answers marked."""
    rows = predictions[predictions["shift"].notna()]
    changed = rows["changed"].to_numpy(bool)
    diagonal(axes)
    for chosen, colour, marker, size, name in (
        (~changed, RIGHT, "o", 10, "same answer"),
        (changed, WRONG, "^", 26, "answer changed"),
    ):
        shown = rows[chosen]
        x, y, label = shown["first_confidence"], shown["second_confidence"], f"{name} (n = {len(shown)})"
        axes.vlines(x, shown["second_low"], shown["second_high"], color=colour, linewidth=0.7, alpha=0.25)
        axes.scatter(x, y, size, color=colour, marker=marker, edgecolor="white", linewidth=0.3, zorder=3, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel(without_formulas(f"confidence, {names[0]}"))
    axes.set_ylabel(without_formulas(f"confidence, {names[1]}"))
    axes.legend(loc="upper left")


def _moved(summary: PredictionSummary, names: tuple[str, str]) -> str:
    """Say how many answers change, and how far confidences move."""
    if not summary.n:
        return "Neither fit answers any of these questions."
    return (
        f"{summary.changed} of {counted(summary.n, 'answer')} change from {names[0]} to {names[1]}, and confidences "
        f"move by {number(summary.mean_absolute_shift)} on average, at most by "
        f"{number(summary.largest_shift, signed=True)} ({summary.largest_at}); {summary.seen_in_fitting(names)}."
    )


def _changed_table(changed: pd.DataFrame, names: tuple[str, str]) -> Table:
    """Tabulate the questions whose answer changes, by the smaller of the two confidences, the greatest first."""
    least = changed[["first_confidence", "second_confidence"]].min(axis=1)
    shown = changed.loc[least.sort_values(ascending=False, kind="stable").index[:_SHOWN]]

    def cells(row: pd.Series) -> tuple[Cell, ...]:
        texts = [Cell(str(row["problem_id"]))]
        for name in ("first", "second"):
            right = row[f"{name}_correct"]
            mark = "" if pd.isna(right) else " ✓" if right else " ✗"
            bounds = interval(row[f"{name}_low"], row[f"{name}_high"])
            texts.append(Cell(f"{shortened(str(row[f'{name}_answer']), 12)}{mark}"))
            texts.append(Cell(number(row[f"{name}_confidence"]), bounds))
        return tuple(texts)

    more = len(changed) - _SHOWN
    rest = f" The other {more} are in predictions.csv (--out) and --json." if more > 0 else ""
    first, second = short_names(names)
    columns = (Column("question", holds="name"), *map(Column, (first, "confidence", second, "confidence")))
    return Table(
        "Answers that change",
        columns,
        tuple(cells(row) for _, row in shown.iterrows()),
        f"Answer and confidence, with its {INTERVAL_LEVEL:.0%} interval, by {names[0]} and {names[1]}, surest first; "
        f"✓ right, ✗ wrong.{rest}",
    )
