"""The presets: a model, how confidences are clipped, and the final calibration.

==============  =====================================================================================================
``bayes``       the default: see :func:`bayes_direag.model.models.bayes`. Its final calibration has coefficients with
                sd 0.2 around those that change nothing, and learns from support that has not seen the label:
                leave-one-out under NUTS, five folds for a MAP. ``eps`` is 0.005: stated percentages are mostly whole
                numbers, so 100 % means "at least 99.5 %"
``paper``       the equations as printed; a fifth of the labelled questions is kept for the final calibration
``release``     the paper's released code: signed slope, bounds, null questions weighted to balance, a recalibration
                on the questions fitted to, stopped after 1200 gradient steps
==============  =====================================================================================================
"""

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.model.settings import Preset, RecalibrationSettings, Variant

_MODELS = "bayes_direag.model.models"
_FINAL = tuple(RecalibrationSettings.model_fields)

#: What a fit takes for its preset: a name, a preset, or a NumPyro function of one's own.
type PresetLike = str | Preset | Callable[..., None]

PRESETS: dict[str, Preset] = {
    "paper": Preset(name="paper", plain_reports=True, eps=1e-6, recalibration=RecalibrationSettings(split=5)),
    "release": Preset(
        name="release",
        plain_reports=True,
        eps=1e-6,
        null_target_weight="balanced",
        recalibration=RecalibrationSettings(method="release"),
    ),
    "bayes": Preset(name="bayes"),
}


def preset(given: PresetLike, variant: Variant | None = None, **changes: Any) -> Preset:
    """Return a preset by name, or that of a program of your own, which has the settings of ``bayes``.

    Parameters
    ----------
    given
        A name, a preset, or a NumPyro function.
    variant
        What counts as evidence, under ``paper`` and ``release``.
    **changes
        Other fields of :class:`Preset`.

    Raises
    ------
    DirEAGError
        On an unknown name or field, a value out of range, or a variant of another model.

    Examples
    --------
    >>> preset("paper", "level", eps=0.01).variant
    'level'
    """
    if callable(given) and not isinstance(given, Preset):
        name = getattr(given, "__name__", type(given).__name__)
        is_ours = getattr(given, "__module__", "") == _MODELS and name in PRESETS
        chosen = PRESETS[name] if is_ours else Preset(name=name, program=given, source=_source(given))
    elif isinstance(given, Preset):
        chosen = given
    elif given in PRESETS:
        chosen = PRESETS[given]
    else:
        raise DirEAGError(
            f"unknown preset {given!r}; expected one of {', '.join(PRESETS)}, or a NumPyro function."
            f"{did_you_mean(str(given), PRESETS)}"
        )
    if variant is not None and variant != chosen.variant:
        if not chosen.plain_reports:
            raise DirEAGError(f"variant {variant}: preset {chosen.name} has none; expected paper or release.")
        changes["variant"] = variant
    return chosen if not changes else _changed(chosen, changes)


def label(preset: Preset) -> str:
    """Return its name, and each setting that differs from the preset of that name: ``paper with eps=0.005``."""
    if preset.is_own or preset.name not in PRESETS:
        return preset.name
    settings, defaults = _flat(preset.model_dump()), _flat(PRESETS[preset.name].model_dump())
    changed = [
        f"{field}={value}" for field, value in settings.items() if field != "variant" and value != defaults[field]
    ]
    return f"{preset.name} with {', '.join(changed)}" if changed else preset.name


def _changed(preset: Preset, changes: dict[str, Any]) -> Preset:
    fields = {name: getattr(preset, name) for name in Preset.model_fields}
    if isinstance(final := changes.get("recalibration"), dict):
        changes["recalibration"] = preset.recalibration.model_dump() | final
    try:
        return Preset.model_validate(fields | changes)
    except ValidationError as error:
        first = error.errors()[0]
        field, known = ".".join(map(str, first["loc"])) or "the settings together", [*fields, *_FINAL]
        hint = did_you_mean(field.rpartition(".")[2], known) if first["type"] == "extra_forbidden" else ""
        raise DirEAGError(f"preset {preset.name}: {field}: {first['msg']}; saw {first['input']!r}.{hint}") from None


def _flat(fields: dict[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fields.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _source(program: Callable[..., None]) -> str:
    """Return the text of a program; none if Python does not know it."""
    try:
        return inspect.getsource(program)
    except (OSError, TypeError):
        return ""
