"""All checks of a NUTS fit, and their verdict on whether the posterior can be believed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.diagnosis.checks import (
    CalibrationCheck,
    LeaveOneOutCheck,
    PredictiveChecks,
    calibration_check,
    leave_one_out_check,
    left_out_probabilities,
    predictive_checks,
)
from analysis.diagnosis.diagnosis_figures import (
    calibration_figure,
    chains_figure,
    pareto_figure,
    predictive_figure,
)
from analysis.diagnosis.diagnosis_tables import chain_table, convergence_table, sensitivity_table
from analysis.diagnosis.identifiability import (
    FlatDirection,
    flat_direction,
    learning,
    parameter_labels,
    priors,
    total_log_likelihood,
)
from analysis.diagnosis.prior_sensitivity import prior_sensitivity
from analysis.diagnosis.verdict import (
    COMPOSITE,
    WEIGHTED,
    Finding,
    calibration_finding,
    learning_findings,
    loo_finding,
    predictive_finding,
    sampling_findings,
    sensitivity_finding,
)
from analysis.display.document import Block, Document, LeftOut, Paragraph, Picture, Section, Severity, Verdict
from analysis.display.folders import ResultFolder, versions
from analysis.display.results import Result, axes_or_new
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, row_labels
from analysis.display.text import listed
from bayes_direag.data.remarks import level_remarks
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import ESS_PER_CHAIN, SamplerSummary, chain_statistics, convergence, sampled_draws
from bayes_direag.fits.fit import Fit
from bayes_direag.model.settings import SamplingSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORST_SHOWN = 5
_PICTURES = ("chains", "predictive", "calibration", "pareto")

DIAGNOSIS_FOLDER = ResultFolder("diagnosis", "diagnosis.json", ("parameters",), _PICTURES)


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """The results of all checks of a NUTS fit.

    Attributes
    ----------
    fit : Fit
        The fit.
    parameters : DataFrame
        One row per raw parameter (and level), then intercept and slope of the final calibration unless there is none:
        R-hat, effective draws, Monte-Carlo error, and what the labels have taught.
    chains : DataFrame
        One row per chain: divergences, trajectories cut short, BFMI, acceptance and step size.
    sensitivity : DataFrame
        How far priors and labels pull on each quantity.
    flat : FlatDirection
        The direction that the labels constrain least.
    predictive, calibration, loo
        Posterior predictive checks; the calibration of left-out support and confidence; leave-one-out density, and
        the questions of large Pareto k.
    n_several_correct : int
        Number of questions with several right answers.
    is_weighted : bool
        Whether the likelihood weighs questions unequally; predictive and leave-one-out figures then mean nothing.
    sampling : SamplingSettings
        How the fit was sampled.
    interval_level : float
        Probability of all intervals.
    seed : int
        Seed of what the calibration checks draw.
    """

    fit: Fit
    parameters: pd.DataFrame
    chains: pd.DataFrame
    flat: FlatDirection
    sensitivity: pd.DataFrame
    predictive: PredictiveChecks
    calibration: dict[str, CalibrationCheck]
    loo: LeaveOneOutCheck
    n_several_correct: int
    is_weighted: bool
    sampling: SamplingSettings
    interval_level: float
    seed: int

    @property
    def summary(self) -> SamplerSummary:
        """The worst figures of the sampler."""
        return SamplerSummary.of(self.parameters, self.chains)

    @property
    def verdict(self) -> tuple[Finding, ...]:
        """What is fine, what is not, and what to do, sentence by sentence."""
        findings = [WEIGHTED] if self.is_weighted else []
        if self.fit.partial:
            findings.append(COMPOSITE)
        findings += sampling_findings(self.parameters, self.chains, self.sampling)
        findings += learning_findings(self.parameters, self.flat)
        findings.append(sensitivity_finding(self.sensitivity))
        findings += [Finding("warning", "levels", remark) for remark in level_remarks(self.fit.fitted)]
        if not self.is_weighted:
            findings.append(predictive_finding(self.predictive))
            several = self.n_several_correct
            findings += [calibration_finding(name, self.calibration, several) for name in self.calibration]
            findings.append(loo_finding(self.loo))
        return tuple(findings)

    @property
    def believable(self) -> bool:
        """Whether the draws are draws from the posterior, as far as can be seen: the verdict then holds no failure."""
        return self.summary.converged

    def __repr__(self) -> str:
        return f"Diagnosis(believable: {'yes' if self.believable else 'NO'}; {self.summary})"

    @property
    def table(self) -> pd.DataFrame:
        """The parameters: how well the chains agree, and how much the labels have changed each."""
        return self.parameters

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the effective draws of every parameter, bulk and tail, and how many are expected."""
        rows = self.parameters
        place = np.arange(len(rows))[::-1]
        with axes_or_new(ax) as axes:
            axes.axvline(ESS_PER_CHAIN * len(self.chains), color=REFERENCE, linewidth=1)
            axes.plot(rows["ess_bulk"], place, "o", color=RIGHT, label="bulk")
            axes.plot(rows["ess_tail"], place, "s", color=WRONG, label="tail")
            axes.set_xlim(left=0)
            row_labels(axes, list(parameter_labels(rows)))
            axes.set_xlabel("effective draws (line: expected at least)")
            axes.legend()
        return axes

    def blocks(self, *, everything: bool = True) -> Iterator[Block]:
        """Yield whether to believe the fit, every finding and table, or what is found and the worst parameters."""
        if self.believable:
            text = "Believable: yes, the draws are draws from this model's posterior, as far as can be seen."
            care = any(finding.status == "warning" for finding in self.verdict)
            yield Paragraph(f"{text} See what is marked care." if care else text, "fine")
        else:
            text = "Believable: NO. Mend the sampling first; every other figure rests on these draws."
            yield Paragraph(text, "failure")
        if everything:
            yield Verdict(tuple((finding.status, finding.text) for finding in self.verdict))
            yield convergence_table(self.parameters, len(self.chains))
            yield chain_table(self.chains)
            yield sensitivity_table(self.sensitivity)
            return
        told = [one for one in self.verdict if one.topic == "sampling" or one.status != "fine"]
        fine = list(dict.fromkeys(one.topic for one in self.verdict if one not in told))
        nothing: list[tuple[Severity, str]] = [("fine", f"Nothing found in {listed(fine)}: --all.")] if fine else []
        yield Verdict((*((one.status, one.text) for one in told), *nothing))
        yield convergence_table(self.parameters, len(self.chains), _WORST_SHOWN)

    def document(self) -> Document:
        """Return the verdict, tables and pictures."""
        sections = (
            Section("checks", "Checks", tuple(self.blocks())),
            Section("pictures", "Pictures", tuple(self.pictures())),
        )
        return Document("Can this posterior be believed?", repr(self.fit), "", sections)

    def write(self, folder: str | Path) -> None:
        """Write the folder that ``direag diagnose --out`` writes: the record, the parameters and the pictures."""
        figures = {picture.name: picture.figure for picture in self.pictures() if isinstance(picture, Picture)}
        DIAGNOSIS_FOLDER.write(folder, self.record, {"parameters": self.parameters}, figures)

    def pictures(self) -> Iterator[Picture | LeftOut]:
        """Draw the checks; with a weighted likelihood only those that are valid there."""
        with figure_style():
            yield Picture("chains", chains_figure(self.fit, self.parameters))
            if self.is_weighted:
                for name in ("predictive", "calibration", "pareto"):
                    yield LeftOut(name, "it means nothing where questions are weighted unequally")
                return
            yield Picture("predictive", predictive_figure(self.predictive, self.interval_level))
            yield Picture("calibration", calibration_figure(self.calibration))
            yield Picture("pareto", pareto_figure(self.fit.left_out))

    @property
    def record(self) -> dict[str, object]:
        """All of it, for JSON."""
        about, fit = self.fit.tree.attrs, {"preset": self.fit.preset, "seed": int(self.fit.tree.attrs["seed"])}
        fit |= {name: about[name] for name in ("dataset", "model", "variant", "observations_sha256")}
        found = {"believable": self.believable, "verdict": self.verdict, **vars(self), "fit": fit}
        return found | {"versions": versions("arviz-stats", "numpy", "scipy")}


