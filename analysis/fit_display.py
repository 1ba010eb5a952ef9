"""What a fit is, whether it has converged, and its parameters, as blocks of a document."""

import json

from analysis.display.document import Cell, Column, Record, Table, Terms, Verdict
from analysis.display.glossary import PARAMETERS
from analysis.display.text import number, percent
from bayes_direag.commands.quality import voting_note
from bayes_direag.fits.convergence import OptimumSummary, convergence_summary, convergence_verdict
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

_SCALE_NOTE = "Multiplying weight, prior_strength and null_base by one number changes no prediction: compare shares."
_SCALE_NOTE_OF_LEVEL = (
    "Variant level: the labels determine weight x sigmoid(bias) and null_gain x weight x sigmoid(-bias), up to a "
    "common scale. Only the prior determines weight, bias and null_gain themselves, and their shares."
)
_AGREEMENT_NOTE = (
    " agrees: how often a level's answer is the one that most others give, over all questions given, labelled or not. "
    "by chance: the same for answers to different questions. What lies beyond chance moves weight and vote."
)


def fit_terms(fit: Fit, title: str) -> Terms:
    """Say what a fit is: how it was made, from what, and in which setting."""
    attributes, final, found = fit.tree.attrs, fit.recalibration.method, convergence_summary(fit)
    if isinstance(found, OptimumSummary):
        how = f"MAP, the mode of the posterior; {_searched(found, fit.preset)}"
        n_folds = fit.preset.recalibration.out_of_fold
        calibrated_on = f"out-of-fold support, {n_folds} folds" if n_folds else "the questions fitted to"
        if fit.calibrated_on:
            calibrated_on = f"{len(fit.calibrated_on)} questions kept apart"
    else:
        how = f"NUTS, the whole posterior: {fit.n_samples // found.chains} draws of each of {found.chains} chains"
        calibrated_on = "leave-one-out support"
    rows = {
        "method": how,
        "evidence": f"variant {fit.variant}, preset {label(fit.preset)}",
        "learned from": f"{fit.n_questions} questions with {fit.answers} answers",
        "dataset, model": f"{attributes['dataset']}; {attributes['model']}",
        "levels": f"{len(fit.level_names)}: {', '.join(fit.level_names)}",
        "recalibration": final if final == "none" else f"{final}, on {calibrated_on}",
    }
    if (fit.fitted.weight != 1).any():
        rows["weights"] = f"the questions count as {fit.fitted.weight.sum():.4g} together"
    if fit.partial:
        rows["partial fit"] = "each question whole, and in copies with some of its reports"
    if fit.preset.is_weighted:
        rows["NOTE"] = "questions are weighted unequally: intervals and leave-one-out figures mean nothing"
    if len(fit.fitted.signals) > 1:
        rows["signals"] = ", ".join(fit.fitted.signal_names)
    if note := voting_note(fit.fitted):
        rows["votes"] = note
    rows |= {
        "seed": str(attributes["seed"]),
        "observations": f"SHA-256 {attributes['observations_sha256'][:16]}…",
        "versions": ", ".join(f"{name} {number}" for name, number in json.loads(attributes["versions"]).items()),
    }
    return Terms(title, tuple(rows.items()))


def convergence_block(fit: Fit) -> Verdict:
    """Say whether a fit has converged."""
    found = convergence_summary(fit)
    return Verdict((("fine" if found.converged else "failure", convergence_verdict(found)),))


def parameter_tables(fit: Fit) -> tuple[Table, Table]:
    """Tabulate the parameters of each level and those that all levels share: means over the draws, ± their sds."""
    rows, source = fit.parameters().to_dict("records"), "`direag show FIT --json`"
    of_level = {level: [row for row in rows if row["level"] == level] for level in fit.level_names}
    names = [str(row["parameter"]) for row in of_level[fit.level_names[0]]]
    cells = {
        level: [Cell(percent(own[names.index("weight")]["relative"])), *(Cell(*_with_sd(row)) for row in own)]
        for level, own in of_level.items()
    }
    columns = [Column("level", holds="name"), Column("share", "of the weight")]
    columns += [Column(name.replace("[", "\n[")) for name in names]
    note = "weight: how much the level's reports count; only its share means anything."
    if "bias" in names:
        note += " bias: the shift of its confidences on the logit scale; below 0 they count for less than stated."
    if agreement := fit.fitted.agreement:
        columns += [Column("agrees"), Column("by chance")]
        for level, *shares in zip(fit.level_names, agreement.share, agreement.by_chance, strict=True):
            cells[level] += [Cell(percent(share, 0)) for share in shares]
        note += _AGREEMENT_NOTE
    levels = tuple((Cell(level), *own) for level, own in cells.items())
    free = fit.variant == "level" and fit.preset.null_gain.fixed is None
    shared = Table.of(
        "Parameters that all levels share",
        [row for row in rows if row["level"] not in of_level],
        {
            Column("parameter", holds="name"): lambda row: row["parameter"],
            Column("value"): lambda row: " ".join(_with_sd(row)).rstrip(),
            Column("relative", "to the total weight"): lambda row: number(row["relative"]),
            Column("what it says", holds="prose"): lambda row: _meaning(row["parameter"].partition("[")[0]),
        },
        _SCALE_NOTE_OF_LEVEL if free else _SCALE_NOTE,
        source,
    )
    return Table("Parameters of each level", tuple(columns), levels, note, source), shared


def _with_sd(row: Record) -> tuple[str, str]:
    """Return a mean and, if there are several draws, the posterior standard deviation."""
    return number(row["mean"]), f"± {number(row['sd'])}" if row["sd"] > 0 else ""


def _meaning(parameter: str) -> str:
    """Return what a shared parameter says, or what that part of a pooled one does."""
    return PARAMETERS.get(parameter) or PARAMETERS[parameter.rpartition("_")[2]]


def _searched(found: OptimumSummary, preset: Preset) -> str:
    """Say which optimum was found, if there may be several."""
    text = f"penalised loss {found.penalised_loss:.6f}"
    if found.starts > 1:
        lowest = f"the lowest of {found.optima} optima" if found.optima > 1 else "one optimum"
        return f"{text}, {lowest} from {found.starts} starts"
    if preset.penalty is None:
        return text
    return f"{text}, from the {'released' if preset.is_bounded else 'usual'} start alone: there may be lower optima"
