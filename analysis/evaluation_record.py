"""What ``evaluation.json`` records of an evaluation: its settings, and which observations were read."""

from typing import Any

from pydantic import Field, PositiveInt

from analysis.display.folders import versions
from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.data.plain import ConfidenceScale
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
    n_resamples: PositiveInt
    interval_level: float = Field(gt=0, lt=1)


class Origin(Settings):
    """Which observations were read; ``learned_sha256`` is that of the labelled, answered ones, as a fit has it.

    ``file`` is the name of their file, empty for a frame.
    """

    file: str
    questions: int
    answers: AnswerKind
    levels: tuple[str, ...]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    sha256: str
    learned_sha256: str
    columns: tuple[str, ...] = ()
    scale: ConfidenceScale | None = None
    groups: str | None = None
    same: str = ""

    @classmethod
    def of(cls, observations: Observations) -> "Origin":
        """Describe observations."""
        names, path = observations.table.names or Columns(), observations.table.path
        return cls(
            file="" if path is None else path.name,
            questions=len(observations),
            answers=observations.kind,
            levels=observations.level_names,
            datasets=observations.datasets,
            models=observations.models,
            sha256=observations.fingerprint,
            learned_sha256=observations.select(observations.informative).fingerprint,
            columns=tuple(names.pairs),
            scale=names.scale,
            groups=names.groups,
            same="" if observations.same is None else observations.same.name,
        )

    @property
    def read_as(self) -> Columns | None:
        """How the observations were read; None as in our own form."""
        if not (self.columns or self.scale or self.groups):
            return None
        return Columns.named(self.columns, scale=self.scale, groups=self.groups)

    @property
    def question(self) -> str:
        """The column that names the questions in the file, and so in the tables of results."""
        return (self.read_as or Columns()).question


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
    def of(cls, settings: EvaluationSettings, **sources: Observations | None) -> "EvaluationRecord":
        """Make the record of what was given to :func:`evaluate`."""
        origins: dict[str, Any] = {name: Origin.of(source) for name, source in sources.items() if source is not None}
        return cls(settings=settings, versions=versions("jax", "numpyro", "numpy", "scipy"), **origins)
