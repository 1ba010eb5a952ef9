"""Draws from the posterior by NUTS, on the same density of the NumPyro model that a MAP fit maximises.

Steps and step size adaptation are those of numpyro's :class:`~numpyro.infer.NUTS`. Three things are added:

- It samples in the coordinates of :mod:`bayes_direag.inference.coordinates`.
- The chains of a posterior share one mass matrix. Warm-up starts from the identity; after 10, 20, 40, ... steps the
  matrix becomes the covariance of the draws of all chains since the last update, shrunk towards the matrix before it.
  With the draws of four chains it is useful much earlier than with those of one.
- Chains advance in blocks of steps, each a call of one compiled computation. So progress can be shown, a run can be
  interrupted, and fits of similar size share their compilation.

Chains are distributed over JAX's devices (call ``numpyro.set_host_device_count(4)`` before JAX is first used to split a
CPU), and on an accelerator the chains of a device advance together. The draws do not depend on the number of devices.
All runs are in double precision, whatever JAX's global setting.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Shaped
from numpyro.infer import MCMC, NUTS
from numpyro.infer.hmc import HMCState
from rich.console import Console
from rich.progress import Progress

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.coordinates import Centring, learned_centring, recentred, to_raw
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, RawDraws, log_joint, sites
from bayes_direag.model.settings import Preset, SamplingSettings, raw_shape

#: Steps of each chain in one call of the compiled computation.
BLOCK = 250

#: Every raw parameter of a chain starts at a random value between minus this and this.
_START = 2.0

#: Steps of warm-up before the first mass matrix, and the share of warm-up in which the matrix is updated.
_FIRST_WINDOW, _LEARNING = 10, 0.8

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

_BY_CHAIN, _WHOLE = PartitionSpec("chain"), PartitionSpec()  # type: ignore[no-untyped-call]


class Draws(NamedTuple):
    """Draws of the raw parameters.

    Attributes
    ----------
    raw
        Free raw parameters by name, each with leading axes chain and draw.
    stats
        Statistics of every draw, (chain, draw), under ArviZ's names: ``lp``, the log joint density of the raw
        parameters and the labels; ``energy``, in the coordinates of NUTS; ``diverging``; ``n_steps``, the number of
        gradients; ``tree_depth``; ``acceptance_rate``; ``step_size``.
    """

    raw: RawDraws
    stats: dict[str, Shaped[np.ndarray, "chain draw"]]

    @classmethod
    def of(cls, draws: "MCMC | Draws | Mapping[str, ArrayLike]", names: Sequence[str]) -> "Draws":
        """Take raw parameters and statistics from a NumPyro run, from arrays by site, or from Draws.

        Statistics that were not collected are NaN.

        Raises
        ------
        DirEAGError
            If a parameter's site is missing.
        """
        if isinstance(draws, Draws):
            return draws
        samples = draws.get_samples(group_by_chain=True) if isinstance(draws, MCMC) else draws
        missing = [f"{name}_raw" for name in names if f"{name}_raw" not in samples]
        if missing:
            expected = ", ".join(sites(dict.fromkeys(names)))
            raise DirEAGError(f"draws: there is no site {missing[0]!r}; expected {expected}.")
        raw: RawDraws = {name: np.asarray(samples[f"{name}_raw"]) for name in names}
        fields = draws.get_extra_fields(group_by_chain=True) if isinstance(draws, MCMC) else {}
        return cls(raw, statistics_of(fields, next(iter(raw.values())).shape[:2]))


class _Chain(NamedTuple):
    """One chain, or all chains with a leading axis, at the start of a window of warm-up."""

    number: Int[np.ndarray, "*chain"]
    place: RawDraws
    centring: Centring
    step_size: Float[np.ndarray, "*chain"]
    inverse_mass_matrix: Float[np.ndarray, "*chain raw raw"]


class _Run(NamedTuple):
    """The static arguments that a run is compiled for."""

    n_warmup: int
    target_accept: float
    n_devices: int

    def kernel(self, data: LikelihoodData, centring: Centring, **start: ArrayLike) -> NUTS:
        """Return a NUTS kernel that adapts only its step size."""
        rows, raw_of = _transposed(data), to_raw(data, centring)

        def potential(place: Raw) -> Float[Array, ""]:
            raw, log_jacobian = raw_of(place)
            return -log_joint(raw, _transposed(rows)) - log_jacobian

        return NUTS(
            potential_fn=potential,
            dense_mass=True,
            adapt_mass_matrix=False,
            target_accept_prob=self.target_accept,
            max_tree_depth=_TREE_DEPTHS,
            **start,
        )


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
    if data.preset.is_bounded:
        raise DirEAGError(
            "the preset keeps raw parameters within bounds, which NUTS cannot; expected none. Take another preset, or "
            "lift them (weight.low=null, weight.high=null, and so on)."
        )
    n, n_steps = sampling.n_chains, sampling.n_warmup + sampling.n_draws
    run = _Run(sampling.n_warmup, sampling.target_accept, min(n, jax.local_device_count()))
    padded = np.arange(n + -n % run.n_devices) % n  # the same number for each device; surplus chains are dropped
    names = data.preset.free_parameters(data.variant)
    shapes = {name: raw_shape(name, **data.sizes) for name in names}
    rng, n_raw = np.random.default_rng(seed), sum(math.prod(shape) for shape in shapes.values())
    place: RawDraws = {name: rng.uniform(-_START, _START, (n, *shape)) for name, shape in shapes.items()}
    centring: Centring = {name: np.zeros((n, *shape)) for name, shape in shapes.items() if data.preset.pools(name)}
    chains = _Chain(np.arange(n), place, centring, np.ones(n), np.tile(np.eye(n_raw), (n, 1, 1)))
    with jax.enable_x64(True), Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task(f"NUTS, {n} chains", total=n_steps)
        # the model sums over levels along whole rows of questions, so the data are laid out level by level
        by_level = jax.jit(_transposed)(data)
        for start, stop in pairwise([0, *learning_steps(sampling.n_warmup), n_steps]):
            starts = jax.tree.map(lambda value: value[padded], chains)
            kernel_states = _started(starts, by_level, start, seed, run=run)
            blocks: list[_Recorded] = []
            for done in range(start, stop, BLOCK):
                size = min(BLOCK, stop - done)
                kernel_states, recorded = _advanced((starts, kernel_states), by_level, size, run=run)
                blocks.append(jax.tree.map(lambda value, size=size: np.asarray(value)[:n, :size], recorded))
                bar.advance(task, size)
            window: _Recorded = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *blocks)
            if stop < n_steps:
                chains = _learned(chains, window, data.preset)
        kept: _Recorded = jax.tree.map(lambda value: value[:, sampling.n_warmup - start :], window)
        raw, log_jacobian = jax.tree.map(np.asarray, _raw_of(kept.place, chains.centring, by_level))
    kept.fields["potential_energy"] = kept.fields["potential_energy"] + log_jacobian
    return Draws({name: raw[name] for name in shapes}, statistics_of(kept.fields, (n, sampling.n_draws)))


def learning_steps(n_warmup: int) -> list[int]:
    """Return the steps of warm-up after which the mass matrix is updated; the rest adapts only the step size.

    Examples
    --------
    >>> learning_steps(500)
    [10, 20, 40, 80, 160, 320]
    """
    last = _LEARNING * n_warmup
    return [step for doubling in range(n_warmup.bit_length()) if (step := _FIRST_WINDOW << doubling) <= last]


def _learned(chains: _Chain, window: "_Recorded", preset: Preset) -> _Chain:
    """Return the chains at their last draws, with the centring and mass matrix learned from the window."""
    centring = learned_centring(window.place, chains.centring, preset)
    change = {name: shares - chains.centring[name] for name, shares in centring.items()}
    places = recentred(window.place, change, preset)
    matrix = inverse_mass_matrix(places, chains.inverse_mass_matrix)
    last = {name: value[:, -1] for name, value in places.items()}
    return _Chain(chains.number, last, centring, window.fields["adapt_state.step_size"][:, -1], matrix)


@jax.jit
def _raw_of(places: RawDraws, centring: Centring, by_level: LikelihoodData) -> tuple[Raw, Float[Array, "chain draw"]]:
    data = _transposed(by_level)
    mapped: tuple[Raw, Array] = jax.vmap(lambda draws, chain: jax.vmap(to_raw(data, chain))(draws))(places, centring)
    return mapped


def _transposed(data: LikelihoodData) -> LikelihoodData:
    transposed: LikelihoodData = jax.tree.map(jnp.transpose, data)
    return transposed


def inverse_mass_matrix(
    raw: RawDraws, before: Float[np.ndarray, "chain raw raw"]
) -> Float[np.ndarray, "chain raw raw"]:
    """Return the covariance of all chains' draws, shrunk towards the matrix before, for each chain.

    The matrix before counts as many draws as there are parameters.
    """
    draws = np.concatenate([np.reshape(part, (*part.shape[:2], -1)) for part in jax.tree.leaves(raw)], axis=2)
    pooled = draws.reshape(-1, draws.shape[2])
    n, size = pooled.shape
    centred = pooled - pooled.mean(axis=0)
    learned = (centred.T @ centred + size * before[0]) / (n + size)
    return np.asarray(np.broadcast_to(learned, before.shape))


@partial(jax.jit, static_argnames="run")
def _started(
    chains: _Chain,
    by_level: LikelihoodData,
    step: ArrayLike,
    seed: ArrayLike,
    *,
    run: _Run,
) -> HMCState:
    """Start every chain's kernel after ``step`` steps, at its place and with its mass matrix."""

    def start(chain: _Chain, data: LikelihoodData) -> HMCState:
        kernel = run.kernel(
            data, chain.centring, step_size=chain.step_size, inverse_mass_matrix=chain.inverse_mass_matrix
        )
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), chain.number)
        state: HMCState = kernel.init(key, run.n_warmup, chain.place)
        return state._replace(i=jnp.asarray(step, state.i.dtype))

    return _for_each_chain(start, chains, by_level, run)


