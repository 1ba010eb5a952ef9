r"""The final calibration: from support to the probability of being correct.

The house form is of the selected answer alone, :math:`\operatorname{sigmoid}(a + b \operatorname{logit} P)` (Platt
scaling on the logit of the support). ``softmax`` is of the whole distribution: every candidate and the null get
:math:`\operatorname{softmax}(b \log P + a [\text{candidate}])`, so that they sum to one. With two states, the selected
answer and all else, it is the former. Both are learned from whether selected answers are right, as the MAP of one
NumPyro model. ``release`` stops the same objective after 1200 plain gradient steps; temperature scaling and isotonic
regression are scikit-learn's.
"""

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
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.model import recalibration
from bayes_direag.model.selection import IsotonicRecalibration, LogisticRecalibration, Recalibration, clipped_logit
from bayes_direag.model.settings import IDENTITY, RecalibrationMethod, RecalibrationSettings

_RELEASE_STEPS, _RELEASE_RATE = 1200, 0.05


class Outcomes(NamedTuple):
    """What the final calibration learns from, as a batch of fits sees it: whether selected answers are right.

    Attributes
    ----------
    support : (batch, answer, state) array
        Support of every state of its question, the null last and 0 for one that is not there; or, of the selected
        answer alone, its support and that of all else.
    right : (batch, answer, state) array
        The states of which one came true: the selected answer, or all the others.
    weight : (batch, answer) array
        How often each counts; 0 leaves it out.
    """

    support: Float[np.ndarray, "batch answer state"]
    right: Bool[np.ndarray, "batch answer state"]
    weight: Float[np.ndarray, "batch answer"]

    @classmethod
    def of_selected(
        cls,
        method: RecalibrationMethod,
        support: Float[np.ndarray, "batch problem state"],
        right: Bool[np.ndarray, "problem state"],
        weight: Float[np.ndarray, "batch problem"],
        *selections: Int[np.ndarray, "batch problem"],
    ) -> "Outcomes":
        """Take selected candidates, of several selections each for an equal part.

        Where a question's own label tips the balance, the answer selected without it is always wrong, and the one
        selected with it always right: half of each is even.
        """
        parts = []
        for selected in selections:
            is_mine = np.arange(support.shape[2]) == selected[..., None]
            won = (is_mine & right).any(axis=2, keepdims=True)
            if method == "softmax":
                parts.append(cls(support, is_mine == won, weight / len(selections)))
            else:
                mine = np.where(is_mine, support, 0.0).sum(axis=2)
                states = np.stack([mine, 1 - mine], axis=2)
                parts.append(cls(states, np.concatenate([won, ~won], axis=2), weight / len(selections)))
        return cls(*(np.concatenate(part, axis=1) for part in zip(*parts, strict=True)))


def from_dataset(stored: xr.Dataset) -> Recalibration:
    """Return the recalibration that ``to_dataset`` stored."""
    if stored.attrs["method"] == "isotonic":
        return IsotonicRecalibration(stored["support"].to_numpy(), stored["probability"].to_numpy())
    coefficients = {name: stored[name].to_numpy() for name in IDENTITY if name in stored}
    return LogisticRecalibration(stored.attrs["method"], coefficients, float(stored.attrs["eps"]))


def recalibrate(outcomes: Outcomes, settings: RecalibrationSettings) -> list[Recalibration]:
    """Fit one recalibration for each row of a batch.

    Parameters
    ----------
    outcomes
        From :meth:`Outcomes.of_selected`, by the same method.
    settings
        Method, penalty or prior scale, eps. See :class:`~bayes_direag.model.settings.RecalibrationSettings`.

    Raises
    ------
    DirEAGError
        For ``temperature`` when answers are all right or all wrong: no temperature is then finite.
    ConvergenceError
        If an optimum is not reached.
    """
    match settings.method:
        case "none":
            return [LogisticRecalibration.identity((1, 1), settings.eps) for _ in outcomes.support]
        case "isotonic" | "temperature":
            of_one = _isotonic if settings.method == "isotonic" else partial(_temperature, eps=settings.eps)
            rows = zip(outcomes.support[..., 0], outcomes.right[..., 0], outcomes.weight, strict=True)
            return [of_one(support[w > 0], right[w > 0], w[w > 0]) for support, right, w in rows]
        case "softmax" | "platt" | "release":
            return _logistic(outcomes, settings)


