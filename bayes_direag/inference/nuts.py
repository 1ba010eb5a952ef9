"""Draws from the posterior by numpyro's MCMC, on the same density of the NumPyro model that a MAP fit maximises.

NUTS samples in the coordinates of :mod:`bayes_direag.inference.coordinates`, from the Laplace approximation: the mode,
and a normal with the inverse Hessian there as its covariance. The normal gives every chain its start, and its
covariance is the mass matrix of the first steps. In warm-up the matrix is adapted to the draws of all chains and their
gradients (:func:`adapted_matrix`), and the step size to the matrix. Under a model with several optima each chain looks
for one from a place of its own, and keeps the matrix of that.

:class:`~numpyro.infer.MCMC` runs in blocks of steps, each a call of one compiled computation whose arguments are the
data: progress can be shown, a run can be interrupted, and fits of one shape share their compilation. Chains are
distributed over JAX's devices (call ``numpyro.set_host_device_count(4)`` before JAX is first used to split a CPU), and
on an accelerator the chains of a device advance together. The draws do not depend on the number of devices.

Parameters, and sums over questions, are in double precision, whatever JAX's global setting. The work of each question
is in single precision, which is twice as fast: it changes the log density by less than 1e-4.
"""

import math
from collections.abc import Callable, Mapping
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
from numpyro.infer.util import ParamInfo, potential_energy
from rich.console import Console
from rich.progress import Progress

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.coordinates import Coordinates, straightened
from bayes_direag.inference.newton import ProjectedNewton, convex, dense_size, hessian, minimise_in_box
from bayes_direag.model.compilation import compiled
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.unconstrained import (
    Model,
    UnconstrainedDraws,
    by_site,
    handling,
    in_single_precision,
    n_searches,
    parameter_sites,
)

#: Most parameters, since the mass matrix is dense.
MOST_PARAMETERS = 2000

#: Steps of each chain in one call of the compiled computation. Progress is shown, and Ctrl-C obeyed, between two.
BLOCK = 50

#: The matrix is adapted after each block of warm-up, but for the last steps, which only settle the step size.
SETTLING = 100

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

#: Stands for the energy at a start, and 0 for its gradient, since what evaluates them is compiled once, for the steps.
#: The first step is then from another momentum, and is taken to a point whose energy is known: warm-up drops it.
_UNKNOWN = 1e15

#: The search for the mode ends at this projected gradient of the mean log density.
_NEAR_ENOUGH = 1e-6


#: One vector for all sites, in the order of their names: loops over it are compiled sooner than over many arrays.
type _Points = Float[Array | np.ndarray, "chain parameter"]
type _Drawn = Float[Array | np.ndarray, "chain draw parameter"]


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

        Raises DirEAGError if a site is missing, has another shape, or values that are not finite.
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
        unconstrained: UnconstrainedDraws = {name: np.array(samples[name]) for name in shapes}
        first = next(iter(unconstrained.values())).shape[:2]
        for name, values in unconstrained.items():
            if values.ndim < 2 or 0 in first or values.shape != (*first, *shapes[name]):
                raise DirEAGError(
                    f"draws: site {name!r} has shape {values.shape}; expected {('chain', 'draw', *shapes[name])}, "
                    "with the same chains and draws in every site. Take those of these observations, by chain."
                )
            if not np.isfinite(values).all():
                n = int((~np.isfinite(values)).sum())
                raise DirEAGError(
                    f"draws: {n} of {values.size} values of site {name!r} are NaN or infinite; expected finite draws. "
                    "Look at the priors, the starting values and the step size of the run."
                )
        return draws if isinstance(draws, Draws) else cls(unconstrained, statistics_of(fields, first))


