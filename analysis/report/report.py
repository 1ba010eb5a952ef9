"""A report as data: its sections, in the order in which a stranger wants to know."""

from collections.abc import Callable, Iterator
from pathlib import Path

from analysis.diagnosis.diagnostics import diagnose
from analysis.display.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Command,
    Document,
    Paragraph,
    Section,
    Table,
    Terms,
)
from analysis.display.page import write_page
from analysis.display.text import counted, percent
from analysis.report.evaluation_sections import (
    answer_section,
    methods_section,
    pictures_section,
    questions_section,
)
from analysis.report.fit_sections import cautions, diagnostics_section, learned_section
from analysis.report.opening import Opening, opening, spoken
from analysis.report.source import ReportSource

_FILES = {"observations": "OBSERVATIONS", "test": "TEST", "samples": "SAMPLES", "topk": "TOPK"}


def origin_section(source: ReportSource) -> Section:
    """Say with which settings, versions and data this was made, how to repeat it, and where every number is."""
    blocks = (
        Terms("Settings and versions", tuple(_settings(source).items())),
        _data(source),
        *_repeated(source),
    )
    return Section("origin", "Settings, versions, data", blocks)


def _repeated(source: ReportSource) -> Iterator[Block]:
    command = source.manifest.get("command")
    if command is None:
        yield Paragraph("The evaluation was made from Python, by `analysis.evaluate` with the settings above.", "note")
    else:
        yield Paragraph("The command that made the evaluation; files with this SHA-256 give the same figures:")
        yield Command(command)


def limits_section(source: ReportSource) -> Section:
    """Say what the figures cannot tell."""
    return Section("limits", "What this report cannot say", (Bullets(tuple(_limits(source))),))


def _settings(source: ReportSource) -> dict[str, str]:
    settings, run = source.manifest["settings"], source.run
    rows = {
        "fitted by": {"map": "MAP, the mode of the posterior", "nuts": "NUTS, the whole posterior"}[run.fit_method],
        "preset": run.preset,
        "held out": str(run.design),
        "levels": ", ".join(source.levels),
        "intervals": f"{percent(run.interval_level, 0)}, {run.n_resamples:,} bootstrap resamples of the questions",
        "seed": str(run.seed),
    }
    if settings["sampling"]:
        rows["sampling"] = ", ".join(f"{name} {value}" for name, value in settings["sampling"].items())
    rows["as data"] = (
        f"metrics.csv, predictions.csv, parameters.csv and evaluation.json in {run.folder}; pictures with their "
        f"numbers: `direag plot {run.folder} --out figures`; differences: `direag report {run.folder} --json`"
    )
    rows["versions"] = ", ".join(f"{name} {number}" for name, number in source.manifest["versions"].items())
    return rows


def _data(source: ReportSource) -> Table:
    rows = []
    for role, file in _FILES.items():
        if origin := source.manifest.get(role):
            names = ", ".join((*origin["datasets"], *origin["models"])) or "not stated"
            rows.append((Cell(file), Cell(f"{origin['questions']:,}"), Cell(names), Cell(origin["sha256"])))
    columns = (
        Column("observations", holds="name"),
        Column("questions"),
        Column("dataset, model", holds="prose"),
        Column("SHA-256", "of what was read, in whatever form", holds="prose"),
    )
    return Table("Data", columns, tuple(rows), source="evaluation.json")


def _limits(source: ReportSource) -> Iterator[str]:
    name, row = spoken(source.method), source.metrics
    n, n_none = int(row["n"]), int(row["unanswered"])
    yield (
        "How it does on questions of another kind. The figures hold for new questions that are like these, put to the "
        "same model in the same way. Another subject, model or prompt calls for labelled questions of its own."
    )
    if n_none:
        share = row["accuracy"] * n / (n + n_none) if n else 0.0
        yield (
            f"What {counted(n_none, 'labelled question')} would have got to which {name} has no answer. No figure "
            f"counts them; counted as wrong, {percent(share)} would be right."
        )
    else:
        yield f"How it does where no answer can be read: {name} has answered every labelled question here."
    yield "Whether the right answers in the file are right. A wrong one counts as an error of the model, or hides one."
    yield (
        "How much would change with another run of the model, or another fit. Intervals are over the questions, with "
        "replies and fits as they are."
    )
    if source.run.design.n_folds is not None:
        yield (
            "How good a fit to all questions is, exactly. What was scored were fits to a part of them; one that has "
            "seen all should be as good or better."
        )
    yield (
        "Whether one single answer is right. Of many answers that are given 80%, a fifth is wrong; which ones is not "
        "said."
    )


def report_document(source: ReportSource, first: Opening, on_step: Callable[[str], None] = lambda _: None) -> Document:
    """Put a report together."""
    diagnosis = None
    if source.fit is not None and source.fit.method == "nuts":
        on_step("checking the fit")
        diagnosis = diagnose(source.fit)
    return Document(
        title=first.title,
        about=source.about,
        subtitle=f"{source.run.design}; {source.run.fit_method.upper()}, preset {source.run.preset}",
        sections=(
            answer_section(source, first, list(cautions(source, diagnosis))),
            questions_section(source),
            methods_section(source, first),
            pictures_section(source, on_step),
            learned_section(source, on_step),
            diagnostics_section(source, diagnosis, on_step),
            origin_section(source),
            limits_section(source),
        ),
    )


def write_report(source: ReportSource, path: str | Path, on_step: Callable[[str], None] = lambda _: None) -> Opening:
    """Write the report of an evaluation as one HTML file, and return its opening."""
    on_step("comparing methods")
    first = opening(source)
    document = report_document(source, first, on_step)
    on_step("writing")
    write_page(document, path)
    return first
