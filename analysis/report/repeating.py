"""The commands that make an evaluation and a fit again, from the settings that were kept with them."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.evaluation import DEFAULT_METHODS, SAMPLED_METHODS
from analysis.methods.rules import VANILLA
from analysis.report.source import ReportSource
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import Preset, SamplingSettings


def commands(source: ReportSource) -> Iterator[str]:
    """Return the commands that make the evaluation, the fit if there is one, and the report; files in capitals."""
    yield evaluate_command(source.manifest)
    if source.fit is None:
        yield "direag report RESULTS"
    else:
        yield fit_command(source.fit)
        yield "direag report RESULTS --fit fit.nc"


def evaluate_command(manifest: Mapping[str, Any]) -> str:
    """Return the command behind an ``evaluation.json``."""
    settings = manifest["settings"]
    words = ["direag", "evaluate", "OBSERVATIONS", "--out", "RESULTS", "--answers", manifest["observations"]["answers"]]
    for role in ("test", "samples", "topk"):
        if manifest.get(role):
            words += [f"--{role}", role.upper()]
    if settings["n_folds"] is not None:
        words += ["--folds", str(settings["n_folds"])]
    if list(settings["methods"]) != _methods_unless_named(manifest):
        words += ["--methods", ",".join(settings["methods"])]
    if settings["vanilla_level"] != VANILLA:
        words += ["--vanilla-level", settings["vanilla_level"]]
    sampling = None if settings["sampling"] is None else SamplingSettings.model_validate(settings["sampling"])
    words += ["--fit-method", settings["fit_method"]]
    words += _fitting(Preset.model_validate(settings["preset"]), sampling)
    return _in_lines([*words, "--resamples", str(settings["n_resamples"]), "--seed", str(settings["seed"])])


def fit_command(fit: Fit) -> str:
    """Return the command behind a fit."""
    about = fit.tree.attrs
    words = ["direag", "fit", "OBSERVATIONS", "--out", "fit.nc", "--answers", about["answers"]]
    words += ["--variant", fit.variant, "--method", about["method"]]
    return _in_lines([*words, *_fitting(fit.preset, fit.sampling), "--seed", str(about["seed"])])


def _fitting(preset: Preset, sampling: SamplingSettings | None) -> list[str]:
    """Return the options for a preset, with what is not as in the one of that name, and for sampling."""
    usual = PRESETS.get(preset.name, PRESETS["bayes"])
    words = ["--preset", usual.name]
    for field, value in _changes(preset.model_dump(mode="json"), usual.model_dump(mode="json")):
        words += ["--set", f"{field}={json.dumps(value)}"]
    if sampling is None:
        return words
    words += ["--chains", str(sampling.n_chains), "--warmup", str(sampling.n_warmup), "--draws", str(sampling.n_draws)]
    return [*words, "--target-accept", str(sampling.target_accept), *["--allow-weighted"] * preset.is_weighted]


def _changes(settings: Mapping[str, Any], usual: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in settings.items():
        if isinstance(value, dict) and isinstance(usual[name], dict):
            yield from _changes(value, usual[name], f"{prefix}{name}.")
        elif value != usual[name]:
            yield f"{prefix}{name}", value


def _methods_unless_named(manifest: Mapping[str, Any]) -> list[str]:
    """Return the methods that an evaluation of these observations has if none is named."""
    levels = (manifest["test"] or manifest["observations"])["levels"]
    missing = {method for method, protocol in SAMPLED_METHODS.items() if not manifest.get(protocol)}
    missing |= set() if manifest["settings"]["vanilla_level"] in levels else {VANILLA}
    return [method for method in DEFAULT_METHODS if method not in missing]


def _in_lines(words: list[str], width: int = 76) -> str:
    """Join words into a command that a shell takes, broken before an option where a line gets too long."""
    options: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            options.append([])
        options[-1].append(word)
    lines = [shlex.join(options[0])]
    for option in map(shlex.join, options[1:]):
        if len(lines[-1]) + len(option) > width:
            lines[-1] += " \\"
            lines.append(f"    {option}")
        else:
            lines[-1] += f" {option}"
    return "\n".join(lines)
