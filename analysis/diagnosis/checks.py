"""Checks of a posterior: predictive checks, leave-one-out density, Pareto k, and calibration.

Source: Vehtari, Gelman and Gabry (2017), doi:10.1007/s11222-016-9696-4. Vehtari, Simpson, Gelman, Yao and Gabry (2024),
Journal of Machine Learning Research 25(72).
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import logsumexp

from analysis.scores.calibration import Calibration, judge_calibration
from analysis.scores.reliability import Reliability, reliability
from analysis.scores.scoring import mean_and_interval
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LARGEST_PARETO_K

#: Patterns of agreement with fewer questions, or a smaller share of them, are merged.
SMALLEST_PATTERN = 20
SMALLEST_PATTERN_SHARE = 0.04

ALL_QUESTIONS = "all"
POOLED = "other"


class PredictiveChecks(NamedTuple):
    """The labels compared with posterior predictions, and the tail probability of all rows jointly.

    A row is a pattern of agreement (``all`` last) and a statistic: ``accuracy`` of the selected answer, or ``null``,
    the share of questions without a right candidate.
    """

    table: pd.DataFrame
    tail_probability: float


def predictive_checks(fit: Fit, interval_level: float) -> PredictiveChecks:
    """Compare accuracy and null rate with their posterior predictions, by pattern of agreement."""
    right = fit.tree["labels"]["correct"].to_numpy()
    target = (
        fit.with_predictive().tree["posterior_predictive"]["target"].transpose("chain", "draw", "problem").to_numpy()
    )
    drawn = target.reshape(-1, len(right))
    selected = fit.left_out["candidate"].to_numpy()
    outcomes = {
        "accuracy": (right[np.arange(len(right)), selected], selected_is_right(drawn, selected, right)),
        "null": (~right.any(axis=1), drawn < 0),
    }
    patterns = pooled_patterns(agreement_patterns(fit.fitted.candidate))
    groups = {pattern: patterns == pattern for pattern in _ordered(patterns)} | {
        ALL_QUESTIONS: np.ones(len(patterns), bool)
    }
    rows, observed, replicated = [], [], []
    for statistic, (outcome, drawn_outcome) in outcomes.items():
        for pattern, members in groups.items():
            rows.append({"statistic": statistic, "pattern": pattern, "n": int(members.sum())})
            observed.append(outcome[members].mean())
            replicated.append(drawn_outcome[:, members].mean(axis=1))
    shares, draws = np.array(observed), np.stack(replicated, axis=1)
    table = pd.concat([pd.DataFrame(rows), compared(shares, draws, interval_level)], axis=1)
    return PredictiveChecks(table, joint_tail_probability(shares, draws))


def agreement_patterns(candidate: Int[np.ndarray, "problem level"]) -> Shaped[np.ndarray, " problem"]:
    """Return the numbers of levels that gave each answer, in falling order: ``5``, ``4-1``, ``3-1-1``.

    Examples
    --------
    >>> agreement_patterns(np.array([[0, 0, 0], [1, 0, 1], [-1, 0, 0], [-1, -1, -1]])).tolist()
    ['3', '2-1', '2', '0']
    """
    votes = (candidate[:, :, None] == np.arange(candidate.shape[1])).sum(axis=1)
    sizes = -np.sort(-votes, axis=1)
    return np.array(["-".join(str(size) for size in row if size) or "0" for row in sizes.tolist()], dtype=object)


def pooled_patterns(patterns: Shaped[np.ndarray, " problem"]) -> Shaped[np.ndarray, " problem"]:
    """Merge rare patterns: by their largest number (``3-...``) if that makes them frequent, else as ``other``."""
    least = max(SMALLEST_PATTERN, SMALLEST_PATTERN_SHARE * len(patterns))

    def without_rare(names: list[str], instead: list[str]) -> list[str]:
        counts = Counter(names)
        return [name if counts[name] >= least else other for name, other in zip(names, instead, strict=True)]

    names = patterns.tolist()
    by_largest = without_rare(names, [f"{pattern.partition('-')[0]}-..." for pattern in names])
    return np.array(without_rare(by_largest, [POOLED] * len(names)), dtype=object)


def selected_is_right(
    drawn: Int[np.ndarray, "sample problem"],
    selected: Int[np.ndarray, " problem"],
    right: Bool[np.ndarray, "problem candidate"],
) -> Bool[np.ndarray, "sample problem"]:
    """Return in which draws the selected answer is right; the right answers of a question are one state."""
    questions = np.arange(len(selected))
    selected_right = right[questions, selected]
    drawn_right = right[questions, np.maximum(drawn, 0)] & (drawn >= 0)
    return np.asarray(np.where(selected_right, drawn_right, drawn == selected))


def compared(
    observed: Float[np.ndarray, " row"], replicated: Float[np.ndarray, "sample row"], interval_level: float
) -> pd.DataFrame:
    """Compare observed figures with draws of them; the tail probability doubles the smaller tail."""
    predicted, low, high = mean_and_interval(replicated, interval_level)
    below, above = (replicated <= observed).mean(axis=0), (replicated >= observed).mean(axis=0)
    return pd.DataFrame(
        {
            "observed": observed,
            "predicted": predicted,
            "low": low,
            "high": high,
            "tail_probability": np.minimum(1.0, 2 * np.minimum(below, above)),
        }
    )


def joint_tail_probability(observed: Float[np.ndarray, " row"], replicated: Float[np.ndarray, "sample row"]) -> float:
    r"""Return the share of draws that are jointly at least as far from their mean as the observed figures.

    The distance is :math:`\sum_r (t_r - \operatorname{E} t_r)^2 / \operatorname{var} t_r`. 0 if a figure that does not
    vary over the draws is observed with another value.
    """
    mean, variance = replicated.mean(axis=0), replicated.var(axis=0)
    varies = variance > 0
    if not np.allclose(observed[~varies], mean[~varies]):
        return 0.0

    def distance(figures: Float[np.ndarray, "*draws row"]) -> Float[np.ndarray, "*draws"]:
        return np.asarray((((figures - mean) ** 2)[..., varies] / variance[varies]).sum(axis=-1))

    return float((distance(replicated) >= distance(observed)).mean())


def _ordered(patterns: Shaped[np.ndarray, " problem"]) -> list[str]:
    """Return the distinct patterns, from most to least agreement, and ``other`` last."""

    def agreement(pattern: str) -> tuple[bool, list[int]]:
        sizes = [] if pattern == POOLED else pattern.replace("...", "0").split("-")
        return pattern == POOLED, [-int(size) for size in sizes]

    return sorted(set(patterns.tolist()), key=agreement)


class LeaveOneOutCheck(NamedTuple):
    """The leave-one-out log predictive density in nats, its standard error, and the effective number of parameters.

    Of ``n`` questions ``n_bad`` have a Pareto k above 0.7, or an undefined one; ``worst`` are up to three of these.
    """

    elpd: float
    se: float
    p_loo: float
    n: int
    n_bad: int
    n_undefined: int
    worst: tuple[str, ...]


class CalibrationCheck(NamedTuple):
    """The calibration of the selected answers' probabilities; ``n_undefined`` questions without one are left out."""

    reliability: Reliability
    calibration: Calibration
    n_undefined: int


