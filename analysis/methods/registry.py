"""All methods by name: the only list of them.

A suffix names a calibration of a simpler method's confidences: ``_platt``, ``_isotonic``, ``_beta`` and ``_venn`` on
the labelled questions (:mod:`analysis.methods.calibrations`), ``_calibrated`` the final calibration of a fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from analysis.methods.calibrations import CALIBRATIONS, Calibrated
from analysis.methods.conditional_logit import CONDITIONAL_LOGIT
from analysis.methods.dawid_skene import DAWID_SKENE, DAWID_SKENE_LABELLED
from analysis.methods.direag import FITTED_METHODS, FitLearner, after_calibration, before_calibration
from analysis.methods.method import Method
from analysis.methods.rules import (
    BEST_LEVEL,
    CISC,
    MAJORITY,
    MEAN_CONFIDENCE,
    STEERCONF,
    VANILLA,
    vanilla_method,
)
from analysis.methods.sampled import SAMPLED_METHODS
from analysis.methods.votes import BOOSTED_STACK, LEVEL_LOGISTIC, VOTE_LOGISTIC
from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import FitMethod, Preset, SamplingSettings

CALIBRATED = "_calibrated"
_DEFAULT = "default"


def _with_calibrations(name: str, method: Method) -> dict[str, Method]:
    """Return a method, and the same with its confidences recalibrated in each way."""
    calibrated = {
        f"{name}_{suffix}": replace(
            method,
            learn=Calibrated(method.learn, calibration),
            words=f"{name}, recalibrated on labelled questions by {words}",
            spoken=f"{method.spoken} with {words}" if method.spoken else "",
        )
        for suffix, (words, calibration) in CALIBRATIONS.items()
    }
    return {name: method} | calibrated


#: All methods other than DirEAG that use the reports alone.
SIMPLE_METHODS: Mapping[str, Method] = MappingProxyType(
    {
        VANILLA: vanilla_method(),
        **_with_calibrations("majority", MAJORITY),
        **_with_calibrations("mean_confidence", MEAN_CONFIDENCE),
        **_with_calibrations("steerconf", STEERCONF),
        **_with_calibrations("best_level", BEST_LEVEL),
        **_with_calibrations("cisc", CISC),
        "vote_logistic": VOTE_LOGISTIC,
        "level_logistic": LEVEL_LOGISTIC,
        "boosted_stack": BOOSTED_STACK,
        "dawid_skene": DAWID_SKENE,
        "dawid_skene_labelled": DAWID_SKENE_LABELLED,
        "conditional_logit": CONDITIONAL_LOGIT,
    }
)

#: The default among these: every kind, with the calibration that suits few labels.
_DEFAULT_SIMPLE = (
    "majority",
    "mean_confidence",
    "steerconf",
    "majority_platt",
    "mean_confidence_platt",
    "best_level_platt",
    "cisc_platt",
    "vote_logistic",
    "level_logistic",
    "boosted_stack",
    "dawid_skene",
    "dawid_skene_labelled",
    "conditional_logit",
)

#: The default methods of an evaluation in the order of its tables, and all of them.
DEFAULT_EVALUATED = (VANILLA, *SAMPLED_METHODS, *_DEFAULT_SIMPLE, *FITTED_METHODS)
EVALUATED_METHODS = (*DEFAULT_EVALUATED, *(name for name in SIMPLE_METHODS if name not in DEFAULT_EVALUATED))
#: What is left after the names that are rarely given.
COMMON_METHODS = tuple(
    name for name in DEFAULT_EVALUATED if name not in ("steerconf", "dawid_skene", "dawid_skene_labelled")
)


def method_words(name: str) -> str:
    """Say what a method of an evaluation does."""
    groups = (SIMPLE_METHODS, SAMPLED_METHODS, FITTED_METHODS)
    return next((group[name].words for group in groups if name in group), "not known to this report")


def fitted_methods(
    preset: Preset, fit_method: FitMethod, sampling: SamplingSettings | None, *, allow_weighted: bool = False
) -> dict[str, Method]:
    """Return the variants of DirEAG as methods, before and after the final calibration."""
    return {
        name: Method(
            FitLearner(preset, fitted.variant, fit_method, sampling, allow_weighted),
            before_calibration if fitted.column == "support" else after_calibration,
            words=fitted.words,
        )
        for name, fitted in FITTED_METHODS.items()
    }


def preset_methods(sampling: SamplingSettings | None = None) -> dict[str, Method]:
    """Return ``map_PRESET`` for every preset, and ``nuts_PRESET`` for those without bounds and unequal weights."""
    learners = {f"map_{name}": FitLearner(name) for name in PRESETS} | {
        f"nuts_{name}": FitLearner(name, fit_method="nuts", sampling=sampling)
        for name, preset in PRESETS.items()
        if not (preset.is_bounded or preset.is_weighted)
    }
    methods: dict[str, Method] = {}
    for name, learner in learners.items():
        methods |= {
            name: Method(learner, before_calibration),
            f"{name}{CALIBRATED}": Method(learner, after_calibration),
        }
    return methods


#: The methods of a learning curve, and the default among them.
CURVE_METHODS: Mapping[str, Method] = MappingProxyType(dict(SIMPLE_METHODS) | preset_methods())
DEFAULT_CURVE = (
    *(name for name in _DEFAULT_SIMPLE if name != "steerconf"),
    "majority_isotonic",
    "majority_beta",
    "majority_venn",
    *(name for name in CURVE_METHODS if name.startswith(("map_paper", "map_bayes"))),
)


def chosen_curve_methods(names: Sequence[str]) -> tuple[str, ...]:
    """Return the named methods in the order of the registry, each once; ``default`` stands for the default methods."""
    unknown = [name for name in names if name not in CURVE_METHODS and name != _DEFAULT]
    if unknown or not names:
        seen = f"unknown method {unknown[0]!r}.{did_you_mean(unknown[0], CURVE_METHODS)}" if unknown else "no method."
        raise DirEAGError(f"saw {seen} Expected some of {_DEFAULT}, {', '.join(CURVE_METHODS)}.")
    wanted = {*names, *(DEFAULT_CURVE if _DEFAULT in names else ())}
    return tuple(name for name in CURVE_METHODS if name in wanted)


def is_sampled(method: str) -> bool:
    """Return whether a method needs NUTS."""
    return method.startswith("nuts_")


def suffix_of(method: str) -> str:
    """Return the suffix of a method's calibration; empty without one."""
    endings = (CALIBRATED, *(f"_{name}" for name in CALIBRATIONS))
    return next((ending for ending in endings if method.endswith(ending)), "")
