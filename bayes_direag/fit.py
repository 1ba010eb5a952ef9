"""A fit: the posterior container, and what can be done with it: predict, read off its parameters, save, load."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool, Float

from bayes_direag import recalibration
from bayes_direag.errors import DirEAGError, FitFileError
from bayes_direag.files import atomic_path
from bayes_direag.folds import assign_folds
from bayes_direag.inference import Optimum, likelihood_weights, map_estimates
from bayes_direag.model import natural_parameters
from bayes_direag.observations import Observations
from bayes_direag.posterior import map_posterior, sampled_parameters
from bayes_direag.presets import VARIANT_PARAMETERS, Preset, Variant
from bayes_direag.presets import preset as named_preset
from bayes_direag.selection import select, select_each


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model: :mod:`the posterior container <bayes_direag.posterior>` with the group ``recalibration`` added.

    Parameters
    ----------
    tree : xarray.DataTree
        Goes straight into ArviZ.

    Examples
    --------
    >>> from bayes_direag import Observations, fit_map, simulate_observations
    >>> observations = simulate_observations(n=200, seed=1)
    >>> fit = fit_map(observations.select(slice(0, 150)))
    >>> fit.predict(observations.select(slice(150, 200))).columns.tolist()
    ['problem_id', 'answer', 'confidence', 'support', 'null_probability', 'n_candidates', 'n_used']
    """

    tree: xr.DataTree

    @cached_property
    def preset(self) -> Preset:
        """The settings it was fitted with."""
        return Preset.model_validate_json(self.tree.attrs["preset"])

    @property
    def variant(self) -> Variant:
        """Which evidence it uses: count, level or confidence."""
        found: Variant = self.tree.attrs["variant"]
        return found

    @cached_property
    def level_names(self) -> tuple[str, ...]:
        """The levels it has learned, in order."""
        return tuple(str(name) for name in self.tree["constant_data"]["level"].to_numpy())

    @cached_property
    def recalibration(self) -> recalibration.Recalibration:
        """The final calibration."""
        return recalibration.from_dataset(self.tree["recalibration"].to_dataset())

    def predict(self, observations: Observations) -> pd.DataFrame:
        """Select an answer for every question and say how probably it is right. No gold answer is looked at.

        Returns
        -------
        DataFrame
            A row a question, in order: ``problem_id``; ``answer``, canonical (missing where no report was
            usable); ``confidence``, its final probability of being right; ``support``, the same before
            recalibration; ``null_probability``, that no candidate is right; ``n_candidates``, distinct
            answers; ``n_used``, usable reports. Confidence and support of an unanswered question are NaN, and its
            null_probability is 1. Over several posterior draws each is the mean.

        Raises
        ------
        LevelError
            If the observations hold a level that the fit has not learned.
        DirEAGError
            If their answers are of another kind than those it was fitted to.
        """
        if observations.kind != self.tree.attrs["answers"]:
            raise DirEAGError(
                f"the observations' answers are {observations.kind}; expected {self.tree.attrs['answers']}, as in the "
                f"fit. Read them with answers={self.tree.attrs['answers']!r}."
            )
        aligned = observations.align(self.level_names)
        with jax.enable_x64(True):
            parameters = sampled_parameters(self.tree, self.variant)
        parts = [
            (chosen, support.mean(axis=0), self.recalibration(support).mean(axis=0), null)
            for chosen, support, null in select(aligned, parameters, self.preset.eps)
        ]
        chosen, support, confidence, null = (np.concatenate(column) for column in zip(*parts, strict=True))
        answers = [own[k] if k >= 0 else None for own, k in zip(aligned.candidates, chosen, strict=True)]
        return pd.DataFrame(
            {
                "problem_id": pd.Series(aligned.problem_id, dtype="str"),
                "answer": pd.Series(answers, dtype="str"),
                "confidence": confidence,
                "support": support,
                "null_probability": null,
                "n_candidates": aligned.n_candidates,
                "n_used": aligned.usable.sum(axis=1),
            }
        )

    def parameters(self) -> pd.DataFrame:
        """Tabulate the parameters.

        Returns
        -------
        DataFrame
            A row a parameter (and level): ``parameter``, ``level`` (missing for those without), ``mean`` and
            ``sd`` over the posterior draws (sd missing for a single one), ``relative``, the mean in units of
            the total weight of all levels, which unlike the mean is identified by the data, and ``raw``, the
            mean on the real line (missing where fixed). The two parameters of a logistic recalibration close
            the table.
        """
        posterior = self.tree["posterior"].to_dataset()
        total = posterior["weight"].sum("level")
        rows = []
        for name in VARIANT_PARAMETERS[self.variant]:
            raw = posterior.get(f"{name}_raw")
            scaled = posterior[name] / total if name in _SHARE_SCALE else None
            rows += _rows(name, posterior[name], scaled, raw)
        final = self.tree["recalibration"].to_dataset()
        if "intercept" in final:
            rows += [row for name in final.data_vars for row in _rows(f"recalibration_{name}", final[name], None, None)]
        return pd.DataFrame(rows, columns=["parameter", "level", "mean", "sd", "relative", "raw"])

    def save(self, path: str | Path) -> None:
        """Write the fit as NetCDF, completely or not at all."""
        with atomic_path(path) as partial_path:
            self.tree.to_netcdf(partial_path, engine="h5netcdf")

    @classmethod
    def load(cls, path: str | Path) -> "Fit":
        """Read a fit written by :meth:`save`.

        Raises
        ------
        FitFileError
            If there is no such file, or it is not a fit.
        """
        if not Path(path).is_file():
            raise FitFileError(f"{path}: no such file; expected a fit written by `direag fit --out {path}`.")
        try:
            with xr.open_datatree(path, engine="h5netcdf") as stored:
                fit = cls(stored.load())
            _ = fit.preset, fit.variant, fit.level_names, fit.recalibration
        except (OSError, KeyError, ValueError) as error:
            cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            raise FitFileError(
                f"{path}: not a fit that this version can read ({cause}); "
                "expected a NetCDF file written by `direag fit`. Fit again."
            ) from error
        return fit


