"""The figures of all checks of a NUTS fit, and the verdict that follows from them."""

from dataclasses import dataclass

import pandas as pd

from analysis.diagnosis.checks import CalibrationCheck, LeaveOneOutSummary, PredictiveChecks
from analysis.diagnosis.identifiability import CommonScale, FlatDirection
from analysis.diagnosis.verdict import (
    WEIGHTED,
    Finding,
    calibration_finding,
    learning_findings,
    loo_finding,
    predictive_finding,
    sampling_findings,
)
from bayes_direag.data.remarks import level_remarks
from bayes_direag.fits.convergence import SamplerSummary
from bayes_direag.fits.fit import Fit
from bayes_direag.model.settings import SamplingSettings


@dataclass(frozen=True, eq=False)
class FitChecks:
    """The figures of all checks of a NUTS fit.

    Attributes
    ----------
    fit : Fit
        The fit.
    parameters : DataFrame
        One row per raw parameter (and level), then intercept and slope of the final calibration unless there is none:
        R-hat, effective draws, Monte-Carlo error, and what the labels have taught.
    chains : DataFrame
        One row per chain: divergences, trajectories cut short, BFMI, acceptance and step size.
    correlations : DataFrame
        Of every pair of raw parameters, the strongest first.
    flat, scale
        The direction that the labels constrain least, and the common scale of weight, prior_strength and null_base.
    predictive, calibration, loo, pareto, worst
        Posterior predictive checks; the calibration of left-out support and confidence; leave-one-out density; counts
        by Pareto k, and the questions of largest k.
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
    correlations: pd.DataFrame
    flat: FlatDirection
    scale: CommonScale
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

    @property
    def summary(self) -> SamplerSummary:
        """The worst figures of the sampler."""
        return SamplerSummary.of(self.parameters, self.chains)

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
        return self.summary.converged
