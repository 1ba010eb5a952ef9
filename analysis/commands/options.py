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
    from bayes_direag.data.observations import Observations


def _require_probability(level: float) -> float:
    if not 0 < level < 1:
        raise DirEAGError(f"--level {level}: expected a probability between 0 and 1, such as 0.95.")
    return level


def _list_methods(wanted: bool) -> bool:
    if not wanted:
        return wanted
    from analysis.display.document import Terms
    from analysis.display.terminal import shown
    from analysis.methods.registry import EVALUATED_METHODS, method_words

    options.out.print(shown([Terms("", tuple((name, method_words(name)) for name in EVALUATED_METHODS))]))
    raise typer.Exit


LevelOption = Annotated[
    float, typer.Option("--level", callback=_require_probability, help="Probability of the intervals and bands.")
]
ListMethodsOption = Annotated[
    bool, typer.Option("--list-methods", callback=_list_methods, help="Say what each method does.")
]
ResamplesOption = Annotated[
    int, typer.Option("--resamples", min=1, help="Bootstrap resamples behind each interval, and permutations.")
]


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


def named_list(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in text.split(",")]