#: Multiplying these by one constant leaves every prediction as it is.
_SHARE_SCALE = frozenset({"weight", "prior_strength", "null_base"})


def fit_map(
    observations: Observations,
    *,
    preset: str | Preset = "paper",
    variant: Variant = "confidence",
    seed: int = 0,
) -> Fit:
    """Fit the evidence model and the recalibration to labelled questions; the mode of the posterior.

    Unlabelled and unanswered questions are left out.

    Parameters
    ----------
    preset
        ``paper``, ``release``, ``bayes`` or a preset of your own.
    seed
        Deals the folds of an out-of-fold recalibration; nothing else is random.

    Raises
    ------
    DirEAGError
        If no question is both labelled and answered.
    ConvergenceError
        If the optimum is not reached.
    """
    everything = np.ones((1, len(observations)), bool)
    return fit_map_batch(observations, everything, preset=preset, variant=variant, seed=seed)[0]


def fit_map_batch(
    observations: Observations,
    chosen: Bool[np.ndarray, "batch problem"],
    *,
    preset: str | Preset = "paper",
    variant: Variant = "confidence",
    seed: int = 0,
) -> list[Fit]:
    """Fit to several choices of the same questions at once; see :func:`fit_map`.

    Nothing of a question that a row leaves out has any influence on that row's fit.
    """
    settings = named_preset(preset)
    weight = likelihood_weights(chosen, observations, settings)
    optimum = map_estimates(observations, weight, preset=settings, variant=variant)
    used = weight > 0
    if settings.recalibration.out_of_fold:
        support, right = _out_of_fold(observations, used, settings, variant, seed)
    else:
        support, right = _selected(optimum, observations, settings, variant)
    final = recalibration.recalibrate(support, right, used, settings.recalibration)
    fits = []
    for member, row in enumerate(used):
        tree = map_posterior(
            optimum,
            member,
            observations.select(row),
            weight[member, row],
            preset=settings,
            variant=variant,
            seed=seed,
        )
        tree["recalibration"] = xr.DataTree(final[member].to_dataset())
        fits.append(Fit(tree))
    return fits


def _out_of_fold(
    observations: Observations,
    used: Bool[np.ndarray, "batch problem"],
    preset: Preset,
    variant: Variant,
    seed: int,
) -> tuple[Float[np.ndarray, "batch problem"], Bool[np.ndarray, "batch problem"]]:
    """Return the selected answers' support, and whether they are right, from fits that did not see the question."""
    n_folds = preset.recalibration.out_of_fold
    fold = np.full(used.shape, -1)
    for row, mine in zip(fold, used, strict=True):
        row[mine] = assign_folds(int(mine.sum()), n_folds, seed)
    held_out = fold[:, None, :] == np.arange(n_folds)[None, :, None]
    kept = (used[:, None, :] & ~held_out).reshape(-1, used.shape[1])
    weight = likelihood_weights(kept, observations, preset)
    optimum = map_estimates(observations, weight, preset=preset, variant=variant)
    support, right = (part.reshape(held_out.shape) for part in _selected(optimum, observations, preset, variant))
    return (
        np.where(held_out, support, 0.0).sum(axis=1),
        np.where(held_out, right, False).any(axis=1),
    )


def _selected(
    optimum: Optimum, observations: Observations, preset: Preset, variant: Variant
) -> tuple[Float[np.ndarray, "batch problem"], Bool[np.ndarray, "batch problem"]]:
    """Return the support of each selected answer, and whether it is right, for every fit of a batch."""
    with jax.enable_x64(True):
        parameters = jax.vmap(lambda raw: natural_parameters(raw, preset, variant))(optimum.raw)
    chosen, support = select_each(observations, parameters, preset.eps)
    right = np.take_along_axis(observations.correct_candidate, np.maximum(chosen, 0).T, axis=1).T
    return support, right


def _rows(
    name: str, draws: xr.DataArray, scaled: xr.DataArray | None, raw: xr.DataArray | None
) -> list[dict[str, object]]:
    """Return the table rows of one parameter, one a level."""

    def by_level(values: xr.DataArray | None) -> xr.DataArray | None:
        return None if values is None else values.mean(("chain", "draw"))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Degrees of freedom <= 0", RuntimeWarning)
        sd = draws.std(("chain", "draw"), ddof=1)
    columns = {"mean": by_level(draws), "sd": sd, "relative": by_level(scaled), "raw": by_level(raw)}
    names = [str(level) for level in draws["level"].to_numpy()] if "level" in draws.dims else [None]
    return [
        {"parameter": name, "level": level}
        | {
            column: np.nan if values is None else float(np.ravel(values.to_numpy())[position])
            for column, values in columns.items()
        }
        for position, level in enumerate(names)
    ]
