"""Faults of a sampler, each made by hand, and what the checks make of them."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_stats import ess, rhat

from analysis.diagnosis.diagnostics import diagnose
from bayes_direag.fits.convergence import (
    ESS_PER_CHAIN,
    RHAT_LIMIT,
    SamplerSummary,
    chain_statistics,
    convergence,
    convergence_summary,
    is_apart,
    rhat_by_chance,
    sampled_draws,
    sampler_summary,
)
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import gaussian_draws, good_fit, made_posterior, replaced

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((4, 1000))


def row_of(values: np.ndarray) -> dict[str, float]:
    index = pd.MultiIndex.from_product(list(map(range, values.shape)), names=["chain", "draw"])
    columns = pd.MultiIndex.from_tuples([("a", None)], names=["parameter", "level"])
    (row,) = convergence(pd.DataFrame(values.reshape(-1, 1), index, columns)).to_dict("records")
    return row


def autoregressive(correlation: float, shape: tuple[int, ...] = (4, 1000), rng=1) -> np.ndarray:
    noise = np.random.default_rng(rng).standard_normal(shape) * np.sqrt(1 - correlation**2)
    values = np.empty_like(noise)
    values[:, 0] = noise[:, 0] / np.sqrt(1 - correlation**2)
    for draw in range(1, shape[1]):
        values[:, draw] = correlation * values[:, draw - 1] + noise[:, draw]
    return values


class TestConvergence:
    def test_the_figures_are_arviz_s_whatever_the_scale_and_origin(self):
        values = NORMAL * np.exp(autoregressive(0.97))
        ends = [values <= np.quantile(values, share) for share in (0.05, 0.95)]
        for scale, origin in ((1, 0), (-100, 5)):
            row = row_of(origin + scale * values)
            assert row["rhat"] == pytest.approx(rhat(values, chain_axis=0, draw_axis=1), abs=1e-3)
            assert row["ess_bulk"] == pytest.approx(ess(values, chain_axis=0, draw_axis=1), rel=0.01)
            tail = min(ess(end.astype(float), method="mean") for end in ends)
            assert row["ess_tail"] == pytest.approx(tail, rel=0.01)
            assert row["ess_tail"] < row["ess_bulk"] / 3
            assert row["mcse_relative"] == pytest.approx(row["mcse"] / (abs(scale) * values.std(ddof=1)))
        assert row_of(NORMAL)["mcse_relative"] == pytest.approx(1 / np.sqrt(4000), rel=0.06)

    @pytest.mark.parametrize(
        "values",
        [
            np.full((4, 100), 3.1),
            np.where(np.arange(100) == 7, np.nan, NORMAL[:, :100]),
            np.where(np.arange(100) == 7, np.inf, NORMAL[:, :100]),
        ],
        ids=["constant", "a NaN", "an infinity"],
    )
    def test_what_is_undefined_is_nan(self, values):
        assert np.isnan(list(row_of(values).values())[2:]).all()

    def test_chains_stuck_in_different_places_pass_nothing(self):
        row = row_of(np.repeat(np.arange(4.0)[:, None], 100, axis=1))
        assert not row["rhat"] < RHAT_LIMIT
        assert not row["ess_bulk"] > ESS_PER_CHAIN * 4

    def test_one_chain_has_no_rhat(self):
        row = row_of(NORMAL[:1])
        assert np.isnan(row["rhat"])
        assert row["ess_bulk"] > 800


class TestByChance:
    """What chance makes of R-hat, over simulated chains of a fit with 42 parameters."""

    SHORT = 2, 300, 42

    @staticmethod
    def share_apart(shape: tuple[int, ...], correlation: float, n: int = 20) -> float:
        rng, found = np.random.default_rng(7), 0
        for _ in range(n):
            draws = autoregressive(correlation, shape, rng)
            table = {"rhat": rhat(draws, chain_axis=0, draw_axis=1), "rhat_by_chance": rhat_by_chance(draws)}
            found += is_apart(pd.DataFrame(table)).any()
        return found / n

    def test_short_perfect_chains_are_seldom_accused(self):
        rng = np.random.default_rng(8)
        largest = [rhat(rng.standard_normal(self.SHORT), chain_axis=0, draw_axis=1).max() for _ in range(20)]
        assert np.mean(np.array(largest) > RHAT_LIMIT) > 0.3, "by the limit alone they are"
        assert self.share_apart(self.SHORT, 0.0) <= 0.15

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", [SHORT, (4, 250, 5), (4, 1000, 42)])
    @pytest.mark.parametrize("correlation", [-0.3, 0.4, 0.8])
    def test_nor_are_correlated_ones(self, shape, correlation):
        assert self.share_apart(shape, correlation, 60) <= 0.15

    @pytest.mark.parametrize("correlation", [0.0, 0.8])
    def test_chains_in_different_places_or_of_different_widths_are_caught(self, correlation):
        draws = autoregressive(correlation, self.SHORT)
        by_chance = rhat_by_chance(draws)
        for changed in (draws + np.array([0, 2])[:, None, None], draws * np.array([1, 8])[:, None, None]):
            assert (rhat(changed, chain_axis=0, draw_axis=1) > rhat_by_chance(changed)).mean() > 0.95
        shifted = rhat_by_chance(draws + np.array([0, 100])[:, None, None])
        np.testing.assert_allclose(shifted - 1, by_chance - 1, rtol=0.5, err_msg="no excuse in their distance")

    def test_more_draws_leave_less_to_chance_and_more_parameters_more(self):
        def mean(*shape: int) -> float:
            return rhat_by_chance(autoregressive(0.0, shape)).mean()

        assert mean(4, 4000, 42) < mean(4, 1000, 42) < mean(4, 250, 42) < mean(2, 250, 42)
        assert mean(2, 300, 5) < mean(2, 300, 42)
        assert np.isnan(mean(1, 300, 5))


class TestChainStatistics:
    def statistics(self, **changes: np.ndarray) -> xr.Dataset:
        shape = NORMAL.shape
        values = {
            "energy": NORMAL,
            "diverging": np.zeros(shape, bool),
            "tree_depth": np.full(shape, 4),
            "acceptance_rate": np.full(shape, 0.9),
            "step_size": np.full(shape, 0.25),
        }
        variables = {name: (("chain", "draw"), value) for name, value in (values | changes).items()}
        return xr.Dataset(variables, coords={"chain": np.arange(4), "draw": np.arange(1000)})

    def test_figures_are_those_of_each_chain(self):
        diverging, depth, still = np.zeros((4, 1000), bool), np.full((4, 1000), 9), NORMAL.copy()
        diverging[1, [3, 500]] = True
        depth[3, :250] = 10
        still[1] = 5.0
        table = chain_statistics(self.statistics(diverging=diverging, tree_depth=depth, energy=still))
        assert table["chain"].tolist() == [0, 1, 2, 3]
        assert (table["draws"] == 1000).all()
        assert table["divergences"].tolist() == [0, 2, 0, 0]
        assert table["at_max_depth"].tolist() == [0, 0, 0, 0.25]
        assert table["acceptance"].tolist() == pytest.approx([0.9] * 4)
        assert table["step_size"].tolist() == pytest.approx([0.25] * 4)
        # independent energies: the variance of a step is twice that of the energy; one that stands still has none
        assert table["bfmi"].tolist() == pytest.approx([2, np.nan, 2, 2], rel=0.15, nan_ok=True)
        slow = autoregressive(0.95)
        expected = [np.mean(np.diff(own) ** 2) / own.var(ddof=1) for own in slow]
        assert chain_statistics(self.statistics(energy=slow))["bfmi"].tolist() == pytest.approx(expected)


class TestSamplerSummary:
    def test_the_worst_figures(self):
        fit = good_fit()
        summary = sampler_summary(fit)
        table = convergence(sampled_draws(fit))
        assert table["parameter"].tolist()[-2:] == ["recalibration_intercept", "recalibration_slope"]
        assert (summary.chains, summary.largest_rhat, summary.n_apart) == (4, table["rhat"].max(), 0)
        assert summary.smallest_ess == table[["ess_bulk", "ess_tail"]].min(axis=None)
        assert summary.smallest_bfmi == chain_statistics(fit.tree["sample_stats"].to_dataset())["bfmi"].min()
        assert summary.divergences == 0
        assert str(summary).startswith(f"R-hat at most {summary.largest_rhat:.3f} (below 1.01), effective draws at ")

    @pytest.mark.parametrize(
        ("figures", "converged"),
        [
            ((4, 1.02, 0, 401.0, 0.31, 0), True),
            ((2, 1.02, 0, 201.0, 0.31, 0), True),
            ((4, 1.02, 1, 401.0, 0.31, 0), False),
            ((4, 1.0, 0, 400.0, 1.0, 0), False),
            ((4, 1.0, 0, 900.0, 0.3, 0), False),
            ((4, 1.0, 0, 900.0, 1.0, 1), False),
            ((4, 1.0, 0, np.nan, 1.0, 0), False),
            ((4, 1.0, 0, 900.0, np.nan, 0), False),
        ],
    )
    def test_the_limits(self, figures, converged):
        assert SamplerSummary(*figures).converged is converged

    def test_apart_is_what_chance_does_not_explain(self):
        table = pd.DataFrame(
            {"rhat": [1.009, 1.02, 1.02, np.nan, 1.0], "rhat_by_chance": [1.001, 1.03, 1.015, 1.03, np.nan]}
        )
        assert is_apart(table).tolist() == [False, False, True, True, False]
        text = str(SamplerSummary(2, 1.02, 0, 300.0, 1.0, 0))
        assert text.startswith("R-hat at most 1.020 (below 1.01, or by chance: too few draws to tell), effective draws")

    @pytest.mark.parametrize("fault", ["none", "energy", "divergence", "evidence", "calibration"])
    def test_it_is_what_show_and_diagnose_go_by(self, fault):
        shifted, fit = np.repeat([0.0, 0.0, 0.0, 1.0], 250).reshape(4, 250), good_fit()
        rising = np.tile(np.linspace(-3, 3, 250), (4, 1))
        changed = {
            "none": fit,
            "energy": replaced(fit, "sample_stats", energy=rising),
            "divergence": replaced(fit, "sample_stats", diverging=shifted.astype(bool)),
            "evidence": replaced(
                fit,
                "unconstrained_posterior",
                slope_raw=fit.tree["unconstrained_posterior"]["slope_raw"].to_numpy() + shifted,
            ),
            "calibration": replaced(fit, "recalibration", slope=1 + shifted + fit.tree["recalibration"]["intercept"]),
        }[fault]
        diagnosis = diagnose(changed)
        failed = [finding for finding in diagnosis.verdict if finding.status == "failure"]
        judgements = [sampler_summary(changed).converged, convergence_summary(changed).converged, diagnosis.believable]
        assert judgements == [not failed] * 3 == [fault == "none"] * 3


def test_without_a_final_calibration_only_raw_parameters_were_sampled():
    observations = simulate_observations(30, seed=1)
    settings = presets.preset("bayes").override(recalibration={"method": "none"})
    fit = made_posterior(observations, gaussian_draws(1), preset=settings)
    assert sampled_draws(fit).equals(fit.draws("raw"))
