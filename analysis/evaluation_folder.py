"""An evaluation as a folder of files: tables, fits, and what it takes to repeat it."""

import json
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from analysis.evaluation import Evaluation
from bayes_direag.errors import DirEAGError
from bayes_direag.observations import Observations

MANIFEST = "evaluation.json"
FITS = "fits"
_TABLES = ("predictions", "metrics", "parameters")

#: Everything that an evaluation writes, relative to its folder.
CONTENTS = (*(f"{name}.csv" for name in _TABLES), MANIFEST, FITS)


def check_folder(folder: str | Path) -> None:
    """Make sure that writing an evaluation to the folder loses nothing but an earlier evaluation.

    Raises
    ------
    DirEAGError
        If it is a file or the current folder, or holds anything that no evaluation has written.
    """
    folder = Path(folder)
    if folder.is_dir() and folder.resolve() == Path.cwd():
        seen = "the current folder, which cannot be replaced while you are in it"
    elif folder.is_dir():
        strangers = _strangers(folder)
        seen = ", ".join(strangers[:3]) + (f", ... ({len(strangers)} in all)" if len(strangers) > 3 else "")
    else:
        seen = "a file" if folder.exists() else ""
    if seen:
        raise DirEAGError(
            f"--out {folder}: saw {seen}; expected a new or empty folder, or one with an earlier evaluation and "
            "nothing else. Choose another, or move away what is there."
        )


def _strangers(folder: Path) -> list[str]:
    """Name what is in a folder, and has not been written there by an evaluation."""
    entries = sorted(folder.iterdir())
    if not (folder / MANIFEST).is_file():
        return [entry.name for entry in entries]
    inside = sorted((folder / FITS).iterdir()) if (folder / FITS).is_dir() else []
    return [entry.name for entry in entries if entry.name not in CONTENTS] + [
        f"{FITS}/{entry.name}" for entry in inside if entry.suffix != ".nc"
    ]


def write_evaluation(
    evaluation: Evaluation,
    folder: str | Path,
    observations: Observations,
    test: Observations | None = None,
    elicited: Mapping[str, Observations] | None = None,
) -> None:
    """Write an evaluation; its folder appears, or takes the place of an earlier one, once all of it is written.

    ``predictions.csv``, ``metrics.csv``, ``parameters.csv``, ``fits/VARIANT-FOLD.nc``, and ``evaluation.json``:
    settings, versions, and size, origin and SHA-256 of the observations. If anything fails, what was there before
    is there still, and nothing else.

    Raises
    ------
    DirEAGError
        If the folder holds something else; see :func:`check_folder`.
    """
    check_folder(folder)
    folder = Path(folder).resolve()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        whole, before = Path(temporary) / "whole", Path(temporary) / "before"
        (whole / FITS).mkdir(parents=True)
        for name in _TABLES:
            getattr(evaluation, name).to_csv(whole / f"{name}.csv", index=False)
        for (variant, fold), fit in evaluation.fits.items():
            fit.save(whole / FITS / f"{variant}-{fold}.nc")
        manifest = _manifest(evaluation, observations, test, elicited or {})
        (whole / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        try:
            if folder.exists():
                folder.rename(before)
            whole.rename(folder)
        except BaseException:
            if before.exists() and not folder.exists():
                before.rename(folder)
            raise


def _manifest(
    evaluation: Evaluation, observations: Observations, test: Observations | None, elicited: Mapping[str, Observations]
) -> dict[str, object]:
    chosen = evaluation.settings
    settings = vars(chosen) | {
        "preset": chosen.preset.model_dump(mode="json"),
        "sampling": None if chosen.sampling is None else chosen.sampling.model_dump(),
    }
    return {
        "settings": settings,
        "observations": _origin(observations),
        "test": None if test is None else _origin(test),
        **{protocol: _origin(one) for protocol, one in elicited.items()},
        "versions": {name: version(name) for name in ("bayes-direag", "jax", "numpyro", "numpy", "scipy")},
    }


def _origin(observations: Observations) -> dict[str, object]:
    def distinct(names: list[str | None]) -> list[str]:
        return list(dict.fromkeys(name for name in names if name))

    return {
        "questions": len(observations),
        "answers": observations.kind,
        "levels": list(observations.level_names),
        "datasets": distinct([question.dataset for question in observations.questions]),
        "models": distinct([question.model for question in observations.questions]),
        "sha256": observations.fingerprint,
    }
