"""The settings of a fit: frozen, checked for misspelt names, and complete enough to repeat it."""

import math
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bayes_direag.errors import DirEAGError, did_you_mean

Variant = Literal["count", "level", "confidence"]
Link = Literal["identity", "softplus", "exp"]
RecalibrationMethod = Literal["platt", "release", "none"]
FitMethod = Literal["map", "nuts"]
PresetName = Literal["paper", "release", "bayes", "judges"]

VARIANTS: tuple[Variant, ...] = get_args(Variant)

#: The parameters of each variant, in the order of the raw vector; those from sharpness on only if the preset has them.
_VARIANT_PARAMETERS: dict[Variant, tuple[str, ...]] = {
    "count": ("weight", "prior_strength", "null_base", "sharpness", "vote", "label_vote"),
    "level": ("weight", "bias", "prior_strength", "null_base", "null_gain", "sharpness", "vote", "label_vote"),
    "confidence": (
        *("weight", "bias", "slope", "prior_strength", "null_base", "null_gain"),
        *("sharpness", "vote", "label_vote", "vote_slope"),
    ),
}
LEVEL_PARAMETERS = frozenset({"weight", "bias", "vote"})
#: Endings of what levels share of a pooled parameter.
SHARED = ("_centre", "_spread", "_agreement")
#: Parameters with one value a label.
LABEL_PARAMETERS = frozenset({"label_vote", "label_vote_centre"})
#: Parameters with one value a signal, where reports carry several signals.
SIGNAL_PARAMETERS = frozenset({"slope", "vote_slope"})


def raw_shape(name: str, n_levels: int, n_labels: int = 0, n_signals: int = 1) -> tuple[int, ...]:
    """Return the shape of a free raw parameter."""
    shapes = {"label_vote": (n_levels, n_labels), "label_vote_centre": (n_labels,)}
    if n_signals > 1:
        shapes |= dict.fromkeys(SIGNAL_PARAMETERS, (n_signals,))
    return shapes.get(name, (n_levels,) if name in LEVEL_PARAMETERS else ())


