"""What a fit records beside its model: frozen settings, checked for misspelt names."""

import ast
import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bayes_direag.errors import DirEAGError

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

Variant = Literal["count", "level", "confidence"]
RecalibrationMethod = Literal["platt", "release", "none"]
FitMethod = Literal["map", "nuts"]
PresetName = Literal["paper", "release", "bayes"]

#: Answers that are this many or fewer in all questions together, and recur, are labels with one meaning.
MOST_LABELS = 12


class Settings(BaseModel):
    """Base of all settings: frozen; numbers are finite; a misspelt name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RecalibrationSettings(Settings):
    r"""The final calibration, or one of its alternatives.

    .. math:: \operatorname{sigmoid}(a + b \operatorname{logit} P)
    """

    #: ``platt``: the equation above for the support P of the selected answer, at the optimum. ``release``: the same
    #: objective after 1200 plain gradient steps of 0.05 from the identity. ``none``: support as it is.
    method: RecalibrationMethod = "platt"
    #: lambda in ``mean NLL + lambda / 2 * (a**2 + (b - 1)**2)``: a normal prior at the identity whose scale is
    #: ``1 / sqrt(lambda * n)``. Ignored when ``scale`` is given.
    penalty: float = Field(default=0.001, gt=0)
    #: Standard deviation of the normal prior at the identity, for every coefficient and any number of questions.
    scale: float | None = Field(default=None, gt=0)
    #: Support is clipped to ``[eps, 1 - eps]`` before its logit is taken.
    eps: float = Field(default=1e-6, gt=0, lt=0.5)
    #: Number of inner folds over which a MAP predicts the support of its own fitting questions: at most the number of
    #: questions, and none for a single question. 0 recalibrates on the same questions as the evidence parameters were
    #: fitted to, as the paper's release does. NUTS ignores it: leave-one-out support has not seen the label.
    out_of_fold: int = Field(default=0, ge=0)
    #: Number of parts of the labelled questions, one of which is used for the final calibration alone, under MAP and
    #: NUTS; 0: no split. In place of ``out_of_fold``, and of leave-one-out support.
    split: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _enough_folds(self) -> "RecalibrationSettings":
        if self.out_of_fold == 1:
            raise ValueError("out_of_fold must be 0 (recalibrate in sample) or at least 2 folds, not 1")
        if self.split == 1:
            raise ValueError("split must be 0 (keep no question apart) or at least 2 parts, not 1")
        if self.split and self.out_of_fold:
            raise ValueError("split and out_of_fold exclude each other; set one of them to 0")
        return self

    def prior_scale(self, n: float | int) -> float:
        """Return the standard deviation of every coefficient's prior for ``n`` questions."""
        return self.scale or 1 / math.sqrt(self.penalty * n)


