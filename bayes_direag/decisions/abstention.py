r"""Selective prediction with a guarantee: answer only the most probable questions, for a target accuracy.

Choose a number :math:`k` without looking at labels. The threshold is the lowest one that at most :math:`k` of the
:math:`n` labelled answers reach and are wrong. With probability *assurance*, at most the share :math:`u` of all
questions has a wrong answer that reaches it, by the bound of Clopper and Pearson (1934), doi:10.1093/biomet/26.4.404:

.. math:: \Pr(\operatorname{Binomial}(n, u) \le k) = 1 - \text{assurance}

The bound holds for all such thresholds at once, whether or not the probabilities are calibrated. Questions are answered
only if :math:`u` is at most :math:`1 - \text{target}` times the share of new questions that reach the threshold. The
:math:`k` taken is the one for which the probabilities expect most answers.

Selecting the cases in which something is answered must not spoil the guarantee, so the probabilities have to support
the target too: the number of wrong answers that they expect, a Poisson variable, is small enough with probability
*assurance*. Only clusters are independent, so the first labelled question of each counts.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy  # which loads its slow parts when they are used
from jaxtyping import Bool, Float

from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit, Source
from bayes_direag.fits.making import left_out_predictions

#: Factor on the expected number of errors, since probabilities learned from few labels are somewhat too high.
_MORE_ERRORS = 1.1


@dataclass(frozen=True, eq=False)
class Abstention:
    """A table of predictions with the column ``answered`` (the probability reaches the threshold), and the decision."""

    table: pd.DataFrame
    target: float
    assurance: float
    #: NaN if nothing is answered.
    threshold: float
    #: Labelled questions with an answer, those that reach the threshold, and the wrong ones among these.
    n_labelled: int
    n_labelled_above: int
    n_labelled_wrong: int
    #: Questions that the fit has not seen, and how many of them are answered.
    n_new: int
    n_answered: int
    #: Whether the labelled questions are those of the fit.
    is_approximate: bool

    def record(self) -> dict[str, object]:
        """Return the decision as plain values; an undefined threshold is None."""
        figures = {name: value for name, value in vars(self).items() if name != "table"}
        return figures | {"threshold": self.threshold if self.n_answered else None}

    def text(self) -> str:
        """Return the decision in a sentence or two."""
        accuracy, n = f"an accuracy of {self.target:g} with assurance {self.assurance:g}", self.n_labelled
        if not self.n_answered:
            needed = math.ceil(math.log(1 - self.assurance) / math.log(self.target))
            return (
                f"None of {self.n_new} new questions is answered: labels and probabilities support {accuracy} at no "
                f"threshold. That takes {needed} labelled questions if every answer is right, usually several times as "
                f"many; there are {n}."
            )
        return (
            f"{self.n_answered} of {self.n_new} new questions are answered, those of probability {self.threshold:.4g} "
            f"or more, for {accuracy}: {self.n_labelled_above} of {n} labelled questions reach it, "
            f"{self.n_labelled_wrong} with a wrong answer."
            f"{' This is approximate, as the fit has learned from them.' if self.is_approximate else ''}"
        )


def abstention(
    fit: Fit,
    observations: Source,
    labelled: Source | None = None,
    *,
    target_accuracy: float,
    assurance: float = 0.9,
    interval_level: float = 0.9,
) -> Abstention:
    """Predict questions, and decide which of them to answer, as labelled ones of the same kind allow.

    With probability ``assurance`` the share ``target_accuracy`` of such answers is right, or nothing is answered.
    ``labelled`` are questions that the fit has not seen; by default the fitted ones, each predicted without its own
    label: by leave-one-out under NUTS, from four of five folds for a MAP.

    Raises DirEAGError if the fit has seen labelled questions, or they are also to be predicted; or if target, assurance
    or interval level are out of range.
    """
    observations = fit.read(observations)
    table, new = fit.predict(observations, interval_level=interval_level), ~fit.has_seen(observations)
    known = fit.fitted
    if labelled is not None:
        known = fit.read(labelled)
        known = known.select(known.labelled)
        seen = fit.learned_from.union(observations.problem_id)
        if both := [name for name in known.problem_id if name in seen]:
            raise DirEAGError(
                f"{len(both)} of {len(known)} labelled questions cannot be used, {both[0]!r} among them: the fit was "
                "fitted to them, or they are to be predicted; expected others. Remove them, or rename them."
            )
        predicted = fit.predict(known, warn=False)
        right = known.is_right(predicted["answer"])
    else:
        predicted = left_out_predictions(fit)
        right = predicted["correct"].to_numpy(bool)
    cluster = np.arange(len(known)) if known.cluster_number is None else known.cluster_number
    first = np.unique(cluster, return_index=True)[1]
    of_labelled, probability = (each["probability"].to_numpy(float) for each in (predicted.iloc[first], table))
    shares = {"target": target_accuracy, "assurance": assurance}
    threshold = lowest_threshold(of_labelled, right[first], probability[new], **shares)
    above = of_labelled >= threshold
    return Abstention(
        table=table.assign(answered=probability >= threshold),  # False where either is NaN
        **shares,
        threshold=threshold,
        n_labelled=int(np.isfinite(of_labelled).sum()),
        n_labelled_above=int(above.sum()),
        n_labelled_wrong=int((above & ~right[first]).sum()),
        n_new=int(new.sum()),
        n_answered=int((probability[new] >= threshold).sum()),
        is_approximate=labelled is None,
    )


def lowest_threshold(
    labelled: Float[np.ndarray, " labelled"],
    correct: Bool[np.ndarray, " labelled"],
    new: Float[np.ndarray, " new"],
    *,
    target: float,
    assurance: float = 0.9,
) -> float:
    """Return the lowest probability at which to answer, one of the new ones; NaN if none is supported.

    Given are the probabilities of labelled questions, by a fit that has not seen these labels, and whether the answers
    are right; then those of new questions. They are NaN without an answer. Raises DirEAGError unless the target is
    above 0 and below 1, and the assurance at least 1/2 and below 1.
    """
    if not 0 < target < 1:
        raise DirEAGError(f"target accuracy {target}: expected a share above 0 and below 1, such as 0.95.")
    if not 0.5 <= assurance < 1:
        raise DirEAGError(f"assurance {assurance}: expected a probability of at least 0.5 and below 1, such as 0.9.")
    is_known = ~np.isnan(labelled)
    n, of_wrong = is_known.sum(), np.sort(labelled[is_known & ~correct])
    thresholds, counts = (values[::-1] for values in np.unique(new[~np.isnan(new)], return_counts=True))
    n_reached, expected_wrong = np.cumsum(counts), np.cumsum(counts * (1 - thresholds))
    promised = scipy.stats.poisson.ppf(assurance, expected_wrong) <= (1 - target) * n_reached + 1e-9
    if not n or not promised.any():
        return math.nan
    tolerated = np.arange(n)
    n_enough = scipy.stats.beta.ppf(assurance, tolerated + 1, n - tolerated) / (1 - target) * n_reached[-1]
    at = np.searchsorted(n_reached, n_enough).clip(max=len(thresholds) - 1)
    chance = scipy.stats.poisson.cdf(tolerated, _MORE_ERRORS * n / n_reached[-1] * expected_wrong[at])
    k = int(np.argmax(chance * n_enough * (n_enough <= n_reached[promised].max())))
    n_wrong = len(of_wrong) - np.searchsorted(of_wrong, thresholds)
    supported = np.flatnonzero(promised & (n_wrong <= k) & (n_reached >= n_enough[k]))
    return float(thresholds[supported[-1]]) if len(supported) else math.nan
