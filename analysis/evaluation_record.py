"""What ``evaluation.json`` records of an evaluation: its settings, and which observations were read."""

from typing import Any

from analysis.display.folders import versions
from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.observations import Observations
from bayes_direag.model.settings import FitMethod, Preset, SamplingSettings, Settings


class EvaluationSettings(Settings):
    """The settings of an evaluation, with defaults filled in: see :func:`evaluate`.

    ``n_folds`` is None with a test set, and ``sampling`` is None for MAP fits.
    """

    fit_method: FitMethod
    preset: Preset
    sampling: SamplingSettings | None
    methods: tuple[str, ...]
    vanilla_level: str
    n_folds: int | None
    seed: int
    n_resamples: int
    interval_level: float


class Origin(Settings):
    """Which observations were read."""

    questions: int
    answers: AnswerKind
    levels: tuple[str, ...]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    sha256: str

    @classmethod
    def of(cls, observations: Observations) -> "Origin":
        """Describe observations."""
        return cls(
            questions=len(observations),
            answers=observations.kind,
            levels=observations.level_names,
            datasets=observations.datasets,
            models=observations.models,
            sha256=observations.fingerprint,
        )


class EvaluationRecord(Settings):
    """``evaluation.json``: settings, the origin of all observations, versions, and the command, if it was one."""

    command: str | None = None
    settings: EvaluationSettings
    observations: Origin
    test: Origin | None = None
    samples: Origin | None = None
    topk: Origin | None = None
    versions: dict[str, str]

    @classmethod
    def of(cls, settings: EvaluationSettings, **given: Observations | None) -> "EvaluationRecord":
        """Make the record of what was given to :func:`evaluate`."""
        origins: dict[str, Any] = {name: Origin.of(one) for name, one in given.items() if one is not None}
        return cls(settings=settings, versions=versions("jax", "numpyro", "numpy", "scipy"), **origins)
