r"""Frozen settings of a fit: how raw parameters become natural ones, what is believed of them, how they are found.

======================  ==================================================================================
``paper``               the equations as printed; the default for MAP
``release``             the paper's released implementation: signed slope, null questions weighted to balance,
                        bounds on the raw parameters, a recalibration stopped after 1200 gradient steps
``bayes``               proper priors whose scale does not depend on the number of questions; the default for NUTS
======================  ==================================================================================

Any field can be overridden: ``preset("paper").override(eps=0.005, weight={"start": 0.0})``.
"""

import json
import math
from collections.abc import Iterable
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bayes_direag.errors import DirEAGError

Variant = Literal["count", "level", "confidence"]
Link = Literal["identity", "softplus", "exp"]
RecalibrationMethod = Literal["platt", "release", "temperature", "isotonic", "none"]
PresetName = Literal["paper", "release", "bayes"]

VARIANTS: tuple[Variant, ...] = get_args(Variant)

#: Which parameters each variant has, in the order of the raw vector.
VARIANT_PARAMETERS: dict[Variant, tuple[str, ...]] = {
    "count": ("weight", "prior_strength", "null_base"),
    "level": ("weight", "bias", "prior_strength", "null_base", "null_gain"),
    "confidence": ("weight", "bias", "slope", "prior_strength", "null_base", "null_gain"),
}
LEVEL_PARAMETERS = frozenset({"weight", "bias"})


class Settings(BaseModel):
    """Base of all settings: frozen, every number finite, and a misspelt name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RawParameter(Settings):
    """One parameter as the optimiser and the sampler see it: a number on the real line.

    ``natural = link(raw)``. The prior on raw is ``Normal(loc, scale)``; without a ``scale`` it is the one that the
    preset's penalty stands for. ``low`` and ``high`` bound raw. ``fixed`` (a natural value) takes the parameter out
    of inference.
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
        """The interval that raw is kept in; infinite where there is no bound."""
        return -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high


class RecalibrationSettings(Settings):
    r"""The final calibration ``sigmoid(intercept + slope * logit(support))``, or one of its alternatives.

    Attributes
    ----------
    method
        ``platt``: both parameters, to the optimum. ``release``: the same objective, 1200 plain gradient steps of 0.05
        from the identity. ``temperature``: the slope alone, unpenalised. ``isotonic``: a monotone function of support.
        ``none``: support as it is.
    penalty
        lambda in ``mean NLL + lambda / 2 * (intercept**2 + (slope - 1)**2)``: a normal prior at the identity whose
        scale is ``1 / sqrt(lambda * n)``. Ignored when ``scale`` is given, and by temperature and isotonic.
    scale
        Standard deviation of the normal prior at the identity, whatever the number of questions.
    eps
        Support is clipped to ``[eps, 1 - eps]`` before its logit is taken.
    out_of_fold
        Number of inner folds from which each fitting question's support is predicted; 0 recalibrates on the very
        questions that the evidence parameters were fitted to, as the paper's release does.
    """

    method: RecalibrationMethod = "platt"
    penalty: float = Field(default=0.001, gt=0)
    scale: float | None = Field(default=None, gt=0)
    eps: float = Field(default=1e-6, gt=0, lt=0.5)
    out_of_fold: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _enough_folds(self) -> "RecalibrationSettings":
        if self.out_of_fold == 1:
            raise ValueError("out_of_fold must be 0 (recalibrate in sample) or at least 2 folds, not 1")
        return self


class Preset(Settings):
    """Everything that defines a fit beside its data and its variant.

    Attributes
    ----------
    eps
        Stated confidences are clipped to ``[eps, 1 - eps]``.
    penalty
        lambda of the penalty ``lambda * mean(raw**2)`` on the mean loss: a Normal(0, sqrt(D / (2 lambda W))) prior on
        each of the D raw parameters, W being the total weight of the questions. None: every free parameter brings its
        own scale.
    null_target_weight
        Weight of a question whose right answer no level gave. ``balanced``: questions with it / questions without.
    """

    name: str
    weight: RawParameter
    bias: RawParameter
    slope: RawParameter
    prior_strength: RawParameter
    null_base: RawParameter
    null_gain: RawParameter
    eps: float = Field(default=1e-6, gt=0, lt=0.5)
    penalty: float | None = Field(default=0.001, gt=0)
    null_target_weight: float | Literal["balanced"] = 1.0
    recalibration: RecalibrationSettings = RecalibrationSettings()

    @model_validator(mode="after")
    def _every_prior_proper(self) -> "Preset":
        for name in VARIANT_PARAMETERS["confidence"]:
            raw = self.parameter(name)
            if self.penalty is None and raw.fixed is None and raw.scale is None:
                raise ValueError(f"{name} has no prior: give it a scale, fix it, or give the preset a penalty")
        if self.null_target_weight != "balanced" and not self.null_target_weight > 0:
            raise ValueError(f"null_target_weight must be positive, not {self.null_target_weight}")
        return self

    @model_validator(mode="after")
    def _fixed_in_support(self) -> "Preset":
        for name in ("weight", "prior_strength", "null_base", "null_gain"):
            fixed = self.parameter(name).fixed
            if fixed is not None and (fixed < 0 or (fixed == 0 and name == "prior_strength")):
                raise ValueError(
                    f"{name} cannot be fixed at {fixed}: no concentration may be negative, nor every one 0"
                )
        return self

    @property
    def is_weighted(self) -> bool:
        """Whether questions count unequally, so that the likelihood is not that of a probability model."""
        return self.null_target_weight != 1.0

    @property
    def label(self) -> str:
        """The name, and each setting that is not as in the preset of that name: ``paper with eps=0.005``."""
        if self.name not in PRESETS:
            return self.name
        own, usual = _flat(self.model_dump()), _flat(PRESETS[self.name].model_dump())
        changed = [f"{field}={value}" for field, value in own.items() if value != usual[field]]
        return f"{self.name} with {', '.join(changed)}" if changed else self.name

    @property
    def model_settings(self) -> "Preset":
        """The same preset less its name, its weights and its recalibration: equal for equal evidence models."""
        rest = {"name": "model", "null_target_weight": 1.0, "recalibration": RecalibrationSettings()}
        return self.model_copy(update=rest)

    def parameter(self, name: str) -> RawParameter:
        """Return the settings of one parameter."""
        found = getattr(self, name)
        assert isinstance(found, RawParameter)  # noqa: S101 - narrows the type, guards no input
        return found

    def free_parameters(self, variant: Variant) -> tuple[str, ...]:
        """Return the parameters that inference has to find, in the order of the raw vector."""
        return tuple(name for name in VARIANT_PARAMETERS[variant] if self.parameter(name).fixed is None)

    def override(self, **changes: Any) -> "Preset":
        """Return the preset with some fields changed; nested fields as dicts.

        Raises
        ------
        DirEAGError
            On an unknown field or a value out of range.
        """
        return _validated(_merge(self.model_dump(), changes), f"preset {self.name}")


