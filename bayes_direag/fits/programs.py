"""Programs of one's own after a fit, given again by whoever loads it."""

import jax
import numpy as np
import xarray as xr

from bayes_direag.errors import DirEAGError
from bayes_direag.fits.container import by_sample, evaluated_draws
from bayes_direag.inference.map import penalised_loss
from bayes_direag.model.compilation import compiled
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import model_of
from bayes_direag.model.settings import Preset
from bayes_direag.model.unconstrained import UnconstrainedDraws, parameter_sites

#: How far a stored loss, and a log-likelihood of four digits, may be from those of the program.
_SAME_LOSS, _SAME_LIKELIHOOD = 1e-9, 1e-3

_penalised_loss = compiled("model")(penalised_loss)


def require_program_of(tree: xr.DataTree, preset: Preset, data: LikelihoodData) -> None:
    """Raise DirEAGError unless the program of the preset is that of the container.

    It must have the same sites, and give the recorded loss of a MAP, or the log-likelihoods of the first draw.
    """
    model, name = model_of(preset), getattr(preset.program, "__name__", "the model")
    expected = f"expected the function that was fitted, {preset.name}. Give it, or fit again."
    drawn = by_sample(tree)
    sites = {name: site.shape for name, site in parameter_sites(model, data).items() if site.is_unconstrained}
    stored = {name: values.shape[1:] for name, values in drawn.items()}
    if sites != stored:
        raise DirEAGError(f"model {name}: saw sites {_shown(sites)}; the fit has {_shown(stored)}; {expected}")
    if "log_likelihood" in tree.children:
        recorded = tree["log_likelihood"]["target"].transpose("chain", "draw", ...).to_numpy()[0, 0]
        first: UnconstrainedDraws = {name: values[None, :1] for name, values in drawn.items()}
        of_first = evaluated_draws(model, first, data).log_likelihood[0, 0, : len(recorded)]
        differ = np.abs(of_first - recorded) > _SAME_LIKELIHOOD * np.maximum(np.abs(recorded), 1)
    else:
        with jax.enable_x64(True):
            loss = float(_penalised_loss(model, {name: values[0] for name, values in drawn.items()}, data))
        recorded_loss = tree["sample_stats"]["loss"].item()
        differ = np.array(not abs(loss - recorded_loss) <= _SAME_LOSS * max(abs(recorded_loss), 1))
    if differ.any():
        raise DirEAGError(
            f"model {name}: saw another likelihood of the fitted questions than the fit recorded; {expected}"
        )


def _shown(sites: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in sorted(sites.items()))
