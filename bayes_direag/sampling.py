"""Draws from the whole posterior by NUTS, from the same NumPyro model whose mode a MAP fit finds.

Chains run in parallel where JAX has a device for each (``numpyro.set_host_device_count(4)`` before its first use
splits a CPU), side by side in one computation on a single accelerator, and one after the other on a single CPU
device. All runs are in double precision, whatever JAX's global setting.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Key, Shaped
from numpyro.infer import MCMC, NUTS

from bayes_direag.errors import DirEAGError
from bayes_direag.evidence import Reports
from bayes_direag.model import Labels, RawDraws, direag
from bayes_direag.settings import Preset, SamplingSettings, Variant

_FIELDS = ("potential_energy", "energy", "diverging", "num_steps", "accept_prob", "adapt_state.step_size")


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
        Show numpyro's progress bars.

    Raises
    ------
    DirEAGError
        If the preset bounds raw parameters: NUTS explores the whole real line.
    """
    _require_unbounded(preset)
    with jax.enable_x64(True):
        mcmc = _sampler(preset, variant, sampling, sampling.n_chains, progress=progress)
        mcmc.run(jax.random.key(seed), reports, labels, extra_fields=_FIELDS)
        found = mcmc.get_samples(group_by_chain=True), mcmc.get_extra_fields(group_by_chain=True)
    return _draws(found, preset, variant)


def draws_for_each(
    reports: Reports, labels: Labels, *, preset: Preset, variant: Variant, sampling: SamplingSettings, seed: int
) -> Draws:
    """Draw one chain for each of several sets of labels that the same questions might have.

    All are compiled as one, and shared out among JAX's devices, on whose number no draw depends.

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
    _require_unbounded(preset)
    n, n_devices = len(labels.n_correct), jax.local_device_count()
    everyone = np.arange(n + -n % n_devices) % n  # as many for each device; the surplus is dropped
    with jax.enable_x64(True):
        key = jax.random.split(jax.random.key(seed), n)
        each = key[everyone], jax.tree.map(lambda array: jnp.asarray(array)[everyone], labels)
        found = _draw_each(each, reports, preset=preset.model_settings, variant=variant, sampling=sampling)
        return _draws(jax.tree.map(lambda array: array[:n], found), preset, variant)


_Found = tuple[dict[str, Array], dict[str, Array]]


@partial(jax.jit, static_argnames=("preset", "variant", "sampling"))
def _draw_each(
    each: tuple[Key[Array, " simulation"], Labels],
    reports: Reports,
    *,
    preset: Preset,
    variant: Variant,
    sampling: SamplingSettings,
) -> _Found:
    def one(key_and_labels: tuple[Key[Array, ""], Labels]) -> _Found:
        mcmc = _sampler(preset, variant, sampling, n_chains=1)
        mcmc.run(key_and_labels[0], reports, key_and_labels[1], extra_fields=_FIELDS)
        return mcmc.get_samples(), mcmc.get_extra_fields()

    devices = jax.make_mesh((jax.local_device_count(),), ("simulation",), axis_types=(AxisType.Auto,))
    shared = PartitionSpec("simulation")  # type: ignore[no-untyped-call]
    # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
    whole = jax.shard_map(
        partial(jax.lax.map, one), mesh=devices, in_specs=(shared,), out_specs=shared, check_vma=False
    )
    found: _Found = whole(each)
    return found


def _require_unbounded(preset: Preset) -> None:
    if preset.is_bounded:
        raise DirEAGError(
            f"preset {preset.name} keeps raw parameters within bounds, which NUTS cannot; expected none. Take another "
            "preset, or lift them (weight.low=null, weight.high=null, and so on)."
        )


def _sampler(
    preset: Preset, variant: Variant, sampling: SamplingSettings, n_chains: int, *, progress: bool = False
) -> MCMC:
    model = partial(direag, preset=preset.model_settings, variant=variant)
    return MCMC(
        NUTS(model, dense_mass=True, target_accept_prob=sampling.target_accept),
        num_warmup=sampling.n_warmup,
        num_samples=sampling.n_draws,
        num_chains=n_chains,
        chain_method=_chain_method(n_chains),
        progress_bar=progress,
    )


def _draws(found: _Found, preset: Preset, variant: Variant) -> Draws:
    samples, fields = found
    raw: RawDraws = {name: np.asarray(samples[f"{name}_raw"]) for name in preset.free_parameters(variant)}
    stats = {name: np.asarray(value) for name, value in fields.items()}
    return Draws(
        raw,
        {
            "lp": -stats["potential_energy"],
            "energy": stats["energy"],
            "diverging": stats["diverging"],
            "n_steps": stats["num_steps"],
            "tree_depth": np.floor(np.log2(stats["num_steps"])).astype(int) + 1,
            "acceptance_rate": stats["accept_prob"],
            "step_size": stats["adapt_state.step_size"],
        },
    )


def _chain_method(n_chains: int) -> Literal["parallel", "sequential", "vectorized"]:
    if jax.local_device_count() >= n_chains:
        return "parallel"
    return "sequential" if jax.default_backend() == "cpu" else "vectorized"
