"""The findings of a comparison, section by section: tables to show, records for JSON, tables to write, pictures."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from analysis.comparison.comparison import (
    ParameterComparison,
    PredictionSummary,
    compare_parameters,
    compare_predictions,
    parameter_figure,
    score_predictions,
    seen_in_fitting,
    shift_figure,
    summarise_predictions,
)
from analysis.comparison.loo_comparison import (
    EvaluationComparison,
    LooComparison,
    compare_evaluations,
    compare_loo,
    difference_figure,
    loo_figure,
)
from analysis.display.folders import jsonable
from analysis.display.text import UNDEFINED, interval, label_grid, number, shortened, shown_table
from analysis.runs.evaluated_run import EvaluatedRun
from analysis.scores.paired import control_false_discoveries
from bayes_direag.commands.options import titled
from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LARGEST_PARETO_K
from bayes_direag.model.presets import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Posterior probability of the intervals of parameters and confidences; level of the bootstrap intervals of metrics.
INTERVAL_LEVEL, BOOTSTRAP_LEVEL = 0.9, 0.95


@dataclass(frozen=True)
class Findings:
    """The findings so far, to which every section adds.

    ``shown``: tables for a terminal, in order. ``record``: the same and more, for JSON. ``tables``, ``pictures``: by
    the name of their file; a picture is drawn when it is called.
    """

    shown: list[RenderableType] = field(default_factory=list)
    record: dict[str, object] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    pictures: dict[str, "Callable[[], Figure]"] = field(default_factory=dict)


@dataclass(frozen=True)
class FitPair:
    """Two fits and their names; the first is compared with the second."""

    first: Fit
    second: Fit
    names: tuple[str, str]

    @classmethod
    def of(cls, fits: Mapping[str, Fit]) -> "FitPair":
        """Take two fits, by name."""
        (first_name, first), (second_name, second) = fits.items()
        return cls(first, second, (first_name, second_name))

    @property
    def heads(self) -> tuple[str, str]:
        """The column headers: MAP and NUTS if the methods differ, else the names."""
        methods = method_of(self.first), method_of(self.second)
        return methods if methods[0] != methods[1] else self.names

    @property
    def captions(self) -> tuple[str, str]:
        """The headers; methods with the name of the preset."""
        if self.heads == self.names:
            return self.names
        first, second = self.heads
        return f"{first}, preset {self.first.preset.name}", f"{second}, preset {self.second.preset.name}"


def method_of(fit: Fit) -> str:
    """Return MAP or NUTS."""
    return fit.method.upper()


def describe_fit(fit: Fit) -> str:
    """Describe a fit in a line."""
    how = method_of(fit)
    if how == "NUTS":
        sizes = fit.tree["posterior"].sizes
        how += f" ({sizes['chain']} chains of {sizes['draw']} draws)"
    weighted = "; its likelihood is weighted, which is not a probability model" if fit.preset.is_weighted else ""
    return (
        f"{how}, variant {fit.variant}, preset {label(fit.preset)}, learned from {fit.n_questions} questions{weighted}"
    )


def describe_evaluation(run: EvaluatedRun) -> str:
    """Describe an evaluation in a line."""
    return f"{run.fit_method.upper()}, preset {run.preset}; {run.protocol}"


def add_parameters(findings: Findings, pair: FitPair) -> None:
    """Add the parameters of both fits, side by side."""
    comparison = compare_parameters(pair.first, pair.second, interval_level=INTERVAL_LEVEL)
    first_questions, second_questions = pair.first.learned_from, pair.second.learned_from
    n_first, n_second = pair.first.n_questions, pair.second.n_questions
    n_both = len(first_questions & second_questions)
    title = f"Parameters, variant {pair.first.variant}. "
    if first_questions == second_questions:
        title += f"Both fits learned from the same {n_first} questions."
    else:
        title += (
            f"The fits learned from different questions ({n_first} and {n_second}, {n_both} of them the same), so "
            "differences are not due to the method alone."
        )
    if pair.first.preset.model_settings != pair.second.preset.model_settings:
        title += " Their presets differ, so differences are also due to the priors."
    findings.shown.append(parameter_comparison_table(comparison, title, pair.heads))
    findings.record.update(
        interval_level=INTERVAL_LEVEL,
        questions_fitted={"first": n_first, "second": n_second, "both": n_both},
        scale=comparison.scale,
        parameters=as_records(comparison.table),
    )
    findings.tables["parameters"] = comparison.table
    if comparison.table["distance"].notna().any():
        first, second = pair.captions
        captions = f"{first} (n = {n_first})", f"{second} (n = {n_second})"
        findings.pictures["parameters"] = lambda: parameter_figure(comparison, captions)


def add_leave_one_out(findings: Findings, fits: Mapping[str, Fit], *, allow_weighted: bool) -> None:
    """Add how well each fit predicts left-out questions."""
    comparison = compare_loo(fits, allow_weighted=allow_weighted)
    findings.shown.append(loo_table(comparison))
    findings.record.update(n=comparison.n, loo=as_records(comparison.table), conclusion=comparison.conclusion)
    findings.tables["loo"] = comparison.table
    findings.pictures["loo"] = lambda: loo_figure(comparison)


def add_predictions(findings: Findings, pair: FitPair, questions: Observations, *, seed: int, n_resamples: int) -> None:
    """Add both fits' predictions of the same questions and, for labelled questions, their metrics."""
    table = compare_predictions(pair.first, pair.second, questions, interval_level=INTERVAL_LEVEL)
    summary = summarise_predictions(table)
    changed = table[table["changed"].fillna(value=False)]
    findings.shown.append(prediction_table(summary, pair.heads, INTERVAL_LEVEL))
    if len(changed):
        findings.shown.append(changed_table(table, pair.heads, INTERVAL_LEVEL))
    findings.record.update(
        observations_sha256=questions.fingerprint,
        interval_level=INTERVAL_LEVEL,
        predictions=jsonable(summary),
        changed=as_records(changed),
    )
    findings.tables["predictions"] = table
    findings.pictures["confidence_shift"] = lambda: shift_figure(table, pair.captions, INTERVAL_LEVEL)
    n_scored = int(table["first_correct"].notna().sum())
    if not n_scored:
        return
    metrics = score_predictions(table, seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
    metrics["p_adjusted"] = control_false_discoveries(metrics["p_value"].to_numpy(float))
    seen = "held out" if summary.held_out else "in sample, see above"
    title = f"Metrics on {n_scored} labelled questions ({seen})"
    findings.shown.append(paired_metrics_table(metrics, title, pair.heads, BOOTSTRAP_LEVEL))
    findings.record.update(n_scored=n_scored, metrics_level=BOOTSTRAP_LEVEL, metrics=as_records(metrics))
    findings.tables["metrics"] = metrics


def add_evaluations(
    findings: Findings, runs: Mapping[str, EvaluatedRun], method: str, *, seed: int, n_resamples: int
) -> None:
    """Add how one method's metrics differ between evaluations."""
    comparison = compare_evaluations(runs, method, seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
    findings.shown.append(evaluation_comparison_tables(comparison, method))
    findings.record.update(
        method=method,
        reference=comparison.reference,
        n=comparison.n,
        left_out=comparison.n_left_out,
        metrics_level=BOOTSTRAP_LEVEL,
        metrics=as_records(comparison.table),
    )
    findings.tables["metrics"] = comparison.table
    findings.pictures["metric_differences"] = lambda: difference_figure(comparison, method)


_SHOWN, _WIDEST_HEAD = 10, 8
_SCALES = {
    "raw": "Raw parameters, on the real line; both presets fix the same scale.",
    "relative": "These quantities do not depend on the common scale of weight, prior_strength and null_base, which the "
    "data do not identify. _share: share of the sum over levels; _relative: in units of that sum.",
}


def parameter_comparison_table(comparison: ParameterComparison, title: str, heads: tuple[str, str]) -> Group:
    """Return the parameters of two fits side by side, a block a quantity; ``heads`` are the fits' names."""
    first, second = _short(heads)
    has_spread = bool(comparison.table["sd"].notna().any())

    def rows() -> Iterator[list[str | Text]]:
        for quantity, table in comparison.table.groupby("quantity", sort=False):
            has_levels = table["level"].notna().all()
            if has_levels:
                yield [Text(str(quantity), style="bold")]
            for row in table.to_dict("records"):
                name = Text(f"  {row['level']}") if has_levels else Text(str(quantity), style="bold")
                sd = "" if math.isnan(row["sd"]) else f" ± {number(row['sd'])}"
                bounds = interval(row["low"], row["high"], undefined=UNDEFINED)
                cells = [number(row["point"]), f"{number(row['mean'])}{sd}"]
                yield [name, *cells, *([bounds, number(row["distance"], 2, signed=True)] if has_spread else [])]

    spread = [f"{second} ± sd", f"{comparison.interval_level:.0%} interval", "distance"] if has_spread else [second]
    distance = "Both are point estimates, so there is no standard deviation to measure a distance in."
    if has_spread:
        distance = f"distance: {heads[0]} minus the mean of {heads[1]}, in posterior standard deviations."
    caption = f"{distance} {_SCALES[comparison.scale]}"
    return shown_table(title, ["quantity"], [first, *spread], rows(), caption)


def prediction_table(summary: PredictionSummary, heads: tuple[str, str], interval_level: float) -> Group:
    """Return the differences between two fits' predictions."""
    unanswered = f"; {summary.unanswered} more were not answered" if summary.unanswered else ""
    quantiles = (f"{share:.0%}: {number(value, signed=True)}" for share, value in summary.shift_quantiles.items())
    rows: dict[str, str | Text] = {
        "questions": f"{summary.n}{unanswered}",
        "seen in fitting": Text(seen_in_fitting(summary, heads), style="" if summary.held_out else "bold"),
        "answer changes": f"{summary.changed} of {summary.n}",
        "confidence shift": f"mean {number(summary.mean_shift, signed=True)}, mean size "
        f"{number(summary.mean_absolute_shift)}, largest {number(summary.largest_shift, signed=True)} "
        f"({summary.largest_at})",
        "its quantiles": ", ".join(quantiles),
    }
    if not math.isnan(summary.mean_width):
        mean, median, largest = map(number, (summary.mean_width, summary.median_width, summary.largest_width))
        rows[f"{interval_level:.0%} interval"] = f"width: mean {mean}, median {median}, largest {largest}"
    return titled("Predictions", label_grid(rows), f"Shift: confidence of {heads[1]} minus that of {heads[0]}.")


def changed_table(predictions: pd.DataFrame, heads: tuple[str, str], interval_level: float) -> Group:
    """Return the questions whose answer changes, ordered by the smaller of the two confidences, the greatest first."""
    first, second = _short(heads)
    changed = predictions[predictions["changed"].fillna(value=False)]
    least = changed[["first_confidence", "second_confidence"]].min(axis=1)
    has_interval = bool(changed["second_low"].notna().any())

    def rows() -> Iterator[list[str]]:
        order = least.sort_values(ascending=False, kind="stable").index[:_SHOWN]
        for row in changed.loc[order].to_dict("records"):
            cells = [str(row["problem_id"])]
            for name in ("first", "second"):
                right = row[f"{name}_correct"]
                mark = "" if pd.isna(right) else " ✓" if right else " ✗"
                cells += [f"{shortened(str(row[f'{name}_answer']), 12)}{mark}", number(row[f"{name}_confidence"])]
            yield cells + ([interval(row["second_low"], row["second_high"])] if has_interval else [])

    more = len(changed) - _SHOWN
    rest = f" The other {more} are in predictions.csv (--out) and --json." if more > 0 else ""
    caption = f"Answer and confidence by {heads[0]} and {heads[1]}, surest first; ✓ right, ✗ wrong.{rest}"
    headers = [first, "", second, "", *([f"{interval_level:.0%} interval"] if has_interval else [])]
    return shown_table("Answers that change", ["question"], headers, rows(), caption)


def paired_metrics_table(table: pd.DataFrame, title: str, heads: tuple[str, str], level: float) -> Group:
    """Return metrics of two methods side by side, with intervals and p-values of their differences."""
    rows = (
        [
            str(row["metric"]),
            number(row["first"]),
            number(row["second"]),
            number(row["difference"], signed=True),
            interval(row["low"], row["high"], signed=True, undefined=UNDEFINED),
            number(row["p_value"]),
            number(row["p_adjusted"]),
        ]
        for row in table.to_dict("records")
    )
    caption = (
        f"Difference: {heads[1]} minus {heads[0]}, with its paired bootstrap interval over questions. p: "
        "permutation test, for metrics that are means; adjusted for their number (Benjamini and Hochberg). Benefit "
        "(accuracy minus Brier score of the selected answers) says which is better. From accuracy on, metrics are of "
        "own answers, on questions that both have answered."
    )
    headers = [*_short(heads), "difference", f"{level:.0%} interval", "p", "adjusted"]
    return shown_table(title, ["metric"], headers, rows, caption)


def evaluation_comparison_tables(comparison: EvaluationComparison, method: str) -> Group:
    """Return the differences of every evaluation to the first, a table an evaluation."""
    left_out = f", {comparison.n_left_out} without a label left out" if comparison.n_left_out else ""
    of = f"against {comparison.reference}, {comparison.n} held-out questions{left_out}"
    return Group(
        *(
            paired_metrics_table(
                rows, f"{method}: {name} {of}", (comparison.reference, str(name)), comparison.interval_level
            )
            for name, rows in comparison.table.groupby("evaluation", sort=False)
        )
    )


def loo_table(comparison: LooComparison) -> Group:
    """Return models by leave-one-out predictive density, and what can be concluded."""
    rows = (
        [
            f"{row['model']}{' (weighted)' if row['is_weighted'] else ''}",
            f"{number(row['elpd'], 1)} ± {number(row['se'], 1)}",
            f"{number(row['difference'], 1)} ± {number(row['difference_se'], 1)}" if position else "best",
            number(row["p_loo"], 1),
            str(row["n_bad_k"]),
            number(row["weight"], 2),
        ]
        for position, row in enumerate(comparison.table.to_dict("records"))
    )
    notes = (
        "elpd: log probability of the state that occurred, each question left out, before recalibration, summed; more "
        "is better. p_loo: effective parameters. weight: in the stacked mixture, no probability of the model."
    )
    bad = f"k > {LARGEST_PARETO_K}"
    if comparison.table["n_bad_k"].any():
        notes += f"\n{bad}: questions whose leave-one-out figure is unreliable; differences may be biased."
    if comparison.table["is_weighted"].any():
        notes += "\n(weighted): its likelihood is no probability model's; its figures have no meaning of their own."
    headers = ["elpd ± se", "difference ± se", "p_loo", bad, "weight"]
    table = shown_table(f"Leave-one-out on {comparison.n} questions", ["model"], headers, rows, notes)
    return Group(table, Text(f"{comparison.conclusion}\n"))


def descriptions_table(descriptions: Mapping[str, str]) -> Group:
    """Return what is compared, a line each."""
    return Group(label_grid({name: Text(text, style="dim") for name, text in descriptions.items()}), "")


def _short(heads: tuple[str, str]) -> tuple[str, str]:
    """Return heads that fit over a column of numbers."""
    return heads if max(map(len, heads)) <= _WIDEST_HEAD else ("first", "second")
