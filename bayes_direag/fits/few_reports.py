"""What fewer reports do, told from the fitted questions themselves: they lose reports, and are predicted again."""

from dataclasses import replace

import numpy as np

from bayes_direag.model.forward import Forward
from bayes_direag.model.selection import Recalibration, distribution, predict
from bayes_direag.predictor import EnoughReports

#: At least this share of the fitted questions have enough reports.
_SHARE = 0.95
#: At most this many fitted questions are looked at, fewer if there are many draws.
_QUESTIONS, _EVALUATIONS = 300, 200_000


def enough_reports(fitted: Forward, final: Recalibration) -> EnoughReports:
    """Take random reports away from the fitted questions, and predict them again."""
    rng, n = np.random.default_rng(0), len(fitted.data.n_candidates)
    n_looked_at = min(n, _QUESTIONS, max(_EVALUATIONS // fitted.n_draws, 1))
    data = fitted.data.select(np.sort(rng.permutation(n)[:n_looked_at]))
    usable = np.asarray(data.candidate).T >= 0
    n_reports = usable.sum(axis=1)
    enough = np.sort(n_reports)[int((1 - _SHARE) * len(usable))]
    rank = np.where(usable, rng.random(usable.shape), np.inf).argsort(axis=1).argsort(axis=1)
    whole, excess = distribution(replace(fitted, data=data), final), list[float]()
    for left in range(1, enough):
        row = np.flatnonzero(n_reports > left)
        fewer = data.select(row).of_reports(left > rank[row].T)
        found = predict(replace(fitted, data=fewer), final, 0.5)
        excess.append(float(np.mean(found["probability"] - whole[row, found["candidate"]])))
    return EnoughReports(tuple(np.maximum.accumulate(excess[::-1])[::-1].tolist()))
