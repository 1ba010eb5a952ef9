"""What every result has: a table, which notebooks show, its numbers by name, and a plot."""

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
    def _draw(self, axes: "Axes") -> None:
        """Draw it."""

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

    def numbers(self) -> dict[str, float]:
        """Return every number of the table by its name, for experiment trackers.

        A name joins the texts of the row and the name of the column: ``direag.benefit``. Undefined numbers are left
        out.

        Examples
        --------
        >>> from analysis import evaluate
        >>> from bayes_direag import simulate_observations
        >>> evaluation = evaluate(simulate_observations(60, seed=3), methods=["majority"], n_resamples=20)
        >>> sorted(evaluation.numbers())[:3]
        ['majority.accuracy_of_all', 'majority.auroc', 'majority.benefit']
        """
        table = self.table
        words, figures = table.select_dtypes(["str", "object"]), table.select_dtypes("number")
        return {
            ".".join([*(str(word) for word in row if not pd.isna(word)), str(column)]): float(value)
            for row, values in zip(words.itertuples(index=False), figures.to_dict("records"), strict=True)
            for column, value in values.items()
            if not pd.isna(value)
        }

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, na_rep="", float_format="{:.3g}".format)
        return f"<p>{escape(repr(self))}</p>\n{table}"
