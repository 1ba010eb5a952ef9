r"""The coordinates of NUTS under ``bayes``, in which the posterior is closer to a normal than in its sites.

Labels determine how the evidence for answers compares with that for the null, but hardly how the null's comes from its
base and how much from doubt, nor how much of the comparison is evidence and how much sharpness. In the sites these are
curved ridges. With

.. math:: A = \sum_l u_l w_l \bar q, \qquad D = \sum_l u_l w_l (1 - \bar q), \qquad s = \frac{1}{K + 1}

where :math:`\bar q` is the calibrated confidence at a reference logit c of each signal, s a mean over questions, and
:math:`u_l` the share of questions that level l reports on, NUTS samples v in the place of the bias, and y in that of
the centre of the levels' log weights:

.. math::

    D &= e^v (s + \beta_0) \\
    A &= s e^u, \qquad u = t - (\kappa / \epsilon - 1) \operatorname{softplus}(-t) \\
    t &= \frac{y}{\kappa} + \log \frac{s + \beta_0 + D}{s} - \delta

Far to the right, y is what labels determine: the sharpness times the log of evidence for answers over evidence for the
null. Far to the left, where votes alone explain the answers and only the prior speaks, u moves with
:math:`y / \epsilon`: the scale of the prior, whatever the sharpness. The volume changes by

.. math:: \frac{du}{dy} = \frac{\sigma(t)}{\kappa} + \frac{\sigma(-t)}{\epsilon}

The *references* c and :math:`\delta` come from the Laplace covariance C, so that no ridge is left along the slopes or
the sharpness, which would be straight in these but not in their logarithms, the coordinates: c is the mean logit,
moved by :math:`C_{ll}^{-1} C_{lv} / \text{slope}` (l: the log slopes) but hardly further than the standard deviation of
the stated logits, and :math:`\delta = -C_{yk} / (\kappa C_{kk})` (k: the log sharpness).

Other models are sampled as they are.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bayes_direag.model.compilation import compiled
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import WEIGHT_SPREAD, bayes
from bayes_direag.model.unconstrained import Model, Unconstrained, by_site

type _Vector = Float[Array | np.ndarray, " parameter"]
type _Square = Float[Array | np.ndarray, "parameter parameter"]

#: The sharpness of the tail, epsilon; and Newton's steps to invert u, which is concave or convex, and monotone.
_TAIL, _STEPS = 0.5, 30


class References(NamedTuple):
    """Where ridges are straight: arguments of the map, so that fits of one shape share what is compiled."""

    #: The logit of each signal at which a confidence is typical, c.
    logit: Float[Array | np.ndarray, " signal"]
    #: The log ratio of evidence at which y is zero, delta.
    log_ratio: Float[Array | np.ndarray, ""]


class Coordinates:
    """The map between the coordinates of NUTS and the unconstrained parameters of a model.

    Entry ``bias`` of the coordinates holds v, and ``weight_centre`` holds y. Only the reports of the data are used. One
    report with a confidence of one half is added to each level.
    """

    def __init__(self, model: Model, data: LikelihoodData) -> None:
        self._moves, self._data = model is bayes, data
        weight, usable = jnp.asarray(data.weight), jnp.asarray(data.candidate) >= 0
        self._counts = usable * weight[None]
        self._reports = 1 + data.by_level(self._counts)
        self._total = 1 + weight.sum()
        self._share = (weight / (1 + jnp.asarray(data.n_candidates))).sum() / weight.sum()

    def logits(self) -> tuple[Float[Array, " signal"], Float[Array, " signal"]]:
        """Return the mean and the standard deviation of each signal's logits."""
        logits = jnp.asarray(self._data.logit).reshape(-1, *self._counts.shape)
        moments = [jnp.sum(logits**power * self._counts[None], axis=(1, 2)) / self._reports.sum() for power in (1, 2)]
        return moments[0], jnp.sqrt(jnp.maximum(moments[1] - moments[0] ** 2, 0.0))

    def to_unconstrained(self, point: Unconstrained, references: Any) -> tuple[Unconstrained, Float[Array, ""]]:
        """Return the unconstrained parameters at a point, and the log of the change of volume there."""
        if not self._moves:
            return point, jnp.zeros(())
        kappa = jnp.exp(point["sharpness_base"])
        log_doubt = point["bias"] + self._log_base(point)
        t = point["weight_centre"] / kappa + self._log_null(point, log_doubt) - references.log_ratio
        log_answers = jnp.log(self._share) + _bent(t, kappa)
        bias = log_answers - log_doubt - self._of_confidence(point, references)
        centre = jnp.logaddexp(log_answers, log_doubt) - self._log_ratios(point)
        volume = jnp.log(jax.nn.sigmoid(t) / kappa + jax.nn.sigmoid(-t) / _TAIL)
        return point | {"bias": bias, "weight_centre": centre}, volume

    def of_unconstrained(self, parameters: Unconstrained, references: Any) -> Unconstrained:
        """Return the point at unconstrained parameters: the inverse."""
        if not self._moves:
            return parameters
        kappa = jnp.exp(parameters["sharpness_base"])
        log_weight = parameters["weight_centre"] + self._log_ratios(parameters)
        log_odds = parameters["bias"] + self._of_confidence(parameters, references)
        log_doubt = log_weight + jax.nn.log_sigmoid(-log_odds)
        u = log_weight + jax.nn.log_sigmoid(log_odds) - jnp.log(self._share)

        def newton(_: object, t: Float[Array, ""]) -> Float[Array, ""]:
            return t - (_bent(t, kappa) - u) / (jax.nn.sigmoid(t) + kappa / _TAIL * jax.nn.sigmoid(-t))

        t = jax.lax.fori_loop(0, _STEPS, newton, jnp.minimum(u, u * _TAIL / kappa))
        y = kappa * (t - self._log_null(parameters, log_doubt) + references.log_ratio)
        return parameters | {"bias": log_doubt - self._log_base(parameters), "weight_centre": y}

    def _log_base(self, point: Unconstrained) -> Float[Array, ""]:
        """Return log (s + beta_0)."""
        return jnp.log(self._share + jax.nn.softplus(point["null_base_base"]))

    def _log_null(self, point: Unconstrained, log_doubt: Float[Array, ""]) -> Float[Array, ""]:
        """Return log ((s + beta_0 + D) / s)."""
        return jnp.logaddexp(self._log_base(point), log_doubt) - jnp.log(self._share)

    def _log_ratios(self, point: Unconstrained) -> Float[Array, ""]:
        """Return the log of (A + D) / exp(centre)."""
        log_ratio = point["weight_agreement"] * self._data.agreement + WEIGHT_SPREAD * point["weight_base_decentered"]
        return jnp.log(jnp.exp(log_ratio) @ self._reports / self._total)

    def _of_confidence(self, point: Unconstrained, references: References) -> Float[Array, ""]:
        slopes = point["slope_base"] if self._data.n_signals else -jnp.inf
        return jnp.sum(jnp.exp(slopes) * references.logit)