class Preset(Settings):
    """A model, and the rest of what defines a fit beside its data."""

    #: ``bayes``, ``paper``, ``release``, or the name of a program of your own.
    name: str
    #: Your own NumPyro function of :class:`~bayes_direag.LikelihoodData`; None: the one of this name in
    #: :mod:`bayes_direag.model.models`. It is not stored with a fit.
    program: Callable[..., None] | None = Field(default=None, exclude=True)
    #: The text of your own program, as far as Python knows it: stored, and never run. None: a preset's program.
    source: str | None = Field(default=None, repr=False)
    #: What counts as evidence under ``paper`` and ``release``, for the paper's ablation.
    variant: Variant = "confidence"
    #: Whether the program sees the reports as in the paper: one signal, no labels, and no agreement of the levels.
    plain_reports: bool = False
    #: Stated confidences are clipped to ``[eps, 1 - eps]``.
    eps: float = Field(default=0.005, gt=0, lt=0.5)
    #: Weight of a question whose right answer no level gave. ``balanced``: questions with it / questions without.
    null_target_weight: Literal[1, "balanced"] = 1
    recalibration: RecalibrationSettings = RecalibrationSettings(scale=0.2, out_of_fold=5)

    @property
    def is_own(self) -> bool:
        """Whether the model is a program of one's own."""
        return self.source is not None

    def __str__(self) -> str:
        """Return the settings, and the text of the program, which states the priors."""
        if self.source is not None:
            return f"{self!r}\n\n{self.source}"
        text = Path(__file__).with_name("models.py").read_text(encoding="utf-8")  # to import it would load JAX
        programs = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
        program = next(node for node in programs if node.name == self.name)
        first = program.decorator_list[0].lineno - 1
        return f"{self!r}\n\n{chr(10).join(text.splitlines()[first : program.end_lineno])}\n"

    @property
    def is_weighted(self) -> bool:
        """Whether questions count unequally: the posterior is then a Gibbs posterior."""
        return self.null_target_weight != 1

    @property
    def uses_agreement(self) -> bool:
        """Whether the parameters of a level may depend on its agreement with the others."""
        return not self.plain_reports

    def labels(self, observations: "Observations") -> tuple[str, ...]:
        """Return the labels that all answers come from; none if these are too many, or the program does not look.

        Only questions that can be learned from say what these are.
        """
        learned = itertools.compress(observations.candidates, observations.informative)
        labels = set() if self.plain_reports else {*itertools.chain.from_iterable(learned)}
        are_few = 2 * len(labels) <= observations.informative.sum() and len(labels) <= MOST_LABELS
        return tuple(sorted(labels)) if are_few else ()


class SamplingSettings(Settings):
    """How NUTS is run, in NumPyro's words."""

    #: Independent chains, each from its own start. At least 2, since R-hat compares chains.
    num_chains: int = Field(default=4, ge=2)
    #: Steps of each chain that adapt the step size; they are not kept.
    num_warmup: int = Field(default=250, ge=1)
    #: Steps of each chain that are kept. At least 25, for leave-one-out predictions.
    num_samples: int = Field(default=1000, ge=25)
    #: Acceptance rate that the step size is adapted to; closer to 1 means smaller steps and fewer divergences.
    target_accept_prob: float = Field(default=0.98, gt=0, lt=1)

    @classmethod
    def of(cls, **words: int | float) -> "SamplingSettings":
        """Return these settings; raise DirEAGError if one is out of range."""
        try:
            return cls.model_validate(words)
        except ValidationError as error:
            first = error.errors()[0]
            raise DirEAGError(f"{first['loc'][0]}: {first['msg']}; saw {first['input']!r}.") from None


@dataclass(frozen=True)
class FitSettings:
    """How a fit is made from its data, which it records."""

    #: The model, and the final calibration.
    preset: Preset
    method: FitMethod = "map"
    #: How NUTS is run; None for a MAP.
    sampling: SamplingSettings | None = None
    #: Seed of all that is random.
    seed: int = 0

    @property
    def is_by_panel(self) -> bool:
        """Whether the final calibration of a question is that of its reports (:mod:`bayes_direag.inference.panels`)."""
        final = self.preset.recalibration
        return final.method == "platt" and final.out_of_fold > 0

    @property
    def attributes(self) -> dict[str, str | int]:
        """The attributes of a container that record them."""
        recorded: dict[str, str | int] = {"method": self.method, "preset": self.preset.model_dump_json()}
        if self.sampling is not None:
            recorded["sampling"] = self.sampling.model_dump_json()
        return {**recorded, "seed": self.seed}

    @classmethod
    def of_attributes(cls, attributes: Mapping[Any, Any]) -> "FitSettings":
        """Read them; the settings of the sampler unchecked, since draws may come from any sampler."""
        recorded = attributes.get("sampling")
        return cls(
            preset=Preset.model_validate_json(attributes["preset"]),
            method=attributes["method"],
            sampling=None if recorded is None else SamplingSettings.model_construct(**json.loads(recorded)),
            seed=int(attributes["seed"]),
        )
