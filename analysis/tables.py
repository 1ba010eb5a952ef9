"""Tables as a person reads them in a terminal."""

import math
from collections.abc import Sequence

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from analysis.evaluation import Evaluation
from bayes_direag.fit import Fit
from bayes_direag.observations import ObservationQuality, Status

#: Metric, column header, and whether more of it is better.
_COLUMNS = (
    ("accuracy", "acc", True),
    ("ece", "ECE", False),
    ("adaptive_ece", "aECE", False),
    ("smece", "smECE", False),
    ("brier", "Brier", False),
    ("nll", "NLL", False),
    ("auroc", "AUROC", True),
    ("pr_positive", "PR-P", True),
    ("pr_negative", "PR-N", True),
)
_WITH_INTERVAL = ("accuracy", "brier", "nll")
_STATUS_HEADERS = {
    Status.USABLE: "usable",
    Status.ABSENT: "absent",
    Status.NO_ANSWER: "no answer",
    Status.UNPARSABLE: "unreadable answer",
    Status.NO_CONFIDENCE: "no confidence",
}


def metrics_table(evaluation: Evaluation, title: str) -> Table:
    """Return the metrics by method, the best of each column in bold; 80 characters wide."""
    metrics = evaluation.metrics
    table = _table(title, "↑ more is better, ↓ less; best in bold. ECE, aECE: 10 bins of equal width, count.")
    table.add_column("method", no_wrap=True)
    counts = ["n", "unanswered"] if metrics["unanswered"].any() else ["n"]
    for header in counts:
        table.add_column(header.replace("unanswered", "none"), justify="right")
    if len(counts) > 1:
        table.caption = f"{table.caption}\nMetrics are over the n answered questions; none: further ones without an answer."
    for _, header, more_is_better in _COLUMNS:
        table.add_column(f"{header}{'↑' if more_is_better else '↓'}", justify="right", no_wrap=True)
    rounded = metrics[[name for name, _, _ in _COLUMNS]].round(3)
    for position, row in enumerate(metrics.to_dict("records")):
        cells = [str(row["method"]), *(str(row[name]) for name in counts)]
        for name, _, more_is_better in _COLUMNS:
            best = rounded[name].max() if more_is_better else rounded[name].min()
            cells.append(_bold(_short(row[name]), when=rounded[name].iloc[position] == best))
        table.add_row(*cells)
    return table


def interval_table(evaluation: Evaluation) -> Table:
    """Return the bootstrap intervals of a few metrics by method."""
    table = _table(
        f"With {evaluation.interval_level:.0%} intervals", "Percentile bootstrap over questions. All metrics: metrics.csv."
    )
    table.add_column("method", no_wrap=True)
    headers = {name: header for name, header, _ in _COLUMNS}
    for name in _WITH_INTERVAL:
        table.add_column(headers[name], no_wrap=True)
    for row in evaluation.metrics.to_dict("records"):
        cells = [
            f"{_short(row[name])} \\[{_short(row[f'{name}_low'])}, {_short(row[f'{name}_high'])}]" for name in _WITH_INTERVAL
        ]
        table.add_row(str(row["method"]), *cells)
    return table


def quality_table(quality: ObservationQuality, title: str) -> Table:
    """Return how many observations of each level are usable, and why the others are not."""
    table = _table(title)
    table.caption = (
        f"{quality.n_questions} questions: {quality.n_answered} answered, {quality.n_labelled} labelled, "
        f"{quality.n_gold_generated} with a right answer among the candidates"
    )
    if quality.n_several_correct:
        table.caption += f", {quality.n_several_correct} with several"
    if quality.n_conflicts:
        table.caption += f"; {quality.n_conflicts} answers judged both right and wrong (the majority was taken)"
    table.add_column("level")
    for status in Status:
        table.add_column(_STATUS_HEADERS[status], justify="right")
    for name, counts in zip(quality.level_names, quality.counts, strict=True):
        table.add_row(name, *(str(count) if count else "·" for count in counts))
    return table