class _Run(NamedTuple):
    """What a run is compiled for, beside the shapes of its data."""

    model: Model
    num_warmup: int
    target_accept_prob: float

    def kernel(
        self, data: LikelihoodData, references: Any, inverse_mass_matrix: Array | np.ndarray | None = None
    ) -> NUTS:
        """Return NumPyro's kernel, which adapts only its step size; states hold their mass matrix."""
        return NUTS(
            potential_fn=_potential(self.model, data, references),
            dense_mass=True,
            inverse_mass_matrix=inverse_mass_matrix,
            adapt_mass_matrix=False,
            step_size=_STEP_SIZE,
            target_accept_prob=self.target_accept_prob,
            max_tree_depth=_TREE_DEPTHS,
        )


def nuts_draws(
    model: Model, data: LikelihoodData, *, sampling: SamplingSettings, seed: int, progress: bool = False
) -> Draws:
    """Draw from the posterior, with a dense mass matrix and a bar of progress, if wanted."""
    n_chains, n_warmup = sampling.num_chains, sampling.num_warmup
    n_steps, run = n_warmup + sampling.num_samples, _Run(model, n_warmup, sampling.target_accept_prob)
    with jax.enable_x64(True), Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task(f"NUTS, {n_chains} chains: compiling", total=n_steps)
        sites = {name: site for name, site in parameter_sites(model, data).items() if site.is_unconstrained}
        if (n_parameters := sum(math.prod(site.shape) for site in sites.values())) > MOST_PARAMETERS:
            raise DirEAGError(
                f"model {model.__name__} has {n_parameters:,} parameters; NUTS expects at most {MOST_PARAMETERS:,}, as "
                "its mass matrix has all pairs. Pool them, fit by MAP, or sample with NumPyro's own NUTS and take "
                "fit_draws."
            )
        points, matrices, references = _laplace(model, data, n_chains, np.random.default_rng(seed))
        given, blocks = (data.in_single_precision(), references), []
        known = ParamInfo(points, np.full(n_chains, _UNKNOWN), np.zeros_like(points))
        states = jax.tree.map(np.asarray, _started(known, matrices, *given, run=run))
        for step in range(0, n_steps, BLOCK):
            # host arrays: for those of devices it would be compiled again, as they lie elsewhere
            states, block = jax.tree.map(np.asarray, _advanced(states, *given, seed, step, run=run))
            blocks.append(block)
            bar.update(task, description=f"NUTS, {n_chains} chains", advance=BLOCK)
            if step + BLOCK + SETTLING <= n_warmup and n_searches(model) == 1:
                points, fields = _between((step + BLOCK) // 2, step + BLOCK, blocks)
                matrices = np.stack([adapted_matrix(points, fields["z_grad"], matrices[0])] * n_chains)
                known = ParamInfo(states.z, states.potential_energy, states.z_grad)
                again = jax.tree.map(np.asarray, _started(known, matrices, *given, run=run))
                states = again._replace(i=states.i)
        points, fields = _between(n_warmup, n_steps, blocks)
        moved, volume = _unconstrained_of(points, data, references, model=model)
        fields["potential_energy"] = fields["potential_energy"] + np.asarray(volume)  # of the parameters themselves
        unconstrained: UnconstrainedDraws = {
            name: np.asarray(site.transform(moved[name])) for name, site in sites.items()
        }
    return Draws(unconstrained, statistics_of(fields, (n_chains, sampling.num_samples)))


@compiled("run")
def _started(
    known: ParamInfo,
    matrices: Float[Array | np.ndarray, "chain parameter parameter"],
    data: LikelihoodData,
    references: Any,
    *,
    run: _Run,
) -> HMCState:
    """Return the state of every chain before its first step, from its point, and the energy and gradient there."""

    def started(known: ParamInfo, matrix: Array) -> HMCState:
        key = jax.random.PRNGKey(0)  # from which nothing is drawn: every block of steps has a key of its own
        state: HMCState = run.kernel(data, references, matrix).init(key, run.num_warmup, known)
        adaptation = state.adapt_state._replace(rng_key=key)
        return state._replace(energy=state.potential_energy, rng_key=key, adapt_state=adaptation)

    return jax.vmap(started)(known, jnp.asarray(matrices))


@compiled("run", runs_long=True)
def _advanced(
    states: HMCState, data: LikelihoodData, references: Any, seed: ArrayLike, step: ArrayLike, *, run: _Run
) -> tuple[HMCState, tuple[Float[Array, "chain draw parameter"], dict[str, Any]]]:
    """Let every chain take a block of steps; return the states, and the points and statistics of all steps."""
    chains = MCMC(
        run.kernel(data, references),
        num_warmup=run.num_warmup,
        num_samples=BLOCK,
        num_chains=len(states.i),
        chain_method=_for_each_chain,
        progress_bar=False,
    )
    chains.post_warmup_state = states  # which goes on adapting as long as its own step says
    key, fields = jax.random.fold_in(jax.random.key(seed), step), (*NUMPYRO_STATISTICS, "z_grad")
    known = ParamInfo(states.z, states.potential_energy, states.z_grad)
    chains.run(key, extra_fields=fields, init_params=known)
    last, adaptation = chains.last_state, states.adapt_state
    adapted = {name: getattr(last.adapt_state, name) for name in ("step_size", "ss_state", "window_idx")}
    moved = {name: getattr(last, name) for name in ("i", "z", "z_grad", "potential_energy")}
    states = states._replace(adapt_state=adaptation._replace(**adapted), **moved)  # what else changes is not used
    return states, (chains.get_samples(group_by_chain=True), chains.get_extra_fields(group_by_chain=True))


def _for_each_chain[Chain, Result](function: Callable[[Chain], Result]) -> Callable[[Chain], Result]:
    """Apply a function to each chain, distributed over the devices; side by side on an accelerator."""

    def on_device(chains: Chain) -> Result:
        side_by_side = None if jax.default_backend() == "cpu" else len(jax.tree.leaves(chains)[0])
        result: Result = jax.lax.map(function, chains, batch_size=side_by_side)
        return result

    def on_devices(chains: Chain) -> Result:
        n_chains, devices = len(jax.tree.leaves(chains)[0]), jax.local_devices()
        n_devices = max(n for n in range(1, len(devices) + 1) if n_chains % n == 0)
        mesh = Mesh(np.array(devices[:n_devices]), ("chain",), axis_types=(AxisType.Auto,))
        by_chain = PartitionSpec("chain")  # type: ignore[no-untyped-call]
        # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
        return jax.shard_map(on_device, mesh=mesh, in_specs=by_chain, out_specs=by_chain, check_vma=False)(chains)

    return on_devices


def _between(start: int, end: int, blocks: list[Any]) -> Any:
    """Return the points and statistics of these steps of every chain."""
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, start:end], *blocks)


