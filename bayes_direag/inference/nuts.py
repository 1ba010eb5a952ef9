"""Draws from the whole posterior by NUTS, from the density of the NumPyro model whose mode a MAP fit finds.

Chains are shared out among JAX's devices (``numpyro.set_host_device_count(4)`` before its first use splits a CPU), and
on an accelerator those of a device advance side by side; no draw depends on how many devices there are. They advance in
blocks of steps, each a call of one compiled computation: so progress can be shown, a run be interrupted, and fits of
similar size share their compilation. During warm-up they learn a metric between them
(:mod:`bayes_direag.inference.mass_matrix`), and
between NUTS steps every level moves along its ridge of weight and bias (:mod:`bayes_direag.inference.ridge`). All runs
are in double precision, whatever JAX's global setting.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Shaped
from numpyro.infer.hmc import HMCState, hmc
from numpyro.infer.util import ParamInfo, log_density

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.mass_matrix import (
    Survey,
    metric_from_curvature,
    metric_from_draws,
    metric_schedule,
    survey,
    with_metric,
)
from bayes_direag.inference.ridge import Ridge, along_every_ridge
from bayes_direag.inference.steps_bar import steps_bar
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, RawDraws, direag, raw_from_vector, sites
from bayes_direag.model.settings import LEVEL_PARAMETERS, SamplingSettings

#: Steps that all chains take between two looks at them.
BLOCK = 250

#: Every raw parameter of a chain starts at a place of its own, this far from 0 at most.
_START = 2.0

_BY_CHAIN, _WHOLE = PartitionSpec("chain"), PartitionSpec()  # type: ignore[no-untyped-call]


Flat = Float[Array, " raw"]


class Draws(NamedTuple):
    """What NUTS has drawn.

    Attributes
    ----------
    raw
        Free raw parameters by name, each with leading axes chain and draw.
    stats
        Statistics of every draw, (chain, draw), under ArviZ's names: ``lp``, the log joint density of the raw
        parameters and the labels; ``energy``; ``diverging``; ``n_steps``, gradients taken; ``tree_depth``;
        ``acceptance_rate``; ``step_size``.
    """

    raw: RawDraws
    stats: dict[str, Shaped[np.ndarray, "chain draw"]]


class _Run(NamedTuple):
    """What a run is compiled for, beside the shape of its data."""

    n_warmup: int
    target_accept: float
    n_devices: int

    def kernel(self, data: LikelihoodData) -> tuple[Callable[..., HMCState], Callable[[HMCState], HMCState]]:
        """Return NUTS, which adapts its step size alone: how a chain starts, and how it takes a step."""
        start, step = hmc(lambda flat: -_log_joint(flat, data), algo="NUTS")
        adaptation = {"dense_mass": True, "adapt_mass_matrix": False, "target_accept_prob": self.target_accept}
        return partial(start, num_warmup=self.n_warmup, **adaptation), step


def _named(flat: Flat, data: LikelihoodData) -> Raw:
    """Return the raw parameters that a vector holds, by name."""
    return raw_from_vector(flat, preset=data.preset, variant=data.variant, n_levels=data.n_levels)


def _log_joint(flat: Flat, data: LikelihoodData) -> Float[Array, ""]:
    reached: Array = log_density(direag, (data,), {}, sites(_named(flat, data)))[0]
    return reached


class _Recorded(NamedTuple):
    """What is kept of each step."""

    flat: Flat
    stats: dict[str, Array]


def nuts_draws(data: LikelihoodData, *, sampling: SamplingSettings, seed: int, progress: bool = False) -> Draws:
    """Draw from the posterior over the raw parameters, with a dense mass matrix.

    Parameters
    ----------
    progress
        Show a bar on standard error.

    Raises
    ------
    DirEAGError
        If the preset bounds raw parameters: NUTS explores the whole real line.
    """
    return _run(sampling.n_chains, seed, data, None, sampling, progress=progress)


def draws_for_each(
    data: LikelihoodData, targets: Int[np.ndarray, "simulation problem"], *, sampling: SamplingSettings, seed: int
) -> Draws:
    """Draw one chain for each of several states that the same questions might have been in.

    Parameters
    ----------
    targets
        As ``data.target``, for each simulation; that of the data is not looked at.
    sampling
        Steps and acceptance rate of every chain; the number of chains is not looked at.

    Returns
    -------
    Draws
        With axis simulation in the place of chain.

    Raises
    ------
    DirEAGError
        If the preset bounds raw parameters.
    """
    return _run(len(targets), seed, data, targets, sampling)


def _run(
    n: int,
    seed: int,
    data: LikelihoodData,
    targets: Int[np.ndarray, "chain problem"] | None,
    sampling: SamplingSettings,
    *,
    progress: bool = False,
) -> Draws:
    """Run so many chains, each on targets of its own or all on the same."""
    if data.preset.is_bounded:
        raise DirEAGError(
            "the preset keeps raw parameters within bounds, which NUTS cannot; expected none. Take another preset, or "
            "lift them (weight.low=null, weight.high=null, and so on)."
        )
    n_devices = min(n, jax.local_device_count())
    everyone = np.arange(n + -n % n_devices) % n  # as many for each device; the surplus is dropped
    run = _Run(sampling.n_warmup, sampling.target_accept, n_devices)
    n_steps, blocks = sampling.n_warmup + sampling.n_draws, []
    names = data.preset.free_parameters(data.variant)
    sizes = {name: data.n_levels if name in LEVEL_PARAMETERS else 1 for name in names}
    learned_anew = metric_schedule(sampling.n_warmup)
    with jax.enable_x64(True), steps_bar(n_steps, n, shown=progress) as advance:
        data = jax.tree.map(jnp.asarray, data)
        own = None if targets is None else jnp.asarray(targets[everyone])
        places = np.random.default_rng(seed).uniform(-_START, _START, (n, sum(sizes.values())))
        states = _start(places[everyone], everyone, seed, data, own, run)
        window: list[Float[np.ndarray, "chain step raw"]] = []
        for start, stop in pairwise([*learned_anew, n_steps]):
            if learned_anew[start] == "curvature":
                curvature = np.asarray(_survey(states.z, data, own, run=run).curvature)
                metric = metric_from_curvature(curvature[:n], shared=targets is None)
            else:
                before = np.asarray(states.adapt_state.inverse_mass_matrix)[:n]
                metric = metric_from_draws(np.concatenate(window, axis=1), before, shared=targets is None)
            states, window = with_metric(states, metric[everyone]), []
            for done in range(start, stop, BLOCK):
                now = min(BLOCK, stop - done)
                states, recorded = _advance(states, data, own, jnp.asarray(now), run=run)
                blocks.append(jax.tree.map(lambda field, now=now: np.asarray(field)[:n, :now], recorded))
                window.append(blocks[-1].flat)
                advance(now)
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, sampling.n_warmup :], *blocks)
    return Draws(_by_name(whole.flat, sizes), whole.stats)


def _by_name(flat: Float[np.ndarray, "chain draw raw"], sizes: dict[str, int]) -> RawDraws:
    parts = zip(sizes, np.split(flat, np.cumsum(list(sizes.values()))[:-1], axis=2), strict=True)
    return {name: part if name in LEVEL_PARAMETERS else part[..., 0] for name, part in parts}


def _start(
    places: Float[np.ndarray, "chain raw"],
    chain: Int[np.ndarray, " chain"],
    seed: int,
    data: LikelihoodData,
    own: Int[Array, "chain problem"] | None,
    run: _Run,
) -> HMCState:
    """Start each chain at its place; ``chain`` is its number."""
    # laid out as the states will be, so that one compilation serves both
    laid_out = jax.device_put(places, NamedSharding(_devices(run), _BY_CHAIN))
    found = _survey(laid_out, data, own, run=run)
    return _started(laid_out, found, jnp.asarray(chain), jnp.asarray(seed), data, own, run=run)


@partial(jax.jit, static_argnames="run")
def _started(
    places: Float[Array, "chain raw"],
    found: Survey,
    chain: Int[Array, " chain"],
    seed: Int[Array, ""],
    data: LikelihoodData,
    own: Int[Array, "chain problem"] | None,
    *,
    run: _Run,
) -> HMCState:
    def one(begins: tuple[Flat, Survey, Array], data: LikelihoodData) -> HMCState:
        place, around, number = begins
        at = ParamInfo(place, -around.log_joint, -around.gradient)
        return run.kernel(data)[0](at, rng_key=jax.random.fold_in(jax.random.key(seed), number))

    return _for_each_chain(one, (places, found, chain), data, own, run)


@partial(jax.jit, static_argnames="run")
def _survey(
    places: Float[Array, "chain raw"], data: LikelihoodData, own: Int[Array, "chain problem"] | None, *, run: _Run
) -> Survey:
    one = survey

    return _for_each_chain(one, places, data, own, run)


@partial(jax.jit, static_argnames="run")
def _advance(
    states: HMCState,
    data: LikelihoodData,
    own: Int[Array, "chain problem"] | None,
    n_steps: Int[Array, ""],
    *,
    run: _Run,
) -> tuple[HMCState, _Recorded]:
    """Let every chain take some steps, at most a block; of what is recorded the rest is 0."""

    def one(state: HMCState, data: LikelihoodData) -> tuple[HMCState, _Recorded]:
        start, nuts = run.kernel(data)
        jax.eval_shape(start, state.z, rng_key=state.rng_key)  # a kernel learns its own settings as a chain starts
        ridge = Ridge.of(data)

        def step(index: ArrayLike, carry: tuple[HMCState, _Recorded]) -> tuple[HMCState, _Recorded]:
            state = nuts(carry[0])
            if ridge is not None:
                state = _along_the_ridge(state, ridge, data)
            return state, jax.tree.map(lambda all_, one: all_.at[index].set(one), carry[1], _record(state))

        nothing = jax.tree.map(lambda kept: jnp.zeros((BLOCK, *kept.shape), kept.dtype), _record(state))
        after: tuple[HMCState, _Recorded] = jax.lax.fori_loop(0, n_steps, step, (state, nothing))
        return after

    return _for_each_chain(one, states, data, own, run)


def _along_the_ridge(state: HMCState, ridge: Ridge, data: LikelihoodData) -> HMCState:
    """Let every level move along its ridge; what the next NUTS step builds on is brought up to date."""
    key, own = jax.random.split(state.rng_key)
    raw, moved = along_every_ridge(own, _named(state.z, data), ridge, data)
    flat = jnp.concatenate([jnp.ravel(raw[name]) for name in data.preset.free_parameters(data.variant)])

    def elsewhere() -> HMCState:
        reached, gradient = jax.value_and_grad(_log_joint)(flat, data)
        energy = state.energy - reached - state.potential_energy
        return state._replace(z=flat, z_grad=-gradient, potential_energy=-reached, energy=energy, rng_key=key)

    after: HMCState = jax.lax.cond(moved, elsewhere, lambda: state._replace(rng_key=key))
    return after


def _record(state: HMCState) -> _Recorded:
    return _Recorded(
        state.z,
        {
            "lp": -state.potential_energy,
            "energy": state.energy,
            "diverging": state.diverging,
            "n_steps": state.num_steps,
            "tree_depth": jnp.floor(jnp.log2(jnp.maximum(state.num_steps, 1))).astype(int) + 1,
            "acceptance_rate": state.accept_prob,
            "step_size": state.adapt_state.step_size,
        },
    )


def _for_each_chain[Chain, Result](
    one: Callable[[Chain, LikelihoodData], Result],
    chains: Chain,
    data: LikelihoodData,
    own: Int[Array, "chain problem"] | None,
    run: _Run,
) -> Result:
    """Apply a function to each chain and what it is conditioned on, shared out among the devices."""

    def on_device(chains: Chain, data: LikelihoodData, own: Int[Array, "chain problem"] | None) -> Result:
        mapped: Callable[..., Callable[..., Result]] = jax.vmap if jax.default_backend() != "cpu" else _in_turn
        if own is None:
            return mapped(lambda chain: one(chain, data))(chains)
        return mapped(lambda chain, target: one(chain, replace(data, target=target)))(chains, own)

    # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
    return jax.shard_map(
        on_device,
        mesh=_devices(run),
        in_specs=(_BY_CHAIN, _WHOLE, _BY_CHAIN),
        out_specs=_BY_CHAIN,
        check_vma=False,
    )(chains, data, own)


def _devices(run: _Run) -> Mesh:
    return Mesh(np.array(jax.local_devices()[: run.n_devices]), ("chain",), axis_types=(AxisType.Auto,))


def _in_turn[Result](function: Callable[..., Result]) -> Callable[..., Result]:
    """Return what ``jax.vmap`` does, one after the other."""
    return lambda *batch: jax.lax.map(lambda one: function(*one), batch)
