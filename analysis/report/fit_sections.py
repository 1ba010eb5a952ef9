"""The sections of a report about fits: what was learned, and whether it can be trusted."""

from collections.abc import Callable, Iterable, Iterator

from analysis.diagnosis.diagnostics import Diagnosis
from analysis.display.document import Block, Cell, Column, LeftOut, Paragraph, Picture, Section, Table
from analysis.display.text import percent
from analysis.fit_display import convergence_block, fit_terms, parameter_tables
from analysis.learned import fit_pictures
from analysis.methods.direag import FITTED_METHODS
from analysis.report.source import ReportSource
from bayes_direag.fits.convergence import convergence_summary
from bayes_direag.fits.fit import Fit

OnStep = Callable[[str], None]


def cautions(source: ReportSource, diagnosis: Diagnosis | None) -> Iterator[str]:
    """Yield warnings about fits that did not converge."""
    n_fits = sum(fits.n_fits for fits in source.fold_fits)
    n_converged = sum(fits.n_converged for fits in source.fold_fits)
    if n_converged < n_fits:
        yield (
            f"Take care: {n_fits - n_converged} of the {n_fits} fits behind these figures did not converge. See "
            "Diagnostics before you believe them."
        )
    if source.fit is None:
        return
    if not (convergence_summary(source.fit).converged if diagnosis is None else diagnosis.believable):
        yield f"Take care: the fit {source.fit_path} cannot be trusted. Diagnostics says why and what to do."


def learned_section(source: ReportSource, on_step: OnStep) -> Section:
    """Show what the fit has learned; without a fit, what the fits of the evaluation have."""
    title = "What was learned"
    if source.fit is None:
        return Section("learned", title, tuple(_without_fit(source)))
    fit = source.fit
    about = Paragraph(f"{_same_observations(source, fit)} {_point_or_posterior(fit)}")
    pictures = _drawn(fit_pictures(fit, level=source.run.interval_level), on_step)
    return Section("learned", title, (fit_terms(fit, str(source.fit_path)), about, *parameter_tables(fit), *pictures))


def diagnostics_section(source: ReportSource, diagnosis: Diagnosis | None, on_step: OnStep) -> Section:
    """Say whether the fits can be trusted."""
    blocks: list[Block] = []
    if source.fold_fits:
        blocks.append(_fold_table(source))
    else:
        text = "Behind the evaluation there is no fit: none of its methods learns anything."
        blocks.append(Paragraph(text, "note"))
    if source.fit is None:
        blocks.append(Paragraph("No single fit was given (`--fit FIT`), so there is none to judge here.", "note"))
    elif diagnosis is None:
        blocks += [
            convergence_block(source.fit),
            Paragraph(
                "A MAP fit is a point estimate. It does not show which other parameters fit nearly as well: "
                "`direag fit --method nuts` does."
            ),
        ]
    else:
        blocks += [*diagnosis.blocks(), *_drawn(diagnosis.pictures(), on_step)]
    return Section("diagnostics", "Diagnostics: can the fits be believed?", tuple(blocks))


def _without_fit(source: ReportSource) -> Iterator[Block]:
    yield Paragraph(
        "No single fit was given. `direag fit OBSERVATIONS --out fit.nc` makes one of all questions, and `direag "
        "report FOLDER --fit fit.nc` shows it here.",
        "note",
    )
    fitted, table = FITTED_METHODS.get(source.method), source.parameters
    weights = table[(table["variant"] == (fitted and fitted.variant)) & (table["parameter"] == "weight")]
    if weights.empty:
        return
    n_fits, share = weights["fold"].nunique(), weights["relative"].groupby(weights["level"], sort=False)
    yield Table.of(
        f"How much each level counts: its share of the total weight in {n_fits} fits of the evaluation",
        share.agg(["mean", "min", "max"]).reset_index().to_dict("records"),
        {
            Column("level", holds="name"): lambda row: str(row["level"]),
            Column("mean"): lambda row: percent(row["mean"]),
            Column("least"): lambda row: percent(row["min"]),
            Column("most"): lambda row: percent(row["max"]),
        },
        "If least and most are far apart, the questions do not determine it.",
        "parameters.csv",
    )


def _same_observations(source: ReportSource, fit: Fit) -> str:
    if fit.fingerprint != source.manifest["observations"]["sha256"]:
        return "These are not the questions of the evaluation, or the answers to them differ."
    if source.manifest["test"] is not None:
        return "These are the questions that the evaluation, too, learned from."
    return "These are all the questions of the evaluation, which itself always held some out."


def _point_or_posterior(fit: Fit) -> str:
    if fit.n_samples == 1:
        return "It is a point estimate, so nothing below has an interval."
    return f"Values are means over {fit.n_samples:,} posterior draws, with ± their standard deviation."


def _fold_table(source: ReportSource) -> Table:
    return Table.of(
        "The fits behind the held-out predictions",
        source.fold_fits,
        {
            Column("evidence from", holds="name"): lambda fits: fits.variant,
            Column("converged", holds="name"): lambda fits: Cell(
                f"{fits.n_converged} of {fits.n_fits}",
                marks=("fine",) if fits.n_converged == fits.n_fits else ("failure",),
            ),
            Column("the worst", holds="prose"): lambda fits: fits.worst,
        },
        source=f"`direag show {source.run.folder / 'fits'}/NAME.nc --json`",
    )


def _drawn(pictures: Iterable[Picture | LeftOut], on_step: OnStep) -> Iterator[Picture | LeftOut]:
    for picture in pictures:
        on_step(f"drawing {picture.name}")
        yield picture
