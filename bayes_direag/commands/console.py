"""What the commands of the front door share: where they print, how they show progress, how they check a target."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from bayes_direag.errors import DirEAGError

# Paths and level names are printed as they are, even if they look like markup.
out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True, soft_wrap=True)


def check_file(target: Path, *inputs: Path) -> None:
    """Make sure that a file can be written there, and that it would replace none of the inputs."""
    require_parent(target)
    if target.is_dir():
        raise DirEAGError(f"--out {target}: saw a folder; expected the name of a file. Add one.")
    if any(target.exists() and path.exists() and target.samefile(path) for path in inputs):
        raise DirEAGError(f"--out {target}: saw a file that is read here; expected another. Choose a new name.")


def require_parent(target: Path) -> None:
    """Make sure that the folder is there in which something is to be written."""
    if not target.absolute().parent.is_dir():
        raise DirEAGError(f"--out {target}: there is no folder {target.parent}; expected one. Make it first.")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done, and for how long; yields a function that names the next step."""
    if not err.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        task = shown.add_task("starting", total=None)
        yield lambda step: shown.update(task, description=step)


def plain_table(*headers: str) -> Table:
    """Return an empty table in the style of all of them; its first columns, if named, fold where they are too wide."""
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def titled(title: str, table: Table, caption: str = "") -> Group:
    """Put a title over a table and a caption under it, each free to be wider than it, and a blank line at the end."""
    above, below = Text(title, style="italic"), Text(caption, style="dim italic")
    return Group(above, table, *([below] if caption else []), "")
