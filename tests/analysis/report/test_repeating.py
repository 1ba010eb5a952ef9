"""The commands in a report make again what they claim to."""

import json
import shlex

import pytest
from typer.testing import CliRunner

from analysis.evaluation import DEFAULT_METHODS, SAMPLED_METHODS
from analysis.report.repeating import evaluate_command, fit_command
from bayes_direag.cli import app
from bayes_direag.commands.options import chosen_preset
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import SamplingSettings
from tests.analysis.report.runs import small_fit, small_observations


def options(command: str) -> dict[str, list[str]]:
    """Return the values of every option of a command."""
    found: dict[str, list[str]] = {}
    words = shlex.split(command.replace("\\\n", " "))
    for position, word in enumerate(words):
        if word.startswith("--"):
            found.setdefault(word, []).extend(words[position + 1 : position + 2])
    return found


def manifest(**settings: object) -> dict[str, object]:
    usual = {
        "fit_method": "map",
        "preset": preset("paper").model_dump(mode="json"),
        "sampling": None,
        "methods": ["majority", "direag"],
        "vanilla_level": "vanilla",
        "n_folds": 5,
        "seed": 3,
        "n_resamples": 100,
    }
    origin = {"answers": "numeric", "levels": ["vanilla", "other"]}
    return {"settings": usual | settings, "observations": origin, "test": None}


def test_an_evaluation_can_be_made_again_from_its_own_manifest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_observations().write("observations.jsonl")
    first = ["evaluate", "observations.jsonl", "--out", "first", "--methods", "vanilla,majority", "--folds", "3"]
    first += [
        "--vanilla-level",
        small_observations().level_names[0],
        "--set",
        "eps=0.01",
        "--set",
        "weight.start=0",
        "--seed",
        "7",
        "--resamples",
        "20",
    ]
    assert CliRunner().invoke(app, first).exit_code == 0
    kept = (tmp_path / "first" / "evaluation.json").read_text()
    words = shlex.split(evaluate_command(json.loads(kept)).replace("\\\n", " "))
    words = ["observations.jsonl" if word == "OBSERVATIONS" else word for word in words[1:]]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "RESULTS" / "evaluation.json").read_text() == kept
    assert (tmp_path / "RESULTS" / "metrics.csv").read_bytes() == (tmp_path / "first" / "metrics.csv").read_bytes()


@pytest.mark.parametrize(
    "wanted",
    [
        preset("release"),
        preset("bayes").override(weight={"scale": 0.7}, recalibration={"method": "temperature"}),
        preset("bayes").override(weight_spread=None, eps=0.02),
        preset("paper").override(bias_spread=preset("bayes").bias_spread.model_dump()),
        preset("paper").override(name="my own", penalty=0.01, null_target_weight="balanced"),
    ],
    ids=lambda wanted: wanted.name,
)
def test_any_preset_can_be_asked_for(wanted):
    found = options(evaluate_command(manifest(preset=wanted.model_dump(mode="json"))))
    assert chosen_preset(found["--preset"][0], None, None, found.get("--set")) == wanted


def test_sampling_and_what_was_given():
    sampling = SamplingSettings(n_chains=3, n_warmup=50, n_draws=70, target_accept=0.95)
    given = manifest(fit_method="nuts", sampling=sampling.model_dump(), n_folds=None) | {
        "test": {"levels": ["a b"]},
        "topk": {},
    }
    given["topk"] = {"levels": ["rank_0"]}
    found = options(evaluate_command(given))
    assert [found[f"--{name}"] for name in ("chains", "warmup", "draws", "target-accept")] == [
        ["3"],
        ["50"],
        ["70"],
        ["0.95"],
    ]
    assert found["--test"] == ["TEST"]
    assert found["--topk"] == ["TOPK"]
    assert "--folds" not in found
    assert "--samples" not in found


def test_methods_are_named_only_where_they_have_to_be():
    usual = [method for method in DEFAULT_METHODS if method not in SAMPLED_METHODS]
    assert "--methods" not in options(evaluate_command(manifest(methods=usual)))
    assert options(evaluate_command(manifest()))["--methods"] == ["majority,direag"]
    other = options(evaluate_command(manifest(methods=["vanilla"], vanilla_level="it's; rm -rf ~")))
    assert other["--vanilla-level"] == ["it's; rm -rf ~"]


def test_a_fit():
    fit = small_fit()
    assert options(fit_command(fit))["--method"] == ["map"]
    fit.tree.attrs |= {"method": "nuts", "sampling": SamplingSettings(n_draws=70).model_dump_json(), "seed": 4}
    found = options(fit_command(fit))
    assert [found[f"--{name}"] for name in ("method", "draws", "seed")] == [["nuts"], ["70"], ["4"]]
