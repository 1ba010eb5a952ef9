"""The equations of the evidence model once more, one question at a time, in plain Python."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import natural_draws
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


def over_signals(slope: float | Sequence[float] | None, stated: float | Sequence[float], eps: float) -> float:
    """Return the sum over signals of slope times logit; a signal that is missing (NaN) adds nothing."""
    pairs = [] if slope is None else zip(np.atleast_1d(slope), np.atleast_1d(stated), strict=True)
    return sum(own * logit(q, eps) for own, q in pairs if q == q)


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


def of_map(fit: Fit) -> dict[str, object]:
    """Return the natural parameters of a MAP; votes by label by level and label."""
    posterior = natural_draws(fit.tree).isel(chain=0, draw=0)
    values = {name: posterior[name].to_numpy().tolist() for name in fit.preset.parameters(fit.variant)}
    if "label_vote" in values:
        votes, labels = values["label_vote"], posterior["label"].to_numpy().tolist()
        values["label_vote"] = {
            (k, label): vote for k, own in enumerate(votes) for label, vote in zip(labels, own, strict=True)
        }
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
    """Return one question's usable reports: level, answer, the confidence of each signal."""
    stated = np.stack([*observations.signals.values()], axis=2)[question]
    return [
        (level, observations.candidates[question][a], stated[level])
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
            score = bias[level] + over_signals(parameters.get("slope"), confidence, eps)
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
        constant += (parameters.get("label_vote") or {}).get((level, answer), 0.0)
        found[answer] *= math.exp(constant + over_signals(parameters.get("vote_slope"), confidence, eps))
    return found


def support(scores: Mapping[str, float]) -> dict[str, float]:
    total = sum(scores.values())
    return {answer: value / total for answer, value in scores.items()}


def null_probability(support: dict[str, float], selected: str, probability: float) -> float:
    """What is left for the null when the others share what the selected answer leaves, none getting more than it."""
    rest = 1 - support[selected]
    shares = [value * (1 - probability) / rest for answer, value in support.items() if answer not in (selected, NULL)]
    return 1 - probability - sum(min(share, probability) for share in shares)
