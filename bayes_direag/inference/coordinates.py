r"""The coordinates of NUTS, in which the posterior is closer to a normal than in the raw parameters.

**The null.** The labels determine how much evidence the null has in a typical question, but hardly how much of it comes
from ``null_base`` and how much from ``null_gain``. In the raw parameters this is a narrow, curved ridge. So NUTS
samples the log of their sum and their log odds,

.. math::

    t = \log(\beta_0 + \gamma D), \qquad v = \log \frac{\beta_0}{\gamma D}, \qquad
    D = \sum_l u_l w_l (1 - \tilde q_l)

where :math:`u_l` is the share of questions that level l reports on, and :math:`\tilde q_l` its calibrated confidence at
the mean of its logits.

**Levels.** A raw weight (bias, vote) is an offset from the levels' centre in units of their spread. With few labels for
a level, its offset is nearly independent of the spread; with many, its distance from the centre is. NUTS samples a
compromise (Papaspiliopoulos, Roberts and Sköld 2007, doi:10.1214/088342307000000014): ``offset * spread ** centring``,
with the spread in units of its prior median. The centring is the share by which the labels reduce the offset's prior
variance at the mode.

The Jacobian makes the density that of the raw parameters, and the draws are returned as raw parameters.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayes_direag.model.evidence import calibrate
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, linked, natural_parameters
from bayes_direag.model.settings import Link, Preset

_NULL = ("null_base", "null_gain")

#: The centring of each offset, from 0 to 1, by parameter.
Centring = Mapping[str, Float[Array | np.ndarray, "..."]]

_Mapped = tuple[Raw, Float[Array, ""]]


def to_raw(data: LikelihoodData, centring: Centring) -> Callable[[Raw], _Mapped]:
    """Return the map from the coordinates of NUTS to the raw parameters and the log of its Jacobian determinant.

    If both parameters of the null are free and cannot be negative, entry ``null_base`` of the coordinates holds v, and
    ``null_gain`` holds t. Only the reports of the data are used. One report with a confidence of one half is added to
    each level, so that levels without reports have a mean.
    """
    preset, free = data.preset, data.preset.free_parameters(data.variant)
    moves_null = all(name in free and preset.parameter(name).link != "identity" for name in _NULL)
    null_to_raw = _null_to_raw(data)

    def map_to_raw(place: Raw) -> _Mapped:
        raw, log_jacobian = dict(place), jnp.zeros(())
        for name, shares in centring.items():
            log_scale = -shares * log_spread(place[f"{name}_spread"], name, preset)
            raw[name] = place[name] * jnp.exp(log_scale)
            log_jacobian = log_jacobian + jnp.sum(log_scale)
        if not moves_null:
            return raw, log_jacobian
        null, log_slope = null_to_raw(raw)
        return raw | null, log_jacobian + log_slope

    return map_to_raw


def log_spread(raw: Float[Array | np.ndarray, "*shape"], name: str, preset: Preset) -> Float[Array, "*shape"]:
    """Return the log of a pooled parameter's spread in units of its prior median."""
    spread = preset.parameter(f"{name}_spread")
    return jnp.log(linked(jnp.asarray(raw), spread.link)) - jnp.log(linked(jnp.asarray(spread.loc), spread.link))


def centring_from(curvature: Float[Array, "raw raw"], mode: Raw) -> Centring:
    """Return the centring of each offset, given the mode where offsets are not centred, and the Hessian there.

    Without labels an offset has variance 1. The centring is the share of it that the labels take away: 1 minus the
    offset's variance under the Laplace approximation, given the spreads. The Hessian is that of minus the log density,
    in the order of the names.
    """
    names = np.concatenate([np.full(np.size(value), name) for name, value in sorted(mode.items())])
    spread = np.char.endswith(names, "_spread")
    variance = np.zeros(len(names))
    variance[~spread] = np.diag(np.linalg.inv(np.asarray(curvature)[np.ix_(~spread, ~spread)]))
    pooled = [name for name in mode if f"{name}_spread" in mode]
    return {
        name: jnp.asarray(np.clip(1 - variance[names == name], 0, 1).reshape(np.shape(mode[name]))) for name in pooled
    }


def recentred(place: Raw, centring: Centring, preset: Preset) -> Raw:
    """Return the coordinates of a place whose offsets are not centred under a centring."""
    return place | {
        name: place[name] * jnp.exp(shares * log_spread(place[f"{name}_spread"], name, preset))
        for name, shares in centring.items()
    }


def _null_to_raw(data: LikelihoodData) -> Callable[[Raw], _Mapped]:
    """Return the map from the null's two coordinates to its raw parameters, given the other raw parameters."""
    weight, logits = jnp.asarray(data.weight), jnp.asarray(data.reports.logit_confidence)
    counts = (jnp.asarray(data.reports.candidate) >= 0) * weight[:, None]
    n_reports = 1 + counts.sum(axis=0)
    reported = n_reports / (1 + weight.sum())
    mean_logit = jnp.einsum("pl,pl...->l...", counts, logits) / n_reports.reshape(-1, *[1] * (logits.ndim - 2))

    def map_to_raw(place: Raw) -> _Mapped:
        parameters = natural_parameters(place, data.preset, data.variant, data.agreement).of_slots(data.slots)
        doubt = (parameters.weight * reported) @ calibrate(mean_logit, parameters)[1]
        odds, total = (place[name] for name in _NULL)
        logs = total + jax.nn.log_sigmoid(odds), total + jax.nn.log_sigmoid(-odds) - jnp.log(doubt)
        raw, log_slopes = zip(*map(_unlinked, logs, (data.preset.parameter(name).link for name in _NULL)), strict=True)
        return dict(zip(_NULL, raw, strict=True)), sum(log_slopes, jnp.zeros(()))

    return map_to_raw


def _unlinked(log: Float[Array, ""], link: Link) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the raw parameter whose natural value has this log, and the log of its derivative."""
    if link == "exp":
        return log, jnp.zeros(())
    value = jnp.exp(log)
    log_share = jnp.log(-jnp.expm1(-value))
    return value + log_share, log - log_share
