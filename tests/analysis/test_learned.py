"""What a fit is and has learned: against the printed equations draw by draw, and counted by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from analysis.display.text import interval, number
from analysis.learned import (
    GRID,
    calibration_curves,
    convergence_block,
    fit_terms,
    fitted_support,
    learned_blocks,
    recalibration_curve,
    stated_confidences,
)
from analysis.parameters import parameter_tables
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.parameters import identified_draws
from bayes_direag.model import presets
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.made import observe
from tests.bayes_direag.brute_force import of_draws, scores, support
from tests.made_fits import made_fit, natural, replaced

OBSERVATIONS = simulate_observations(30, seed=2)


def draws(fit: Fit, name: str, group: str = "posterior") -> np.ndarray:
    values = fit.tree[group][name].to_numpy()
    return values.reshape(-1, *values.shape[2:])


@pytest.mark.parametrize("kind", ["point", "nuts"])
def test_learned_curves_are_the_equations_in_every_draw_and_one_draw_has_no_interval(kind, request) -> None:
    fit = request.getfixturevalue(kind)
    curves, at = calibration_curves(fit, 0.8), np.array([0, 60, 200])
    assert curves["level"].tolist() == [name for name in fit.level_names for _ in GRID]
    assert curves["stated"].tolist() == GRID.tolist() * 5
    each_draw = of_draws(fit)
    for level in range(5):
        lone = [[(level, "a", GRID[k])] for k in at]
        rows = [[support(scores(one, draw, fit.preset.eps))["a"] for one in lone] for draw in each_draw]
        found = curves[curves["level"] == fit.level_names[level]].iloc[at]
        np.testing.assert_allclose(found["calibrated"], np.mean(rows, axis=0), rtol=1e-9)
        ends = np.quantile(rows, [0.1, 0.9], axis=0) if kind == "nuts" else np.full((2, 3), np.nan)
        np.testing.assert_allclose(found[["low", "high"]].T, ends, rtol=1e-9)
    final, term = recalibration_curve(fit, 0.8), (draws(fit, name, "recalibration") for name in ("intercept", "slope"))
    intercept, steepness = (values[:, None] for values in term)
    assert final["support"].tolist() == GRID.tolist()
    rows = expit(intercept + steepness * logit(np.clip(GRID, 1e-6, 1 - 1e-6)))
    np.testing.assert_allclose(final["probability"], rows.mean(axis=0), rtol=1e-9)


def test_learned_curves_of_no_final_calibration() -> None:
    plain = presets.preset("paper", recalibration={"method": "none", "split": 0})
    np.testing.assert_allclose(
        recalibration_curve(made_fit(OBSERVATIONS, natural(), preset=plain))["probability"], GRID
    )


def test_learned_support_is_that_of_the_prediction_or_had_not_seen_the_question(point, nuts, labelled) -> None:
    np.testing.assert_allclose(fitted_support(point), point.predict(labelled)["support"], rtol=1e-12)
    np.testing.assert_array_equal(fitted_support(nuts), nuts.left_out["support"])


def test_learned_bins_of_stated_confidences_hold_their_upper_edge() -> None:
    rows = [[("1", 0), ("2", 100)], [("2", 5), ("1", 95)], [("1", 5.1), ("1", 15)], [None, ("1", 29)]]
    table = stated_confidences(made_fit(observe(*rows, gold="1", names=("one", "two")), natural(2)))
    counted = table[(table["right"] > 0) | (table["wrong"] > 0)]
    assert counted[["level", "low", "high", "right", "wrong"]].to_numpy().tolist() == [
        ["one", 0, 5, 1, 1],
        ["one", 5, 10, 1, 0],
        ["two", 10, 15, 1, 0],
        ["two", 25, 30, 1, 0],
        ["two", 90, 95, 1, 0],
        ["two", 95, 100, 0, 1],
    ]
    assert len(table) == 40
    every = made_fit(observe(*[[("1", percent)] for percent in range(101)], gold="1"), natural(1))
    assert stated_confidences(every)["right"].tolist() == [6] + [5] * 19


@pytest.mark.parametrize(
    ("name", "starts", "says"),
    [
        ("paper", (8, 3), "0.500000, the lowest of 3 optima from 8 starts"),
        ("paper", (8, 1), "0.500000, one optimum from 8 starts"),
        ("paper", (1, 1), "0.500000, from the usual start alone: there may be lower optima"),
        ("release", (1, 1), "0.500000, from the usual start alone: there may be lower optima"),
        ("bayes", (1, 1), "0.500000"),
    ],
)
def test_learned_terms_say_which_optimum_it_is(name, starts, says) -> None:
    fit = made_fit(OBSERVATIONS, natural(), starts=starts)
    fit.tree.attrs["preset"] = PRESETS[name].model_dump_json()
    assert dict(fit_terms(fit, "t").items)["method"].endswith(f"; penalised loss {says}")


def test_learned_terms_of_a_posterior(nuts: Fit) -> None:
    rows = dict(fit_terms(nuts, "t").items)
    assert rows["method"].endswith("300 draws of each of 2 chains")
    assert rows["recalibration"] == "platt, on leave-one-out support"
    assert rows["levels"].startswith("5: very_cautious, ")
    assert "NOTE" not in rows
    heavy = presets.preset("bayes", null_target_weight="balanced").model_dump_json()
    assert "weighted unequally" in dict(fit_terms(replaced(nuts, "posterior", preset=heavy), "t").items)["NOTE"]


@pytest.mark.parametrize(
    ("gradient", "status", "figure"),
    [(1e-9, "fine", "gradient 1e-09"), (0.1, "failure", "gradient 0.1 (at most 1e-06"), (np.nan, "failure", "nan")],
)
def test_learned_convergence_of_a_map(gradient, status, figure) -> None:
    ((fit, text),) = convergence_block(made_fit(OBSERVATIONS, natural(), gradient=gradient)).items
    assert fit == status
    assert figure in text


@pytest.mark.parametrize(("kind", "value"), [("point", "mode"), ("nuts", "median [90% interval]")])
def test_learned_blocks_are_the_parameters(kind, value, request) -> None:
    fit = request.getfixturevalue(kind)
    identified, scale, agreement = learned_blocks(fit)
    assert [column.header for column in identified.columns][:2] == ["parameter", value]
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in identified.rows}
    known = identified_draws(fit.tree)
    assert rows["share, vanilla"][0].split()[0] == number(float(known["share"].sel(level="vanilla").median()), 2)
    ends = "" if value == "mode" else f" {interval(*np.quantile(known['slope'], [0.05, 0.95]), 2)}"
    assert rows["slope"][0] == f"{number(float(known['slope'].median()), 2)}{ends}"
    assert rows["slope"][-1].startswith("how much a stated confidence matters")
    assert (rows["share, very_cautious"][-1] != "", rows["share, cautious"][-1]) == (True, "")
    assert [row[0].text for row in scale.rows][:5] == [f"weight, {level}" for level in fit.level_names]
    assert [row[0].text for row in agreement.rows] == list(fit.level_names)
    first, *_ = learned_blocks(made_fit(OBSERVATIONS, natural(variant="level"), variant="level"))
    assert "Only the prior determines weight, bias and null_gain" in first.text


def test_learned_words_of_parameters_that_are_alike_stand_once() -> None:
    names = ["share", "share", "label[A]", "label[B]", "slope[number]", "slope[words]", "vote_centre"]
    table = pd.DataFrame({"parameter": names, "level": ["a", "b", *[None] * 5], "identified": True, "model": "fit"})
    (shown,) = parameter_tables(table.assign(value=1.0, low=np.nan, high=np.nan, below=np.nan))
    assert [row[-1].text != "" for row in shown.rows] == [True, False, True, False, True, False, True]
    assert shown.note == "share: of the weight of all levels."


def test_learned_groups_have_a_curve_and_a_row_each(simulated: Observations) -> None:
    """Their reports count together; a curve and a row for each group."""
    from tests.bayes_direag.fits.test_groups import grouped

    observations = grouped(simulated.select(slice(0, 60)))
    fit = made_fit(observations, natural(3))
    assert calibration_curves(fit)["level"].unique().tolist() == ["careful", "vanilla", "bold"]
    np.testing.assert_allclose(fitted_support(fit), fit.predict(observations)["support"])
    stated = stated_confidences(fit)
    counts = stated.groupby("level", sort=False)[["right", "wrong"]].sum().sum(axis=1).to_dict()
    groups = pd.Series(observations.usable.sum(axis=0), observations.groups).groupby(level=0, sort=False).sum()
    assert counts == groups.to_dict()