def adapted_matrix(
    points: _Drawn, gradients: _Drawn, matrix: Float[np.ndarray, "parameter parameter"]
) -> Float[np.ndarray, "parameter parameter"]:
    """Return the mass matrix (the inverse of the mass) that suits draws and their gradients, of all chains together.

    It is the geometric mean of the draws' covariance and the inverse of the gradients' covariance, which are the same
    for a normal: the matrix M of least Fisher divergence, with M (gradients) M = draws (nutpie; Tran and Kleppe 2024,
    arXiv:2403.07495, for a diagonal one). Both are shrunk to what ``matrix`` expects, which counts as a draw for each
    parameter.
    """
    root, size = np.linalg.cholesky(matrix), len(matrix)

    def covariance(values: _Drawn, scale: Float[np.ndarray, "parameter parameter"]) -> Any:
        whitened = values.reshape(-1, size) @ scale
        n = len(whitened)
        return (n * np.cov(whitened, rowvar=False).reshape(size, size) + size * np.eye(size)) / (n + size)

    of_draws, of_gradients = covariance(points, np.linalg.inv(root).T), covariance(gradients, root)
    half = np.linalg.cholesky(of_gradients)
    variance, basis = np.linalg.eigh(half.T @ of_draws @ half)
    outer = root @ np.linalg.inv(half).T @ (basis * variance**0.25)
    return np.asarray(outer @ outer.T)


