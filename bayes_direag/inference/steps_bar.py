"""How far chains have come, shown on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def steps_bar(n_steps: int, n_chains: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many steps the chains have taken, as far as the function that this yields is told."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} steps"))
    bar = Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), disable=not shown
    )
    with bar:
        task = bar.add_task(f"NUTS, {n_chains} chains", total=n_steps)
        yield lambda steps: bar.advance(task, steps)
