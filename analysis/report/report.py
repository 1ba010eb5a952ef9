"""A report as data: its sections, in the order in which a stranger wants to know."""

from collections.abc import Callable
from pathlib import Path

from analysis.diagnosis.diagnostics import diagnose
from analysis.display.blocks import Report
from analysis.display.render import render
from analysis.report.answer import Answer, answer
from analysis.report.evaluation_sections import answer_section, methods_section, questions_section, reliability_section
from analysis.report.fit_sections import cautions, diagnostics_section, learned_section
from analysis.report.origin_sections import limits_section, origin_section
from analysis.report.pictures import pictures_section
from analysis.report.source import ReportSource
from bayes_direag.data.files import atomic_path


def make_report(source: ReportSource, answer: Answer, on_step: Callable[[str], None] = lambda _: None) -> Report:
    """Put a report together.

    Parameters
    ----------
    source
        From :func:`~analysis.report.source.read_source`.
    found
        From :func:`~analysis.report.answer.answer`.
    """
    diagnosis = None
    if source.fit is not None and source.fit.tree.attrs["method"] == "nuts":
        on_step("checking the fit")
        diagnosis = diagnose(source.fit)
    return Report(
        title="Can these answers be trusted?",
        about=source.about,
        subtitle=f"{source.run.protocol}; {source.run.fit_method.upper()}, preset {source.run.preset}",
        sections=(
            answer_section(source, answer, list(cautions(source, diagnosis))),
            methods_section(source, answer),
            pictures_section(source, on_step),
            reliability_section(source),
            learned_section(source, on_step),
            diagnostics_section(source, diagnosis, on_step),
            questions_section(source),
            origin_section(source),
            limits_section(source, answer),
        ),
    )


def write_report(source: ReportSource, path: str | Path, on_step: Callable[[str], None] = lambda _: None) -> Answer:
    """Write the report of an evaluation as one HTML file, and return its answer.

    Parameters
    ----------
    source
        From :func:`~analysis.report.source.read_source`.
    path
        Where to; an earlier file gives way once all of the new one is written.
    """
    on_step("comparing methods")
    answered = answer(source)
    report = make_report(source, answered, on_step)
    on_step("writing")
    html = render(report)
    with atomic_path(path) as partial_path:
        partial_path.write_text(html, encoding="utf-8", newline="\n")
    return answered
