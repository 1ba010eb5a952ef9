r"""The final calibration: from the support of the selected answer to a probability of being correct.

The house form is :math:`\operatorname{sigmoid}(a + b \operatorname{logit} P)` (Platt scaling on the logit of
the support), found as the MAP of its own NumPyro model. ``release`` stops the same objective after 1200 plain
gradient steps; temperature scaling and isotonic regression are scikit-learn's.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Int
from numpyro.handlers import scale
from numpyro.infer import SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDelta
from numpyro.optim import SGD
from scipy.special import expit, logit

from bayes_direag.errors import DirEAGError
from bayes_direag.inference import require_converged, svi_mode
from bayes_direag.model import recalibration
from bayes_direag.settings import RecalibrationMethod, RecalibrationSettings

_RELEASE_STEPS, _RELEASE_RATE = 1200, 0.05

Support = Float[np.ndarray, "batch problem"]
Chosen = Bool[np.ndarray, "batch problem"]


@dataclass(frozen=True, eq=False)
class LogisticRecalibration:
    """``sigmoid(intercept + slope * logit(clip(support, eps, 1 - eps)))``; support itself for method ``none``."""

    method: RecalibrationMethod
    intercept: Float[np.ndarray, "chain draw"]
    slope: Float[np.ndarray, "chain draw"]
    eps: float

    def __call__(self, support: Float[np.ndarray, "sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Recalibrate each sample with its own intercept and slope."""
        if self.method == "none":
            return support
        score = logit(np.clip(support, self.eps, 1 - self.eps))
        return np.asarray(expit(self.intercept.reshape(-1, 1) + self.slope.reshape(-1, 1) * score))

    def to_dataset(self) -> xr.Dataset:
        """Return intercept and slope by chain and draw."""
        dims = ("chain", "draw")
        variables = {"intercept": (dims, self.intercept), "slope": (dims, self.slope)}
        return xr.Dataset(variables, attrs={"method": self.method, "eps": self.eps})


