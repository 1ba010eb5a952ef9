"""What the commands share: arguments and options, consoles, and the display of progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bayes_direag.commands.console import PlainConsole, visible_text
from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import NAMED, Columns
from bayes_direag.data.equality import Same
from bayes_direag.data.plain import ConfidenceScale
from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.model.settings import FitMethod, PresetName
from bayes_direag.modules import function_of

if TYPE_CHECKING:
    from bayes_direag.fits.fit import Fit
    from bayes_direag.model.presets import PresetLike

# Options by their group in the help of a command, beside the common ones.
_reading = partial(typer.Option, rich_help_panel="How the file is read")
_sampling = partial(typer.Option, rich_help_panel="Sampling by NUTS")

ObservationsFile = Annotated[Path, typer.Argument(help="Reports, as JSON Lines, Parquet or CSV.", metavar="OBS")]
FitFile = Annotated[Path, typer.Argument(help="A fit, as `direag fit` writes it.", metavar="FIT")]
AnswersOption = Annotated[
    AnswerKind | None,
    _reading(
        metavar="KIND",
        help="numeric, choice, choices or text: how answers are compared. By default inferred from the gold answers.",
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    _reading(
        "--column",
        metavar="FIELD=NAME",
        help="Name of a column, as level=model; level=model,prompt are two, confidence= is none, and with a row a "
        f"question answer={{level}}_answer is one a level. Fields: {', '.join(NAMED)}, signal.NAME, and number (one of "
        "the questions, for a model of your own).",
    ),
]
ScaleOption = Annotated[
    ConfidenceScale | None,
    _reading(metavar="UNIT", help="percent, fraction, 1-5 or 0-10: what confidences are in."),
]
GroupsOption = Annotated[
    str | None,
    _reading(
        metavar="PATTERN",
        help="The form of the names of levels that are runs of one model: '{group}_run{n}', or '{n}'. none: each is a "
        "level of its own. By default, names such as run3 say that they are runs.",
    ),
]
LabelsOption = Annotated[
    Path | None,
    _reading(metavar="FILE", help="Labels of OBS in a table of their own, as `direag label` makes it (CSV)."),
]
SameOption = Annotated[
    str | None,
    _reading(
        metavar="FILE.py:FUNCTION",
        help="A Python function of two answers that tells whether they are equal: such candidates of a question are "
        "one. A fit records its name, and needs it again.",
    ),
]
MethodOption = Annotated[
    FitMethod,
    typer.Option(
        "--method", metavar="METHOD", help="map: the mode of the posterior. nuts: samples of the whole posterior."
    ),
]
PresetOption = Annotated[
    str,
    typer.Option(
        metavar="PRESET",
        help="bayes: the recommended model. paper: the paper's equations. release: its released code. models.py:mine: "
        "a NumPyro function of your own, in a Python file.",
    ),
]
ProgramOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="FILE.py:FUNCTION",
        help="The NumPyro function of a fit of your own model: the fit's file holds no code.",
    ),
]
ChainsOption = Annotated[int, _sampling(min=2, help="Number of independent chains.")]
WarmupOption = Annotated[int, _sampling(min=1, help="Steps of warm-up in each chain.")]
DrawsOption = Annotated[int, _sampling(min=25, help="Draws of each chain after warm-up.")]
AcceptOption = Annotated[
    float, _sampling(min=0.01, max=0.999, help="Acceptance rate; nearer 1 means fewer divergences.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of all random numbers; it is recorded.")]
AllOption = Annotated[bool, typer.Option("--all", help="Show every table, not the result and one table alone.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]


def chosen_columns(
    column: list[str] | None,
    scale: ConfidenceScale | None,
    groups: str | None,
    known: Columns | None = None,
) -> Columns | None:
    """Combine the column names of a fit (``known``) with the options given; options win."""
    if not (column or scale or groups):
        return known
    base = known or Columns()
    pairs = [*base.pairs, *(column or ())]
    return Columns.named(
        pairs,
        groups=groups or base.groups,
        scale=scale or base.scale,
        needs_labels=known is None,
    )


def chosen_preset(name: str) -> "PresetLike":
    """Return a preset by name, or the function that FILE.py:FUNCTION names."""
    if name in (known := get_args(PresetName)):
        return name
    if ".py:" not in name:
        names = f"{', '.join(known)}, or FILE.py:FUNCTION"
        raise DirEAGError(f"--preset: saw {name!r}; expected {names}.{did_you_mean(name, known)}")
    return function_of(name)


def chosen_same(name: str | None) -> Same | None:
    """Return the function of answers that FILE.py:FUNCTION names."""
    return None if name is None else Same(function_of(name))


def load_fit(path: Path, program: str | None, same: Same | None = None) -> "Fit":
    """Read a fit; ``program`` names the function of one that is of a model of its own, ``same`` compares answers."""
    from bayes_direag.fits.fit import Fit

    return Fit.load(path, None if program is None else chosen_preset(program), same)


def device_for_each_chain(chains: int = 4) -> None:
    """Give JAX a CPU device for each chain of NUTS; call it before JAX is used."""
    from numpyro import set_host_device_count

    set_host_device_count(chains)


out, err = PlainConsole(), PlainConsole(stderr=True, soft_wrap=True)


def beside(observations: Path, ending: str) -> Path:
    """Return the name of an output by default: that of the observations with another ending, in the current folder.

    Examples
    --------
    >>> beside(Path("logs/week.9.csv.gz"), ".nc").name
    'week.9.nc'
    """
    return Path(Path(observations.name.removesuffix(".gz")).stem + ending)


#: Files and folders that a command may replace, each with what tells it from another in its place.
_EARLIER: dict[Path, tuple[int, int]] = {}


@contextmanager
def naming_replaced() -> Iterator[None]:
    """Name, at the end of a command, what it has replaced of that which :func:`may_replace` was told."""
    _EARLIER.clear()
    try:
        yield
    finally:
        for target, identity in _EARLIER.items():
            if target.exists() and _identity(target) != identity:
                err.print(f"replaced {target}")


def may_replace(target: Path) -> None:
    """Have an output named if it is replaced."""
    if target.exists():
        _EARLIER[target] = _identity(target)


def _identity(target: Path) -> tuple[int, int]:
    status = target.stat()
    return status.st_ino, status.st_mtime_ns


def check_file(target: Path, *inputs: Path, option: str = "--out", goes_on: bool = False) -> None:
    """Raise DirEAGError if the target is a folder, is in none, or is one of the inputs.

    It will be replaced, or ``goes_on`` with what is there.
    """
    require_parent(target, option)
    if target.is_dir():
        raise DirEAGError(f"{option} {target}: saw a folder; expected the name of a file. Add one.")
    if any(target.exists() and path.exists() and target.samefile(path) for path in inputs):
        raise DirEAGError(f"{option} {target}: saw a file that is read here. Choose another name.")
    if not goes_on:
        may_replace(target)


def require_parent(target: Path, option: str = "--out") -> None:
    """Raise DirEAGError if the folder of the target does not exist."""
    if not target.absolute().parent.is_dir():
        raise DirEAGError(f"{option} {target}: there is no folder {target.parent}. Make it first.")


def require_suffix(target: Path, *suffixes: str, option: str = "--out") -> None:
    """Raise DirEAGError unless the target has one of these suffixes."""
    if target.suffix.lower() not in suffixes:
        raise DirEAGError(f"{option} {target}: saw the suffix {target.suffix!r}; expected {suffixes[0]}. Rename it.")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show the current step and its duration on a terminal; yields a function that names the next step."""
    if not err.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        task = shown.add_task("starting", total=None)
        yield lambda step: shown.update(task, description=step)


def plain_table(*headers: str) -> Table:
    """Return an empty table in the common style; its first columns have these headers, and wrap if too wide."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def titled(title: str, table: Table, caption: str = "") -> Group:
    """Put a title above a table and a caption below it, both of any width, and a blank line at the end."""
    above, below = visible_text(title, "italic"), visible_text(caption, "dim italic")
    return Group(above, table, *([below] if caption else []), "")
