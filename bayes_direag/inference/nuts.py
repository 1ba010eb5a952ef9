"""Draws from the posterior by NUTS, on the same density of the NumPyro model that a MAP fit maximises.

Steps and step size adaptation are those of numpyro's :class:`~numpyro.infer.NUTS`. Four things are added:

- It samples in the coordinates of :mod:`bayes_direag.inference.coordinates`.
- It starts at the Laplace approximation: the mode, and a normal with the inverse Hessian there as its covariance. The
  normal gives every chain its start, and its covariance is the first mass matrix. Under a model with several optima
  each chain looks for one from a place of its own.
- The chains share one mass matrix. Twice in warm-up it becomes the covariance of the draws of all chains since the last
  time, shrunk towards the matrix before it.
- Chains advance in blocks of steps, each a call of one compiled computation. So progress can be shown, a run can be
  interrupted, and fits of similar size share their compilation.

Chains are distributed over JAX's devices (call ``numpyro.set_host_device_count(4)`` before JAX is first used to split a
CPU), and on an accelerator the chains of a device advance together. The draws do not depend on the number of devices.
Parameters, and sums over questions, are in double precision, whatever JAX's global setting. The work of each question
is in single precision, which is twice as fast: it changes the log density by less than 1e-4.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Shaped
from numpyro.infer import MCMC, NUTS
from numpyro.infer.hmc import HMCState
from numpyro.infer.util import potential_energy
from rich.console import Console
from rich.progress import Progress

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.coordinates import to_unconstrained
from bayes_direag.inference.newton import ProjectedNewton, convex, hessian, minimise_in_box
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.unconstrained import (
    Model,
    Unconstrained,
    UnconstrainedDraws,
    in_single_precision,
    n_searches,
    parameter_sites,
)

#: Steps of each chain in one call of the compiled computation.
BLOCK = 250

#: The shares of warm-up after which the mass matrix is updated.
_LEARNING = (0.16, 0.4)

#: The step size before any adaptation, and the largest standard deviation of a coordinate at the start.
_STEP_SIZE, _WIDEST = 0.5, 3.0

#: Most doublings of a trajectory in warm-up, where long ones help little while the matrix is poor, and after it.
_TREE_DEPTHS = (6, 10)

#: NumPyro's names of the statistics of a draw, to be collected as ``extra_fields``, and the container's names.
NUMPYRO_STATISTICS = {
    "potential_energy": "lp",
    "energy": "energy",
    "diverging": "diverging",
    "num_steps": "n_steps",
    "accept_prob": "acceptance_rate",
    "adapt_state.step_size": "step_size",
}

#: The search for the mode ends at this projected gradient of the mean log density.
_NEAR_ENOUGH = 1e-6

_BY_CHAIN, _WHOLE = PartitionSpec("chain"), PartitionSpec()  # type: ignore[no-untyped-call]


class Draws(NamedTuple):
    """Draws of the unconstrained parameters."""

    #: Free unconstrained parameters by name.
    unconstrained: UnconstrainedDraws
    #: Statistics of every draw under ArviZ's names: ``lp``, the log joint density of the parameters and the labels;
    #: ``energy``, in the coordinates of NUTS; ``diverging``; ``n_steps``, the number of gradients; ``tree_depth``;
    #: ``acceptance_rate``; ``step_size``.
    stats: dict[str, Shaped[np.ndarray, "chain draw"]]

    @classmethod
    def of(
        cls, draws: "MCMC | Draws | xr.DataTree | Mapping[str, ArrayLike]", shapes: dict[str, tuple[int, ...]]
    ) -> "Draws":
        """Take unconstrained parameters of these shapes, and statistics, NaN where not collected.

        Raises DirEAGError if a site is missing, or has another shape.
        """
        fields: Mapping[str, ArrayLike] = {}
        if isinstance(draws, Draws):
            samples: Mapping[str, ArrayLike] = draws.unconstrained
        elif isinstance(draws, MCMC):
            samples, fields = draws.get_samples(group_by_chain=True), draws.get_extra_fields(group_by_chain=True)
        else:
            samples, fields = _of_tree(draws) if isinstance(draws, xr.DataTree) else (draws, {})
        missing = [site for site in shapes if site not in samples]
        if missing:
            raise DirEAGError(f"draws: there is no site {missing[0]!r}; expected {', '.join(shapes)}.")
        unconstrained: UnconstrainedDraws = {name: np.asarray(samples[name]) for name in shapes}
        first = next(iter(unconstrained.values())).shape[:2]
        for name, values in unconstrained.items():
            if values.ndim < 2 or 0 in first or values.shape != (*first, *shapes[name]):
                raise DirEAGError(
                    f"draws: site {name!r} has shape {values.shape}; expected {('chain', 'draw', *shapes[name])}, "
                    "with the same chains and draws in every site. Take those of these observations, by chain."
                )
        return draws if isinstance(draws, Draws) else cls(unconstrained, statistics_of(fields, first))


class _Chain(NamedTuple):
    """One chain, or all chains with a leading axis, at the start of a window of warm-up."""

    number: Int[np.ndarray, "*chain"]
    place: UnconstrainedDraws
    step_size: Float[np.ndarray, "*chain"]
    inverse_mass_matrix: Float[np.ndarray, "*chain parameter parameter"]


class _Run(NamedTuple):
    """The static arguments that a run is compiled for."""

    model: Model
    n_warmup: int
    target_accept: float
    n_devices: int

    def kernel(self, data: LikelihoodData, **start: ArrayLike) -> NUTS:
        """Return a NUTS kernel that adapts only its step size."""
        return NUTS(
            potential_fn=_potential(in_single_precision(self.model), data, self.model),
            dense_mass=True,
            adapt_mass_matrix=False,
            target_accept_prob=self.target_accept,
            max_tree_depth=_TREE_DEPTHS,
            **start,
        )


def nuts_draws(
    model: Model, data: LikelihoodData, *, sampling: SamplingSettings, seed: int, progress: bool = False
) -> Draws:
    """Draw from the posterior, with a dense mass matrix and a bar of progress, if wanted."""
    n, n_steps = sampling.n_chains, sampling.n_warmup + sampling.n_draws
    run = _Run(model, sampling.n_warmup, sampling.target_accept, min(n, jax.local_device_count()))
    surplus = -n % run.n_devices  # the same number for each device; surplus chains are dropped
    with jax.enable_x64(True), Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task(f"NUTS, {n} chains: compiling", total=n_steps)
        sites = {name: site for name, site in parameter_sites(model, data).items() if site.is_unconstrained}
        chains = _laplace(model, data, n + surplus, np.random.default_rng(seed))
        single = data.in_single_precision()
        for start, stop in pairwise([0, *learning_steps(sampling.n_warmup), n_steps]):
            states = _started(chains, single, start, seed, run=run)
            blocks: list[_Recorded] = []
            for done in range(start, stop, BLOCK):
                size = min(BLOCK, stop - done)
                states, recorded = _advanced(states, single, size, run=run)
                blocks.append(jax.tree.map(lambda value, size=size: np.asarray(value)[:, :size], recorded))
                bar.update(task, description=f"NUTS, {n} chains", advance=size)
            window: _Recorded = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *blocks)
            if stop < n_steps:
                chains = _learned(chains, window)
        kept: _Recorded = jax.tree.map(lambda value: value[:n, sampling.n_warmup - start :], window)
        places = _unconstrained_of(kept.place, data, model=model)
        unconstrained: UnconstrainedDraws = {
            name: np.asarray(site.transform(places[name])) for name, site in sites.items()
        }
    return Draws(unconstrained, statistics_of(kept.fields, (n, sampling.n_draws)))


@partial(jax.jit, static_argnames="model")
def _unconstrained_of(places: Any, data: LikelihoodData, *, model: Model) -> UnconstrainedDraws:
    """Return the unconstrained parameters of draws in the coordinates of NUTS."""
    return {**jax.vmap(jax.vmap(to_unconstrained(model, data)))(places)}


def learning_steps(n_warmup: int) -> list[int]:
    """Return the steps of warm-up after which the mass matrix is updated; the rest adapts only the step size.

    Examples
    --------
    >>> learning_steps(250)
    [40, 100]
    """
    return sorted({int(share * n_warmup) for share in _LEARNING} - {0})


def _potential(model: Model, data: LikelihoodData, model_of: Model) -> Callable[[Unconstrained], Float[Array, ""]]:
    """Return minus the log density in the coordinates of NUTS, on the whole line."""
    raw_of = to_unconstrained(model_of, data)
    return lambda place: potential_energy(model, (data,), {}, raw_of(place))


def _laplace(model: Model, data: LikelihoodData, n: int, rng: np.random.Generator) -> _Chain:
    """Return chains at draws of the Laplace approximation; of several if the model has several searches."""
    found = [_mode(data, number, model=model) for number in range(n if n_searches(model) > 1 else 1)]
    moved = rng.normal(size=(n, len(found[0][1])))
    places, matrices = [], []
    for number, move in enumerate(moved):
        mode, curvature = found[number % len(found)]
        variance, basis = np.linalg.eigh(np.linalg.inv(curvature))
        variance = np.clip(variance, 0, _WIDEST**2)
        point, unravel = ravel_pytree(mode)
        places.append(unravel(np.asarray(point) + basis @ (np.sqrt(variance) * move)))
        matrices.append((basis * variance) @ basis.T)
    place: UnconstrainedDraws = jax.tree.map(lambda *values: np.stack(values), *places)
    return _Chain(np.arange(n), place, np.full(n, _STEP_SIZE), np.stack(matrices))


@partial(jax.jit, static_argnames="model")
def _mode(
    data: LikelihoodData, number: int | Int[Array, ""], *, model: Model
) -> tuple[Unconstrained, Float[Array, "parameter parameter"]]:
    """Return the mode on the whole line that a search ends in, and the Hessian there, made positive definite."""
    potential, total = _potential(model, data, model), jnp.sum(data.weight)
    starts = ProjectedNewton.for_model(model, data).starts or {}
    sites = parameter_sites(model, data)
    start = {
        (name := key.removesuffix("_auto_loc")): sites[name].transform.inv(values[number % len(values)])
        for key, values in starts.items()
    }
    point, unravel = ravel_pytree(start)

    @jax.jit  # so that the model is traced once, and not for every derivative
    def loss(point: Float[Array, " parameter"]) -> Float[Array, ""]:
        return potential(unravel(point)) / total

    everywhere = jnp.full_like(point, jnp.inf)
    mode = minimise_in_box(loss, point, -everywhere, everywhere, tolerance=_NEAR_ENOUGH).point
    return unravel(mode), convex(total * hessian(jax.grad(loss), mode))


def _learned(chains: _Chain, window: "_Recorded") -> _Chain:
    """Return the chains at their last draws, with the mass matrix learned from the window."""
    matrix = inverse_mass_matrix(window.place, chains.inverse_mass_matrix)
    last = {name: value[:, -1] for name, value in window.place.items()}
    return _Chain(chains.number, last, window.fields["adapt_state.step_size"][:, -1], matrix)


def inverse_mass_matrix(
    places: UnconstrainedDraws, before: Float[np.ndarray, "chain parameter parameter"]
) -> Float[np.ndarray, "chain parameter parameter"]:
    """Return the covariance of all chains' draws together, shrunk towards the matrix before.

    The matrix before counts as many draws as there are parameters.
    """
    draws = np.concatenate([np.reshape(part, (*part.shape[:2], -1)) for part in jax.tree.leaves(places)], axis=2)
    pooled = draws.reshape(-1, draws.shape[2])
    n, size = pooled.shape
    centred = pooled - pooled.mean(axis=0)
    learned = (centred.T @ centred + size * before[0]) / (n + size)
    return np.asarray(np.broadcast_to(learned, before.shape))


@partial(jax.jit, static_argnames="run")
def _started(chains: _Chain, data: LikelihoodData, step: ArrayLike, seed: ArrayLike, *, run: _Run) -> HMCState:
    """Start every chain's kernel after ``step`` steps, at its place and with its mass matrix."""

    def start(chain: _Chain, data: LikelihoodData) -> HMCState:
        kernel = run.kernel(data, step_size=chain.step_size, inverse_mass_matrix=chain.inverse_mass_matrix)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), chain.number)
        state: HMCState = kernel.init(key, run.n_warmup, chain.place)
        return state._replace(i=jnp.asarray(step, state.i.dtype))

    return _for_each_chain(start, chains, data, run)


