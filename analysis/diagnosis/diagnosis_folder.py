"""A diagnosis as data, and as a folder of files: the data, the parameters' table, the pictures."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from analysis.diagnosis.diagnosis_figures import FIGURES
from analysis.diagnosis.diagnostics import Diagnosis
from analysis.display.folders import ResultFolder
from analysis.display.style import figure_style, save_figure
from bayes_direag.data.files import as_records, write_table
from bayes_direag.model.settings import Settings

RECORD, PARAMETERS = "diagnosis.json", "parameters.csv"
FOLDER = ResultFolder("diagnosis", RECORD, frozenset({RECORD, PARAMETERS, *(f"{name}.png" for name in FIGURES)}))


def diagnosis_record(diagnosis: Diagnosis) -> dict[str, object]:
    """Return everything that was found out as JSON can hold it, undefined numbers as None."""
    fit = diagnosis.fit
    about = {name: fit.tree.attrs[name] for name in ("dataset", "model", "variant", "observations_sha256")}
    return {
        "believable": diagnosis.believable,
        "verdict": [asdict(finding) for finding in diagnosis.verdict],
        "fit": {**about, "preset": fit.preset.model_dump(mode="json"), "seed": int(fit.tree.attrs["seed"])},
        **{field.name: _plain(getattr(diagnosis, field.name)) for field in fields(diagnosis) if field.name != "fit"},
        "versions": {name: version(name) for name in ("bayes-direag", "arviz-stats", "numpy", "scipy")},
    }


def write_diagnosis(diagnosis: Diagnosis, folder: str | Path) -> None:
    """Write a diagnosis; its folder appears, or takes the place of an earlier one, once all of it is written.

    ``diagnosis.json`` (:func:`diagnosis_record`), ``parameters.csv``, and a picture for each of
    :data:`~analysis.diagnosis.diagnosis_figures.FIGURES`.

    Raises DirEAGError if the folder holds something else.
    """
    with FOLDER.replacing(folder) as whole:
        record = json.dumps(diagnosis_record(diagnosis), indent=2, allow_nan=False)
        (whole / RECORD).write_text(f"{record}\n", encoding="utf-8")
        write_table(diagnosis.parameters, whole / PARAMETERS)
        for name, figure_of in FIGURES.items():
            with figure_style():
                save_figure(figure_of(diagnosis, diagnosis.fit), whole / f"{name}.png")


def _plain(value: object) -> object:
    """Return tables as lists of rows, named fields and mappings as dicts, and what is not finite as None."""
    if isinstance(value, pd.DataFrame):
        return [{name: _plain(cell) for name, cell in row.items()} for row in as_records(value)]
    if isinstance(value, Settings):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
