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
from numpyro.infer.util import ParamInfo

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
from bayes_direag.model.evidence import Reports
from bayes_direag.model.log_joint import Outcomes, log_joint
from bayes_direag.model.model import Labels, Raw, RawDraws, raw_from_vector
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, SamplingSettings, Variant

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

    preset: Preset
    variant: Variant
    n_warmup: int
    target_accept: float
    own_labels: bool
    n_devices: int

    def named(self, flat: Flat, outcomes: Outcomes) -> Raw:
        """Return the raw parameters that a vector holds, by name."""
        return raw_from_vector(flat, preset=self.preset, variant=self.variant, n_levels=outcomes.stated.shape[0])

    def log_joint(self, flat: Flat, outcomes: Outcomes) -> Float[Array, ""]:
        return log_joint(self.named(flat, outcomes), outcomes, self.preset, self.variant)

    def kernel(self, outcomes: Outcomes) -> tuple[Callable[..., HMCState], Callable[[HMCState], HMCState]]:
        """Return NUTS, which adapts its step size alone: how a chain starts, and how it takes a step."""
        start, step = hmc(lambda flat: -self.log_joint(flat, outcomes), algo="NUTS")
        adaptation = {"dense_mass": True, "adapt_mass_matrix": False, "target_accept_prob": self.target_accept}
        return partial(start, num_warmup=self.n_warmup, **adaptation), step


class _Recorded(NamedTuple):
    """What is kept of each step."""

    flat: Flat
    stats: dict[str, Array]


def nuts_draws(
    reports: Reports,
    labels: Labels,
    *,
    preset: Preset,
    variant: Variant,
    sampling: SamplingSettings,
    seed: int,
    progress: bool = False,
) -> Draws:
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
    return _run(sampling.n_chains, seed, reports, labels, False, preset, variant, sampling, progress=progress)


