"""How every figure looks, and how it is written: one style, applied for one figure at a time.

The user's own matplotlib settings are neither read nor changed, and nothing needs a screen.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bayes_direag.data.files import atomic_path
from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_STYLE_FILE = Path(__file__).with_name("direag.mplstyle")
FORMATS = (".png", ".svg", ".pdf")

#: Roles that keep their colour from figure to figure.
RIGHT, WRONG, REFERENCE = "#0072B2", "#D55E00", "#7F7F7F"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@contextmanager
def figure_style() -> Iterator[None]:
    """Use the project's style, starting from matplotlib's defaults, until the block ends."""
    import matplotlib as mpl
    from matplotlib import style

    with mpl.rc_context(), style.context(["default", str(_STYLE_FILE)]):
        yield


def new_figure(width: float = 6.4, height: float = 4.2) -> "Figure":
    """Return an empty figure that belongs to no window; size in inches. Call within :func:`figure_style`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure, completely or not at all; without a time stamp, so that equal figures are equal files.

    Raises DirEAGError if the name does not end in one of :data:`FORMATS`.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise DirEAGError(f"{path}: no figure can be written as {suffix!r}; expected one of {', '.join(FORMATS)}.")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})
    with figure_style(), atomic_path(path) as partial_path:
        figure.savefig(partial_path, format=suffix[1:], metadata=metadata)
