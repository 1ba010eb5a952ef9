"""The mode of the posterior (MAP), for a batch of fits.

The fits of a batch (for example the folds of a cross-fit) share their questions and differ only in their weights; a
held-out question has weight 0. So one compiled computation serves them all. Fits run in double precision, whatever
JAX's global setting.
"""

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int
from numpyro.infer import SVI, TraceMeanField_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDelta

from bayes_direag.data.observations import Observations
from bayes_direag.errors import ConvergenceError
from bayes_direag.inference.newton import GRADIENT_TOLERANCE, ProjectedNewton, dense_size, each_in_turn
from bayes_direag.model.compilation import compiled
from bayes_direag.model.contract import require_program
from bayes_direag.model.forward import by_candidate
from bayes_direag.model.likelihood_data import LikelihoodData, padded_size
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import Preset
from bayes_direag.model.unconstrained import (
    Model,
    Unconstrained,
    by_site,
    evaluated,
    handling,
    log_joint,
    n_searches,
    parameter_sites,
    prior_at_mode,
    split,
    without_bounds,
)

#: Fewer questions or fits are padded to these numbers, since compiling for another shape takes longer than a fit.
_LEAST_SIZE = 512
_LEAST_BATCH = 32


class Optimum(NamedTuple):
    """The optima of a batch of MAP fits."""

    #: Unconstrained parameters by site, each with a leading batch axis.
    unconstrained: Unconstrained
    #: Natural parameters, likewise.
    natural: Unconstrained
    #: P of each candidate, and of the null, last. In the search by report, as a program has it, and by question last.
    probability: Float[Array | np.ndarray, "*batch _ _"]
    #: The penalised loss (:func:`penalised_loss`).
    loss: Float[Array | np.ndarray, "*batch"]
    #: Largest coordinate of its projected gradient.
    gradient: Float[Array | np.ndarray, "*batch"]
    #: An approximation to the Hessian of the loss, in the order of the sites' names; empty for many parameters.
    curvature: Float[Array | np.ndarray, "*batch parameter parameter"]
    #: Steps of the search.
    n_steps: Int[Array | np.ndarray, "*batch"]
    #: Number of searches, of which this one ended lowest.
    n_starts: Int[Array | np.ndarray, "*batch"]
    #: Number of different optima that they ended in.
    n_optima: Int[Array | np.ndarray, "*batch"]


def map_estimates(
    observations: Observations,
    weight: Float[np.ndarray, "batch problem"],
    *,
    preset: Preset,
    labels: Sequence[str] = (),
    initial: Optimum | None = None,
) -> Optimum:
    """Find the MAP of every fit in a batch, from the model's start or ``initial`` optima for almost the same questions.

    Under ``bayes`` the loss seems to have a single optimum: 20 random starts led to one on each of 50 random choices of
    30 and 100 questions from five real files. Under ``paper`` most of these choices had several, and two of
    three whole files, so it gets twelve searches: see
    :meth:`~bayes_direag.inference.newton.ProjectedNewton.for_model`.
    """
    data = LikelihoodData.weighted(observations, weight[0], preset=preset, labels=labels)
    model, (n_fits, n) = model_of(preset), weight.shape
    if initial is None:
        require_program(preset, data)
    sites = dict(sorted(parameter_sites(model, data).items()))
    unconstrained = {name: site.shape for name, site in sites.items() if site.is_unconstrained}
    natural = {name: site.shape for name, site in sites.items() if site.is_natural}
    n_parameters = sum(map(math.prod, unconstrained.values()))
    size, n_members = padded_size(n, least=_LEAST_SIZE), padded_size(n_fits, least=_LEAST_BATCH)
    n_dense, start = dense_size(n_parameters), None
    if initial is not None:
        vectors = [np.reshape(initial.unconstrained[name], (n_fits, -1)) for name in unconstrained]
        start = np.concatenate(vectors, axis=1), initial.curvature
    elif n_searches(model) == 1:  # from the model's own start, so that the same compiled computation serves both
        start = np.full((n_fits, n_parameters), np.nan), np.full((n_fits, n_dense, n_dense), np.nan)
    batch = jax.tree.map(
        lambda array: np.pad(array, [(0, n_members - n_fits), *[(0, 0)] * (array.ndim - 1)]),
        (np.pad(weight, ((0, 0), (0, size - n))), start),
    )
    with jax.enable_x64(True):
        rows = np.asarray(_map_estimates(model, data.padded(size), jnp.asarray(n_fits), *batch))[:n_fits]
    shapes = [*unconstrained.values(), *natural.values(), (len(data.candidate) + 1, size), (), (), (n_dense, n_dense)]
    parts = iter(split(rows, [*shapes, (), (), ()]))
    at_mode, named = (dict(zip(names, parts, strict=False)) for names in (unconstrained, natural))
    optimum = Optimum(at_mode, named, *islice(parts, 4), *(number.astype(np.int32) for number in parts))
    require_converged(f"the fit of {preset.name}", optimum.gradient, optimum.loss, optimum.n_steps)
    by_report = np.moveaxis(np.asarray(optimum.probability)[..., :n], 0, -1)
    return optimum._replace(probability=by_candidate(by_report, np.asarray(data.candidate), np.asarray(data.first)).T)


