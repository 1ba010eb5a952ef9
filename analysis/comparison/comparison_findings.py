"""What a comparison finds, put together section by section: to show, to keep as JSON and tables, and to draw."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import RenderableType

from analysis.comparison import comparison_plots, comparison_tables
from analysis.comparison.comparison import (
    compare_parameters,
    compare_predictions,
    score_predictions,
    summarise_predictions,
)
from analysis.comparison.evaluation_comparison import compare_evaluations
from analysis.comparison.loo_comparison import compare_loo
from analysis.display.folders import jsonable
from analysis.runs.evaluated_run import EvaluatedRun
from analysis.scores.paired import control_false_discoveries
from bayes_direag.data.files import as_records
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Posterior probability of the intervals of parameters and confidences; level of the bootstrap intervals of metrics.
INTERVAL_LEVEL, BOOTSTRAP_LEVEL = 0.9, 0.95


@dataclass(frozen=True)
class Findings:
    """What came out so far; every section adds to it.

    Attributes
    ----------
    shown : list
        Tables for a terminal, in order.
    record : dict
        The same and more, as JSON can hold it.
    tables, pictures : dict
        By the name of their file; a picture is drawn when it is called.
    """

    shown: list[RenderableType] = field(default_factory=list)
    record: dict[str, object] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    pictures: dict[str, "Callable[[], Figure]"] = field(default_factory=dict)


@dataclass(frozen=True)
class FitPair:
    """Two fits, the second of which is measured against, and what they are called."""

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
        """What heads a column of each: how it was found where that tells them apart, else its name."""
        methods = method_of(self.first), method_of(self.second)
        return methods if methods[0] != methods[1] else self.names

    @property
    def captions(self) -> tuple[str, str]:
        """The heads, with the preset's name where a method is one."""
        if self.heads == self.names:
            return self.names
        first, second = self.heads
        return f"{first}, preset {self.first.preset.name}", f"{second}, preset {self.second.preset.name}"


def method_of(fit: Fit) -> str:
    """Return MAP or NUTS."""
    return str(fit.tree.attrs["method"]).upper()


def describe_fit(fit: Fit) -> str:
    """Say in a line what a fit is."""
    how = method_of(fit)
    if how == "NUTS":
        sizes = fit.tree["posterior"].sizes
        how += f" ({sizes['chain']} chains of {sizes['draw']} draws)"
    weighted = "; its likelihood is weighted, and no probability model's" if fit.preset.is_weighted else ""
    return (
        f"{how}, variant {fit.variant}, preset {label(fit.preset)}, learned from {fit.n_questions} questions{weighted}"
    )


def describe_evaluation(run: EvaluatedRun) -> str:
    """Say in a line what an evaluation is."""
    return f"{run.fit_method.upper()}, preset {run.preset}; {run.protocol}"


def add_parameters(findings: Findings, pair: FitPair) -> None:
    """Add the parameters of both fits, side by side."""
    comparison = compare_parameters(pair.first, pair.second, interval_level=INTERVAL_LEVEL)
    first_questions, second_questions = pair.first.learned_from, pair.second.learned_from
    n_first, n_second = pair.first.n_questions, pair.second.n_questions
    n_both = None if first_questions is None or second_questions is None else len(first_questions & second_questions)
    title = f"Parameters, variant {pair.first.variant}. "
    if n_both is None:
        title += (
            f"The fits learned from {n_first} and {n_second} questions. Whether from the same, one that counted by "
            "pattern does not say."
        )
    elif first_questions == second_questions:
        title += f"Both fits learned from the same {n_first} questions."
    else:
        title += (
            f"The fits learned from different questions ({n_first} and {n_second}, {n_both} of them the same), so not "
            "all differences are of method."
        )
    if pair.first.preset.model_settings != pair.second.preset.model_settings:
        title += " Their presets differ, so what separates them is also what each believed beforehand."
    findings.shown.append(comparison_tables.parameter_comparison_table(comparison, title, pair.heads))
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
        findings.pictures["parameters"] = lambda: comparison_plots.parameter_figure(comparison, captions)


def add_leave_one_out(findings: Findings, fits: Mapping[str, Fit], *, allow_weighted: bool) -> None:
    """Add how well each fit predicts left-out questions."""
    comparison = compare_loo(fits, allow_weighted=allow_weighted)
    findings.shown.append(comparison_tables.loo_table(comparison))
    findings.record.update(n=comparison.n, loo=as_records(comparison.table), conclusion=comparison.conclusion)
    findings.tables["loo"] = comparison.table
    findings.pictures["loo"] = lambda: comparison_plots.loo_figure(comparison)


def add_predictions(findings: Findings, pair: FitPair, questions: Observations, *, seed: int, n_resamples: int) -> None:
    """Add what both fits say of the same questions and, where right answers are known, how well they do."""
    table = compare_predictions(pair.first, pair.second, questions, interval_level=INTERVAL_LEVEL)
    summary = summarise_predictions(table)
    changed = table[table["changed"].fillna(value=False)]
    findings.shown.append(comparison_tables.prediction_table(summary, pair.heads, INTERVAL_LEVEL))
    if len(changed):
        findings.shown.append(comparison_tables.changed_table(table, pair.heads, INTERVAL_LEVEL))
    findings.record.update(
        observations_sha256=questions.fingerprint,
        interval_level=INTERVAL_LEVEL,
        predictions=jsonable(summary),
        changed=as_records(changed),
    )
    findings.tables["predictions"] = table
    findings.pictures["confidence_shift"] = lambda: comparison_plots.shift_figure(table, pair.captions, INTERVAL_LEVEL)
    n_scored = int(table["first_correct"].notna().sum())
    if not n_scored:
        return
    metrics = score_predictions(table, seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
    metrics["p_adjusted"] = control_false_discoveries(metrics["p_value"].to_numpy(float))
    known = summary.first_fitted or summary.second_fitted
    seen = "held out" if summary.held_out else f"{'' if known else 'perhaps '}in sample, see above"
    title = f"Metrics on {n_scored} labelled questions ({seen})"
    findings.shown.append(comparison_tables.paired_metrics_table(metrics, title, pair.heads, BOOTSTRAP_LEVEL))
    findings.record.update(n_scored=n_scored, metrics_level=BOOTSTRAP_LEVEL, metrics=as_records(metrics))
    findings.tables["metrics"] = metrics


def add_evaluations(
    findings: Findings, runs: Mapping[str, EvaluatedRun], method: str, *, seed: int, n_resamples: int
) -> None:
    """Add how one method's metrics differ between evaluations."""
    comparison = compare_evaluations(runs, method, seed=seed, n_resamples=n_resamples, level=BOOTSTRAP_LEVEL)
    findings.shown.append(comparison_tables.evaluation_comparison_tables(comparison, method))
    findings.record.update(
        method=method,
        reference=comparison.reference,
        n=comparison.n,
        left_out=comparison.n_left_out,
        metrics_level=BOOTSTRAP_LEVEL,
        metrics=as_records(comparison.table),
    )
    findings.tables["metrics"] = comparison.table
    findings.pictures["metric_differences"] = lambda: comparison_plots.difference_figure(comparison, method)
