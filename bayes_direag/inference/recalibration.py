r"""The final calibration: from the support of the selected answer to its probability of being correct.

The default is Platt scaling of the logit of the support, :math:`\operatorname{sigmoid}(a + b \operatorname{logit} P)`,
by a :mod:`logistic regression <bayes_direag.inference.logistic_regression>` of whether selected answers are right, with
a normal prior at the identity:

.. math:: p(a, b \mid P, y) \propto \mathrm{N}(a; 0, \sigma) \, \mathrm{N}(b; 1, \sigma)
          \prod_i p_i^{y_i} (1 - p_i)^{1 - y_i}, \qquad p_i = \operatorname{sigmoid}(a + b \operatorname{logit} P_i)

A MAP takes the mode. ``release`` stops the same objective after 1200 plain gradient steps. Questions that lack reports
have coefficients of their own (:mod:`bayes_direag.inference.panels`).

A posterior takes one set of coefficients for every draw of the evidence parameters, which do not depend on it: a *cut*
posterior. Its data are the leave-one-out support of each labelled question's selected answer, which has not seen the
question's label; under a preset with a split, the support of the questions kept apart. (A calibration of each draw by
its own support would also fit that draw's deviations to the labels; on held-out questions this was worse with 30 to 100
labels.)
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy  # which loads its slow parts when they are used
from jaxtyping import Bool, Float, Int

from bayes_direag.inference.logistic_regression import LogisticRegressions
from bayes_direag.inference.map import require_converged
from bayes_direag.model.selection import IDENTITY, Recalibration, clipped_logit
from bayes_direag.model.settings import RecalibrationSettings

_RELEASE_RATE, _RELEASE_STEPS = 0.05, 1200
#: The proposals of the sampler: t distributions, the share of those at the mode, and the steps that are dropped.
_DEGREES_OF_FREEDOM, _SHARE_AT_MODE, _SETTLING = 8, 0.8, 50


class Outcomes(NamedTuple):
    """The data of the final calibration, for a batch of fits: the support of selected answers, and whether right."""

    support: Float[np.ndarray, "batch answer"]
    right: Bool[np.ndarray, "batch answer"]
    #: How often each answer counts; 0 leaves it out.
    weight: Float[np.ndarray, "batch answer"]

    @classmethod
    def of_selected(
        cls,
        support: Float[np.ndarray, "batch problem state"],
        right: Bool[np.ndarray, "problem state"],
        weight: Float[np.ndarray, "batch problem"],
        *selections: Int[np.ndarray, "batch problem"],
    ) -> "Outcomes":
        """Take the support and correctness of selected candidates; several selections share the weight equally.

        If a question's own label decides between two candidates, the answer selected without the label is always wrong
        and the answer selected with it always right. With half the weight on each, the bias cancels.
        """
        parts = []
        for selected in selections:
            of_selected = np.take_along_axis(support, selected[..., None], axis=2)[..., 0]
            parts.append((of_selected, right[np.arange(len(right)), selected], weight / len(selections)))
        supports, rights, weights = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        return cls(supports, rights, weights)


def recalibrate(outcomes: Outcomes, settings: RecalibrationSettings) -> list[Recalibration]:
    """Fit one recalibration for each row of a batch."""
    if settings.method == "none":
        return [Recalibration.identity((1, 1), settings.eps) for _ in outcomes.support]
    regressions = logistic_regressions(outcomes, settings)
    if settings.method == "release":
        points = regressions.descended(_RELEASE_RATE, _RELEASE_STEPS)
    else:
        points, n_steps = regressions.modes()
        gradients = np.abs(regressions.gradients(points)).max(axis=1) / regressions.total
        require_converged("the recalibration", gradients, regressions.losses(points) / regressions.total, n_steps)
    return [
        Recalibration(
            settings.method,
            {name: np.full((1, 1), value) for name, value in zip(IDENTITY, point, strict=True)},
            settings.eps,
        )
        for point in points
    ]


def logistic_regressions(outcomes: Outcomes, settings: RecalibrationSettings) -> LogisticRegressions:
    """Return the regressions of a batch; their coefficients are in the order of :data:`IDENTITY`."""
    used = outcomes.weight > 0
    logit = clipped_logit(outcomes.support[used], settings.eps)
    prior_sd = [[settings.prior_scale(total)] * len(IDENTITY) for total in outcomes.weight.sum(axis=1)]
    return LogisticRegressions(
        features=np.stack([np.ones(len(logit)), logit]).T,
        right=outcomes.right[used],
        weight=outcomes.weight[used],
        member=np.nonzero(used)[0],
        prior_mean=np.array([*IDENTITY.values()]),
        prior_sd=np.array(prior_sd),
    )


def draw_recalibration(
    outcomes: Outcomes, settings: RecalibrationSettings, shape: tuple[int, int], rng: np.random.Generator
) -> Recalibration:
    """Draw the coefficients from their posterior, given a batch of one, for this number of chains and draws.

    Metropolis-Hastings with independent proposals from a mixture of t distributions with 8 degrees of freedom: 80 % at
    the mode with the scale of the normal approximation, and 20 % with the location and scale of the prior, for the long
    tails of a posterior with few labels or a single class. About three proposals in four are accepted. The first 50
    steps of each chain are dropped. Under ``release`` the objective is the same, but not its early end.
    """
    settings = settings.model_copy(update={"method": "platt"})
    platt = recalibrate(outcomes, settings)[0]
    mode = np.array([value[0, 0] for value in platt.coefficients.values()])
    regression = logistic_regressions(outcomes, settings)
    n_chains, n_draws = shape
    n_steps = _SETTLING + n_draws
    proposals = mode, regression.hessians(mode[None])[0], regression.prior_mean, regression.prior_sd[0, 0]
    points, log_proposal = _proposals(*proposals, n_chains * n_steps, rng)
    log_ratio = (regression.log_densities(points) - log_proposal).reshape(n_chains, n_steps)
    accepted = _accepted(log_ratio, np.log(rng.uniform(size=log_ratio.shape)))[:, _SETTLING:]
    drawn = points.reshape(n_chains, n_steps, -1)[np.arange(n_chains)[:, None], accepted]
    coefficients = {name: drawn[..., number] for number, name in enumerate(platt.coefficients)}
    return replace(platt, coefficients=coefficients)


def _proposals(
    mode: Float[np.ndarray, " coefficient"],
    curvature: Float[np.ndarray, "coefficient coefficient"],
    prior_mean: Float[np.ndarray, " coefficient"],
    prior_sd: float,
    n: int,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "point coefficient"], Float[np.ndarray, " point"]]:
    """Draw points from the mixture of proposals, with the log density of the mixture at each."""
    narrow = scipy.stats.multivariate_t(mode, np.linalg.inv(curvature), _DEGREES_OF_FREEDOM)
    wide = scipy.stats.multivariate_t(prior_mean, np.eye(len(mode)) * prior_sd**2, _DEGREES_OF_FREEDOM)
    is_narrow = rng.uniform(size=n) < _SHARE_AT_MODE
    near, far = (part.rvs(n, random_state=rng).reshape(n, -1) for part in (narrow, wide))
    points = np.where(is_narrow[:, None], near, far)
    parts = np.log(_SHARE_AT_MODE) + narrow.logpdf(points), np.log1p(-_SHARE_AT_MODE) + wide.logpdf(points)
    return points, np.logaddexp(*parts)


def _accepted(log_ratio: Float[np.ndarray, "chain step"], log_uniform: Float[np.ndarray, "chain step"]) -> np.ndarray:
    """Return the index of the last accepted proposal of each chain after each step."""
    chain = np.arange(len(log_ratio))
    accepted = np.zeros(log_ratio.shape, int)
    current = accepted[:, 0]
    for step in range(1, log_ratio.shape[1]):
        accept = log_uniform[:, step] < log_ratio[:, step] - log_ratio[chain, current]
        current = np.where(accept, step, current)
        accepted[:, step] = current
    return accepted
