"""The command ``direag show``, and its tables: what a fit is, whether it converged, and what it has learned."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bayes_direag.commands.options import FitFile, JsonOption, out, plain_table, progress, titled
from bayes_direag.data.records import Status
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

if TYPE_CHECKING:
    import numpy as np

    from bayes_direag.data.observations import Observations
    from bayes_direag.fits.fit import Fit

_UNDEFINED = "\N{EN DASH}"
_SCALE_NOTE = (
    "share, relative: in units of the total weight. Multiplying weight, prior_strength and null_base by the same "
    "number changes no prediction, so compare these ratios, not the values."
)
_SCALE_NOTE_OF_LEVEL = (
    "share, relative: in units of the total weight. Variant level: the labels determine weight x sigmoid(bias) and "
    "null_gain x weight x sigmoid(-bias), up to a common scale. Only the prior determines weight, bias and null_gain "
    "themselves, and their shares."
)
_AGREEMENT_NOTE = (
    "agrees: how often a level's answer is the one that most others give, over all questions given, labelled or not. "
    "by chance: the same for answers to different questions. What lies beyond chance moves weight and vote."
)
_STATUS_HEADERS = {
    Status.USABLE: "usable",
    Status.ABSENT: "absent",
    Status.NO_ANSWER: "no\nanswer",
    Status.UNPARSABLE: "unreadable\nanswer",
    Status.NO_CONFIDENCE: "no\nconfidence",
}


def quality_table(observations: "Observations", title: str) -> Group:
    """Return the number of usable observations of each level, and of others by reason."""
    table = plain_table("level")
    for status in Status:
        table.add_column(_STATUS_HEADERS[status], justify="right")
    for name, counts in zip(observations.level_names, observations.status_counts, strict=True):
        table.add_row(Text(name), *(str(count) if count else "·" for count in counts))
    return titled(title, table, quality_sentence(observations))


def quality_sentence(observations: "Observations") -> str:
    """Say how many questions are answered, labelled, and have a right answer among the candidates."""
    sentence = (
        f"{len(observations)} questions: {observations.answered.sum()} answered, {observations.labelled.sum()} "
        f"labelled, {observations.gold_generated.sum()} with a right answer among the candidates"
    )
    if n_several := (observations.correct_candidate.sum(axis=1) > 1).sum():
        sentence += f", {n_several} with several"
    if n_conflicts := observations.conflicting.sum():
        sentence += f"; {n_conflicts} answers judged both right and wrong (the majority was taken)"
    return f"{sentence}."


def parameter_tables(fit: "Fit") -> Group:
    """Return the parameters of a fit in two tables: those of each level, and those shared by all levels.

    A parameter is given by its mean over the posterior draws, ± its standard deviation if there are several draws.
    """
    levels, shared = plain_table("level"), plain_table("parameter")
    for header in ("value", "relative"):
        shared.add_column(header, justify="right")
    columns: dict[str, list[str]] = {"weight": [], "bias": [], "share": []}
    for row in fit.parameters().to_dict("records"):
        estimate = _rounded(row["mean"]) + (f" ± {_rounded(row['sd'])}" if row["sd"] > 0 else "")
        if isinstance(row["level"], str):
            columns.setdefault(row["parameter"], []).append(estimate)
        else:
            shared.add_row(row["parameter"], estimate, _rounded(row["relative"]))
        if row["parameter"] == "weight":
            columns["share"].append(_rounded(row["relative"], 3))
    columns = {name: cells for name, cells in columns.items() if cells}
    if agreement := fit.fitted.agreement:
        columns |= {"agrees": _percents(agreement.share), "by chance": _percents(agreement.by_chance)}
    for name in columns:
        levels.add_column(name.replace("[", "\n["), justify="right", overflow="fold")
    for level, *cells in zip(fit.level_names, *columns.values(), strict=True):
        levels.add_row(Text(level), *cells)
    free = fit.variant == "level" and fit.preset.null_gain.fixed is None
    return Group(
        titled("Parameters of each level", levels, _AGREEMENT_NOTE if agreement else ""),
        titled("Parameters shared by all levels", shared, _SCALE_NOTE_OF_LEVEL if free else _SCALE_NOTE),
    )


class FitSummary(TypedDict):
    """What a fit is and how it converged, as JSON values."""

    method: str
    preset: str
    variant: str
    answers: str
    dataset: str
    model: str
    questions: int
    levels: list[str]
    agreement: NotRequired[dict[str, list[float | None]]]
    recalibration: str
    weighted: bool
    partial: bool
    converged: bool
    penalised_loss: NotRequired[float]
    projected_gradient: NotRequired[float]
    newton_steps: NotRequired[int]
    starts: NotRequired[int]
    optima: NotRequired[int]
    chains: NotRequired[int]
    draws: NotRequired[int]
    largest_rhat: NotRequired[float]
    n_apart: NotRequired[int]
    smallest_ess: NotRequired[float]
    smallest_bfmi: NotRequired[float]
    divergences: NotRequired[float]
    seed: int
    observations_sha256: str
    versions: dict[str, str]


def fit_summary(fit: "Fit") -> FitSummary:
    """Return what a fit is and how it converged: the gradient of a MAP, the chains of NUTS."""
    attributes = fit.tree.attrs
    summary = {
        "method": attributes["method"],
        "preset": label(fit.preset),
        "variant": fit.variant,
        "answers": attributes["answers"],
        "dataset": attributes["dataset"],
        "model": attributes["model"],
        "questions": fit.n_questions,
        "levels": list(fit.level_names),
        **_agreement(fit),
        "recalibration": fit.recalibration.method,
        "weighted": fit.preset.is_weighted,
        "partial": fit.partial,
        **(_sampled(fit) if attributes["method"] == "nuts" else _optimised(fit)),
        "seed": int(attributes["seed"]),
        "observations_sha256": attributes["observations_sha256"],
        "versions": json.loads(attributes["versions"]),
    }
    return cast(FitSummary, summary)


def _agreement(fit: "Fit") -> dict[str, Any]:
    agreement = fit.fitted.agreement
    if agreement is None:
        return {}
    numbers = {name: values.tolist() for name, values in agreement._asdict().items()}
    return {"agreement": {name: [None if x != x else x for x in values] for name, values in numbers.items()}}


def _optimised(fit: "Fit") -> dict[str, Any]:
    from bayes_direag.inference.map import GRADIENT_TOLERANCE

    stats = fit.tree["sample_stats"].to_dataset()
    gradient = float(stats["projected_gradient"].max())
    return {
        "converged": gradient <= GRADIENT_TOLERANCE,
        "penalised_loss": float(stats["loss"].mean()),
        "projected_gradient": gradient,
        "newton_steps": int(stats["n_steps"].max()),
        "starts": int(stats["n_starts"].max()),
        "optima": int(stats["n_optima"].max()),
    }


def _sampled(fit: "Fit") -> dict[str, Any]:
    from bayes_direag.fits.convergence import sampler_summary

    summary = sampler_summary(fit)
    return {"converged": summary.converged, "draws": fit.tree["posterior"].sizes["draw"], **summary._asdict()}


def summary_table(fit: "Fit", title: str) -> Group:
    """Return :func:`fit_summary` as a table in words."""
    summary = fit_summary(fit)
    sampled = summary["method"] == "nuts"
    if sampled:
        calibrated_on = "leave-one-out support"
    elif fit.calibrated_on:
        calibrated_on = f"{len(fit.calibrated_on)} questions kept apart"
    else:
        n_folds = fit.preset.recalibration.out_of_fold
        calibrated_on = f"out-of-fold support, {n_folds} folds" if n_folds else "the questions fitted to"
    recalibration = summary["recalibration"]
    rows = {
        "method": "NUTS, the whole posterior" if sampled else "MAP, the mode of the posterior",
        "evidence": f"variant {summary['variant']}, preset {summary['preset']}",
        "learned from": f"{summary['questions']} questions with {summary['answers']} answers",
        "dataset, model": f"{summary['dataset']}; {summary['model']}",
        "levels": f"{len(summary['levels'])}: {', '.join(summary['levels'])}",
        "recalibration": recalibration if recalibration == "none" else f"{recalibration}, on {calibrated_on}",
    }
    if fit.older is not None:
        counts = len(fit.older.observations) * fit.older.weight
        rows["older labels"] = f"{len(fit.older.observations):,} questions, which count {counts:.0f} together"
    if fit.partial:
        rows["partial fit"] = "each question whole, and in copies with some of its reports"
    if summary["weighted"]:
        rows["NOTE"] = "questions are weighted unequally: intervals and leave-one-out figures mean nothing"
    if len(fit.fitted.signals) > 1:
        rows["signals"] = ", ".join(fit.fitted.signal_names)
    if note := _voting_note(fit.fitted):
        rows["votes"] = note
    converged = "yes" if summary["converged"] else "NO"
    if sampled:
        from bayes_direag.fits.convergence import SamplerSummary

        worst = SamplerSummary(
            summary["chains"],
            summary["largest_rhat"],
            summary["n_apart"],
            summary["smallest_ess"],
            summary["smallest_bfmi"],
            summary["divergences"],
        )
        rows["converged"] = f"{converged}: {worst}"
        rows["draws"] = f"{summary['draws']} of each of {summary['chains']} chains"
    else:
        gradient, n_steps = summary["projected_gradient"], summary["newton_steps"]
        rows["converged"] = f"{converged}: the largest gradient is {gradient:.1g} after {n_steps} Newton steps"
        rows["penalised loss"] = f"{summary['penalised_loss']:.6f}{_searched(summary, fit.preset)}"
    rows |= {
        "seed": str(summary["seed"]),
        "observations": f"SHA-256 {summary['observations_sha256'][:16]}…",
        "versions": ", ".join(f"{name} {number}" for name, number in summary["versions"].items()),
    }
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value))
    return titled(title, table)


def _searched(summary: FitSummary, preset: Preset) -> str:
    """Say which optimum was found, if there may be several."""
    if summary["starts"] > 1:
        lowest = f"the lowest of {summary['optima']} optima" if summary["optima"] > 1 else "one optimum"
        return f", {lowest} from {summary['starts']} starts"
    if preset.penalty is None:
        return ""
    return f", from the {'released' if preset.is_bounded else 'usual'} start alone: there may be lower optima"


def _percents(shares: "np.ndarray") -> list[str]:
    return [_UNDEFINED if math.isnan(share) else f"{share:.0%}" for share in shares]


def _rounded(value: float, decimals: int = 4) -> str:
    return _UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"


def show_command(fit: FitFile, as_json: JsonOption = False) -> None:
    """Show what a fit has learned, level by level, and whether it converged.

    Example: direag show fit.nc
    """
    with progress() as step:
        step(f"reading {fit}")
        from bayes_direag.fits.fit import Fit

        learned = Fit.load(fit)
    show_fit(learned, fit, as_json=as_json)


def show_fit(fit: "Fit", path: Path, *, as_json: bool) -> None:
    """Print what a fit is and what it has learned, as tables or as JSON."""
    from bayes_direag.data.files import as_records

    if as_json:
        summary = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fit_summary(fit).items()
        }
        values = {"fit": str(path), **summary, "parameters": as_records(fit.parameters())}
        out.print_json(data=values, allow_nan=False)
        return
    out.print(summary_table(fit, str(path)), parameter_tables(fit))


def show_quality(observations: "Observations", path: Path, *, inferred: bool, by_level: bool = True) -> None:
    """Print how many observations are usable, and how answers are compared."""
    how = " (inferred from the gold answers)" if inferred else ""
    title = f"{path}: {observations.kind} answers{how}"
    if by_level:
        out.print(quality_table(observations, title))
    else:
        out.print(f"{title}. {quality_sentence(observations)}\n")


def show_remarks(observations: "Observations", labels: Path | None = None) -> None:
    """Print what stands out in observations, and in labels that were read beside them."""
    from bayes_direag.data.remarks import level_remarks, name_remarks

    notes = [_voting_note(observations), *level_remarks(observations), *name_remarks(observations)]
    notes += [] if labels is None else [_labels_note(observations, labels)]
    if len(observations.signals) > 1:
        names = observations.signal_names
        notes.insert(0, f"Signals of a report: {', '.join(names)}. Presets paper and release use {names[0]} alone.")
    for note in filter(None, notes):
        out.print(f"{note}\n")


def _labels_note(observations: "Observations", labels: Path) -> str:
    """Say to how many labelled questions no report gave the right answer; empty if there are none."""
    known = observations.labelled & observations.answered
    n = int((known & ~observations.gold_generated).sum())
    if not n:
        return ""
    return (
        f"{labels.name}: to {n} of {known.sum()} labelled questions no report gives the right answer. If that is more "
        "than you expect, look at how the right answers are written."
    )


def _voting_note(observations: "Observations") -> str:
    """Say how reports of levels that only vote count; empty if there are none."""
    if not observations.voting:
        return ""
    if len(observations.voting) == len(observations.learned_levels):
        return "No report states a confidence, so each counts by its level alone."
    return f"These levels state no confidence, so their reports count by level alone: {', '.join(observations.voting)}."
