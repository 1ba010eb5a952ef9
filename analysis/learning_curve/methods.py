"""The methods of a learning curve: each learns from some labelled questions, and says how sure it is of others.

Methods that share their work have one *source*, and a suffix says what was done with it:

=====================================  ==============================================================================
source                                 suffixes
=====================================  ==============================================================================
``majority``, ``mean_confidence``,     none: as in :mod:`analysis.baselines`, nothing is learned. ``_platt``,
``steerconf``                          ``_isotonic``: then recalibrated on the labelled questions
``vote_logistic``, ``vote_boosting``   none: see :mod:`analysis.vote_features`
``map_PRESET``, ``nuts_PRESET``        none: the support of the selected answer. ``_calibrated``: after the fit's own
                                       final calibration
=====================================  ==============================================================================

The recalibrations of the baselines are those of :mod:`analysis.learning_curve.calibrators`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from analysis.baselines import BASELINES, majority
from analysis.learning_curve.calibrators import CALIBRATORS
from analysis.scores.paired import Scored
from analysis.vote_features import VOTE_CLASSIFIERS, vote_features
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.convergence import SamplerSummary, sampler_summary
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings

_CALIBRATED = "_calibrated"

#: The suffixes of each source.
SOURCES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(BASELINES, ("", *(f"_{name}" for name in CALIBRATORS))),
    **dict.fromkeys(VOTE_CLASSIFIERS, ("",)),
    **{f"map_{name}": ("", _CALIBRATED) for name in PRESETS},
    **{
        f"nuts_{name}": ("", _CALIBRATED)
        for name, preset in PRESETS.items()
        if not (preset.is_bounded or preset.is_weighted)
    },
}
#: The source of each method.
METHODS: dict[str, str] = {f"{source}{suffix}": source for source, suffixes in SOURCES.items() for suffix in suffixes}

#: Whose answers each method selects: a calibration changes none.
ANSWERS: dict[str, str] = {m: "majority" if source in VOTE_CLASSIFIERS else source for m, source in METHODS.items()}

#: Those that take a fraction of a second a fit.
DEFAULT_METHODS = (
    "majority",
    "majority_platt",
    "majority_isotonic",
    "mean_confidence",
    "mean_confidence_platt",
    "mean_confidence_isotonic",
    "vote_logistic",
    "vote_boosting",
    "map_paper",
    "map_paper_calibrated",
    "map_bayes",
    "map_bayes_calibrated",
    "map_pooled",
    "map_pooled_calibrated",
)
_DEFAULT = "default"


class Learned(NamedTuple):
    """What the methods of one source say after learning.

    Attributes
    ----------
    said : dict
        By method: confidence and correctness of its answer to every test question.
    sampler : SamplerSummary or None
        Of the fit's draws; None where nothing was sampled.
    """

    said: dict[str, Scored]
    sampler: SamplerSummary | None = None


def chosen_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return methods by name in the order of :data:`METHODS`, each once; ``default`` stands for the default ones.

    Raises
    ------
    DirEAGError
        For an unknown name, or without any.
    """
    unknown = [name for name in names if name not in METHODS and name != _DEFAULT]
    if unknown or not names:
        seen = f"unknown method {unknown[0]!r}" if unknown else "no method"
        raise DirEAGError(f"saw {seen}; expected some of {_DEFAULT}, {', '.join(METHODS)}.")
    wanted = {*names, *(DEFAULT_METHODS if _DEFAULT in names else ())}
    return tuple(name for name in METHODS if name in wanted)


def is_sampled(method: str) -> bool:
    """Say whether a method (or source) needs NUTS."""
    return method.startswith("nuts_")


def learn(
    source: str, labelled: Observations, tested: Observations, *, sampling: SamplingSettings | None, seed: int
) -> Learned:
    """Let all methods of a source learn from labelled questions, and apply them to others.

    Parameters
    ----------
    labelled, tested
        Questions without one in common; all answered, and all labelled.
    sampling, seed
        Of NUTS.
    """
    if source in BASELINES:
        return Learned(_recalibrated_baseline(source, labelled, tested))
    if source in VOTE_CLASSIFIERS:
        right = [_right(part, majority(part).candidate) for part in (labelled, tested)]
        confidence = VOTE_CLASSIFIERS[source](vote_features(labelled), right[0], vote_features(tested))
        return Learned({source: Scored(confidence, right[1])})
    preset = source.partition("_")[2]
    if not is_sampled(source):
        fit = fit_map(labelled, preset=preset, seed=seed)
    else:
        fit = fit_nuts(labelled, preset=preset, sampling=sampling, seed=seed)
    table = fit.predict(tested)
    correct = tested.is_right(table["answer"])
    columns = {source: "support", f"{source}{_CALIBRATED}": "confidence"}
    said = {method: Scored(table[column].to_numpy(float), correct) for method, column in columns.items()}
    return Learned(said, sampler_summary(fit) if is_sampled(source) else None)


def _recalibrated_baseline(source: str, labelled: Observations, tested: Observations) -> dict[str, Scored]:
    """Return what a baseline says, as it is and after each recalibration."""
    before, now = BASELINES[source](labelled), BASELINES[source](tested)
    right = _right(tested, now.candidate)
    said = {source: Scored(now.confidence, right)}
    known = _right(labelled, before.candidate)
    for name, calibrated in CALIBRATORS.items():
        said[f"{source}_{name}"] = Scored(calibrated(before.confidence, known, now.confidence), right)
    return said


def _right(observations: Observations, candidate: Int[np.ndarray, " problem"]) -> Bool[np.ndarray, " problem"]:
    return np.asarray(np.take_along_axis(observations.correct_candidate, candidate[:, None], axis=1)[:, 0])
