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

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.map import LEAST_SIZE, each_in_turn, mode_of, on_batch, require_converged
from bayes_direag.model.evidence import clipped_logit, padded_size
from bayes_direag.model.model import recalibration
from bayes_direag.model.settings import IDENTITY, RecalibrationMethod, RecalibrationSettings

_RELEASE_STEPS, _RELEASE_RATE = 1200, 0.05


class Selected(NamedTuple):
    """Selected answers, as a batch of fits sees them.

    Attributes
    ----------
    support : (batch, answer) array
        Support; anything for an answer that does not count.
    correct : (batch, answer) array
        Whether it is right.
    weight : (batch, answer) array
        How often it counts; 0 leaves it out.
    """

    support: Float[np.ndarray, "batch answer"]
    correct: Bool[np.ndarray, "batch answer"]
    weight: Float[np.ndarray, "batch answer"]


@dataclass(frozen=True, eq=False)
class LogisticRecalibration:
    """``sigmoid(intercept + slope * z)`` with z the logit of the clipped support; method ``none``: support itself.

    Attributes
    ----------
    coefficients
        ``intercept`` and ``slope``, each (chain, draw).
    """

    method: RecalibrationMethod
    coefficients: dict[str, Float[np.ndarray, "chain draw"]]
    eps: float

    @classmethod
    def identity(cls, shape: tuple[int, int], eps: float) -> "LogisticRecalibration":
        """Leave support as it is, for so many chains and draws."""
        return cls("none", {name: np.full(shape, value) for name, value in IDENTITY.items()}, eps)

    def __call__(self, support: Float[np.ndarray, "sample problem"]) -> Float[np.ndarray, "sample problem"]:
        """Recalibrate each sample with its own coefficients."""
        if self.method == "none":
            return support
        score = 0.0
        for name, term in linear_terms(support, self.eps).items():
            score = score + self.coefficients[name].reshape(-1, 1) * term
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-score)))

    def to_dataset(self) -> xr.Dataset:
        """Return the coefficients by chain and draw."""
        variables = {name: (("chain", "draw"), values) for name, values in self.coefficients.items()}
        return xr.Dataset(variables, attrs={"method": self.method, "eps": self.eps})


def linear_terms(
    support: Float[np.ndarray, "*sample problem"], eps: float
) -> dict[str, Float[np.ndarray, "*sample problem"]]:
    """Return what each coefficient multiplies: 1, and the logit of the support clipped to ``[eps, 1 - eps]``."""
    clipped = np.clip(support, eps, 1 - eps)
    score = np.log(clipped) - np.log1p(-clipped)  # several times as fast as scipy's logit
    return {"intercept": np.ones_like(score), "slope": score}


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


#: A map from support, (sample, problem), to probability: one version for each posterior draw.
Recalibration = LogisticRecalibration | IsotonicRecalibration


def from_dataset(stored: xr.Dataset) -> Recalibration:
    """Return the recalibration that ``to_dataset`` stored."""
    if stored.attrs["method"] == "isotonic":
        return IsotonicRecalibration(stored["support"].to_numpy(), stored["probability"].to_numpy())
    coefficients = {name: stored[name].to_numpy() for name in IDENTITY if name in stored}
    return LogisticRecalibration(stored.attrs["method"], coefficients, float(stored.attrs["eps"]))


def recalibrate(selected: Selected, settings: RecalibrationSettings) -> list[Recalibration]:
    """Fit one recalibration for each row of a batch.

    Parameters
    ----------
    selected
        The selected answers.
    settings
        Method, penalty or prior scale, eps. See :class:`~bayes_direag.model.settings.RecalibrationSettings`.

    Raises
    ------
    DirEAGError
        For ``temperature`` when answers are all right or all wrong: no temperature is then finite.
    ConvergenceError
        If an optimum is not reached.
    """
    rows = zip(*selected, strict=True)
    match settings.method:
        case "none":
            return [LogisticRecalibration.identity((1, 1), settings.eps) for _ in selected.support]
        case "isotonic":
            return [_isotonic(s[w > 0], y[w > 0], w[w > 0]) for s, y, w in rows]
        case "temperature":
            return [
                _temperature(clipped_logit(s[w > 0], settings.eps), y[w > 0], w[w > 0], settings.eps)
                for s, y, w in rows
            ]
        case "platt" | "release":
            return _platt(selected, settings)


