"""A learning curve as a folder of files, from which an interrupted run resumes."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.display.folders import ResultFolder, unreadable, versions, write_record
from analysis.display.style import save_figure
from analysis.learning_curve.curve import RESULT_TYPES, Splits, no_results
from analysis.methods.calibrations import CLIP
from bayes_direag.data.files import write_table
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


RECORD, RESULTS, SUMMARY, PICTURE = "learning_curve.json", "results.csv", "summary.csv", "learning_curve.png"

# A run that was killed while it wrote leaves a file of the last kind behind.
CURVE_FOLDER = ResultFolder("learning curve", RECORD, others=(RESULTS, SUMMARY, PICTURE, ".*-????????.*"))


def identity(
    observations: Observations, splits: Splits, *, sampling: SamplingSettings | None, seed: int
) -> dict[str, object]:
    """Return what results must have in common to belong to one curve; methods and splits can be added to a folder."""
    presets = [preset.model_dump_json() for preset in PRESETS.values()]
    return {
        "observations_sha256": observations.fingerprint,
        "label_counts": list(splits.label_counts),
        "seed": seed,
        "sampling": None if sampling is None else sampling.model_dump(),
        "presets_sha256": hashlib.sha256(json.dumps(presets).encode()).hexdigest(),
        "version": version("bayes-direag"),
    }


def begin(folder: str | Path, identity: dict[str, object]) -> pd.DataFrame:
    """Make the folder, or resume from an existing one with the same identity; return the results that it holds."""
    folder = Path(folder)
    CURVE_FOLDER.check(folder)
    record, results = folder / RECORD, folder / RESULTS
    before = _recorded(record, identity) if record.exists() else identity
    differing = [
        name
        for name, here in identity.items()
        if before[name] != here and not (name == "sampling" and None in (before[name], here))
    ]
    if differing:
        name = differing[0]
        raise DirEAGError(
            f"{folder}: saw a learning curve with another {name} ({_short(before[name])}); expected "
            f"{_short(identity[name])}, as now. Ask for the same to go on with it, or choose another folder."
        )
    folder.mkdir(exist_ok=True)
    write_record(identity | {"sampling": identity["sampling"] or before["sampling"]}, folder / RECORD)
    return _read(results) if results.exists() else no_results()


def write_results(folder: str | Path, results: pd.DataFrame) -> None:
    """Write all results so far, completely or not at all."""
    write_table(results, Path(folder) / RESULTS)


def finish(
    folder: str | Path,
    splits: Splits,
    methods: tuple[str, ...],
    interval_level: float,
    summary: pd.DataFrame,
    picture: "Figure",
) -> dict[str, object]:
    """Write what the results come to, and add to the record what a reader has to know of them; return the record."""
    folder = Path(folder)
    write_table(summary, folder / SUMMARY)
    save_figure(picture, folder / PICTURE)
    record: dict[str, object] = json.loads((folder / RECORD).read_text(encoding="utf-8")) | {
        "methods": list(methods),
        "n_splits": len(splits.order),
        "n_usable": splits.n_usable,
        "n_test": splits.n_test,
        "left_out": {str(n): reason for n, reason in splits.left_out.items()},
        "interval_level": interval_level,
        "nll_clip": CLIP,
        "versions": versions("jax", "numpyro", "numpy", "scikit-learn"),
    }
    write_record(record, folder / RECORD)
    return record


def _recorded(path: Path, identity: dict[str, object]) -> dict[str, object]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {name: record[name] for name in identity}
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, error) from error


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype="str")[list(RESULT_TYPES)].astype(RESULT_TYPES)
    except (ValueError, KeyError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DirEAGError:
    return unreadable(path, f"{type(error).__name__} {error}", "direag learning-curve", "Choose another folder.")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
