"""The console of commands, which takes any text: what would change the terminal is shown by its escape."""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

#: Control characters except tab and line feed; marks that reorder text; halves of a surrogate pair.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return a text with escapes for characters that would control a terminal or reorder text.

    Examples
    --------
    >>> print(visible("\x1b[2J gpt\r"))
    \u001b[2J gpt\u000d
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_text(text: str, style: str = "") -> Text:
    """Return a text in a style, as long as its visible form."""
    return Text(visible(text), style)


class PlainConsole(Console):
    """A console that shows any text as it is: no markup, no emoji codes, no control characters."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything, with visible text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def render_str(self, text: str, **settings: Any) -> Text:
        """Render a text, whose length is that of its visible form."""
        return super().render_str(visible(text), **settings)

    def print_json(self, *args: Any, **settings: Any) -> None:
        """Print JSON in ASCII, which every standard output takes."""
        super().print_json(*args, ensure_ascii=True, **settings)

    def on_broken_pipe(self) -> None:
        """End as by SIGPIPE, as nobody reads the output."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise SystemExit(141)
