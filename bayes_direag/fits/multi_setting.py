"""A pooled fit: a fit for each of several settings, a fit for a new setting, and the population of settings.

==========================  ========================================================================================
in the file                 content
==========================  ========================================================================================
``setting_0`` ...           a :class:`~bayes_direag.fits.fit.Fit` each; its attribute ``setting`` is its name
``new``                     the fit for a new setting: the levels of all settings, no questions
``hierarchy/posterior``     ``NAME_centre`` (by level for weight and bias) and ``NAME_spread`` of each raw parameter,
                            and of each coefficient of the final calibration (``recalibration_NAME``)
``hierarchy/sample_stats``  statistics of the run; ``hierarchy/calibration_stats``, of that of the calibrations
==========================  ========================================================================================
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz_base
import jax.numpy as jnp
import netCDF4
import numpy as np
import xarray as xr
from jaxtyping import Float

from bayes_direag.data.files import atomic_path
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit, stored_tree
from bayes_direag.inference.loo import left_out_of
from bayes_direag.inference.multi_setting import SettingCalibrations, SettingDraws, draw_recalibrations, draw_settings
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.posterior import nuts_posterior
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to, likelihood_weights
from bayes_direag.model.model import RawDraws, linked
from bayes_direag.model.multi_setting import Population
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, SamplingSettings, Variant

#: The name of the fit for a new setting, which no setting may have.
NEW = "new"


@dataclass(frozen=True, eq=False)
class MultiSettingFit:
    """Partially pooled fits to several settings.

    Attributes
    ----------
    settings : dict of Fit
        The fit of each setting by name, in the order given.
    new : Fit
        The fit for a new setting of the same population, without any labels.
    hierarchy : xarray.DataTree
        The population of settings, and the sampler's statistics: see :mod:`bayes_direag.fits.multi_setting`.
    """

    settings: dict[str, Fit]
    new: Fit
    hierarchy: xr.DataTree

    def setting(self, name: str) -> Fit:
        """Return the fit of a setting, or ``new``.

        Raises
        ------
        DirEAGError
            If there is no setting of that name.
        """
        if name == NEW:
            return self.new
        if name not in self.settings:
            known = ", ".join(map(repr, self.settings))
            raise DirEAGError(f"setting {name!r}: there is none of that name; expected {known} or '{NEW}'. Choose one.")
        return self.settings[name]

    def setting_of(self, pairs: set[tuple[str, str]]) -> str:
        """Return the name of the setting with the questions' model and dataset; ``new`` if there is none.

        Parameters
        ----------
        pairs
            The (model, dataset) pairs of the questions, with an empty text for one that is not stated.

        Raises
        ------
        DirEAGError
            If several settings have that model and dataset.
        """
        stated = any(map(any, pairs))
        here = json.dumps(sorted(pairs))
        names = [name for name, fit in self.settings.items() if stated and fit.tree.attrs["pairs"] == here]
        if len(names) > 1:
            known = ", ".join(map(repr, names))
            raise DirEAGError(
                f"saw {len(names)} settings of the questions' model and dataset, {known}; expected one. Choose with "
                f"--setting NAME, or take --setting {NEW}."
            )
        return names[0] if names else NEW

    def save(self, path: str | Path) -> None:
        """Write the pooled fit as one NetCDF file, completely or not at all."""
        children = {NEW: self.new.tree.copy(), "hierarchy": self.hierarchy.copy()}
        for number, (name, fit) in enumerate(self.settings.items()):
            children[f"setting_{number}"] = tree = fit.tree.copy()
            tree.attrs = {**tree.attrs, "setting": name}
        with atomic_path(path) as partial_path:
            xr.DataTree(children=children).to_netcdf(partial_path, engine="netcdf4")

    @classmethod
    def load(cls, path: str | Path) -> "MultiSettingFit":
        """Read a pooled fit written by :meth:`save`.

        Raises
        ------
        FitFileError
            If there is no such file, or it is not a pooled fit.
        """
        with stored_tree(path, f"a pooled fit, written by `direag fit A B --pool --out {path}`") as tree:
            groups = tree.children
            n_settings = sum(name.startswith("setting_") for name in groups)
            numbered = [f"setting_{number}" for number in range(n_settings)]
            *fits, new = (Fit(groups[name].copy()).require_readable() for name in (*numbered, NEW))
            return cls({str(fit.tree.attrs["setting"]): fit for fit in fits}, new, groups["hierarchy"].copy())


def is_multi_setting(path: str | Path) -> bool:
    """Return whether a file is a pooled fit; False if there is no such file."""
    try:
        with netCDF4.Dataset(path) as stored:
            return "hierarchy" in stored.groups
    except OSError:
        return False


def fit_multi_setting(
    observations: Mapping[str, Observations],
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    sampling: SamplingSettings | None = None,
    seed: int = 0,
    progress: bool = False,
) -> MultiSettingFit:
    """Draw from the joint posterior of several settings, by NUTS.

    Unlabelled and unanswered questions are left out. A setting without labelled questions is learned from the others.

    Parameters
    ----------
    observations
        The questions of each setting by its name. Settings may have different levels; levels with the same name are
        pooled.
    preset
        The preset of a single setting: ``bayes``, or your own with proper priors, without bounds or weights. Levels
        that it pools with each other are pooled with the same levels of other settings instead: see
        :func:`levels_apart`.
    seed
        Seed of all draws.

    Raises
    ------
    DirEAGError
        If no setting has a question both labelled and answered; if settings have different kinds of answers; if one is
        called ``new``; or if the preset does not fit several settings.

    Examples
    --------
    >>> from bayes_direag import simulate_observations
    >>> from bayes_direag.fits.multi_setting import fit_multi_setting
    >>> worlds = {f"set {n}": simulate_observations(n=40, seed=n) for n in (1, 2)}
    >>> pooled = fit_multi_setting(worlds)  # doctest: +SKIP
    >>> len(pooled.settings["set 2"].predict(worlds["set 2"]))  # doctest: +SKIP
    40
    >>> len(pooled.new.predict(worlds["set 1"]))  # doctest: +SKIP
    40
    """
    chosen, runs = levels_apart(named_preset(preset)), sampling or SamplingSettings()
    _check(observations, chosen)
    fitted = [_labelled(questions, chosen) for questions in observations.values()]
    if not any(map(len, fitted)):
        raise DirEAGError(
            f"saw no question both labelled and answered in {len(fitted)} settings; expected some in at least one. "
            "Give gold answers."
        )
    if any(questions.groups for questions in fitted):
        raise DirEAGError("saw groups of levels; expected none, as levels are pooled one by one. Leave the groups out.")
    levels = tuple(dict.fromkeys(name for questions in fitted for name in questions.level_names))
    aligned = [questions.align(levels) for questions in fitted]
    drawn = draw_settings(
        [LikelihoodData.weighted(q, np.ones(len(q)), preset=chosen, variant=variant) for q in aligned],
        sampling=runs,
        seed=seed,
        progress=progress,
    )

    def container(raw: RawDraws, questions: Observations) -> xr.DataTree:
        columns = [levels.index(name) for name in questions.level_names]
        raw = {name: value[..., columns] if name in LEVEL_PARAMETERS else value for name, value in raw.items()}
        draws, weight = Draws(raw, drawn.settings[0].stats), np.ones(len(questions))
        return nuts_posterior(draws, questions, weight, preset=chosen, variant=variant, sampling=runs, seed=seed)

    trees = [container(draws.raw, questions) for draws, questions in zip(drawn.settings, fitted, strict=True)]
    of_new: RawDraws = {name: population.new for name, population in drawn.populations.items()}
    new = container(of_new, aligned[0].select(slice(0, 0)))
    pairs = list(zip(trees, fitted, strict=True))
    left_out = [left_out_of(tree, q, chosen, variant) if len(q) else None for tree, q in pairs]
    outcomes = [loo and loo.outcomes(q.right_state) for loo, q in zip(left_out, fitted, strict=True)]
    final = draw_recalibrations(outcomes, chosen.recalibration, runs, seed, progress=progress)
    new["recalibration"] = xr.DataTree(final.new.to_dataset())
    parts = zip(pairs, left_out, final.settings, observations.values(), strict=True)
    for (tree, questions), loo, calibration, given in parts:
        tree["recalibration"] = xr.DataTree(calibration.to_dataset())
        if loo is not None:
            tree["loo"] = xr.DataTree(loo.to_dataset(questions, calibration))
        tree.attrs["pairs"] = json.dumps(sorted(pairs_of(given)))
    fits = {name: Fit(tree) for name, tree in zip(observations, trees, strict=True)}
    return MultiSettingFit(fits, Fit(new), _hierarchy(drawn, final, levels))


def levels_apart(preset: Preset) -> Preset:
    """Return the preset without pooling of levels, with the same prior mean and variance of each level.

    A level's prior variance is the variance of the centre plus the square of the spread's prior median.

    Examples
    --------
    >>> levels_apart(named_preset("bayes")).bias.scale  # from 2 for the centre, and 0.5 for a level around it
    2.0615528128088303
    """
    changes: dict[str, Any] = {"signals": "first"}
    for name in sorted(filter(preset.pools, LEVEL_PARAMETERS)):
        centre, spread = getattr(preset, name), getattr(preset, f"{name}_spread")
        around = float(linked(jnp.asarray(spread.loc), spread.link))
        changes |= {name: {"scale": math.hypot(centre.scale, around)}, f"{name}_spread": None}
    return preset.override(**changes)


def pairs_of(observations: Observations) -> set[tuple[str, str]]:
    """Return the (model, dataset) pairs of questions, with an empty text for one that is not stated."""
    return {(question.model or "", question.dataset or "") for question in observations.questions}


def _check(observations: Mapping[str, Observations], preset: Preset) -> None:
    if NEW in observations:
        raise DirEAGError(
            f"saw a setting called '{NEW}'; expected another name, because that one means a setting without labels."
        )
    kinds = {name: questions.kind for name, questions in observations.items()}
    if len(set(kinds.values())) > 1:
        seen = ", ".join(f"{kind} in {name!r}" for name, kind in kinds.items())
        raise DirEAGError(f"saw answers of several kinds, {seen}; expected one. Give --answers, or fit them apart.")
    final = preset.recalibration
    for holds, what in (
        (preset.is_weighted, "weighs questions unequally"),
        (preset.label_vote is not None, "has votes by label"),
        (preset.is_bounded, "keeps raw parameters within bounds"),
        (preset.penalty is not None, "has a penalty in the place of priors"),
        (final.method not in ("platt", "none"), "asks for a final calibration without a posterior"),
        (final.split > 0, "keeps questions apart for the final calibration"),
        (final.method != "none" and final.scale is None, "has a final calibration without a prior of its own"),
    ):
        if holds:
            raise DirEAGError(
                f"preset {preset.name} {what}; expected one that settings can be pooled under. Take bayes."
            )


def _labelled(observations: Observations, preset: Preset) -> Observations:
    """Return the labelled, answered questions, of which there may be none."""
    observations = fitted_to(observations, preset, "confidence")[0]
    usable = observations.labelled & observations.answered
    if not usable.any():
        return observations.select(slice(0, 0))
    return observations.select(likelihood_weights(usable[None], observations, preset)[0] > 0)


def _hierarchy(drawn: SettingDraws, final: SettingCalibrations, levels: tuple[str, ...]) -> xr.DataTree:
    def shared(populations: dict[str, Population], prefix: str = "") -> dict[str, Float[np.ndarray, "chain draw ..."]]:
        return {
            f"{prefix}{name}_{part}": getattr(population, part)
            for name, population in populations.items()
            for part in ("centre", "spread")
        }

    groups = {
        "posterior": shared(drawn.populations) | shared(final.populations, "recalibration_"),
        "sample_stats": drawn.settings[0].stats,
    }
    if final.stats:
        groups["calibration_stats"] = final.stats
    dims = {f"{name}_centre": ["level"] for name in LEVEL_PARAMETERS}
    tree: xr.DataTree = arviz_base.from_dict(groups, dims=dims, coords={"level": np.array(levels, dtype=object)})
    return tree
