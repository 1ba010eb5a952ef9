"""All checks of a NUTS fit, and their verdict on whether the posterior can be believed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.diagnosis.checks import (
    CalibrationCheck,
    LeaveOneOutSummary,
    PredictiveChecks,
    calibration_check,
    left_out_probabilities,
    loo_summary,
    pareto_counts,
    predictive_checks,
    worst_questions,
)
from analysis.diagnosis.diagnosis_figures import (
    calibration_figure,
    chains_figure,
    learning_figure,
    pairs_figure,
    pareto_figure,
    predictive_figure,
)
from analysis.diagnosis.identifiability import (
    FlatDirection,
    Scale,
    correlations,
    flat_direction,
    learning,
    parameter_labels,
    priors,
    scale,
    total_log_likelihood,
)
from analysis.diagnosis.verdict import (
    WEIGHTED,
    Finding,
    calibration_finding,
    learning_findings,
    loo_finding,
    predictive_finding,
    sampling_findings,
)
from analysis.display.folders import ResultFolder, versions
from analysis.display.page import Verdict
from analysis.display.results import Result, axes_or_new, write_result_report
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, row_labels
from bayes_direag.data.level_remarks import level_remarks
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import (
    ESS_LIMIT,
    SamplerSummary,
    chain_statistics,
    convergence,
    sampled_draws,
)
from bayes_direag.fits.fit import Fit
from bayes_direag.model.settings import SamplingSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FIGURES: "Mapping[str, Callable[[Diagnosis], Figure]]" = MappingProxyType(
    {
        "chains": lambda of: chains_figure(of.fit, of.parameters),
        "pairs": lambda of: pairs_figure(of.fit, of.correlations),
        "learning": lambda of: learning_figure(of.fit, of.parameters),
        "predictive": lambda of: predictive_figure(of.predictive, of.interval_level),
        "calibration": lambda of: calibration_figure(of.calibration),
        "pareto": lambda of: pareto_figure(of.fit.left_out),
    }
)
"""Each makes its figure within :func:`~analysis.display.style.figure_style`."""

FOLDER = ResultFolder("diagnosis", "diagnosis.json", ("parameters",), tuple(FIGURES))


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """The results of all checks of a NUTS fit.

    ``parameters``: one row per raw parameter (and level), then intercept and slope of the recalibration unless it has
    none: :func:`~bayes_direag.fits.convergence.convergence` and :func:`~analysis.diagnosis.identifiability.learning`.
    ``chains``: :func:`~bayes_direag.fits.convergence.chain_statistics`. ``correlations``: of the raw parameters.
    ``calibration``: of the leave-one-out ``support`` and of the ``confidence`` made of it. ``n_several_correct``:
    questions with several right answers. ``is_weighted``: whether the likelihood weighs questions unequally; predictive
    and leave-one-out figures then mean nothing. ``sampling``: how the fit was sampled. ``interval_level``: of all
    intervals. ``seed``: of what the calibration checks draw.
    """

    fit: Fit
    parameters: pd.DataFrame
    chains: pd.DataFrame
    correlations: pd.DataFrame
    flat: FlatDirection
    scale: Scale
    predictive: PredictiveChecks
    calibration: dict[str, CalibrationCheck]
    loo: LeaveOneOutSummary
    pareto: pd.DataFrame
    worst: pd.DataFrame
    n_several_correct: int
    is_weighted: bool
    sampling: SamplingSettings
    interval_level: float
    seed: int

    def __repr__(self) -> str:
        return f"Diagnosis(believable: {'yes' if self.believable else 'NO'}; {self._summary})"

    @property
    def _summary(self) -> SamplerSummary:
        return SamplerSummary.of(self.parameters, self.chains)

    @property
    def table(self) -> pd.DataFrame:
        """The parameters: how well the chains agree, and how much the labels have changed each."""
        return self.parameters

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the effective draws of every parameter, bulk and tail, and how many are expected."""
        rows = self.parameters
        place = np.arange(len(rows))[::-1]
        with axes_or_new(ax) as axes:
            axes.axvline(ESS_LIMIT, color=REFERENCE, linewidth=1)
            axes.plot(rows["ess_bulk"], place, "o", color=RIGHT, label="bulk")
            axes.plot(rows["ess_tail"], place, "s", color=WRONG, label="tail")
            axes.set_xlim(left=0)
            row_labels(axes, list(parameter_labels(rows)))
            axes.set_xlabel("effective draws (line: expected at least)")
            axes.legend()
        return axes

    def write(self, folder: str | Path) -> None:
        """Write the folder that ``direag diagnose --out`` writes: the record, the parameters and the pictures."""
        FOLDER.write(folder, self.record, {"parameters": self.parameters}, self._figures())

    def _figures(self) -> "dict[str, Figure]":
        with figure_style():
            return {name: figure_of(self) for name, figure_of in FIGURES.items()}

    @property
    def record(self) -> dict[str, object]:
        """All of it, for JSON."""
        about, fit = self.fit.tree.attrs, {"preset": self.fit.preset, "seed": int(self.fit.tree.attrs["seed"])}
        fit |= {name: about[name] for name in ("dataset", "model", "variant", "observations_sha256")}
        found = {"believable": self.believable, "verdict": self.verdict, **vars(self), "fit": fit}
        return found | {"versions": versions("arviz-stats", "numpy", "scipy")}

    def report(self, path: str | Path) -> None:
        """Write verdict, tables and pictures as one HTML file."""
        verdict = Verdict(tuple((finding.status, finding.text) for finding in self.verdict))
        tables = {"parameters": self.parameters, "chains": self.chains, "predictive checks": self.predictive.table}
        title = "Can this posterior be believed?"
        write_result_report(path, title, repr(self.fit), tables, self._figures(), (verdict,))

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """What is fine, what is not, and what to do, sentence by sentence."""
        findings = [WEIGHTED] if self.is_weighted else []
        findings += sampling_findings(self.parameters, self.chains, self.sampling)
        findings += learning_findings(self.parameters, self.flat, self.scale)
        findings += [Finding("warning", "levels", remark) for remark in level_remarks(self.fit.fitted)]
        if not self.is_weighted:
            findings.append(predictive_finding(self.predictive))
            several = self.n_several_correct
            findings += [calibration_finding(name, self.calibration, several) for name in self.calibration]
            findings.append(loo_finding(self.pareto, self.worst))
        return tuple(findings)

    @property
    def believable(self) -> bool:
        """Whether the draws are draws from the posterior, as far as can be seen: the verdict then holds no failure."""
        return self._summary.converged


