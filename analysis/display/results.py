"""What every result has: a table, which notebooks show, and a plot."""

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from analysis.display.style import figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Result(ABC):
    """A result that a notebook shows as its table."""

    @property
    @abstractmethod
    def table(self) -> pd.DataFrame:
        """The main table."""

    @abstractmethod
    def _draw(self, axes: "Axes") -> None: ...

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw it on these axes, or on those of a new figure in the project's style, which a notebook shows."""
        if ax is None:
            from matplotlib import pyplot as plt

            with figure_style():
                ax = plt.subplots()[1]
                self._draw(ax)
        else:
            self._draw(ax)
        return ax

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, na_rep="", float_format="{:.3g}".format)
        return f"<p>{escape(repr(self))}</p>\n{table}"