@partial(jax.jit, static_argnames="run")
def _advanced(
    chains: tuple[_Chain, HMCState],
    by_level: LikelihoodData,
    n_steps: ArrayLike,
    *,
    run: _Run,
) -> tuple[HMCState, "_Recorded"]:
    """Let every chain take ``n_steps`` steps, at most a block; the rest of the record is 0."""

    def advance(chain: tuple[_Chain, HMCState], data: LikelihoodData) -> tuple[HMCState, _Recorded]:
        kernel, state = run.kernel(data, chain[0].centring), chain[1]
        jax.eval_shape(lambda: kernel.init(state.rng_key, run.n_warmup, state.z))  # numpyro's sample needs an init

        def step(index: ArrayLike, carry: tuple[HMCState, _Recorded]) -> tuple[HMCState, _Recorded]:
            state = kernel.sample(carry[0], (), {})
            return state, jax.tree.map(lambda record, new: record.at[index].set(new), carry[1], _recorded(state))

        empty = jax.tree.map(lambda new: jnp.zeros((BLOCK, *new.shape), new.dtype), _recorded(state))
        advanced: tuple[HMCState, _Recorded] = jax.lax.fori_loop(0, n_steps, step, (state, empty))
        return advanced

    return _for_each_chain(advance, chains, by_level, run)


class _Recorded(NamedTuple):
    """The places of a chain, and NumPyro's statistics of its steps."""

    place: RawDraws
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


def _for_each_chain[Chain, Result](
    function: Callable[[Chain, LikelihoodData], Result], chains: Chain, by_level: LikelihoodData, run: _Run
) -> Result:
    """Apply a function to each chain and the data, distributed over the devices."""

    def on_device(chains: Chain, by_level: LikelihoodData) -> Result:
        n_chains = len(jax.tree.leaves(chains)[0])
        side_by_side = None if jax.default_backend() == "cpu" else n_chains
        result: Result = jax.lax.map(
            lambda chain: function(chain, _transposed(by_level)), chains, batch_size=side_by_side
        )
        return result

    devices = Mesh(np.array(jax.local_devices()[: run.n_devices]), ("chain",), axis_types=(AxisType.Auto,))
    # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
    return jax.shard_map(on_device, mesh=devices, in_specs=(_BY_CHAIN, _WHOLE), out_specs=_BY_CHAIN, check_vma=False)(
        chains, by_level
    )
