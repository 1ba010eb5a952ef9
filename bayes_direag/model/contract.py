"""What a program of one's own must be, told in one line before anything is fitted.

It draws the state of each question by :func:`~bayes_direag.model.evidence.draw_states`, from parameters with a proper
continuous prior, whose shapes are those of their plates and do not depend on the questions.
"""

import inspect
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.handlers import seed, trace

from bayes_direag.errors import DirEAGError
from bayes_direag.model.evidence import State
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import Preset
from bayes_direag.model.unconstrained import (
    Model,
    Unconstrained,
    evaluated,
    log_joint,
    parameter_sites,
    start_and_bounds,
    unwrapped,
)

#: Names that a container has for its dimensions.
_DIMENSIONS = ("chain", "draw", "level", "signal", "answer", "problem", "report", "candidate")

#: How far from the start a question is looked at alone: an effect may be 0 at the start.
_ASIDE = 0.25


def require_program(preset: Preset, data: LikelihoodData) -> None:
    """Raise DirEAGError unless a program of one's own can be fitted to these data, searched, sampled and stored."""
    if preset.program is None:
        return
    data = data.select(np.flatnonzero(data.weight))
    sites = _traced(preset, data)
    for name, site in sites.items():
        _check_site(preset, name, site)
    target = sites.get("target")
    if target is None or not isinstance(target["fn"], State):
        _refuse(preset, "it does not draw the states", "draw_states(data, answers, null) at its end")
    if all(site["type"] != "sample" or site["is_observed"] for site in sites.values()):
        _refuse(preset, "it has no parameter", "at least one numpyro.sample beside the states", "Learn something.")
    with jax.enable_x64(True):
        _check_start(preset, model_of(preset), data)


def _traced(preset: Preset, data: LikelihoodData) -> Mapping[str, Any]:
    """Run a program once, as its author wrote it, with draws from its prior."""
    program = preset.program
    try:
        with jax.enable_x64(True):
            sites: Mapping[str, Any] = trace(seed(inspect.unwrap(program), 0)).get_trace(data)  # type: ignore[arg-type]
            whole = parameter_sites(model_of(preset), data)
            other = parameter_sites(model_of(preset), data.select(slice(0, 1)).padded(2))
    except DirEAGError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _file(program)]
        line = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        text = str(error).partition("\n")[0] or "a prior that cannot be drawn from, such as an improper one"
        raise DirEAGError(
            f"model {preset.name}{line}: {type(error).__name__}: {text}; expected a NumPyro function of LikelihoodData "
            "that runs."
        ) from error
    for name, site in whole.items():
        if site.shape != other.get(name, site).shape:
            _refuse(
                preset,
                f"site {name!r} has the shape {site.shape}, which grows with the questions",
                "parameters that new questions have too",
                "Leave it out, or give it a plate of its own.",
            )
    return sites


def _check_site(preset: Preset, name: str, site: Mapping[str, Any]) -> None:
    kind = site["type"]
    if kind == "param":
        _refuse(preset, f"{name!r} is a numpyro.param", "a prior for every parameter", "Draw it by numpyro.sample.")
    if kind not in ("sample", "deterministic") or name == "target" or isinstance(site.get("fn"), dist.Unit):
        return
    if "/" in name or name != name.strip() or not name or name in _DIMENSIONS:
        expected = f"a name without / and outer spaces, other than {', '.join(_DIMENSIONS)}"
        _refuse(preset, f"a site is called {name!r}", expected, "Rename it.")
    if kind == "deterministic":
        return
    if site["is_observed"]:
        _refuse(preset, f"site {name!r} is observed", "the states as the only observed site", "Leave out its obs.")
    prior = unwrapped(site["fn"])
    if prior.support.is_discrete:
        _refuse(preset, f"{name!r} is discrete", "continuous parameters", "Sum over its values.")
    if isinstance(prior, dist.ImproperUniform):
        _refuse(preset, f"{name!r} has an improper prior", "a prior that is a distribution", "Give it a wide one.")
    sizes = {frame.dim: frame.size for frame in site["cond_indep_stack"]}
    batch = site["fn"].batch_shape
    if any(size != sizes.get(axis - len(batch), 1) for axis, size in enumerate(batch)):
        within = " x ".join(f"{frame.name} ({frame.size})" for frame in site["cond_indep_stack"]) or "none"
        _refuse(
            preset,
            f"site {name!r} has the shape {batch}, its plates are {within}",
            "one value for each member of its plates",
            "Draw it inside `with data.levels():`, or another plate.",
        )


def _check_start(preset: Preset, model: Model, data: LikelihoodData) -> None:
    """Raise DirEAGError if the density is not finite where the search for the mode begins."""
    start, _ = start_and_bounds(model, data)
    if np.isfinite(log_joint(model, start, data)):
        _check_alone(preset, model, {name: value + _ASIDE for name, value in start.items()}, data)
        return
    found = evaluated(model, start, data)
    wrong = [name for name, value in found.log_prior.items() if not np.isfinite(value).all()]
    unlikely = np.flatnonzero(~np.isfinite(found.log_likelihood))
    where = f"prior of {wrong[0]!r}" if wrong else f"probability of the state of {len(unlikely)} questions"
    _refuse(
        preset,
        f"its log density at the start is not finite: the {where} is 0, infinite or NaN",
        "a finite density at the means of the priors",
        "Every state of a question needs a probability above 0: bound logarithms and divisions away from 0.",
    )


def _check_alone(preset: Preset, model: Model, aside: Unconstrained, data: LikelihoodData) -> None:
    """Raise DirEAGError if the probabilities of a question are others where it is asked alone."""
    among = evaluated(model, aside, data).log_likelihood[0]
    alone = evaluated(model, aside, data.select(slice(0, 1))).log_likelihood[0]
    if not np.isclose(among, alone, rtol=1e-9, equal_nan=True):
        _refuse(
            preset,
            "the probability of a state depends on the other questions",
            "one that new questions do not change",
            "Scale data.numbers by fixed figures, not by their mean.",
        )


def _refuse(preset: Preset, seen: str, expected: str, remedy: str = "See docs/model.md.") -> Never:
    raise DirEAGError(f"model {preset.name}: {seen}; expected {expected}. {remedy}")


def _file(program: object) -> str | None:
    try:
        return inspect.getsourcefile(inspect.unwrap(program))  # type: ignore[arg-type]
    except TypeError:
        return None