def diagnose(fit: Fit, *, interval_level: float = 0.9, seed: int = 0) -> Diagnosis:
    """Check the sampling, what has been learned, what the model predicts, and each question's influence.

    Parameters
    ----------
    fit
        A NUTS fit.
    interval_level
        Probability that predictive intervals and bands hold, strictly between 0 and 1.
    seed
        Seed of what the calibration checks draw; nothing else is random.

    Raises
    ------
    DirEAGError
        If the fit is a MAP, or the level is out of range.
    """
    sampling = fit.sampling
    if sampling is None:
        raise DirEAGError(
            "this fit is a MAP, a single draw, which has no diagnostics; expected a NUTS fit. Fit again with fit_nuts "
            "(direag fit --method nuts)."
        )
    if not 0 < interval_level < 1:
        raise DirEAGError(f"interval level {interval_level}: expected a probability between 0 and 1, such as 0.9.")
    raw, sampled = fit.draws("raw"), sampled_draws(fit)
    prior = priors(fit, sampled)
    log_likelihood = total_log_likelihood(fit)
    flat = flat_direction(raw, prior, log_likelihood)
    left_out = fit.left_out
    correct = left_out["correct"].to_numpy()
    return Diagnosis(
        fit=fit,
        parameters=convergence(sampled).merge(learning(sampled, prior), on=["parameter", "level"]),
        chains=chain_statistics(fit.tree["sample_stats"].to_dataset()),
        flat=flat,
        sensitivity=prior_sensitivity(fit, prior, log_likelihood),
        predictive=predictive_checks(fit, interval_level),
        calibration={
            name: calibration_check(
                stated,
                correct,
                interval_level=interval_level,
                rng=np.random.default_rng(seed),
                cluster=fit.fitted.cluster_number,
            )
            for name, stated in left_out_probabilities(fit).items()
        },
        loo=leave_one_out_check(fit),
        n_several_correct=int((fit.tree["labels"]["correct"].to_numpy().sum(axis=1) > 1).sum()),
        is_weighted=fit.preset.is_weighted,
        sampling=sampling,
        interval_level=interval_level,
        seed=seed,
    )
