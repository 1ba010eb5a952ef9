"""The pictures of a report, each with words that a layman can read; one that cannot be drawn is a sentence."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from analysis.diagnosis.diagnostic_plots import FIGURES
from analysis.diagnosis.diagnostics import Diagnosis
from analysis.figures.pictures import LeftOut, evaluation_pictures, fit_pictures
from analysis.figures.pictures import Picture as Drawn
from analysis.report.blocks import Block, Paragraph, Picture, Section
from analysis.report.diagnosis_words import DIAGNOSIS_PICTURES
from analysis.report.picture_words import EVALUATION_PICTURES, FIT_PICTURES, PictureWords, Tables
from analysis.report.source import ReportSource
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
    drawn = evaluation_pictures(source.held_out, source.method, seed=source.run.seed, level=source.run.interval_level)
    return Section("pictures", title, tuple(_worded(drawn, EVALUATION_PICTURES, "evaluation", on_step)))


def fit_blocks(fit: Fit, level: float, on_step: Step) -> tuple[Block, ...]:
    """Draw what a fit has learned."""
    return tuple(_worded(fit_pictures(fit, level=level), FIT_PICTURES, "fit", on_step))


def diagnosis_blocks(diagnosis: Diagnosis, fit: Fit, on_step: Step) -> Iterator[Block]:
    """Draw a diagnosis; of a weighted likelihood only what has a meaning there."""
    from analysis.figures.style import figure_style

    for name, words in DIAGNOSIS_PICTURES.items():
        if diagnosis.is_weighted and name in _UNWEIGHTED:
            text = f"{words.title} This picture is left out: it means nothing where questions are weighted unequally."
            yield Paragraph(text, "note")
            continue
        on_step(f"drawing {name}")
        with figure_style():
            figure = FIGURES[name](diagnosis, fit)
        yield Picture(f"diagnosis-{name}", words.title, words.how_to_read, words.seen(diagnosis), figure)


def _worded(
    drawn: Iterable[Drawn | LeftOut], words: Mapping[str, PictureWords[Tables]], prefix: str, on_step: Step
) -> Iterator[Block]:
    """Put the pictures that have words into the order of these; then what had to be left out, and why."""
    pictures: dict[str, Drawn | LeftOut] = {}
    for picture in drawn:
        on_step(f"drawing {picture.name}")
        pictures[picture.name] = picture
    for name, worded in words.items():
        match pictures.get(name):
            case Drawn(_, figure, tables):
                yield Picture(f"{prefix}-{name}", worded.title, worded.how_to_read, worded.seen(tables), figure)
            case LeftOut(_, reason):
                yield Paragraph(f"{worded.title} This picture is left out: {reason}.", "note")