def diagnose(fit: Fit, *, interval_level: float = 0.9, seed: int = 0) -> Diagnosis:
    """Check the sampling, what has been learned, what the model predicts, and each question's influence.

    Raises DirEAGError if the fit is a MAP or the level is out of range.

    ``fit``: a NUTS fit. ``interval_level``: probability that predictive intervals and bands hold, strictly between 0
    and 1. ``seed``: of what the calibration checks draw; nothing else is random.
    """
    sampling = fit.sampling
    if sampling is None:
        raise DirEAGError(
            "this fit is a MAP, a single draw, which has no diagnostics; expected a NUTS fit. Fit again with --method "
            "nuts (fit_nuts)."
        )
    if not 0 < interval_level < 1:
        raise DirEAGError(f"interval level {interval_level}: expected a probability between 0 and 1, such as 0.9.")
    raw, sampled = fit.draws("raw"), sampled_draws(fit)
    prior = priors(fit, sampled)
    flat = flat_direction(raw, prior, total_log_likelihood(fit))
    left_out = fit.left_out
    correct = left_out["correct"].to_numpy()
    return Diagnosis(
        fit=fit,
        parameters=convergence(sampled).merge(learning(sampled, prior), on=["parameter", "level"]),
        chains=chain_statistics(fit.tree["sample_stats"].to_dataset()),
        correlations=correlations(raw),
        flat=flat,
        scale=scale(fit, prior, flat),
        predictive=predictive_checks(fit, interval_level),
        calibration={
            name: calibration_check(stated, correct, interval_level=interval_level, rng=np.random.default_rng(seed))
            for name, stated in left_out_probabilities(fit).items()
        },
        loo=loo_summary(fit),
        pareto=pareto_counts(left_out["pareto_k"].to_numpy()),
        worst=worst_questions(fit),
        n_several_correct=int((fit.tree["labels"]["correct"].to_numpy().sum(axis=1) > 1).sum()),
        is_weighted=fit.preset.is_weighted,
        sampling=sampling,
        interval_level=interval_level,
        seed=seed,
    )