@partial(jax.jit, static_argnames="run")
def _advanced(states: HMCState, data: LikelihoodData, n_steps: ArrayLike, *, run: _Run) -> tuple[HMCState, "_Recorded"]:
    """Let every chain take ``n_steps`` steps, at most a block; the rest of the record is 0."""

    def advance(state: HMCState, data: LikelihoodData) -> tuple[HMCState, _Recorded]:
        kernel = run.kernel(data)
        jax.eval_shape(lambda: kernel.init(state.rng_key, run.n_warmup, state.z))  # numpyro's sample needs an init

        def step(index: ArrayLike, carry: tuple[HMCState, _Recorded]) -> tuple[HMCState, _Recorded]:
            state = kernel.sample(carry[0], (), {})
            return state, jax.tree.map(lambda record, new: record.at[index].set(new), carry[1], _recorded(state))

        empty = jax.tree.map(lambda new: jnp.zeros((BLOCK, *new.shape), new.dtype), _recorded(state))
        advanced: tuple[HMCState, _Recorded] = jax.lax.fori_loop(0, n_steps, step, (state, empty))
        return advanced

    return _for_each_chain(advance, states, data, run)


class _Recorded(NamedTuple):
    """The places of a chain, and NumPyro's statistics of its steps."""

    place: UnconstrainedDraws
    fields: dict[str, Shaped[np.ndarray, "..."]]


