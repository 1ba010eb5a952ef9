r"""Logistic regressions with normal priors, many at once, by NumPy: a few coefficients need no compiled program.

.. math:: p(\beta \mid X, y) \propto \prod_j \mathrm{N}(\beta_j; \mu_j, \sigma_j)
          \prod_i \left[ p_i^{y_i} (1 - p_i)^{1 - y_i} \right]^{w_i}, \qquad p = \operatorname{sigmoid}(X \beta)
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, log_expit

#: A search ends where the Newton decrement, relative to the loss, is below this; and its smallest share of a step.
_DECREMENT, _MOST_STEPS, _SMALLEST_SHARE = 1e-14, 100, 1e-12
_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class LogisticRegressions:
    """Regressions whose answers follow one another in any order; the posterior of each has a single mode."""

    features: Float[np.ndarray, "answer coefficient"]
    right: Bool[np.ndarray, " answer"]
    #: How often each answer counts.
    weight: Float[np.ndarray, " answer"]
    #: The regression that each answer belongs to.
    member: Int[np.ndarray, " answer"]
    prior_mean: Float[np.ndarray, " coefficient"]
    prior_sd: Float[np.ndarray, "regression coefficient"]

    @property
    def total(self) -> Float[np.ndarray, " regression"]:
        """The total weight of the answers."""
        return self._sums(self.weight)

    def losses(self, points: Float[np.ndarray, "regression coefficient"]) -> Float[np.ndarray, " regression"]:
        """Return minus the log density of each regression at its point, up to a constant."""
        log_likelihood = self._sums(self.weight * log_expit(np.where(self.right, 1.0, -1.0) * self._score(points)))
        return np.asarray((((points - self.prior_mean) / self.prior_sd) ** 2).sum(axis=1) / 2 - log_likelihood)

    def gradients(
        self, points: Float[np.ndarray, "regression coefficient"]
    ) -> Float[np.ndarray, "regression coefficient"]:
        """Return the gradients of the losses."""
        residual = self.weight * (expit(self._score(points)) - self.right)
        of_answers = self._sums(self.features.T * residual).T
        return np.asarray(of_answers + (points - self.prior_mean) / self.prior_sd**2)

    def hessians(
        self, points: Float[np.ndarray, "regression coefficient"]
    ) -> Float[np.ndarray, "regression coefficient coefficient"]:
        """Return the Hessians of the losses."""
        p, x = expit(self._score(points)), self.features.T
        of_answers = np.moveaxis(self._sums(x[:, None] * x * (self.weight * p * (1 - p))), -1, 0)
        return np.asarray(of_answers + np.eye(len(x)) / self.prior_sd[:, None] ** 2)

    def modes(self) -> tuple[Float[np.ndarray, "regression coefficient"], Int[np.ndarray, " regression"]]:
        """Find the modes by Newton steps from the prior mean, halved where a loss would rise.

        Returns the points and the numbers of steps. A search ends after a step that hardly changes its loss, or where
        none lowers it.
        """
        points = np.tile(self.prior_mean, (len(self.prior_sd), 1))
        losses, searches = self.losses(points), np.ones(len(points), bool)
        n_steps = np.zeros(len(points), int)
        for _ in range(_MOST_STEPS):
            gradients = self.gradients(points)
            step = np.linalg.solve(self.hessians(points), gradients[..., None])[..., 0]
            last = searches & ((gradients * step).sum(axis=1) <= _DECREMENT * (1 + np.abs(losses)))
            points = np.where(last[:, None], points - step, points)
            n_steps += searches
            searches &= ~last
            left, share = searches.copy(), 1.0
            while left.any() and share > _SMALLEST_SHARE:
                tried = points - np.where(left, share, 0.0)[:, None] * step
                at = self.losses(tried)
                lower = left & (at < losses)
                points, losses = np.where(lower[:, None], tried, points), np.where(lower, at, losses)
                left, share = left & ~lower, share / 2
            searches &= ~left
            if not searches.any():
                break
        return points, n_steps

    def descended(self, rate: float, n_steps: int) -> Float[np.ndarray, "regression coefficient"]:
        """Take plain gradient steps of the mean losses from the prior mean."""
        points, per_answer = np.tile(self.prior_mean, (len(self.prior_sd), 1)), rate / self.total[:, None]
        for _ in range(n_steps):
            points = points - per_answer * self.gradients(points)
        return points

    def log_densities(self, points: Float[np.ndarray, "point coefficient"]) -> Float[np.ndarray, " point"]:
        """Return the log density of a single regression at each point, up to a constant; in limited memory."""
        sign, log_prior = np.where(self.right, 1.0, -1.0), (((points - self.prior_mean) / self.prior_sd) ** 2).sum(1)
        batches = np.split(points, range(_AT_ONCE, len(points), _AT_ONCE))
        log_likelihood = [log_expit(batch @ self.features.T * sign) @ self.weight for batch in batches]
        return np.asarray(np.concatenate(log_likelihood) - log_prior / 2)

    def _sums(self, values: Float[np.ndarray, "*shape answer"]) -> Float[np.ndarray, "*shape regression"]:
        *shape, n_answers = values.shape
        rows = values.reshape(math.prod(shape), n_answers)
        sums = [np.bincount(self.member, row, len(self.prior_sd)) for row in rows]
        return np.array(sums, float).reshape(*shape, len(self.prior_sd))

    def _score(self, points: Float[np.ndarray, "regression coefficient"]) -> Float[np.ndarray, " answer"]:
        return np.asarray((self.features.T * points.T[:, self.member]).sum(axis=0))
