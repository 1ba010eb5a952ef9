"""Tables as a person reads them in a terminal of 80 columns.

Each is a rich renderable: a title, the table, and what its columns mean. Text from files (paths, level names) is shown
as it is, whatever markup it looks like.
"""

import json
import math
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from analysis.diagnosis.parameter_draws import raw_draws
from analysis.diagnosis.sampling_checks import ESS_LIMIT, RHAT_LIMIT, convergence
from analysis.evaluation import Evaluation
from bayes_direag.fit import Fit
from bayes_direag.inference import GRADIENT_TOLERANCE
from bayes_direag.observations import ObservationQuality, Status
from bayes_direag.presets import label

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
_UNDEFINED = "\N{EN DASH}"
_WITH_INTERVAL = ("accuracy", "brier", "nll")
_SCALE_NOTE = (
    "share, relative: in units of the total weight. Multiplying weight, prior_strength and null_base by one number "
    "changes no prediction, so the data speak of these ratios, not of the values."
)
_SCALE_NOTE_OF_LEVEL = (
    "share, relative: in units of the total weight. Variant level: the data speak of weight x sigmoid(bias) and "
    "null_gain x weight x sigmoid(-bias), up to a common scale, and of neither weight, bias and null_gain alone nor "
    "of shares and ratios made of them; the prior holds the rest."
)
_STATUS_HEADERS = {
    Status.USABLE: "usable",
    Status.ABSENT: "absent",
    Status.NO_ANSWER: "no\nanswer",
    Status.UNPARSABLE: "unreadable\nanswer",
    Status.NO_CONFIDENCE: "no\nconfidence",
}


def metrics_table(evaluation: Evaluation, title: str) -> Group:
    """Return the metrics by method, the best of each column (to the three decimals shown) in bold."""
    metrics = evaluation.metrics
    caption = "↑ more is better, ↓ less; best in bold. ECE, aECE: 10 bins of equal width, of equal count."
    table = plain_table("method")
    counts = {"n": "n"}
    if metrics["unanswered"].any():
        counts["unanswered"] = "none"
        caption += "\nMetrics are over the n answered questions; none: how many more had no answer."
    for header in counts.values():
        table.add_column(header, justify="right", no_wrap=True)
    for _, header, more_is_better in _COLUMNS:
        table.add_column(f"{header}\n{'↑' if more_is_better else '↓'}", justify="right", no_wrap=True)
    rounded = metrics[[name for name, _, _ in _COLUMNS]].round(3)
    for position, row in enumerate(metrics.to_dict("records")):
        cells = [Text(str(row["method"])), *(Text(str(row[name])) for name in counts)]
        for name, _, more_is_better in _COLUMNS:
            best = rounded[name].max() if more_is_better else rounded[name].min()
            cells.append(Text(_short(row[name]), style="bold" if rounded[name].iloc[position] == best else ""))
        table.add_row(*cells)
    return titled(title, table, caption)


def interval_table(evaluation: Evaluation) -> Group:
    """Return the bootstrap intervals of a few metrics by method."""
    table = plain_table("method")
    headers = {name: header for name, header, _ in _COLUMNS}
    for name in _WITH_INTERVAL:
        table.add_column(headers[name], no_wrap=True)
    for row in evaluation.metrics.to_dict("records"):
        cells = [
            Text(f"{_short(row[name])} [{_short(row[f'{name}_low'])}, {_short(row[f'{name}_high'])}]")
            for name in _WITH_INTERVAL
        ]
        table.add_row(str(row["method"]), *cells)
    return titled(
        f"With {evaluation.settings.interval_level:.0%} intervals",
        table,
        "Percentile bootstrap over questions. Every metric has one in metrics.csv.",
    )


def quality_table(quality: ObservationQuality, title: str) -> Group:
    """Return how many observations of each level are usable, and why the others are not."""
    caption = (
        f"{quality.n_questions} questions: {quality.n_answered} answered, {quality.n_labelled} labelled, "
        f"{quality.n_gold_generated} with a right answer among the candidates"
    )
    if quality.n_several_correct:
        caption += f", {quality.n_several_correct} with several"
    if quality.n_conflicts:
        caption += f"; {quality.n_conflicts} answers judged both right and wrong (the majority was taken)"
    table = plain_table("level")
    for status in Status:
        table.add_column(_STATUS_HEADERS[status], justify="right")
    for name, counts in zip(quality.level_names, quality.counts, strict=True):
        table.add_row(Text(name), *(str(count) if count else "·" for count in counts))
    return titled(title, table, f"{caption}.")


