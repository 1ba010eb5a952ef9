"""A comparison as a folder of files: tables, pictures, and a record of what was compared and what came out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.display.folders import ResultFolder
from analysis.display.style import save_figure
from bayes_direag.data.files import write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RECORD = "comparison.json"
_TABLES = ("parameters", "predictions", "metrics", "loo")
_PICTURES = ("parameters", "confidence_shift", "metric_differences", "loo")

FOLDER = ResultFolder(
    "comparison",
    RECORD,
    frozenset({RECORD, *(f"{name}.csv" for name in _TABLES), *(f"{name}.png" for name in _PICTURES)}),
)


def write_comparison(
    folder: str | Path,
    record: Mapping[str, object],
    tables: Mapping[str, pd.DataFrame],
    pictures: Mapping[str, "Figure"],
) -> None:
    """Write a comparison; its folder appears, or takes the place of an earlier one, once all of it is written.

    Raises DirEAGError if the folder holds something else.

    Parameters
    ----------
    record
        What was compared and what came out, as JSON can hold it.
    tables, pictures
        Each becomes ``NAME.csv`` or ``NAME.png``.
    """
    with FOLDER.replacing(folder) as whole:
        for name, table in tables.items():
            write_table(table, whole / f"{name}.csv")
        for name, picture in pictures.items():
            save_figure(picture, whole / f"{name}.png")
        text = json.dumps(record, indent=2, allow_nan=False)
        (whole / RECORD).write_text(f"{text}\n", encoding="utf-8")
