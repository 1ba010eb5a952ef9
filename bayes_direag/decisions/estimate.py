r"""How many new answers are right, without labels of their own: from their probabilities, with an interval.

With :math:`m` labels and :math:`M` new answers, :math:`k = 1/m + 1/M`, and the probabilities :math:`p` of the new
answers, the accuracy is about :math:`e = \operatorname{mean} p`. Where a MAP gives the probabilities, its interval is
Wilson's (1927) with :math:`n = e (1 - e) / \operatorname{mean} p (1 - p) / k`. The benefit (accuracy - Brier score) is
about :math:`\operatorname{mean} p^2`, with :math:`t` standard errors of :math:`\sqrt{k \operatorname{mean} 4 p^3 (1 -
p)}`, since an answer's own benefit is :math:`2 p - p^2` if it is right and :math:`-p^2` if not. A posterior gives a
mean in every draw, to which the noise of :math:`M` answers is added. Questions of one cluster count as one in
:math:`k`.

No probability that :math:`m` labels teach is surer than by Laplace's rule, so in variances :math:`p` is held between
:math:`1 / (m + 2)` and :math:`(m + 1) / (m + 2)`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri, stdtrit

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit, Source
from bayes_direag.model.selection import select, tails
from bayes_direag.model.states import States

#: How often noise is drawn for each posterior draw.
_REPEATS = 20


@dataclass(frozen=True, eq=False)
class Estimate:
    """How many answers to new questions are right, if these are like the labelled ones."""

    #: Share of the answers that is right, with its interval.
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    #: Accuracy less the Brier score of their probabilities, with its interval.
    benefit: float
    benefit_low: float
    benefit_high: float
    interval_level: float
    #: Labels that the fit learned from, and new answers.
    n_labels: int
    n_answers: int
    #: How many labels of new questions would, by themselves, say as much of the accuracy.
    worth: float

    def narrowed(self, more_labels: int) -> float:
        """Return the width of the interval of the accuracy with so many more labels, as a share of its width now.

        Widths go with the root of :math:`k`, of which the new answers keep their part.
        """
        k, labels = 1 / self.n_labels + 1 / self.n_answers, self.n_labels + more_labels
        return float(np.sqrt((1 / labels + 1 / self.n_answers) / k))

    def record(self) -> dict[str, object]:
        """Return the estimate as plain values."""
        return dict(vars(self))

    def text(self) -> str:
        """Return the accuracy, and what more labels would bring if there are so many questions."""
        more, further = 3 * self.n_labels, ""
        if more <= self.n_answers:
            further = f" About {more:,} more labels would narrow this to {self.narrowed(more):.0%} of its width."
        return (
            f"About {self.accuracy:.0%} of these {self.n_answers:,} answers are right "
            f"[{self.accuracy_low:.0%}, {self.accuracy_high:.0%}; probability {self.interval_level:g}], if these "
            f"questions are like the {self.n_labels:,} labelled ones.{further}"
        )


def estimate(fit: Fit, observations: Source, *, interval_level: float = 0.9) -> Estimate:
    """Estimate how many answers to new questions are right.

    Questions that the fit has seen, and unanswered ones, do not count. Labels are not used.

    Raises
    ------
    LevelError, DirEAGError
        As :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>` does; if no question is new and answered; or if the
        fit has no final calibration.
    """
    quantiles = np.array(tails(interval_level))
    if fit.recalibration.method == "none":
        raise DirEAGError(
            "the fit has no final calibration, so its probabilities need not be right on average; expected one. Fit "
            "with a final calibration, such as platt."
        )
    aligned, n_calibrated = fit.aligned(observations), len(fit.calibrated_on)
    new = aligned.select(aligned.answered & ~fit.has_seen(aligned))
    if not len(new):
        raise DirEAGError(
            f"of {len(aligned)} questions {aligned.answered.sum()} are answered, and none of these is new to the fit; "
            "expected some. If they are other questions under the same problem_id, rename them."
        )
    n_labels, m = (n_calibrated, n_calibrated) if n_calibrated else sizes(fit.fitted, fit.fitted.weight)
    n_answers, n = sizes(new)
    least = 1 / (n_labels + 2)
    means, variances = _moments(fit, new, least)
    accuracy, benefit = means.mean(axis=1)
    if fit.n_samples == 1:
        variance, of_benefit = (1 / m + 1 / n) * variances[:, 0]
        held = np.clip(accuracy, least, 1 - least)
        worth = held * (1 - held) / variance
        ends = _wilson(accuracy, worth, ndtri(quantiles))
        benefit_ends = benefit + stdtrit(max(m - 1, 1), quantiles) * np.sqrt(of_benefit)
    else:  # posteriors count every label, so clusters widen them here
        rng = np.random.default_rng([fit.settings.seed, 3])
        spread = (means - means.mean(axis=1, keepdims=True)) * np.sqrt(n_labels / m)
        noise = [rng.standard_normal((_REPEATS, means.shape[1])) * np.sqrt(each / n) for each in variances]
        accuracies, benefits = means.mean(axis=1)[:, None, None] + spread[:, None] + np.stack(noise)
        worth = accuracy * (1 - accuracy) / accuracies.var()
        ends, benefit_ends = np.quantile(accuracies.clip(0, 1), quantiles), np.quantile(benefits, quantiles)
    (low, high), (benefit_low, benefit_high) = ends.tolist(), benefit_ends.tolist()
    return Estimate(
        accuracy=float(accuracy),
        accuracy_low=low,
        accuracy_high=high,
        benefit=float(benefit),
        benefit_low=benefit_low,
        benefit_high=benefit_high,
        interval_level=interval_level,
        n_labels=n_labels,
        n_answers=n_answers,
        worth=float(worth),
    )


def _moments(
    fit: Fit, new: Observations, least: float
) -> tuple[Float[np.ndarray, "2 sample"], Float[np.ndarray, "2 sample"]]:
    """Return the mean accuracy and benefit of the answers in every draw, and the mean variances of one answer's.

    In variances probabilities are at least ``least``, and at most 1 less that.
    """

    def sums(states: States) -> Float[np.ndarray, "4 sample"]:
        probability = fit.calibration.of_selected(select(states).support, states.panels)
        stated, held = probability.mean(axis=0), probability.clip(least, 1 - least)
        benefit, variance = 2 * stated * probability - stated**2, held * (1 - held)
        return np.stack([probability, benefit, variance, 4 * stated**2 * variance]).sum(axis=2)

    means, variances = np.split(np.sum([*fit.evaluation(new).each(sums)], axis=0) / len(new), 2)
    return means, variances


def sizes(observations: Observations, weight: Float[np.ndarray, " problem"] | None = None) -> tuple[int, int]:
    """Count questions, each by its weight, by default 1, and clusters, each by its mean weight; at least 1.

    A question without a cluster is one of its own.
    """
    weight, number = np.ones(len(observations)) if weight is None else weight, observations.cluster_number
    of_cluster = weight if number is None else np.bincount(number, weight) / np.bincount(number)
    return max(round(weight.sum()), 1), max(round(of_cluster.sum()), 1)


def _wilson(share: float, n: float, z: Float[np.ndarray, " end"]) -> Float[np.ndarray, " end"]:
    spread = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.asarray((share + z**2 / (2 * n) + spread) / (1 + z**2 / n))