def parameter_tables(fit: Fit) -> Group:
    """Return the parameters of a fit: those that each level has, level by level, then the others.

    A parameter is given by its mean over the posterior draws, and ± its standard deviation where there is more
    than one draw.
    """
    rows = fit.parameters()
    estimates = list(map(_estimate, rows["mean"], rows["sd"]))
    levels = plain_table("level")
    columns: list[list[str]] = []
    for name in ("weight", "bias"):
        mine = np.flatnonzero(rows["parameter"] == name)
        if len(mine):
            levels.add_column(name, justify="right")
            columns.append([estimates[row] for row in mine])
    shares = rows.loc[rows["parameter"] == "weight", "relative"]
    levels.add_column("share", justify="right")
    for level, *cells in zip(fit.level_names, *columns, [_number(share, 3) for share in shares], strict=True):
        levels.add_row(Text(level), *cells)
    free = fit.variant == "level" and fit.preset.null_gain.fixed is None
    single = plain_table("parameter")
    for header in ("value", "relative"):
        single.add_column(header, justify="right")
    for row in np.flatnonzero(rows["level"].isna()):
        single.add_row(rows["parameter"].iloc[row], estimates[row], _number(rows["relative"].iloc[row]))
    return Group(
        titled("What counts, level by level", levels),
        titled("Parameters of all levels together", single, _SCALE_NOTE_OF_LEVEL if free else _SCALE_NOTE),
    )


class FitSummary(TypedDict):
    """What a fit is and how it converged, as JSON can hold it."""

    method: str
    preset: str
    variant: str
    answers: str
    dataset: str
    model: str
    questions: int
    levels: list[str]
    recalibration: str
    weighted: bool
    converged: bool
    penalised_loss: NotRequired[float]
    projected_gradient: NotRequired[float]
    newton_steps: NotRequired[int]
    chains: NotRequired[int]
    draws: NotRequired[int]
    largest_rhat: NotRequired[float]
    smallest_ess: NotRequired[float]
    divergences: NotRequired[int]
    seed: int
    observations_sha256: str
    versions: dict[str, str]


def fit_summary(fit: Fit) -> FitSummary:
    """Say what a fit is and how it converged: a MAP by its gradient, NUTS by its chains."""
    attributes = fit.tree.attrs
    summary = {
        "method": attributes["method"],
        "preset": label(fit.preset),
        "variant": fit.variant,
        "answers": attributes["answers"],
        "dataset": attributes["dataset"],
        "model": attributes["model"],
        "questions": fit.n_questions,
        "levels": list(fit.level_names),
        "recalibration": fit.recalibration.method,
        "weighted": fit.preset.is_weighted,
        **(_sampled(fit) if attributes["method"] == "nuts" else _optimised(fit)),
        "seed": int(attributes["seed"]),
        "observations_sha256": attributes["observations_sha256"],
        "versions": json.loads(attributes["versions"]),
    }
    return cast(FitSummary, summary)


def _optimised(fit: Fit) -> dict[str, Any]:
    stats = fit.tree["sample_stats"].to_dataset()
    gradient = float(stats["projected_gradient"].max())
    return {
        "converged": gradient <= GRADIENT_TOLERANCE,
        "penalised_loss": float(stats["loss"].mean()),
        "projected_gradient": gradient,
        "newton_steps": int(stats["n_steps"].max()),
    }


def _sampled(fit: Fit) -> dict[str, Any]:
    """Judge the raw parameters by the limits of a diagnosis; an undefined R-hat or size is a failure."""
    table = convergence(raw_draws(fit))
    rhat = float(table["rhat"].to_numpy(float).max())  # of a NaN and a number numpy takes the NaN
    size = float(table[["ess_bulk", "ess_tail"]].to_numpy(float).min())
    divergences = int(fit.tree["sample_stats"]["diverging"].sum())
    sizes = fit.tree["posterior"].sizes
    return {
        "converged": rhat < RHAT_LIMIT and size > ESS_LIMIT and divergences == 0,
        "chains": sizes["chain"],
        "draws": sizes["draw"],
        "largest_rhat": rhat,
        "smallest_ess": size,
        "divergences": divergences,
    }


