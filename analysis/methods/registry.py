"""All methods by name: the only list of them.

``_platt`` names Platt scaling of a simpler method's confidences on the labelled questions
(:mod:`analysis.methods.calibrations`), ``_calibrated`` the final calibration of a fit.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from analysis.methods.calibrations import Calibrated
from analysis.methods.conditional_logit import CONDITIONAL_LOGIT
from analysis.methods.direag import FITTED_METHODS, FitLearner, after_calibration, before_calibration
from analysis.methods.method import Method
from analysis.methods.rules import RULES, SAMPLED_METHODS, VANILLA, vanilla_method
from analysis.methods.votes import BOOSTED_STACK, VOTE_LOGISTIC
from bayes_direag.model.settings import FitMethod, Preset, SamplingSettings


def _with_platt(name: str, method: Method) -> dict[str, Method]:
    calibrated = replace(
        method,
        learn=Calibrated(method.learn),
        words=f"{name}, recalibrated on labelled questions by Platt scaling",
        spoken=f"{method.spoken} with Platt scaling",
    )
    return {name: method, f"{name}_platt": calibrated}


#: All methods other than DirEAG that use the reports alone.
SIMPLE_METHODS: Mapping[str, Method] = MappingProxyType(
    {
        VANILLA: vanilla_method(),
        **{name: method for rule in RULES for name, method in _with_platt(rule, RULES[rule]).items()},
        "vote_logistic": VOTE_LOGISTIC,
        "boosted_stack": BOOSTED_STACK,
        "conditional_logit": CONDITIONAL_LOGIT,
    }
)

#: The methods of an evaluation in the order of its tables.
EVALUATED_METHODS = tuple(dict.fromkeys((VANILLA, *SAMPLED_METHODS, *SIMPLE_METHODS, *FITTED_METHODS)))


_NAMED = (SIMPLE_METHODS, SAMPLED_METHODS, FITTED_METHODS)


def spoken(name: str) -> str:
    """Return the name of a method of an evaluation in a sentence."""
    return next((group[name].spoken for group in _NAMED if name in group), f"method {name}")


def method_words(name: str) -> str:
    """Say what a method of an evaluation does."""
    return next((group[name].words for group in _NAMED if name in group), "not known to this report")


def fitted_methods(preset: Preset, fit_method: FitMethod, sampling: SamplingSettings | None) -> dict[str, Method]:
    """Return the variants of DirEAG that a preset has as methods, before and after the final calibration."""
    return {
        name: Method(
            FitLearner(preset, fitted.variant, fit_method, sampling),
            before_calibration if fitted.column == "support" else after_calibration,
            words=fitted.words,
        )
        for name, fitted in FITTED_METHODS.items()
        if preset.plain_reports or fitted.variant == "confidence"
    }
