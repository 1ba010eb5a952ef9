r"""The NumPyro model of evidence aggregation.

The state of a question is a categorical draw with the probabilities P of :mod:`bayes_direag.model.equations`. Without
sharpness and votes P is the Dirichlet mean, and the draw is a one-trial Dirichlet-multinomial with concentration alpha.
One draw a question carries no information on the spread of that Dirichlet, so intervals come from the posterior of the
parameters alone.

Parameters are sampled *raw*, on the real line, and natural parameters are deterministic functions of them. So AutoDelta
finds the mode of the very density that NUTS samples.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from numpyro.distributions import constraints
from numpyro.infer.util import log_density

from bayes_direag.model.equations import Parameters
from bayes_direag.model.evidence import log_scores
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.settings import (
    LABEL_PARAMETERS,
    LEVEL_PARAMETERS,
    SHARED,
    SIGNAL_PARAMETERS,
    Link,
    Preset,
    Variant,
    raw_shape,
)

Raw = dict[str, Float[Array, "..."]]
RawDraws = dict[str, Float[Array | np.ndarray, "chain draw ..."]]


def direag(data: LikelihoodData) -> None:
    """Draw the parameters, then the state of each question (site ``target``).

    Sites ``NAME_raw`` are the free raw parameters, ``NAME`` the natural ones. The target is observed if the data hold
    it, and drawn otherwise.

    Examples
    --------
    >>> import jax
    >>> from numpyro.infer import Predictive
    >>> from bayes_direag import LikelihoodData, direag, simulate_observations
    >>> data = LikelihoodData.of(simulate_observations(n=40, seed=1), preset="bayes")
    >>> Predictive(direag, num_samples=25)(jax.random.key(0), data.unlabelled)["target"].shape
    (25, 40)
    """
    parameters = drawn_parameters(data)
    scores = log_scores(data.reports, parameters.of_slots(data.slots))
    with numpyro.plate("problem", len(data.weight)):
        numpyro.sample("target", State(scores, data.merged, data.weight), obs=data.target)


def drawn_parameters(data: LikelihoodData) -> Parameters:
    """Draw the raw parameters from their priors, and return the natural ones."""
    raw = {}
    total = jnp.sum(data.weight)
    for name, prior in raw_priors(data.preset, data.variant, total_weight=total, **data.sizes).items():
        with _plate(name, data):
            by_label = prior.expand((data.n_labels,)).to_event(1) if name in LABEL_PARAMETERS else prior
            raw[name] = numpyro.sample(f"{name}_raw", by_label)
    parameters: Parameters = natural_parameters(raw, data.preset, data.variant, data.agreement)
    for name, value in named_parameters(parameters, raw, data.preset).items():
        with nullcontext() if name in LABEL_PARAMETERS else _plate(name, data):  # which names the axes for ArviZ
            numpyro.deterministic(name, value)
    return parameters


class State(dist.Distribution):  # type: ignore[misc]
    """The state of each question: the index of a candidate, or -1 for the null. A categorical distribution.

    It is a distribution of its own because several candidates may be right, which makes them one state, and because a
    question may count with any weight, or not at all. The arguments are log P up to a constant, as
    :func:`~bayes_direag.model.evidence.log_scores` returns it; the index of each level's candidate, equal for
    candidates that are one state; and the weight of each question.
    """

    support = constraints.integer_greater_than(-2)
    pytree_data_fields = ("_scores", "_values", "_weight")

    def __init__(
        self,
        scores: Float[Array, "state problem"],
        candidate: Int[Array | np.ndarray, "problem level"],
        weight: Float[Array | np.ndarray, " problem"],
    ) -> None:
        values = jnp.asarray(candidate).T
        self._scores, self._weight = scores, jnp.asarray(weight)
        self._values = jnp.concatenate([values, jnp.full_like(values[:1], -1)])
        super().__init__(batch_shape=(len(self._weight),))

    def log_prob(self, value: Int[Array | np.ndarray, "*sample problem"]) -> Float[Array, "*sample problem"]:
        """Return ``weight * log P(value)``: a question of weight 2 counts as two equal questions."""
        of_value = jnp.where(jnp.asarray(value)[..., None, :] == self._values, self._scores, -jnp.inf)
        return self._weight * (jax.nn.logsumexp(of_value, axis=-2) - jax.nn.logsumexp(self._scores, axis=0))

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Int[Array, "*sample problem"]:
        """Draw states."""
        drawn = jax.random.categorical(key, self._scores, axis=0, shape=(*sample_shape, *self.batch_shape))
        return self._values[drawn, jnp.arange(len(self._weight))]


@partial(jax.jit, static_argnames=("preset", "variant"))
def natural_parameters(
    raw: Raw, preset: Preset, variant: Variant, agreement: Float[Array | np.ndarray, " level"] | None
) -> Parameters:
    """Map raw parameters to natural ones through their links; a fixed parameter takes its fixed value.

    A pooled parameter is ``link(centre + spread * offset)``, where a level's agreement with the others may move the
    centre. With n signals each slope is divided by n, so that signals that all say the same count as one.
    """
    pooled = _pooled_over_levels(raw, preset)
    dtype = next(iter(raw.values())).dtype
    natural: Raw = {}
    for name in preset.parameters(variant):
        settings = preset.parameter(name)
        if name not in raw:
            natural[name] = jnp.asarray(settings.fixed, dtype)
        elif preset.pools(name):
            centre = pooled[f"{name}_centre"]
            centre = centre[None] if jnp.ndim(centre) else centre  # each label has its own centre
            if agreement is not None and f"{name}_agreement" in pooled:
                centre = centre + pooled[f"{name}_agreement"] * agreement
            natural[name] = linked(centre + pooled[f"{name}_spread"] * raw[name], settings.link)
        else:
            natural[name] = linked(raw[name], settings.link)
        if name in SIGNAL_PARAMETERS:
            natural[name] = natural[name] / natural[name].size
    return Parameters(**natural)


def named_parameters(parameters: Parameters, raw: Raw, preset: Preset) -> Raw:
    """Return the natural parameters by name, with what levels share of those that are pooled."""
    natural = {name: value for name, value in parameters._asdict().items() if value is not None}
    return natural | _pooled_over_levels(raw, preset)


def log_likelihood(raw: Raw, data: LikelihoodData) -> Float[Array, " problem"]:
    """Return the log probability of each question's state, without weights."""
    parameters = natural_parameters(raw, data.preset, data.variant, data.agreement).of_slots(data.slots)
    state = State(log_scores(data.reports, parameters), data.merged, jnp.ones_like(data.weight))
    return state.log_prob(jnp.asarray(data.target))


