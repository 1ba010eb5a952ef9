"""The equations of the evidence model once more, one question at a time, in plain Python."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.model.settings import Preset

NULL = "null"

PARAMETERS = (
    *("weight", "bias", "slope", "prior_strength", "null_base", "null_gain"),
    *("sharpness", "vote", "vote_slope"),
)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def logit(confidence: float, eps: float) -> float:
    q = min(max(confidence, eps), 1 - eps)
    return math.log(q / (1 - q))


LINKS = {"softplus": softplus, "exp": math.exp, "identity": float}


def natural(raw: Mapping[str, object], preset: Preset, agreement: Sequence[float] | None = None) -> dict[str, object]:
    """Return the natural parameters by name, fixed ones included, from raw numbers and lists of them."""
    values: dict[str, object] = {}
    for name in PARAMETERS:
        own = getattr(preset, name)
        if own is not None and own.fixed is not None:
            values[name] = own.fixed
        if name not in raw:
            continue
        link, entries = LINKS[own.link], np.asarray(raw[name])
        spread = getattr(preset, f"{name}_spread", None)
        if spread is not None:
            centre = float(raw[f"{name}_centre"])
            if agreement is not None and f"{name}_agreement" in raw:
                centre = centre + float(raw[f"{name}_agreement"]) * np.asarray(agreement)
            entries = centre + LINKS[spread.link](float(raw[f"{name}_spread"])) * entries
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
            score = bias[level] + (parameters.get("slope") or 0.0) * logit(confidence, eps)
            belief, doubt = sigmoid(score), sigmoid(-score)
        alpha[answer] += weight[level] * belief
        alpha[NULL] += (parameters.get("null_gain") or 0.0) * weight[level] * doubt
    return alpha


def scores(reports: Sequence[tuple[int, str, float]], parameters: Mapping[str, object], eps: float) -> dict[str, float]:
    """Return what the probability of each answer, and of the null, is proportional to: sharpened alpha, with votes."""
    sharpness, vote = parameters.get("sharpness"), parameters.get("vote")
    alpha = concentrations(reports, parameters, eps)
    found = {state: value ** (1.0 if sharpness is None else sharpness) for state, value in alpha.items()}
    for level, answer, confidence in reports:
        constant = 0.0 if vote is None else vote[level]
        found[answer] *= math.exp(constant + (parameters.get("vote_slope") or 0.0) * logit(confidence, eps))
    return found


def support(scores: Mapping[str, float]) -> dict[str, float]:
    total = sum(scores.values())
    return {answer: value / total for answer, value in scores.items()}


def null_probability(support: dict[str, float], selected: str, probability: float) -> float:
    """What is left for the null when the others share what the selected answer leaves, none getting more than it."""
    rest = 1 - support[selected]
    shares = [value * (1 - probability) / rest for answer, value in support.items() if answer not in (selected, NULL)]
    return 1 - probability - sum(min(share, probability) for share in shares)
