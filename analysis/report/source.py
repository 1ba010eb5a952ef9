"""The input of a report: an evaluation, and its observations and a fit if available."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.runs.evaluated_run import (
    FITS,
    MANIFEST,
    EvaluatedRun,
    HeldOutQuestions,
    held_out_questions,
    read_evaluated_run,
)
from analysis.scores.scoring import Scored, scored_rows
from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.fits.convergence import SamplerSummary, gradient_in_words, sampler_summary
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.map import GRADIENT_TOLERANCE


class Convergence(NamedTuple):
    """How many fits of one variant there are, how many of them converged, and how far the worst of them came."""

    variant: str
    n_fits: int
    n_converged: int
    worst: str


def read_parameters(folder: Path) -> pd.DataFrame:
    """Read the parameters of the fits behind an evaluation; no rows where nothing was fitted."""
    columns = {"fold": "str", "variant": "str", "parameter": "str", "level": "str"}
    path = folder / "parameters.csv"
    if not path.read_text(encoding="utf-8").strip():
        return pd.DataFrame(columns=list(columns))
    missing = ["relative", "projected_gradient"]
    return pd.read_csv(path, dtype=columns, keep_default_na=False, na_values={name: [""] for name in missing})


def convergence_by_variant(folder: Path, parameters: pd.DataFrame, fit_method: str) -> tuple[Convergence, ...]:
    """Judge the fits behind an evaluation, variant by variant: a MAP by its gradient, NUTS by its chains."""
    by_variant = parameters.groupby("variant", sort=False)
    if fit_method == "map":
        return tuple(_of_map(str(variant), rows) for variant, rows in by_variant)
    return tuple(_of_nuts(str(variant), rows["fold"].unique(), folder / FITS) for variant, rows in by_variant)


def _of_map(variant: str, parameters: pd.DataFrame) -> Convergence:
    gradient = parameters.groupby("fold")["projected_gradient"].first().to_numpy(float)
    n_converged = int((gradient <= GRADIENT_TOLERANCE).sum())
    return Convergence(variant, len(gradient), n_converged, gradient_in_words(gradient.max()))


def _of_nuts(variant: str, folds: Iterable[str], folder: Path) -> Convergence:
    summaries = [sampler_summary(Fit.load(folder / f"{variant}-{fold}.nc")) for fold in folds]
    chains, rhat, n_apart, size, bfmi, divergences = map(np.array, zip(*summaries, strict=True))
    worst = SamplerSummary(int(chains.max()), rhat.max(), n_apart.sum(), size.min(), bfmi.min(), divergences.sum())
    return Convergence(variant, len(summaries), sum(summary.converged for summary in summaries), str(worst))


#: The method that a report is about, where it was evaluated.
DIREAG = "direag"

#: What `direag quickstart` calls the parts of its folder.
_EVALUATION, _FIT, _OBSERVATIONS = "evaluation", "fit.nc", "observations.jsonl"


@dataclass(frozen=True, eq=False)
class ReportSource:
    """An evaluation, the parameters and the convergence of the fits behind it, and perhaps a fit of its own."""

    run: EvaluatedRun
    held_out: HeldOutQuestions
    parameters: pd.DataFrame
    fold_fits: tuple[Convergence, ...]
    fit: Fit | None
    fit_path: Path | None

    @property
    def manifest(self) -> Mapping[str, Any]:
        """``evaluation.json``: settings, versions, and where the observations come from."""
        return self.run.manifest

    @property
    def observations(self) -> Observations | None:
        """The evaluated questions, if their file was given: their texts and right answers."""
        return self.held_out.observations

    @property
    def method(self) -> str:
        """The method that the report is about: DirEAG, or the last one evaluated where that was not."""
        methods = self.run.metrics["method"].tolist()
        return DIREAG if DIREAG in methods else str(methods[-1])

    @property
    def metrics(self) -> pd.Series:
        """The metrics of that method."""
        return self.run.metrics[self.run.metrics["method"] == self.method].iloc[0]

    @cached_property
    def answered(self) -> Scored:
        """The answered, labelled questions of the report's method."""
        return scored_rows(self.predictions).answered

    @property
    def predictions(self) -> pd.DataFrame:
        """What the report's method says of every question."""
        return self.run.predictions[self.run.predictions["method"] == self.method]

    @property
    def n_labelled(self) -> int:
        """Number of questions whose right answer is known."""
        return int(self.metrics["n"] + self.metrics["unanswered"])

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the evaluated questions."""
        return tuple((self.manifest["test"] or self.manifest["observations"])["levels"])

    @property
    def about(self) -> str:
        """What was evaluated: dataset and model, or how many there are of them."""
        names = [_one_or_number(self.run.datasets, "datasets"), _one_or_number(self.run.models, "models")]
        return ", ".join(name for name in names if name) or self.run.folder.resolve().name


def read_source(
    folder: str | Path,
    fit: str | Path | None = None,
    observations: str | Path | None = None,
    columns: Columns | None = None,
) -> ReportSource:
    """Read the folder of an evaluation, or that of ``direag quickstart``, whose fit and observations are taken too."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file() and (folder / _EVALUATION / MANIFEST).is_file():
        fit = fit or _if_there(folder / _FIT)
        observations = observations or _if_there(folder / _OBSERVATIONS)
        folder = folder / _EVALUATION
    run = read_evaluated_run(folder)
    parameters = read_parameters(folder)
    return ReportSource(
        run=run,
        held_out=held_out_questions(run, observations, columns),
        parameters=parameters,
        fold_fits=convergence_by_variant(folder, parameters, run.fit_method),
        fit=None if fit is None else Fit.load(fit),
        fit_path=None if fit is None else Path(fit),
    )


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None


def _one_or_number(names: tuple[str, ...], noun: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {noun}" if names else ""
