"""A report as a file: whole, or not there at all."""

from collections.abc import Callable
from pathlib import Path

from analysis.report.answer import Answer, answer
from analysis.report.render import render
from analysis.report.report import make_report
from analysis.report.source import ReportSource
from bayes_direag.data.files import atomic_path


def write_report(source: ReportSource, path: str | Path, on_step: Callable[[str], None] = lambda _: None) -> Answer:
    """Write the report of an evaluation as one HTML file, and return its answer.

    Parameters
    ----------
    source
        From :func:`~analysis.report.source.read_source`.
    path
        Where to; an earlier file gives way once all of the new one is written.
    on_step
        Told the name of each piece of work as it begins.
    """
    on_step("comparing methods")
    answered = answer(source)
    report = make_report(source, answered, on_step)
    on_step("writing")
    html = render(report)
    with atomic_path(path) as partial_path:
        partial_path.write_text(html, encoding="utf-8", newline="\n")
    return answered
