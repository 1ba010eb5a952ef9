r"""Would the model, as fitted, have produced such labels? Posterior predictive checks.

Every draw of the posterior predictive group names the state that occurs in every question. What the observed labels
show is laid against what these draws show: how often the selected answer is right, and how often no candidate is,
by how the levels agree.

*Several right answers.* A drawn target is one state, but answers judged right may be several (say, two wordings). The
likelihood merges them into one state, that any of them occurred. So do the checks: a draw that lands on any of a
question's right answers has landed on all of them, and the selected answer is right in it if it is one of them. Which
answers go together is known from the labels alone, and only for right ones; where the selected answer is wrong
nothing is merged.

The posterior has seen the labels it is held against, so the checks are mild: agreement says little, disagreement much.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped

from bayes_direag.fits.fit import Fit

#: Patterns of agreement held by fewer questions, or a smaller share of them, are pooled.
SMALLEST_PATTERN = 20
SMALLEST_PATTERN_SHARE = 0.04

ALL_QUESTIONS = "all"
POOLED = "other"


class PredictiveChecks(NamedTuple):
    """What the labels show against what the posterior predicts.

    Attributes
    ----------
    table : DataFrame
        A row a statistic and pattern, the patterns from most to least agreement and ``all`` last: ``statistic``,
        ``accuracy`` (share of questions whose selected answer is right) or ``null`` (share where no candidate is);
        ``pattern``; ``n`` questions; and the columns of :func:`compared`.
    tail_probability : float
        Of all rows together, see :func:`joint_tail_probability`.
    """

    table: pd.DataFrame
    tail_probability: float


def predictive_checks(fit: Fit, interval_level: float) -> PredictiveChecks:
    """Compare accuracy and null rate by pattern of agreement with what the posterior predicts.

    Parameters
    ----------
    fit
        A NUTS fit. The answer that is checked is the one of greatest leave-one-out support.
    interval_level
        Predictive probability that an interval holds.
    """
    right = fit.tree["labels"]["correct"].to_numpy()
    target = fit.tree["posterior_predictive"]["target"].transpose("chain", "draw", "problem").to_numpy()
    drawn = target.reshape(-1, len(right))
    selected = fit.tree["loo"]["candidate"].to_numpy()
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

    Parameters
    ----------
    candidate : (problem, level) array
        The answer given, as an index; -1 where not usable.

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

    Parameters
    ----------
    drawn : (sample, problem) array
        The candidate that occurs; -1 for the null.
    selected : (problem,) array
        The selected candidate.
    right : (problem, candidate) array
        Which candidates are right.
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
    low, high = np.quantile(replicated, [(1 - interval_level) / 2, (1 + interval_level) / 2], axis=0)
    below, above = (replicated <= observed).mean(axis=0), (replicated >= observed).mean(axis=0)
    return pd.DataFrame(
        {
            "observed": observed,
            "predicted": replicated.mean(axis=0),
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
