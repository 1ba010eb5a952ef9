"""A pooled fit: one ordinary fit for each of several settings, one for a setting yet to come, and what they share.

==========================  ========================================================================================
in the file                 content
==========================  ========================================================================================
``setting_0`` ...           a :class:`~bayes_direag.fits.fit.Fit` each, with the attribute ``setting``, its name
``new``                     the same for another setting: every level that some setting was asked at, no question
``hierarchy/posterior``     ``NAME_centre`` (by level for weight and bias) and ``NAME_spread`` on the raw scale of each
                            parameter, and of each coefficient of the final calibration (``recalibration_NAME``)
``hierarchy/sample_stats``  of the one run of all settings; ``hierarchy/calibration_stats`` of the final calibrations
==========================  ========================================================================================
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz_base
import h5netcdf
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from bayes_direag.data.files import atomic_path
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, FitFileError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import left_out_of
from bayes_direag.inference.multi_setting import SettingCalibrations, SettingDraws, draw_recalibrations, draw_settings
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.posterior import nuts_posterior, require_format
from bayes_direag.model.likelihood_data import LikelihoodData, fitted_to, likelihood_weights
from bayes_direag.model.model import RawDraws, linked
from bayes_direag.model.multi_setting import Population
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, SamplingSettings, Variant

#: What the fit for a setting yet to come is called; no setting may be.
NEW = "new"


@dataclass(frozen=True, eq=False)
class MultiSettingFit:
    """Fits to several settings, which have borrowed from each other.

    Attributes
    ----------
    settings : dict of Fit
        By name, in the order given; each is as any other fit.
    new : Fit
        What is believed of another setting of the same population, before any label of it.
    hierarchy : xarray.DataTree
        What the settings have in common, and how the sampling went; see :mod:`bayes_direag.fits.multi_setting`.
    """

    settings: dict[str, Fit]
    new: Fit
    hierarchy: xr.DataTree

    def setting(self, name: str) -> Fit:
        """Return the fit of a setting, or of a new one.

        Raises
        ------
        DirEAGError
            If there is none of that name.
        """
        if name == NEW:
            return self.new
        if name not in self.settings:
            known = ", ".join(repr(own) for own in self.settings)
            raise DirEAGError(f"setting {name!r}: there is none of that name; expected {known} or '{NEW}'. Choose one.")
        return self.settings[name]

    def setting_of(self, pairs: set[tuple[str, str]]) -> str:
        """Return the name of the setting that questions are of: the one of their model and dataset, else ``new``.

        Parameters
        ----------
        pairs
            The (model, dataset) pairs of the questions; an empty text where one is not stated.

        Raises
        ------
        DirEAGError
            If several settings are of that model and dataset.
        """
        stated = any(map(any, pairs))
        found = [name for name, fit in self.settings.items() if stated and pairs == _stored_pairs(fit)]
        if len(found) > 1:
            names = ", ".join(repr(name) for name in found)
            raise DirEAGError(
                f"saw {len(found)} settings of the questions' model and dataset, {names}; expected one. Choose with "
                f"--setting NAME, or take --setting {NEW}."
            )
        return found[0] if found else NEW

    def save(self, path: str | Path) -> None:
        """Write all of it as one NetCDF file, completely or not at all."""
        children = {NEW: self.new.tree.copy(), "hierarchy": self.hierarchy.copy()}
        for number, (name, fit) in enumerate(self.settings.items()):
            children[f"setting_{number}"] = own = fit.tree.copy()
            own.attrs = {**own.attrs, "setting": name}
        with atomic_path(path) as partial_path:
            xr.DataTree(children=children).to_netcdf(partial_path, engine="h5netcdf")

    @classmethod
    def load(cls, path: str | Path) -> "MultiSettingFit":
        """Read a pooled fit written by :meth:`save`.

        Raises
        ------
        FitFileError
            If there is no such file, or it is not a pooled fit.
        """
        expected = f"expected a pooled fit, written by `direag fit A B --pool --out {path}`"
        if not Path(path).is_file():
            raise FitFileError(f"{path}: no such file; {expected}.")
        try:
            with xr.open_datatree(path, engine="h5netcdf") as stored:
                tree = stored.load()
            groups = tree.children
            n_settings = sum(name.startswith("setting_") for name in groups)
            fits = [Fit(groups[f"setting_{number}"].copy()) for number in range(n_settings)]
            named = {str(fit.tree.attrs["setting"]): fit for fit in fits}
            pooled = cls(named, Fit(groups[NEW].copy()), groups["hierarchy"].copy())
            for fit in (*fits, pooled.new):
                require_format(fit.tree)
                _ = fit.preset, fit.variant, fit.level_names, fit.recalibration
        except (OSError, KeyError, ValueError) as error:
            cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise FitFileError(
                f"{path}: not one that this version can read ({cause}); {expected}. Fit again."
            ) from error
        return pooled


def is_multi_setting(path: str | Path) -> bool:
    """Say whether a file is a pooled fit; False if there is none, or it is something else."""
    try:
        with h5netcdf.File(path, "r") as stored:
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
    """Draw from the posterior of several settings together, by NUTS.

    Unlabelled and unanswered questions are left out; a setting may have no others, and is then predicted from the rest.

    Parameters
    ----------
    observations
        The questions of each setting by its name. Settings may have different levels; levels of one name are taken to
        be of one kind.
    preset
        Its priors are those of one setting alone; see :mod:`bayes_direag.model.multi_setting`. ``bayes``, or one of
        your own with proper priors, without bounds or weights. Levels that borrow from each other in it borrow from the
        same levels of other settings instead: see :func:`levels_apart`.
    seed
        Of everything that is drawn.

    Raises
    ------
    DirEAGError
        If no setting has a question both labelled and answered, if their answers are of several kinds, if one is called
        ``new``, or if the preset is not one to pool under.

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
    fitted = [_labelled(one, chosen) for one in observations.values()]
    if not any(len(one) for one in fitted):
        raise DirEAGError(
            f"saw no question both labelled and answered in {len(fitted)} settings; expected some in at least one. "
            "Give gold answers."
        )
    if any(one.groups for one in fitted):
        raise DirEAGError("saw groups of levels; expected none, as levels are pooled one by one. Leave the groups out.")
    levels = tuple(dict.fromkeys(name for one in fitted for name in one.level_names))
    aligned = [one.align(levels) for one in fitted]
    drawn = draw_settings(
        [LikelihoodData.weighted(one, np.ones(len(one)), preset=chosen, variant=variant) for one in aligned],
        sampling=runs,
        seed=seed,
        progress=progress,
    )

    def container(raw: RawDraws, seen: Observations) -> xr.DataTree:
        raw = _of_levels(raw, [levels.index(name) for name in seen.level_names])
        draws, weight = Draws(raw, drawn.settings[0].stats), np.ones(len(seen))
        return nuts_posterior(draws, seen, weight, preset=chosen, variant=variant, sampling=runs, seed=seed)

    trees = [container(own.raw, one) for own, one in zip(drawn.settings, fitted, strict=True)]
    new = container({name: own.new for name, own in drawn.populations.items()}, aligned[0].select(slice(0, 0)))
    left_out = [
        left_out_of(tree, one, chosen, variant) if len(one) else None for tree, one in zip(trees, fitted, strict=True)
    ]
    outcomes = [
        None if loo is None else loo.outcomes(one.right_state) for loo, one in zip(left_out, fitted, strict=True)
    ]
    final = draw_recalibrations(outcomes, chosen.recalibration, runs, seed, progress=progress)
    for tree, calibration in zip([*trees, new], [*final.settings, final.new], strict=True):
        tree["recalibration"] = xr.DataTree(calibration.to_dataset())
    for tree, loo, one, calibration in zip(trees, left_out, fitted, final.settings, strict=True):
        if loo is not None:
            tree["loo"] = xr.DataTree(loo.to_dataset(one, calibration))
    for tree, one in zip(trees, observations.values(), strict=True):
        tree.attrs["pairs"] = json.dumps(sorted(pairs_of(one)))
    fits = {name: Fit(tree) for name, tree in zip(observations, trees, strict=True)}
    return MultiSettingFit(fits, Fit(new), _hierarchy(drawn, final, levels))


