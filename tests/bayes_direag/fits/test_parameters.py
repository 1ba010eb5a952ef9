"""The tidy table of draws: what each scale holds, in which order and under which names."""

import numpy as np
import pytest
import xarray as xr

from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.parameters import SCALED_TOGETHER, identified_draws
from bayes_direag.inference.posterior import natural_draws
from bayes_direag.model.model import raw_from_vector
from bayes_direag.model.settings import LEVEL_PARAMETERS
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import good_fit, replaced


@pytest.fixture(scope="module")
def fit() -> Fit:
    return good_fit()


def test_raw_draws_are_raw_vectors(fit: Fit) -> None:
    draws, names = fit.draws("raw"), fit.preset.free_parameters("confidence")
    assert draws.index.names == ["chain", "draw"]
    assert draws.columns.get_level_values("parameter").unique().tolist() == list(names)
    vector = raw_from_vector(draws.loc[1, 7].to_numpy(), preset=fit.preset, variant="confidence", n_levels=5)
    for name, value in vector.items():
        expected = fit.tree["unconstrained_posterior"][f"{name}_raw"].sel(chain=1, draw=7).to_numpy()
        np.testing.assert_array_equal(np.asarray(value), expected)


def test_only_parameters_of_levels_have_a_level(fit: Fit) -> None:
    columns = fit.draws().columns.to_frame(index=False)
    of_levels = columns[columns["level"].notna()]
    assert set(of_levels["parameter"]) == LEVEL_PARAMETERS
    assert of_levels["level"].tolist() == [*fit.level_names] * 3


def test_natural_draws_have_fixed_parameters_and_the_final_calibration(fit: Fit) -> None:
    draws = fit.draws()
    assert (draws["prior_strength"] == 1).all(axis=None)
    np.testing.assert_array_equal(
        draws["bias", "cautious"], natural_draws(fit.tree)["bias"].sel(level="cautious").to_numpy().ravel()
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
    natural = natural_draws(fit.tree)
    ratio = natural["null_base"] / natural["weight"].sum("level")
    np.testing.assert_allclose(draws["null_base_relative"], ratio)
    together = {name: 7 * natural[name] for name in SCALED_TOGETHER}
    scaled = replaced(
        replaced(fit, "posterior", **{name: together[name] for name in ("weight", "null_base")}),
        "fixed_parameters",
        prior_strength=7.0,
    )
    xr.testing.assert_allclose(identified_draws(scaled.tree), draws)


def test_the_summary_is_of_these_draws(fit: Fit) -> None:
    table = fit.parameters().set_index(["parameter", "level"])
    np.testing.assert_allclose(table["mean"], fit.draws().to_numpy().mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(table["sd"], fit.draws().to_numpy().std(axis=0, ddof=1), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(table["relative"].dropna(), fit.draws("relative").mean(), rtol=1e-12)
    assert table["raw"].isna().sum() == 3, "the fixed prior strength, intercept and slope"
    assert table["raw"]["slope"].item() == pytest.approx(fit.draws("raw")["slope"].to_numpy().mean())


def test_parameters_of_signals_and_labels_are_named_with_them() -> None:
    signals = fit_map(simulate_observations(60, seed=5, signals=("words",)))
    assert [name for name, _ in signals.draws() if name.startswith("slope")] == ["slope[number]", "slope[words]"]