def parameter_table(fit: Fit, title: str) -> Table:
    """Return the parameters of a fit, one row a level and one column a parameter, then those without levels."""
    rows = fit.parameters()
    table = _table(title)
    table.caption = (
        "relative: in units of the total weight of all levels. Multiplying weight, prior_strength and null_base by one constant "
        "changes no prediction, so it is the relative values that the data speak of."
    )
    for header in ("parameter", "level"):
        table.add_column(header)
    single = bool(rows["sd"].isna().all())
    columns = [("mean", "value" if single else "mean")] + ([] if single else [("sd", "sd")])
    columns += [("relative", "relative"), ("raw", "raw")]
    for _, header in columns:
        table.add_column(header, justify="right")
    for row in rows.to_dict("records"):
        level = row["level"] if isinstance(row["level"], str) else ""
        table.add_row(str(row["parameter"]), level, *(_number(row[name]) for name, _ in columns))
    return table


def reliability_table(predictions: pd.DataFrame, method: str, *, n_bins: int = 10) -> Table:
    """Return a reliability diagram in characters: stated against realised, bin by bin."""
    rows = predictions[(predictions["method"] == method) & predictions["correct"].notna()].dropna(subset="confidence")
    table = _table(f"Reliability of {method}", "says ▒: mean confidence. is █: share right. Calibrated: equal lengths.")
    for header in ("confidence", "n", "says", "is", ""):
        table.add_column(header, justify="left" if not header else "right")
    edges = [i / n_bins for i in range(n_bins + 1)]
    bins = pd.cut(rows["confidence"], edges, include_lowest=True, labels=False)
    for number, part in rows.groupby(bins):
        says, is_right = float(part["confidence"].mean()), float(part["correct"].astype(float).mean())
        bars = f"{_bar(says, '▒')}\n{_bar(is_right, '█')}"
        span = f"{edges[int(number)]:.1f}-{edges[int(number) + 1]:.1f}"
        table.add_row(span, str(len(part)), f"{says:.3f}", f"{is_right:.3f}", bars)
    return table


def _table(title: str, caption: str = "") -> Table:
    return Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE_HEAD, padding=0,
        pad_edge=False,
    )  # fmt: skip


def _bar(share: float, character: str, width: int = 40) -> str:
    return character * round(share * width)


def _number(value: float, decimals: int = 4) -> str:
    return "–" if math.isnan(value) else f"{value:.{decimals}f}"


def _short(value: float) -> str:
    """Three decimals without the leading zero."""
    return "–" if math.isnan(value) else f"{value:.3f}".removeprefix("0")


def _bold(text: str, *, when: bool) -> str:
    return f"[bold]{text}[/bold]" if when else text


def as_records(table: pd.DataFrame, columns: Sequence[str] | None = None) -> list[dict[str, object]]:
    """Return a table as JSON-ready records: missing values as None."""
    chosen = table if columns is None else table[list(columns)]
    return [
        {key: None if pd.isna(value) else value for key, value in row.items()}
        for row in chosen.astype(object).to_dict("records")
    ]


def fit_summary(fit: Fit) -> dict[str, object]:
    """Return what a fit is and how it converged, as plain values."""
    stats = fit.tree["sample_stats"].to_dataset()
    attributes = fit.tree.attrs
    return {
        "method": attributes["method"],
        "preset": fit.preset.name,
        "variant": fit.variant,
        "answers": attributes["answers"],
        "dataset": attributes["dataset"],
        "levels": len(fit.level_names),
        "questions": fit.tree["constant_data"].sizes["problem"],
        "recalibration": fit.recalibration.method,
        "penalised_loss": float(stats["loss"].mean()),
        "projected_gradient": float(stats["projected_gradient"].max()),
        "newton_steps": int(stats["n_steps"].max()),
        "seed": int(attributes["seed"]),
        "observations_sha256": attributes["observations_sha256"],
        "versions": attributes["versions"],
    }
