r"""The posterior of the final calibration, learned from leave-one-out support.

The data are the leave-one-out support of each labelled question's selected answer, which has not seen the question's
label, and whether the answer is right; under a preset with a split, the support of the questions kept apart. The
coefficients :math:`(a, b)` of the calibration (:class:`~bayes_direag.model.settings.RecalibrationSettings`) have a
normal prior at the identity:

.. math:: p(a, b \mid P, y) \propto \mathrm{N}(a; 0, \sigma) \, \mathrm{N}(b; 1, \sigma)
          \prod_i p_i^{y_i} (1 - p_i)^{1 - y_i}, \qquad p_i = \operatorname{sigmoid}(a + b \operatorname{logit} P_i)

Partial fits add :math:`c \log(\text{share of the reports})` to the logit, with the same prior at 0. One set of
coefficients is drawn for every draw of the evidence parameters, which do not depend on it: a *cut* posterior. (A
calibration of each draw by its own support would also fit that draw's deviations to the labels; on held-out questions
this was worse with 30 to 100 labels.)
"""

from dataclasses import replace

import numpy as np
import scipy  # which loads its slow parts when they are used
from jaxtyping import Float

from bayes_direag.inference.recalibration import Outcomes, logistic_posterior, recalibrate
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.settings import RecalibrationSettings

_DEGREES_OF_FREEDOM = 8
_SHARE_AT_MODE = 0.8
_SETTLING = 50


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
    posterior = logistic_posterior(outcomes, 0, settings)
    n_chains, n_draws = shape
    n_steps = _SETTLING + n_draws
    proposals = mode, posterior.curvature(mode), posterior.prior_mean, posterior.prior_sd
    points, log_proposal = _proposals(*proposals, n_chains * n_steps, rng)
    log_densities = posterior.log_densities(points)
    log_ratio = (log_densities - log_proposal).reshape(n_chains, n_steps)
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
