r"""Levels that nobody has labelled join a fit, by what the model says of a level before its labels.

In a hierarchical model a level is a draw around what its agreement with the others says. Under ``bayes``

.. math:: \log w_l = c + \beta_w x_l + 0.4 e_l, \qquad v_l = m + \beta_v x_l + 0.3 e'_l

where x is the agreement of the new level in the whole panel: in these questions, and in the fitted ones. Offsets are 0
in a MAP, and standard normal in the draws of a posterior. The other levels and the final calibration stay as they are.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Int

from bayes_direag.data.agreement import Agreement
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.container import by_group, container, evaluated_draws, label_names
from bayes_direag.fits.parameters import has_weights
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import FitSettings
from bayes_direag.model.unconstrained import Model, UnconstrainedDraws, parameter_sites

#: A new level needs this many questions that it shares with two others.
LEAST_QUESTIONS = 30


def with_new_levels(
    tree: xr.DataTree, fitted: Observations, settings: FitSettings, observations: Observations
) -> xr.DataTree:
    """Return the container with further levels of observations, if any: see :meth:`bayes_direag.Fit.with_levels`."""
    known, preset, labels = fitted.learned_levels, settings.preset, label_names(tree)
    added = tuple(name for name in observations.learned_levels if name not in known)
    if not added:
        return tree
    if observations.groups is not None and fitted.groups is None:
        fitted = replace(fitted, groups=fitted.level_names)
    model, weight = model_of(preset), tree["constant_data"]["weight_in_likelihood"].to_numpy()
    data = LikelihoodData.weighted(fitted, weight, preset=preset, labels=labels)
    axes = _level_axes(model, data, preset.name)
    whole, n_questions = _panel_agreement(observations, fitted, added)

    wider, agreement = fitted.align((*known, *added)), fitted.agreement
    if agreement is not None:
        joined = (np.append(old, new[len(known) :]) for old, new in zip(agreement, whole, strict=True))
        wider = replace(wider, agreement=Agreement(*joined))
    score = np.zeros(len(known) + len(added)) if wider.agreement is None else wider.agreement.score
    data = replace(data.of_new(wider, preset=preset, labels=labels), weight=weight, agreement=score)
    draws = _extended(by_group(tree, "unconstrained_posterior"), axes, len(added), settings.seed)
    of_draws = evaluated_draws(model, draws, data)
    drawn = {name: by_group(tree, name) for name in ("sample_stats", "log_likelihood") if name in tree.children}
    drawn |= {"posterior": of_draws.natural, "unconstrained_posterior": draws}
    drawn |= {"log_prior": of_draws.log_prior} if "log_prior" in tree.children else {}
    joint = container(drawn, wider, data, labels=labels, settings=settings)
    joint.update({name: tree[name] for name in ("recalibration", "loo", "replay_weights") if name in tree.children})
    if "replay_draws" in tree.children:  # no question with a new level is replayed
        replayed = tree["replay_draws"].to_dataset()
        widths = {name: {str(replayed[name].dims[axis - 1]): (0, len(added))} for name, axis in axes.items()}
        wide = {name: values.pad(widths.get(str(name), {}), constant_values=0.0) for name, values in replayed.items()}
        joint["replay_draws"] = xr.DataTree(xr.Dataset(wide))
    about = [
        {
            "level": name,
            "n_questions": int(n),
            "agrees": float(whole.share[len(known) + number]),
            "by_chance": float(whole.by_chance[len(known) + number]),
            "votes": name in observations.voting,
        }
        for number, (name, n) in enumerate(zip(added, n_questions, strict=True))
    ]
    joint.attrs = tree.attrs | {"new_levels": json.dumps(joined_levels(tree) + about)}
    return joint


def joined_levels(tree: xr.DataTree) -> list[dict[str, Any]]:
    """Return what is recorded of each level that joined without labels: see :attr:`bayes_direag.Fit.new_levels`."""
    recorded: list[dict[str, Any]] = json.loads(tree.attrs.get("new_levels", "[]"))
    return recorded


def joined_text(tree: xr.DataTree) -> str:
    """Say, a line for each level that joined a fit without labels, what it was taken for, and from how much."""
    natural = tree["posterior"].to_dataset()
    share = natural["share"].mean(["chain", "draw"]) if has_weights(natural) else None
    lines = []
    for joined in joined_levels(tree):
        line = (
            f"New level {joined['level']}: agrees with most others on {joined['agrees']:.0%} of "
            f"{joined['n_questions']:,} questions"
        )
        if share is not None:
            line += (
                f"; counts {share.sel(level=joined['level']).item() * share.sizes['level']:.1f} times the mean level"
            )
        lines.append(f"{line}.")
    return "\n".join(lines)


def _level_axes(model: Model, data: LikelihoodData, name: str) -> dict[str, int]:
    """Return the axis of the levels in each unconstrained site that has one, after those of chain and draw.

    Raises DirEAGError unless all of these are standard normal offsets.
    """
    dims = {site: each.dims for site, each in parameter_sites(model, data).items() if each.is_unconstrained}
    of_level = {site: 2 + names.index("level") for site, names in dims.items() if "level" in names}
    alone = [site for site in of_level if not site.endswith("_decentered")]
    if alone or not of_level:
        which = f"draws {', '.join(alone)} for each level alone" if alone else "has nothing of its own for a level"
        raise DirEAGError(
            f"model {name} {which}, so it says nothing of a level without labels; expected offsets from what levels "
            "share (noncentered), as in bayes. Label questions of the new levels, and fit again."
        )
    return of_level


def _panel_agreement(
    observations: Observations, fitted: Observations, added: tuple[str, ...]
) -> tuple[Agreement, Int[np.ndarray, " level"]]:
    """Return the agreement of all levels, in these and the fitted questions, and how many tell of each new one."""
    panel = observations.align((*fitted.learned_levels, *added))
    names = np.array(panel.groups or panel.level_names)
    reports = np.stack([panel.usable[:, names == name].any(axis=1) for name in panel.learned_levels])
    n_questions = (reports[len(fitted.learned_levels) :] & (reports.sum(axis=0) > 2)).sum(axis=1)
    few = [f"{name} ({n})" for name, n in zip(added, n_questions, strict=True) if n < LEAST_QUESTIONS]
    if few:
        raise DirEAGError(
            f"new levels: saw too few questions that two other levels answer too: {', '.join(few)}; expected at least "
            f"{LEAST_QUESTIONS}, since only its agreement tells what a level without labels is worth. Ask it more."
        )
    agreement = replace(panel, agreement=None).with_agreement(fitted).agreement
    return agreement or Agreement(*np.zeros((3, len(names)))), n_questions


def _extended(draws: UnconstrainedDraws, axes: dict[str, int], n_added: int, seed: int) -> UnconstrainedDraws:
    """Append the offsets of new levels: 0 for a MAP, standard normal for the draws of a posterior."""
    rng, wide = np.random.default_rng([seed, 4]), dict(draws)
    for name, axis in axes.items():
        values = np.asarray(draws[name])
        shape = tuple(n_added if number == axis else size for number, size in enumerate(values.shape))
        is_map = values.shape[:2] == (1, 1)
        wide[name] = np.concatenate([values, np.zeros(shape) if is_map else rng.standard_normal(shape)], axis=axis)
    return wide
