"""All checks of a NUTS fit, and their verdict on whether the posterior can be believed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.diagnosis.checks import (
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
from analysis.diagnosis.diagnosis_tables import diagnosis_blocks
from analysis.diagnosis.identifiability import (
    common_scale,
    correlations,
    flat_direction,
    learning,
    parameter_labels,
    priors,
    total_log_likelihood,
)
from analysis.diagnosis.prior_sensitivity import prior_sensitivity
from analysis.diagnosis.verdict import FitChecks
from analysis.display.document import Document, LeftOut, Picture, Section
from analysis.display.folders import ResultFolder, versions
from analysis.display.results import Result, axes_or_new
from analysis.display.style import REFERENCE, RIGHT, WRONG, figure_style, row_labels
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import ESS_PER_CHAIN, chain_statistics, convergence, sampled_draws
from bayes_direag.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PICTURES = ("chains", "pairs", "learning", "predictive", "calibration", "pareto")

DIAGNOSIS_FOLDER = ResultFolder("diagnosis", "diagnosis.json", ("parameters",), _PICTURES)


class Diagnosis(FitChecks, Result):
    """The results of all checks of a NUTS fit: see :class:`~analysis.diagnosis.verdict.FitChecks`."""

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

    def document(self) -> Document:
        """Return the verdict, tables and pictures."""
        pictures = tuple(self.pictures())
        sections = (
            Section("checks", "Checks", tuple(diagnosis_blocks(self, "Parameters"))),
            Section("pictures", "Pictures", pictures),
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
            yield Picture("pairs", pairs_figure(self.fit, self.correlations))
            yield Picture("learning", learning_figure(self.fit, self.parameters))
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
        correlations=correlations(raw),
        flat=flat,
        sensitivity=prior_sensitivity(fit, prior, log_likelihood),
        scale=common_scale(fit, prior, flat),
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
        loo=loo_summary(fit),
        pareto=pareto_counts(left_out["pareto_k"].to_numpy()),
        worst=worst_questions(fit),
        n_several_correct=int((fit.tree["labels"]["correct"].to_numpy().sum(axis=1) > 1).sum()),
        is_weighted=fit.preset.is_weighted,
        sampling=sampling,
        interval_level=interval_level,
        seed=seed,
    )
