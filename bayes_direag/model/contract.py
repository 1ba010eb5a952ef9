"""What a program of one's own must be, told in one line before anything is fitted.

It draws the state of each question by :func:`~bayes_direag.model.evidence.draw_states`, from parameters with a proper
continuous prior, whose shapes are those of their plates and do not depend on the questions.
"""

import inspect
import re
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

import jax
import numpy as np
import numpyro.distributions as dist
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, Float
from numpyro.primitives import Messenger

from bayes_direag.errors import DirEAGError
from bayes_direag.model.compilation import compiled
from bayes_direag.model.evidence import State
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import Preset
from bayes_direag.model.unconstrained import (
    Evaluated,
    Model,
    Unconstrained,
    evaluated,
    log_joint,
    parameter_sites,
    start_and_bounds,
    state_of,
    traced,
    unwrapped,
)

#: Names that a container has for its dimensions, and names that NetCDF can hold.
_DIMENSIONS = ("chain", "draw", "level", "signal", "answer", "problem", "report", "candidate", "number")
_NAME = re.compile(r"\w[^/\x00-\x1f\x7f]{,199}(?<! )")

#: How far from the start questions are looked at alone: an effect may be 0 at the start.
_ASIDE = 0.25

_OF_REPORTS = " As most reports are missing, columns are no levels: read what levels have by data.by_report(...)."


def require_program(preset: Preset, data: LikelihoodData) -> None:
    """Raise DirEAGError unless a program of one's own can be fitted to these data, searched, sampled and stored."""
    if preset.program is None:
        return
    data, model = data.select(np.flatnonzero(data.weight)), model_of(preset)
    try:
        with jax.enable_x64(True):
            jax.eval_shape(lambda: _check_sites(preset, model, data))
            _check_shapes(preset, model, data)
            _check_start(preset, model, data)
            unused = unused_sites(model, data)
    except DirEAGError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _file(preset)]
        line = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        text = str(error).partition("\n")[0] or "a name twice, or an improper prior, which cannot be drawn from"
        raise DirEAGError(
            f"model {preset.name}{line}: {type(error).__name__}: {text}; expected a NumPyro function of LikelihoodData "
            f"that runs, on questions without labels too.{_OF_REPORTS if data.is_sparse else ''}"
        ) from error
    if unused:
        text = "nothing depends on it, so labels teach nothing about it. Use it, or leave it out."
        warnings.warn(f"model {preset.name}: saw the site {', '.join(unused)}; {text}", stacklevel=2)


def _check_sites(preset: Preset, model: Any, data: LikelihoodData) -> None:
    """Trace the program once, as its author wrote it, with draws from its prior, and look at every site."""
    keys = _KeysAsked(model.__wrapped__)
    sites = traced(keys, data)
    if keys.n:
        expected = "probabilities that do not depend on what is predicted together"
        _refuse(preset, "it draws random numbers by numpyro.prng_key or a hidden site", expected, "Leave them out.")
    plates = dict[str, int]()
    for name, site in sites.items():
        for frame in site.get("cond_indep_stack", ()):
            if plates.setdefault(frame.name, frame.size) != frame.size:
                sizes = f"{plates[frame.name]} and {frame.size} members"
                _refuse(preset, f"plate {frame.name!r} has {sizes}", "one size", "Give each plate a name of its own.")
        _check_site(preset, data, name, site)
    if not isinstance(unwrapped(state_of(sites)), State):
        _refuse(preset, "it does not draw the states", "draw_states(data, answers, null) at its end")
    if [frame.name for frame in sites["target"]["cond_indep_stack"]] != ["problem"]:
        _refuse(preset, "it draws the states within a plate", "draw_states outside of all plates, which has its own")
    if all(site["type"] != "sample" or site["is_observed"] for site in sites.values()):
        _refuse(preset, "it has no parameter", "at least one numpyro.sample beside the states", "Learn something.")


