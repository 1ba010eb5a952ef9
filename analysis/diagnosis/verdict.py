"""The figures of a diagnosis and what they mean, in plain words: what is fine, what is not, what to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from analysis.diagnosis.checks import (
    ALL_QUESTIONS,
    CalibrationCheck,
    LeaveOneOutCheck,
    PredictiveChecks,
)
from analysis.diagnosis.identifiability import FlatDirection, parameter_labels
from analysis.diagnosis.prior_sensitivity import PREDICTED, SENSITIVE
from analysis.display.document import Severity
from bayes_direag.fits.convergence import (
    BFMI_LIMIT,
    ESS_PER_CHAIN,
    MAX_TREE_DEPTH,
    RHAT_LIMIT,
    SamplerSummary,
    convergence_verdict,
    is_apart,
)
from bayes_direag.inference.loo import LARGEST_PARETO_K
from bayes_direag.model.settings import SamplingSettings

#: Below this contraction the labels have taught next to nothing.
SMALLEST_CONTRACTION = 0.1
#: A posterior mean that is more prior standard deviations from the prior's centre contradicts the prior.
LARGEST_PRIOR_Z = 3.0
#: If one posterior sd along a direction moves the log-likelihood by less, the prior alone (or mostly) determines it.
HELD_BY_PRIOR, MOSTLY_HELD_BY_PRIOR = 0.1, 0.5
#: The smallest loading that is named, for a single parameter and for all levels together.
_NAMED, _ALIKE = 0.2, 0.1
#: Below this joint tail probability of all comparisons, chance is not an explanation.
SMALLEST_TAIL = 0.01


@dataclass(frozen=True)
class Finding:
    """One sentence of the verdict: after a failure the draws cannot be trusted, a warning asks for care."""

    status: Severity
    topic: str
    text: str


_fine, _warning, _failure = partial(Finding, "fine"), partial(Finding, "warning"), partial(Finding, "failure")

#: The warning about a weighted likelihood.
WEIGHTED = _warning(
    "likelihood",
    "The preset weighs questions unequally, which is not a probability model: intervals, predictive checks and "
    "leave-one-out figures have no meaning here. Only the sampling itself is judged. For a posterior with a meaning "
    "set null_target_weight to 1.",
)

#: The warning about copies of questions with fewer reports.
COMPOSITE = _warning(
    "likelihood",
    "The fit is partial: copies of a question, with some of its reports, count as one question together but are not "
    "independent. The draws are of a composite posterior, whose intervals are approximate.",
)


def sampling_findings(parameters: pd.DataFrame, chains: pd.DataFrame, sampling: SamplingSettings) -> Iterator[Finding]:
    """Say whether the fit has converged, and of each fault where it is and what to do; NaN counts as one."""
    labels, summary = parameter_labels(parameters), SamplerSummary.of(parameters, chains)
    yield Finding("fine" if summary.converged else "failure", "sampling", convergence_verdict(summary))
    yield from _rhat(parameters, labels, sampling)
    yield from _ess(parameters, labels, sampling, ESS_PER_CHAIN * len(chains))
    yield from _divergences(parameters, chains, sampling)
    slow = ~(chains["bfmi"] > BFMI_LIMIT).to_numpy()
    if chains["bfmi"].isna().all():
        unknown = "Whether the energy moves is not known: BFMI is undefined, as its energies are not recorded or"
        yield _failure("energy", f"{unknown} never move.")
    elif slow.any():
        least = chains["bfmi"].to_numpy().min()
        seen = "undefined" if np.isnan(least) else f"{least:.2f}"
        yield _failure(
            "energy",
            f"The energy hardly moves in chain {_first_names(chains['chain'][slow])}: BFMI is {seen} (above "
            f"{BFMI_LIMIT} expected), so the tails of the posterior are badly explored. Fit again with "
            f"{_longer(sampling)}; if it stays, with {_easier(parameters)}.",
        )
    cut = float((chains["at_max_depth"] * chains["draws"]).sum() / chains["draws"].sum())
    if cut > 0:
        yield _warning(
            "tree depth",
            f"{cut:.1%} of the trajectories were cut at depth {MAX_TREE_DEPTH}: the draws are valid, but slow to mix.",
        )


def learning_findings(parameters: pd.DataFrame, flat: FlatDirection) -> Iterator[Finding]:
    """Judge what the labels have taught, and what only the prior determines."""
    labels, contraction = parameter_labels(parameters), parameters["contraction"]
    untaught = ~(contraction >= SMALLEST_CONTRACTION).to_numpy()
    if untaught.any():
        yield _warning(
            "learning",
            f"The labels have taught next to nothing about {_first_names(labels[untaught])} (contraction below "
            f"{SMALLEST_CONTRACTION}): there the posterior is still the prior. More labelled questions would help.",
        )
    else:
        least = int(contraction.argmin())
        yield _fine(
            "learning",
            f"The labels have taught something about every parameter; least about {labels.iloc[least]} (contraction "
            f"{contraction.iloc[least]:.2f}).",
        )
    far = (parameters["z_score"].abs() > LARGEST_PRIOR_Z).to_numpy()
    if far.any():
        yield _warning(
            "prior",
            f"The posterior of {_first_names(labels[far])} lies more than {LARGEST_PRIOR_Z:g} prior standard "
            "deviations from the prior's centre: prior and labels disagree. See what a wider prior gives "
            "(--set NAME.scale=...).",
        )
    yield _flat_finding(flat)


def sensitivity_finding(sensitivity: pd.DataFrame) -> Finding:
    """Say whether priors or labels decide what is predicted, and which quantities they pull on."""
    table = sensitivity.set_index("quantity")
    prior, labels = table.loc[PREDICTED, ["prior", "likelihood"]].to_numpy(float)
    if np.isnan(prior) or np.isnan(labels):
        return _warning("prior sensitivity", "How far the priors matter is undefined: draws not finite.")
    more = "more than" if prior < labels else "no more than"
    text = (
        f"The labels move the {PREDICTED} {more} the priors do (sensitivity {labels:.2f}, {prior:.2f}; below "
        f"{SENSITIVE} is none)."
    )
    by_prior = (table["prior"] > SENSITIVE) & (table.index != PREDICTED)
    by_labels = table["likelihood"] > SENSITIVE
    if (both := by_prior & by_labels).any():
        text += (
            f" Priors and labels both move {_first_names(table.index[both].to_series())}. ArviZ calls that a potential "
            "prior-data conflict; here it says that these are compromises of the labels with what other panels have "
            "taught, and may trade off with each other. It is no fault of the fit: do not read them as facts of these "
            "levels alone."
        )
    if (alone := by_prior & ~by_labels).any():
        text += f" The priors decide {_first_names(table.index[alone].to_series())}: the labels say little about it."
    return Finding("fine" if prior < labels else "warning", "prior sensitivity", text)


def variance_in_words(left: float) -> str:
    """Say how much of the prior's variance labels have left."""
    if left > 1:
        return f"the labels have removed none of the prior's variance (it is {left:.1f} times as large)"
    return f"{left:.0%} of the prior's variance is left"


