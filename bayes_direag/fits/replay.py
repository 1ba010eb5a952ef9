"""The labelled questions of a partial MAP, on which a policy is tried: each is decided by a fit to the other parts."""

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.asking import Asking
from bayes_direag.decisions.policy import Replay
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.containers import map_fits
from bayes_direag.fits.folds import hashed_folds
from bayes_direag.inference.container import fitted_observations, sampled_parameters
from bayes_direag.inference.recalibration import from_dataset
from bayes_direag.model.equations import Reports
from bayes_direag.model.settings import FitSettings

_PARTS = 5


def replay_of(fitted: Observations, reports: Reports, settings: FitSettings) -> Replay:
    """Divide questions into five parts; raise DirEAGError if there are fewer questions or clusters."""
    part = hashed_folds(fitted, np.ones(len(fitted), bool), _PARTS, settings.seed)
    if (n_units := len(np.unique(part))) < _PARTS:
        raise DirEAGError(
            f"saw {n_units} labelled questions or clusters; expected at least {_PARTS}, to replay a policy. Label more."
        )
    askings = []
    for tree in map_fits(fitted, part != np.arange(_PARTS)[:, None], settings):
        final = from_dataset(tree["recalibration"].to_dataset())
        askings.append(Asking.of(fitted_observations(tree), sampled_parameters(tree), final, settings.preset.eps))
    return Replay(fitted, reports, part, askings, np.ones(len(fitted.learned_levels)))
