r"""Checks on simulated worlds: the ranks of true values among posterior draws, and the coverage of intervals.

The parameters of a world are drawn from the prior, and the right answers of its questions from their support. The
reports are the same in all worlds.

*Simulation-based calibration* checks whether model and sampler together draw from the correct posterior. The true value
of any quantity ranks uniformly among its values in independent posterior draws (Talts et al. 2018, arXiv:1804.06788).
The quantities are every raw parameter, the support of a question that was not fitted, and the log-likelihood and log
joint density. These depend on the data, and find errors that parameters alone cannot show, such as a posterior that is
equal to the prior (Modrak et al. 2023, doi:10.1214/23-BA1404).

Uniformity is tested by the distribution function of the ranks at all points together: by the smallest two-sided
binomial tail over all ranks, whose distribution under uniformity is simulated (Sailynoja, Buerkner and Vehtari 2022,
doi:10.1007/s11222-022-10090-6). For several quantities the level is corrected by Bonferroni.

*Coverage* is how often the intervals of final probabilities contain the truth. In each world a posterior is learned
from the labelled questions and predicts fresh ones, as :func:`~bayes_direag.fit_nuts` and :meth:`Fit.predict
<bayes_direag.fits.fit.Fit.predict>` do. The truth is the probability, given the world's parameters, that the selected
answer is right; and, for a bin of questions with similar confidence, the mean of these probabilities. With parameters
from the prior, intervals without final calibration must have their nominal coverage over all worlds, for any number of
labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Array, Float, Int
from scipy.stats import binom

from analysis.scores.scoring import mean_and_interval
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.prediction import select_reports
from bayes_direag.inference.loo import leave_one_out
from bayes_direag.inference.nuts import Draws
from bayes_direag.inference.posterior import prior_draws
from bayes_direag.inference.recalibration_posterior import draw_recalibration
from bayes_direag.model.evidence import Parameters, Reports, support, supports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import Raw, log_likelihood, log_prior, natural_parameters
from bayes_direag.model.selection import LogisticRecalibration
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, Variant

LEVELS = (0.5, 0.8, 0.9, 0.95)
_N_BINS, _SMALLEST_BIN = 10, 20
_WIDTH_LEVEL = 0.9


class Worlds(NamedTuple):
    """Simulated worlds.

    ``raw``: raw parameters by name, each with a leading axis world. ``target`` (world, problem): the right candidate,
    -1 for the null.
    """

    raw: dict[str, Float[np.ndarray, "world ..."]]
    target: Int[np.ndarray, "world problem"]


def draw_worlds(data: LikelihoodData, n: int, *, seed: int) -> Worlds:
    """Draw ``n`` worlds from the prior predictive distribution of the NumPyro model."""
    drawn = prior_draws(data, n_draws=n, key=jax.random.fold_in(jax.random.key(seed), 3))
    raw = {name: drawn[f"{name}_raw"] for name in data.preset.free_parameters(data.variant)}
    return Worlds(raw, drawn["target"])


def world_support(
    worlds: Worlds, reports: Reports, *, preset: Preset, variant: Variant
) -> Float[np.ndarray, "world problem state"]:
    """Return the probability of each state of some questions in each world, the null last."""
    parameters = parameters_of(worlds.raw, preset=preset, variant=variant)
    with jax.enable_x64(True):
        return np.asarray(supports(reports, parameters))


def parameters_of(raw: dict[str, Float[np.ndarray, "sample ..."]], *, preset: Preset, variant: Variant) -> Parameters:
    """Return the natural parameters of all samples, each with a leading sample axis."""
    with jax.enable_x64(True):
        parameters: Parameters = _natural(jax.tree.map(jnp.asarray, raw), preset=preset.model_settings, variant=variant)
    return parameters


@partial(jax.jit, static_argnames=("preset", "variant"))
def _natural(raw: Raw, *, preset: Preset, variant: Variant) -> Parameters:
    parameters: Parameters = jax.vmap(partial(natural_parameters, preset=preset, variant=variant))(raw)
    return parameters


class Placement(NamedTuple):
    """The share of draws below the truth.

    ``question`` (world, problem): for each fresh question's probability. ``bin`` (world, bin): for each bin's share of
    right answers; NaN for a bin of fewer than 20 questions. ``width`` (world,): mean width of the questions' 90 %
    intervals. ``error`` (world,): root mean squared difference of the questions' mean probability from the truth.
    """

    question: Float[np.ndarray, "world problem"]
    bin: Float[np.ndarray, "world bin"]
    width: Float[np.ndarray, " world"]
    error: Float[np.ndarray, " world"]


def place_truth(
    worlds: Worlds,
    draws: Draws,
    fitted: Observations,
    fresh: Observations,
    *,
    preset: Preset,
    variant: Variant,
    seed: int = 0,
    on_step: Callable[[str], None] = lambda _: None,
) -> dict[str, Placement]:
    """Compare the truth of fresh questions with the posterior of each world.

    Returns: The placements by method of final calibration: ``none``, and the preset's if that is another.

    ``draws``: one chain a world, from :func:`~bayes_direag.inference.nuts.draws_for_each`. ``fitted``: the questions
    whose labels are drawn in each world; their own labels are ignored. ``fresh``: answered questions to predict.
    ``seed``: of the final calibrations' draws.
    """
    truth = world_support(worlds, Reports.of(fresh, preset.eps), preset=preset, variant=variant)
    rows: dict[str, list[tuple[np.ndarray, ...]]] = {}
    for world, target in enumerate(worlds.target):
        on_step(f"predicting in world {world + 1} of {len(worlds.target)}")
        correct = (fitted.candidate == target[:, None]) & (fitted.candidate >= 0)  # under the null no report is right
        raw = {name: np.asarray(value[world]) for name, value in draws.raw.items()}
        parameters = parameters_of(raw, preset=preset, variant=variant)
        labelled, rng = replace(fitted, correct=correct), np.random.default_rng([seed, 2, world])
        for final in _recalibrations(labelled, raw, parameters, preset, variant, rng):
            parts = list(select_reports(Reports.of(fresh, preset.eps), parameters, lambda found: found))
            probability = final.of_selected(np.concatenate([part.support for part in parts], axis=1))
            candidate = np.concatenate([part.candidate for part in parts])
            right = truth[world, np.arange(len(fresh)), candidate]
            rows.setdefault(final.method, []).append(_placed(probability, right))
    return {method: Placement(*map(np.stack, zip(*placed, strict=True))) for method, placed in rows.items()}


def coverage(placements: dict[str, Placement], levels: tuple[float, ...] = LEVELS) -> pd.DataFrame:
    """Return how often equal-tailed intervals contain the truth.

    Returns: One row per final calibration, unit and level: ``recalibration``; ``unit``, question or bin; ``level``;
    ``coverage``, the mean over worlds of the share of the world's units that are covered; ``error``, its standard error
    over the worlds, NaN for fewer than two; ``n_worlds``, those with any unit; ``mean_width`` and ``rmse``, over the
    worlds, the means of :class:`Placement`'s width and error (the same in all rows of a calibration).
    """
    rows: list[dict[str, object]] = []
    for method, placed in placements.items():
        summary = {"mean_width": placed.width.mean(), "rmse": placed.error.mean()}
        for unit, place in (("question", placed.question), ("bin", placed.bin)):
            place = place[~np.isnan(place).all(axis=1)]
            n = len(place)
            for level in levels:
                by_world = np.nanmean(np.where(np.isnan(place), np.nan, np.abs(place - 0.5) <= level / 2), axis=1)
                rows.append(
                    {
                        "recalibration": method,
                        "unit": unit,
                        "level": level,
                        "coverage": by_world.mean() if n else np.nan,
                        "error": by_world.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan,
                        "n_worlds": n,
                        **summary,
                    }
                )
    return pd.DataFrame(rows)


def _recalibrations(
    labelled: Observations,
    raw: dict[str, Float[np.ndarray, "draw ..."]],
    parameters: Parameters,
    preset: Preset,
    variant: Variant,
    rng: np.random.Generator,
) -> list[LogisticRecalibration]:
    """Return the identity, and the preset's own final calibration drawn for each draw of the parameters."""
    shape = (1, len(next(iter(raw.values()))))
    final = preset.recalibration
    identity = LogisticRecalibration.identity(shape, final.eps)
    if final.method == "none":
        return [identity]
    posterior = xr.Dataset(
        {name: (("chain", "draw", f"{name}_of")[: value.ndim + 1], value[None]) for name, value in raw.items()}
    )
    data = LikelihoodData.weighted(labelled, np.ones(len(labelled)), preset=preset, variant=variant)
    with jax.enable_x64(True):
        by_question = _log_likelihood(jax.tree.map(jnp.asarray, raw), data)
    left_out = leave_one_out(labelled, posterior, np.asarray(by_question)[None], parameters, preset.eps)
    return [identity, draw_recalibration(left_out.outcomes(labelled.right_state), final, shape, rng)]


