"""Comparisons as a person reads them in a terminal of 80 columns."""

import math
from collections.abc import Mapping

import pandas as pd
from rich.console import Group
from rich.table import Table
from rich.text import Text

from analysis.comparison.comparison import ParameterComparison, PredictionSummary, seen_in_fitting
from analysis.comparison.evaluation_comparison import EvaluationComparison
from analysis.comparison.loo_comparison import LooComparison
from bayes_direag.commands.options import plain_table, titled
from bayes_direag.inference.loo import LARGEST_PARETO_K

_UNDEFINED = "\N{EN DASH}"
_SHOWN = 10
_WIDEST_HEAD = 8
_SCALES = {
    "raw": "Raw parameters, on the real line where both fits were found: their presets fix the same scale.",
    "relative": "Compared is what does not depend on the common scale of weight, prior_strength and null_base, which "
    "the data cannot see and a preset pins in its own way. _share: of the sum over levels; _relative: in units of it.",
}


def parameter_comparison_table(comparison: ParameterComparison, title: str, heads: tuple[str, str]) -> Group:
    """Return the parameters of two fits side by side, a block a quantity.

    Parameters
    ----------
    heads
        What the two fits are called; short, for they head columns.
    """
    first, second = _short(heads)
    has_spread = comparison.table["sd"].notna().any()
    table = plain_table("quantity")
    spread = (f"{second} ± sd", f"{comparison.interval_level:.0%} interval", "distance") if has_spread else (second,)
    for header in (first, *spread):
        table.add_column(header, justify="right", no_wrap=True)
    for quantity, rows in comparison.table.groupby("quantity", sort=False):
        has_levels = rows["level"].notna().all()
        if has_levels:
            table.add_row(Text(str(quantity), style="bold"))
        for row in rows.to_dict("records"):
            name = Text(f"  {row['level']}") if has_levels else Text(str(quantity), style="bold")
            sd = "" if math.isnan(row["sd"]) else f" ± {_number(row['sd'])}"
            cells = [_number(row["point"]), f"{_number(row['mean'])}{sd}"]
            if has_spread:
                cells += [_interval(row["low"], row["high"]), _number(row["distance"], 2, signed=True)]
            table.add_row(name, *cells)
    distance = (
        f"distance: {heads[0]} less the mean of {heads[1]}, in posterior standard deviations."
        if has_spread
        else "Two points: there is no posterior to say how far apart they are."
    )
    return titled(title, table, f"{distance} {_SCALES[comparison.scale]}")


def prediction_table(summary: PredictionSummary, heads: tuple[str, str], interval_level: float) -> Group:
    """Return how far two fits' predictions are apart."""
    first, second = heads
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    unanswered = f"; {summary.unanswered} more were not answered" if summary.unanswered else ""
    table.add_row("questions", f"{summary.n}{unanswered}")
    table.add_row("seen in fitting", Text(seen_in_fitting(summary, heads), style="" if summary.held_out else "bold"))
    table.add_row("answer changes", f"{summary.changed} of {summary.n}")
    table.add_row(
        "confidence shift",
        f"mean {_number(summary.mean_shift, signed=True)}, mean size {_number(summary.mean_absolute_shift)}, "
        f"largest {_number(summary.largest_shift, signed=True)} ({summary.largest_at})",
    )
    shares = ", ".join(
        f"{share:.0%}: {_number(value, signed=True)}" for share, value in summary.shift_quantiles.items()
    )
    table.add_row("its quantiles", shares)
    if not math.isnan(summary.mean_width):
        table.add_row(
            f"{interval_level:.0%} interval",
            f"width: mean {_number(summary.mean_width)}, median {_number(summary.median_width)}, largest "
            f"{_number(summary.largest_width)}",
        )
    return titled("Predictions", table, f"Shift: confidence of {second} less that of {first}.")


def changed_table(predictions: pd.DataFrame, heads: tuple[str, str], interval_level: float) -> Group:
    """Return the questions whose answer changes, those that both fits are surest of first."""
    first, second = _short(heads)
    changed = predictions[predictions["changed"].fillna(value=False)]
    least = changed[["first_confidence", "second_confidence"]].min(axis=1)
    has_interval = changed["second_low"].notna().any()
    table = plain_table("question")
    for header in (first, "", second, "", *([f"{interval_level:.0%} interval"] if has_interval else [])):
        table.add_column(header, justify="right", overflow="fold")
    for row in changed.loc[least.sort_values(ascending=False, kind="stable").index].head(_SHOWN).to_dict("records"):
        cells = [Text(str(row["problem_id"]))]
        for name in ("first", "second"):
            right = row[f"{name}_correct"]
            mark = "" if pd.isna(right) else " ✓" if right else " ✗"
            cells += [Text(f"{_shortened(str(row[f'{name}_answer']))}{mark}"), Text(_number(row[f"{name}_confidence"]))]
        table.add_row(*cells, *([_interval(row["second_low"], row["second_high"])] if has_interval else []))
    more = len(changed) - _SHOWN
    rest = f" The other {more} are in predictions.csv (--out) and --json." if more > 0 else ""
    return titled(
        "Answers that change",
        table,
        f"Answer and confidence by {heads[0]} and {heads[1]}, surest first; ✓ right, ✗ wrong.{rest}",
    )