def leave_one_out_check(fit: Fit) -> LeaveOneOutCheck:
    """Sum up the leave-one-out predictive density of a NUTS fit."""
    pointwise, pareto_k = (fit.left_out[name].to_numpy() for name in ("elpd", "pareto_k"))
    error = np.sqrt(len(pointwise) * pointwise.var(ddof=1)) if len(pointwise) > 1 else np.nan
    bad = ~(pareto_k <= LARGEST_PARETO_K)
    order = np.argsort(-np.nan_to_num(pareto_k[bad], nan=np.inf, posinf=np.inf), kind="stable")
    worst = tuple(map(str, fit.left_out["problem"].to_numpy()[bad][order][:3]))
    counts = len(pointwise), int(bad.sum()), int(np.isnan(pareto_k).sum())
    return LeaveOneOutCheck(float(pointwise.sum()), float(error), effective_parameters(fit), *counts, worst)


def effective_parameters(fit: Fit) -> float:
    r"""Return p_loo, by how much the log density falls if each question's own label is left out.

    .. math:: p_{\mathrm{loo}} = \sum_i \log \frac1S \sum_s p(y_i \mid \theta_s) - \widehat{\mathrm{elpd}}
    """
    log_likelihood = fit.tree["log_likelihood"]["target"].transpose("chain", "draw", "problem").to_numpy()
    log_density = logsumexp(log_likelihood, axis=(0, 1)) - np.log(fit.n_samples)
    return float(log_density.sum() - fit.left_out["elpd"].sum())


def left_out_probabilities(fit: Fit) -> dict[str, Float[np.ndarray, " problem"]]:
    """Return the leave-one-out ``support`` of each selected answer and, if it is calibrated, its ``confidence``."""
    support = fit.left_out["support"].to_numpy()
    if fit.recalibration.method == "none":
        return {"support": support}
    return {"support": support, "confidence": fit.left_out["confidence"].to_numpy()}


def calibration_check(
    stated: Float[np.ndarray, " problem"],
    correct: Bool[np.ndarray, " problem"],
    *,
    interval_level: float,
    rng: np.random.Generator,
    cluster: Int[np.ndarray, " problem"] | None = None,
) -> CalibrationCheck:
    """Check whether the selected answers are right as often as their probabilities say."""
    defined = np.isfinite(stated)
    probability, right = stated[defined], correct[defined]
    return CalibrationCheck(
        reliability(probability, right, rng=rng, level=interval_level),
        judge_calibration(probability, right, rng=rng, cluster=None if cluster is None else cluster[defined]),
        int((~defined).sum()),
    )
