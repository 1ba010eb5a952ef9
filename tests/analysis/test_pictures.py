"""All pictures, each drawn once: that it stands alone, and shows the numbers that come with it."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.comparison import compare
from analysis.display.document import LeftOut, Picture
from analysis.display.style import figure_style, reliability_figure
from analysis.evaluation import Evaluation
from analysis.explanation import explain
from analysis.learned import calibration_curves, fit_pictures, recalibration_curve
from analysis.parameters import compared_parameters
from analysis.pictures import evaluation_pictures
from analysis.scores.calibration import binned_reliability
from analysis.scores.selective import risk_coverage
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import preset
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.made import made_evaluation, observe, random_said
from tests.made_fits import made_fit, natural

OBSERVATIONS = simulate_observations(30, seed=2)
LEVEL = 0.8


@pytest.fixture(scope="module")
def evaluated() -> Evaluation:
    rng = np.random.default_rng(1)
    names = ("majority", "mean_confidence_platt", "steerconf", "direag")
    return made_evaluation({name: random_said(rng, 50, sharpness=2) for name in names}, level=0.9)


def many_levels() -> Fit:
    rng = np.random.default_rng(0)
    table = [[(str(rng.integers(1, 4)), float(rng.integers(0, 101))) for _ in range(15)] for _ in range(12)]
    names = [f"some-provider/model-{level:02d}-instruct-turbo-2024 $x" for level in range(15)]
    return made_fit(observe(*table, gold="1", names=names), natural(15))


#: What is drawn, from fixtures by name, and what each caption mentions.
DRAWN = {
    "evaluation": (lambda one: evaluation_pictures(one("evaluated")), ()),
    "draws": (lambda one: fit_pictures(one("nuts"), level=LEVEL), ("Fitted to 80 questions",)),
    "map": (lambda one: fit_pictures(one("point"), level=LEVEL), ("Fitted to 80 questions",)),
    "levels that differ": (lambda _: fit_pictures(made_fit(OBSERVATIONS, natural())), ("Fitted to 30 questions",)),
    "many long names": (lambda _: fit_pictures(many_levels()), ("Fitted to 12 questions",)),
    "comparison": (lambda one: compare({"map": one("point"), "nuts": one("nuts")}, n_resamples=20).pictures(), ()),
    "explanation": (
        lambda one: [Picture("", explain(one("nuts"), one("labelled"), one("labelled").problem_id[0]).figure())],
        ("Bars",),
    ),
}
type Pictures = Callable[[str], dict[str, Picture]]


@pytest.fixture(scope="module")
def pictures(request) -> Pictures:
    """Return what draws one of these once, by the names of the pictures."""

    @cache
    def drawn(kind: str) -> dict[str, Picture]:
        return {picture.name: picture for picture in DRAWN[kind][0](request.getfixturevalue)}

    return drawn


@pytest.mark.parametrize("kind", DRAWN)
def test_pictures_stand_alone_with_their_numbers(pictures: Pictures, kind: str) -> None:
    for picture in pictures(kind).values():
        assert_stands_alone(picture.figure, *DRAWN[kind][1])
        assert all(isinstance(table, pd.DataFrame) and len(table) for table in picture.tables.values())
    assert pictures(kind)


def test_pictures_of_an_evaluation_are_three_and_of_nothing_none(pictures: Pictures) -> None:
    assert [*pictures("evaluation")] == ["reliability", "risk_coverage", "benefit"]
    for said, n in ([(0.9, True), (0.9, True)], 3), ([(None, False)], 0):
        assert len(list(evaluation_pictures(made_evaluation({"direag": said})))) == n
    raw = made_fit(OBSERVATIONS, natural(), preset=preset("paper", recalibration={"method": "none"}))
    assert [picture.name for picture in fit_pictures(raw) if isinstance(picture, LeftOut)] == ["recalibration"]


def test_picture_of_benefit_and_accuracy_is_ordered_by_benefit(pictures, evaluated: Evaluation) -> None:
    figure, table = pictures("evaluation")["benefit"].figure, evaluated.ranked
    for axes, name in zip(figure.axes, ("benefit", "accuracy_of_all"), strict=True):
        np.testing.assert_allclose(axes.collections[1].get_offsets()[:, 0], table[name])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(names) == {"DirEAG", "majority vote", "mean confidence with Platt scaling", "SteerConf"}


def test_picture_of_reliability_is_that_of_the_bins_before_and_after(pictures, evaluated: Evaluation) -> None:
    answered, picture = evaluated.answered, pictures("evaluation")["reliability"]
    results = {
        "before": binned_reliability(answered.confidence**2, answered.correct),
        "after": binned_reliability(answered.confidence, answered.correct),
    }
    both = reliability_figure(results, "Some set.")
    for figure, tables in ((both, results), (picture.figure, picture.tables)):
        for (above, below), bins in zip(np.reshape(figure.axes, (2, -1)).T, tables.values(), strict=True):
            np.testing.assert_array_equal(above.lines[1].get_xydata(), bins[["probability", "right"]])
            ends = np.array([segment[:, 1] for segment in above.collections[0].get_segments()])
            np.testing.assert_array_equal(ends, bins.loc[bins["n"] > 0, ["right_low", "right_high"]])
            assert [bar.get_height() for bar in below.containers[0]] == bins["n"].tolist()
            assert bins["n"].sum() == 50
    assert_stands_alone(both, "Some set.")


def test_picture_of_errors_is_of_the_method_its_rival_and_the_vote(pictures, evaluated: Evaluation) -> None:
    picture = pictures("evaluation")["risk_coverage"]
    (axes,) = picture.figure.axes
    marked, *lines = axes.lines
    assert set(marked.get_ydata()) == {10}
    for name, line in zip(("direag", "mean_confidence_platt", "majority"), lines, strict=True):
        table, rows = (
            whole[whole["method"] == name] for whole in (picture.tables["risk_coverage"], evaluated.predictions)
        )
        np.testing.assert_allclose(line.get_xydata(), 100 * table[["coverage", "risk"]])
        mean = risk_coverage(rows["probability"].to_numpy(), rows["correct"].to_numpy(bool))["risk"].mean()
        assert line.get_label().endswith(f": {100 * mean:.1f}% on average")


def test_picture_of_calibration_curves_and_bands(pictures: Pictures, nuts: Fit) -> None:
    """A level's curve is the support of its report alone, and its band the interval of draws."""
    fit = made_fit(OBSERVATIONS, natural())
    table = calibration_curves(fit)
    above, below = pictures("levels that differ")["calibration_curves"].figure.axes
    assert len(above.lines) == 1 + 5
    for line in above.lines[1:]:
        rows = table[table["level"] == line.get_label()]
        np.testing.assert_allclose(line.get_xydata(), 100 * rows[["stated", "calibrated"]])
    assert sum(bar.get_height() for bar in below.containers[0]) == np.sum(~np.isnan(fit.fitted.confidence))
    above, _ = pictures("draws")["calibration_curves"].figure.axes
    corners = above.collections[0].get_paths()[0].vertices[:, 1]
    rows = calibration_curves(nuts, LEVEL).query("level == @above.lines[1].get_label()")
    for bound in ("low", "high"):
        assert np.isin(np.round(100 * rows[bound], 9), np.round(corners, 9)).all()


