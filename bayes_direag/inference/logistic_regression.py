r"""Logistic regression with a normal prior, by NumPy: a few coefficients need no compiled program.

.. math:: p(\beta \mid X, y) \propto \prod_j \mathrm{N}(\beta_j; \mu_j, \sigma)
          \prod_i \left[ p_i^{y_i} (1 - p_i)^{1 - y_i} \right]^{w_i}, \qquad p = \operatorname{sigmoid}(X \beta)
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, log_expit

#: The search for the mode ends where the largest coordinate of the gradient of the mean loss is below this.
_TOLERANCE, _MOST_STEPS, _MOST_HALVINGS = 1e-10, 100, 40
_AT_ONCE = 64


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