def _placed(
    probability: Float[np.ndarray, "draw problem"], truth: Float[np.ndarray, " problem"]
) -> tuple[np.ndarray, ...]:
    """Return one world's row of each array of :class:`Placement`."""
    mean, low, high = mean_and_interval(probability, _WIDTH_LEVEL)
    member = np.minimum((mean * _N_BINS).astype(int), _N_BINS - 1)[:, None] == np.arange(_N_BINS)
    size = member.sum(axis=0)
    share = np.full(_N_BINS, np.nan)
    large = size >= _SMALLEST_BIN
    weight = member[:, large] / size[large]
    share[large] = (probability @ weight < truth @ weight).mean(axis=0)
    return (
        (probability < truth).mean(axis=0),
        share,
        np.asarray(np.mean(high - low)),
        np.asarray(np.sqrt(np.mean((mean - truth) ** 2))),
    )


@jax.jit
def _log_likelihood(raw: Raw, data: LikelihoodData) -> Float[Array, "draw problem"]:
    by_question: Array = jax.vmap(log_likelihood, in_axes=(0, None))(raw, data)
    return by_question


_NULL_RUNS = 20_000
#: Tails that differ by less than this count as equal.
_ROUNDING = 1e-9

#: Values of one quantity: one row per simulation, one column per draw.
Values = Float[np.ndarray, "simulation draw"]


