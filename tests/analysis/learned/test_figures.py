"""Pictures of a fit show what it has learned."""

import numpy as np
import pytest

from analysis.learned.figures import calibration_curves_figure, level_figure, recalibration_figure, shared_figure
from analysis.learned.quantities import (
    LabelledReports,
    calibration_curves,
    level_quantities,
    recalibration_curve,
    shared_quantities,
    stated_confidences,
)
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone, said
from tests.analysis.fits import random_fit
from tests.analysis.handmade_reports import observe

ABOUT = "Fitted to some questions."
OBSERVATIONS = simulate_observations(30, seed=2)


@pytest.fixture(scope="module")
def several() -> Fit:
    return random_fit(OBSERVATIONS, n_draws=7)


def curves_figure(fit: Fit):
    stated = stated_confidences(LabelledReports.of_fits([fit]))
    return calibration_curves_figure(calibration_curves(fit, 0.8), stated, ABOUT, 0.8)


def test_calibration_curves_and_bands(several):
    figure, table = curves_figure(several), calibration_curves(several, 0.8)
    assert_stands_alone(figure, ABOUT, "mean and 80% interval over the posterior draws")
    for axes, (_, rows) in zip(figure.axes, table.groupby("level", sort=False), strict=True):
        np.testing.assert_allclose(axes.lines[-1].get_xydata(), 100 * rows[["stated", "calibrated"]])
        corners = axes.collections[0].get_paths()[0].vertices[:, 1]
        for bound in ("low", "high"):
            assert np.isin(np.round(100 * rows[bound], 9), np.round(corners, 9)).all()


def test_a_single_draw_has_no_band_and_variant_level_flat_lines():
    figure = curves_figure(random_fit(OBSERVATIONS, variant="level"))
    assert_stands_alone(figure, "One point estimate, so there is no interval.")
    for axes in figure.axes:
        assert np.ptp(axes.lines[-1].get_ydata()) < 1e-9


def test_shares_and_biases(several):
    table = level_quantities(several, 0.8)
    figure = level_figure(table, ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT, "80% interval", "Bias")
    share, bias = (axes.collections[1].get_offsets() for axes in figure.axes)
    np.testing.assert_allclose(share[:, 0], 100 * table["value"][:5])
    np.testing.assert_allclose(bias[:, 0], table["value"][5:])
    assert {label.get_text() for label in figure.axes[0].get_yticklabels()} == set(several.level_names)


def test_count_has_no_bias():
    figure = level_figure(level_quantities(random_fit(OBSERVATIONS, variant="count")), ABOUT, 0.95)
    assert_stands_alone(figure, "no interval")
    assert len(figure.axes) == 1
    assert "Bias" not in said(figure)


def test_many_levels_with_long_names():
    rng = np.random.default_rng(0)
    table = [[(str(rng.integers(1, 4)), float(rng.integers(0, 101))) for _ in range(15)] for _ in range(12)]
    names = [f"some-provider/model-{level:02d}-instruct-turbo-2024" for level in range(15)]
    fit = random_fit(observe(*table, gold="1", names=names), n_draws=3)
    figure = curves_figure(fit)
    assert_stands_alone(figure)
    assert len(figure.axes) == 15
    assert_stands_alone(level_figure(level_quantities(fit), ABOUT, 0.95))


@pytest.mark.parametrize("variant", ["count", "confidence"])
def test_what_levels_share_each_on_its_own_scale(variant):
    table = shared_quantities(random_fit(OBSERVATIONS, variant=variant, n_draws=7), 0.8)
    figure = shared_figure(table, ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT)
    for axes, (_, row) in zip(figure.axes, table.iterrows(), strict=True):
        assert axes.collections[1].get_offsets().tolist() == [[row["value"], 0]]
        low, high = axes.get_xlim()
        assert low <= min(row["low"], 0 if row["low"] >= 0 else row["low"])
        assert high > row["high"]
    assert ("Slope:" in said(figure)) == (variant == "confidence")


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_the_recalibration_over_the_support(method):
    fit = random_fit(OBSERVATIONS, n_draws=1 if method == "isotonic" else 7, recalibration=method)
    curve, support, multiplicity = recalibration_curve(fit, 0.8), np.linspace(0.2, 1, 30), np.arange(30)
    figure = recalibration_figure(curve, support, multiplicity, "in-sample", ABOUT, 0.8)
    assert_stands_alone(figure, ABOUT, "in-sample support of the selected answers, n = 435 questions fitted to")
    above, below = figure.axes
    np.testing.assert_allclose(above.lines[-1].get_xydata(), curve[["support", "probability"]])
    assert sum(bar.get_height() for bar in below.containers[0]) == 435