def predictive_finding(checks: PredictiveChecks) -> Finding:
    """Judge whether the model predicts such labels, over all questions and by pattern of agreement."""
    table, together = checks.table, f"all comparisons together: {tail_in_words(checks.tail_probability)}"
    everywhere = table["pattern"] == ALL_QUESTIONS
    out = ((table["observed"] - table["predicted"]) / (table["high"] - table["low"]).replace(0, np.nan)).abs()
    if (table.loc[everywhere, "tail_probability"] < SMALLEST_TAIL).any():
        worst = table[everywhere].iloc[int(out[everywhere].argmax())].to_dict()
        where = f"all {worst['n']} questions"
    elif checks.tail_probability < SMALLEST_TAIL:
        worst = table[~everywhere].iloc[int(out[~everywhere].argmax())].to_dict()
        where = f"the {worst['n']} questions where the levels agree {worst['pattern']}"
    else:
        low, high = table.loc[everywhere & (table["statistic"] == "accuracy"), ["low", "high"]].iloc[0]
        text = (
            f"No departure of the labels from the model's predictions was found ({together}): they could be right in "
            f"{low:.0%} to {high:.0%} of all questions and look no different."
        )
        return _fine("predictive", text)
    what = "the selected answer is right" if worst["statistic"] == "accuracy" else "no candidate is right"
    return _warning(
        "predictive",
        f"The labels are not as the model predicts them ({together}). For one, {what} in {worst['observed']:.0%} of "
        f"{where}; {worst['low']:.0%} to {worst['high']:.0%} expected.",
    )


