"""Sampler and intervals checked in one set of simulations, and the folder of what came out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.display.folders import ResultFolder, versions
from analysis.display.style import figure_style
from analysis.simulation.interval_coverage import coverage, place_truth
from analysis.simulation.simulated_worlds import Worlds, draw_worlds
from analysis.simulation.simulation_based_calibration import RankCheck, check_ranks
from analysis.simulation.simulation_figures import coverage_figure, rank_figure
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.inference.nuts import Draws, draws_for_each
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import label
from bayes_direag.model.settings import Preset, SamplingSettings, Settings, Variant
from bayes_direag.model.simulate import simulate_observations

#: Long enough for 99 draws that are all but independent.
SHORT_CHAINS = SamplingSettings(n_warmup=500, n_draws=1000)

FOLDER = ResultFolder("simulation check", "sbc.json", ("ranks", "coverage"), ("ranks", "coverage"))


class SimulationSettings(Settings):
    """What is simulated.

    Attributes
    ----------
    n
        Number of simulations.
    n_questions, n_fresh
        Labelled questions that each learns from, and fresh ones that it predicts.
    misfit
        0: right answers from the model itself. Otherwise see :func:`~analysis.simulation.simulated_worlds.draw_worlds`.
    sampling
        One chain a simulation; the number of chains is not looked at.
    """

    n: int = 200
    n_questions: int = 100
    n_fresh: int = 1000
    variant: Variant = "confidence"
    preset: Preset
    misfit: float = 0.0
    sampling: SamplingSettings = SHORT_CHAINS
    seed: int = 0

    @property
    def text(self) -> str:
        """Say it in a line."""
        truth = f"the model recalibrated at random (sd {self.misfit:g})" if self.misfit else "the model"
        return (
            f"Variant {self.variant}, preset {label(self.preset)}, {self.n_questions} labelled questions, "
            f"right answers from {truth}."
        )


@dataclass(frozen=True, eq=False)
class SimulationCheck:
    """What came out.

    Attributes
    ----------
    settings
        What was simulated.
    n_divergent
        Simulations with a divergent draw.
    ranks
        Simulation-based calibration; None under misfit, where no parameters are true.
    coverage
        As :func:`~analysis.simulation.interval_coverage.coverage` returns it.
    """

    settings: SimulationSettings
    n_divergent: int
    ranks: RankCheck | None
    coverage: pd.DataFrame

    @property
    def sound(self) -> bool:
        """Whether ranks are uniform, as far as there are any."""
        return self.ranks is None or self.ranks.uniform


def check_by_simulation(
    settings: SimulationSettings, on_step: Callable[[str], None] = lambda _: None
) -> SimulationCheck:
    """Draw worlds, sample the posterior of each, rank the truth among the draws, and measure coverage.

    Raises DirEAGError if the preset weighs questions unequally, bounds its parameters, or has a final calibration
    without posterior.
    """
    preset, variant = settings.preset, settings.variant
    if preset.is_weighted:
        raise DirEAGError(
            f"preset {preset.name} weighs questions unequally: saw null_target_weight {preset.null_target_weight}; "
            "expected 1, a probability model whose labels can be simulated. Take another preset."
        )
    if preset.recalibration.method not in ("platt", "none"):
        raise DirEAGError(
            f"recalibration method {preset.recalibration.method} has no posterior; expected platt or none. "
            "Set recalibration.method."
        )
    everything = simulate_observations(settings.n_questions + settings.n_fresh, seed=settings.seed)
    everything = everything.select(everything.answered)
    fitted = everything.select(slice(0, settings.n_questions))
    fresh = everything.select(slice(settings.n_questions, None))
    data, seed = _data(settings, fitted), settings.seed
    on_step("drawing worlds")
    worlds = draw_worlds(data, settings.n, seed=seed, misfit=settings.misfit)
    on_step(f"sampling {settings.n} posteriors")
    draws = draws_for_each(data, worlds.target, sampling=settings.sampling, seed=seed)
    on_step("ranking")
    ranks = None if settings.misfit else _ranks(settings, worlds, draws, fitted, fresh)
    every_second = draws._replace(raw={name: value[:, ::2] for name, value in draws.raw.items()})
    placed = place_truth(
        worlds, every_second, fitted, fresh, preset=preset, variant=variant, seed=seed, on_step=on_step
    )
    n_divergent = int(draws.stats["diverging"].any(axis=1).sum())
    return SimulationCheck(settings, n_divergent, ranks, coverage(placed))


def _data(settings: SimulationSettings, fitted: Observations) -> LikelihoodData:
    return LikelihoodData.weighted(fitted, np.ones(len(fitted)), preset=settings.preset, variant=settings.variant)


def _ranks(
    settings: SimulationSettings, worlds: Worlds, draws: Draws, fitted: Observations, fresh: Observations
) -> RankCheck:
    return check_ranks(
        worlds,
        draws,
        _data(settings, fitted),
        Reports.of(fresh.select(slice(0, 1)), settings.preset.eps),
        level_names=fitted.level_names,
        seed=settings.seed,
    )


def simulation_record(check: SimulationCheck) -> dict[str, object]:
    """Return settings and results."""
    ranks = check.ranks
    return {
        "settings": check.settings,
        "sound": check.sound,
        "n_divergent": check.n_divergent,
        "ranks": ranks and {"n_ranked": ranks.n_ranked, "level": ranks.level, "quantities": ranks.table},
        "coverage": check.coverage,
        "versions": versions("numpyro", "jax", "numpy", "scipy"),
    }


def write_simulation_check(check: SimulationCheck, folder: str | Path) -> None:
    """Write a check as a folder; of ranks nothing under misfit."""
    tables, about = {"coverage": check.coverage}, check.settings.text
    with figure_style():
        figures = {"coverage": coverage_figure(check.coverage, about)}
        if check.ranks is not None:
            tables["ranks"], figures["ranks"] = check.ranks.ranks, rank_figure(check.ranks, about)
    FOLDER.write(folder, simulation_record(check), tables, figures)
