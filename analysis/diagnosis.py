"""Whether a posterior can be believed: ArviZ's checks of a NUTS fit, and the calibration of left-out answers."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from analysis.display.document import Block, Cell, Column, LeftOut, Picture, Result, Severity, Table, Verdict
from analysis.display.folders import ResultFolder, versions
from analysis.display.style import RIGHT, figure_style, head_figure, reliability_figure, row_labels
from analysis.display.text import number
from analysis.scores.calibration import Calibration, binned_reliability, judge_calibration
from bayes_direag.data.remarks import level_remark
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import (
    ESS_PER_CHAIN,
    SamplerSummary,
    convergence,
    convergence_verdict,
    sampler_summary,
)
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.inference.loo import LARGEST_PARETO_K

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIAGNOSIS_FOLDER = ResultFolder("diagnosis", "diagnosis.json", ("parameters",), ("ranks", "pareto_k", "left_out"))
#: Rows of a short table, and names in a sentence.
_WORST, _NAMED = 5, 3
#: A parameter that moves less if the likelihood is raised to a power is decided by the prior alone (ArviZ's limit).
_STILL = 0.05


@dataclass(frozen=True, eq=False)
class Diagnosis(Result):
    """The results of all checks of a NUTS fit.

    Attributes
    ----------
    fit : Fit
        The fit.
    summary : SamplerSummary
        The worst figures of the sampler.
    parameters : DataFrame
        A row for each number of :func:`~bayes_direag.fits.parameters.identified_draws`, the worst R-hat first: ArviZ's
        diagnostics, and how far ``prior`` and ``likelihood`` pull on it (:func:`prior_or_labels`).
    loo : ELPDData
        ArviZ's leave-one-out density, with the Pareto k of each question.
    calibration : dict
        The calibration of the support of left-out answers, and of their final probability.
    """

    fit: Fit
    summary: SamplerSummary
    parameters: pd.DataFrame
    loo: Any
    calibration: dict[str, Calibration]

    @property
    def believable(self) -> bool:
        """Whether the draws are draws from the posterior, as far as can be seen."""
        return self.summary.converged

    @property
    def verdict(self) -> tuple[tuple[Severity, str], ...]:
        """What is fine and what is not, with one remedy for each fault."""
        return tuple(self._findings())

    def _findings(self) -> Iterator[tuple[Severity, str]]:
        severity, said = convergence_verdict(self.fit)
        yield severity, f"{said} The draws can be believed, as far as can be seen." if self.believable else said
        if self.fit.preset.is_weighted:
            yield "warning", "Intervals mean little: the fit weighs questions unequally, which is no probability model."
        if remark := level_remark(self.fit.fitted):
            yield "warning", remark
        weak = self.parameters.query(f"likelihood < {_STILL} < prior").index
        if len(weak):
            more = f" and {len(weak) - _NAMED} more" if len(weak) > _NAMED else ""
            yield "warning", f"The prior alone decides {', '.join(weak[:_NAMED])}{more}: only more labels could tell."
        if self.fit.preset.is_weighted:
            return
        name, calibration = list(self.calibration.items())[-1]
        said = calibration.sentence({"probability": "probabilities", "support": "values of support"}[name])
        yield ("fine" if calibration.verdict == "none found" else "warning"), said
        yield self._left_out()

    def _left_out(self) -> tuple[Severity, str]:
        said = f"Leave-one-out: elpd {number(self.loo.elpd, 1)} ± {self.loo.se:.1f}, p_loo {self.loo.p:.1f}"
        far = self.loo.pareto_k[self.loo.pareto_k > LARGEST_PARETO_K].sortby(self.loo.pareto_k, ascending=False)
        if not far.size:
            return "fine", f"{said}; no question has a Pareto k above {LARGEST_PARETO_K}."
        names = ", ".join(map(str, far["problem"].to_numpy()[:_NAMED]))
        return "warning", (
            f"{said}; {far.size} of {self.fit.n_questions} questions have a Pareto k above {LARGEST_PARETO_K}: look at "
            f"{names} first, and fit without them to see what changes."
        )

    def __repr__(self) -> str:
        return f"Diagnosis(believable: {'yes' if self.believable else 'NO'}; {self.summary})"

    @property
    def table(self) -> pd.DataFrame:
        """The parameters, the worst first."""
        return self.parameters.rename_axis("parameter").reset_index()

    def _draw(self, axes: "Axes") -> None:
        """Draw the effective draws of every parameter."""
        rows = self.parameters[::-1]
        axes.plot(rows[["ess_bulk", "ess_tail"]].min(axis=1), np.arange(len(rows)), "o", color=RIGHT)
        row_labels(axes, list(map(str, self.parameters.index)))
        axes.set(xlim=(0, None), xlabel="effective draws")

    def blocks(self, *, everything: bool = True) -> Iterator[Block]:
        """Yield the findings, and the parameters or the worst of them."""
        yield Verdict(self.verdict)
        enough, limit = ESS_PER_CHAIN * self.summary.chains, self.summary.rhat_limit

        def judged(value: float, decimals: int, *, fine: bool) -> Cell:
            return Cell(number(value, decimals), marks=() if fine else ("failure",))

        shown = self.table if everything else self.table.head(_WORST)
        yield Table.of(
            "How well the chains agree, and whether the prior or the labels decide",
            shown.to_dict("records"),
            {
                Column("parameter", holds="name"): lambda row: row["parameter"],
                Column("R-hat"): lambda row: judged(row["r_hat"], 3, fine=row["r_hat"] <= limit),
                Column("bulk ESS"): lambda row: judged(row["ess_bulk"], 0, fine=row["ess_bulk"] > enough),
                Column("tail ESS"): lambda row: judged(row["ess_tail"], 0, fine=row["ess_tail"] > enough),
                Column("prior"): lambda row: number(row["prior"], 2),
                Column("labels"): lambda row: number(row["likelihood"], 2),
            },
            f"Expected: R-hat up to {limit}, more than {enough:.0f} effective draws (ESS). prior, labels: how fast the "
            f"posterior moves if prior or likelihood is raised to a power; below {_STILL} not at all."
            + ("" if everything else f" The worst {len(shown)} of {len(self.table)}; all: --all."),
        )

    def pictures(self) -> Iterator[Picture | LeftOut]:
        """Draw the ranks of the worst parameters, Pareto k, and the reliability of left-out answers."""
        yield self._ranks()
        if self.fit.preset.is_weighted:
            yield from (LeftOut(name, "of a weighted likelihood it means nothing") for name in ("pareto_k", "left_out"))
            return
        yield self._pareto_k()
        right = self.fit.left_out["correct"].to_numpy()
        results = {name: binned_reliability(stated, right) for name, stated in left_out_probabilities(self.fit).items()}
        about = "Each fitted question predicted without its own label."
        yield Picture("left_out", reliability_figure(results, about))

    def _ranks(self) -> Picture:
        """Draw the parameters whose chains agree least, in draws so far apart that they are nearly independent."""
        from arviz_base import dataset_to_dataarray
        from arviz_plots import plot_rank_dist

        labelled = dataset_to_dataarray(identified_draws(self.fit.tree), sample_dims=["chain", "draw"])
        worst = [str(name) for name in self.parameters.index[:_WORST]]
        effective = self.parameters.loc[worst, ["ess_bulk", "ess_tail"]].to_numpy(float).min()
        step = 1 if np.isnan(effective) else int(np.ceil(self.fit.n_samples / effective))
        shown = labelled.to_dataset(dim="label")[worst].isel(draw=slice(None, None, step))
        caption = (
            f"The {len(worst)} of {len(self.parameters)} parameters whose chains agree least; one draw in {step}, so "
            "that draws are nearly independent. A line style is a chain. Black points speak against agreement."
        )
        with figure_style():
            return _of_arviz("ranks", "Do the chains agree?", caption, plot_rank_dist(shown))

    def _pareto_k(self) -> Picture:
        from arviz_plots import plot_khat

        words = {"hlines": {}, "xlabel": {"text": "question"}, "ylabel": {"text": "Pareto k"}}
        title, caption = "Does any single question carry the result?", "Look at a question above the line."
        with figure_style():
            drawn = plot_khat(self.loo, hline_values=[LARGEST_PARETO_K], visuals=words)
            return _of_arviz("pareto_k", title, caption, drawn)

    @property
    def record(self) -> dict[str, object]:
        """All of it, for JSON."""
        loo = {name: float(getattr(self.loo, name)) for name in ("elpd", "se", "p")}
        checks = {"believable": self.believable, "verdict": self.verdict, "summary": self.summary, "loo": loo}
        checks |= {"parameters": self.table, "calibration": self.calibration}
        return checks | {"versions": versions("arviz-stats", "numpy")}

    def write(self, folder: str | Path) -> None:
        """Write the folder that ``direag diagnose --out`` writes: the record, the table and the pictures."""
        DIAGNOSIS_FOLDER.write(folder, self.record, {"parameters": self.table}, self.pictures())


def _of_arviz(name: str, title: str, caption: str, drawn: Any) -> Picture:
    """Take a figure from ArviZ, and from pyplot, which would keep it; head it like the others."""
    from matplotlib import pyplot as plt

    figure = drawn.viz["figure"].item()
    plt.close(figure)
    head_figure(figure, title, caption)
    return Picture(name, figure)


def left_out_probabilities(fit: Fit) -> dict[str, np.ndarray]:
    """Return the leave-one-out ``support`` of each selected answer and, if it is calibrated, its ``probability``."""
    names = ("support",) if fit.recalibration.method == "none" else ("support", "probability")
    return {name: fit.left_out[name].to_numpy() for name in names}


def diagnose(fit: Fit) -> Diagnosis:
    """Check the sampling of a NUTS fit, what the labels have taught, and whether left-out answers are calibrated.

    Raises DirEAGError if the fit is a MAP.
    """
    from arviz_stats import loo

    if fit.method == "map":
        raise DirEAGError(
            "this fit is a MAP, a single draw, which has no diagnostics; expected a NUTS fit. Fit again with fit_nuts "
            "(direag fit --method nuts)."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # large Pareto k, which the verdict tells
        left_out = loo(fit.tree, var_name="target", pointwise=True)
    cluster, right = fit.fitted.cluster_number, fit.left_out["correct"].to_numpy()
    parameters = convergence(fit).join(prior_or_labels(fit))
    return Diagnosis(
        fit=fit,
        summary=sampler_summary(fit),
        parameters=parameters.sort_values("r_hat", ascending=False, kind="stable", na_position="first"),
        loo=left_out,
        calibration={
            name: judge_calibration(stated, right, rng=0, cluster=cluster)
            for name, stated in left_out_probabilities(fit).items()
        },
    )


def prior_or_labels(fit: Fit) -> pd.DataFrame:
    """Return how fast each identified parameter moves with ``prior`` and ``likelihood``, by ArviZ's psense.

    The prior is that of parameters that all levels share, and of levels where these are not pooled: the offset of a
    pooled level from their centre belongs to the model. Coefficients of the final calibration are left out.

    Source: Kallioinen, Paananen, Bürkner and Vehtari (2024), doi:10.1007/s11222-023-10366-5.
    """
    from arviz_base import dataset_to_dataframe
    from arviz_stats import psense

    draws = identified_draws(fit.tree)
    evidence = draws[[name for name in draws if not str(name).startswith("recalibration_")]]
    densities = {name: fit.tree[name].to_dataset() for name in ("log_likelihood", "log_prior")}
    tree = xr.DataTree.from_dict({"posterior": evidence, **densities})
    shared = [name for name in densities["log_prior"] if not str(name).endswith("_decentered")]
    pulls = xr.concat(
        [psense(tree, group="prior", group_var_names=shared), psense(tree, group="likelihood")],
        pd.Index(["prior", "likelihood"], name="of"),
    )
    return dataset_to_dataframe(pulls, sample_dims=["of"]).T