def penalised_loss(model: Model, unconstrained: Unconstrained, data: LikelihoodData) -> Float[Array, ""]:
    r"""Return the objective of a MAP fit: minus the log joint density, up to a constant, divided by the total weight.

    .. math:: \frac{\sum_i \omega_i \{-\log P_i(\mathrm{target}_i)\}}{\sum_i \omega_i} + \text{penalty}

    The penalty is ``sum(((x - loc) / scale)**2) / (2 * sum(omega))`` over the normal priors of unconstrained
    parameters x: under ``release`` ``lambda * mean(x**2)``. NaN if no question counts.
    """
    free = without_bounds(model)
    return (prior_at_mode(free, unconstrained, data) - log_joint(free, unconstrained, data)) / jnp.sum(data.weight)


def require_converged(
    what: str,
    gradient: Float[Array | np.ndarray, " batch"],
    loss: Float[Array | np.ndarray, " batch"],
    n_steps: Int[Array | np.ndarray, " batch"],
) -> None:
    """Raise ConvergenceError unless every projected gradient is at most :data:`GRADIENT_TOLERANCE` (NaN is not)."""
    reached = np.asarray(gradient) <= GRADIENT_TOLERANCE
    if reached.all():
        return
    worst = int(np.argmin(reached))
    raise ConvergenceError(
        f"{what} did not converge: after {int(n_steps[worst])} steps the largest projected gradient is "
        f"{float(gradient[worst]):.3g} at a mean loss of {float(loss[worst]):.8g}; "
        f"expected at most {GRADIENT_TOLERANCE:g}. In a model of your own narrow the priors, make a hierarchy "
        "noncentered, and take smooth densities; under a preset please report it as a bug."
    )


@compiled("model")
def _map_estimates(
    model: Model,
    data: LikelihoodData,
    n: Int[Array, ""],
    weight: Float[Array, "batch problem"],
    initial: tuple[Float[Array, "batch parameter"], Float[Array, "batch dense dense"]] | None,
) -> Float[Array, "batch value"]:
    """Find the MAP of the first n fits of a batch; of each an :class:`Optimum` as one vector."""
    with handling:
        return each_in_turn(lambda *fit: ravel_pytree(_map_estimate(model, data, *fit))[0], n, weight, initial)


def _map_estimate(
    model: Model,
    data: LikelihoodData,
    weight: Float[Array, " problem"],
    initial: tuple[Float[Array, " parameter"], Float[Array, "dense dense"]] | None,
) -> Optimum:
    """Find the MAP of a single fit, by SVI with an AutoDelta guide, in one update."""
    data, free = data.with_weight(weight), without_bounds(model)
    start, curvature = (None, None) if initial is None else (by_site(initial[0], model, data), initial[1])
    optimiser = ProjectedNewton.for_model(model, data, initial=start, curvature=curvature)
    first = {name.removesuffix("_auto_loc"): values[0] for name, values in (optimiser.starts or {}).items()}
    svi = SVI(free, AutoDelta(free, init_loc_fn=init_to_value(values=first)), optimiser, TraceMeanField_ELBO())
    state, _ = svi.update(svi.init(jax.random.key(0), data), data)
    mode, lowest = svi.get_params(state), optimiser.get_minimum(state.optim_state)
    end, unconstrained = lowest.minimum, {name: mode[f"{name}_auto_loc"] for name in first}
    loss = end.value + prior_at_mode(free, unconstrained, data) / jnp.sum(weight)
    at_mode, counts = evaluated(free, unconstrained, data), (end.n_steps, lowest.n_searches, lowest.n_optima)
    reached = loss, end.projected_gradient, end.curvature
    return Optimum(unconstrained, at_mode.natural, at_mode.probability, *reached, *counts)
