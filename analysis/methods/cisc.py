r"""Confidence-informed self-consistency: votes weighted by a softmax of their confidences.

.. math:: P_i(a) \propto \sum_{l: a_{il} = a} \exp(q_{il} / T)

A high temperature is the plain vote, where ties go to the higher confidence; one of 0 the most confident level alone.

Source: Taubenfeld et al. (2025), Confidence Improves Self-Consistency in LLMs, arXiv:2502.06233.
"""

from functools import partial

import numpy as np
from jaxtyping import Float

from analysis.methods.calibrations import CLIP
from analysis.methods.method import Answerer, Answers
from bayes_direag.data.observations import Observations

#: Temperatures to choose from, that of the plain vote first.
TEMPERATURES = tuple(np.geomspace(100, 0.01, 33))


def cisc(labelled: Observations, _: int) -> Answerer:
    """Choose the temperature at which the right answers have the greatest likelihood; of equals, the highest.

    The likelihood is over the questions to which some level gave a right answer, shares clipped to [CLIP, 1 - CLIP]; a
    question without a right candidate says nothing of a temperature.
    """
    known = labelled.select(labelled.gold_generated)
    right = known.correct_candidate
    losses = [-np.log(np.clip((shares(known, one) * right).sum(axis=1), CLIP, 1 - CLIP)).sum() for one in TEMPERATURES]
    return partial(_answer, temperature=float(TEMPERATURES[int(np.argmin(np.round(losses, 9)))]))


def shares(observations: Observations, temperature: float) -> Float[np.ndarray, "problem candidate"]:
    """Return the candidates' shares of the weights, as many columns as levels; 0 without an answer."""
    confidence = np.where(observations.usable, observations.confidence, -np.inf)
    highest = confidence.max(axis=1, keepdims=True, initial=0.0)
    weight = np.exp((confidence - highest) / temperature)
    names = observations.candidate[:, :, None] == np.arange(observations.n_levels)
    summed = (weight[:, :, None] * names).sum(axis=1)
    return np.asarray(summed / np.maximum(summed.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def _answer(observations: Observations, *, temperature: float) -> Answers:
    """Select the answer of greatest share; of equals, the one seen first."""
    share = np.pad(shares(observations, temperature), ((0, 0), (0, 1)), constant_values=-1)  # last: of no answer
    own = np.take_along_axis(share, observations.candidate, axis=1)
    level = own.round(12).argmax(axis=1)[:, None]
    chosen, confidence = (np.take_along_axis(part, level, axis=1)[:, 0] for part in (observations.candidate, own))
    return Answers(chosen, np.where(chosen >= 0, confidence, np.nan))
