r"""What further labels would do to a posterior, worked out on its draws.

Write every quantity of interest as its mean over S draws plus a deviation from it, and a parameter as a mixture
:math:`\bar\theta + X u` of the draws' deviations, :math:`u \sim \mathrm{N}(0, I / (S - 1))`, which has their mean and
covariance. Of a question whose outcome y has probability :math:`p_{sy}` in draw s, a label then has expected Fisher
information about u

.. math:: G = \sum_y \frac{\delta_y \delta_y^\top}{\bar p_y}, \qquad \delta_{sy} = p_{sy} - \bar p_y.

With M the mean of :math:`G / (S - 1)` over questions, k more labels of questions like these leave of every deviation
:math:`(I + k M)^{-1/2}` times what it was: the posterior as a normal approximation would narrow it, in whatever
directions these questions can tell apart. No gradient is taken and no parameter is named. At k = 0 the draws stay what
they are; a posterior far from normal is narrowed as if it were not.

References
----------
Bishop, Etherton and Majumdar (2001), doi:10.1175/1520-0493(2001)129<0420:ASWTET>2.0.CO;2, for the transform. Lindley
(1956), doi:10.1214/aoms/1177728069, for information as what an experiment is worth. Kirsch, van Amersfoort and Gal
(2019), arXiv:1906.08158, for choosing a batch greedily by what its members tell together.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

Draws = Float[np.ndarray, "sample *quantity"]


class Information(NamedTuple):
    """Information of one label, on the average over questions, by direction among the draws.

    Attributes
    ----------
    value : (direction,) array
        Never negative; k labels divide the variance in a direction by ``1 + k value``.
    direction : (sample, direction) array
        Orthonormal columns, as many as there are draws.
    """

    value: Float[np.ndarray, " direction"]
    direction: Float[np.ndarray, "sample direction"]


def outcome_scores(probability: Float[np.ndarray, "sample problem state"]) -> Float[np.ndarray, "problem state sample"]:
    r"""Return :math:`\delta_{sy} / \sqrt{\bar p_y (S - 1)}` of each question; 0 for a state that never comes true."""
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
    """Return the draws of some quantities as so many more labels would narrow them around their mean."""
    return _mixed(draws, learned, 1 / np.sqrt(1 + n_labels * learned.value))


def futures(draws: Draws, learned: Information, n_labels: int, n: int, rng: np.random.Generator) -> tuple[Draws, Draws]:
    """Draw what one will believe after so many more labels, and what will then be true.

    Returns
    -------
    expected, true : (future, *quantity)
        Their means in the posterior to come, and their own values: the former vary as much as labels teach, the latter
        around the former as much as is left. Together they vary as the draws do.
    """
    left = 1 / (1 + n_labels * learned.value)
    noise = rng.standard_normal((2, n, len(draws))) / np.sqrt(len(draws) - 1)
    centre = draws.mean(axis=0)
    deviation = (draws - centre).reshape(len(draws), -1)
    along = learned.direction.T @ deviation
    expected = ((noise[0] * np.sqrt(1 - left)) @ along).reshape(n, *centre.shape) + centre
    return expected, expected + ((noise[1] * np.sqrt(left)) @ along).reshape(n, *centre.shape)


def most_informative(
    scores: Float[np.ndarray, "problem state direction"], n: int
) -> tuple[Int[np.ndarray, " chosen"], Float[np.ndarray, " chosen"]]:
    r"""Choose questions one by one, each the one whose label tells most beyond those of the ones before.

    Parameters
    ----------
    scores
        In coordinates in which the parameters have unit covariance.
    n
        How many; all, if there are fewer.

    Returns
    -------
    chosen, gain : (chosen,)
        Their numbers, in order (of equals, the first), and what each adds:
        :math:`\tfrac12 \log\det(I + U C U^\top)` nats, with C the covariance that the ones before leave.
    """
    scores = scores.copy()
    open_, chosen, gains = np.ones(len(scores), bool), [], []
    n_states = scores.shape[1]
    for _ in range(min(n, len(scores))):
        gain = np.where(open_, _gain(scores), -np.inf)
        best = int(np.argmax(gain))
        chosen.append(best)
        gains.append(float(gain[best]))
        open_[best] = False
        own = scores[best]
        # (I + u'u)^(-1/2) = I - v (1 - 1/sqrt(1 + s^2)) v' with u = w s v' the singular value decomposition
        _, size, along = np.linalg.svd(own, full_matrices=False)
        less = 1 - 1 / np.sqrt(1 + size**2)
        scores -= ((scores.reshape(-1, scores.shape[2]) @ along.T) * less @ along).reshape(
            -1, n_states, scores.shape[2]
        )
    return np.array(chosen, int), np.array(gains)


def information_of(learned: tuple[Information, ...], n_labels: float) -> float:
    """Return what so many labels of random questions tell about the parameters, in nats."""
    return float(sum(np.log1p(n_labels * one.value).sum() for one in learned)) / 2


def _gain(scores: Float[np.ndarray, "problem state direction"]) -> Float[np.ndarray, " problem"]:
    inner = scores @ np.swapaxes(scores, 1, 2)
    return np.asarray(np.linalg.slogdet(np.eye(scores.shape[1]) + inner)[1] / 2)


def _mixed(draws: Draws, learned: Information, factor: Float[np.ndarray, " direction"]) -> Draws:
    centre = draws.mean(axis=0)
    deviation = (draws - centre).reshape(len(draws), -1)
    mixed = learned.direction @ (factor[:, None] * (learned.direction.T @ deviation))
    return np.asarray(mixed.reshape(draws.shape) + centre)
