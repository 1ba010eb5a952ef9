r"""Logistic regression with a normal prior, by NumPy: a few coefficients need no compiled program.

.. math:: p(\beta \mid X, y) \propto \prod_j \mathrm{N}(\beta_j; \mu_j, \sigma)
          \prod_i \left[ p_i^{y_i} (1 - p_i)^{1 - y_i} \right]^{w_i}, \qquad p = \operatorname{sigmoid}(X \beta)
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, log_expit

#: The search for the mode ends where the largest coordinate of the gradient of the mean loss is below this.
_TOLERANCE, _MOST_STEPS, _MOST_HALVINGS = 1e-10, 100, 40
_AT_ONCE = 64
#: The search for many modes ends where the Newton decrement, relative to the loss, is below this; the smallest step.
_DECREMENT, _SMALLEST_STEP = 1e-14, 1e-6


@dataclass(frozen=True, eq=False)
class LogisticPosterior:
    """The posterior density of the coefficients, which has a single mode."""

    features: Float[np.ndarray, "answer coefficient"]
    right: Bool[np.ndarray, " answer"]
    #: How often each answer counts.
    weight: Float[np.ndarray, " answer"]
    prior_mean: Float[np.ndarray, " coefficient"]
    prior_sd: float

    def loss(self, point: Float[np.ndarray, " coefficient"]) -> float:
        """Return minus the log density over the total weight, up to a constant."""
        return -float(self.log_densities(point[None])[0] / self.weight.sum())

    def gradient(self, point: Float[np.ndarray, " coefficient"]) -> Float[np.ndarray, " coefficient"]:
        """Return the gradient of the loss."""
        residual = self.weight * (expit(self.features @ point) - self.right)
        penalty = (point - self.prior_mean) / self.prior_sd**2
        return np.asarray((residual @ self.features + penalty) / self.weight.sum())

    def curvature(self, point: Float[np.ndarray, " coefficient"]) -> Float[np.ndarray, "coefficient coefficient"]:
        """Return the Hessian of minus the log density."""
        p = expit(self.features @ point)
        prior = np.eye(len(point)) / self.prior_sd**2
        return np.asarray((self.features.T * (self.weight * p * (1 - p))) @ self.features + prior)

    def log_densities(self, points: Float[np.ndarray, "point coefficient"]) -> Float[np.ndarray, " point"]:
        """Return the log density at each point, up to a constant, in batches of limited memory."""
        sign, log_prior = np.where(self.right, 1.0, -1.0), ((points - self.prior_mean) ** 2).sum(axis=1)
        batches = np.split(points, range(_AT_ONCE, len(points), _AT_ONCE))
        log_likelihood = [log_expit(batch @ self.features.T * sign) @ self.weight for batch in batches]
        return np.asarray(np.concatenate(log_likelihood) - log_prior / (2 * self.prior_sd**2))

    def mode(self) -> tuple[Float[np.ndarray, " coefficient"], int]:
        """Find the mode by Newton steps from the prior mean, halved where the loss would rise.

        Returns the point and the number of steps. If the loss stalls in rounding error, the search ends with a last
        step, unless the gradient grows.
        """
        point, loss = self.prior_mean, self.loss(self.prior_mean)
        for n_steps in range(_MOST_STEPS):
            gradient = self.gradient(point)
            if not np.abs(gradient).max() > _TOLERANCE:
                return point, n_steps
            step = np.linalg.solve(self.curvature(point) / self.weight.sum(), gradient)
            tried = (point - step / 2**halvings for halvings in range(_MOST_HALVINGS))
            lower = next(((new, at) for new in tried if (at := self.loss(new)) < loss), None)
            if lower is None:
                last = point - step
                return last if np.abs(self.gradient(last)).max() < np.abs(gradient).max() else point, n_steps + 1
            point, loss = lower
        return point, _MOST_STEPS

    def descended(self, rate: float, n_steps: int) -> Float[np.ndarray, " coefficient"]:
        """Take plain gradient steps from the prior mean."""
        point = self.prior_mean
        for _ in range(n_steps):
            point = point - rate * self.gradient(point)
        return point


class Batch(NamedTuple):
    """Many regressions on an intercept and one feature, whose answers follow one another in any order."""

    feature: Float[np.ndarray, " answer"]
    right: Bool[np.ndarray, " answer"]
    weight: Float[np.ndarray, " answer"]
    #: The regression that each answer belongs to.
    member: Int[np.ndarray, " answer"]
    prior_mean: Float[np.ndarray, " 2"]
    prior_sd: Float[np.ndarray, "regression 2"]

    def _sum(self, values: Float[np.ndarray, " answer"]) -> Float[np.ndarray, " regression"]:
        return np.bincount(self.member, values, len(self.prior_sd)).astype(float)  # of none: integers

    def _score(self, points: Float[np.ndarray, "regression 2"]) -> Float[np.ndarray, " answer"]:
        intercept, slope = points[self.member].T
        return np.asarray(intercept + slope * self.feature)

    def losses(self, points: Float[np.ndarray, "regression 2"]) -> Float[np.ndarray, " regression"]:
        """Return minus the log density of each regression at its point, up to a constant."""
        of_answers = self._sum(self.weight * log_expit(np.where(self.right, 1.0, -1.0) * self._score(points)))
        return np.asarray((((points - self.prior_mean) / self.prior_sd) ** 2).sum(axis=1) / 2 - of_answers)

    def slopes(
        self, points: Float[np.ndarray, "regression 2"]
    ) -> tuple[Float[np.ndarray, "regression 2"], Float[np.ndarray, "regression 2 2"]]:
        """Return the gradients of the losses, and their Hessians."""
        p, x, sums = expit(self._score(points)), self.feature, self._sum
        residual, information = self.weight * (p - self.right), self.weight * p * (1 - p)
        cross = sums(information * x)
        gradient = np.stack([sums(residual), sums(residual * x)], axis=1)
        hessian = np.array([[sums(information), cross], [cross, sums(information * x * x)]]).transpose(2, 0, 1)
        precision = 1 / self.prior_sd**2
        return gradient + (points - self.prior_mean) * precision, hessian + precision[:, :, None] * np.eye(2)

    def modes(self) -> tuple[Float[np.ndarray, "regression 2"], Float[np.ndarray, "regression 2 2"]]:
        """Find the modes, and the Hessians there, by Newton steps from the prior mean, halved where a loss would rise.

        A search ends where its step would change the loss by less than rounding does.
        """
        points, searching = np.tile(self.prior_mean, (len(self.prior_sd), 1)), np.ones(len(self.prior_sd), bool)
        losses = self.losses(points)
        for _ in range(_MOST_STEPS):
            gradient, hessian = self.slopes(points)
            step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
            searching &= (gradient * step).sum(axis=1) > _DECREMENT * (1 + np.abs(losses))
            left, size = searching.copy(), 1.0
            while left.any() and size > _SMALLEST_STEP:
                tried = points - np.where(left, size, 0.0)[:, None] * step
                at = self.losses(tried)
                lower = left & (at < losses)
                points, losses = np.where(lower[:, None], tried, points), np.where(lower, at, losses)
                left, size = left & ~lower, size / 2
            searching &= ~left
            if not searching.any():
                break
        return points, self.slopes(points)[1]
