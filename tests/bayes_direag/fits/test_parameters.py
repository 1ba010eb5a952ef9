"""The tidy table of draws: what each scale holds, in which order and under which names."""

import numpy as np
import xarray as xr

from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import SCALED_TOGETHER, identified_draws


def test_draws_stand_under_the_names_of_their_parameters_and_levels(nuts: Fit) -> None:
    draws, natural = nuts.draws(), nuts.tree["posterior"].to_dataset()
    assert draws.index.names == ["chain", "draw"]
    of_levels = draws.columns.to_frame(index=False).dropna()
    assert of_levels["parameter"].unique().tolist() == ["share", "vote", "weight"]
    assert of_levels["level"].tolist() == [*nuts.level_names] * 3
    np.testing.assert_array_equal(draws.loc[1, 7]["vote"], natural["vote"].sel(chain=1, draw=7).to_numpy())
    expected = natural["vote"].sel(level="cautious").to_numpy().ravel()
    np.testing.assert_array_equal(draws["vote", "cautious"], expected)
    for name in ("intercept", "slope"):
        expected = nuts.tree["recalibration"][name].to_numpy().ravel()
        np.testing.assert_array_equal(draws[f"recalibration_{name}"].squeeze(), expected)


def test_parameters_that_labels_identify_come_first_and_do_not_change_with_the_scale_of_all_weights(nuts: Fit) -> None:
    draws = identified_draws(nuts.tree)
    assert [str(name) for name in draws][:3] == ["share", "slope", "bias"]
    np.testing.assert_allclose(draws["share"].sum("level"), 1)
    natural = nuts.tree["posterior"].to_dataset()
    ratio = natural["null_base"] / natural["weight"].sum("level")
    np.testing.assert_allclose(draws["null_base_relative"], ratio)
    sites = {"prior_strength": xr.ones_like(natural["null_base"])} | {str(n): v for n, v in natural.items()}
    tree = nuts.tree.copy()
    tree["posterior"] = xr.DataTree(natural.assign({name: 7 * sites[name] for name in SCALED_TOGETHER}))
    xr.testing.assert_allclose(identified_draws(tree), draws)


def test_parameters_are_summed_up_from_these_draws(nuts: Fit) -> None:
    table = nuts.parameters().set_index(["parameter", "level"])
    ends = np.quantile(nuts.draws(), [0.5, 0.05, 0.95], axis=0)
    np.testing.assert_allclose(table[["median", "low", "high"]].T, ends, rtol=1e-12)
    free = {name for name, _ in table.query("~identified").index}
    assert free == {name for name in SCALED_TOGETHER if name in nuts.tree["posterior"]}
