"""Fits or evaluations against each other: what ``direag compare`` does, as a function."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.comparison.evaluations import compare_evaluations
from analysis.comparison.findings import Findings
from analysis.comparison.leave_one_out import compare_leave_one_out
from analysis.comparison.predictions import compare_predictions
from analysis.display.document import Block, Document, Section, Statements, Terms
from analysis.display.folders import ResultFolder, versions
from analysis.display.results import Result, axes_or_new
from analysis.learned import describe_fit
from analysis.runs.evaluated_run import Evaluated, EvaluatedRun
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COMPARISON_FOLDER = ResultFolder(
    "comparison",
    "comparison.json",
    ("predictions", "metrics", "loo"),
    ("confidence_shift", "metric_differences", "loo"),
)


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """What a comparison found.

    Attributes
    ----------
    described : dict
        What each thing compared is, by its name.
    findings : sequence of Findings
        Its parts: leave-one-out, predictions or evaluations.
    record : dict
        All of it as JSON can hold it.
    """

    described: dict[str, str]
    findings: Sequence[Findings]
    record: dict[str, object]

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.described)}; tables {', '.join(self.tables)})"

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by name."""
        return {name: table for part in self.findings for name, table in part.tables.items()}

    @property
    def table(self) -> pd.DataFrame:
        """The main one of them: leave-one-out, differences of metrics, or predictions of unlabelled questions."""
        return next(iter(self.tables.values()))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the first picture."""
        with axes_or_new(ax) as axes:
            self.findings[0].drawing.draw(axes)
        return axes

    def blocks(self) -> Iterator[Block]:
        """Yield the verdict, what is compared, and the tables."""
        yield Statements(tuple(sentence for part in self.findings for sentence in part.verdict))
        yield Terms("", tuple(self.described.items()))
        for part in self.findings:
            yield from part.blocks

    def document(self) -> Document:
        """Return tables and pictures."""
        pictures = tuple(part.drawing.picture() for part in self.findings)
        sections = Section("tables", "Tables", tuple(self.blocks())), Section("pictures", "Pictures", pictures)
        return Document("How do these compare?", ", ".join(self.described), "", sections)

    def write(self, folder: str | Path) -> None:
        """Write a folder of tables, pictures and the record, as ``direag compare --out`` does."""
        figures = {part.drawing.name: part.drawing.picture().figure for part in self.findings}
        COMPARISON_FOLDER.write(folder, self.record, self.tables, figures)


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
    """Compare two fits by their predictions, NUTS fits by leave-one-out, or evaluations of the same questions.

    Parameters
    ----------
    compared
        Two or more fits, or two or more evaluations, by name.
    observations
        Questions that two fits predict. Without them, NUTS fits are compared by leave-one-out.
    method
        The method to compare between evaluations; by default, ``direag``.
    allow_weighted
        Compare fits by leave-one-out although their preset weighs questions unequally.
    seed, n_resamples
        Seed and number of bootstrap resamples, and of permutations.
    on_step
        Called with the name of each step.

    Raises
    ------
    DirEAGError
        If there are fewer than two, they are not alike, or an argument does not go with them.
    """
    if len(compared) < 2:
        raise DirEAGError(f"saw {len(compared)} to compare; expected two or more fits or evaluations. Name another.")
    runs = {name: evaluation.as_run(name) for name, evaluation in compared.items() if not isinstance(evaluation, Fit)}
    fits = {name: fit for name, fit in compared.items() if isinstance(fit, Fit)}
    _check_arguments(runs, fits, observations, method)
    if runs:
        described = {name: f"{run.fit_method.upper()}, preset {run.preset}; {run.design}" for name, run in runs.items()}
        on_step("comparing evaluations")
        findings = [compare_evaluations(runs, method or "direag", seed=seed, n_resamples=n_resamples)]
    else:
        described = {name: describe_fit(fit) for name, fit in fits.items()}
        findings = []
        if observations is None or all(fit.method == "nuts" for fit in fits.values()):
            findings.append(compare_leave_one_out(fits, allow_weighted=allow_weighted))
        if observations is not None:
            on_step(f"predicting {len(observations)} questions")
            findings.append(compare_predictions(fits, observations, seed=seed, n_resamples=n_resamples))
    record: dict[str, object] = {"compared": described, "seed": seed, "resamples": n_resamples}
    for part in findings:
        record |= part.record
    return Comparison(described, findings, record | {"versions": versions("numpyro", "jax", "numpy", "scipy")})


def _check_arguments(
    runs: Mapping[str, EvaluatedRun], fits: Mapping[str, Fit], observations: Observations | None, method: str | None
) -> None:
    if runs and fits:
        raise DirEAGError("saw fits among evaluations; expected either alone. Compare like with like.")
    if runs and observations is not None:
        raise DirEAGError("observations (--obs): saw evaluation folders; expected them with fits. Leave them out.")
    if fits and method is not None:
        raise DirEAGError(f"method={method!r} (--method): saw fits; expected it with evaluation folders. Leave it out.")
    if observations is not None and len(fits) != 2:
        raise DirEAGError(
            f"observations (--obs): saw {len(fits)} fits; expected two, whose predictions can be set side by side. "
            "Name two, or leave the observations out."
        )