def _bent(t: Float[Array, ""], kappa: Float[Array, ""]) -> Float[Array, ""]:
    """Return u."""
    return t - (kappa / _TAIL - 1) * jax.nn.softplus(-t)


def straightened(
    model: Model, data: LikelihoodData, mode: _Vector, covariance: _Square
) -> tuple[_Vector, _Square, References | None]:
    """Return the mode and the Laplace covariance in coordinates whose references they give, and these.

    The mode is that of the unconstrained parameters, where the gradient is zero: so the Hessian is only to be
    transformed.
    """
    if model is not bayes:
        return mode, covariance, None
    mean, spread = map(np.asarray, _logits(data, model=model))
    references = References(mean, np.zeros(()))
    place = by_site(np.arange(len(mode)), model, data)
    y, v, sharpness = (place[name].ravel() for name in ("weight_centre", "bias", "sharpness_base"))

    def moved() -> tuple[_Vector, _Square]:
        point, slopes = _moved(mode, data, references, model=model)
        return point, np.asarray(slopes) @ covariance @ np.asarray(slopes).T

    if data.n_signals:
        slopes, (_, c) = place["slope_base"].ravel(), moved()
        ridge = np.linalg.solve(c[np.ix_(slopes, slopes)], c[slopes, v]) / np.exp(np.asarray(mode)[slopes])
        furthest = np.maximum(spread, np.finfo(float).tiny)
        references = references._replace(logit=mean + furthest * np.tanh(ridge / furthest))
    _, c = moved()
    kappa = np.exp(np.asarray(mode)[sharpness])
    references = references._replace(log_ratio=-(c[y, sharpness] / (kappa * c[sharpness, sharpness]))[0])
    return *moved(), references


@compiled("model")
def _logits(data: LikelihoodData, *, model: Model) -> tuple[Float[Array, " signal"], Float[Array, " signal"]]:
    return Coordinates(model, data).logits()


@compiled("model")
def _moved(
    parameters: _Vector, data: LikelihoodData, references: References, *, model: Model
) -> tuple[Float[Array, " parameter"], Float[Array, "parameter parameter"]]:
    """Return the point at unconstrained parameters, and its derivatives by them."""
    coordinates = Coordinates(model, data)

    def point_at(parameters: Float[Array, " parameter"]) -> tuple[Array, Array]:
        point = ravel_pytree(coordinates.of_unconstrained(by_site(parameters, model, data), references))[0]
        return point, point

    slopes, point = jax.jacfwd(point_at, has_aux=True)(parameters)
    return point, slopes
