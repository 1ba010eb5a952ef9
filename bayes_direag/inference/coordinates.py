r"""The coordinates of NUTS, in which the posterior is closer to a normal than in the raw parameters.

**The null.** The labels determine how the null's evidence compares with that of the answers, but hardly its scale, and
hardly how much of it comes from ``null_base`` and how much from ``null_gain``. In the raw parameters this is a narrow,
curved ridge. So NUTS samples, in place of the null's gain and of the centre :math:`c` of the levels' raw weights,

.. math::

    v = \log \frac{\gamma D}{B}, \qquad c - \log(B + \gamma D), \qquad
    B = \frac{\eta}{K + 1} + \beta_0, \qquad D = \sum_l u_l w_l (1 - \tilde q_l)

where :math:`1 / (K + 1)` is a mean over questions, :math:`u_l` the share of questions that level l reports on, and
:math:`\tilde q_l` its calibrated confidence at the mean of its logits.

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

from bayes_direag.model.equations import Parameters
from bayes_direag.model.evidence import calibrate
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, linked, natural_parameters
from bayes_direag.model.settings import Link, Preset

#: The centring of each offset, from 0 to 1, by parameter.
Centring = Mapping[str, Float[Array | np.ndarray, "..."]]

_Mapped = tuple[Raw, Float[Array, ""]]


def to_raw(data: LikelihoodData, centring: Centring) -> Callable[[Raw], _Mapped]:
    """Return the map from the coordinates of NUTS to the raw parameters and the log of its Jacobian determinant.

    If the null's gain is free and no parameter of the null can be negative, entry ``null_gain`` of the coordinates
    holds v, and ``weight_centre``, if there is one, its difference from the log of the null's concentration. Only the
    reports of the data are used. One report with a confidence of one half is added to each level, so that levels
    without reports have a mean.
    """
    preset, free = data.preset, data.preset.free_parameters(data.variant)
    links = {preset.parameter(name).link for name in ("null_base", "null_gain")}
    null_to_raw = _null_to_raw(data) if "null_gain" in free and "identity" not in links else None

    def map_to_raw(place: Raw) -> _Mapped:
        raw, log_jacobian = dict(place), jnp.zeros(())
        for name, shares in centring.items():
            log_scale = -shares * log_spread(place[f"{name}_spread"], name, preset)
            raw[name] = place[name] * jnp.exp(log_scale)
            log_jacobian = log_jacobian + jnp.sum(log_scale)
        if null_to_raw is None:
            return raw, log_jacobian
        raw, log_slope = null_to_raw(raw)
        return raw, log_jacobian + log_slope

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
    """Return the map from the null's coordinates to raw parameters, given the other raw parameters."""
    weight, logits = jnp.asarray(data.weight), jnp.asarray(data.reports.logit_confidence)
    counts = (jnp.asarray(data.reports.candidate) >= 0) * weight[:, None]
    n_reports = 1 + counts.sum(axis=0)
    reported = n_reports / (1 + weight.sum())
    mean_logit = jnp.einsum("pl,pl...->l...", counts, logits) / n_reports.reshape(-1, *[1] * (logits.ndim - 2))
    share = (weight / (1 + jnp.asarray(data.reports.n_candidates))).sum() / weight.sum()

    def natural(raw: Raw) -> Parameters:
        parameters: Parameters = natural_parameters(raw, data.preset, data.variant, data.agreement)
        return parameters.of_slots(data.slots)

    def map_to_raw(place: Raw) -> _Mapped:
        raw, odds, without = dict(place), place["null_gain"], natural(place)
        log_base = jnp.log(share * without.prior_strength + without.null_base)
        if "weight_centre" in raw:
            raw["weight_centre"] = raw["weight_centre"] + log_base + jax.nn.softplus(odds)
        parameters = natural(raw)
        doubt = (parameters.weight * reported) @ calibrate(mean_logit, parameters)[1]
        log_gain = odds + log_base - jnp.log(doubt)
        raw["null_gain"], log_slope = _unlinked(log_gain, data.preset.parameter("null_gain").link)
        return raw, log_slope

    return map_to_raw


def _unlinked(log: Float[Array, ""], link: Link) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the raw parameter whose natural value has this log, and the log of its derivative."""
    if link == "exp":
        return log, jnp.zeros(())
    value = jnp.exp(log)
    log_share = jnp.log(-jnp.expm1(-value))
    return value + log_share, log - log_share
