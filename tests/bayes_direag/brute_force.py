"""The equations of the evidence model once more, one question at a time, in plain Python."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.model.settings import Preset

NULL = "null"


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


LINKS = {"softplus": softplus, "exp": math.exp, "identity": float}


def natural(raw: Mapping[str, object], preset: Preset) -> dict[str, object]:
    """Return the natural parameters by name, fixed ones included, from raw numbers and lists of them."""
    values: dict[str, object] = {
        name: getattr(preset, name).fixed
        for name in ("prior_strength", "null_base", "null_gain", "slope")
        if getattr(preset, name).fixed is not None
    }
    for name in ("weight", "bias", "slope", "prior_strength", "null_base", "null_gain"):
        if name not in raw:
            continue
        link, entries = LINKS[getattr(preset, name).link], np.asarray(raw[name])
        spread = getattr(preset, f"{name}_spread", None)
        if spread is not None:
            entries = float(raw[f"{name}_centre"]) + LINKS[spread.link](float(raw[f"{name}_spread"])) * entries
        values[name] = [link(one) for one in entries.tolist()] if entries.ndim else link(float(entries))
    return values


def raw_priors(raw: Mapping[str, object], preset: Preset, total_weight: float) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of the normal prior of each raw parameter."""
    n_raw = sum(np.size(value) for value in raw.values())
    priors = {}
    for name in raw:
        base = name.removesuffix("_centre")
        if base == name and getattr(preset, f"{name}_spread", None) is not None:
            priors[name] = 0.0, 1.0
        else:
            own = getattr(preset, base)
            implied = math.inf if preset.penalty is None else math.sqrt(n_raw / (2 * preset.penalty * total_weight))
            priors[name] = own.loc, own.scale or implied
    return priors


def reports_of(observations: Observations, question: int) -> list[tuple[int, str, float]]:
    """Return one question's usable reports: level, answer, confidence."""
    return [
        (level, observations.candidates[question][a], observations.confidence[question, level])
        for level, a in enumerate(observations.candidate[question].tolist())
        if a >= 0
    ]


def concentrations(
    reports: Sequence[tuple[int, str, float]], parameters: Mapping[str, object], eps: float
) -> dict[str, float]:
    """Return alpha by answer, the null included, from one question's (level, answer, confidence) reports."""
    weight, bias = parameters["weight"], parameters.get("bias")
    answers = sorted({answer for _, answer, _ in reports})
    share = parameters["prior_strength"] / (len(answers) + 1)
    alpha = dict.fromkeys(answers, share) | {NULL: share + parameters["null_base"]}
    for level, answer, confidence in reports:
        if bias is None:
            belief, doubt = 1.0, 0.0
        else:
            q = min(max(confidence, eps), 1 - eps)
            score = bias[level] + (parameters.get("slope") or 0.0) * math.log(q / (1 - q))
            belief, doubt = sigmoid(score), sigmoid(-score)
        alpha[answer] += weight[level] * belief
        alpha[NULL] += (parameters.get("null_gain") or 0.0) * weight[level] * doubt
    return alpha


def support(alpha: Mapping[str, float]) -> dict[str, float]:
    total = sum(alpha.values())
    return {answer: value / total for answer, value in alpha.items()}
