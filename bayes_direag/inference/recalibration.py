r"""The final calibration: from the support of the selected answer to its probability of being correct.

The default is Platt scaling of the logit of the support, :math:`\operatorname{sigmoid}(a + b \operatorname{logit} P)`,
as the MAP of a NumPyro model of whether selected answers are right. A partial fit adds
:math:`c \log(\text{share of the reports})` before the sigmoid. ``release`` stops the same objective after 1200 plain
gradient steps. Temperature scaling and isotonic regression are those of scikit-learn.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Int
from numpyro.infer import SVI, TraceMeanField_ELBO, init_to_value
from numpyro.infer.autoguide import AutoDelta
from numpyro.optim import SGD

from bayes_direag.errors import DirEAGError
from bayes_direag.inference.map import LEAST_SIZE, each_in_turn, mode_of, on_batch, require_converged
from bayes_direag.model.equations import clipped_logit
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.model import recalibration
from bayes_direag.model.selection import (
    IDENTITY,
    IsotonicRecalibration,
    LogisticRecalibration,
    Recalibration,
    log_share,
)
from bayes_direag.model.settings import RecalibrationSettings

_RELEASE_STEPS, _RELEASE_RATE = 1200, 0.05


class Outcomes(NamedTuple):
    """The data of the final calibration, for a batch of fits: the support of selected answers, and whether right."""

    support: Float[np.ndarray, "batch answer"]
    right: Bool[np.ndarray, "batch answer"]
    #: How often each answer counts; 0 leaves it out.
    weight: Float[np.ndarray, "batch answer"]
    #: The number of usable reports of each answer's question, in partial fits.
    n_reports: Int[np.ndarray, " answer"] | None = None

    @classmethod
    def of_selected(
        cls,
        support: Float[np.ndarray, "batch problem state"],
        right: Bool[np.ndarray, "problem state"],
        weight: Float[np.ndarray, "batch problem"],
        *selections: Int[np.ndarray, "batch problem"],
        n_reports: Int[np.ndarray, " problem"] | None = None,
    ) -> "Outcomes":
        """Take the support and correctness of selected candidates; several selections share the weight equally.

        If a question's own label decides between two candidates, the answer selected without the label is always wrong
        and the answer selected with it always right. With half the weight on each, the bias cancels.
        """
        parts = []
        for selected in selections:
            of_selected = np.take_along_axis(support, selected[..., None], axis=2)[..., 0]
            parts.append((of_selected, right[np.arange(len(right)), selected], weight / len(selections)))
        supports, rights, weights = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        repeated = None if n_reports is None else np.tile(n_reports, len(selections))
        return cls(supports, rights, weights, repeated)

    @property
    def most_reports(self) -> Int[np.ndarray, " batch"]:
        """The largest number of reports of a question in each partial fit, otherwise 1."""
        if self.n_reports is None:
            return np.ones(len(self.weight), int)
        return np.asarray(np.where(self.weight > 0, self.n_reports, 1).max(axis=1))


def from_dataset(stored: xr.Dataset) -> Recalibration:
    """Return the recalibration that its ``to_dataset`` stored."""
    if stored.attrs["method"] == "isotonic":
        return IsotonicRecalibration(stored["support"].to_numpy(), stored["probability"].to_numpy())
    coefficients = {name: stored[name].to_numpy() for name in IDENTITY if name in stored}
    most_reports = int(stored.attrs.get("most_reports", 1))
    return LogisticRecalibration(stored.attrs["method"], coefficients, float(stored.attrs["eps"]), most_reports)


def recalibrate(outcomes: Outcomes, settings: RecalibrationSettings) -> list[Recalibration]:
    """Fit one recalibration for each row of a batch; ``temperature`` needs right and wrong answers, to be finite."""
    match settings.method:
        case "none":
            return [LogisticRecalibration.identity((1, 1), settings.eps) for _ in outcomes.support]
        case "isotonic" | "temperature":
            fit = _isotonic if settings.method == "isotonic" else partial(_temperature, eps=settings.eps)
            rows = zip(outcomes.support, outcomes.right, outcomes.weight, strict=True)
            return [fit(support[w > 0], right[w > 0], w[w > 0]) for support, right, w in rows]
        case "platt" | "release":
            return _logistic(outcomes, settings)


class CalibrationData(NamedTuple):
    """The arguments of :func:`~bayes_direag.model.model.recalibration`, padded to one of a few sizes."""

    logit_support: Float[Any, "*batch size"]
    right: Bool[Any, "*batch size"]
    log_share: Float[Any, "*batch size"] | None
    weight: Float[Any, "*batch size"]


def padded(outcomes: Outcomes, eps: float) -> CalibrationData:
    """Return the arguments of the model of the final calibration for a batch."""
    missing = (0, padded_size(outcomes.weight.shape[1], least=LEAST_SIZE) - outcomes.weight.shape[1])
    support, right, weight = (np.pad(part, ((0, 0), missing)) for part in outcomes[:3])
    shares = None
    if outcomes.n_reports is not None:
        shares = np.pad(log_share(outcomes.n_reports, outcomes.most_reports[:, None]), ((0, 0), missing))
    return CalibrationData(clipped_logit(support, eps), right, shares, weight)


def _logistic(outcomes: Outcomes, settings: RecalibrationSettings) -> list[Recalibration]:
    prior_scale = np.array([settings.prior_scale(n) for n in outcomes.weight.sum(axis=1)])
    released = settings.method == "release"
    modes = partial(_logistic_modes, gradient_steps=released)
    with jax.enable_x64(True):
        mode = on_batch(modes, (padded(outcomes, settings.eps), prior_scale))
    if not released:
        require_converged("the recalibration", mode.gradient, mode.loss, mode.n_steps)
    return [
        LogisticRecalibration(
            settings.method,
            {name: np.full((1, 1), mode.coefficients[name][row]) for name in IDENTITY if name in mode.coefficients},
            settings.eps,
            int(outcomes.most_reports[row]),
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
    n: Int[Array, ""], data: CalibrationData, prior_scale: Float[Array, " batch"], *, gradient_steps: bool
) -> _LogisticMode:
    """Find the modes of the first n members of a batch."""
    return each_in_turn(partial(_logistic_mode, gradient_steps=gradient_steps), n, data, prior_scale)


def _logistic_mode(data: CalibrationData, prior_scale: Float[Array, ""], *, gradient_steps: bool) -> _LogisticMode:
    used = [name for name in IDENTITY if name != "share" or data.log_share is not None]
    identity = {name: jnp.asarray(IDENTITY[name]) for name in used}
    model = partial(recalibration, prior_scale=prior_scale, weight=data.weight)
    total = jnp.sum(data.weight)
    if gradient_steps:
        return _release_steps(model, identity, *data[:3], rate=_RELEASE_RATE / total)
    mode, end = mode_of(model, identity, *data[:3], scale=total)
    return _LogisticMode(mode, end.value, end.projected_gradient, end.n_steps)


def _release_steps(
    model: object, identity: dict[str, Array], *data: Array | None, rate: Float[Array, ""]
) -> _LogisticMode:
    """Take the release's 1200 plain gradient steps, which do not reach the optimum."""
    guide = AutoDelta(model, init_loc_fn=init_to_value(values=identity))
    svi = SVI(model, guide, SGD(rate), TraceMeanField_ELBO())
    state = svi.init(jax.random.key(0), *data)
    state = jax.lax.fori_loop(0, _RELEASE_STEPS, lambda _, state: svi.update(state, *data)[0], state)
    point = svi.get_params(state)
    unknown = jnp.full((), jnp.nan)
    steps = jnp.full((), _RELEASE_STEPS, jnp.int32)
    return _LogisticMode({name: point[f"{name}_auto_loc"] for name in identity}, unknown, unknown, steps)


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