class Settings(BaseModel):
    """Base of all settings: frozen; numbers are finite; a misspelt name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RawParameter(Settings):
    """One parameter as the optimiser and the sampler see it: a number on the real line.

    ``natural = link(raw)``. The prior on raw is ``Normal(loc, scale)``; without a ``scale`` it comes from the preset's
    penalty. ``low`` and ``high`` bound raw. ``fixed`` (a natural value) takes the parameter out of inference; a
    parameter with one value a level cannot be fixed.
    """

    link: Link
    start: float
    low: float | None = None
    high: float | None = None
    loc: float = 0.0
    scale: float | None = Field(default=None, gt=0)
    fixed: float | None = None

    @model_validator(mode="after")
    def _start_within_bounds(self) -> "RawParameter":
        low, high = self.bounds
        if not low <= self.start <= high:
            raise ValueError(f"start {self.start} lies outside the bounds [{low}, {high}]")
        return self

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of raw; infinite where there is none."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high


class RecalibrationSettings(Settings):
    r"""The final calibration, or one of its alternatives.

    .. math:: \operatorname{sigmoid}(a + b \operatorname{logit} P)

    Attributes
    ----------
    method
        ``platt``: the equation above for the support P of the selected answer, at the optimum. ``release``: the same
        objective after 1200 plain gradient steps of 0.05 from the identity. ``none``: support as it is.
    penalty
        lambda in ``mean NLL + lambda / 2 * (a**2 + (b - 1)**2)``: a normal prior at the identity whose scale is
        ``1 / sqrt(lambda * n)``. Ignored when ``scale`` is given.
    scale
        Standard deviation of the normal prior at the identity, for every coefficient and any number of questions.
    eps
        Support is clipped to ``[eps, 1 - eps]`` before its logit is taken.
    out_of_fold
        Number of inner folds over which a MAP predicts the support of its own fitting questions: at most the number of
        questions, and none for a single question. 0 recalibrates on the same questions as the evidence parameters were
        fitted to, as the paper's release does. NUTS ignores it: leave-one-out support has not seen the label.
    split
        Number of parts of the labelled questions, one of which is used for the final calibration alone; 0: no split.
        For a MAP, in place of ``out_of_fold``.
    """

    method: RecalibrationMethod = "platt"
    penalty: float = Field(default=0.001, gt=0)
    scale: float | None = Field(default=None, gt=0)
    eps: float = Field(default=1e-6, gt=0, lt=0.5)
    out_of_fold: int = Field(default=0, ge=0)
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
    """Everything that defines a fit, except its data and variant.

    Attributes
    ----------
    weight, bias, slope, prior_strength, null_base, null_gain
        The paper's parameters: see :mod:`bayes_direag.model.equations`.
    sharpness, vote, label_vote, vote_slope
        The parameters beyond the paper. None: sharpness 1 and votes 0, as in the paper. ``label_vote`` is for answers
        that are labels with one meaning in all questions.
    signal_vote_slope
        ``vote_slope`` for reports with several signals, if that is None.
    weight_spread, bias_spread, vote_spread, label_vote_spread
        Standard deviation of the levels around their centre. Given, levels are exchangeable and partially pooled: a
        level's raw weight (bias, vote) is ``centre + spread * offset`` with a standard normal offset, and ``weight``
        (``bias``, ``vote``) is the prior of the centre. Each label has its own centre of ``label_vote``. None: levels
        are independent.
    weight_agreement, vote_agreement
        How far the centre of a level's pooled raw weight (vote) moves with its agreement with the other levels: see
        :mod:`bayes_direag.data.agreement`. None: not at all.
    eps
        Stated confidences are clipped to ``[eps, 1 - eps]``.
    penalty
        lambda of the penalty ``lambda * mean(raw**2)`` on the mean loss: a Normal(0, sqrt(D / (2 lambda W))) prior on
        each of the D raw parameters, where W is the total weight of the questions. None: every free parameter has its
        own scale.
    null_target_weight
        Weight of a question whose right answer no level gave. ``balanced``: questions with it / questions without.
    signals
        Which signals of a report are used: ``all``, or only the ``first``, usually the stated confidence.
    """

    name: str
    weight: RawParameter
    bias: RawParameter
    slope: RawParameter
    prior_strength: RawParameter
    null_base: RawParameter
    null_gain: RawParameter
    sharpness: RawParameter | None = None
    vote: RawParameter | None = None
    label_vote: RawParameter | None = None
    vote_slope: RawParameter | None = None
    signal_vote_slope: RawParameter | None = None
    weight_spread: RawParameter | None = None
    bias_spread: RawParameter | None = None
    vote_spread: RawParameter | None = None
    label_vote_spread: RawParameter | None = None
    weight_agreement: RawParameter | None = None
    vote_agreement: RawParameter | None = None
    eps: float = Field(default=1e-6, gt=0, lt=0.5)
    penalty: float | None = Field(default=0.001, gt=0)
    null_target_weight: float | Literal["balanced"] = 1.0
    signals: Literal["first", "all"] = "all"
    recalibration: RecalibrationSettings = RecalibrationSettings()

    @model_validator(mode="after")
    def _every_prior_proper(self) -> "Preset":
        for name in self.for_signals(2).free_parameters("confidence"):
            if self.penalty is None and self.for_signals(2).parameter(name).scale is None:
                raise ValueError(f"{name} has no prior: give it a scale, fix it, or give the preset a penalty")
        if self.null_target_weight != "balanced" and not self.null_target_weight > 0:
            raise ValueError(f"null_target_weight must be positive, not {self.null_target_weight}")
        return self

    @model_validator(mode="after")
    def _levels_are_free(self) -> "Preset":
        for name in (*sorted(LEVEL_PARAMETERS), "label_vote"):
            settings = getattr(self, name)
            if settings is None:
                if self.pools(name):
                    raise ValueError(f"there is {name}_spread without {name}; give both, or neither")
                continue
            if settings.fixed is not None:
                raise ValueError(f"{name} has a value for each level, so it cannot be fixed at one; narrow its scale")
            if not self.pools(name):
                continue
            if settings.low is not None or settings.high is not None:
                raise ValueError(f"{name} is pooled over levels ({name}_spread), so it cannot be bounded")
            for shared in (f"{name}_spread", f"{name}_agreement"):
                if getattr(getattr(self, shared, None), "fixed", None) is not None:
                    raise ValueError(f"{shared} cannot be fixed; narrow its scale")
        return self

    @model_validator(mode="after")
    def _fixed_in_support(self) -> "Preset":
        for name in ("prior_strength", "null_base", "null_gain"):
            fixed = self.parameter(name).fixed
            if fixed is not None and (fixed < 0 or (fixed == 0 and name == "prior_strength")):
                raise ValueError(
                    f"{name} cannot be fixed at {fixed}: no concentration may be negative, and not all may be 0"
                )
        if self.sharpness is not None and self.sharpness.fixed is not None and self.sharpness.fixed <= 0:
            raise ValueError(f"sharpness cannot be fixed at {self.sharpness.fixed}: it must be positive")
        return self

    @property
    def is_weighted(self) -> bool:
        """Whether questions count unequally; the likelihood is then not that of a probability model."""
        return self.null_target_weight != 1.0

    @property
    def model_settings(self) -> "Preset":
        """The preset without its name, weights and recalibration: equal for equal evidence models."""
        defaults = {"name": "model", "null_target_weight": 1.0, "recalibration": RecalibrationSettings()}
        return self.model_copy(update=defaults)

    @property
    def is_bounded(self) -> bool:
        """Whether some free raw parameter has bounds."""
        names = self.free_parameters("confidence")
        return any(not math.isinf(bound) for name in names for bound in self.parameter(name).bounds)

    def parameters(self, variant: Variant) -> tuple[str, ...]:
        """Return the natural parameters of the model, in order."""
        return tuple(name for name in _VARIANT_PARAMETERS[variant] if getattr(self, name) is not None)

    def for_signals(self, n: int) -> "Preset":
        """Return the preset for reports with ``n`` signals."""
        if n == 1 or self.vote_slope or not self.signal_vote_slope:
            return self
        return self.model_copy(update={"vote_slope": self.signal_vote_slope})

    def pools(self, name: str) -> bool:
        """Whether this parameter is partially pooled over levels."""
        return name in {*LEVEL_PARAMETERS, "label_vote"} and getattr(self, f"{name}_spread") is not None

    def moves_with_agreement(self, name: str) -> bool:
        """Whether the centre of this parameter depends on a level's agreement with the others."""
        return self.pools(name) and getattr(self, f"{name}_agreement", None) is not None

    @property
    def uses_agreement(self) -> bool:
        """Whether the parameters of a level depend on its agreement with the others."""
        return any(self.moves_with_agreement(name) for name in LEVEL_PARAMETERS)

    def parameter(self, name: str) -> RawParameter:
        """Return the settings of one raw parameter.

        A pooled parameter has several: the standard normal offset ``NAME``, ``NAME_centre`` and ``NAME_spread``, and
        ``NAME_agreement`` if the preset has one.
        """
        field = name.removesuffix("_centre")
        settings = getattr(self, field)
        assert isinstance(settings, RawParameter)  # noqa: S101 - narrows the type, guards no input
        if name != field:
            return settings.model_copy(update={"link": "identity"})
        if self.pools(name):
            return settings.model_copy(update={"start": 0.0, "loc": 0.0, "scale": 1.0})
        return settings

    def free_parameters(self, variant: Variant) -> tuple[str, ...]:
        """Return the raw parameters of the fit, in the order of the raw vector."""
        names: list[str] = []
        for name in self.parameters(variant):
            if self.pools(name):
                names += [name, f"{name}_centre", f"{name}_spread"]
                if self.moves_with_agreement(name):
                    names.append(f"{name}_agreement")
            elif self.parameter(name).fixed is None:
                names.append(name)
        return tuple(names)

    def override(self, **changes: Any) -> "Preset":
        """Return the preset with some fields changed; nested fields as dicts.

        Raises
        ------
        DirEAGError
            On an unknown field or a value out of range.
        """
        return _validated(_merge(self.model_dump(), changes), f"preset {self.name}")


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        nested = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = _merge(base[key], value) if nested else value
    return merged