@dataclass(frozen=True, eq=False)
class RankCheck:
    """The ranks of the true values, and tests of their uniformity.

    ``ranks``: one row per simulation, one column per quantity: how many of ``n_ranked`` draws are below the true value.
    ``level``: probability that a correct sampler passes all tests. ``table``: one row per quantity: ``quantity``;
    ``p_value``, of uniform ranks; ``p_adjusted``, for the number of quantities; ``autocorrelation``, of successive
    ranked draws within simulations, which is near 0 for independent draws.
    """

    ranks: pd.DataFrame
    n_ranked: int
    level: float
    table: pd.DataFrame

    @property
    def uniform(self) -> bool:
        """Whether no quantity's ranks are significantly non-uniform."""
        return bool((self.table["p_adjusted"] > 1 - self.level).all())

    def band(self) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, " rank"]]:
        """Return the band of each quantity's distribution function; one outside it fails, see :func:`ecdf_band`."""
        return ecdf_band(len(self.ranks), self.n_ranked, 1 - (1 - self.level) / len(self.table))


def check_ranks(
    worlds: Worlds,
    draws: Draws,
    data: LikelihoodData,
    held_out: Reports,
    *,
    level_names: Sequence[str],
    n_ranked: int = 99,
    level: float = 0.99,
    seed: int = 0,
) -> RankCheck:
    """Rank the true values of each world among draws from its posterior, and test the ranks.

    Raises DirEAGError if a chain has fewer than ``n_ranked`` draws.

    ``draws``: one chain a world, from :func:`~bayes_direag.inference.nuts.draws_for_each`. ``data``: the fitted
    questions. ``held_out``: a question that was not fitted. ``level_names``: for the names of the quantities.
    ``n_ranked``: the number of draws to which each chain is thinned. ``level``: probability that a correct sampler
    passes. ``seed``: of the order of equal values.
    """
    n_draws = draws.stats["lp"].shape[1]
    if n_draws < n_ranked:
        raise DirEAGError(f"{n_draws} draws a simulation: expected at least the {n_ranked} that the truth ranks among.")
    every = n_draws // n_ranked
    kept = {name: np.asarray(value)[:, every - 1 :: every][:, :n_ranked] for name, value in draws.raw.items()}
    of = partial(quantities, targets=worlds.target, data=data, held_out=held_out, level_names=level_names)
    truth, drawn = of({name: value[:, None] for name, value in worlds.raw.items()}), of(kept)
    rng = np.random.default_rng([seed, 4])
    rank_of = {name: ranks(truth[name][:, 0], drawn[name], rng) for name in truth}
    p_value = np.array([uniformity_p_value(values, n_ranked) for values in rank_of.values()])
    table = pd.DataFrame(
        {
            "quantity": list(rank_of),
            "p_value": p_value,
            "p_adjusted": np.minimum(1.0, len(p_value) * p_value),
            "autocorrelation": [autocorrelation(drawn[name]) for name in rank_of],
        }
    )
    return RankCheck(pd.DataFrame(rank_of), n_ranked, level, table)


def quantities(
    raw: dict[str, Float[np.ndarray, "simulation draw ..."]],
    targets: Int[np.ndarray, "simulation problem"],
    data: LikelihoodData,
    held_out: Reports,
    *,
    level_names: Sequence[str],
) -> dict[str, Values]:
    """Return every raw parameter and derived quantities, by name.

    These are ``log_likelihood`` and ``log_joint`` (with the prior of the raw parameters) of the simulation's labels;
    ``null_held_out``; and ``support_held_out``, of the held-out question's commonest candidate (the first of several).

    ``targets``: the states in each simulation.
    """
    values_of: dict[str, Values] = {}
    for name, value in raw.items():
        if value.ndim > 2:
            signals = [f"signal {number + 1}" for number in range(data.n_signals)]
            own = enumerate(level_names if name in LEVEL_PARAMETERS else signals)
            values_of |= {f"{name}[{one}]": value[:, :, number] for number, one in own}
        else:
            values_of[name] = value
    common = int(np.bincount(np.maximum(np.asarray(held_out.candidate[0]), 0)).argmax())
    with jax.enable_x64(True):
        pairs = jax.tree.map(jnp.asarray, (raw, targets))
        derived = _derived(pairs, data, held_out, common=common)
    return values_of | {name: np.asarray(value) for name, value in derived.items()}


