"""The pictures of a report, each with words that a layman can read; one that cannot be drawn is a sentence."""

from collections.abc import Callable, Iterable, Iterator

from analysis.diagnosis import diagnosis_figures
from analysis.diagnosis.diagnostics import Diagnosis
from analysis.display.page import Block, Paragraph, Picture, Section
from analysis.display.style import LeftOut, Words, figure_style
from analysis.display.style import Picture as Drawn
from analysis.learned import figures as fit_figures
from analysis.report.source import ReportSource
from analysis.runs import pictures as run_pictures
from bayes_direag.fits.fit import Fit

Step = Callable[[str], None]

#: Pictures of a diagnosis that take the likelihood for a probability model.
_UNWEIGHTED = frozenset({"predictive", "calibration", "pareto"})


def pictures_section(source: ReportSource, on_step: Step) -> Section:
    """Draw the evaluation."""
    title = "Pictures of the evaluation"
    if not source.metrics["n"]:
        text = f"There is nothing to draw: method {source.method} has answered no labelled question."
        return Section("pictures", title, (Paragraph(text, "note"),))
    run = source.run
    drawn = run_pictures.evaluation_pictures(source.held_out, source.method, seed=run.seed, level=run.interval_level)
    return Section("pictures", title, tuple(_worded(drawn, run_pictures.WORDS, "evaluation", on_step)))


def fit_blocks(fit: Fit, level: float, on_step: Step) -> Iterator[Block]:
    """Draw what a fit has learned."""
    return _worded(fit_figures.fit_pictures(fit, level=level), fit_figures.WORDS, "fit", on_step)


def diagnosis_blocks(diagnosis: Diagnosis, on_step: Step) -> Iterator[Block]:
    """Draw a diagnosis; of a weighted likelihood only what has a meaning there."""

    def drawn() -> Iterator[Drawn | LeftOut]:
        for name, figure_of in diagnosis_figures.FIGURES.items():
            if diagnosis.is_weighted and name in _UNWEIGHTED:
                yield LeftOut(name, "it means nothing where questions are weighted unequally")
            else:
                with figure_style():
                    figure = figure_of(diagnosis)
                yield Drawn(name, figure, {})

    return _worded(drawn(), diagnosis_figures.WORDS, "diagnosis", on_step)


def _worded(pictures: Iterable[Drawn | LeftOut], words: Words, prefix: str, on_step: Step) -> Iterator[Block]:
    """Put pictures into the order of their words."""
    by_name: dict[str, Drawn | LeftOut] = {}
    for picture in pictures:
        on_step(f"drawing {picture.name}")
        by_name[picture.name] = picture
    for name, (title, how_to_read) in words.items():
        match by_name.get(name):
            case Drawn(_, figure, _):
                yield Picture(f"{prefix}-{name}", title, how_to_read, figure)
            case LeftOut(_, reason):
                yield Paragraph(f"{title} This picture is left out: {reason}.", "note")