def levels_apart(preset: Preset) -> Preset:
    """Return the preset with levels that borrow nothing from each other, each believed to lie where it did before.

    The variance of a level's raw value is that of the levels' centre and that of levels around it, at the usual
    spread.

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
    """Return the (model, dataset) pairs of questions; an empty text where one is not stated."""
    return {(question.model or "", question.dataset or "") for question in observations.questions}


def _check(observations: Mapping[str, Observations], preset: Preset) -> None:
    if NEW in observations:
        raise DirEAGError(
            f"saw a setting called '{NEW}'; expected another name, because that one means a setting without labels."
        )
    kinds = {name: one.kind for name, one in observations.items()}
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
    """Return the questions that can be learned from, none if there are none."""
    observations = fitted_to(observations, preset, "confidence")[0]
    usable = observations.labelled & observations.answered
    if not usable.any():
        return observations.select(slice(0, 0))
    return observations.select(likelihood_weights(usable[None], observations, preset)[0] > 0)


def _of_levels(raw: RawDraws, columns: Sequence[int]) -> RawDraws:
    return {name: value[..., columns] if name in LEVEL_PARAMETERS else value for name, value in raw.items()}


def _hierarchy(drawn: SettingDraws, final: SettingCalibrations, levels: tuple[str, ...]) -> xr.DataTree:
    def shared(populations: dict[str, Population], prefix: str = "") -> dict[str, Float[np.ndarray, "chain draw ..."]]:
        return {
            f"{prefix}{name}_{part}": getattr(own, part)
            for name, own in populations.items()
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


def _stored_pairs(fit: Fit) -> set[tuple[str, str]]:
    return {(model, dataset) for model, dataset in json.loads(fit.tree.attrs["pairs"])}
