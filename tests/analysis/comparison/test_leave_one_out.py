"""Leave-one-out comparisons against ArviZ, closed forms and a grid."""

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from analysis.comparison import compare, compare_leave_one_out
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model import presets
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import said as said_in
from tests.analysis.fits import around, made_fit, natural

N = 150


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(N, seed=1)


@pytest.fixture(scope="module")
def fits(observations: Observations) -> dict[str, Fit]:
    """Return fits whose log-likelihoods are made up: a good one, one alike, a poor one."""
    rng = np.random.default_rng(6)
    ease = np.log(rng.beta(4, 1.5, N))
    noise = 0.1 * rng.standard_normal((2, 100, N))
    makes = {"poor": ease - 0.4 * rng.random(N), "good": ease, "alike": ease + 0.05 * rng.standard_normal(N) - 0.01}
    draws = around(natural(5), rng, n_draws=100)
    return {
        name: made_fit(observations, draws, log_likelihood=own + noise - 0.3 * (name == "alike") * noise**2)
        for name, own in makes.items()
    }


def test_the_table_against_arviz_and_by_hand(fits: dict[str, Fit]) -> None:
    table = compare_leave_one_out(fits, allow_weighted=False).set_index("model")
    theirs = arviz_stats.compare({name: fit.tree for name, fit in fits.items()}, var_name="target", round_to="none")
    assert table.index[-1] == "poor"
    np.testing.assert_allclose(table["elpd"], theirs.loc[table.index, "elpd"])
    np.testing.assert_allclose(table["se"], theirs.loc[table.index, "se"])
    np.testing.assert_allclose(table["p_loo"], theirs.loc[table.index, "p"])
    np.testing.assert_allclose(table["weight"], theirs.loc[table.index, "weight"], atol=2e-3)
    assert table["weight"].sum() == pytest.approx(1)
    best = fits[table.index[0]].tree["loo"]["elpd"].to_numpy()
    for name, row in table.iterrows():
        apart = fits[name].tree["loo"]["elpd"].to_numpy() - best
        assert row["difference"] == pytest.approx(apart.sum())
        assert row["difference_se"] == pytest.approx(np.sqrt(N / (N - 1) * np.sum((apart - apart.mean()) ** 2)))
        assert row["n_bad_k"] == (fits[name].tree["loo"]["pareto_k"] > 0.7).sum()
    assert not table["is_weighted"].any()


def test_errors_are_over_clusters(fits: dict[str, Fit]) -> None:
    trees = {name: fit.tree.copy() for name, fit in fits.items()}
    for tree in trees.values():
        names = np.array([f"c{row % 30}" for row in range(N)], object)
        tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(cluster=("problem", names)))
    found = compare_leave_one_out({name: Fit(tree) for name, tree in trees.items()}, allow_weighted=False).set_index(
        "model"
    )
    for name, row in found.iterrows():
        sums = fits[str(name)].tree["loo"]["elpd"].to_numpy().reshape(5, 30).sum(axis=0)
        assert row["se"] == pytest.approx(np.sqrt(30) * sums.std(ddof=1))


def test_what_is_told_apart_is_said(fits: dict[str, Fit]) -> None:
    found = compare(fits)
    table, (((said,),), _, shown, *_) = found.tables["loo"], found.blocks()
    best, second, last = table["model"]
    assert ({best, second}, last) == ({"good", "alike"}, "poor")
    assert table["distinguishable"].tolist() == [pd.NA, False, True]
    assert (
        said
        == f"{best} predicts left-out questions best; of the other 2, 1 can be told apart from it on 150 questions."
    )
    assert [row[3].text for row in shown.rows] == ["best", "no", "yes"]
    assert str(round(abs(table["difference"][2]), 1)) in shown.rows[2][2].text
    picture, parameters = found.pictures()
    assert parameters.name == "parameters"
    figure = picture.figure
    bars = [segment[:, 0].tolist() for segment in figure.axes[0].collections[0].get_segments()]
    middle, error = table["difference"], 2 * table["difference_se"]
    np.testing.assert_allclose(bars, np.stack([middle - error, middle + error], axis=1))
    assert "150 questions" in said_in(figure)


@pytest.mark.parametrize(("total", "noise", "told"), [(-3.9, 0.0, False), (-4.1, 0.0, True), (-6.0, 0.3, False)])
def test_neither_small_nor_uncertain_differences_count(
    fits: dict[str, Fit], total: float, noise: float, told: bool
) -> None:
    good = fits["good"]
    apart = noise * np.where(np.arange(N) % 2, 1, -1) + total / N
    other = Fit(good.tree.copy())
    other.tree["loo"] = good.tree["loo"].to_dataset().assign(elpd=good.tree["loo"]["elpd"] + apart)
    row = compare_leave_one_out({"good": good, "other": other}, allow_weighted=False).iloc[1]
    assert row["model"] == "other"
    assert row["difference"] == pytest.approx(total)
    assert row["difference_se"] == pytest.approx(noise * N / np.sqrt(N - 1), abs=1e-9)
    assert bool(row["distinguishable"]) is told


def test_a_single_question_tells_nothing(observations: Observations) -> None:
    one, rng = observations.select(slice(0, 1)), np.random.default_rng(0)
    both = {
        name: made_fit(one, around(natural(5), rng), log_likelihood=rng.standard_normal((2, 40, 1)) / 10 - level)
        for name, level in (("high", 1.0), ("low", 9.0))
    }
    found = compare_leave_one_out(both, allow_weighted=False)
    assert found[["se", "difference_se"]].isna().all(axis=None)
    assert found["distinguishable"].tolist()[1] is False


def flat_fit(observations: Observations, **options: object) -> Fit:
    """Return a fit to which all questions are about equally likely."""
    rng = np.random.default_rng(0)
    draws, flat = around(natural(5), rng), rng.standard_normal((2, 40, N)) / 10 - 1
    return made_fit(observations, draws, log_likelihood=flat, **options)


class TestRefusals:
    def test_a_map(self, observations: Observations, fits: dict[str, Fit]) -> None:
        point = made_fit(observations, natural(5), preset="paper")
        with pytest.raises(DirEAGError, match="mine is a MAP fit, a single point, which has no leave-one-out figures"):
            compare_leave_one_out({"good": fits["good"], "mine": point}, allow_weighted=False)

    def test_other_observations(self, observations: Observations, fits: dict[str, Fit]) -> None:
        changed = flat_fit(observations, sha256="0" * 64)
        with pytest.raises(DirEAGError, match=r"good and changed were fitted to different observations \(SHA-256"):
            compare_leave_one_out({"good": fits["good"], "changed": changed}, allow_weighted=False)
        turned = flat_fit(observations.select(np.arange(N)[::-1]), sha256=observations.fingerprint)
        with pytest.raises(DirEAGError, match="different observations"):
            compare_leave_one_out({"good": fits["good"], "turned": turned}, allow_weighted=False)

    def test_a_weighted_likelihood_unless_it_is_allowed(self, observations: Observations, fits: dict[str, Fit]) -> None:
        balanced = presets.preset("bayes", null_target_weight="balanced")
        both = {"good": fits["good"], "heavy": flat_fit(observations, preset=balanced)}
        with pytest.raises(DirEAGError, match=r"heavy weighs questions unequally \(null_target_weight balanced\)"):
            compare_leave_one_out(both, allow_weighted=False)
        found = compare_leave_one_out(both, allow_weighted=True)
        assert found.set_index("model")["is_weighted"].to_dict() == {"good": False, "heavy": True}
