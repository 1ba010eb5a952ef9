r"""The posterior of the final calibration, learned from support that had not seen the labels.

The data are, for every labelled question, the leave-one-out support of its selected answer, and whether that is right;
so no question vouches for itself. Which answer is selected may hang on the question's own label: so it counts by
halves, once with the answer selected without that label and once with the answer selected with it. With the first alone
a tie would always be wrong, with the second always right. The coefficients t of the calibration
(:class:`~bayes_direag.model.settings.RecalibrationSettings`) have a normal prior at the identity:

.. math:: p(t \mid x, y) \propto \prod_j \mathrm{N}(t_j; t^0_j, \sigma)
          \prod_i \operatorname{Bernoulli}(y_i \mid \operatorname{sigmoid}(t^\top x_i))^{1/2}

with :math:`x_i` 1 and the logit of the support, for both answers of every question.

One t is drawn for every draw of the evidence parameters, which learn nothing back from it: a *cut* posterior. (Scores
taken draw by draw would leave in each draw its own fit to the labels; on held-out questions that was worse with 30
to 100 labels.)
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit, log_expit

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.recalibration import LogisticRecalibration, Selected, linear_terms, recalibrate
from bayes_direag.model.settings import IDENTITY, RecalibrationSettings

_DEGREES_OF_FREEDOM = 8
_SHARE_AT_MODE = 0.8
_SETTLING = 50
_AT_ONCE, _THREADS = 1 << 22, 2


class _Target(NamedTuple):
    """The posterior of the coefficients.

    Attributes
    ----------
    terms
        What each coefficient multiplies, negative where the answer is wrong.
    weight
        How often each answer counts.
    loc, scale
        Of the normal priors.
    """

    terms: Float[np.ndarray, "answer term"]
    weight: Float[np.ndarray, " answer"]
    loc: Float[np.ndarray, " term"]
    scale: float

    def log_density(self, points: Float[np.ndarray, "point term"]) -> Float[np.ndarray, " point"]:
        """Return the log density of each point, up to a constant; a bounded number of numbers at once."""
        parts = np.array_split(points, -(-len(points) * len(self.terms) // _AT_ONCE))
        with ThreadPoolExecutor(_THREADS) as threads:
            each = threads.map(lambda part: log_expit(part @ self.terms.T) @ self.weight, parts)
            reached = np.concatenate(list(each))
        return np.asarray(reached - (((points - self.loc) / self.scale) ** 2).sum(axis=1) / 2)

    def curvature(self, point: Float[np.ndarray, " term"]) -> Float[np.ndarray, "term term"]:
        """Return the Hessian of minus the log density."""
        right = expit(self.terms @ point)
        return np.asarray(
            self.terms.T * (self.weight * right * (1 - right)) @ self.terms + np.eye(len(point)) / self.scale**2
        )


def require_posterior(final: RecalibrationSettings) -> None:
    """Raise DirEAGError unless this final calibration has a posterior to be drawn from, or is left out."""
    if final.method not in ("platt", "none"):
        raise DirEAGError(
            f"recalibration method {final.method} is for MAP; expected platt or none under NUTS, which draws the final "
            "calibration from its posterior."
        )


def draw_recalibration(
    selected: Selected, settings: RecalibrationSettings, shape: tuple[int, int], rng: np.random.Generator
) -> LogisticRecalibration:
    """Draw the coefficients from their posterior.

    By Metropolis-Hastings with independent proposals: four in five from a t distribution with 8 degrees of freedom at
    the mode, its scale that of the normal approximation there; the others from one as wide as the prior, for the long
    tail that a posterior has where labels are few or of one class. About three in four are taken; each chain begins 50
    steps earlier than it is kept.

    Parameters
    ----------
    selected
        The answers of greatest leave-one-out support: a batch of one. One class alone is fine, the prior keeps the
        coefficients finite.
    settings
        Terms, prior scales and eps; see :class:`~bayes_direag.model.settings.RecalibrationSettings`.
    shape
        Number of chains and of draws in each.
    rng
        Source of the draws.

    Raises
    ------
    ConvergenceError
        If the mode is not reached.
    """
    found = recalibrate(selected, settings)[0]
    assert isinstance(found, LogisticRecalibration)  # noqa: S101 - narrows the type, guards no input
    names = tuple(IDENTITY)
    mode = np.array([found.coefficients[name][0, 0] for name in names])
    target = _target(selected, settings)
    n_chains, n_draws = shape
    n_steps = _SETTLING + n_draws
    points, log_proposal = _proposals(mode, target, n_chains * n_steps, rng)
    advantage = (target.log_density(points) - log_proposal).reshape(n_chains, n_steps)
    taken = _accepted(advantage, np.log(rng.uniform(size=advantage.shape)))[:, _SETTLING:]
    drawn = points.reshape(n_chains, n_steps, -1)[np.arange(n_chains)[:, None], taken]
    return LogisticRecalibration("platt", {name: drawn[..., k] for k, name in enumerate(names)}, settings.eps)


def _target(selected: Selected, settings: RecalibrationSettings) -> _Target:
    terms = linear_terms(selected.support, settings.eps)
    columns = np.stack([values[0] for values in terms.values()], axis=1)
    return _Target(
        np.where(selected.correct[0, :, None], columns, -columns),
        selected.weight[0],
        np.array([IDENTITY[name] for name in terms]),
        settings.prior_scale(selected.weight.sum()),
    )


def _proposals(
    mode: Float[np.ndarray, " term"], target: _Target, n: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "point term"], Float[np.ndarray, " point"]]:
    """Draw points around the mode and as widely as the prior, with the log density of the mixture at each."""
    from scipy.stats import multivariate_t  # here, as its import takes long, and a MAP fit draws nothing

    narrow = multivariate_t(mode, np.linalg.inv(target.curvature(mode)), _DEGREES_OF_FREEDOM)
    wide = multivariate_t(target.loc, np.eye(len(mode)) * target.scale**2, _DEGREES_OF_FREEDOM)
    is_narrow = rng.uniform(size=n) < _SHARE_AT_MODE
    near, far = (one.rvs(n, random_state=rng).reshape(n, -1) for one in (narrow, wide))
    points = np.where(is_narrow[:, None], near, far)
    parts = np.log(_SHARE_AT_MODE) + narrow.logpdf(points), np.log1p(-_SHARE_AT_MODE) + wide.logpdf(points)
    return points, np.logaddexp(*parts)


def _accepted(advantage: Float[np.ndarray, "chain step"], log_uniform: Float[np.ndarray, "chain step"]) -> np.ndarray:
    """Return the number of the proposal at which each chain stands after each step."""
    chain = np.arange(len(advantage))
    place = np.zeros(advantage.shape, int)
    here = place[:, 0]
    for step in range(1, advantage.shape[1]):
        accept = log_uniform[:, step] < advantage[:, step] - advantage[chain, here]
        here = np.where(accept, step, here)
        place[:, step] = here
    return place
