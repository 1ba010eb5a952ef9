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
from bayes_direag.data.observations import Observation, Observations, Question
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone, said
from tests.analysis.fits import random_fit

ABOUT = "Fitted to some questions."


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulate_observations(40, seed=2)


@pytest.fixture(scope="module")
def several(observations) -> Fit:
    return random_fit(observations, n_draws=9)


def many_levels(n_levels: int) -> Observations:
    """Return questions with that many levels whose names are long."""
    rng = np.random.default_rng(0)
    questions = [
        Question(
            problem_id=f"q{number}",
            gold_answer="1",
            observations=tuple(
                Observation(
                    level=level,
                    level_name=f"some-provider/model-{level:02d}-instruct-turbo-2024",
                    answer=str(rng.integers(1, 4)),
                    confidence=float(rng.integers(0, 101)),
                )
                for level in range(n_levels)
            ),
        )
        for number in range(12)
    ]
    return Observations.from_questions(questions, answers="numeric")


def curves_figure(fit: Fit):
    stated = stated_confidences(LabelledReports.of_fits([fit]))
    return calibration_curves_figure(calibration_curves(fit, 0.8), stated, ABOUT, 0.8)


class TestCalibrationCurves:
    def test_lines_and_bands(self, several):
        figure, table = curves_figure(several), calibration_curves(several, 0.8)
        assert_stands_alone(figure, ABOUT, "mean and 80% interval over the posterior draws")
        for axes, (_, rows) in zip(figure.axes, table.groupby("level", sort=False), strict=True):
            np.testing.assert_allclose(axes.lines[-1].get_xydata(), 100 * rows[["stated", "calibrated"]])
            corners = axes.collections[0].get_paths()[0].vertices[:, 1]
            for bound in ("low", "high"):
                assert np.isin(np.round(100 * rows[bound], 9), np.round(corners, 9)).all()

    def test_a_single_draw_has_no_band(self, observations):
        assert_stands_alone(curves_figure(random_fit(observations)), "One point estimate, so there is no interval.")

    @pytest.mark.parametrize("n_levels", [2, 15])
    def test_few_and_many_levels(self, n_levels):
        fit = random_fit(many_levels(n_levels), n_draws=3)
        figure = curves_figure(fit)
        assert_stands_alone(figure)
        assert len(figure.axes) == n_levels

    def test_level_has_flat_lines(self, observations):
        figure = curves_figure(random_fit(observations, variant="level"))
        assert_stands_alone(figure)
        for axes in figure.axes:
            assert np.ptp(axes.lines[-1].get_ydata()) < 1e-9


class TestLevels:
    def test_shares_and_biases(self, several):
        table = level_quantities(several, 0.8)
        figure = level_figure(table, ABOUT, 0.8)
        assert_stands_alone(figure, ABOUT, "80% interval", "Bias")
        share, bias = (axes.collections[1].get_offsets() for axes in figure.axes)
        np.testing.assert_allclose(share[:, 0], 100 * table["value"][:5])
        np.testing.assert_allclose(bias[:, 0], table["value"][5:])
        names = {label.get_text() for label in figure.axes[0].get_yticklabels()}
        assert names == set(several.level_names)

    def test_count_has_no_bias(self, observations):
        figure = level_figure(level_quantities(random_fit(observations, variant="count")), ABOUT, 0.95)
        assert_stands_alone(figure, "no interval")
        assert len(figure.axes) == 1
        assert "Bias" not in said(figure)

    def test_many_levels(self):
        fit = random_fit(many_levels(15), n_draws=3)
        assert_stands_alone(level_figure(level_quantities(fit), ABOUT, 0.95))


class TestShared:
    @pytest.mark.parametrize("variant", ["count", "level", "confidence"])
    def test_each_on_its_own_scale(self, observations, variant):
        table = shared_quantities(random_fit(observations, variant=variant, n_draws=5), 0.8)
        figure = shared_figure(table, ABOUT, 0.8)
        assert_stands_alone(figure, ABOUT)
        for axes, (_, row) in zip(figure.axes, table.iterrows(), strict=True):
            assert axes.collections[1].get_offsets().tolist() == [[row["value"], 0]]
            low, high = axes.get_xlim()
            assert low <= min(row["low"], 0 if row["low"] >= 0 else row["low"])
            assert high > row["high"]
        assert ("Slope:" in said(figure)) == (variant == "confidence")


class TestRecalibration:
    @pytest.mark.parametrize("method", ["platt", "isotonic"])
    def test_the_curve_over_the_support(self, observations, method):
        fit = random_fit(observations, n_draws=1 if method == "isotonic" else 5, recalibration=method)
        curve, support, multiplicity = recalibration_curve(fit, 0.8), np.linspace(0.2, 1, 30), np.arange(30)
        figure = recalibration_figure(curve, support, multiplicity, "in-sample", ABOUT, 0.8)
        assert_stands_alone(figure, ABOUT, "in-sample support of the selected answers, n = 435 questions fitted to")
        above, below = figure.axes
        np.testing.assert_allclose(above.lines[-1].get_xydata(), curve[["support", "probability"]])
        assert sum(bar.get_height() for bar in below.containers[0]) == 435