class _KeysAsked(Messenger):  # type: ignore[misc]
    """Count the keys of random numbers that a program asks for."""

    n = 0

    def process_message(self, message: dict[str, Any]) -> None:
        """Count a key."""
        self.n += message["type"] == "prng_key"


def _check_site(preset: Preset, data: LikelihoodData, name: str, site: Mapping[str, Any]) -> None:
    kind = site["type"]
    if kind == "param":
        _refuse(preset, f"{name!r} is a numpyro.param", "a prior for every parameter", "Draw it by numpyro.sample.")
    if kind not in ("sample", "deterministic", "plate") or name == "target" or isinstance(site.get("fn"), dist.Unit):
        return
    sizes = {"level": data.n_levels, "signal": data.n_signals, "answer": data.n_labels, "problem": len(data.weight)}
    is_ours = kind == "plate" and site["args"][0] == sizes.get(name)
    if not isinstance(name, str) or not _NAME.fullmatch(name) or (name in _DIMENSIONS and not is_ours):
        expected = f"a text that begins with a letter and has no /, other than {', '.join(_DIMENSIONS)}"
        what = f"plate of {site['args'][0]}" if kind == "plate" else "site"
        _refuse(preset, f"a {what} is called {name!r}", expected, "Rename it.")
    if np.iscomplexobj(site["value"]):
        _refuse(preset, f"{name!r} is complex", "real numbers, which a file can hold", "Take its parts.")
    if kind == "plate" and site["args"][1] not in (None, site["args"][0]):
        _refuse(preset, f"plate {name!r} takes a subsample", "all of its members", "Leave out subsample_size.")
    if kind != "sample":
        return
    if site["is_observed"]:
        _refuse(preset, f"site {name!r} is observed", "the states as the only observed site", "Leave out its obs.")
    prior = unwrapped(site["fn"])
    if isinstance(prior, dist.Delta):
        _refuse(preset, f"{name!r} has a point mass as its prior", "a density", "Take its value, without a sample.")
    if prior.support.is_discrete:
        _refuse(preset, f"{name!r} is discrete", "continuous parameters", "Sum over its values.")
    members = {frame.dim: frame.size for frame in site["cond_indep_stack"]}
    batch, is_scanned = site["fn"].batch_shape, "_control_flow_done" in site  # by numpyro's scan, whose sites stack
    if not is_scanned and any(size != members.get(axis - len(batch), 1) for axis, size in enumerate(batch)):
        within = " x ".join(f"{frame.name} ({frame.size})" for frame in site["cond_indep_stack"]) or "none"
        _refuse(
            preset,
            f"site {name!r} has the shape {batch}, its plates are {within}",
            "one value for each member of its plates",
            "Draw it inside `with data.levels():` or another plate, or make it one vector with .to_event(1).",
        )


def _check_shapes(preset: Preset, model: Model, data: LikelihoodData) -> None:
    """Raise DirEAGError unless the sites are the same for other questions, and any that are named in advance exist."""
    sites = parameter_sites(model, data)
    other = parameter_sites(model, data.select(slice(0, 1)).padded(2).unlabelled)
    if changed := [name for name in {**sites, **other} if (name in sites) != (name in other)]:
        _refuse(
            preset,
            f"its sites change with the questions or from run to run: {', '.join(changed[:3])}",
            "parameters that new questions have too",
            "Give them a plate of their own.",
        )
    for name, site in sites.items():
        if site.is_unconstrained and 0 in site.shape:
            _refuse(
                preset,
                f"{name.removesuffix('_base')!r} leaves nothing to learn",
                "a value that can vary",
                "Leave it out.",
            )
        if site.shape != other[name].shape:
            _refuse(
                preset,
                f"site {name!r} has the shape {site.shape}, which grows with the questions",
                "parameters that new questions have too",
                "Leave it out, or give it a plate of its own.",
            )
    moved = [f"{name}_decentered" for name in getattr(model, "noncentered", ())]
    for name in (*moved, *getattr(model, "start", ())):
        if name not in sites or not sites[name].is_unconstrained:
            known = ", ".join(site.removesuffix("_decentered") for site in sites if sites[site].is_unconstrained)
            _refuse(
                preset,
                f"unconstrained names {name.removesuffix('_decentered')!r}",
                f"an unconstrained site: {known}",
                "A positive one ends in _base.",
            )


