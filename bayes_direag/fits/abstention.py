r"""Selective prediction with a guarantee: the questions to answer, so that a target accuracy is reached.

Sort :math:`n` labelled and :math:`m` new questions together by probability, the highest first. If they are
exchangeable, every choice of :math:`n` of them is equally likely to be the labelled ones, calibrated or not. For a
number :math:`k`, chosen without labels, let :math:`B` be the least number for which the first :math:`B + k + 1` wrong
answers include at most :math:`k` labelled ones with a (hypergeometric) probability of at most 1 - assurance. If they
include more, *every* threshold with at most :math:`k` wrong labelled answers above it has at most :math:`B` wrong new
ones above it. The lowest such threshold is taken, and its :math:`m'` new questions are answered if :math:`B \le (1 -
\text{target})\, m'`. The :math:`k` is the one that answers most in expectation, by the probabilities. As :math:`m`
grows, :math:`B / m` tends to the bound of Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404.

The guarantee is an average over all runs. So that it holds for those that answer, the probabilities have to support the
target too: by them the number of wrong answers, a Poisson variable, is within the limit as probably as assured.

Only whole clusters are exchangeable, so the first labelled and the first new question of each cluster count.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy  # which loads its slow parts when they are used
from jaxtyping import Bool, Float, Int

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit, Source
from bayes_direag.fits.fitting import cross_fitted
from bayes_direag.fits.sources import observations_of

#: Factor on the expected number of errors, since probabilities learned from few labels are somewhat too high.
_MORE_ERRORS = 1.1
#: Folds in which a MAP predicts its own questions, and how many numbers k are compared at most.
_FOLDS, _GRID = 5, 60

Numbers = Int[np.ndarray, " number"]
PerLabelled = Float[np.ndarray, " labelled"]
AreRight = Bool[np.ndarray, " labelled"]
PerNew = Float[np.ndarray, " new"]


class Threshold(NamedTuple):
    """Which questions to answer, and the bound on the errors among them."""

    #: Questions of at least this probability are answered; NaN if none are.
    threshold: float
    #: Labelled questions with a probability, those that reach the threshold, and the wrong ones among these.
    n_labelled: int
    n_labelled_above: int
    n_labelled_wrong: int
    #: New questions with a probability, those that are answered, and the bound on the wrong answers among these.
    n_new: int
    n_answered: int
    most_wrong: int
    #: The least number of labelled questions, all answered rightly, with which all new ones could be answered.
    n_needed: int
    #: Whether the probabilities themselves support the target at some threshold.
    promised: bool

    @property
    def reason(self) -> str | None:
        """Why nothing is answered; None if something is."""
        if self.n_answered:
            return None
        if not self.n_new:
            return "None of the new questions has an answer."
        if not self.promised:
            return "The probabilities themselves do not promise that accuracy at any threshold."
        if (n := self.n_labelled) < self.n_needed:
            return f"{self.n_new} new questions need at least {self.n_needed} labelled ones; there are {n}."
        return f"Too many of the {self.n_labelled} labelled answers of highest probability are wrong."


@dataclass(frozen=True, eq=False)
class Abstention:
    """A table of predictions with the column ``answered``, and the decision behind it."""

    #: ``answered``: whether the probability reaches the threshold; False without one.
    table: pd.DataFrame
    target: float
    assurance: float
    decision: Threshold
    #: Where the labelled questions come from: ``given``, ``of the file itself`` or ``of the fit``.
    source: str
    #: New questions without a usable report; those beyond the first of their cluster; and the questions that are not
    #: new, as the fit has seen them, or their labels were used. The decision is not about the last.
    n_unusable: int
    n_clustered: int
    n_not_new: int

    def record(self) -> dict[str, object]:
        """Return the decision as plain values; undefined ones as None."""
        found = {**vars(self), **self.decision._asdict(), "reason": self.decision.reason}
        del found["table"], found["decision"]
        return {name: None if value != value else value for name, value in found.items()}  # NaN

    def text(self) -> str:
        """Return the decision and its guarantee in sentences."""
        d, accuracy = self.decision, f"an accuracy of {self.target:g}, with assurance {self.assurance:g}"
        if d.reason is not None:
            return f"No question is answered: no threshold reaches {accuracy}. {d.reason}"
        approximate = " This makes it approximate." if self.source == "of the fit" else ""
        return (
            f"{d.n_answered} of {d.n_new + self.n_unusable} new questions are answered, those of probability "
            f"{d.threshold:.4g} or more, for {accuracy}. At most {d.most_wrong} of these are wrong, if they are "
            f"like the {d.n_labelled} labelled ones {self.source}: {d.n_labelled_above} of those reach that "
            f"probability, {d.n_labelled_wrong} with a wrong answer.{approximate} Not counted: {self.n_clustered} more "
            f"questions of the same clusters, {self.n_not_new} that are not new."
        )


def answer(
    fit: Fit,
    observations: Source,
    labelled: Source | None = None,
    *,
    target_accuracy: float,
    assurance: float = 0.9,
    interval_level: float = 0.9,
) -> Abstention:
    """Predict questions, and decide which of them to answer, as the fit's labels or others allow.

    With probability ``assurance`` the share ``target_accuracy`` of the answers is right, or nothing is answered.
    ``labelled`` are questions of the same kind that the fit has not seen. By default they are those of ``observations``
    that are labelled and new to the fit, if others are unlabelled; else the fitted questions, each predicted without
    its own label: by leave-one-out under NUTS, from four of five folds for a MAP.

    Raises DirEAGError if the fit has seen labelled questions, or they are also to be predicted; if no labelled question
    has an answer; if no question is new; or if target, assurance or interval level are out of range.
    """
    observations = observations_of(observations, fit.answers, fit.columns)
    predictions = fit.predict(observations, interval_level=interval_level)
    new, probability = ~fit.has_seen(observations), predictions["probability"].to_numpy(float)
    own = new & observations.labelled
    if labelled is not None:
        source, known = "given", observations_of(labelled, fit.answers, fit.columns)
        known = known.select(known.labelled)
        known_names = fit.learned_from.union(observations.problem_id)
        if both := [name for name in known.problem_id if name in known_names]:
            raise DirEAGError(
                f"{len(both)} of {len(known)} labelled questions cannot be used, {both[0]!r} among them: the fit was "
                "fitted to them, or they are to be predicted; expected others. Remove them, or rename them."
            )
    elif (own & observations.answered).any() and (new & ~own).any():
        source, known, new = "of the file itself", observations.select(own), new & ~own
    else:
        source, known = "of the fit", fit.fitted
    known_probability, correct = _judged(fit, known, source)
    if np.isnan(known_probability).all() or not new.any():
        raise DirEAGError(
            f"saw {np.isfinite(known_probability).sum()} labelled questions with a usable report, and {new.sum()} new "
            f"ones of {len(observations)} to be predicted; expected some of both. Questions that the fit has seen are "
            "not new."
        )
    first, counted = _first_of_clusters(known), probability[new][_first_of_clusters(observations.select(new))]
    shares = {"target": target_accuracy, "assurance": assurance}
    decision = choose_threshold(known_probability[first], correct[first], counted, **shares)
    return Abstention(
        table=predictions.assign(answered=probability >= decision.threshold),  # False where either is NaN
        **shares,
        decision=decision,
        source=source,
        n_unusable=int(np.isnan(counted).sum()),
        n_clustered=int(new.sum()) - len(counted),
        n_not_new=int((~new).sum()),
    )


def _first_of_clusters(observations: Observations) -> Numbers:
    """Return the first question of each cluster; without clusters, all questions."""
    number = observations.cluster_number
    return np.arange(len(observations)) if number is None else np.unique(number, return_index=True)[1]


def _judged(fit: Fit, known: Observations, source: str) -> tuple[PerLabelled, AreRight]:
    """Return probabilities, and which answers are right; of the fitted questions, each without its own label."""
    if source != "of the fit":
        predictions = fit.predict(known, warn=False)
    elif "loo" in fit.tree.children:
        return fit.left_out["probability"].to_numpy(), fit.left_out["correct"].to_numpy()
    else:
        parts = cross_fitted(known, _FOLDS, fit.settings)
        predictions = pd.concat([part.predictions.set_index(part.index) for part in parts]).reindex(range(len(known)))
    return predictions["probability"].to_numpy(float), known.is_right(predictions["answer"])


def choose_threshold(
    probability: PerLabelled, correct: AreRight, new: PerNew, *, target: float, assurance: float = 0.9
) -> Threshold:
    """Find the lowest probability at which to answer.

    Given are the probabilities of labelled questions, by a fit that has not seen these labels, and whether the answers
    are right; then those of new questions. They are NaN without an answer. Raises DirEAGError if the target is not
    above 0 and up to 1, or the assurance not at least 1/2 and below 1.
    """
    if not 0 < target <= 1:
        raise DirEAGError(f"target accuracy {target}: expected a share above 0 and up to 1, such as 0.95.")
    if not 0.5 <= assurance < 1:
        raise DirEAGError(f"assurance {assurance}: expected a probability of at least 0.5 and below 1, such as 0.9.")
    known, new = ~np.isnan(probability), new[~np.isnan(new)]
    probability, wrong = probability[known], ~correct[known]
    n, m = len(probability), len(new)
    tolerated, bound = _tolerated(np.concatenate([probability, new]), n, m, target, assurance)
    thresholds, n_reached, expected = _thresholds(new)
    allowed = _allowed_wrong(target, n_reached)
    promised = scipy.stats.poisson.ppf(assurance, expected) <= allowed
    n_wrong = wrong.sum() - np.searchsorted(np.sort(probability[wrong]), thresholds)
    supported = np.flatnonzero(promised & (n_wrong <= tolerated) & (bound <= allowed))
    threshold = float(thresholds[supported[-1]]) if len(supported) else math.nan
    above, n_answered = probability >= threshold, int((new >= threshold).sum())
    counts = n, int(above.sum()), int((above & wrong).sum()), m, n_answered, bound if n_answered else 0
    return Threshold(threshold, *counts, _least_labelled(m, target, assurance), bool(promised.any()))


def _allowed_wrong(target: float, n_answered: Int[np.ndarray, "*shape"]) -> Int[np.ndarray, "*shape"]:
    """Return the largest number of wrong answers with which the accuracy reaches the target."""
    # the addend keeps a whole number that rounding has made a little smaller
    return np.asarray(np.floor((1 - target) * n_answered + 1e-9).astype(np.int64))


def _least_labelled(n_new: int, target: float, assurance: float) -> int:
    allowed = int(_allowed_wrong(target, np.array(n_new)))
    enough = math.ceil(n_new / (1 - assurance) ** (1 / (allowed + 1))) + 1  # with replacement
    return bisect_left(range(enough), x=True, key=lambda n: _holds(allowed, 0, n, n_new, assurance))


@lru_cache(maxsize=64)
def wrong_bounds(n: int, m: int, target: float, assurance: float) -> tuple[Numbers, Numbers]:
    """Return numbers k of wrong labelled answers, and the bound B on wrong new answers for each k alone.

    The numbers go from 0 to the largest that could help with n labelled questions (at least 1) and m new ones.
    """
    most = n * (int(_allowed_wrong(target, np.array(m))) + 1) / max(m, 1)
    numbers = np.unique(np.geomspace(1, max(min(n, math.ceil(most)), 1), _GRID).astype(int)) - 1
    holds = [partial(_holds, k=k, n=n, m=m, assurance=assurance) for k in numbers.tolist()]
    return numbers, np.array([bisect_left(range(m), x=True, key=each) for each in holds])


def _holds(bound: int, k: int, n: int, m: int, assurance: float) -> bool:
    """Tell whether at most k of the first ``bound + k + 1`` wrong answers are labelled as seldom as assured."""
    risk = scipy.stats.hypergeom.cdf(k, n + m, n, min(bound + k + 1, n + m))
    return bool(risk <= (1 - assurance) * (1 + 1e-9))  # 1 - 0.9 is less than 0.1


def _tolerated(
    pooled: Float[np.ndarray, " question"], n: int, m: int, target: float, assurance: float
) -> tuple[int, int]:
    """Choose the number k of wrong labelled answers to allow above the threshold, without labels; return k and B."""
    if not n or not m:
        return 0, m
    k, bound = wrong_bounds(n, m, target, assurance)
    n_enough = np.maximum(np.searchsorted(_allowed_wrong(target, np.arange(m + 1)), bound), 1)
    _, n_reached, expected = _thresholds(pooled)
    n_reached, expected = n_reached * m // len(pooled), expected / len(pooled)
    promised = scipy.stats.poisson.ppf(assurance, m * expected) <= _allowed_wrong(target, n_reached)
    possible = n_enough <= n_reached[promised].max(initial=0)
    at = np.searchsorted(n_reached, np.minimum(n_enough, m))
    best = int(np.argmax(possible * scipy.stats.poisson.cdf(k, _MORE_ERRORS * n * expected[at]) * n_enough))
    return int(k[best]), int(bound[best])


def _thresholds(probability: Float[np.ndarray, " question"]) -> tuple[np.ndarray, Numbers, np.ndarray]:
    """Return each distinct probability, the highest first, how many reach it, and how many of these should be wrong."""
    thresholds, counts = (values[::-1] for values in np.unique(probability, return_counts=True))
    return thresholds, np.cumsum(counts), np.cumsum(counts * (1 - thresholds))