def _validated(fields: dict[str, Any], what: str) -> Preset:
    try:
        return Preset.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        path, here = [], fields
        for part in first["loc"]:
            if isinstance(here, dict) and part in here:
                path.append(str(part))
                parent, here = here, here[part]
        field = ".".join(path) if path else "the settings together"
        match first["type"]:
            case "extra_forbidden":
                known = [name for name in parent if name != path[-1]]
                meant = did_you_mean(path[-1], known)
                text = f"{what}: there is no setting {field!r}; expected one of {', '.join(known)}.{meant}"
                raise DirEAGError(text) from None
            case "value_error":
                raise DirEAGError(f"{what}: {field}: {first['ctx']['error']}.") from None
            case _:
                raise DirEAGError(f"{what}: {field}: {first['msg']}; saw {first['input']!r}.") from None


class SamplingSettings(Settings):
    """How NUTS is run.

    Attributes
    ----------
    n_chains
        Independent chains, each from its own start. At least 2, since R-hat compares chains.
    n_warmup
        Steps of each chain that adapt step size and mass matrix; they are not kept.
    n_draws
        Steps of each chain that are kept. At least 25, for leave-one-out predictions.
    target_accept
        Acceptance rate that the step size is adapted to; closer to 1 means smaller steps and fewer divergences.
    """

    n_chains: int = Field(default=4, ge=2)
    n_warmup: int = Field(default=250, ge=1)
    n_draws: int = Field(default=1000, ge=25)
    target_accept: float = Field(default=0.98, gt=0, lt=1)