def _recorded(state: HMCState) -> _Recorded:
    return _Recorded(state.z, {field: attrgetter(field)(state) for field in NUMPYRO_STATISTICS})


def statistics_of(
    fields: Mapping[str, ArrayLike], shape: tuple[int, ...]
) -> dict[str, Shaped[np.ndarray, "chain draw"]]:
    """Return NumPyro's statistics under the container's names; NaN for those that were not collected."""
    missing = np.full(shape, np.nan)
    stats = {name: np.asarray(fields.get(field, missing)) for field, name in NUMPYRO_STATISTICS.items()}
    depth = np.floor(np.log2(np.maximum(stats["n_steps"], 1))) + 1
    return stats | {"lp": -stats["lp"], "tree_depth": depth.astype(stats["n_steps"].dtype)}


def _of_tree(tree: xr.DataTree) -> tuple[dict[str, ArrayLike], dict[str, ArrayLike]]:
    """Return the sites of a tree of ArviZ, the unconstrained ones if there are any, and NumPyro's statistics."""
    group = "unconstrained_posterior" if "unconstrained_posterior" in tree.children else "posterior"
    found = {
        name: {
            str(site): values.transpose("chain", "draw", ..., missing_dims="ignore").to_numpy()
            for site, values in (tree[name].data_vars.items() if name in tree.children else ())
        }
        for name in (group, "sample_stats")
    }
    stats = found["sample_stats"]
    fields = {field: stats[name] for field, name in NUMPYRO_STATISTICS.items() if name in stats}
    return found[group], fields | ({"potential_energy": -stats["lp"]} if "lp" in stats else {})


def _for_each_chain[Chain, Result](
    function: Callable[[Chain, LikelihoodData], Result], chains: Chain, data: LikelihoodData, run: _Run
) -> Result:
    """Apply a function to each chain, distributed over the devices."""

    def on_device(chains: Chain, data: LikelihoodData) -> Result:
        side_by_side = None if jax.default_backend() == "cpu" else len(jax.tree.leaves(chains)[0])
        result: Result = jax.lax.map(lambda chain: function(chain, data), chains, batch_size=side_by_side)
        return result

    devices = Mesh(np.array(jax.local_devices()[: run.n_devices]), ("chain",), axis_types=(AxisType.Auto,))
    # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
    return jax.shard_map(on_device, mesh=devices, in_specs=(_BY_CHAIN, _WHOLE), out_specs=_BY_CHAIN, check_vma=False)(
        chains, data
    )
