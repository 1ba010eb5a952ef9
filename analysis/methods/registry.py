"""All methods by name: the only list of them.

``_platt`` names Platt scaling of a simpler method's confidences on the labelled questions
(:mod:`analysis.methods.calibrations`), ``_calibrated`` the final calibration of a fit.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from analysis.methods.calibrations import Calibrated
from analysis.methods.conditional_logit import CONDITIONAL_LOGIT
from analysis.methods.direag import FITTED_METHODS
from analysis.methods.label_logistic import LABEL_LOGISTIC
from analysis.methods.method import Method
from analysis.methods.rules import RULES, SAMPLED_METHODS, VANILLA, vanilla_method
from analysis.methods.votes import BOOSTED_STACK, VOTE_LOGISTIC


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
        "label_logistic": LABEL_LOGISTIC,
    }
)

#: Every method of an evaluation, in the order of its tables.
METHODS: Mapping[str, Method] = MappingProxyType(
    {VANILLA: SIMPLE_METHODS[VANILLA], **SAMPLED_METHODS, **SIMPLE_METHODS, **FITTED_METHODS}
)


def spoken(name: str) -> str:
    """Return the name of a method of an evaluation in a sentence."""
    return METHODS[name].spoken if name in METHODS else f"method {name}"


def method_words(name: str) -> str:
    """Say what a method of an evaluation does."""
    return METHODS[name].words if name in METHODS else "not known to this report"
