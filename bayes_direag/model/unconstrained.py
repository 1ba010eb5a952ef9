"""Models on the real line: where they are searched and sampled, and what they say of given parameters.

A positive parameter is sampled as its inverse exponential or softplus, and what levels have around a centre as a
standard normal offset (:mod:`numpyro.infer.reparam`). The sites that are left are *unconstrained*: all of them
are on the real line, but for bounded ones. A natural parameter is a deterministic function of them, or is one itself.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from threading import RLock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Num
from numpyro.distributions import biject_to, constraints
from numpyro.handlers import reparam, seed, substitute, trace
from numpyro.infer.initialization import init_to_mean
from numpyro.infer.reparam import ExplicitReparam, LocScaleReparam, Reparam, TransformReparam
from numpyro.infer.util import log_density
from numpyro.primitives import Messenger

from bayes_direag.errors import DirEAGError
from bayes_direag.model.likelihood_data import LikelihoodData

type Model = Callable[[LikelihoodData], None]
type Unconstrained = dict[str, Float[Array, "..."]]
type UnconstrainedDraws = dict[str, Float[Array | np.ndarray, "chain draw ..."]]

_RAW_SUFFIXES = ("_base", "_decentered")

#: Held while NumPyro's handlers are entered: their stack is one for all threads.
handling = RLock()


def unconstrained(
    *, noncentered: Sequence[str] = (), start: Mapping[str, float] | None = None, n_searches: int = 1
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put the latent sites of a program on the real line.

    Parameters
    ----------
    noncentered
        Sites that become standard normal offsets from their location, in units of their scale.
    start
        Where the search for the mode starts, by unconstrained site; by default at the means of the priors.
    n_searches
        How many searches find the mode; all but the first start at random.
    """

    def rule(site: dict[str, Any]) -> Reparam | None:
        if site["name"] in noncentered:
            return LocScaleReparam(0)
        prior = unwrapped(site["fn"])
        is_bounded = isinstance(prior, dist.TwoSidedTruncatedDistribution)
        if site["is_observed"] or prior.support.is_discrete or is_bounded or _is_real(prior.support):
            return None
        if isinstance(prior, dist.TransformedDistribution):
            return TransformReparam()
        return ExplicitReparam(biject_to(prior.support).inv)

    def decorate(program: Callable[..., None]) -> Callable[..., None]:
        moved = reparam(program, config=rule)

        @wraps(program)
        def model(data: Any, *arguments: Any, **keywords: Any) -> None:
            if not isinstance(data, LikelihoodData):
                raise DirEAGError(
                    f"{program.__name__}: saw {type(data).__name__}; expected LikelihoodData, as "
                    "LikelihoodData.of(Observations.from_frame(frame)) or of(Observations.read(file)) gives them."
                )
            moved(data, *arguments, **keywords)

        model.start, model.n_searches, model.noncentered = start or {}, n_searches, noncentered  # type: ignore[attr-defined]
        return model

    return decorate


def n_searches(model: Model) -> int:
    """Return how many searches find the mode of a model."""
    return int(getattr(model, "n_searches", 1))


class without_bounds(Messenger):  # type: ignore[misc]  # noqa: N801 - as numpyro names its handlers
    """Take the bounds off a model's normal priors, for an optimiser that holds them: ``without_bounds(model)``.

    The density within the bounds is the same, up to a constant.
    """

    def process_message(self, message: dict[str, Any]) -> None:
        """Replace a truncated normal by a normal."""
        if message["type"] == "sample" and isinstance(
            prior := unwrapped(message["fn"]), dist.TwoSidedTruncatedDistribution
        ):
            message["fn"] = prior.base_dist.expand(message["fn"].batch_shape)


class in_single_precision(Messenger):  # type: ignore[misc]  # noqa: N801
    """Let a model work with its parameters in single precision; their prior densities stay as precise as they are."""

    def postprocess_message(self, message: dict[str, Any]) -> None:
        """Round what a model gets to see of a latent site, or of what reparametrisation makes of it."""
        is_latent = message["type"] == "sample" and not message["is_observed"]
        if is_latent or message["type"] == "deterministic":
            message["value"] = message["value"].astype(jnp.float32)


class Site(NamedTuple):
    """A site of a model: an unconstrained parameter, if it is latent; perhaps a natural one."""

    shape: tuple[int, ...]
    #: The names of its axes.
    dims: tuple[str, ...]
    is_unconstrained: bool
    is_natural: bool
    #: Bounds of an unconstrained parameter; infinite where there is none.
    bounds: tuple[float, float]

    @property
    def transform(self) -> dist.transforms.Transform:
        """The map from the whole line to the values of an unconstrained parameter."""
        return biject_to(constraints.real if np.isinf(self.bounds[0]) else constraints.interval(*self.bounds))


def parameter_sites(model: Model, data: LikelihoodData) -> dict[str, Site]:
    """Return the sites of a model's parameters, in the order of the program; nothing is computed."""
    leaves, structure = jax.tree.flatten(data)
    return _sites_of(model, structure, *map(jax.typeof, leaves))


@lru_cache(maxsize=256)
def _sites_of(model: Model, structure: Any, *leaves: Any) -> dict[str, Site]:
    sites: dict[str, Site] = {}

    def look(data: LikelihoodData) -> None:
        sites.update(_sites(traced(model, data)))

    jax.eval_shape(look, jax.tree.unflatten(structure, leaves))
    return sites


def by_site(vector: Num[Array | np.ndarray, "*shape parameter"], model: Model, data: LikelihoodData) -> dict[str, Any]:
    """Return the values of each unconstrained site, which follow one another in a vector in the order of the names.

    What is compiled for vectors has fewer arrays, and so fewer parts.
    """
    sites = {name: site.shape for name, site in sorted(parameter_sites(model, data).items()) if site.is_unconstrained}
    return dict(zip(sites, split(vector, [*sites.values()]), strict=True))


