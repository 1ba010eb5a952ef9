"""A check of sampler and intervals in one set of simulations, and its result folder."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pydantic import Field

from analysis.display.folders import ResultFolder, versions
from analysis.display.style import MARKERS, REFERENCE, diagonal, figure_style, headed_figure, panel_grid, plain
from analysis.simulation.ranks_and_coverage import RankCheck, check_ranks, coverage, draw_worlds, place_truth
from bayes_direag.errors import DirEAGError
from bayes_direag.inference.nuts import draws_for_each
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import label
from bayes_direag.model.settings import SIGNAL_PARAMETERS, Preset, SamplingSettings, Settings, Variant
from bayes_direag.model.simulate import simulate_observations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SIGNALS = ("logprob", "words")
_LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_DERIVED = {
    "log_joint": "log joint density",
    "log_likelihood": "log-likelihood",
    "null_held_out": "null, a new question",
    "support_held_out": "support, a new question",
}


def rank_figure(check: RankCheck, about: str) -> "Figure":
    """Draw the distribution function of every quantity's ranks, minus the uniform one, and the band for it.

    ``about``: what was simulated, for the caption.
    """
    n = len(check.ranks)
    outside = check.table.loc[check.table["p_adjusted"] <= 1 - check.level, "quantity"].tolist()
    verdict = f"{len(outside)} of {len(check.table)} leave" if outside else f"All {len(check.table)} keep within"
    groups = _groups(check.table["quantity"].tolist())
    height = 2.6 * -(-len(groups) // 2)
    figure = headed_figure(
        f"Does the truth rank evenly among the draws? {verdict} the band",
        f"{about} {n} simulations; each ranks its true value among {check.n_ranked} draws from its posterior. Line: "
        "share of simulations at or below a rank, minus the share expected. A line above 0: draws too high; below: too "
        "low; an S that rises first: too narrow. Grey: holds every line, everywhere, with probability "
        f"{check.level:.0%} if model and sampler are right.",
        height,
        width=7.6,
    )
    panels = panel_grid(
        figure,
        [(name, _note(check, members)) for name, members in groups.items()],
        2,
        x_label="rank, as a share of the draws",
        y_label="share of simulations,\nminus uniform",
    )
    low, high = check.band()
    at = (np.arange(check.n_ranked) + 1) / (check.n_ranked + 1)
    for axes, members in zip(panels, groups.values(), strict=True):
        axes.fill_between(at, low - at, high - at, color="#DDDDDD", linewidth=0, step="post")
        axes.axhline(0, color=REFERENCE, linewidth=0.8)
        for style, (name, column) in zip(cycle(_LINES), members.items(), strict=False):
            counts = np.bincount(check.ranks[column], minlength=check.n_ranked + 1).cumsum()[:-1]
            axes.plot(at, counts / n - at, linestyle=style, linewidth=1.3, label=plain(name))
        axes.set_xlim(0, 1)
        axes.legend(fontsize=7, ncols=2, loc="upper right", handlelength=2.4, columnspacing=1.0, borderaxespad=0.2)
    largest = 1.75 * max(np.abs(panels[0].get_ylim()))
    panels[0].set_ylim(-largest / 1.75, largest)
    return figure


def coverage_figure(table: pd.DataFrame, about: str) -> "Figure":
    """Draw how often intervals held the truth against how often they should, by final calibration.

    ``table``: as :func:`~analysis.simulation.ranks_and_coverage.coverage` returns it. ``about``: what was simulated,
    for the caption.
    """
    n = int(table["n_worlds"].max())
    widths = table.groupby("recalibration", sort=False)["mean_width"].first()
    figure = headed_figure(
        "Do intervals hold the truth as often as they say?",
        f"{about} {n} simulations. Truth: the probability, in the simulation's world, that the selected answer is "
        "right (left), and its mean over questions of like confidence (right). Bars: 95% for the number of "
        "simulations. Above the line: intervals wider than need be. Mean width of 90% intervals: "
        + ", ".join(f"{_NAMES.get(str(name), name)} {width:.3f}" for name, width in widths.items())
        + ".",
        3.3,
        width=7.6,
    )
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, (unit, title) in zip(axes, _UNITS.items(), strict=True):
        _draw_coverage(panel, table[table["unit"] == unit])
        panel.set(title=title, xlabel="level of the interval")
    axes[0].set_ylabel("share of intervals that\nhold the truth")
    axes[0].legend(loc="upper left")
    return figure


_UNITS = {"question": "single questions", "bin": "bins of like confidence"}
_NAMES = {"none": "without final calibration", "platt": "with final calibration"}


def _draw_coverage(axes: "Axes", table: pd.DataFrame) -> None:
    diagonal(axes)
    for number, (method, rows) in enumerate(table.groupby("recalibration", sort=False)):
        axes.errorbar(
            rows["level"] + 0.006 * (2 * number - 1),
            rows["coverage"],
            yerr=1.96 * rows["error"],
            fmt=MARKERS[number],
            color=f"C{number}",
            markerfacecolor="white" if number else f"C{number}",
            capsize=3,
            linewidth=1.3,
            label=_NAMES.get(str(method), str(method)),
        )
    lowest = float(np.nanmin([table["level"], table["coverage"] - 1.96 * table["error"]]))
    axes.set(xlim=(table["level"].min() - 0.05, 1.0), ylim=(lowest - 0.04, 1.01))


def _groups(names: list[str]) -> dict[str, dict[str, str]]:
    """Return the columns of each panel by the label of their line: one panel per level parameter, and two others."""
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        parameter, bracket, level = name.partition("[")
        if bracket:
            kind = "signal" if parameter in SIGNAL_PARAMETERS else "level"
            groups.setdefault(f"{parameter}, by {kind}", {})[level[:-1]] = name
    others = [name for name in names if "[" not in name]
    groups["other parameters"] = {name: name for name in others if name not in _DERIVED}
    groups["what follows from all parameters"] = {_DERIVED[name]: name for name in others if name in _DERIVED}
    return {title: members for title, members in groups.items() if members}


def _note(check: RankCheck, members: dict[str, str]) -> str:
    rows = check.table[check.table["quantity"].isin(members.values())]
    return f"smallest adjusted p {rows['p_adjusted'].min():.2g}"


#: Long enough for 99 draws that are all but independent.
SHORT_CHAINS = SamplingSettings(n_warmup=500, n_draws=1000)

FOLDER = ResultFolder("simulation check", "sbc.json", ("ranks", "coverage"), ("ranks", "coverage"))


class SimulationSettings(Settings):
    """What is simulated.

    ``n``: number of simulations. ``n_questions``, ``n_fresh``: labelled questions that each learns from, and fresh ones
    that it predicts. ``n_signals``: of each report. ``sampling``: one chain a simulation; the number of
    chains is ignored.
    """

    n: int = 200
    n_questions: int = 100
    n_fresh: int = 1000
    n_signals: int = Field(default=1, ge=1, le=len(_SIGNALS) + 1)
    variant: Variant = "confidence"
    preset: Preset
    sampling: SamplingSettings = SHORT_CHAINS
    seed: int = 0

    @property
    def text(self) -> str:
        """The settings in one line."""
        return (
            f"Variant {self.variant}, preset {label(self.preset)}, {self.n_questions} labelled questions, "
            f"{f'{self.n_signals} signals a report, ' if self.n_signals > 1 else ''}"
            f"right answers from the model."
        )


@dataclass(frozen=True, eq=False)
class SimulationCheck:
    """The results of a simulation check.

    ``settings``: what was simulated. ``n_divergent``: simulations with a divergent draw. ``ranks``: simulation-based
    calibration. ``coverage``: from :func:`~analysis.simulation.ranks_and_coverage.coverage`.
    """

    settings: SimulationSettings
    n_divergent: int
    ranks: RankCheck
    coverage: pd.DataFrame

    @property
    def sound(self) -> bool:
        """Whether ranks are uniform."""
        return self.ranks.uniform


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
    signals = _SIGNALS[: settings.n_signals - 1]
    everything = simulate_observations(settings.n_questions + settings.n_fresh, seed=settings.seed, signals=signals)
    everything = everything.select(everything.answered)
    fitted = everything.select(slice(0, settings.n_questions))
    fresh = everything.select(slice(settings.n_questions, None))
    preset, seed = preset.for_signals(settings.n_signals), settings.seed
    settings = settings.model_copy(update={"preset": preset})
    data = LikelihoodData.weighted(fitted, np.ones(len(fitted)), preset=preset, variant=variant)
    on_step("drawing worlds")
    worlds = draw_worlds(data, settings.n, seed=seed)
    on_step(f"sampling {settings.n} posteriors")
    draws = draws_for_each(data, worlds.target, sampling=settings.sampling, seed=seed)
    on_step("ranking")
    one = Reports.of(fresh.select(slice(0, 1)), preset.eps)
    ranks = check_ranks(worlds, draws, data, one, level_names=fitted.level_names, seed=seed)
    every_second = draws._replace(raw={name: value[:, ::2] for name, value in draws.raw.items()})
    placed = place_truth(
        worlds, every_second, fitted, fresh, preset=preset, variant=variant, seed=seed, on_step=on_step
    )
    n_divergent = int(draws.stats["diverging"].any(axis=1).sum())
    return SimulationCheck(settings, n_divergent, ranks, coverage(placed))


def simulation_record(check: SimulationCheck) -> dict[str, object]:
    """Return settings and results."""
    ranks = check.ranks
    return {
        "settings": check.settings,
        "sound": check.sound,
        "n_divergent": check.n_divergent,
        "ranks": {"n_ranked": ranks.n_ranked, "level": ranks.level, "quantities": ranks.table},
        "coverage": check.coverage,
        "versions": versions("numpyro", "jax", "numpy", "scipy"),
    }


def write_simulation_check(check: SimulationCheck, folder: str | Path) -> None:
    """Write a check as a folder."""
    about = check.settings.text
    with figure_style():
        figures = {"coverage": coverage_figure(check.coverage, about), "ranks": rank_figure(check.ranks, about)}
    tables = {"coverage": check.coverage, "ranks": check.ranks.ranks}
    FOLDER.write(folder, simulation_record(check), tables, figures)
