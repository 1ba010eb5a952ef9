r"""The presets: links, priors and starts of all parameters, and the final calibration.

======================  ==================================================================================
``paper``               the equations as printed, but for the objective's penalty and the data of the final calibration,
                        which are those of the release
``release``             the paper's released implementation: signed slope, null questions weighted to balance,
                        bounds on the raw parameters, a recalibration stopped after 1200 gradient steps
``bayes``               the default: sharpened evidence, partially pooled levels, and proper priors whose scale does not
                        depend on the number of questions
``judges``              ``bayes`` for answers that are labels, such as yes and no, with one meaning in all questions:
                        what a vote counts depends on the label too
======================  ==================================================================================

The priors of ``bayes``, and why:

- ``prior_strength`` is 1. The likelihood depends only on ratios of weight, prior_strength and null_base, so one of them
  is the unit, and the other two count in multiples of the prior.
- ``weight``: the levels' centre is log-normal with median e\ :sup:`2`, about 7: before any labels, one certain report
  outweighs the prior. 95 % lie within a factor of twenty, from "all but ignored" to "a hundred times the prior".
- ``bias``: the levels' centre is normal around 0 with sd 2. Most stated confidences lie between 80 % and 99 %, which is
  1.4 to 4.6 on the logit scale; a bias of minus that times the slope tells them apart.
- spreads of the levels: log-normal with medians 0.25 (weight, a factor of 1.3) and 0.5 (bias); 95 % lie within a factor
  of 2.7. The levels of a file are of one kind, so they are expected to be similar unless the labels show otherwise.
- ``slope``: log-normal with median 0.5, the paper's start, as stated confidences are too high. 95 % lie between 0.13
  and 2.
- ``null_gain``: log-normal around 1: the complement of a confidence counts for the null as much as the confidence
  counts for the answer.
- ``null_base``: softplus of normal(0, 2), with median 0.7 and 95 % below 4: about the size of the prior itself. On the
  log scale, where null_base and null_gain trade off, NUTS diverged now and then; under the softplus the posterior
  stays close to a normal.
- ``sharpness``: log-normal around 1, the paper's value. 95 % lie between 0.37 and 2.7: two reports that agree against
  one count between 1.3 and 6.3 to one.
- ``vote``: the levels' centre is normal around 0 with sd 0.1, since sharpness already says what agreement is worth for
  all levels; the spread is log-normal with median 0.15. There is no ``vote_slope`` for a single signal: it gained
  nothing.
- ``weight_agreement``, ``vote_agreement``: normal around 0.4 with sd 0.5, and around 0.15 with sd 0.2. They move the
  centre of a level with x, its :mod:`agreement <bayes_direag.data.agreement>` with the others beyond chance, from -1 to
  1. Levels that agree more are mostly better ones, so a level at 1 starts with 1.5 times the weight of one at 0. Around
  0 instead, three quarters of the gain would be lost.
- several signals of a report: each slope has the prior of a single one, divided by the number of signals, so that
  signals that say the same count as one. Each ``vote_slope`` is normal around 0 with sd 1, divided likewise: a total of
  1 is right for calibrated reports that are independent.
- ``eps`` is 0.005: stated percentages are mostly whole numbers, so 100 % means "at least 99.5 %".
- final calibration: each coefficient has sd 0.2 around the value that leaves support as it is, since support is
  already a probability under this model. The odds at even support are then within a factor of 1.5, and the slope
  between 0.6 and 1.4. It learns from support that has not seen the label: leave-one-out under NUTS, five folds for a
  MAP.

``judges`` differs in two things:

- ``label_vote``: what a vote counts depends on its label. The effect that all judges share adds up over them, so it has
  sd 0.1: for ten judges together about 1, a factor of 2.7 in odds. The labels of a level lie around this, with a spread
  of median 0.05: they are similar unless the labels of the questions show otherwise.
- no final calibration: with questions of one kind and few labels, support is already a regression on the votes.

``docs/presets.md`` shows what these priors imply together, and the tests check it.

Any field can be overridden: ``preset("paper").override(eps=0.005, weight={"start": 0.0})``.
"""

import json
import math
from collections.abc import Iterable
from typing import Any

from bayes_direag.errors import DirEAGError, did_you_mean
from bayes_direag.model.settings import Preset, RawParameter, RecalibrationSettings


def preset(name: "str | Preset") -> Preset:
    """Return a preset by name; a Preset is returned as it is."""
    if isinstance(name, Preset):
        return name
    if name not in PRESETS:
        raise DirEAGError(
            f"unknown preset {name!r}; expected one of {', '.join(PRESETS)}.{did_you_mean(name, PRESETS)}"
        )
    return PRESETS[name]


def label(preset: Preset) -> str:
    """Return its name, and each setting that differs from the preset of that name: ``paper with eps=0.005``."""
    if preset.name not in PRESETS:
        return preset.name
    named = PRESETS[preset.name].for_signals(2 if preset.vote_slope else 1)
    settings, defaults = _flat(preset.model_dump()), _flat(named.model_dump())
    changed = [
        f"{field}={value}" for field, value in settings.items() if field not in defaults or value != defaults[field]
    ]
    return f"{preset.name} with {', '.join(changed)}" if changed else preset.name


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``FIELD=VALUE`` texts into the arguments of :meth:`Preset.override`; a value is JSON, or else text.

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
    signals="first",
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

_BAYES = Preset(
    name="bayes",
    weight=RawParameter(link="exp", start=2.0, loc=2.0, scale=1.5),
    weight_spread=RawParameter(link="exp", start=math.log(0.25), loc=math.log(0.25), scale=0.5),
    bias=RawParameter(link="identity", start=0.0, loc=0.0, scale=2.0),
    bias_spread=RawParameter(link="exp", start=math.log(0.5), loc=math.log(0.5), scale=0.5),
    slope=RawParameter(link="exp", start=math.log(0.5), loc=math.log(0.5), scale=0.7),
    prior_strength=RawParameter(link="identity", start=1.0, fixed=1.0),
    null_base=RawParameter(link="softplus", start=0.0, loc=0.0, scale=2.0),
    null_gain=RawParameter(link="exp", start=0.0, loc=0.0, scale=1.0),
    sharpness=RawParameter(link="exp", start=0.0, loc=0.0, scale=0.5),
    vote=RawParameter(link="identity", start=0.0, loc=0.0, scale=0.1),
    vote_spread=RawParameter(link="exp", start=math.log(0.15), loc=math.log(0.15), scale=0.5),
    signal_vote_slope=RawParameter(link="identity", start=0.0, loc=0.0, scale=1.0),
    weight_agreement=RawParameter(link="identity", start=0.4, loc=0.4, scale=0.5),
    vote_agreement=RawParameter(link="identity", start=0.15, loc=0.15, scale=0.2),
    eps=0.005,
    penalty=None,
    recalibration=RecalibrationSettings(scale=0.2, out_of_fold=5),
)

_JUDGES = _BAYES.override(
    name="judges",
    label_vote={"link": "identity", "start": 0.0, "loc": 0.0, "scale": 0.1},
    label_vote_spread={"link": "exp", "start": math.log(0.05), "loc": math.log(0.05), "scale": 0.5},
    recalibration={"method": "none", "out_of_fold": 0},
)

PRESETS: dict[str, Preset] = {"paper": _PAPER, "release": _RELEASE, "bayes": _BAYES, "judges": _JUDGES}