@partial(jax.jit, static_argnames="common")
def _derived(
    pairs: tuple[Raw, Int[Array, "simulation problem"]], data: LikelihoodData, held_out: Reports, *, common: int
) -> dict[str, Float[Array, "simulation draw"]]:
    def of_draw(raw: Raw, target: Int[Array, " problem"]) -> dict[str, Array]:
        reached = jnp.sum(log_likelihood(raw, replace(data, target=target)))
        held_out_support = support(held_out, natural_parameters(raw, data.preset, data.variant))[0]
        return {
            "log_likelihood": reached,
            "log_joint": reached + log_prior(raw, data),
            "null_held_out": held_out_support[-1],
            "support_held_out": held_out_support[common],
        }

    def of_simulation(pair: tuple[Raw, Int[Array, " problem"]]) -> dict[str, Array]:
        by_draw: dict[str, Array] = jax.vmap(partial(of_draw, target=pair[1]))(pair[0])
        return by_draw

    by_simulation: dict[str, Array] = jax.lax.map(of_simulation, pairs)
    return by_simulation


def ranks(
    truth: Float[np.ndarray, " simulation"], drawn: Values, rng: np.random.Generator
) -> Int[np.ndarray, " simulation"]:
    """Return how many draws lie below the truth, 0 to the number of draws; equal ones are put in random order."""
    below = (drawn < truth[:, None]).sum(axis=1)
    equal = (drawn == truth[:, None]).sum(axis=1)
    return np.asarray(below + rng.integers(0, equal + 1))


def autocorrelation(drawn: Values) -> float:
    """Return the correlation of successive draws around their simulation's mean; NaN where no draw differs."""
    centred = drawn - drawn.mean(axis=1, keepdims=True)
    variance = float((centred**2).mean())
    return float((centred[:, 1:] * centred[:, :-1]).mean() / variance) if variance > 0 else float("nan")


def uniformity_p_value(ranks: Int[np.ndarray, " simulation"], n_ranked: int) -> float:
    """Return how probable ranks at least this uneven are, if uniform on 0 .. ``n_ranked``.

    The smallest p-value there is, 1 in 20 001, is that of the simulation.
    """
    counts = np.bincount(ranks, minlength=n_ranked + 1).cumsum()[:-1]
    smallest = _tails(len(ranks), n_ranked)[np.arange(n_ranked), counts].min()
    as_uneven = _null(len(ranks), n_ranked) <= smallest * (1 + _ROUNDING)
    return float((1 + as_uneven.sum()) / (1 + _NULL_RUNS))


def ecdf_band(
    n_simulations: int, n_ranked: int, level: float
) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, " rank"]]:
    """Return between which values the distribution function of uniform ranks stays with that probability, everywhere.

    At rank r it is the share of simulations whose truth has at most r of the ``n_ranked`` draws below it. Returns: The
    lowest and highest values (rank,) at ranks 0 to ``n_ranked - 1``.
    """
    limit = np.quantile(_null(n_simulations, n_ranked), 1 - level)
    allowed = _tails(n_simulations, n_ranked) > limit * (1 + _ROUNDING)
    lowest = allowed.argmax(axis=1)
    highest = n_simulations - allowed[:, ::-1].argmax(axis=1)
    return lowest / n_simulations, highest / n_simulations


@cache
def _tails(n_simulations: int, n_ranked: int) -> Float[np.ndarray, "rank count"]:
    """Return the two-sided binomial tail of each number of simulations at or below each rank."""
    share = (np.arange(n_ranked)[:, None] + 1) / (n_ranked + 1)
    count = np.arange(n_simulations + 1)[None, :]
    one_sided = np.minimum(binom.cdf(count, n_simulations, share), binom.sf(count - 1, n_simulations, share))
    return np.asarray(np.minimum(1.0, 2 * one_sided))


@cache
def _null(n_simulations: int, n_ranked: int) -> Float[np.ndarray, " run"]:
    """Return the smallest tail of each of many runs whose ranks are uniform."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(n_simulations, np.full(n_ranked + 1, 1 / (n_ranked + 1)), _NULL_RUNS).cumsum(axis=1)
    return np.asarray(_tails(n_simulations, n_ranked)[np.arange(n_ranked), counts[:, :-1]].min(axis=1))
