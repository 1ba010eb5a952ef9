"""Fits or evaluations against each other: what ``direag compare`` does, as a function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.comparison import comparison_findings as sections
from analysis.display.folders import ResultFolder, versions
from analysis.display.results import Result, axes_or_new, write_result_report
from analysis.display.style import REFERENCE, RIGHT, forest, row_labels
from analysis.runs.evaluated_run import Evaluated
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Of each table: what names its rows, what is drawn of them, and what is added for an interval.
_DRAWN = {
    "loo": (["model"], "difference", "difference_se", "difference in elpd (nats), one standard error"),
    "parameters": (["quantity", "level"], "distance", None, "distance from the posterior mean (posterior sds)"),
    "metrics": (["evaluation", "metric"], "difference", None, "difference, with its interval"),
}


FOLDER = ResultFolder(
    "comparison",
    "comparison.json",
    ("parameters", "predictions", "metrics", "loo"),
    ("parameters", "confidence_shift", "metric_differences", "loo"),
)


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """What a comparison found.

    ``described``: what each thing compared is, by its name. ``findings``: tables, pictures and figures, section by
    section. ``record``: all of it as JSON can hold it.
    """

    described: dict[str, str]
    findings: sections.Findings
    record: dict[str, object]

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.described)}; tables {', '.join(self.tables)})"

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by name."""
        return self.findings.tables

    @property
    def table(self) -> pd.DataFrame:
        """The first of them: parameters, leave-one-out, or differences of metrics."""
        return next(iter(self.tables.values()))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the rows of the table against zero."""
        names, value, error, label = _DRAWN[next(iter(self.tables))]
        rows = self.table[self.table[value].notna()]
        middle = rows[value].to_numpy(float)
        if error is not None:
            low, high = (middle + sign * rows[error].to_numpy(float) for sign in (-1, 1))
        elif value == "distance":
            low, high = ((rows[end] - rows["mean"]).to_numpy(float) / rows["sd"].to_numpy(float)
                         for end in ("low", "high"))  # fmt: skip
        else:
            low, high = (rows[end].to_numpy(float) for end in ("low", "high"))
        shown = [name for name in names if name in rows]
        labels = [" · ".join(str(part) for part in row if not pd.isna(part)) for row in rows[shown].to_numpy(object)]
        with axes_or_new(ax) as axes:
            axes.axvline(0, color=REFERENCE, linewidth=1)
            forest(axes, middle, np.asarray(low), np.asarray(high), colour=RIGHT)
            row_labels(axes, labels)
            axes.set_xlabel(label)
        return axes

    def write(self, folder: str | Path) -> None:
        """Write a folder of tables, pictures and the record, as ``direag compare --out`` does."""
        FOLDER.write(folder, self.record, self.tables, self._figures())

    def _figures(self) -> "dict[str, Figure]":
        return {name: draw() for name, draw in self.findings.pictures.items()}

    def report(self, path: str | Path) -> None:
        """Write tables and pictures as one HTML file."""
        about = "; ".join(f"{name}: {text}" for name, text in self.described.items())
        write_result_report(path, "How do these compare?", about, self.tables, self._figures())


def compare(
    compared: Mapping[str, Fit] | Mapping[str, Evaluated],
    observations: Observations | None = None,
    *,
    method: str | None = None,
    allow_weighted: bool = False,
    seed: int = 0,
    n_resamples: int = 1000,
    on_step: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Compare a MAP with the posterior, NUTS fits by leave-one-out, or evaluations of the same questions.

    Raises DirEAGError if there are fewer than two, they are not alike, or an argument does not go with them.

    ``compared``: two or more fits, or two or more evaluations, by the name of each. ``observations``: of two fits:
    predict these questions from both. ``method``: of evaluations: which one to compare; ``direag`` where left out.
    ``allow_weighted``: use fits although their preset weighs questions unequally.
    """
    if len(compared) < 2:
        raise DirEAGError(f"saw {len(compared)} to compare; expected two or more fits or evaluations. Name another.")
    runs = {name: own.as_run(name) for name, own in compared.items() if not isinstance(own, Fit)}
    if 0 < len(runs) < len(compared):
        raise DirEAGError("saw fits among evaluations; expected either alone. Compare like with like.")
    _check(bool(runs), observations, method)
    findings = sections.Findings()
    if runs:
        described = {name: sections.describe_evaluation(run) for name, run in runs.items()}
        on_step("comparing evaluations")
        sections.add_evaluations(findings, runs, method or "direag", seed=seed, n_resamples=n_resamples)
    else:
        given = {name: one for name, one in compared.items() if isinstance(one, Fit)}
        fits, has_map = _in_order(given, observations)
        described = {name: sections.describe_fit(fit) for name, fit in fits.items()}
        pair = sections.FitPair.of(fits) if len(fits) == 2 else None
        if pair and has_map:
            sections.add_parameters(findings, pair)
        else:
            sections.add_leave_one_out(findings, fits, allow_weighted=allow_weighted)
        if pair and observations is not None:
            on_step(f"predicting {len(observations)} questions")
            sections.add_predictions(findings, pair, observations, seed=seed, n_resamples=n_resamples)
    record = {
        "compared": described,
        "seed": seed,
        "resamples": n_resamples,
        **findings.record,
        "versions": versions("numpyro", "jax", "numpy", "scipy"),
    }
    return Comparison(described, findings, record)


def _in_order(fits: dict[str, Fit], observations: Observations | None) -> tuple[dict[str, Fit], bool]:
    """Return fits, a MAP of two first; say whether one of two is a MAP. Refuse arguments that do not go with them."""
    is_nuts = {name: fit.method == "nuts" for name, fit in fits.items()}
    has_map = len(fits) == 2 and not all(is_nuts.values())
    if observations is not None and len(fits) != 2:
        raise DirEAGError(
            f"--obs: saw {len(fits)} fits; expected two, whose predictions can be set side by side. Name two, or leave "
            "it out."
        )
    return (dict(sorted(fits.items(), key=lambda item: is_nuts[item[0]])) if has_map else fits), has_map


def _check(are_evaluations: bool, observations: object, method: str | None) -> None:
    if are_evaluations and observations is not None:
        raise DirEAGError("--obs: saw evaluation folders; expected it with fits. Leave it out.")
    if not are_evaluations and method is not None:
        raise DirEAGError(f"--method {method}: saw fits; expected it with evaluation folders. Leave it out.")
