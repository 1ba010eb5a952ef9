r"""The expected effect of further labels on a posterior, computed from its draws.

Write every quantity as its mean over S draws plus a deviation, and a parameter as a mixture :math:`\bar\theta + X u` of
the draws' deviations with :math:`u \sim \mathrm{N}(0, I / (S - 1))`, which has their mean and covariance. For a
question whose outcome y has probability :math:`p_{sy}` in draw s, the expected Fisher information of its label about u
is

.. math:: G = \sum_y \frac{\delta_y \delta_y^\top}{\bar p_y}, \qquad \delta_{sy} = p_{sy} - \bar p_y.

Let M be the mean of :math:`G / (S - 1)` over questions. With k more labels of questions like these every deviation is
multiplied by :math:`(I + k M)^{-1/2}`, as in a normal approximation of the posterior. No gradients are needed. With k =
0 the draws do not change; a posterior that is far from normal is narrowed as if it were normal.

Source: Bishop, Etherton and Majumdar (2001), doi:10.1175/1520-0493(2001)129<0420:ASWTET>2.0.CO;2, for the transform.
Lindley (1956), doi:10.1214/aoms/1177728069, for the expected information of an experiment. Bickford Smith et al.
(2023), arXiv:2304.08151, for choosing labels by their information about predictions. Kirsch, van Amersfoort and Gal
(2019), arXiv:1906.08158, for choosing a batch jointly.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq

Draws = Float[np.ndarray, "sample *quantity"]


class Information(NamedTuple):
    """The mean information of a label over questions, by direction in the space of the draws.

    ``value`` (direction,): never negative; k labels divide the variance in a direction by ``1 + k value``.
    ``direction`` (sample, direction): orthonormal columns, as many as there are draws.
    """

    value: Float[np.ndarray, " direction"]
    direction: Float[np.ndarray, "sample direction"]


def outcome_scores(probability: Float[np.ndarray, "sample problem state"]) -> Float[np.ndarray, "problem state sample"]:
    r"""Return :math:`\delta_{sy} / \sqrt{\bar p_y (S - 1)}` of each question; 0 for a state that never occurs."""
    mean = probability.mean(axis=0)
    scale = np.sqrt(mean * (len(probability) - 1))
    deviation = probability - mean
    scores = np.divide(deviation, scale, out=np.zeros_like(deviation), where=scale > 0)
    return np.asarray(np.moveaxis(scores, 0, -1))


def logistic_scores(
    linear: Float[np.ndarray, "sample problem"], probability: Float[np.ndarray, " problem"]
) -> Float[np.ndarray, "problem 1 sample"]:
    r"""Return the same for a yes or no of mean probability p and log odds x, :math:`\sqrt{p (1 - p)}\, \delta_x`."""
    weight = np.sqrt(probability * (1 - probability) / (len(linear) - 1))
    return np.asarray(((linear - linear.mean(axis=0)) * weight).T[:, None, :])


def information(scores: Float[np.ndarray, "problem state sample"]) -> Information:
    """Average the information of a label over questions."""
    rows = scores.reshape(-1, scores.shape[-1])
    value, direction = np.linalg.eigh(rows.T @ rows / len(scores))
    return Information(np.maximum(value, 0.0), direction)


def narrowed(draws: Draws, learned: Information, n_labels: int) -> Draws:
    """Return the draws of some quantities, narrowed around their mean by ``n_labels`` more labels."""
    centre, deviation = _split(draws)
    left = 1 / np.sqrt(1 + n_labels * learned.value)
    mixed = learned.direction @ (left[:, None] * (learned.direction.T @ deviation))
    return np.asarray(mixed.reshape(draws.shape) + centre)


def futures(
    draws: Draws, learned: Information, n_labels: int, n: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "future *quantity"], Float[np.ndarray, "future *quantity"]]:
    """Simulate the posterior means after ``n_labels`` more labels, and the true values.

    Returns: The posterior means (future, ...) and the true values (future, ...). The means vary by what the labels
    teach, the true values vary around them by what is left, and together they vary as the draws do.
    """
    left = 1 / (1 + n_labels * learned.value)
    noise = rng.standard_normal((2, n, len(draws))) / np.sqrt(len(draws) - 1)
    centre, deviation = _split(draws)
    along = learned.direction.T @ deviation
    expected = ((noise[0] * np.sqrt(1 - left)) @ along).reshape(n, *centre.shape) + centre
    return expected, expected + ((noise[1] * np.sqrt(left)) @ along).reshape(n, *centre.shape)


def most_telling(
    scores: Float[np.ndarray, "problem state direction"], aim: Float[np.ndarray, "direction direction"], n: int
) -> tuple[Int[np.ndarray, " chosen"], Float[np.ndarray, " chosen"]]:
    r"""Choose questions greedily, each time the one whose label lowers the target variance most.

    ``scores``: in coordinates in which the parameters have unit covariance C. ``aim``, :math:`A`: the target variance
    is :math:`\operatorname{tr}(A C)`. ``n``: how many questions; all, if there are fewer.

    Returns: Their numbers in order (ties go to the first), and by how much each lowers the variance, given those
    before: :math:`\operatorname{tr}\{A C U^\top (I + U C U^\top)^{-1} U C\}`.
    """
    scores, aim = scores.copy(), aim.copy()
    n_states, n_directions = scores.shape[1:]
    is_open, chosen, gains = np.ones(len(scores), bool), [], []
    for _ in range(min(n, len(scores))):
        gain = np.where(is_open, _lowered(scores, aim), -np.inf)
        best = int(np.argmax(gain))
        chosen.append(best)
        gains.append(float(gain[best]))
        is_open[best] = False
        # unit covariance again: (I + u'u)^(-1/2) = I - v (1 - (1 + s^2)^(-1/2)) v' with u = w s v'
        _, size, along = np.linalg.svd(scores[best], full_matrices=False)
        left = np.eye(n_directions) - (along.T * (1 - 1 / np.sqrt(1 + size**2))) @ along
        scores = (scores.reshape(-1, n_directions) @ left).reshape(-1, n_states, n_directions)
        aim = left @ aim @ left
    return np.array(chosen, int), np.array(gains)


def equally_telling(
    lowered: Float[np.ndarray, " gain"],
    information: Float[np.ndarray, " direction"],
    aim: Float[np.ndarray, "direction direction"],
) -> Float[np.ndarray, " gain"]:
    """Return how many labels of random questions lower the target variance by as much.

    ``information``: of a label of a random question, by coordinate.
    """
    variance = np.diag(aim)

    def missing(n_labels: float, lowered: float) -> float:
        return float(variance @ (n_labels * information / (1 + n_labels * information))) - lowered

    def solved(lowered: float) -> float:
        most = 1.0
        while missing(most, lowered) < 0 and most < _MOST_LABELS:
            most *= 2
        return float(brentq(missing, 0.0, most, args=(lowered,))) if most < _MOST_LABELS else np.inf

    return np.array([solved(reached) if reached > 0 else 0.0 for reached in lowered.tolist()])


def _lowered(
    scores: Float[np.ndarray, "problem state direction"], aim: Float[np.ndarray, "direction direction"]
) -> Float[np.ndarray, " problem"]:
    across = np.swapaxes(scores, 1, 2)
    lowered = np.linalg.solve(np.eye(scores.shape[1]) + scores @ across, scores @ aim @ across)
    return np.asarray(np.trace(lowered, axis1=1, axis2=2))


def _split(draws: Draws) -> tuple[Float[np.ndarray, "*quantity"], Float[np.ndarray, "sample flat"]]:
    """Return the mean over the draws, and their deviations from it, one row per draw."""
    centre = draws.mean(axis=0)
    return np.asarray(centre), (draws - centre).reshape(len(draws), -1)


_MOST_LABELS = 1e9
