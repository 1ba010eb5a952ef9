r"""Dirichlet evidence aggregation: a calibrated answer from many (answer, confidence) reports.

The symbols of the paper and their names in the code:

=================  =========================================  ==========================
paper              code                                       shape
=================  =========================================  ==========================
q_il               ``confidence``                             (problem, level)
a_il               ``candidate``                              (problem, level)
w_l                ``weight``                                 (level,)
b_l                ``bias``                                   (level,)
s                  ``slope``                                  ()
eta                ``prior_strength``                         ()
beta_0             ``null_base``                              ()
gamma              ``null_gain``                              ()
alpha_i            ``concentration``                          (problem, state)
P_i                ``support``                                (problem, state)
a, b               recalibration ``intercept``, ``slope``     ()
=================  =========================================  ==========================

A state is a candidate or, in the last place, the null "no candidate is right".

Names are loaded when first used, so that reading observations does not load JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayes_direag.answers import canonical as canonical
    from bayes_direag.answers import same_answer as same_answer
    from bayes_direag.bundled_example import example_observations as example_observations
    from bayes_direag.errors import DirEAGError as DirEAGError
    from bayes_direag.estimator import DirEAG as DirEAG
    from bayes_direag.fit import Fit as Fit
    from bayes_direag.map_fit import fit_map as fit_map
    from bayes_direag.model import penalised_loss as penalised_loss
    from bayes_direag.model import raw_from_vector as raw_from_vector
    from bayes_direag.nuts_fit import fit_nuts as fit_nuts
    from bayes_direag.observations import Observations as Observations
    from bayes_direag.presets import PRESETS as PRESETS
    from bayes_direag.presets import preset as preset
    from bayes_direag.protocol import cross_fit as cross_fit
    from bayes_direag.protocol import train_test as train_test
    from bayes_direag.settings import Preset as Preset
    from bayes_direag.simulate import simulate_observations as simulate_observations

_HOME = {
    "DirEAG": "estimator",
    "DirEAGError": "errors",
    "Fit": "fit",
    "Observations": "observations",
    "PRESETS": "presets",
    "Preset": "settings",
    "canonical": "answers",
    "cross_fit": "protocol",
    "example_observations": "bundled_example",
    "fit_map": "map_fit",
    "fit_nuts": "nuts_fit",
    "penalised_loss": "model",
    "preset": "presets",
    "raw_from_vector": "model",
    "same_answer": "answers",
    "simulate_observations": "simulate",
    "train_test": "protocol",
}

__all__ = [
    "PRESETS",
    "DirEAG",
    "DirEAGError",
    "Fit",
    "Observations",
    "Preset",
    "canonical",
    "cross_fit",
    "example_observations",
    "fit_map",
    "fit_nuts",
    "penalised_loss",
    "preset",
    "raw_from_vector",
    "same_answer",
    "simulate_observations",
    "train_test",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
