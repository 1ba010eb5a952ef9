r"""The posterior of the final calibration: intercept and slope, learned from support that had not seen the labels.

The data are, for every labelled question, the logit of the greatest leave-one-out support of its candidates, and
whether that candidate is right; so no question vouches for itself. Intercept a and slope b have a normal prior at the
identity (0, 1):

.. math:: p(a, b \mid z, y) \propto \mathrm{N}(a; 0, \sigma)\, \mathrm{N}(b; 1, \sigma)
          \prod_i \operatorname{Bernoulli}(y_i \mid \operatorname{sigmoid}(a + b z_i))

A pair is drawn for every draw of the evidence parameters, which learn nothing back from it: a *cut* posterior. (Scores
taken draw by draw would leave in each draw its own fit to the labels; on held-out questions that was worse with 30
to 100 labels.)
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, log_expit, logit

from bayes_direag.recalibration import LogisticRecalibration, recalibrate
from bayes_direag.settings import RecalibrationSettings

_REACH = 6.0
_CELLS = 61
_AT_ONCE = 1 << 22


def draw_recalibration(
    support: Float[np.ndarray, " problem"],
    correct: Bool[np.ndarray, " problem"],
    settings: RecalibrationSettings,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> LogisticRecalibration:
    """Draw intercept and slope from their posterior.

    The two-dimensional density is tabulated on a grid of 61 by 61 cells that reaches 6 standard deviations of its
    normal approximation either way; a pair is a cell drawn by its probability, and a uniform place in it. That
    inflates a standard deviation by 0.2 %.

    Parameters
    ----------
    support : (problem,) array
        Leave-one-out support of the selected answers.
    correct : (problem,) array
        Whether they are right; one class alone is fine, the prior keeps the slope finite.
    settings
        Prior scale and eps; see :class:`~bayes_direag.settings.RecalibrationSettings`.
    shape
        Number of chains and of draws in each.
    rng
        Source of the draws.

    Raises
    ------
    ConvergenceError
        If the mode is not reached.
    """
    score = logit(np.clip(support, settings.eps, 1 - settings.eps))
    sigma = settings.prior_scale(len(score))
    everything = np.ones((1, len(score)), bool)
    found = recalibrate(support[None], correct[None], everything, settings)[0]
    assert isinstance(found, LogisticRecalibration)  # noqa: S101 - narrows the type, guards no input
    mode = np.array([found.intercept[0, 0], found.slope[0, 0]])
    spread = np.linalg.inv(np.linalg.cholesky(_curvature(mode, score, sigma))).T

    edge = 2 * _REACH / _CELLS
    centre = np.linspace(-_REACH + edge / 2, _REACH - edge / 2, _CELLS)
    cells = np.stack(np.meshgrid(centre, centre, indexing="ij"), axis=-1).reshape(-1, 2)
    density = _log_density(mode + cells @ spread.T, score, correct, sigma)
    probability = np.exp(density - density.max())
    drawn = rng.choice(len(cells), size=shape[0] * shape[1], p=probability / probability.sum())
    place = cells[drawn] + rng.uniform(-edge / 2, edge / 2, (len(drawn), 2))
    intercept, slope = (mode + place @ spread.T).T
    return LogisticRecalibration("platt", intercept.reshape(shape), slope.reshape(shape), settings.eps)


def _curvature(
    pair: Float[np.ndarray, "2"], score: Float[np.ndarray, " problem"], sigma: float
) -> Float[np.ndarray, "2 2"]:
    """Return the Hessian of minus the log density."""
    right = expit(pair[0] + pair[1] * score)
    design = np.stack([np.ones_like(score), score], axis=1)
    return np.asarray(design.T @ (design * (right * (1 - right))[:, None]) + np.eye(2) / sigma**2)


def _log_density(
    pairs: Float[np.ndarray, "pair 2"],
    score: Float[np.ndarray, " problem"],
    correct: Bool[np.ndarray, " problem"],
    sigma: float,
) -> Float[np.ndarray, " pair"]:
    """Return the log density of each pair, up to a constant; a bounded number of numbers at once."""
    sign = np.where(correct, 1.0, -1.0)
    parts = np.array_split(pairs, -(-len(pairs) * len(score) // _AT_ONCE))
    reached = [log_expit((part[:, :1] + part[:, 1:] * score) * sign).sum(axis=1) for part in parts]
    return np.asarray(np.concatenate(reached) - ((pairs - [0.0, 1.0]) ** 2).sum(axis=1) / (2 * sigma**2))