def preset(name: "str | Preset") -> Preset:
    """Return a preset by name (a Preset is handed back as it is)."""
    if isinstance(name, Preset):
        return name
    if name not in PRESETS:
        raise DirEAGError(f"unknown preset {name!r}; expected one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``FIELD=VALUE`` texts, as a command line gives them, into the arguments of :meth:`Preset.override`.

    A value is read as JSON where it is JSON, and stands for itself where it is not. Of two values for one field
    the later holds.

    Raises
    ------
    DirEAGError
        If a text has no ``=``, or goes on into a field that another has given a plain value.

    Examples
    --------
    >>> parse_overrides(["eps=0.005", "weight.start=0", "recalibration.method=none"])
    {'eps': 0.005, 'weight': {'start': 0}, 'recalibration': {'method': 'none'}}
    """
    changes: dict[str, Any] = {}
    for text in texts:
        field, equals, value = text.partition("=")
        *parents, last = field.split(".")
        place: Any = changes
        for parent in parents:
            place = place.setdefault(parent, {}) if isinstance(place, dict) else None
        if not equals or not isinstance(place, dict):
            problem = f"{'.'.join(parents)} already has a plain value" if equals else "there is no '='"
            raise DirEAGError(f"setting {text!r}: {problem}; expected FIELD=VALUE, for example eps=0.005.")
        place[last] = _json_or_text(value)
    return changes


def _json_or_text(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fields.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


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
                known = ", ".join(name for name in parent if name != path[-1])
                raise DirEAGError(f"{what}: there is no setting {field!r}; expected one of {known}.") from None
            case "value_error":
                raise DirEAGError(f"{what}: {field}: {first['ctx']['error']}.") from None
            case _:
                raise DirEAGError(f"{what}: {field}: {first['msg']}; saw {first['input']!r}.") from None


def _inverse_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


_PAPER = Preset(
    name="paper",
    weight=RawParameter(link="softplus", start=_inverse_softplus(1.0)),
    bias=RawParameter(link="identity", start=0.0),
    slope=RawParameter(link="softplus", start=_inverse_softplus(0.5)),
    prior_strength=RawParameter(link="softplus", start=_inverse_softplus(0.1)),
    null_base=RawParameter(link="softplus", start=_inverse_softplus(0.01)),
    null_gain=RawParameter(link="softplus", start=_inverse_softplus(0.25)),
)

_RELEASE = _PAPER.override(
    name="release",
    weight={"low": -5.0, "high": 3.0},
    bias={"low": -5.0, "high": 5.0},
    slope={"link": "identity", "start": 0.05, "low": -2.0, "high": 2.0},
    prior_strength={"low": -8.0, "high": 3.0},
    null_base={"low": -8.0, "high": 3.0},
    null_gain={"low": -8.0, "high": 3.0},
    null_target_weight="balanced",
    recalibration={"method": "release"},
)

# The likelihood sees only ratios of weight, prior_strength and null_base, so prior_strength is the unit. A weight's
# median of e^2 makes a lone sure report count about seven times the prior; the scale leaves a factor of twenty either
# way at 95 %. Stated percentages are whole numbers as a rule: 100 % says "at least 99.5 %", so eps is 0.005.
_BAYES = Preset(
    name="bayes",
    weight=RawParameter(link="exp", start=2.0, loc=2.0, scale=1.5),
    bias=RawParameter(link="identity", start=0.0, loc=0.0, scale=2.0),
    slope=RawParameter(link="exp", start=math.log(0.5), loc=math.log(0.5), scale=1.0),
    prior_strength=RawParameter(link="identity", start=1.0, fixed=1.0),
    null_base=RawParameter(link="exp", start=0.0, loc=0.0, scale=1.5),
    null_gain=RawParameter(link="exp", start=0.0, loc=0.0, scale=1.5),
    eps=0.005,
    penalty=None,
    recalibration=RecalibrationSettings(scale=0.5),
)

PRESETS: dict[str, Preset] = {"paper": _PAPER, "release": _RELEASE, "bayes": _BAYES}
