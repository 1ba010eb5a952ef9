"""All methods by name.

A suffix names a calibration of a simpler method's confidences: ``_platt``, ``_isotonic``, ``_beta`` and ``_venn`` on
the labelled questions (:mod:`analysis.methods.calibrations`), ``_calibrated`` the final calibration of a fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from analysis.methods.calibrations import CALIBRATIONS, Calibrated
from analysis.methods.conditional_logit import conditional_logit
from analysis.methods.dawid_skene import dawid_skene, dawid_skene_labelled
from analysis.methods.direag import FITTED_METHODS, FitLearner, after_calibration, before_calibration
from analysis.methods.method import Answerer, Learner, Method
from analysis.methods.rules import RULES, VANILLA, best_level, cisc, vanilla
from analysis.methods.votes import boosted_stack, level_logistic, vote_logistic
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import Method as FitMethod
from bayes_direag.model.settings import Preset, SamplingSettings

CALIBRATED = "_calibrated"
_DEFAULT = "default"


@dataclass(frozen=True)
class Rule:
    """A learner that ignores the labelled questions and returns a fixed rule."""

    rule: Answerer

    def __call__(self, _labelled: Observations, _seed: int) -> Answerer:
        """Return the rule."""
        return self.rule


def vanilla_method(level_name: str) -> Method:
    """Return the method that takes the answer and confidence of one level."""
    return Method(Rule(partial(vanilla, level_name=level_name)), learns=False)


def _with_calibrations(name: str, learner: Learner) -> dict[str, Method]:
    return {f"{name}_{suffix}": Method(Calibrated(learner, way)) for suffix, way in CALIBRATIONS.items()}


#: All methods other than DirEAG.
SIMPLE_METHODS: Mapping[str, Method] = MappingProxyType(
    {VANILLA: vanilla_method(VANILLA)}
    | {name: Method(Rule(rule), learns=False) for name, rule in RULES.items()}
    | {name: method for rule in RULES for name, method in _with_calibrations(rule, Rule(RULES[rule])).items()}
    | {"best_level": Method(best_level)}
    | _with_calibrations("best_level", best_level)
    | {"cisc": Method(cisc)}
    | _with_calibrations("cisc", cisc)
    | {
        "vote_logistic": Method(vote_logistic),
        "level_logistic": Method(level_logistic),
        "boosted_stack": Method(boosted_stack),
        "dawid_skene": Method(dawid_skene),
        "dawid_skene_labelled": Method(dawid_skene_labelled),
        "conditional_logit": Method(conditional_logit),
    }
)

#: The default among these: every kind, with the calibration that suits few labels.
DEFAULT_SIMPLE = (
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


def fitted_methods(
    preset: Preset, fit_method: FitMethod, sampling: SamplingSettings | None, *, allow_weighted: bool = False
) -> dict[str, Method]:
    """Return the variants of DirEAG as methods, before and after the final calibration."""
    return {
        name: Method(
            FitLearner(preset, variant, fit_method, sampling, allow_weighted),
            before_calibration if column == "support" else after_calibration,
        )
        for name, (variant, column) in FITTED_METHODS.items()
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


#: The methods of a learning curve.
CURVE_METHODS: Mapping[str, Method] = MappingProxyType(dict(SIMPLE_METHODS) | preset_methods())
DEFAULT_METHODS = (
    *(name for name in DEFAULT_SIMPLE if name != "steerconf"),
    "majority_isotonic",
    "majority_beta",
    "majority_venn",
    *(name for name in CURVE_METHODS if name.startswith(("map_paper", "map_bayes"))),
)


def chosen_methods(names: Sequence[str], methods: Mapping[str, Method] = CURVE_METHODS) -> tuple[str, ...]:
    """Return the named methods in the order of the registry, each once; ``default`` stands for the default methods.

    Raises DirEAGError for an unknown name, or without names.
    """
    unknown = [name for name in names if name not in methods and name != _DEFAULT]
    if unknown or not names:
        seen = f"unknown method {unknown[0]!r}" if unknown else "no method"
        raise DirEAGError(f"saw {seen}; expected some of {_DEFAULT}, {', '.join(methods)}.")
    wanted = {*names, *(DEFAULT_METHODS if _DEFAULT in names else ())}
    return tuple(name for name in methods if name in wanted)


def is_sampled(method: str) -> bool:
    """Return whether a method needs NUTS."""
    return method.startswith("nuts_")


def suffix_of(method: str) -> str:
    """Return the suffix of a method's calibration; empty without one.

    Examples
    --------
    >>> suffix_of("majority_venn"), suffix_of("map_bayes_calibrated"), suffix_of("majority")
    ('_venn', '_calibrated', '')
    """
    endings = (CALIBRATED, *(f"_{name}" for name in CALIBRATIONS))
    return next((ending for ending in endings if method.endswith(ending)), "")
