"""The parts of which the models are made, in JAX: sums over reports that agree, and the draw of each question's state.

No candidate has an axis of its own: each distinct answer of a question is a state at the first report that gives it.
The axes are ``report`` and ``problem``, in this order, because most of a fit's time goes into sums over reports, which
then run along whole rows.
"""

import math
from functools import reduce
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int
from numpyro.distributions import constraints

if TYPE_CHECKING:
    from bayes_direag.model.likelihood_data import LikelihoodData


#: Sums over at most so many reports, of so many questions or more, are compiled as one expression: it runs twice as
#: fast as a loop where they fill no cache, and slower where they do.
_UNROLLED, _MANY = 40, 1 << 16


class State(dist.Distribution):  # type: ignore[misc]
    """The state of each question: the index of a candidate, or -1 for the null. A categorical distribution.

    It is a distribution of its own because several candidates may be right, which makes them one state. The arguments
    are log P up to a constant, of each report's answer (minus infinity but for its first mention) and of the null,
    last; and the index of each report's candidate, equal for candidates that are one state.
    """

    support = constraints.integer_greater_than(-2)
    pytree_data_fields = ("_scores", "_values")

    def __init__(
        self, scores: Float[Array, "state problem"], candidate: Int[Array | np.ndarray, "report problem"]
    ) -> None:
        values = jnp.asarray(candidate)
        self._scores, self._values = scores, jnp.concatenate([values, jnp.full_like(values[:1], -1)])
        super().__init__(batch_shape=scores.shape[1:])

    @property
    def probabilities(self) -> Float[Array, "state problem"]:
        """P of each report's answer, 0 but for its first mention, and of the null, last."""
        return jax.nn.softmax(self._scores, axis=0)

    def log_prob(self, value: Int[Array | np.ndarray, "*sample problem"]) -> Float[Array, "*sample problem"]:
        """Return log P of states."""
        of_value = jnp.where(jnp.asarray(value)[..., None, :] == self._values, self._scores, -jnp.inf)
        return jax.nn.logsumexp(of_value, axis=-2) - jax.nn.logsumexp(self._scores, axis=0)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Int[Array, "*sample problem"]:
        """Draw states."""
        drawn = jax.random.categorical(key, self._scores, axis=0, shape=(*sample_shape, *self.batch_shape))
        return self._values[drawn, jnp.arange(self.batch_shape[0])]


def draw_states(
    data: "LikelihoodData",
    answers: Float[Array, "report problem"],
    null: Float[Array, " #problem"] | Float[Array, ""] | int | float,
) -> None:
    """Draw the state of each question, site ``target``: observed if the data hold it.

    Given are log P up to a constant, of the answer of each report and of the null; one number for the null is that of
    every question. A question counts as often as its weight says.
    """
    shape = data.candidate.shape
    if np.shape(answers) != shape or np.shape(null) not in ((), shape[1:]):
        raise ValueError(
            f"draw_states: saw answers of shape {np.shape(answers)} and a null of shape {np.shape(null)}, for "
            f"(report, problem) = {shape}, and (problem,) = {shape[1:]} or one number"
        )
    null = jnp.broadcast_to(null, shape[1:])
    scores = jnp.concatenate([jnp.where(data.first, answers, -jnp.inf), null[None]])
    is_known = isinstance(data.weight, np.ndarray) and bool((data.weight > 0).all())
    weight = data.weight.view(_Comparable) if is_known else jnp.asarray(data.weight)
    with numpyro.plate("problem", len(null)), numpyro.handlers.scale(scale=weight):
        numpyro.sample("target", State(scores, data.merged), obs=data.target)


class _Comparable(np.ndarray):
    """An array that is equal to another or not, as a whole: ArviZ compares the scales of traces."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, np.ndarray) and np.array_equal(self, other)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.tobytes())


@jax.custom_vjp
def sums_by_answer(
    values: Float[Array | np.ndarray, "report problem"], candidate: Int[Array | np.ndarray, "report problem"]
) -> Float[Array, "report problem"]:
    """Return for every report the sum of the values of all reports that give its answer; 0 without a usable report.

    A sum for each report is faster than one for each candidate, whose places have to be looked up.
    """
    return jnp.asarray(_sums_by_answer(values, candidate))


@jax.jit  # traced once, however often a model is
def _sums_by_answer(
    values: Float[Array | np.ndarray, "report problem"], candidate: Int[Array | np.ndarray, "report problem"]
) -> Float[Array, "report problem"]:
    def added(sums: Array, row: tuple[Array, Array]) -> Array:
        other, value = row
        return sums + jnp.where(candidate == other[None], value[None], 0.0)

    rows, sums = (jnp.asarray(candidate), jnp.asarray(values)), jnp.zeros_like(values)
    n_reports, n = candidate.shape
    if n_reports <= _UNROLLED and n >= _MANY:
        sums = reduce(added, zip(*rows, strict=True), sums)
    else:  # a tenth of it to compile
        sums, _ = jax.lax.scan(lambda sums, row: (added(sums, row), None), sums, rows)
    return jnp.where(candidate >= 0, sums, 0.0)


# Agreement is symmetric, so the sum is its own transpose.
sums_by_answer.defvjp(
    lambda values, candidate: (_sums_by_answer(values, candidate), candidate),
    lambda candidate, slopes: (_sums_by_answer(jnp.where(candidate >= 0, slopes, 0.0), candidate), None),
)


def over_signals(
    logits: Float[Array | np.ndarray, "*signal report problem"], slope: Float[Array, "*signal"]
) -> Float[Array, "*shape"]:
    """Return the sum over signals of slope times logit; a single signal has no axis of its own."""
    return jnp.tensordot(slope, logits, axes=jnp.ndim(slope))


def belief_and_doubt(
    score: Float[Array | np.ndarray, "*shape"], data: "LikelihoodData"
) -> tuple[Float[Array, "report problem"], Float[Array, "report problem"]]:
    """Return each report's calibrated confidence, the sigmoid of its score, and the complement.

    Neither suffers from cancellation. Both are 0 where there is no usable report.
    """
    belief, doubt = both_sigmoids(jnp.broadcast_to(score, data.usable.shape))
    return belief * data.usable, doubt * data.usable


@jax.custom_jvp
def both_sigmoids(score: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return the sigmoids of a score and of its negative, from one exponential."""
    largest = -math.log(np.finfo(score.dtype).tiny) - 1  # compiled programs take smaller beliefs than tiny for 0
    odds_against = jnp.exp(jnp.minimum(-score, largest))
    belief = 1 / (1 + odds_against)
    return belief, belief * odds_against


@both_sigmoids.defjvp
def _slopes(
    primals: tuple[Float[Array, "*shape"]], tangents: tuple[Float[Array, "*shape"]]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return both with their derivatives, which overflow for large scores under automatic differentiation."""
    belief, doubt = both_sigmoids(*primals)
    slope = belief * doubt * tangents[0]
    return (belief, doubt), (slope, -slope)
