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
from bayes_direag.model.selection import Calibration
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
    #: The weight of some draws, spread evenly over all, without the question's label; they sum to 1.
    weight: Float[np.ndarray, "problem some"]

    def outcomes(
        self,
        right: Bool[np.ndarray, "problem state"],
        weight: Float[np.ndarray, " problem"],
    ) -> Outcomes:
        """Return the data of the final calibration, as a batch of one."""
        selections = (support[None, :, :-1].argmax(axis=2) for support in (self.support, self.support_of_all))
        return Outcomes.of_selected(self.support[None], right, weight[None], *selections)

    def selected(
        self,
        right: Bool[np.ndarray, "first state"],
        panels: Int[np.ndarray, "first level"],
        final: Calibration,
    ) -> dict[str, Shaped[np.ndarray, " first"]]:
        """Return the answer selected for each of the first questions without its label.

        The ``candidate``, whether it is ``correct``, its ``support``, and its final ``probability``. The final
        calibration itself has learned from all labels.
        """
        question = np.arange(len(right))
        candidate = self.support[question, :-1].argmax(axis=1)
        support = self.support[question, candidate]
        pieces = np.array_split(question, -(-len(right) * final.n_samples // _CELLS))
        of_pieces = [final.of_selected(support[None, piece], panels[piece]).mean(axis=0) for piece in pieces]
        correct = right[question, candidate]
        figures = {"support": support, "probability": np.concatenate(of_pieces)}
        return {"candidate": candidate, "correct": correct} | figures


def leave_one_out(
    posterior: xr.Dataset,
    log_likelihood: Float[Array | np.ndarray, "chain draw problem"],
    evaluation: Evaluation,
    removed: Float[Array | np.ndarray, "chain draw problem"] | None = None,
    some: Int[np.ndarray, " some"] | slice = slice(0),
) -> LeaveOneOut:
    """Predict every question from the draws, reweighted as if its label had not been observed.

    The mean effective sample size of the parameters (``posterior``) determines the length of the smoothed tail.

    Parameters
    ----------
    removed
        What leaving a question out takes from the log density of each draw. By default, its log-likelihood.
    some
        The draws, over all chains, whose weights are returned.
    """
    from arviz_stats import ess  # an import of a second, which a MAP fit does not need

    log_densities = log_likelihood.reshape(-1, log_likelihood.shape[2])
    removed_densities = log_densities if removed is None else removed.reshape(-1, removed.shape[2])
    sizes = ess(posterior, method="mean")
    effective = np.mean(np.concatenate([sizes[name].to_numpy().ravel() for name in sizes.data_vars]))
    relative_size = float(effective) / len(log_densities)

    def left_out(states: States) -> tuple[np.ndarray, ...]:
        taken = np.ascontiguousarray(removed_densities[:, states.questions].T)
        log_weight, pareto_k = smoothed_weights(taken, relative_size)
        elpd = logsumexp(log_densities[:, states.questions].T + log_weight, axis=1)
        without_label = np.einsum("kps,ps->pk", states.support, np.exp(log_weight))
        of_some = np.exp(log_weight[:, some] - logsumexp(log_weight[:, some], axis=1, keepdims=True))
        return elpd, pareto_k, without_label, states.support.mean(axis=2).T, of_some

    elpd, pareto_k, without_label, of_all, weight = zip(*evaluation.each(left_out), strict=True)
    elpds, ks, weights = map(np.concatenate, (elpd, pareto_k, weight))
    return LeaveOneOut(elpds, ks, joined(without_label), joined(of_all), weights)
