"""What a fit is, whether it has converged, and its parameters, as blocks of a document."""

import json
from collections.abc import Iterator

from analysis.display.document import Block, Column, Paragraph, Table, Terms, Verdict
from analysis.display.text import percent
from analysis.parameters import compared_parameters, parameter_tables
from bayes_direag.commands.quality import voting_note
from bayes_direag.fits.convergence import OptimumSummary, convergence_summary, convergence_verdict
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset

_SCALE_NOTE_OF_LEVEL = (
    "Variant level: the labels determine weight x sigmoid(bias) and null_gain x weight x sigmoid(-bias), up to a "
    "common scale. Only the prior determines weight, bias and null_gain themselves, and their shares."
)
_AGREEMENT_NOTE = (
    "agrees: how often a level's answer is the one that most others give, over all questions given, labelled or not. "
    "by chance: the same for answers to different questions. What lies beyond chance moves weight and vote."
)


def fit_terms(fit: Fit, title: str) -> Terms:
    """Say what a fit is: how it was made, from what, and in which setting."""
    attributes, final, found = fit.tree.attrs, fit.recalibration.method, convergence_summary(fit)
    if isinstance(found, OptimumSummary):
        how = f"MAP, the mode of the posterior; {_searched(found, fit.preset)}"
        n_folds = fit.preset.recalibration.out_of_fold
        calibrated_on = f"out-of-fold support, {n_folds} folds" if n_folds else "the questions fitted to"
    else:
        how = f"NUTS, the whole posterior: {fit.n_samples // found.chains} draws of each of {found.chains} chains"
        calibrated_on = "leave-one-out support"
    if fit.calibrated_on:
        calibrated_on = f"{len(fit.calibrated_on)} questions kept apart"
    rows = {
        "method": how,
        "model": label(fit.preset) + ("" if fit.variant == "confidence" else f", variant {fit.variant}"),
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
        rows["NOTE"] = "questions are weighted unequally: the posterior is not that of a probability model"
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


def learned_blocks(fit: Fit) -> Iterator[Block]:
    """Yield the parameters of a fit and, where the model looks at it, how often its levels agree."""
    if fit.variant == "level":
        yield Paragraph(_SCALE_NOTE_OF_LEVEL, "note")
    yield from parameter_tables(compared_parameters({"fit": fit}))
    if agreement := fit.fitted.agreement:
        yield Table.of(
            "How often levels agree",
            zip(fit.level_names, agreement.share, agreement.by_chance, strict=True),
            {
                Column("level", holds="name"): lambda row: row[0],
                Column("agrees"): lambda row: percent(row[1], 0),
                Column("by chance"): lambda row: percent(row[2], 0),
            },
            _AGREEMENT_NOTE,
        )


def _searched(found: OptimumSummary, preset: Preset) -> str:
    """Say which optimum was found, if there may be several."""
    text = f"penalised loss {found.penalised_loss:.6f}"
    if found.starts > 1:
        lowest = f"the lowest of {found.optima} optima" if found.optima > 1 else "one optimum"
        return f"{text}, {lowest} from {found.starts} starts"
    return f"{text}, from the usual start alone: there may be lower optima" if preset.plain_reports else text