def _platt(selected: Selected, settings: RecalibrationSettings) -> list[Recalibration]:
    times = selected.weight
    prior_scale = np.array([settings.prior_scale(n) for n in times.sum(axis=1)])
    terms = linear_terms(selected.support, settings.eps)
    terms = {name: np.where(times > 0, values, 0.0) for name, values in terms.items()}
    released = settings.method == "release"
    missing = ((0, 0), (0, padded_size(times.shape[1], least=LEAST_SIZE) - times.shape[1]))
    padded = jax.tree.map(lambda array: np.pad(array, missing), (terms, selected.correct, times))
    with jax.enable_x64(True):
        found = on_batch(partial(_logistic_modes, gradient_steps=released), (*padded, prior_scale))
    if not released:
        require_converged("the recalibration", found.gradient, found.loss, found.n_steps)
    modes = {name: found.coefficients[name] for name in IDENTITY}
    return [
        LogisticRecalibration(
            settings.method, {name: np.full((1, 1), values[row]) for name, values in modes.items()}, settings.eps
        )
        for row in range(len(times))
    ]


class _LogisticMode(NamedTuple):
    coefficients: dict[str, Float[Array, "*batch"]]
    loss: Float[Array, "*batch"]
    gradient: Float[Array, "*batch"]
    n_steps: Int[Array, "*batch"]


@partial(jax.jit, static_argnames="gradient_steps")
def _logistic_modes(
    n: Int[Array, ""],
    terms: dict[str, Float[Array, "batch problem"]],
    correct: Bool[Array, "batch problem"],
    weight: Float[Array, "batch problem"],
    prior_scale: Float[Array, " batch"],
    *,
    gradient_steps: bool,
) -> _LogisticMode:
    """Find the mode of the first n of a batch."""
    return each_in_turn(partial(_logistic_mode, gradient_steps=gradient_steps), n, terms, correct, weight, prior_scale)


def _logistic_mode(
    terms: dict[str, Float[Array, " problem"]],
    correct: Bool[Array, " problem"],
    weight: Float[Array, " problem"],
    prior_scale: Float[Array, ""],
    *,
    gradient_steps: bool,
) -> _LogisticMode:
    identity = {name: jnp.asarray(IDENTITY[name]) for name in terms}
    model = partial(recalibration, prior_scale=prior_scale, weight=weight)
    total = jnp.sum(weight)
    if gradient_steps:
        return _release_steps(scale(model, scale=1 / total), identity, terms, correct)
    mode, end = mode_of(model, identity, terms, correct, divide_by=total)
    return _LogisticMode(mode, end.value, end.projected_gradient, end.n_steps)


def _release_steps(model: object, identity: dict[str, Array], terms: dict[str, Array], y: Array) -> _LogisticMode:
    """Take the release's 1200 plain gradient steps; where they end is not an optimum, so no gradient is vouched for."""
    guide = AutoDelta(model, init_loc_fn=init_to_value(values=identity))
    svi = SVI(model, guide, SGD(_RELEASE_RATE), Trace_ELBO())
    state = svi.init(jax.random.key(0), terms, y)
    state = jax.lax.fori_loop(0, _RELEASE_STEPS, lambda _, state: svi.update(state, terms, y)[0], state)
    found = svi.get_params(state)
    unknown = jnp.full((), jnp.nan)
    steps = jnp.full((), _RELEASE_STEPS, jnp.int32)
    return _LogisticMode({name: found[f"{name}_auto_loc"] for name in identity}, unknown, unknown, steps)


def _temperature(
    score: Float[np.ndarray, " problem"],
    correct: Bool[np.ndarray, " problem"],
    times: Float[np.ndarray, " problem"],
    eps: float,
) -> LogisticRecalibration:
    from sklearn.linear_model import LogisticRegression

    if correct.all() or not correct.any():
        raise DirEAGError(
            f"temperature recalibration: saw {times @ correct:.0f} right of {times.sum():.0f} answers; expected both "
            "right and wrong ones. Use recalibration 'platt', whose prior keeps it finite."
        )
    regression = LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    slope = float(regression.fit(score[:, None], correct, times).coef_[0, 0])
    return LogisticRecalibration("temperature", {"intercept": np.zeros((1, 1)), "slope": np.full((1, 1), slope)}, eps)


def _isotonic(
    support: Float[np.ndarray, " problem"], correct: Bool[np.ndarray, " problem"], times: Float[np.ndarray, " problem"]
) -> IsotonicRecalibration:
    from sklearn.isotonic import IsotonicRegression

    regression = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0)
    regression.fit(support, correct.astype(float), times)
    return IsotonicRecalibration(
        np.asarray(regression.X_thresholds_, float), np.asarray(regression.y_thresholds_, float)
    )
