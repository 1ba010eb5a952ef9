"""A problem small enough to integrate: one level, two free parameters, its posterior by quadrature on a grid."""

from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Float
from scipy.special import logsumexp

from bayes_direag.data.observations import Observations
from bayes_direag.model.evidence import belief_and_doubt, draw_states, sums_by_answer
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import preset
from tests.bayes_direag import brute_force
from tests.bayes_direag.data.questions import question

_PRIORS = {"weight_base": (2.0, 1.5), "bias": (0.0, 2.0)}
_FIXED = {"prior_strength": 1.0, "slope": 0.7, "null_base": 0.5, "null_gain": 0.8, "sharpness": 1.3, "vote_slope": 0.2}


def program(data: LikelihoodData) -> None:
    """Weight and bias are free; the rest is not."""
    for name, value in _FIXED.items():
        numpyro.deterministic(name, jnp.asarray(value))
    with data.levels():
        weight = numpyro.sample("weight", dist.LogNormal(*_PRIORS["weight_base"]))
        bias = numpyro.sample("bias", dist.Normal(*_PRIORS["bias"]))
    belief, doubt = belief_and_doubt(bias[:, None] + _FIXED["slope"] * data.logit, data)
    share = 1 / data.n_states
    answers = share[None] + sums_by_answer(weight[:, None] * belief, data.candidate)
    null = share + _FIXED["null_base"] + _FIXED["null_gain"] * (weight @ doubt)
    votes = sums_by_answer(_FIXED["vote_slope"] * data.logit * data.usable, data.candidate)
    draw_states(data, _FIXED["sharpness"] * jnp.log(answers) + votes, _FIXED["sharpness"] * jnp.log(null))


PRESET = preset(program)
#: How the tests sample it.
SAMPLING = {"num_chains": 2, "num_warmup": 200, "num_samples": 2000}

#: Right and wrong answers at each stated confidence.
_COUNTS = {50: (4, 6), 80: (6, 4), 95: (8, 2), 100: (9, 1)}


def observations() -> Observations:
    asked = [(stated, number < right) for stated, (right, wrong) in _COUNTS.items() for number in range(right + wrong)]
    return Observations.from_questions(
        [
            question(f"{stated} % number {number}", ("7", stated), gold_answer="7" if right else "8")
            for number, (stated, right) in enumerate(asked)
        ],
        answers="numeric",
    )


class Posterior(NamedTuple):
    """Values at the points of a grid of even spacing.

    Attributes
    ----------
    unconstrained : dict of (point,) arrays
        The two unconstrained parameters.
    log_prior : (point,) array
        Up to a constant.
    support : (point, problem) array
        Of the one candidate.
    log_likelihood : (point, problem) array
        Of what came true.
    """

    unconstrained: dict[str, Float[np.ndarray, " point"]]
    log_prior: Float[np.ndarray, " point"]
    support: Float[np.ndarray, "point problem"]
    log_likelihood: Float[np.ndarray, "point problem"]

    def probability(self, without: int | None = None) -> Float[np.ndarray, " point"]:
        """Return the posterior probability of each point, given all questions or all but one."""
        kept = np.arange(self.log_likelihood.shape[1]) != (-1 if without is None else without)
        log_density = self.log_prior + self.log_likelihood[:, kept].sum(axis=1)
        return np.exp(log_density - logsumexp(log_density))


@cache
def posterior(n_side: int = 61) -> Posterior:
    sides = {name: np.linspace(loc - 5 * scale, loc + 5 * scale, n_side) for name, (loc, scale) in _PRIORS.items()}
    unconstrained = {name: grid.ravel() for name, grid in zip(sides, np.meshgrid(*sides.values()), strict=True)}
    log_prior = sum(-(((unconstrained[name] - loc) / scale) ** 2) / 2 for name, (loc, scale) in _PRIORS.items())
    asked = observations()
    support = np.empty((n_side**2, len(asked)))
    for stated in _COUNTS:
        mine = [number for number, name in enumerate(asked.problem_id) if name.startswith(f"{stated} %")]
        for point, (weight, bias) in enumerate(
            zip(np.exp(unconstrained["weight_base"]), unconstrained["bias"], strict=True)
        ):
            values = _FIXED | {"weight": [weight], "bias": [bias]}
            scores = brute_force.scores([(0, "7", stated / 100)], values, PRESET.eps)
            support[point, mine] = brute_force.support(scores)["7"]
    right = asked.gold_generated
    return Posterior(unconstrained, log_prior, support, np.where(right, np.log(support), np.log1p(-support)))