@dataclass(frozen=True, eq=False)
class IsotonicRecalibration:
    """The monotone function of isotonic regression: linear between its knots, constant beyond."""

    support: Float[np.ndarray, " knot"]
    probability: Float[np.ndarray, " knot"]
    method: RecalibrationMethod = "isotonic"

    def __call__(self, support: Float[np.ndarray, "sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Recalibrate every sample with the same function."""
        return np.asarray(np.interp(support, self.support, self.probability))

    def to_dataset(self) -> xr.Dataset:
        """Return the knots."""
        variables = {"support": ("knot", self.support), "probability": ("knot", self.probability)}
        return xr.Dataset(variables, attrs={"method": self.method})


#: A monotone map from support, (sample, problem), to probability: one version for each posterior draw.
Recalibration = LogisticRecalibration | IsotonicRecalibration


def from_dataset(stored: xr.Dataset) -> Recalibration:
    """Return the recalibration that ``to_dataset`` stored."""
    if stored.attrs["method"] == "isotonic":
        return IsotonicRecalibration(stored["support"].to_numpy(), stored["probability"].to_numpy())
    return LogisticRecalibration(
        stored.attrs["method"],
        stored["intercept"].to_numpy(),
        stored["slope"].to_numpy(),
        float(stored.attrs["eps"]),
    )


def recalibrate(
    support: Support,
    correct: Bool[np.ndarray, "batch problem"],
    chosen: Chosen,
    settings: RecalibrationSettings,
) -> list[Recalibration]:
    """Fit one recalibration for each row of a batch.

    Parameters
    ----------
    support : (batch, problem) array
        Support of the selected answer; anything where not chosen.
    correct : (batch, problem) array
        Whether the selected answer is right.
    chosen : (batch, problem) array
        The questions each recalibration is fitted to.
    settings
        Method, penalty or prior scale, eps. See :class:`~bayes_direag.presets.RecalibrationSettings`.

    Raises
    ------
    DirEAGError
        For ``temperature`` when answers are all right or all wrong: no temperature is then finite.
    ConvergenceError
        If an optimum is not reached.
    """
    match settings.method:
        case "none":
            return [_logistic("none", 0.0, 1.0, settings.eps) for _ in support]
        case "isotonic":
            return [_isotonic(s[c], y[c]) for s, y, c in zip(support, correct, chosen, strict=True)]
        case "temperature":
            rows = zip(support, correct, chosen, strict=True)
            return [_temperature(_logit(s[c], settings.eps), y[c], settings.eps) for s, y, c in rows]
        case "platt" | "release":
            return _platt(support, correct, chosen, settings)


def _platt(support: Support, correct: Chosen, chosen: Chosen, settings: RecalibrationSettings) -> list[Recalibration]:
    prior_scale = np.array([settings.prior_scale(int(n)) for n in chosen.sum(axis=1)])
    score = np.where(chosen, _logit(support, settings.eps), 0.0)
    released = settings.method == "release"
    with jax.enable_x64(True):
        found = _logistic_modes(score, correct, chosen.astype(float), prior_scale, gradient_steps=released)
    if not released:
        require_converged("the recalibration", found.gradient, found.loss, found.n_steps)
    pairs = zip(np.asarray(found.intercept), np.asarray(found.slope), strict=True)
    return [_logistic(settings.method, float(a), float(b), settings.eps) for a, b in pairs]


class _LogisticModes(NamedTuple):
    intercept: Float[Array, "*batch"]
    slope: Float[Array, "*batch"]
    loss: Float[Array, "*batch"]
    gradient: Float[Array, "*batch"]
    n_steps: Int[Array, "*batch"]


@partial(jax.jit, static_argnames="gradient_steps")
def _logistic_modes(
    score: Float[Array, "batch problem"],
    correct: Bool[Array, "batch problem"],
    weight: Float[Array, "batch problem"],
    prior_scale: Float[Array, " batch"],
    *,
    gradient_steps: bool,
) -> _LogisticModes:
    identity = {"intercept": jnp.zeros(()), "slope": jnp.ones(())}

    def fit(x: Array, y: Array, weight: Array, prior_scale: Array) -> _LogisticModes:
        model = scale(partial(recalibration, prior_scale=prior_scale, weight=weight), scale=1 / jnp.sum(weight))
        if gradient_steps:
            return _release_steps(model, identity, x, y)
        mode, end = svi_mode(model, identity, x, y)
        return _LogisticModes(mode["intercept"], mode["slope"], end.value, end.projected_gradient, end.n_steps)

    return jax.vmap(fit)(score, correct, weight, prior_scale)


def _release_steps(model: object, identity: dict[str, Array], x: Array, y: Array) -> _LogisticModes:
    """Take the release's 1200 plain gradient steps; where they end is not an optimum, so no gradient is vouched for."""
    guide = AutoDelta(model, init_loc_fn=init_to_value(values=identity))
    svi = SVI(model, guide, SGD(_RELEASE_RATE), Trace_ELBO())
    state = svi.init(jax.random.key(0), x, y)
    state = jax.lax.fori_loop(0, _RELEASE_STEPS, lambda _, state: svi.update(state, x, y)[0], state)
    found = svi.get_params(state)
    unknown = jnp.full((), jnp.nan)
    steps = jnp.full((), _RELEASE_STEPS, jnp.int32)
    return _LogisticModes(found["intercept_auto_loc"], found["slope_auto_loc"], unknown, unknown, steps)


def _temperature(
    score: Float[np.ndarray, " problem"], correct: Bool[np.ndarray, " problem"], eps: float
) -> LogisticRecalibration:
    from sklearn.linear_model import LogisticRegression

    if correct.all() or not correct.any():
        raise DirEAGError(
            f"temperature recalibration: saw {int(correct.sum())} right of {len(correct)} answers; expected both right "
            "and wrong ones. Use recalibration 'platt', whose prior keeps it finite."
        )
    regression = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000)
    slope = float(regression.fit(score[:, None], correct).coef_[0, 0])
    return _logistic("temperature", 0.0, slope, eps)


def _isotonic(support: Float[np.ndarray, " problem"], correct: Bool[np.ndarray, " problem"]) -> IsotonicRecalibration:
    from sklearn.isotonic import IsotonicRegression

    regression = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(support, correct.astype(float))
    return IsotonicRecalibration(
        np.asarray(regression.X_thresholds_, float), np.asarray(regression.y_thresholds_, float)
    )


def _logistic(method: RecalibrationMethod, intercept: float, slope: float, eps: float) -> LogisticRecalibration:
    return LogisticRecalibration(method, np.full((1, 1), intercept), np.full((1, 1), slope), eps)


def _logit(support: Float[np.ndarray, "..."], eps: float) -> Float[np.ndarray, "..."]:
    return np.asarray(logit(np.clip(support, eps, 1 - eps)))
