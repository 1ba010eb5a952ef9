"""The view of a run in progress: a panel on a terminal, a plain line at intervals elsewhere."""

import math
import time

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from elicitation.parsing import count_words
from elicitation.slots import READABLE
from elicitation.tally import LevelSummary, Tally


class LiveView:
    """A context manager that shows the progress of a run; plain lines are at least ``interval`` seconds apart."""

    def __init__(self, console: Console, *, interval: float = 15.0) -> None:
        self._console, self._interval = console, interval
        self._tally: Tally | None = None
        self._message = "starting"
        self._last_line = -math.inf
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console, auto_refresh=False
        )
        self._task = self._bar.add_task("questions", total=None)
        self._live = Live(get_renderable=self._panel, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "LiveView":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()
        elif self._tally is not None:
            self._line(self._tally)

    def say(self, message: str) -> None:
        """Show a message before or after the questions."""
        self._message = message
        if not self._console.is_terminal:
            self._console.print(message, soft_wrap=True)

    def show(self, tally: Tally) -> None:
        """Show the counts; called after every generation."""
        self._tally = tally
        if not self._console.is_terminal and time.monotonic() - self._last_line >= self._interval:
            self._line(tally)

    def _line(self, tally: Tally) -> None:
        self._last_line = time.monotonic()
        facts = "; ".join(f"{name} {value}" for name, value in facts_of(tally))
        self._console.print(f"{tally.n_done}/{tally.n_questions} questions; {facts}", soft_wrap=True)

    def _panel(self) -> Table:
        rows = Table.grid(padding=(0, 2))
        if self._tally is None:
            rows.add_row(self._message)
            return rows
        self._bar.update(self._task, completed=self._tally.n_done, total=self._tally.n_questions)
        rows.add_row(self._bar)
        facts = Table.grid(padding=(0, 2))
        for name, value in facts_of(self._tally):
            facts.add_row(name, value)
        rows.add_row(facts)
        return rows


def facts_of(tally: Tally) -> list[tuple[str, str]]:
    """Return the state of a run in progress, as pairs of name and value."""
    left = tally.seconds_left
    failures = {status: n for status, n in tally.statuses.items() if status not in READABLE}
    facts = [
        ("replies", f"{tally.settled}/{tally.n_slots}"),
        ("tokens/s", f"{tally.tokens / tally.seconds:.0f}" if tally.seconds > 0 else "-"),
        ("unreadable", count_words(failures) or "none"),
    ]
    if tally.n_in_reasoning:
        facts.append(("cut off in the reasoning", str(tally.n_in_reasoning)))
    if not math.isnan(tally.accuracy):
        facts.append(("accuracy", f"{tally.accuracy:.3f}"))
    return [*facts, ("time left", "-" if left is None else _clock(left))]


def levels_table(levels: tuple[LevelSummary, ...], title: str) -> Table:
    """Return the table of the levels at the end of a run; undefined values are dashes."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("level", "name", "n", "parsed", "accuracy", "mean confidence", "AUROC"):
        table.add_column(name, justify="left" if name == "name" else "right")
    for level in levels:
        shares = (level.parsed, level.accuracy, level.mean_confidence, level.auroc)
        table.add_row(str(level.level), level.name, str(level.n), *map(_decimal, shares))
    return table


def _decimal(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.3f}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
