"""Comparisons as a person reads them in a terminal."""

import math
from collections.abc import Iterator, Mapping

import pandas as pd
from rich.console import Group
from rich.text import Text

from analysis.comparison.comparison import ParameterComparison, PredictionSummary, seen_in_fitting
from analysis.comparison.evaluation_comparison import EvaluationComparison
from analysis.comparison.loo_comparison import LooComparison
from analysis.display.numbers import UNDEFINED, interval, number, shortened
from analysis.display.tables import label_grid, shown_table
from bayes_direag.commands.options import titled
from bayes_direag.inference.loo import LARGEST_PARETO_K

_SHOWN, _WIDEST_HEAD = 10, 8
_SCALES = {
    "raw": "Raw parameters, on the real line where both fits were found: their presets fix the same scale.",
    "relative": "Compared is what does not depend on the common scale of weight, prior_strength and null_base, which "
    "the data cannot see and a preset pins in its own way. _share: of the sum over levels; _relative: in units of it.",
}


def parameter_comparison_table(comparison: ParameterComparison, title: str, heads: tuple[str, str]) -> Group:
    """Return the parameters of two fits side by side, a block a quantity; ``heads`` are what the fits are called."""
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
    distance = "Two points: there is no posterior to say how far apart they are."
    if has_spread:
        distance = f"distance: {heads[0]} less the mean of {heads[1]}, in posterior standard deviations."
    caption = f"{distance} {_SCALES[comparison.scale]}"
    return shown_table(title, ["quantity"], [first, *spread], rows(), caption)


def prediction_table(summary: PredictionSummary, heads: tuple[str, str], interval_level: float) -> Group:
    """Return how far two fits' predictions are apart."""
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
    return titled("Predictions", label_grid(rows), f"Shift: confidence of {heads[1]} less that of {heads[0]}.")


def changed_table(predictions: pd.DataFrame, heads: tuple[str, str], interval_level: float) -> Group:
    """Return the questions whose answer changes, those that both fits are surest of first."""
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
        f"Difference: {heads[1]} less {heads[0]}, with its paired bootstrap interval over questions, the fits as they "
        "are. p: permutation test, for means over questions alone; adjusted for their number (Benjamini and Hochberg). "
        "Which is better, benefit says: accuracy less Brier score of the selected answers. From accuracy on, metrics "
        "are of own answers, where both have one."
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
