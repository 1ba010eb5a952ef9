"""What the commands of the analysis share, beside the options of the core."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_direag.commands import options
from bayes_direag.commands.quality import show_quality
from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.display.document import LeftOut, Picture
    from bayes_direag.data.observations import Observations


def _require_probability(level: float) -> float:
    if not 0 < level < 1:
        raise DirEAGError(f"--interval {level}: expected a probability between 0 and 1, such as 0.95.")
    return level


LevelOption = Annotated[
    float, typer.Option("--interval", callback=_require_probability, help="Probability of the intervals and bands.")
]
ResamplesOption = Annotated[
    int, typer.Option("--resamples", min=1, help="Bootstrap resamples behind each interval, and permutations.")
]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FOLDER", help="Also draw the pictures into this folder, with their numbers."),
]


def write_pictures(pictures: "Iterable[Picture | LeftOut]", folder: Path) -> None:
    """Write each picture as PNG, and the numbers in it as CSV, into a folder; those that are left out are named."""
    from analysis.display.document import LeftOut
    from analysis.display.style import save_figure
    from bayes_direag.data.files import write_table

    folder.mkdir(exist_ok=True)
    for picture in pictures:
        if isinstance(picture, LeftOut):
            options.out.print(picture.text, soft_wrap=True)
            continue
        save_figure(picture.figure, folder / f"{picture.name}.png")
        for name, table in picture.tables.items():
            write_table(table, folder / f"{name}.csv")


def check_pictures(folder: Path | None) -> None:
    """Raise DirEAGError unless pictures can be added to a folder that is no evaluation."""
    if folder is not None:
        from analysis.evaluation import EVALUATION_FOLDER

        EVALUATION_FOLDER.check_apart(folder)


def read_observations(
    path: Path,
    answers: AnswerKind | None,
    columns: Columns | None,
    labels: Path | None = None,
    *,
    quiet: bool,
    everything: bool = False,
) -> "Observations":
    """Read an observation file, and labels for it, and unless quiet say what is usable in it."""
    from bayes_direag.data.observations import Observations

    observations = Observations.read(path, answers, columns, labels)
    if not quiet:
        show_quality(observations, path, inferred=answers is None, by_level=everything)
    return observations
