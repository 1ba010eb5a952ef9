r"""What the posterior says of each question left out: how well, how reliably, and whether that figure can be had.

Reliability is that of the leave-one-out *support* and of the *confidence* that the final calibration makes of it (which
has learned two numbers from these very labels). Where several answers of a question are right, support counts the
selected one alone, as it does in a prediction; the selected answer is right if it is any of them, so support is then
too low by design.

Source: Vehtari, Gelman and Gabry (2017), doi:10.1007/s11222-016-9696-4. Vehtari, Simpson, Gelman, Yao and Gabry (2024),
Journal of Machine Learning Research 25(72).
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import logsumexp

from analysis.scores.reliability import N_BINS, Reliability, reliability
from analysis.scores.scoring import mean_and_interval
from bayes_direag.fits.fit import Fit

#: Patterns of agreement held by fewer questions, or a smaller share of them, are pooled.
SMALLEST_PATTERN = 20
SMALLEST_PATTERN_SHARE = 0.04

ALL_QUESTIONS = "all"
POOLED = "other"


class PredictiveChecks(NamedTuple):
    """What the labels show against what the posterior predicts.

    ``table``: A row a statistic and pattern, the patterns from most to least agreement and ``all`` last: ``statistic``,
    ``accuracy`` (share of questions whose selected answer is right) or ``null`` (share where no candidate is);
    ``pattern``; ``n`` questions; and the columns of :func:`compared`. ``tail_probability``: of all rows together, see
    :func:`joint_tail_probability`.
    """

    table: pd.DataFrame
    tail_probability: float


def predictive_checks(fit: Fit, interval_level: float) -> PredictiveChecks:
    """Compare accuracy and null rate by pattern of agreement with what the posterior predicts.

    Where several answers are right, the likelihood merges them into one state, and so does the check: a draw that lands
    on any of them has landed on all, and the selected answer is right in it if it is one of them. The posterior has
    seen the labels it is held against: agreement says little, disagreement much.

    ``fit``: A NUTS fit. The answer that is checked is the one of greatest leave-one-out support. ``interval_level``:
    predictive probability that an interval holds.
    """
    right = fit.tree["labels"]["correct"].to_numpy()
    target = fit.tree["posterior_predictive"]["target"].transpose("chain", "draw", "problem").to_numpy()
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
        for pattern, here in groups.items():
            rows.append({"statistic": statistic, "pattern": pattern, "n": int(here.sum())})
            observed.append(outcome[here].mean())
            replicated.append(drawn_outcome[:, here].mean(axis=1))
    shares, draws = np.array(observed), np.stack(replicated, axis=1)
    table = pd.concat([pd.DataFrame(rows), compared(shares, draws, interval_level)], axis=1)
    return PredictiveChecks(table, joint_tail_probability(shares, draws))


def agreement_patterns(candidate: Int[np.ndarray, "problem level"]) -> Shaped[np.ndarray, " problem"]:
    """Return how many levels gave each answer, most first: ``5``, ``4-1``, ``3-1-1``; a level not usable is left out.

    ``candidate`` (problem, level): the answer given, as an index; -1 where not usable.

    Examples
    --------
    >>> agreement_patterns(np.array([[0, 0, 0], [1, 0, 1], [-1, 0, 0], [-1, -1, -1]])).tolist()
    ['3', '2-1', '2', '0']
    """
    votes = (candidate[:, :, None] == np.arange(candidate.shape[1])).sum(axis=1)
    sizes = -np.sort(-votes, axis=1)
    return np.array(["-".join(str(size) for size in row if size) or "0" for row in sizes.tolist()], dtype=object)


def pooled_patterns(patterns: Shaped[np.ndarray, " problem"]) -> Shaped[np.ndarray, " problem"]:
    """Pool the rare patterns: by their largest group (``3-...``) where that makes them frequent, else as ``other``.

    Rare is fewer than :data:`SMALLEST_PATTERN` questions, or less than :data:`SMALLEST_PATTERN_SHARE` of them.
    """
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
    """Return in which draws the selected answer is the state that occurred, answers right together being one state.

    ``drawn`` (sample, problem): the candidate that occurs; -1 for the null. ``selected`` (problem,): the selected one.
    ``right`` (problem, candidate): which are right.
    """
    questions = np.arange(len(selected))
    selected_right = right[questions, selected]
    drawn_right = right[questions, np.maximum(drawn, 0)] & (drawn >= 0)
    return np.asarray(np.where(selected_right, drawn_right, drawn == selected))


def compared(
    observed: Float[np.ndarray, " row"], replicated: Float[np.ndarray, "sample row"], interval_level: float
) -> pd.DataFrame:
    """Lay observed figures against draws of them.

    Returns: ``observed``; ``predicted``, the mean over the draws; ``low`` and ``high``, their equal-tailed interval;
    and ``tail_probability``: twice the smaller share of draws at or beyond the observed value, at most 1. With S draws
    the smallest one other than 0 is 2/S.
    """
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
    r"""Return how often draws of several figures lie as far from what is predicted as the observed ones do together.

    The distance is :math:`\sum_r (t_r - \operatorname{E} t_r)^2 / \operatorname{var} t_r` over the draws' mean and
    variance, so figures that depend on each other are judged as jointly as they are drawn. 0 where a figure that no
    draw varies is observed otherwise.
    """
    mean, variance = replicated.mean(axis=0), replicated.var(axis=0)
    varies = variance > 0
    if not np.allclose(observed[~varies], mean[~varies]):
        return 0.0

    def distance(figures: Float[np.ndarray, "*draws row"]) -> Float[np.ndarray, "*draws"]:
        return np.asarray((((figures - mean) ** 2)[..., varies] / variance[varies]).sum(axis=-1))

    return float((distance(replicated) >= distance(observed)).mean())


def _ordered(patterns: Shaped[np.ndarray, " problem"]) -> list[str]:
    """Return the distinct patterns, from most to least agreement, the pooled rest last."""

    def agreement(pattern: str) -> tuple[bool, list[int]]:
        sizes = [] if pattern == POOLED else pattern.replace("...", "0").split("-")
        return pattern == POOLED, [-int(size) for size in sizes]

    return sorted(set(patterns.tolist()), key=agreement)


#: Upper ends of the ranges that Pareto k is counted in; up to 0.7 a question's figure can be relied on.
PARETO_RANGES = {"k <= 0.5": 0.5, "0.5 < k <= 0.7": 0.7, "0.7 < k <= 1": 1.0, "k > 1": np.inf}
UNDEFINED_K = "undefined"

_REPLICATES = 1000


class LeaveOneOutSummary(NamedTuple):
    """How well the posterior predicts questions left out.

    ``elpd``, ``se``: sum over the questions of the log predictive density of the state that occurred, in nats, and its
    standard error (NaN for a single question). ``p_loo``: effective number of parameters. ``n``: number of questions.
    """

    elpd: float
    se: float
    p_loo: float
    n: int


class CalibrationCheck(NamedTuple):
    """Whether selected answers are right as often as stated.

    ``reliability``: in bins and without, with intervals. ``tail_probability``: of shares right, over the bins together,
    as far from what is stated as these, if each answer were right with the stated probability. NaN without questions.
    ``n_undefined``: questions without a finite probability, which are left out.
    """

    reliability: Reliability
    tail_probability: float
    n_undefined: int


def loo_summary(fit: Fit) -> LeaveOneOutSummary:
    """Sum up the leave-one-out predictive density of a NUTS fit."""
    pointwise = fit.left_out["elpd"].to_numpy()
    error = np.sqrt(len(pointwise) * pointwise.var(ddof=1)) if len(pointwise) > 1 else np.nan
    return LeaveOneOutSummary(float(pointwise.sum()), float(error), effective_parameters(fit), len(pointwise))


def effective_parameters(fit: Fit) -> float:
    r"""Return p_loo, by how much the density falls where a question's own label is left out.

    .. math:: p_{\mathrm{loo}} = \sum_i \log \frac1S \sum_s p(y_i \mid \theta_s) - \widehat{\mathrm{elpd}}
    """
    reached = fit.tree["log_likelihood"]["target"].transpose("chain", "draw", "problem").to_numpy()
    seen = logsumexp(reached, axis=(0, 1)) - np.log(fit.n_samples)
    return float(seen.sum() - fit.left_out["elpd"].sum())


def pareto_counts(pareto_k: Float[np.ndarray, " problem"]) -> pd.DataFrame:
    """Count the questions by ``range`` of Pareto k (``n``); NaN is counted as undefined."""
    number = np.searchsorted([*PARETO_RANGES.values()], pareto_k[~np.isnan(pareto_k)], side="left")
    counts = np.bincount(number, minlength=len(PARETO_RANGES))
    names = [*PARETO_RANGES, UNDEFINED_K]
    return pd.DataFrame({"range": names, "n": [*counts.tolist(), int(np.isnan(pareto_k).sum())]})


def worst_questions(fit: Fit, most: int = 5) -> pd.DataFrame:
    """Name the questions of largest Pareto k (an undefined one first): ``problem_id``, ``pareto_k``, ``elpd``."""
    table = fit.left_out[["pareto_k", "elpd"]].to_dataframe().rename_axis("problem_id").reset_index()
    ordered = table.sort_values("pareto_k", ascending=False, na_position="first", kind="stable", ignore_index=True)
    return ordered.astype({"problem_id": "str"}).head(most)


def left_out_probabilities(fit: Fit) -> dict[str, Float[np.ndarray, " problem"]]:
    """Return the leave-one-out ``support`` of each selected answer and, unless there is no calibration, ``confidence``.

    The confidence is the mean over the draws of what their calibration makes of that support.
    """
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
) -> CalibrationCheck:
    """Lay how often the selected answers are right against the stated probability.

    ``stated`` (problem,): probability that the selected answer is right; not finite where undefined. ``correct``
    (problem,): whether it is. ``rng``: draws the replicates behind the band and the tail probability.
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