def summary_table(fit: Fit, title: str) -> Group:
    """Return :func:`fit_summary` in words."""
    summary = fit_summary(fit)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    sampled = summary["method"] == "nuts"
    inner = fit.preset.recalibration.out_of_fold
    where = f"out-of-fold support, {inner} folds" if inner else "the questions fitted to"
    where = "leave-one-out support" if sampled else where
    method = summary["recalibration"]
    rows = {
        "method": "NUTS, the whole posterior" if sampled else "MAP, the mode of the posterior",
        "evidence": f"variant {summary['variant']}, preset {summary['preset']}",
        "learned from": f"{summary['questions']} questions with {summary['answers']} answers",
        "dataset, model": f"{summary['dataset']}; {summary['model']}",
        "levels": f"{len(summary['levels'])}: {', '.join(summary['levels'])}",
        "recalibration": method if method == "none" else f"{method}, on {where}",
    }
    if summary["weighted"]:
        rows["NOTE"] = "questions are weighted unequally: intervals and leave-one-out have no meaning of their own"
    rows["converged"] = f"{'yes' if summary['converged'] else 'NO'}: {_reached(summary)}"
    if sampled:
        rows["draws"] = f"{summary['draws']} of each of {summary['chains']} chains"
    else:
        rows["penalised loss"] = f"{summary['penalised_loss']:.6f}"
    rows |= {
        "seed": str(summary["seed"]),
        "observations": f"SHA-256 {summary['observations_sha256'][:16]}…",
        "versions": ", ".join(f"{name} {number}" for name, number in summary["versions"].items()),
    }
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value))
    return titled(title, table)


def _reached(summary: FitSummary) -> str:
    if summary["method"] == "nuts":
        return (
            f"R-hat at most {summary['largest_rhat']:.3f} (below {RHAT_LIMIT}), effective draws at least "
            f"{summary['smallest_ess']:.0f} (above {ESS_LIMIT:.0f}), {summary['divergences']} divergences (none)"
        )
    return f"the largest gradient is {summary['projected_gradient']:.1g} after {summary['newton_steps']} Newton steps"


def reliability_table(predictions: pd.DataFrame, method: str) -> Group:
    """Return a reliability diagram in characters: stated against realised, over the 10 bins of the ECE.

    Bins are ``(i/10, (i+1)/10]``, the first also closed on the left; those without a question are left out, as
    are questions that are unanswered or not labelled.
    """
    rows = predictions[predictions["method"] == method].dropna(subset=["confidence", "correct"])
    confidence, correct = rows["confidence"].to_numpy(float), rows["correct"].to_numpy(bool)
    table = plain_table()
    for header in ("confidence", "n", "says", "right"):
        table.add_column(header, justify="right")
    table.add_column()
    bins = np.searchsorted(np.arange(1, 10) / 10, confidence, side="left")
    for number in np.unique(bins):
        here = bins == number
        says, right = float(confidence[here].mean()), float(correct[here].mean())
        span = f"{number / 10:.1f}-{(number + 1) / 10:.1f}"
        bars = f"{_bar(says, '▒')}\n{_bar(right, '█')}"
        table.add_row(span, str(here.sum()), f"{says:.3f}", f"{right:.3f}", bars)
    return titled(
        f"Reliability of {method}",
        table,
        "says ▒: mean confidence. right █: share of right answers. Calibrated: equally long.",
    )


def plain_table(*headers: str) -> Table:
    """Return an empty table in the style of all of them; its first columns, if named, fold where they are too wide."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def titled(title: str, table: Table, caption: str = "") -> Group:
    """Put a title over a table and a caption under it, each free to be wider than it, and a blank line at the end."""
    above, below = Text(title, style="italic"), Text(caption, style="dim italic")
    return Group(above, table, *([below] if caption else []), "")


def _bar(share: float, character: str, width: int = 40) -> str:
    return character * round(share * width)


def _estimate(mean: float, sd: float) -> str:
    return _number(mean) if math.isnan(sd) or sd == 0 else f"{_number(mean)} ± {_number(sd)}"


def _number(value: float, decimals: int = 4) -> str:
    return _UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"


def _short(value: float) -> str:
    """Three decimals without the leading zero."""
    return _UNDEFINED if math.isnan(value) else f"{value:.3f}".removeprefix("0")