def log_support(outcomes: Outcomes, settings: RecalibrationSettings) -> Float[np.ndarray, "batch problem state"]:
    """Return the logs of support, clipped; minus infinity for a state that is not there.

    Of the selected answer alone support is clipped to ``[eps, 1 - eps]``, of all states at eps from below.
    """
    support, eps = outcomes.support, settings.eps
    if settings.method != "softmax":
        return np.asarray(np.log(np.clip(support, eps, 1 - eps)))
    return np.where(support > 0, np.log(np.maximum(support, eps)), -np.inf)


def padded_states(
    outcomes: Outcomes, settings: RecalibrationSettings
) -> tuple[
    Float[np.ndarray, "batch size state"], Bool[np.ndarray, "batch size state"], Float[np.ndarray, "batch size"]
]:
    """Return :func:`log_support`, what came true and the weights, filled up to one of few sizes; for the model.

    Questions that do not count come true whatever is believed of them, so that they have no gradient.
    """
    missing = (0, padded_size(outcomes.weight.shape[1], least=LEAST_SIZE) - outcomes.weight.shape[1])
    counts = np.pad(outcomes.weight > 0, ((0, 0), missing))[..., None]
    logs, right = (
        np.pad(part, ((0, 0), missing, (0, 0))) for part in (log_support(outcomes, settings), outcomes.right)
    )
    return np.where(counts, logs, 0.0), right | ~counts, np.pad(outcomes.weight, ((0, 0), missing))


def _logistic(outcomes: Outcomes, settings: RecalibrationSettings) -> list[Recalibration]:
    prior_scale = np.array([settings.prior_scale(n) for n in outcomes.weight.sum(axis=1)])
    released = settings.method == "release"
    modes = partial(_logistic_modes, gradient_steps=released)
    with jax.enable_x64(True):
        found = on_batch(modes, (*padded_states(outcomes, settings), prior_scale))
    if not released:
        require_converged("the recalibration", found.gradient, found.loss, found.n_steps)
    return [
        LogisticRecalibration(
            settings.method, {name: np.full((1, 1), found.coefficients[name][row]) for name in IDENTITY}, settings.eps
        )
        for row in range(len(prior_scale))
    ]


class _LogisticMode(NamedTuple):
    coefficients: dict[str, Float[Array, "*batch"]]
    loss: Float[Array, "*batch"]
    gradient: Float[Array, "*batch"]
    n_steps: Int[Array, "*batch"]


@partial(jax.jit, static_argnames="gradient_steps")
def _logistic_modes(
    n: Int[Array, ""],
    log_support: Float[Array, "batch problem state"],
    right: Bool[Array, "batch problem state"],
    weight: Float[Array, "batch problem"],
    prior_scale: Float[Array, " batch"],
    *,
    gradient_steps: bool,
) -> _LogisticMode:
    """Find the mode of the first n of a batch."""
    one = partial(_logistic_mode, gradient_steps=gradient_steps)
    return each_in_turn(one, n, log_support, right, weight, prior_scale)


def _logistic_mode(
    log_support: Float[Array, "problem state"],
    right: Bool[Array, "problem state"],
    weight: Float[Array, " problem"],
    prior_scale: Float[Array, ""],
    *,
    gradient_steps: bool,
) -> _LogisticMode:
    identity = {name: jnp.asarray(value) for name, value in IDENTITY.items()}
    model = partial(recalibration, prior_scale=prior_scale, weight=weight)
    total = jnp.sum(weight)
    if gradient_steps:
        return _release_steps(scale(model, scale=1 / total), identity, log_support, right)
    mode, end = mode_of(model, identity, log_support, right, divide_by=total)
    return _LogisticMode(mode, end.value, end.projected_gradient, end.n_steps)


def _release_steps(model: object, identity: dict[str, Array], log_support: Array, right: Array) -> _LogisticMode:
    """Take the release's 1200 plain gradient steps; where they end is not an optimum, so no gradient is vouched for."""
    guide = AutoDelta(model, init_loc_fn=init_to_value(values=identity))
    svi = SVI(model, guide, SGD(_RELEASE_RATE), Trace_ELBO())
    state = svi.init(jax.random.key(0), log_support, right)
    state = jax.lax.fori_loop(0, _RELEASE_STEPS, lambda _, state: svi.update(state, log_support, right)[0], state)
    found = svi.get_params(state)
    unknown = jnp.full((), jnp.nan)
    steps = jnp.full((), _RELEASE_STEPS, jnp.int32)
    return _LogisticMode({name: found[f"{name}_auto_loc"] for name in identity}, unknown, unknown, steps)


def _temperature(
    support: Float[np.ndarray, " problem"],
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
    slope = float(regression.fit(clipped_logit(support, eps)[:, None], correct, times).coef_[0, 0])
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