def test_picture_of_many_levels_names_the_highest_lowest_and_some_between(pictures: Pictures) -> None:
    picture = pictures("many long names")["calibration_curves"]
    above, _ = picture.figure.axes
    mean = picture.tables["calibration_curves"].groupby("level", sort=False)["calibrated"].mean()
    assert len(above.lines) == 1 + 15
    grey = [np.abs(100 * mean - line.get_ydata().mean()).argmin() for line in above.lines[1:-6]]
    assert grey == sorted(grey), "in the order of the levels, so that equal figures are equal files"
    coloured = [100 * mean.max(), 100 * mean.min()]
    np.testing.assert_allclose([above.lines[line].get_ydata().mean() for line in (-6, -1)], coloured)
    assert len(above.get_legend().get_texts()) == 6


def test_picture_of_parameters_has_a_row_for_each_level_and_a_panel_for_each_parameter(
    pictures, point: Fit, nuts: Fit
) -> None:
    picture, table = pictures("comparison")["parameters"], compared_parameters({"map": point, "nuts": nuts})
    assert_stands_alone(picture.figure, "Orange diamonds: map, the mode.", "nuts, median and 90% interval")
    for axes in picture.figure.axes:
        rows = table[table["parameter"].str.replace("_", " ") == axes.get_title(loc="left")]
        points, (dots, *_) = axes.lines[-1], axes.collections[1:]
        assert points.get_xdata().tolist() == rows.query("model == 'map'")["value"].tolist()
        assert dots.get_offsets()[:, 0].tolist() == rows.query("model == 'nuts'")["value"].tolist()
    shown = table.loc[table["identified"].astype(bool), "parameter"].unique()
    assert len(picture.figure.axes) == len([one for one in shown if not one.endswith(("_centre", "_agreement"))])


def test_picture_of_the_recalibration_over_the_support(pictures: Pictures, nuts: Fit) -> None:
    figure, curve = pictures("draws")["recalibration"].figure, recalibration_curve(nuts, LEVEL)
    assert_stands_alone(figure, "leave-one-out support of the selected answers, n = 80 fitted questions")
    above, below = figure.axes
    np.testing.assert_allclose(above.lines[-1].get_xydata(), curve[["support", "probability"]])
    assert sum(bar.get_height() for bar in below.containers[0]) == 80


def test_picture_that_overlaps_is_seen() -> None:
    with figure_style():
        figure = Figure((4, 1))
        FigureCanvasAgg(figure)
        figure.suptitle("Title")
        figure.subplots().set(xlabel="x", ylabel="y")
        figure.supxlabel("Caption", y=0.9)
    with pytest.raises(AssertionError, match="lies over"):
        assert_stands_alone(figure)
