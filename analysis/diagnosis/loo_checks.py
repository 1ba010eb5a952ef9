r"""What the posterior says of each question left out: how well, how reliably, and whether that figure can be had.

Reliability is that of the leave-one-out *support* and of the *confidence* that the final calibration makes of it (which
has learned two numbers from these very labels). Where several answers of a question are right, support counts the
selected one alone, as it does in a prediction; the selected answer is right if it is any of them, so support is then
too low by design.

Source: Vehtari, Gelman and Gabry (2017), doi:10.1007/s11222-016-9696-4. Vehtari, Simpson, Gelman, Yao and Gabry (2024),
Journal of Machine Learning Research 25(72).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from analysis.diagnosis.posterior_checks import joint_tail_probability
from analysis.scores.reliability import N_BINS, Reliability, reliability
from bayes_direag.fits.fit import Fit

#: Upper ends of the ranges that Pareto k is counted in; up to 0.7 a question's figure can be relied on.
PARETO_RANGES = {"k <= 0.5": 0.5, "0.5 < k <= 0.7": 0.7, "0.7 < k <= 1": 1.0, "k > 1": np.inf}
UNDEFINED_K = "undefined"

_REPLICATES = 1000


@dataclass(frozen=True)
class LeaveOneOutSummary:
    """How well the posterior predicts questions left out.

    Attributes
    ----------
    elpd, se : float
        Sum over the questions of the log predictive density of the state that occurred, in nats, and its standard
        error (NaN for a single question).
    p_loo : float
        Effective number of parameters.
    n : int
        Number of questions.
    """

    elpd: float
    se: float
    p_loo: float
    n: int


class CalibrationCheck(NamedTuple):
    """Whether selected answers are right as often as stated.

    Attributes
    ----------
    reliability : Reliability
        In bins and without, with intervals.
    tail_probability : float
        Of shares right, over the bins together, as far from what is stated as these, if each answer were right with
        the stated probability. NaN without questions.
    n_undefined : int
        Questions without a finite probability, which are left out.
    """

    reliability: Reliability
    tail_probability: float
    n_undefined: int


def loo_summary(fit: Fit) -> LeaveOneOutSummary:
    """Sum up the leave-one-out predictive density of a NUTS fit."""
    pointwise = fit.tree["loo"]["elpd"].to_numpy()
    error = np.sqrt(len(pointwise) * pointwise.var(ddof=1)) if len(pointwise) > 1 else np.nan
    return LeaveOneOutSummary(float(pointwise.sum()), float(error), effective_parameters(fit), len(pointwise))


def effective_parameters(fit: Fit) -> float:
    r"""Return p_loo, by how much the density falls where a question's own label is left out.

    .. math:: p_{\mathrm{loo}} = \sum_i \log \frac1S \sum_s p(y_i \mid \theta_s) - \widehat{\mathrm{elpd}}
    """
    reached = fit.tree["log_likelihood"]["target"].transpose("chain", "draw", "problem").to_numpy()
    seen = logsumexp(reached, axis=(0, 1)) - np.log(fit.n_samples)
    return float(seen.sum() - fit.tree["loo"]["elpd"].sum())


def pareto_counts(pareto_k: Float[np.ndarray, " problem"]) -> pd.DataFrame:
    """Count the questions by ``range`` of Pareto k (``n``); NaN is counted as undefined."""
    number = np.searchsorted([*PARETO_RANGES.values()], pareto_k[~np.isnan(pareto_k)], side="left")
    counts = np.bincount(number, minlength=len(PARETO_RANGES))
    names = [*PARETO_RANGES, UNDEFINED_K]
    return pd.DataFrame({"range": names, "n": [*counts.tolist(), int(np.isnan(pareto_k).sum())]})


def worst_questions(fit: Fit, most: int = 5) -> pd.DataFrame:
    """Name the questions of largest Pareto k (an undefined one first): ``problem_id``, ``pareto_k``, ``elpd``."""
    loo = fit.tree["loo"].to_dataset()
    table = pd.DataFrame(
        {
            "problem_id": pd.Series(loo["problem"].to_numpy(), dtype="str"),
            "pareto_k": loo["pareto_k"].to_numpy(),
            "elpd": loo["elpd"].to_numpy(),
        }
    )
    ordered = table.sort_values("pareto_k", ascending=False, na_position="first", kind="stable", ignore_index=True)
    return ordered.head(most)


def left_out_probabilities(fit: Fit) -> dict[str, Float[np.ndarray, " problem"]]:
    """Return the leave-one-out ``support`` of each selected answer and, unless there is no calibration, ``confidence``.

    The confidence is the mean over the draws of what their calibration makes of that support.
    """
    support = fit.tree["loo"]["support"].to_numpy()
    if fit.recalibration.method == "none":
        return {"support": support}
    return {"support": support, "confidence": fit.tree["loo"]["confidence"].to_numpy()}


def calibration_check(
    stated: Float[np.ndarray, " problem"],
    correct: Bool[np.ndarray, " problem"],
    *,
    interval_level: float,
    rng: np.random.Generator,
) -> CalibrationCheck:
    """Lay how often the selected answers are right against the stated probability.

    Parameters
    ----------
    stated : (problem,) array
        Probability that the selected answer is right; not finite where undefined.
    correct : (problem,) array
        Whether it is.
    interval_level
        Of the intervals.
    rng
        Draws the replicates behind the band and the tail probability.
    """
    defined = np.isfinite(stated)
    probability, right = stated[defined], correct[defined]
    return CalibrationCheck(
        reliability(probability, right, rng=rng, level=interval_level),
        calibration_tail_probability(probability, right, rng),
        int((~defined).sum()),
    )


def calibration_tail_probability(
    stated: Float[np.ndarray, " problem"], correct: Bool[np.ndarray, " problem"], rng: np.random.Generator
) -> float:
    """Return how often answers, each right with the stated probability, would be as far from it as these.

    Far in the sense of Hosmer and Lemeshow's statistic over the bins of the ECE, with its distribution drawn rather
    than approximated (doi:10.1080/03610928008827941). NaN without questions.
    """
    if not len(stated):
        return np.nan
    place = np.searchsorted(np.arange(1, N_BINS) / N_BINS, stated, side="left")
    held = np.unique(place)[:, None] == place
    shares = held / held.sum(axis=1, keepdims=True)
    replicated = (rng.random((_REPLICATES, len(stated))) < stated) @ shares.T
    return joint_tail_probability(shares @ correct, replicated)
