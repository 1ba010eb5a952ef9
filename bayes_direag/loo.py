r"""What a posterior would say of each labelled question had it not seen its label: PSIS leave-one-out, no refit.

Draw s is given the weight :math:`w_{is} \propto 1 / p(y_i \mid \theta_s)` for question i, smoothed by a Pareto tail
(Vehtari, Gelman and Gabry 2017, doi:10.1007/s11222-016-9696-4; Vehtari et al. 2024, jmlr.org/papers/v25/19-556). The
tail's shape, Pareto k, says how far to trust it: above 0.7 the label has moved the posterior too much for weights
to undo.
"""

from typing import NamedTuple

import jax
import numpy as np
import xarray as xr
from arviz_stats import ess
from arviz_stats.base import array_stats
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from bayes_direag.evidence import Parameters
from bayes_direag.observations import Observations
from bayes_direag.selection import pieces, supports

#: Above this Pareto k, what is said of a question is not to be relied on.
LARGEST_PARETO_K = 0.7


class LeaveOneOut(NamedTuple):
    """Each question as predicted from all the others.

    Attributes
    ----------
    elpd : (problem,) array
        Log predictive density of what came true.
    pareto_k : (problem,) array
        Shape of the tail of its importance weights; infinite, and the weights unsmoothed, where all of the tail is
        one value, as with chains that stand still.
    candidate : (problem,) array
        The candidate of greatest leave-one-out support.
    support : (problem,) array
        That support.
    correct : (problem,) array
        Whether that candidate is right.
    """

    elpd: Float[np.ndarray, " problem"]
    pareto_k: Float[np.ndarray, " problem"]
    candidate: Int[np.ndarray, " problem"]
    support: Float[np.ndarray, " problem"]
    correct: Bool[np.ndarray, " problem"]

    def to_dataset(self) -> xr.Dataset:
        """Return a variable an attribute."""
        return xr.Dataset({name: ("problem", values) for name, values in self._asdict().items()})


def leave_one_out(
    observations: Observations,
    posterior: xr.Dataset,
    log_likelihood: Float[np.ndarray, "chain draw problem"],
    parameters: Parameters,
    eps: float,
) -> LeaveOneOut:
    """Predict every question from the draws, weighted as if its own label had not been seen.

    Parameters
    ----------
    observations
        The labelled, answered questions that were fitted to.
    posterior
        Raw parameters by chain and draw, from whose mean effective sample size the length of the smoothed tail follows.
    log_likelihood
        Of each question, in every draw.
    parameters
        Natural parameters of all draws, chains one after the other.
    """
    n_chains, n_draws, n = log_likelihood.shape
    size = ess(posterior, method="mean")
    relative = float(np.mean(np.concatenate([size[name].to_numpy().ravel() for name in size.data_vars])))
    reached = log_likelihood.reshape(-1, n).T
    smoothed = [_smoothed(question, relative / (n_chains * n_draws)) for question in reached]
    log_weight, pareto_k = (np.array(part) for part in zip(*smoothed, strict=True))
    weight = np.exp(log_weight).T

    candidate, support = [], []
    start = 0
    for reports, count in pieces(observations, n_samples=weight.shape[0]):
        with jax.enable_x64(True):
            every = np.asarray(_supports(reports, parameters, eps))[:, :count, :-1]
        loo = np.einsum("si,sik->ik", weight[:, start : start + count], every)
        best = loo.argmax(axis=1)
        candidate.append(best)
        support.append(loo[np.arange(count), best])
        start += count
    chosen = np.concatenate(candidate)
    return LeaveOneOut(
        elpd=logsumexp(reached + log_weight, axis=1),
        pareto_k=pareto_k,
        candidate=chosen,
        support=np.concatenate(support),
        correct=observations.correct_candidate[np.arange(n), chosen],
    )


def _smoothed(log_likelihood: Float[np.ndarray, " sample"], r_eff: float) -> tuple[Float[np.ndarray, " sample"], float]:
    """Return the log of a question's smoothed weights, which sum to 1, and Pareto k."""
    try:
        # ArviZ negates: it is given the log-likelihood itself
        log_weight, pareto_k = array_stats.psislw(log_likelihood, r_eff=r_eff)
    except ValueError:
        return -log_likelihood - logsumexp(-log_likelihood), np.inf
    return np.asarray(log_weight), float(pareto_k)


_supports = jax.jit(supports, static_argnames="eps")