def draws_for_each(
    reports: Reports, labels: Labels, *, preset: Preset, variant: Variant, sampling: SamplingSettings, seed: int
) -> Draws:
    """Draw one chain for each of several sets of labels that the same questions might have.

    Parameters
    ----------
    labels
        With a leading axis, simulation, on each of its arrays.
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
    return _run(len(labels.n_correct), seed, reports, labels, True, preset, variant, sampling)


def _run(
    n: int,
    seed: int,
    reports: Reports,
    labels: Labels,
    own_labels: bool,
    preset: Preset,
    variant: Variant,
    sampling: SamplingSettings,
    *,
    progress: bool = False,
) -> Draws:
    """Run so many chains, each on labels of its own or all on the same."""
    if preset.is_bounded:
        raise DirEAGError(
            f"preset {preset.name} keeps raw parameters within bounds, which NUTS cannot; expected none. Take another "
            "preset, or lift them (weight.low=null, weight.high=null, and so on)."
        )
    n_devices = min(n, jax.local_device_count())
    everyone = np.arange(n + -n % n_devices) % n  # as many for each device; the surplus is dropped
    run = _Run(preset.model_settings, variant, sampling.n_warmup, sampling.target_accept, own_labels, n_devices)
    n_steps, n_levels, blocks = sampling.n_warmup + sampling.n_draws, reports.candidate.shape[1], []
    sizes = {name: n_levels if name in LEVEL_PARAMETERS else 1 for name in preset.free_parameters(variant)}
    learned_anew = metric_schedule(sampling.n_warmup)
    with jax.enable_x64(True), steps_bar(n_steps, n, shown=progress) as advance:
        reports, labels = jax.tree.map(jnp.asarray, (reports, labels))
        if own_labels:
            labels = jax.tree.map(lambda array: array[everyone], labels)
        places = np.random.default_rng(seed).uniform(-_START, _START, (n, sum(sizes.values())))
        states = _start(places[everyone], everyone, seed, reports, labels, run)
        window: list[Float[np.ndarray, "chain step raw"]] = []
        for start, stop in pairwise([*learned_anew, n_steps]):
            if learned_anew[start] == "curvature":
                curvature = np.asarray(_survey(states.z, reports, labels, run=run).curvature)
                metric = metric_from_curvature(curvature[:n], shared=not own_labels)
            else:
                before = np.asarray(states.adapt_state.inverse_mass_matrix)[:n]
                metric = metric_from_draws(np.concatenate(window, axis=1), before, shared=not own_labels)
            states, window = with_metric(states, metric[everyone]), []
            for done in range(start, stop, BLOCK):
                now = min(BLOCK, stop - done)
                states, recorded = _advance(states, reports, labels, jnp.asarray(now), run=run)
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
    reports: Reports,
    labels: Labels,
    run: _Run,
) -> HMCState:
    """Start each chain at its place; ``chain`` is its number."""
    # laid out as the states will be, so that one compilation serves both
    laid_out = jax.device_put(places, NamedSharding(_devices(run), _BY_CHAIN))
    found = _survey(laid_out, reports, labels, run=run)
    return _started(laid_out, found, jnp.asarray(chain), jnp.asarray(seed), reports, labels, run=run)


@partial(jax.jit, static_argnames="run")
def _started(
    places: Float[Array, "chain raw"],
    found: Survey,
    chain: Int[Array, " chain"],
    seed: Int[Array, ""],
    reports: Reports,
    labels: Labels,
    *,
    run: _Run,
) -> HMCState:
    def one(begins: tuple[Flat, Survey, Array], outcomes: Outcomes) -> HMCState:
        place, around, number = begins
        at = ParamInfo(place, -around.log_joint, -around.gradient)
        return run.kernel(outcomes)[0](at, rng_key=jax.random.fold_in(jax.random.key(seed), number))

    return _for_each_chain(one, (places, found, chain), reports, labels, run)


@partial(jax.jit, static_argnames="run")
def _survey(places: Float[Array, "chain raw"], reports: Reports, labels: Labels, *, run: _Run) -> Survey:
    def one(place: Flat, outcomes: Outcomes) -> Survey:
        return survey(place, outcomes, run.preset, run.variant)

    return _for_each_chain(one, places, reports, labels, run)


@partial(jax.jit, static_argnames="run")
def _advance(
    states: HMCState, reports: Reports, labels: Labels, n_steps: Int[Array, ""], *, run: _Run
) -> tuple[HMCState, _Recorded]:
    """Let every chain take some steps, at most a block; of what is recorded the rest is 0."""

    def one(state: HMCState, outcomes: Outcomes) -> tuple[HMCState, _Recorded]:
        start, nuts = run.kernel(outcomes)
        jax.eval_shape(start, state.z, rng_key=state.rng_key)  # a kernel learns its own settings as a chain starts
        ridge = Ridge.of(outcomes, run.preset, run.variant)

        def step(index: ArrayLike, carry: tuple[HMCState, _Recorded]) -> tuple[HMCState, _Recorded]:
            state = nuts(carry[0])
            if ridge is not None:
                state = _along_the_ridge(state, ridge, outcomes, run)
            return state, jax.tree.map(lambda all_, one: all_.at[index].set(one), carry[1], _record(state))

        nothing = jax.tree.map(lambda kept: jnp.zeros((BLOCK, *kept.shape), kept.dtype), _record(state))
        after: tuple[HMCState, _Recorded] = jax.lax.fori_loop(0, n_steps, step, (state, nothing))
        return after

    return _for_each_chain(one, states, reports, labels, run)


def _along_the_ridge(state: HMCState, ridge: Ridge, outcomes: Outcomes, run: _Run) -> HMCState:
    """Let every level move along its ridge; what the next NUTS step builds on is brought up to date."""
    key, own = jax.random.split(state.rng_key)
    raw, moved = along_every_ridge(own, run.named(state.z, outcomes), ridge, outcomes)
    flat = jnp.concatenate([jnp.ravel(raw[name]) for name in run.preset.free_parameters(run.variant)])

    def elsewhere() -> HMCState:
        reached, gradient = jax.value_and_grad(run.log_joint)(flat, outcomes)
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
    one: Callable[[Chain, Outcomes], Result], chains: Chain, reports: Reports, labels: Labels, run: _Run
) -> Result:
    """Apply a function to each chain and what it is conditioned on, shared out among the devices."""

    def on_device(chains: Chain, reports: Reports, labels: Labels) -> Result:
        mapped: Callable[..., Callable[..., Result]] = jax.vmap if jax.default_backend() != "cpu" else _in_turn
        if run.own_labels:
            return mapped(lambda chain, own: one(chain, Outcomes.of(reports, own, run.preset.eps)))(chains, labels)
        shared = Outcomes.of(reports, labels, run.preset.eps)
        return mapped(lambda chain: one(chain, shared))(chains)

    # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
    return jax.shard_map(
        on_device,
        mesh=_devices(run),
        in_specs=(_BY_CHAIN, _WHOLE, _BY_CHAIN if run.own_labels else _WHOLE),
        out_specs=_BY_CHAIN,
        check_vma=False,
    )(chains, reports, labels)


def _devices(run: _Run) -> Mesh:
    return Mesh(np.array(jax.local_devices()[: run.n_devices]), ("chain",), axis_types=(AxisType.Auto,))


def _in_turn[Result](function: Callable[..., Result]) -> Callable[..., Result]:
    """Return what ``jax.vmap`` does, one after the other."""
    return lambda *batch: jax.lax.map(lambda one: function(*one), batch)