def calibration_finding(name: str, checks: Mapping[str, CalibrationCheck], n_several_correct: int) -> Finding:
    """Judge whether leave-one-out support, or the confidence computed from it, is calibrated."""
    calibration = checks[name].calibration
    if checks[name].n_undefined:
        text = f"{name.capitalize()} is undefined for {checks[name].n_undefined} questions: draws not finite."
        return _warning("calibration", text)
    if calibration.verdict != "off":
        status: Severity = "fine" if calibration.verdict == "none found" else "warning"
        return Finding(status, "calibration", calibration.sentence(name))
    if name == "support" and n_several_correct:
        why = f" In {n_several_correct} questions several answers are right, and support counts the selected one alone."
    else:
        why = ""
    if name == "support" and len(checks) > 1:
        advice = "The final calibration corrects this: use confidence, and see the next finding."
    else:
        advice = "Take it with care; `direag evaluate --fit-method nuts` shows other methods on the same questions."
    return _warning("calibration", f"{calibration.sentence(name)}{why} {advice}")


def loo_finding(loo: LeaveOneOutCheck) -> Finding:
    """Judge whether the leave-one-out figures are reliable without refits."""
    figures = f"(elpd {loo.elpd:.1f} ± {loo.se:.1f}, p_loo {loo.p_loo:.1f})"
    if not loo.n_bad:
        text = f"The leave-one-out figures hold {figures}: no Pareto k of {loo.n} exceeds {LARGEST_PARETO_K}."
        return _fine("leave-one-out", text)
    also = f" ({loo.n_undefined} of them undefined)" if loo.n_undefined else ""
    return _warning(
        "leave-one-out",
        f"Pareto k exceeds {LARGEST_PARETO_K} for {loo.n_bad} of {loo.n} questions{also}, first of all "
        f"{', '.join(loo.worst)}: such a question moves the posterior much on its own, "
        f"and its leave-one-out figures {figures} are not to be relied on. Look at these questions; leave them out and "
        "fit again to see what they change.",
    )


def tail_in_words(tail: float) -> str:
    """Return a tail probability as text; below 0.001, draws cannot tell it from 0."""
    return f"tail probability {'below 0.001' if tail < 0.001 else f'{tail:.3f}'}"


def _rhat(parameters: pd.DataFrame, labels: pd.Series, sampling: SamplingSettings) -> Iterator[Finding]:
    rhat, apart = parameters["rhat"], is_apart(parameters)
    where = int(np.argmax(np.where(apart, rhat.fillna(np.inf), -np.inf))) if apart.any() else int(rhat.argmax())
    if apart.any():
        seen = "undefined" if np.isnan(rhat.iloc[where]) else f"{rhat.iloc[where]:.4g}"
        cause = " (draws that do not move or are not finite, or a single chain)" if seen == "undefined" else ""
        yield _failure(
            "R-hat",
            f"The chains do not agree on {apart.sum()} of {len(rhat)} parameters: R-hat of {labels.iloc[where]} is "
            f"{seen}{cause}; below {RHAT_LIMIT} expected. Fit again with {_longer(sampling)}; if that does not help, "
            f"the chains sit in different places: {_easier(parameters)}.",
        )
    elif rhat.iloc[where] >= RHAT_LIMIT:
        yield _warning(
            "R-hat",
            f"Too few draws to tell whether the chains agree: R-hat of {labels.iloc[where]} is {rhat.iloc[where]:.3f}; "
            f"below {RHAT_LIMIT} expected, but of {len(rhat)} parameters chance alone takes it to "
            f"{parameters['rhat_by_chance'].iloc[where]:.3f}. To be sure, fit again with {_longer(sampling)}.",
        )