def log_joint(raw: Raw, data: LikelihoodData) -> Float[Array, ""]:
    """Return the log joint density of the raw parameters and the observed states."""
    density: Float[Array, ""] = log_density(direag, (data,), {}, sites(raw))[0]
    return density


def log_prior(raw: Raw, data: LikelihoodData) -> Float[Array, ""]:
    """Return the log prior density of the raw parameters."""
    priors = raw_priors(data.preset, data.variant, total_weight=jnp.sum(data.weight), **data.sizes)
    return sum((jnp.sum(prior.log_prob(raw[name])) for name, prior in priors.items()), jnp.zeros(()))


def raw_priors(
    preset: Preset, variant: Variant, n_levels: int, total_weight: ArrayLike, n_labels: int = 0, n_signals: int = 1
) -> dict[str, dist.Normal]:
    """Return the prior of each free raw parameter; a penalty stands for Normal(0, sqrt(D / (2 lambda W)))."""
    names = preset.free_parameters(variant)
    n_raw = sum(math.prod(raw_shape(name, n_levels, n_labels, n_signals)) for name in names)
    from_penalty = jnp.sqrt(n_raw / (2 * preset.penalty * jnp.asarray(total_weight))) if preset.penalty else None
    settings = {name: preset.parameter(name) for name in names}
    return {
        name: dist.Normal(raw.loc, from_penalty if raw.scale is None else raw.scale) for name, raw in settings.items()
    }


def raw_from_vector(
    vector: Float[Array | np.ndarray, " raw"],
    *,
    preset: Preset,
    variant: Variant,
    n_levels: int,
    n_labels: int = 0,
    n_signals: int = 1,
) -> Raw:
    """Split a flat raw vector, in the order of ``preset.free_parameters(variant)``, into named parameters.

    What levels share of a pooled parameter follows its offsets.

    Raises
    ------
    ValueError
        If its length is not the number of the variant's free parameters.
    """
    names = preset.free_parameters(variant)
    shapes = [raw_shape(name, n_levels, n_labels, n_signals) for name in names]
    sizes = [math.prod(shape) for shape in shapes]
    if len(vector) != sum(sizes):
        raise ValueError(f"the raw vector has {len(vector)} entries; {variant} with {n_levels} levels has {sum(sizes)}")
    parts = jnp.split(jnp.asarray(vector), np.cumsum(sizes)[:-1].tolist())
    return {name: part.reshape(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}


def sites(raw: dict[str, Any]) -> dict[str, Any]:
    """Return raw parameters under the names of their sites."""
    return {f"{name}_raw": value for name, value in raw.items()}


def _plate(name: str, data: LikelihoodData) -> AbstractContextManager[object]:
    """Return the plate of a parameter's levels or signals, if it has any; its labels are one event."""
    if name in {*LEVEL_PARAMETERS, "label_vote"}:
        return cast(AbstractContextManager[object], numpyro.plate("level", data.n_levels))
    if name in SIGNAL_PARAMETERS and data.n_signals > 1:
        return cast(AbstractContextManager[object], numpyro.plate("signal", data.n_signals))
    return nullcontext()


def _pooled_over_levels(raw: Raw, preset: Preset) -> Raw:
    """Return what levels share of each pooled parameter, before its link."""
    return {name: linked(value, preset.parameter(name).link) for name, value in raw.items() if name.endswith(SHARED)}


def linked(raw: Float[Array, "..."], link: Link) -> Float[Array, "..."]:
    """Return the natural value of a raw one."""
    match link:
        case "softplus":
            return jax.nn.softplus(raw)
        case "exp":
            return jnp.exp(raw)
        case "identity":
            return raw
