"""The tidy table of draws: what each scale holds, in which order and under which names."""

import numpy as np
import pytest
import xarray as xr

from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.parameters import SCALED_TOGETHER, identified_draws
from bayes_direag.model.simulate import simulate_observations


@pytest.fixture
def fit(nuts: Fit) -> Fit:
    return nuts


def test_raw_draws_are_as_they_are_sampled(fit: Fit) -> None:
    draws, raw = fit.draws("raw"), fit.tree["unconstrained_posterior"].to_dataset()
    assert draws.index.names == ["chain", "draw"]
    assert draws.columns.get_level_values("parameter").unique().tolist() == list(raw)
    for name in raw:
        values = raw[name].sel(chain=1, draw=7).to_numpy()
        np.testing.assert_array_equal(draws.loc[1, 7][str(name)].to_numpy(), values.ravel())


def test_only_parameters_of_levels_have_a_level(fit: Fit) -> None:
    columns = fit.draws().columns.to_frame(index=False)
    of_levels = columns[columns["level"].notna()]
    assert of_levels["parameter"].unique().tolist() == ["share", "weight", "vote"]
    assert of_levels["level"].tolist() == [*fit.level_names] * 3


def test_natural_draws_have_the_final_calibration(fit: Fit) -> None:
    draws = fit.draws()
    np.testing.assert_array_equal(
        draws["vote", "cautious"], fit.tree["posterior"]["vote"].sel(level="cautious").to_numpy().ravel()
    )
    for name in ("intercept", "slope"):
        np.testing.assert_array_equal(
            draws[f"recalibration_{name}"].squeeze(), fit.tree["recalibration"][name].to_numpy().ravel()
        )


def test_relative_draws_are_in_units_of_the_total_weight(fit: Fit) -> None:
    natural, relative = fit.draws(), fit.draws("relative")
    np.testing.assert_allclose(relative["weight"].sum(axis=1), 1)
    total = natural["weight"].sum(axis=1)
    np.testing.assert_allclose(relative["null_base"].squeeze(), natural["null_base"].squeeze() / total)


def test_what_labels_identify_has_shares_first_and_does_not_change_with_the_scale_of_all_weights(fit: Fit) -> None:
    draws = identified_draws(fit.tree)
    assert [str(name) for name in draws][:3] == ["share", "bias", "slope"]
    np.testing.assert_allclose(draws["share"].sum("level"), 1)
    natural = fit.tree["posterior"].to_dataset()
    ratio = natural["null_base"] / natural["weight"].sum("level")
    np.testing.assert_allclose(draws["null_base_relative"], ratio)
    given = {"prior_strength": xr.ones_like(natural["null_base"])} | {str(n): v for n, v in natural.items()}
    tree = fit.tree.copy()
    tree["posterior"] = xr.DataTree(natural.assign({name: 7 * given[name] for name in SCALED_TOGETHER}))
    xr.testing.assert_allclose(identified_draws(tree), draws)


def test_the_summary_is_of_these_draws(fit: Fit) -> None:
    table = fit.parameters().set_index(["parameter", "level"])
    ends = np.quantile(fit.draws(), [0.5, 0.05, 0.95], axis=0)
    np.testing.assert_allclose(table[["median", "low", "high"]].T, ends, rtol=1e-12)
    np.testing.assert_allclose(table["relative"].dropna(), fit.draws("relative").median(), rtol=1e-12)


def test_parameters_of_signals_and_labels_are_named_with_them() -> None:
    signals = fit_map(simulate_observations(60, seed=5, signals=("words",)))
    assert [name for name, _ in signals.draws() if name.startswith("slope")] == ["slope[number]", "slope[words]"]