def paired_metrics_table(table: pd.DataFrame, title: str, heads: tuple[str, str], level: float) -> Group:
    """Return metrics of two methods side by side, with intervals and p-values of their differences."""
    first, second = heads
    shown = plain_table("metric")
    for header in (*_short(heads), "difference", f"{level:.0%} interval", "p", "adjusted"):
        shown.add_column(header, justify="right", no_wrap=True)
    for row in table.to_dict("records"):
        shown.add_row(
            str(row["metric"]),
            _number(row["first"]),
            _number(row["second"]),
            _number(row["difference"], signed=True),
            _interval(row["low"], row["high"], signed=True),
            _number(row["p_value"]),
            _number(row["p_adjusted"]),
        )
    return titled(
        title,
        shown,
        f"Difference: {second} less {first}, with its paired bootstrap interval over questions, the fits as they are. "
        "p: permutation test, for means over questions alone; adjusted for their number (Benjamini and Hochberg). "
        "Which is better, benefit says: accuracy less Brier score of the selected answers. From accuracy on, metrics "
        "are of own answers, where both have one.",
    )


def evaluation_comparison_tables(comparison: EvaluationComparison, method: str) -> Group:
    """Return the differences of every evaluation to the first, a table an evaluation."""
    left_out = f", {comparison.n_left_out} without a label left out" if comparison.n_left_out else ""
    return Group(
        *(
            paired_metrics_table(
                rows,
                f"{method}: {name} against {comparison.reference}, {comparison.n} held-out questions{left_out}",
                (comparison.reference, str(name)),
                comparison.interval_level,
            )
            for name, rows in comparison.table.groupby("evaluation", sort=False)
        )
    )


def loo_table(comparison: LooComparison) -> Group:
    """Return models by leave-one-out predictive density, and what can be concluded."""
    table = plain_table("model")
    for header in ("elpd ± se", "difference ± se", "p_loo", f"k > {LARGEST_PARETO_K}", "weight"):
        table.add_column(header, justify="right", no_wrap=True)
    for position, row in enumerate(comparison.table.to_dict("records")):
        table.add_row(
            Text(f"{row['model']}{' (weighted)' if row['is_weighted'] else ''}"),
            f"{_number(row['elpd'], 1)} ± {_number(row['se'], 1)}",
            f"{_number(row['difference'], 1)} ± {_number(row['difference_se'], 1)}" if position else "best",
            _number(row["p_loo"], 1),
            str(row["n_bad_k"]),
            _number(row["weight"], 2),
        )
    notes = (
        "elpd: log probability of the state that occurred, each question left out, before recalibration, summed; more "
        "is better. p_loo: effective parameters. weight: in the stacked mixture, no probability of the model."
    )
    if comparison.table["n_bad_k"].any():
        notes += (
            f"\nk > {LARGEST_PARETO_K}: questions whose leave-one-out figure is unreliable; differences may be biased."
        )
    if comparison.table["is_weighted"].any():
        notes += "\n(weighted): its likelihood is no probability model's; its figures have no meaning of their own."
    return Group(titled(f"Leave-one-out on {comparison.n} questions", table, notes), Text(f"{comparison.conclusion}\n"))


def descriptions_table(descriptions: Mapping[str, str]) -> Group:
    """Return what is compared, a line each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, text in descriptions.items():
        table.add_row(Text(name), Text(text, style="dim"))
    return Group(table, "")


def _short(heads: tuple[str, str]) -> tuple[str, str]:
    """Return heads that fit over a column of numbers."""
    return heads if max(map(len, heads)) <= _WIDEST_HEAD else ("first", "second")


def _interval(low: float, high: float, *, signed: bool = False) -> str:
    if math.isnan(low):
        return _UNDEFINED
    return f"[{_number(low, signed=signed)}, {_number(high, signed=signed)}]"


def _number(value: float, decimals: int = 3, *, signed: bool = False) -> str:
    if math.isnan(value):
        return _UNDEFINED
    rounded = round(value, decimals) + 0.0  # no negative zero
    return f"{rounded:+.{decimals}f}" if signed else f"{rounded:.{decimals}f}"


def _shortened(text: str, width: int = 12) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
