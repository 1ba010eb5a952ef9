"""The tidy table of draws: what each scale holds, in which order and under which names."""

import numpy as np
import xarray as xr

from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import SCALED_TOGETHER, identified_draws


def test_each_scale_holds_its_draws_under_their_names(nuts: Fit) -> None:
    unconstrained, natural, relative = (nuts.draws(scale) for scale in ("unconstrained", "natural", "relative"))
    groups = {
        "unconstrained": nuts.tree["unconstrained_posterior"].to_dataset(),
        "natural": nuts.tree["posterior"].to_dataset(),
    }
    assert unconstrained.index.names == ["chain", "draw"]
    assert unconstrained.columns.get_level_values("parameter").unique().tolist() == list(groups["unconstrained"])
    for name, values in groups["unconstrained"].items():
        np.testing.assert_array_equal(
            unconstrained.loc[1, 7][str(name)], values.sel(chain=1, draw=7).to_numpy().ravel()
        )
    of_levels = natural.columns.to_frame(index=False).dropna()
    assert of_levels["parameter"].unique().tolist() == ["share", "weight", "vote"]
    assert of_levels["level"].tolist() == [*nuts.level_names] * 3
    expected = groups["natural"]["vote"].sel(level="cautious").to_numpy().ravel()
    np.testing.assert_array_equal(natural["vote", "cautious"], expected)
    for name in ("intercept", "slope"):
        expected = nuts.tree["recalibration"][name].to_numpy().ravel()
        np.testing.assert_array_equal(natural[f"recalibration_{name}"].squeeze(), expected)
    np.testing.assert_allclose(relative["weight"].sum(axis=1), 1)
    of_null = natural["null_base"].squeeze() / natural["weight"].sum(axis=1)
    np.testing.assert_allclose(relative["null_base"].squeeze(), of_null)


def test_what_labels_identify_has_shares_first_and_does_not_change_with_the_scale_of_all_weights(nuts: Fit) -> None:
    draws = identified_draws(nuts.tree)
    assert [str(name) for name in draws][:3] == ["share", "bias", "slope"]
    np.testing.assert_allclose(draws["share"].sum("level"), 1)
    natural = nuts.tree["posterior"].to_dataset()
    ratio = natural["null_base"] / natural["weight"].sum("level")
    np.testing.assert_allclose(draws["null_base_relative"], ratio)
    given = {"prior_strength": xr.ones_like(natural["null_base"])} | {str(n): v for n, v in natural.items()}
    tree = nuts.tree.copy()
    tree["posterior"] = xr.DataTree(natural.assign({name: 7 * given[name] for name in SCALED_TOGETHER}))
    xr.testing.assert_allclose(identified_draws(tree), draws)


def test_the_summary_is_of_these_draws(nuts: Fit) -> None:
    table = nuts.parameters().set_index(["parameter", "level"])
    ends = np.quantile(nuts.draws(), [0.5, 0.05, 0.95], axis=0)
    np.testing.assert_allclose(table[["median", "low", "high"]].T, ends, rtol=1e-12)
    np.testing.assert_allclose(table["relative"].dropna(), nuts.draws("relative").median(), rtol=1e-12)