@compiled("model")
def _unconstrained_of(
    points: _Drawn, data: LikelihoodData, references: Any, *, model: Model
) -> tuple[UnconstrainedDraws, Float[Array, "chain draw"]]:
    """Return the unconstrained parameters of draws in the coordinates of NUTS, and the log changes of volume."""
    coordinates = Coordinates(model, data)
    moved, volume = jax.vmap(jax.vmap(lambda point: coordinates.to_unconstrained(point, references)))(
        by_site(points, model, data)
    )
    return {**moved}, volume


def _potential(
    model: Model, data: LikelihoodData, references: Any
) -> Callable[[Float[Array, " parameter"]], Float[Array, ""]]:
    """Return minus the log density in the coordinates of NUTS, on the whole line, of a vector for all sites."""
    coordinates = Coordinates(model, data)

    def potential(point: Float[Array, " parameter"]) -> Float[Array, ""]:
        unconstrained, volume = coordinates.to_unconstrained(by_site(point, model, data), references)
        with handling:
            energy: Float[Array, ""] = potential_energy(in_single_precision(model), (data,), {}, unconstrained)
        return energy - volume

    return potential


def _laplace(
    model: Model, data: LikelihoodData, n: int, rng: np.random.Generator
) -> tuple[_Points, Float[np.ndarray, "chain parameter parameter"], Any]:
    """Return draws of the Laplace approximation, one a chain, its covariance, and the references of the coordinates.

    Of several for several searches.
    """
    modes = [_mode(data, number, model=model) for number in range(n if n_searches(model) > 1 else 1)]
    noise = rng.normal(size=(n, len(modes[0][1])))
    points, matrices, references = [], [], None
    for number, of_chain in enumerate(noise):
        mode, curvature = modes[number % len(modes)]
        point, covariance, references = straightened(model, data, mode, np.linalg.inv(curvature))
        variance, basis = np.linalg.eigh(covariance)
        variance = np.clip(variance, 0, _WIDEST**2)
        points.append(np.asarray(point) + basis @ (np.sqrt(variance) * of_chain))
        matrices.append((basis * variance) @ basis.T)
    return np.stack(points), np.stack(matrices), references


@compiled("model")
def _mode(
    data: LikelihoodData, number: int | Int[Array, ""], *, model: Model
) -> tuple[Float[Array, " parameter"], Float[Array, "parameter parameter"]]:
    """Return the unconstrained mode that a search ends in, and the Hessian there, made positive definite."""
    total = jnp.sum(data.weight)
    starts = ProjectedNewton.for_model(model, data).starts or {}
    sites = parameter_sites(model, data)
    start = {
        (name := key.removesuffix("_auto_loc")): sites[name].transform.inv(values[number % len(values)])
        for key, values in starts.items()
    }
    point, unravel = ravel_pytree(start)

    @jax.jit  # so that the model is traced once, and not for every derivative
    def loss(point: Float[Array, " parameter"]) -> Float[Array, ""]:
        with handling:
            energy: Float[Array, ""] = potential_energy(model, (data,), {}, unravel(point))
        return energy / total

    everywhere = jnp.full_like(point, jnp.inf)
    end = minimise_in_box(loss, point, -everywhere, everywhere, tolerance=_NEAR_ENOUGH, is_exact=True)
    curvature = end.curvature if dense_size(len(point)) else convex(hessian(jax.grad(loss), end.point))
    return end.point, total * curvature


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
    arrays = {
        name: {
            str(site): values.transpose("chain", "draw", ..., missing_dims="ignore").to_numpy()
            for site, values in (tree[name].data_vars.items() if name in tree.children else ())
        }
        for name in (group, "sample_stats")
    }
    stats = arrays["sample_stats"]
    fields = {field: stats[name] for field, name in NUMPYRO_STATISTICS.items() if name in stats}
    return arrays[group], fields | ({"potential_energy": -stats["lp"]} if "lp" in stats else {})
