"""What a fit records beside its model, and nothing else can be set."""

import pytest

from bayes_direag.errors import DirEAGError
from bayes_direag.model.models import bayes, model_of, paper
from bayes_direag.model.presets import PRESETS, label, preset
from bayes_direag.model.settings import Preset


def own_model(data) -> None:
    """Nothing."""


def test_documented_settings() -> None:
    assert {name: settings.eps for name, settings in PRESETS.items()} == {
        "paper": 1e-6,
        "release": 1e-6,
        "bayes": 0.005,
    }
    finals = {name: settings.recalibration for name, settings in PRESETS.items()}
    assert {name: settings.method for name, settings in finals.items()} == {
        "paper": "platt",
        "release": "release",
        "bayes": "platt",
    }
    assert (finals["paper"].split, finals["paper"].out_of_fold, finals["paper"].penalty) == (5, 0, 0.001)
    assert (finals["release"].split, finals["release"].out_of_fold, finals["release"].penalty) == (0, 0, 0.001)
    assert (finals["bayes"].split, finals["bayes"].out_of_fold, finals["bayes"].scale) == (0, 5, 0.2)
    assert [name for name, settings in PRESETS.items() if settings.is_weighted] == ["release"]
    assert [name for name, settings in PRESETS.items() if settings.uses_agreement] == ["bayes"]


def test_preset_is_a_name_a_preset_or_a_function() -> None:
    assert model_of(preset("bayes")) is model_of(preset(PRESETS["bayes"])) is bayes
    assert model_of(preset("paper")) is paper
    settings = preset(own_model)
    assert (settings.name, settings.eps, settings.recalibration) == (
        "own_model",
        PRESETS["bayes"].eps,
        PRESETS["bayes"].recalibration,
    )
    assert "def own_model(data)" in (settings.source or "")
    assert model_of(settings) is model_of(preset(own_model))


def test_preset_of_ones_own_is_recorded_by_name_and_text_alone() -> None:
    stored = Preset.model_validate_json(preset(own_model).model_dump_json())
    assert (stored.name, stored.source) == ("own_model", preset(own_model).source)
    with pytest.raises(DirEAGError, match="a model of its own, own_model, whose function a file does not hold"):
        model_of(stored)


def test_preset_prints_its_priors() -> None:
    assert 'sample("weight_centre", normal(2, 1.5))' in str(preset("bayes"))
    assert "def own_model(data)" in str(preset(own_model))
    assert "def own_model" not in repr(preset(own_model))


def test_preset_label_tells_what_is_not_as_the_name_says() -> None:
    assert label(preset("paper")) == "paper"
    assert label(preset("paper", eps=0.01, recalibration={"method": "none"})) == (
        "paper with eps=0.01, recalibration.method=none"
    )
    assert label(preset(own_model)) == "own_model"


@pytest.mark.parametrize(
    ("given", "variant", "changes", "message"),
    [
        ("bays", None, {}, r"unknown preset 'bays'; expected one of paper, release, bayes, .* Did you mean bayes"),
        ("bayes", "level", {}, r"variant level: preset bayes has none; expected paper or release"),
        ("paper", None, {"epps": 0.1}, r"preset paper: epps: Extra inputs .*saw 0\.1\. Did you mean eps"),
        ("paper", None, {"eps": 0}, r"preset paper: eps: .* greater than 0; saw 0"),
        ("paper", None, {"recalibration": {"bins": 1}}, r"recalibration\.bins: Extra inputs"),
        ("bayes", None, {"recalibration": {"out_of_fold": 1}}, r"out_of_fold must be 0 .* or at least 2"),
        ("paper", None, {"recalibration": {"split": 1}}, r"at least 2 parts"),
        ("bayes", None, {"recalibration": {"split": 5}}, r"split and out_of_fold exclude each other"),
    ],
)
def test_preset_that_cannot_be(given, variant, changes, message) -> None:
    with pytest.raises(DirEAGError, match=message):
        preset(given, variant, **changes)