def split(vector: Num[Array | np.ndarray, "*batch value"], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the arrays of these shapes that follow one another in a vector."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = (np if isinstance(vector, np.ndarray) else jnp).split(vector, ends[:-1], axis=-1)
    return [part.reshape((*vector.shape[:-1], *shape)) for part, shape in zip(parts, shapes, strict=True)]


def traced(model: Model, data: LikelihoodData, unconstrained: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return the sites of a run of a model with these values; what has none is drawn with one and the same key."""
    with handling:
        sites: Mapping[str, Any] = trace(seed(substitute(model, data=unconstrained or {}), 0)).get_trace(data)
    return sites


def _sites(traced: Mapping[str, Any]) -> dict[str, Site]:
    sites = {}
    for name, site in traced.items():
        if site["type"] not in ("sample", "deterministic") or site.get("is_observed") or name == "target":
            continue
        is_unconstrained, bounds = site["type"] == "sample", (-np.inf, np.inf)
        if is_unconstrained and isinstance(prior := unwrapped(site["fn"]), dist.TwoSidedTruncatedDistribution):
            bounds = float(prior.low), float(prior.high)
        is_natural = not any(name.endswith(suffix) and name.removesuffix(suffix) in traced for suffix in _RAW_SUFFIXES)
        sites[name] = Site(np.shape(site["value"]), _dims(name, site), is_unconstrained, is_natural, bounds)
    return sites


def _dims(name: str, site: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the axes of a site: those of its plates, and of its own for all others."""
    shape, n_event = np.shape(site["value"]), site["fn"].event_dim if site["type"] == "sample" else 0
    plates = {(frame.dim - n_event, frame.size): frame.name for frame in site["cond_indep_stack"]}
    axes = enumerate(shape)
    return tuple(plates.get((axis - len(shape), size), f"{name}_dim_{axis}") for axis, size in axes)


class Evaluated(NamedTuple):
    """What a model says of given unconstrained parameters."""

    #: The natural parameters, and whatever else the program names.
    natural: Unconstrained
    #: The log prior density of each unconstrained parameter, and each ``numpyro.factor``.
    log_prior: Unconstrained
    #: The log probability of each question's state, without weights.
    log_likelihood: Float[Array, " problem"]
    #: P of each report's answer, 0 but for its first mention, and of the null, last.
    probability: Float[Array, "state problem"]


def evaluated(model: Model, unconstrained: Unconstrained, data: LikelihoodData) -> Evaluated:
    """Return natural parameters, prior densities and likelihoods; pure, to be compiled."""
    sites = traced(model, data, unconstrained)
    natural = {name: jnp.asarray(sites[name]["value"]) for name, site in _sites(sites).items() if site.is_natural}
    log_prior = {name: sites[name]["fn"].log_prob(value) for name, value in unconstrained.items()}
    factors = {name: site for name, site in sites.items() if isinstance(site.get("fn"), dist.Unit)}
    log_prior |= {name: jnp.sum(site["fn"].log_factor) for name, site in factors.items()}
    state, observed = sites["target"]["fn"], jnp.asarray(sites["target"]["value"])
    return Evaluated(natural, log_prior, state.log_prob(observed), state_of(sites).probabilities)


def state_of(traced: Mapping[str, Any]) -> Any:
    """Return the distribution of the states in a trace, without masks; None if there is no site of that name."""
    state = traced["target"]["fn"] if "target" in traced else None
    while isinstance(state, dist.MaskedDistribution):
        state = state.base_dist
    return state


def log_joint(model: Model, unconstrained: Unconstrained, data: LikelihoodData) -> Float[Array, ""]:
    """Return the log joint density of parameters and observed states, in which a question has its weight."""
    with handling:
        density: Float[Array, ""] = log_density(model, (data,), {}, unconstrained)[0]
    return density


def prior_at_mode(model: Model, unconstrained: Unconstrained, data: LikelihoodData) -> Float[Array, ""]:
    """Return the log prior density with every normal at its mode; other priors, which have no such constant, add 0."""
    sites = traced(model, data, unconstrained)
    normals = [sites[name]["fn"] for name in unconstrained if isinstance(unwrapped(sites[name]["fn"]), dist.Normal)]
    return sum((jnp.sum(prior.log_prob(prior.mean)) for prior in normals), jnp.zeros(()))


def start_and_bounds(model: Model, data: LikelihoodData) -> tuple[Unconstrained, dict[str, tuple[float, float]]]:
    """Return where the search for the mode starts, and the bounds of the unconstrained parameters."""
    known: Mapping[str, float] = getattr(model, "start", {})

    def initial(site: dict[str, Any]) -> Array | None:
        if site["type"] == "sample" and site["name"] in known:
            return jnp.full(site["fn"].shape(), known[site["name"]])
        value: Array | None = init_to_mean(site)
        return value if value is None else jnp.where(jnp.isfinite(value), value, 0.0)  # a Cauchy prior has no mean

    sites = traced(substitute(seed(model, 0), substitute_fn=initial), data)
    unconstrained = {name: site for name, site in _sites(sites).items() if site.is_unconstrained}
    return {name: sites[name]["value"] for name in unconstrained}, {
        name: site.bounds for name, site in unconstrained.items()
    }


def unwrapped(prior: Any) -> Any:
    """Return a distribution without the axes that plates add."""
    while isinstance(prior, dist.ExpandedDistribution | dist.Independent):
        prior = prior.base_dist
    return prior


def _is_real(support: constraints.Constraint) -> bool:
    return support is constraints.real or getattr(support, "base_constraint", None) is constraints.real
