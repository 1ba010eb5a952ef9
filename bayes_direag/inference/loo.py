r"""Leave-one-out predictions of the labelled questions by PSIS, without refits.

For question i draw s has the importance weight :math:`w_{is} \propto 1 / p(y_i \mid \theta_s)`, smoothed by a Pareto
tail (Vehtari, Gelman and Gabry 2017, doi:10.1007/s11222-016-9696-4).
The shape of the tail, Pareto k, is a diagnostic: above 0.7 the label has moved the posterior too far for reweighting.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Int, Shaped
from scipy.special import logsumexp

from bayes_direag.inference.psis import smoothed_weights
from bayes_direag.inference.recalibration import Outcomes
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.states import Evaluation, States, joined

#: Above this Pareto k, a question's leave-one-out prediction is not reliable.
LARGEST_PARETO_K = 0.7

#: Most draws times questions that are taken at once.
_CELLS = 1 << 21


class LeaveOneOut(NamedTuple):
    """The prediction of each question from all other questions."""

    #: Log predictive density of the observed state.
    elpd: Float[np.ndarray, " problem"]
    #: Shape of the tail of the importance weights: see :func:`~bayes_direag.inference.psis.smoothed_weights`.
    pareto_k: Float[np.ndarray, " problem"]
    #: Support of every state, the null last.
    support: Float[np.ndarray, "problem state"]
    #: The same from all questions, including this one.
    support_of_all: Float[np.ndarray, "problem state"]

    def outcomes(
        self,
        right: Bool[np.ndarray, "problem state"],
        weight: Float[np.ndarray, " problem"],
        n_reports: Int[np.ndarray, " problem"] | None = None,
    ) -> Outcomes:
        """Return the data of the final calibration, as a batch of one; with numbers of reports, of a partial fit."""
        selections = (support[None, :, :-1].argmax(axis=2) for support in (self.support, self.support_of_all))
        return Outcomes.of_selected(self.support[None], right, weight[None], *selections, n_reports=n_reports)

    def selected(
        self,
        right: Bool[np.ndarray, "first state"],
        n_reports: Int[np.ndarray, " first"],
        final: Recalibration,
    ) -> dict[str, Shaped[np.ndarray, " first"]]:
        """Return the answer selected for each of the first questions without its label.

        The ``candidate``, whether it is ``correct``, its ``support``, and its final ``probability``. The final
        calibration itself has learned from all labels.
        """
        question = np.arange(len(right))
        candidate = self.support[question, :-1].argmax(axis=1)
        support = self.support[question, candidate]
        pieces = np.array_split(question, -(-len(right) * final.coefficients["slope"].size // _CELLS))
        of_pieces = [final.of_selected(support[None, piece], n_reports[piece]).mean(axis=0) for piece in pieces]
        correct = right[question, candidate]
        figures = {"support": support, "probability": np.concatenate(of_pieces)}
        return {"candidate": candidate, "correct": correct} | figures


def leave_one_out(
    posterior: xr.Dataset,
    log_likelihood: Float[Array | np.ndarray, "chain draw problem"],
    evaluation: Evaluation,
    removed: Float[Array | np.ndarray, "chain draw unit"] | None = None,
) -> LeaveOneOut:
    """Predict every question from the draws, reweighted as if its label had not been observed.

    The mean effective sample size of the parameters (``posterior``) determines the length of the smoothed tail.

    Parameters
    ----------
    removed
        What is taken from the log density of each draw, of each unit that is left out, where the questions are copies
        of fewer units, in turns. By default each question is a unit, and its own log-likelihood is taken.
    """
    from arviz_stats import ess  # an import of a second, which a MAP fit does not need

    log_densities = log_likelihood.reshape(-1, log_likelihood.shape[2])
    removed_densities = log_densities if removed is None else removed.reshape(-1, removed.shape[2])
    n_units = removed_densities.shape[1]
    sizes = ess(posterior, method="mean")
    effective = np.mean(np.concatenate([sizes[name].to_numpy().ravel() for name in sizes.data_vars]))
    relative_size = float(effective) / len(log_densities)

    def left_out(states: States) -> tuple[np.ndarray, ...]:
        unit = np.arange(states.questions.start, states.questions.stop) % n_units
        log_weight, pareto_k = smoothed_weights(np.ascontiguousarray(removed_densities[:, unit].T), relative_size)
        elpd = logsumexp(log_densities[:, states.questions].T + log_weight, axis=1)
        without_label = np.einsum("kps,ps->pk", states.support, np.exp(log_weight))
        return elpd, pareto_k, without_label, states.support.mean(axis=2).T

    elpd, pareto_k, without_label, of_all = zip(*evaluation.each(left_out), strict=True)
    return LeaveOneOut(np.concatenate(elpd), np.concatenate(pareto_k), joined(without_label), joined(of_all))
