r"""The final calibration: from the support of the selected answer to its probability of being correct.

The default is Platt scaling of the logit of the support, :math:`\operatorname{sigmoid}(a + b \operatorname{logit} P)`,
at the mode of a :mod:`logistic regression <bayes_direag.inference.logistic_regression>` of whether selected answers
are right. A partial fit adds :math:`c \log(\text{share of the reports})` before the sigmoid. ``release`` stops the
same objective after 1200 plain gradient steps.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int

from bayes_direag.inference.logistic_regression import LogisticPosterior
from bayes_direag.inference.map import require_converged
from bayes_direag.model.equations import clipped_logit
from bayes_direag.model.selection import IDENTITY, Recalibration, log_share
from bayes_direag.model.settings import RecalibrationSettings

_RELEASE_RATE, _RELEASE_STEPS = 0.05, 1200


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

    def most_reports(self, row: int) -> int:
        """Return the largest number of reports of a question in a member of the batch, if partial; otherwise 1."""
        return 1 if self.n_reports is None else int(self.n_reports[self.weight[row] > 0].max(initial=1))


def from_dataset(stored: xr.Dataset) -> Recalibration:
    """Return the recalibration that its ``to_dataset`` stored."""
    coefficients = {name: stored[name].to_numpy() for name in IDENTITY if name in stored}
    most_reports = int(stored.attrs.get("most_reports", 1))
    return Recalibration(stored.attrs["method"], coefficients, float(stored.attrs["eps"]), most_reports)


def recalibrate(outcomes: Outcomes, settings: RecalibrationSettings) -> list[Recalibration]:
    """Fit one recalibration for each row of a batch."""
    if settings.method == "none":
        return [Recalibration.identity((1, 1), settings.eps) for _ in outcomes.support]
    calibrations = []
    for row in range(len(outcomes.weight)):
        posterior = logistic_posterior(outcomes, row, settings)
        if settings.method == "release":
            point = posterior.descended(_RELEASE_RATE, _RELEASE_STEPS)
        else:
            point, n_steps = posterior.mode()
            gradient, loss = np.abs(posterior.gradient(point)).max(), posterior.loss(point)
            require_converged("the recalibration", np.array([gradient]), np.array([loss]), np.array([n_steps]))
        coefficients = {name: np.full((1, 1), value) for name, value in zip(IDENTITY, point, strict=False)}
        most_reports = outcomes.most_reports(row)
        calibrations.append(Recalibration(settings.method, coefficients, settings.eps, most_reports))
    return calibrations


def logistic_posterior(outcomes: Outcomes, row: int, settings: RecalibrationSettings) -> LogisticPosterior:
    """Return the posterior of the coefficients for one member of a batch, in the order of :data:`IDENTITY`.

    The share of the reports has a coefficient in partial fits alone.
    """
    used = outcomes.weight[row] > 0
    logit = clipped_logit(outcomes.support[row, used], settings.eps)
    features = [np.ones(len(logit)), logit]
    if outcomes.n_reports is not None:
        features.append(log_share(outcomes.n_reports[used], outcomes.most_reports(row)))
    weight, identity = outcomes.weight[row, used], np.array([*IDENTITY.values()][: len(features)])
    right, prior_sd = outcomes.right[row, used], settings.prior_scale(weight.sum())
    return LogisticPosterior(np.stack(features, axis=1), right, weight, identity, prior_sd)
