r"""Copies of questions that lack reports, from which a *partial* fit learns too, as new questions may lack some.

A fit to whole panels is wrong about a part of one: among many reports the null is rare and a vote is one of many that
say the same, while a lone report is wrong as often as its level. So a partial fit sees each question :data:`N_COPIES`
times: once whole, and otherwise with a random number of its reports, chosen at random. The product of the likelihoods
of all copies, to the power of their weight, is a composite likelihood (Varin, Reid and Firth 2011, Statistica Sinica
21, 5-42).
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.model.likelihood_data import LikelihoodData, likelihood_weights
from bayes_direag.model.settings import FitMethod, FitSettings

N_COPIES = 8
#: What a copy counts of its question's weight. Under NUTS the copies of a question count as one question.
WEIGHT_OF_COPY: dict[FitMethod, float] = {"map": 1 / 4, "nuts": 1 / N_COPIES}


def fitted_rows(
    questions: Observations, settings: FitSettings, labels: Sequence[str], n_joined: int = 0
) -> tuple[Observations, LikelihoodData]:
    """Return what a fit learns from: its questions, in a partial fit with their copies, and their likelihood.

    The last ``n_joined`` levels have joined without labels, and have no report here.

    Raises DirEAGError as :func:`~bayes_direag.model.likelihood_data.likelihood_weights` does.
    """
    rows = thinned(questions, settings.method, settings.seed, n_joined) if settings.partial else questions
    weight = likelihood_weights(np.ones((1, len(rows)), bool), rows, settings.preset)[0]
    return rows, LikelihoodData.weighted(rows, weight, preset=settings.preset, labels=labels)


def thinned(observations: Observations, method: FitMethod, seed: int, n_joined: int = 0) -> Observations:
    """Return all questions, then each one seven times with some of its usable reports, each copy with its weight.

    A copy keeps any number of reports from 1 to all with equal probability. What is kept depends on the question's
    name, its reports and the seed, and not on other questions. Copies of a question are one cluster.
    """
    n, (n_rows, n_columns) = N_COPIES - 1, observations.shape
    n_drawn, uniform = n_columns - n_joined + 1, np.ones((n, n_rows, n_columns + 1))
    for row, name in enumerate(observations.problem_id):
        entropy = int.from_bytes(sha256(f"{seed} {name}".encode()).digest())
        uniform[:, row, :n_drawn] = np.random.default_rng(entropy).random((n, n_drawn))
    usable = observations.usable
    n_kept = 1 + np.floor(uniform[..., n_drawn - 1] * usable.sum(axis=1))
    rank = np.where(usable, uniform[..., :-1], np.inf).argsort(axis=2).argsort(axis=2)
    missing = np.concatenate([np.zeros((1, n_rows, n_columns), bool), rank >= n_kept[..., None]])
    clusters = observations.cluster or (None,) * n_rows
    units = tuple(cluster or name for cluster, name in zip(clusters, observations.problem_id, strict=True))
    weight = WEIGHT_OF_COPY[method] * observations.weight
    copies = replace(observations, cluster=units, weight=weight).select(np.tile(np.arange(n_rows), N_COPIES))
    return copies.without(missing.reshape(-1, n_columns))
