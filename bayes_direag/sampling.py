"""Draws from the whole posterior by NUTS, from the same NumPyro model whose mode a MAP fit finds.

Chains are shared out among JAX's devices (``numpyro.set_host_device_count(4)`` before its first use splits a CPU), and
on an accelerator those of a device advance side by side; no draw depends on how many devices there are. They advance in
blocks of steps, each a call of one compiled computation: so progress can be shown, a run be interrupted, and fits of
similar size share their compilation. Between NUTS steps every level moves along its ridge of weight and bias
(:mod:`bayes_direag.ridge`). All runs are in double precision, whatever JAX's global setting.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Array, Int, Key, Shaped
from numpyro.infer import NUTS
from numpyro.infer.hmc import HMCState
from numpyro.infer.util import log_density
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bayes_direag.errors import DirEAGError
from bayes_direag.evidence import Reports
from bayes_direag.model import Labels, Raw, RawDraws, direag, raw_priors
from bayes_direag.ridge import Ridge, ridge_sweep
from bayes_direag.settings import Preset, SamplingSettings, Variant

#: Steps that all chains take between two looks at them.
BLOCK = 250


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

    def kernel(self) -> NUTS:
        model = partial(direag, preset=self.preset, variant=self.variant)
        return NUTS(model, dense_mass=True, target_accept_prob=self.target_accept)


class _Recorded(NamedTuple):
    """What is kept of each step."""

    raw: Raw
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
    keys = jax.random.split(jax.random.key(seed), sampling.n_chains)
    return _run(keys, reports, labels, False, preset, variant, sampling, progress=progress)


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
    keys = jax.random.split(jax.random.key(seed), len(labels.n_correct))
    return _run(keys, reports, labels, True, preset, variant, sampling)


def _run(
    keys: Key[Array, " chain"],
    reports: Reports,
    labels: Labels,
    own_labels: bool,
    preset: Preset,
    variant: Variant,
    sampling: SamplingSettings,
    *,
    progress: bool = False,
) -> Draws:
    """Run a chain for each key, on labels of its own or on the same."""
    if preset.is_bounded:
        raise DirEAGError(
            f"preset {preset.name} keeps raw parameters within bounds, which NUTS cannot; expected none. Take another "
            "preset, or lift them (weight.low=null, weight.high=null, and so on)."
        )
    n, n_devices = len(keys), min(len(keys), jax.local_device_count())
    everyone = np.arange(n + -n % n_devices) % n  # as many for each device; the surplus is dropped
    run = _Run(preset.model_settings, variant, sampling.n_warmup, sampling.target_accept, own_labels, n_devices)
    n_steps, blocks = sampling.n_warmup + sampling.n_draws, []
    with jax.enable_x64(True), _bar(n_steps, len(keys), shown=progress) as advance:
        reports, labels = jax.tree.map(jnp.asarray, (reports, labels))
        if own_labels:
            labels = jax.tree.map(lambda array: array[everyone], labels)
        states = _start(keys[everyone], reports, labels, run=run)
        for done in range(0, n_steps, BLOCK):
            now = min(BLOCK, n_steps - done)
            states, recorded = _advance(states, reports, labels, jnp.asarray(now), run=run)
            blocks.append([np.asarray(field)[:n, :now] for field in jax.tree.leaves(recorded)])
            advance(now)
    fields = [np.concatenate(parts, axis=1)[:, sampling.n_warmup :] for parts in zip(*blocks, strict=True)]
    whole = jax.tree.unflatten(jax.tree.structure(recorded), fields)
    raw: RawDraws = {name: whole.raw[name] for name in preset.free_parameters(variant)}
    return Draws(raw, whole.stats)


@partial(jax.jit, static_argnames="run")
def _start(keys: Key[Array, " chain"], reports: Reports, labels: Labels, *, run: _Run) -> HMCState:
    """Start every chain at a point of its own."""

    def one(key: Key[Array, ""], reports: Reports, labels: Labels) -> HMCState:
        return run.kernel().init(key, run.n_warmup, None, (reports, labels), {})

    return _for_each_chain(one, keys, reports, labels, run)


@partial(jax.jit, static_argnames="run")
def _advance(
    states: HMCState, reports: Reports, labels: Labels, n_steps: Int[Array, ""], *, run: _Run
) -> tuple[HMCState, _Recorded]:
    """Let every chain take some steps, at most a block; of what is recorded the rest is 0."""

    def one(state: HMCState, reports: Reports, labels: Labels) -> tuple[HMCState, _Recorded]:
        kernel, data = run.kernel(), (reports, labels)
        # a kernel learns its model's sites in init; tracing that is enough, as its state is at hand
        jax.eval_shape(lambda key: kernel.init(key, run.n_warmup, None, data, {}), state.rng_key)

        ridge = Ridge.of(reports, jnp.asarray(labels.weight), run.preset, run.variant)

        def step(index: ArrayLike, carry: tuple[HMCState, _Recorded]) -> tuple[HMCState, _Recorded]:
            state = kernel.sample(carry[0], data, {})
            if ridge is not None:
                state = _along_the_ridge(state, ridge, reports, labels, run)
            return state, jax.tree.map(lambda all_, one: all_.at[index].set(one), carry[1], _record(state))

        nothing = jax.tree.map(lambda kept: jnp.zeros((BLOCK, *kept.shape), kept.dtype), _record(state))
        after: tuple[HMCState, _Recorded] = jax.lax.fori_loop(0, n_steps, step, (state, nothing))
        return after

    return _for_each_chain(one, states, reports, labels, run)


def _along_the_ridge(state: HMCState, ridge: Ridge, reports: Reports, labels: Labels, run: _Run) -> HMCState:
    """Let every level move along its ridge; what the next NUTS step builds on is brought up to date."""
    model = partial(direag, preset=run.preset, variant=run.variant)

    def density(raw: Raw) -> Array:
        sites = {f"{name}_raw": value for name, value in raw.items()}
        log_joint: Array = log_density(model, (reports, labels), {}, sites)[0]
        return log_joint

    here = {site.removesuffix("_raw"): value for site, value in state.z.items()}
    prior = raw_priors(run.preset, run.variant, len(ridge.usual), jnp.sum(jnp.asarray(labels.weight)))["bias"]
    key, own = jax.random.split(state.rng_key)
    raw = ridge_sweep(own, here, -state.potential_energy, ridge=ridge, density=density, scale=prior.scale)
    log_joint, gradient = jax.value_and_grad(density)(raw)
    return state._replace(
        z={f"{name}_raw": value for name, value in raw.items()},
        z_grad={f"{name}_raw": -value for name, value in gradient.items()},
        potential_energy=-log_joint,
        energy=state.energy - log_joint - state.potential_energy,
        rng_key=key,
    )


def _record(state: HMCState) -> _Recorded:
    return _Recorded(
        {site.removesuffix("_raw"): value for site, value in state.z.items()},
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
    one: Callable[[Chain, Reports, Labels], Result], chains: Chain, reports: Reports, labels: Labels, run: _Run
) -> Result:
    """Apply a function to each chain, shared out among the devices."""

    def on_device(chains: Chain, reports: Reports, labels: Labels) -> Result:
        def each(chain_and_labels: tuple[Chain, Labels | None]) -> Result:
            chain, own = chain_and_labels
            return one(chain, reports, labels if own is None else own)

        mapped = partial(jax.lax.map, each) if jax.default_backend() == "cpu" else jax.vmap(each)
        found: Result = mapped((chains, labels if run.own_labels else None))
        return found

    shared, whole = PartitionSpec("chain"), PartitionSpec()  # type: ignore[no-untyped-call]
    devices = Mesh(np.array(jax.local_devices()[: run.n_devices]), ("chain",), axis_types=(AxisType.Auto,))
    # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
    return jax.shard_map(
        on_device,
        mesh=devices,
        in_specs=(shared, whole, shared if run.own_labels else whole),
        out_specs=shared,
        check_vma=False,
    )(chains, reports, labels)


@contextmanager
def _bar(n_steps: int, n_chains: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many steps the chains have taken, as far as the function that this yields is told."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} steps"))
    bar = Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), disable=not shown
    )
    with bar:
        task = bar.add_task(f"NUTS, {n_chains} chains", total=n_steps)
        yield lambda steps: bar.advance(task, steps)
