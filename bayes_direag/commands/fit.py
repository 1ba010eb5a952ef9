"""The command ``direag fit``: learn from labelled questions how much each report counts, and save the fit."""

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.commands.quality import show_quality, show_remarks
from bayes_direag.model import presets
from bayes_direag.model.settings import FitSettings, SamplingSettings

if TYPE_CHECKING:
    from bayes_direag.fits.fit import Fit

#: The group of entry points in which packages declare what there is to say of a fit: text, or "".
REMARKS = "direag.fit_remarks"
_FURTHER = "Further questions"


def fit_command(
    observations: options.ObservationsFile,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Where to write the fit.  [the name of OBS, with the ending .nc]", show_default=False
        ),
    ] = None,
    method: options.MethodOption = "map",
    preset: options.PresetOption = "bayes",
    answers: options.AnswersOption = None,
    column: options.ColumnOption = None,
    scale: options.ScaleOption = None,
    groups: options.GroupsOption = None,
    same: options.SameOption = None,
    labels: options.LabelsOption = None,
    unlabelled: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Further questions: how levels agree there counts, labels do not.",
            rich_help_panel=_FURTHER,
        ),
    ] = None,
    chains: options.ChainsOption = 4,
    warmup: options.WarmupOption = 250,
    draws: options.DrawsOption = 1000,
    target_accept: options.AcceptOption = 0.98,
    seed: options.SeedOption = 0,
) -> None:
    """Learn from labelled questions how much each report counts, and save the fit.

    Example: direag fit train.jsonl --method nuts --answers numeric
    """
    from bayes_direag.data.observations import Observations

    target = target or options.beside(observations, ".nc")
    options.check_file(target, observations, *filter(None, [unlabelled]))
    columns, equal = options.chosen_columns(column, scale, groups), options.chosen_same(same)
    with options.progress() as step:
        step(f"reading {observations}")
        labelled = Observations.read(observations, answers, columns, labels, equal)
        further = None if unlabelled is None else Observations.read(unlabelled, labelled.kind, columns, same=equal)
    show_quality(labelled, observations, inferred=answers is None)
    show_remarks(labelled)
    sampling = None
    if method == "nuts":
        options.device_for_each_chain(chains)
        words = {"num_chains": chains, "num_warmup": warmup, "num_samples": draws}
        sampling = SamplingSettings.of(**words, target_accept_prob=target_accept)
    settings = FitSettings(presets.preset(options.chosen_preset(preset)), method, sampling, seed)
    shown: AbstractContextManager[Callable[[str], object]] = nullcontext(str)  # NUTS has bars of its own
    with options.progress() if method == "map" else shown as step:
        step(f"fitting {preset} to {labelled.labelled.sum():,} questions")
        from bayes_direag.fits.making import fit_by

        fitted = fit_by(settings, labelled, further, progress=options.err.is_terminal)
    fitted.save(target)
    from bayes_direag.fits.convergence import convergence_verdict

    severity, verdict = convergence_verdict(fitted)
    options.out.print(f"{target}: {fitted}\n{verdict}", soft_wrap=True)
    if severity == "failure":
        raise typer.Exit(1)
    for remark in entry_points(group=REMARKS):
        if said := remark.load()(fitted):
            options.out.print(said, soft_wrap=True)
    options.out.print(f"What it has learned: direag show {target}", soft_wrap=True)


def fit_record(fit: "Fit", path: Path) -> dict[str, object]:
    """Return what a fit is, how it has converged, and its parameters, for JSON; undefined numbers are None."""
    from bayes_direag.data.files import as_records
    from bayes_direag.fits.convergence import convergence_summary
    from bayes_direag.model.presets import label

    attributes, summary = fit.tree.attrs, convergence_summary(fit)
    agreement = {}
    if fit.fitted.agreement is not None:
        shares = fit.fitted.agreement._asdict()
        agreement = {"agreement": {name: [*map(_defined, values.tolist())] for name, values in shares.items()}}
    figures = {"draws": fit.tree["posterior"].sizes["draw"]} if fit.method == "nuts" else {}
    figures |= summary._asdict()
    return {
        "fit": str(path),
        "method": fit.method,
        "preset": label(fit.preset),
        **{name: attributes[name] for name in ("answers", "dataset", "model")},
        "questions": fit.n_questions,
        "levels": list(fit.level_names),
        **agreement,
        "recalibration": fit.recalibration.method,
        "weighted": fit.preset.is_weighted,
        "converged": summary.converged,
        **{name: _defined(value) for name, value in figures.items()},
        "seed": int(attributes["seed"]),
        "observations_sha256": attributes["observations_sha256"],
        "versions": json.loads(attributes["versions"]),
        "parameters": as_records(fit.parameters()),
    }


def _defined(number: float | int) -> float | int | None:
    return number if math.isfinite(number) else None
