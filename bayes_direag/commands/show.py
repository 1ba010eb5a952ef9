"""What a fit is, whether it converged, what it has learned and from what: as tables, and as ``direag show``."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bayes_direag.commands.multi_setting import show_multi_setting
from bayes_direag.commands.options import FitFile, JsonOption, out, plain_table, titled
from bayes_direag.data.records import Status
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations
    from bayes_direag.data.quality import ObservationQuality
    from bayes_direag.fits.fit import Fit

_UNDEFINED = "\N{EN DASH}"
_SCALE_NOTE = (
    "share, relative: in units of the total weight. Multiplying weight, prior_strength and null_base by one number "
    "changes no prediction, so compare these ratios, not the values."
)
_SCALE_NOTE_OF_LEVEL = (
    "share, relative: in units of the total weight. Variant level: the labels determine weight x sigmoid(bias) and "
    "null_gain x weight x sigmoid(-bias), up to a common scale. Only the prior determines weight, bias and null_gain "
    "themselves, and their shares."
)
_STATUS_HEADERS = {
    Status.USABLE: "usable",
    Status.ABSENT: "absent",
    Status.NO_ANSWER: "no\nanswer",
    Status.UNPARSABLE: "unreadable\nanswer",
    Status.NO_CONFIDENCE: "no\nconfidence",
}


def quality_table(quality: "ObservationQuality", title: str) -> Group:
    """Return how many observations of each level are usable, and why the others are not."""
    caption = (
        f"{quality.n_questions} questions: {quality.n_answered} answered, {quality.n_labelled} labelled, "
        f"{quality.n_gold_generated} with a right answer among the candidates"
    )
    if quality.n_several_correct:
        caption += f", {quality.n_several_correct} with several"
    if quality.n_conflicts:
        caption += f"; {quality.n_conflicts} answers judged both right and wrong (the majority was taken)"
    table = plain_table("level")
    for status in Status:
        table.add_column(_STATUS_HEADERS[status], justify="right")
    for name, counts in zip(quality.level_names, quality.counts, strict=True):
        table.add_row(Text(name), *(str(count) if count else "·" for count in counts))
    return titled(title, table, f"{caption}.")


def parameter_tables(fit: "Fit") -> Group:
    """Return the parameters of a fit: those that each level has, level by level, then the others.

    A parameter is given by its mean over the posterior draws, and ± its standard deviation where there is more
    than one draw.
    """
    rows = fit.parameters().to_dict("records")
    levels, single = plain_table("level"), plain_table("parameter")
    columns: dict[str, list[str]] = {"weight": [], "bias": [], "share": []}
    columns |= {
        row["parameter"]: [] for row in rows if isinstance(row["level"], str) and row["parameter"] not in columns
    }
    for header in ("value", "relative"):
        single.add_column(header, justify="right")
    for row in rows:
        estimate = _estimate(row["mean"], row["sd"])
        if not isinstance(row["level"], str):
            single.add_row(row["parameter"], estimate, _number(row["relative"]))
        else:
            columns[row["parameter"]].append(estimate)
        if row["parameter"] == "weight":
            columns["share"].append(_number(row["relative"], 3))
    given = {name: cells for name, cells in columns.items() if cells}
    for name in given:
        levels.add_column(name.replace("[", "\n["), justify="right", overflow="fold")
    for level, *cells in zip(fit.level_names, *given.values(), strict=True):
        levels.add_row(Text(level), *cells)
    free = fit.variant == "level" and fit.preset.null_gain.fixed is None
    return Group(
        titled("Parameters of each level", levels),
        titled("Parameters shared by all levels", single, _SCALE_NOTE_OF_LEVEL if free else _SCALE_NOTE),
    )


class FitSummary(TypedDict):
    """What a fit is and how it converged, as JSON can hold it."""

    method: str
    preset: str
    variant: str
    answers: str
    dataset: str
    model: str
    questions: int
    levels: list[str]
    recalibration: str
    weighted: bool
    converged: bool
    penalised_loss: NotRequired[float]
    projected_gradient: NotRequired[float]
    newton_steps: NotRequired[int]
    starts: NotRequired[int]
    optima: NotRequired[int]
    chains: NotRequired[int]
    draws: NotRequired[int]
    largest_rhat: NotRequired[float]
    smallest_ess: NotRequired[float]
    smallest_bfmi: NotRequired[float]
    divergences: NotRequired[float]
    seed: int
    observations_sha256: str
    versions: dict[str, str]


def fit_summary(fit: "Fit") -> FitSummary:
    """Say what a fit is and how it converged: a MAP by its gradient, NUTS by its chains."""
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
        "recalibration": fit.recalibration.method,
        "weighted": fit.preset.is_weighted,
        **(_sampled(fit) if attributes["method"] == "nuts" else _optimised(fit)),
        "seed": int(attributes["seed"]),
        "observations_sha256": attributes["observations_sha256"],
        "versions": json.loads(attributes["versions"]),
    }
    return cast(FitSummary, summary)


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

    summary, sizes = sampler_summary(fit), fit.tree["posterior"].sizes
    return {"converged": summary.converged, "chains": sizes["chain"], "draws": sizes["draw"], **summary._asdict()}


def summary_table(fit: "Fit", title: str) -> Group:
    """Return :func:`fit_summary` in words."""
    summary = fit_summary(fit)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    sampled = summary["method"] == "nuts"
    inner = fit.preset.recalibration.out_of_fold
    where = f"out-of-fold support, {inner} folds" if inner else "the questions fitted to"
    where = f"{len(fit.calibrated_on)} questions kept apart" if fit.calibrated_on else where
    where = "leave-one-out support" if sampled else where
    method = summary["recalibration"]
    rows = {
        "method": "NUTS, the whole posterior" if sampled else "MAP, the mode of the posterior",
        "evidence": f"variant {summary['variant']}, preset {summary['preset']}",
        "learned from": f"{summary['questions']} questions with {summary['answers']} answers",
        "dataset, model": f"{summary['dataset']}; {summary['model']}",
        "levels": f"{len(summary['levels'])}: {', '.join(summary['levels'])}",
        "recalibration": method if method == "none" else f"{method}, on {where}",
    }
    if summary["weighted"]:
        rows["NOTE"] = "questions are weighted unequally: intervals and leave-one-out figures mean nothing"
    if fit.fitted.signals:
        rows["signals"] = ", ".join(fit.fitted.signal_names)
    if note := voting_note(fit.fitted):
        rows["votes"] = note
    rows["converged"] = f"{'yes' if summary['converged'] else 'NO'}: {_reached(summary)}"
    if sampled:
        rows["draws"] = f"{summary['draws']} of each of {summary['chains']} chains"
    else:
        rows["penalised loss"] = f"{summary['penalised_loss']:.6f}{_searched(summary, fit.preset)}"
    rows |= {
        "seed": str(summary["seed"]),
        "observations": f"SHA-256 {summary['observations_sha256'][:16]}…",
        "versions": ", ".join(f"{name} {number}" for name, number in summary["versions"].items()),
    }
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), Text(value))
    return titled(title, table)


def _reached(summary: FitSummary) -> str:
    from bayes_direag.fits.convergence import SamplerSummary

    if summary["method"] == "nuts":
        return str(
            SamplerSummary(
                summary["largest_rhat"], summary["smallest_ess"], summary["smallest_bfmi"], summary["divergences"]
            )
        )
    return f"the largest gradient is {summary['projected_gradient']:.1g} after {summary['newton_steps']} Newton steps"


def _searched(summary: FitSummary, preset: Preset) -> str:
    """Say which optimum it is, where there may be several."""
    if summary["starts"] > 1:
        lowest = f"the lowest of {summary['optima']} optima" if summary["optima"] > 1 else "one optimum"
        return f", {lowest} from {summary['starts']} starts"
    if preset.penalty is None:
        return ""
    return f", from the {'released' if preset.is_bounded else 'usual'} start alone: there may be lower optima"


def _estimate(mean: float, sd: float) -> str:
    return _number(mean) if math.isnan(sd) or sd == 0 else f"{_number(mean)} ± {_number(sd)}"


def _number(value: float, decimals: int = 4) -> str:
    return _UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"


def show_command(fit: FitFile, as_json: JsonOption = False) -> None:
    """Show what a fit has learned, level by level, and whether it converged.

    Example: direag show fit.nc
    """
    from bayes_direag.fits.fit import Fit
    from bayes_direag.fits.multi_setting import MultiSettingFit, is_multi_setting

    if is_multi_setting(fit):
        show_multi_setting(MultiSettingFit.load(fit), fit, as_json=as_json)
    else:
        show_fit(Fit.load(fit), fit, as_json=as_json)


def show_fit(fit: "Fit", path: Path, *, as_json: bool) -> None:
    """Print what a fit is and what it has learned, or the same as JSON."""
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


def show_quality(observations: "Observations", path: Path, *, inferred: bool) -> None:
    """Say what is usable in observations, how their answers are compared, and which levels stand out."""
    from bayes_direag.data.quality import level_remarks

    how = " (inferred from the gold answers)" if inferred else ""
    counted = "" if observations.multiplicity is None else f", counted by pattern: {len(observations):,}"
    out.print(quality_table(observations.quality(), f"{path}: {observations.kind} answers{how}{counted}"))
    for note in filter(None, (signals_note(observations), voting_note(observations), *level_remarks(observations))):
        out.print(f"{note}\n", soft_wrap=True)


def signals_note(observations: "Observations") -> str:
    """Say which signals reports carry; nothing if there is one."""
    first, *further = observations.signal_names
    if not further:
        return ""
    return f"Signals of a report: {', '.join((first, *further))}. Presets paper and release use {first} alone."


def voting_note(observations: "Observations") -> str:
    """Say what becomes of levels that only vote; nothing if there are none."""
    if not observations.voting:
        return ""
    if len(observations.voting) == len(observations.learned_levels):
        return "No report states a confidence: each counts what its level is worth."
    named = ", ".join(observations.voting)
    return f"No confidence is stated by {named}: each of these reports counts what its level is worth."
