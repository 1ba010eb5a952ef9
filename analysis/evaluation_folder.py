"""An evaluation as a folder of files: tables, fits, and what it takes to repeat it."""

import json
from importlib.metadata import version
from pathlib import Path

from analysis.evaluation import Evaluation
from analysis.result_folder import ResultFolder
from bayes_direag.data.observations import Observations

MANIFEST = "evaluation.json"
FITS = "fits"
REPORT = "report.html"
_TABLES = ("predictions", "metrics", "parameters")

FOLDER = ResultFolder(
    "evaluation", MANIFEST, frozenset({MANIFEST, REPORT, *(f"{name}.csv" for name in _TABLES), f"{FITS}/*.nc"})
)


def write_evaluation(evaluation: Evaluation, folder: str | Path) -> None:
    """Write an evaluation; its folder appears, or takes the place of an earlier one, once all of it is written.

    ``predictions.csv``, ``metrics.csv``, ``parameters.csv``, ``fits/VARIANT-FOLD.nc``, and ``evaluation.json``:
    settings, versions, and size, origin and SHA-256 of the observations. If anything fails, what was there before
    is there still, and nothing else.

    Raises
    ------
    DirEAGError
        If the folder holds something else.
    """
    with FOLDER.replacing(folder) as whole:
        (whole / FITS).mkdir()
        for name in _TABLES:
            getattr(evaluation, name).to_csv(whole / f"{name}.csv", index=False)
        for (variant, fold), fit in evaluation.fits.items():
            fit.save(whole / FITS / f"{variant}-{fold}.nc")
        manifest = _manifest(evaluation)
        (whole / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def _manifest(evaluation: Evaluation) -> dict[str, object]:
    chosen, test = evaluation.settings, evaluation.test
    settings = vars(chosen) | {
        "preset": chosen.preset.model_dump(mode="json"),
        "sampling": None if chosen.sampling is None else chosen.sampling.model_dump(),
    }
    return {
        "settings": settings,
        "observations": _origin(evaluation.observations),
        "test": None if test is None else _origin(test),
        **{protocol: _origin(origin) for protocol, origin in evaluation.elicited.items()},
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