def _check_start(preset: Preset, model: Model, data: LikelihoodData) -> None:
    """Raise DirEAGError if the density is not finite where the search begins, or a question depends on others."""
    density, gradient, at_start, (among, *others) = jax.tree.map(np.asarray, _at_start(data, model=model))
    remedy = "Every state of a question needs a probability above 0: bound logarithms and divisions away from 0."
    if not np.isfinite(density):
        wrong = [name for name, value in at_start.log_prior.items() if not np.isfinite(value).all()]
        unlikely = ~np.isfinite(at_start.log_likelihood)
        missing = [name for name, values in data.numbers.items() if np.isnan(values[unlikely]).any()]
        lacking = f" (the number {missing[0]} is missing)" if missing else ""
        of_states = f"probability of the state of {np.count_nonzero(unlikely)} questions{lacking}"
        where = f"prior of {wrong[0]!r}" if wrong else of_states
        seen = f"its log density at the start is not finite: the {where} is 0, infinite or NaN"
        _refuse(preset, seen, "a finite density at the means of the priors", remedy)
    for name, slope in gradient.items():
        if not np.isfinite(slope).all():
            seen = f"the slope of its log density along {name!r} is not finite at the start"
            _refuse(preset, seen, "a smooth density at the means of the priors", remedy)

    if not all(np.allclose(among[:, -other.shape[1] :], other, rtol=1e-9, atol=0) for other in others):
        _refuse(
            preset,
            "the probability of a state depends on its label, on the other questions, or on chance",
            "one that follows from the question and the parameters",
            "Read no data.target, and scale data.numbers by fixed figures, not by their mean.",
        )


def unused_sites(model: Model, data: LikelihoodData) -> list[str]:
    """Return the sites on which neither a probability of a state nor the prior of another site depends."""
    start = jax.eval_shape(lambda: start_and_bounds(model, data)[0])
    run = jax.make_jaxpr(lambda values: evaluated(model, values, data)[1:], return_shape=True)
    program, (priors, *others) = run(start)
    unused = []
    for number, name in enumerate(sorted(start)):  # as jax orders a dictionary
        asked = [prior != name for prior in sorted(priors)] + [True] * len(others)
        if not dce_jaxpr(program.jaxpr, asked)[1][number]:
            unused.append(name.removesuffix("_base").removesuffix("_decentered"))
    return unused


@compiled("model")
def _at_start(
    data: LikelihoodData, *, model: Model
) -> tuple[Float[Array, ""], Unconstrained, Evaluated, list[Float[Array, "state _"]]]:
    """Return the log density where the search begins, its gradient, and what the model says there.

    And, aside of it, P of every state: of the questions with labels and without, and of the last one alone.
    """
    start, _ = start_and_bounds(model, data)
    density, gradient = jax.value_and_grad(lambda start: log_joint(model, start, data))(start)
    aside = {name: value + _ASIDE for name, value in start.items()}
    last = data.select(slice(-1, None)).unlabelled  # not the first: keys of random numbers have one
    probabilities = [evaluated(model, aside, each).probability for each in (data, data.unlabelled, last)]
    return density, gradient, evaluated(model, start, data), probabilities


def _refuse(preset: Preset, seen: str, expected: str, remedy: str = "See docs/model.md.") -> Never:
    raise DirEAGError(f"model {preset.name}: {seen}; expected {expected}. {remedy}")


def _file(preset: Preset) -> str | None:
    try:
        return inspect.getsourcefile(inspect.unwrap(preset.program))  # type: ignore[arg-type]
    except TypeError:
        return None
