"""An evaluation as a folder of files: tables, fits, and what it takes to repeat it."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from analysis.evaluation import Evaluation
from bayes_direag.errors import DirEAGError
from bayes_direag.observations import Observations
from bayes_direag.presets import Preset

MANIFEST = "evaluation.json"


def check_folder(folder: str | Path) -> None:
    """Raise DirEAGError if the folder holds something that is not an earlier evaluation, which would be lost."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MANIFEST).is_file())):
        raise DirEAGError(
            f"--out {folder}: saw other files there; expected a new or empty folder, or one of an earlier evaluation. "
            "Choose another."
        )


def write_evaluation(
    evaluation: Evaluation,
    folder: str | Path,
    observations: Observations,
    test: Observations | None,
    settings: Mapping[str, object],
) -> None:
    """Write an evaluation; the folder appears (or replaces that of an earlier evaluation) only once all of it is written.

    ``predictions.csv``, ``metrics.csv``, ``parameters.csv``, ``fits/VARIANT-FOLD.nc`` and ``evaluation.json``: settings, versions, the SHA-256 of the
    observations.
    """
    folder = Path(folder)
    check_folder(folder)
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent, prefix=f".{folder.name}-") as temporary:
        whole = Path(temporary) / folder.name
        (whole / "fits").mkdir(parents=True)
        for name in ("predictions", "metrics", "parameters"):
            getattr(evaluation, name).to_csv(whole / f"{name}.csv", index=False)
        for (variant, fold), fit in evaluation.fits.items():
            fit.save(whole / "fits" / f"{variant}-{fold}.nc")
        manifest = _manifest(observations, test, settings)
        (whole / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
        if folder.exists():
            folder.rename(Path(temporary) / "before")
        whole.rename(folder)
        shutil.rmtree(Path(temporary) / "before", ignore_errors=True)


def _manifest(
    observations: Observations, test: Observations | None, settings: Mapping[str, object]
) -> dict[str, object]:
    return {
        "settings": {
            name: value.model_dump(mode="json") if isinstance(value, Preset) else value
            for name, value in settings.items()
        },
        "observations_sha256": observations.fingerprint,
        "test_sha256": None if test is None else test.fingerprint,
        "versions": {name: version(name) for name in ("bayes-direag", "jax", "numpyro", "numpy", "scipy")},
    }