def _ess(parameters: pd.DataFrame, labels: pd.Series, sampling: SamplingSettings, enough: float) -> Iterator[Finding]:
    smallest = parameters[["ess_bulk", "ess_tail"]].min(axis=1, skipna=False)
    few = ~(smallest > enough).to_numpy()
    if not few.any():
        return
    where = int(np.argmin(np.where(smallest.isna(), -np.inf, smallest)))
    seen = smallest.iloc[where]
    if np.isnan(seen):
        number, advice = "an undefined number", _longer(sampling)
    else:
        needed = sampling.n_draws * min(max(1.25 * enough / seen, 1.5), 10.0)
        number, advice = f"{seen:.0f}", f"--draws {int(-(-needed // 500) * 500)}"
    yield _failure(
        "draws",
        f"There are too few independent draws of {few.sum()} of {len(labels)} parameters: {number} of "
        f"{labels.iloc[where]}; above {enough:.0f} expected. Fit again with {advice}.",
    )


def _divergences(parameters: pd.DataFrame, chains: pd.DataFrame, sampling: SamplingSettings) -> Iterator[Finding]:
    n, of = chains["divergences"].to_numpy().sum(), int(chains["draws"].sum())
    if np.isnan(n):
        text = "How many draws diverged is not recorded. Collect it with the draws, as `direag fit --method nuts` does."
        yield _failure("divergences", text)
    elif n:
        first = "" if sampling.target_accept >= 0.99 else "--target-accept 0.99; if some remain, with "
        yield _failure(
            "divergences",
            f"{n} of {of} draws diverged (none expected): a part of the posterior was not explored, and the draws lean "
            f"away from it. Fit again with {first}{_easier(parameters)}.",
        )


def _longer(sampling: SamplingSettings) -> str:
    return f"--warmup {max(2 * sampling.n_warmup, 1000)} --draws {max(2 * sampling.n_draws, 1000)}"


def _easier(parameters: pd.DataFrame) -> str:
    """Return advice for a posterior that is easier to sample; ``bayes`` only if levels are not pooled yet."""
    pooled = parameters["parameter"].str.endswith("_spread").any()
    return "more labelled questions" if pooled else "--preset bayes, or more labelled questions"


def _flat_finding(flat: FlatDirection) -> Finding:
    if np.isnan(flat.variance_left):
        return _warning("flat direction", "What the labels constrain least is undefined: draws not finite.")
    left = variance_in_words(flat.variance_left)
    least = f"The labels constrain least: {direction_in_words(flat.loadings)}. There {left}."
    change = flat.likelihood_change
    if change < HELD_BY_PRIOR:
        held = "the prior alone determines it"
    elif change < MOSTLY_HELD_BY_PRIOR:
        held = "the prior mostly determines it"
    else:
        held = "the labels determine it" if flat.variance_left < 0.5 else "labels and prior determine it together"
    status: Severity = "warning" if change < HELD_BY_PRIOR else "fine"
    moves = f"One posterior standard deviation along it moves the log-likelihood by {change:.1f} nats: {held}."
    return Finding(status, "flat direction", f"{least} {moves}")


def direction_in_words(loadings: pd.DataFrame, most: int = 4) -> str:
    """Name the parameters of a direction, the largest loading first; levels that all move together are named once."""
    parts: dict[str, float] = {}
    for name, group in loadings.groupby("parameter", sort=False):
        values = group["loading"].to_numpy()
        if len(values) > 1 and (np.all(values >= _ALIKE) or np.all(values <= -_ALIKE)):
            parts[f"{name} of every level"] = float(np.sign(values[0]) * np.linalg.norm(values))
        else:
            parts |= dict(zip(parameter_labels(group), values.tolist(), strict=True))
    ordered = sorted(parts.items(), key=lambda item: -abs(item[1]))
    words = [f"{name} {'up' if loading > 0 else 'down'}" for name, loading in ordered if abs(loading) >= _NAMED]
    return ", ".join(words[:most])


def _first_names(names: pd.Series, most: int = 4) -> str:
    shown = ", ".join(str(name) for name in names.iloc[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
