"""Tables and pictures of comparisons: 80 columns whatever the names, undefined as dashes, what is drawn where."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console, RenderableType

from analysis.comparison.comparison import ParameterComparison, PredictionSummary, parameter_figure, shift_figure
from analysis.comparison.comparison_findings import (
    changed_table,
    descriptions_table,
    evaluation_comparison_tables,
    loo_table,
    paired_metrics_table,
    parameter_comparison_table,
    prediction_table,
)
from analysis.comparison.loo_comparison import EvaluationComparison, LooComparison, difference_figure, loo_figure
from analysis.scores.metrics import METRICS

DASH = "\N{EN DASH}"
LONG = "a-fit-with-a-very-long-name-that-somebody-has-really-given-it"
HEADS = [("MAP", "NUTS"), (LONG, f"{LONG}-2")]
each_pair = pytest.mark.parametrize("heads", HEADS, ids=["short", "long"])

PARAMETERS = pd.DataFrame(
    {
        "quantity": ["weight_share", "weight_share", "inverse_softplus_null_base", "slope"],
        "level": ["[b]$vanilla", "very_confident_and_more", None, None],
        "point": [0.2, 0.8, -12.5, 1.0],
        "mean": [0.25, 0.75, -11.0, 1.1],
        "sd": [0.05, 0.05, 10.0, np.nan],
        "low": [0.1, 0.6, -30.0, np.nan],
        "high": [0.3, 0.9, 2.0, np.nan],
        "distance": [-1.0, 3.5, -0.15, np.nan],
    }
)
LOO = pd.DataFrame(
    {
        "model": [LONG, "second"],
        "elpd": [-1234.5, -1300.25],
        "se": [30.0, 31.0],
        "difference": [0.0, -65.75],
        "difference_se": [0.0, 12.0],
        "distinguishable": pd.Series([pd.NA, True], dtype="boolean"),
        "p_loo": [11.0, 9.5],
        "n_bad_k": [0, 3],
        "weight": [0.97, 0.03],
        "is_weighted": [False, True],
    }
)
EVALUATIONS = pd.DataFrame(
    [
        {"evaluation": name, "metric": metric, "first": 0.2, "second": 0.1, "difference": -0.1, "low": -0.2}
        | {"high": -0.05, "p_value": 0.01, "p_adjusted": 0.02}
        for name in ("other", LONG)
        for metric in ("accuracy", "brier")
    ]
)


def text(shown: RenderableType) -> str:
    console = Console(width=80, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(shown)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in captured.get()
    return captured.get().replace("\N{MINUS SIGN}", "-")


def row(shown: str, start: str) -> list[str]:
    return next(line.split() for line in shown.splitlines() if line.strip().startswith(start))


def words(figure: Figure) -> str:
    figure.draw_without_rendering()
    return " ".join(" ".join(text.get_text().split()) for text in figure.findobj(mpl.text.Text))


def marks(figure: Figure) -> list[list[list[float]]]:
    """Return the places of the markers of every scatter of a figure."""
    return [
        np.round(collection.get_offsets(), 6).tolist()
        for axes in figure.axes
        for collection in axes.collections
        if type(collection).__name__ == "PathCollection"
    ]


@each_pair
def test_parameters_in_a_table(heads: tuple[str, str]) -> None:
    shown = text(parameter_comparison_table(ParameterComparison(PARAMETERS, "relative", 0.9), "Title", heads))
    assert row(shown, "[b]$vanilla") == ["[b]$vanilla", "0.200", "0.250", "±", "0.050", "[0.100,", "0.300]", "-1.00"]
    assert row(shown, "inverse_softplus_null_base")[-1] == "-0.15"
    assert row(shown, "slope") == ["slope", "1.000", "1.100", DASH, DASH]
    assert "90% interval" in shown
    assert "which the data do not identify" in " ".join(shown.split())
    points = PARAMETERS.assign(**dict.fromkeys(("sd", "low", "high", "distance"), np.nan))
    shown = text(parameter_comparison_table(ParameterComparison(points, "raw", 0.9), "Title", heads))
    assert row(shown, "[b]$vanilla") == ["[b]$vanilla", "0.200", "0.250"]
    assert "interval" not in shown
    assert "Both are point estimates" in shown


def test_parameters_are_drawn_from_the_top_in_posterior_standard_deviations() -> None:
    figure = parameter_figure(ParameterComparison(PARAMETERS, "relative", 0.9), ("MAP (n = 9)", "NUTS (n = 9)"))
    assert marks(figure) == [[[-1.0, 2.0], [3.5, 1.0], [-0.15, 0.0]]]
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert axes.get_yticks().tolist() == [2, 1, 0]
    assert labels == [r"weight share · [b]\$vanilla", "weight share · very_confident_and_more",
                      "inverse softplus null base"]  # fmt: skip
    bars = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
    np.testing.assert_allclose(bars, [[-3, 1], [-3, 3], [-1.9, 1.3]])
    hollow = (axes.collections[1].get_facecolor() == 1).all(axis=1)
    assert hollow.tolist() == [False, True, False]
    assert "n = 9" in words(figure)


@each_pair
def test_predictions_and_their_metrics(heads: tuple[str, str]) -> None:
    summary = PredictionSummary(
        n=20, unanswered=3, first_fitted=5, second_fitted=7, changed=2, mean_shift=-0.00004, mean_absolute_shift=0.02,
        largest_shift=-0.3, largest_at="q7", shift_quantiles={0.05: -0.1, 0.5: 0.0, 0.95: 0.2}, mean_width=0.1,
        median_width=0.09, largest_width=0.4,
    )  # fmt: skip
    shown = " ".join(text(prediction_table(summary, heads, 0.9)).split())
    assert "20; 3 more were not answered" in shown
    assert f"in sample: 5 of 20 questions were fitted to by {heads[0]}, 7 by {heads[1]}" in shown.replace("- ", "-")
    assert "mean 0.000, mean size 0.020, largest -0.300 (q7)" in shown
    undefined = ("second", "difference", "low", "high", "p_value", "p_adjusted")
    metrics = pd.DataFrame({"metric": list(vars(METRICS)), "first": 0.5, **dict.fromkeys(undefined, np.nan)})
    shown = text(paired_metrics_table(metrics, "Metrics", heads, 0.95))
    assert row(shown, "auroc") == ["auroc", "0.500", DASH, DASH, DASH, DASH, DASH]
    assert f"Difference: {heads[1]} minus {heads[0]}" in " ".join(shown.split()).replace("- ", "-")


@pytest.fixture
def predictions() -> pd.DataFrame:
    """Return 14 questions, the first unanswered; all but the second get another answer."""
    n = 14
    confidence = np.array([np.nan, *np.linspace(0.1, 0.9, n - 1)])
    return pd.DataFrame(
        {
            "problem_id": [f"question-{number:02d}" for number in range(n)],
            "changed": pd.Series([pd.NA, False, *[True] * (n - 2)], dtype="boolean"),
            "first_answer": "1",
            "second_answer": "2",
            "first_confidence": confidence,
            "second_confidence": confidence - 0.05,
            "shift": confidence * 0 - 0.05,
            "second_low": np.nan,
            "second_high": np.nan,
            "first_correct": pd.Series([None, True] * (n // 2), dtype="boolean"),
            "second_correct": pd.Series([None, False] * (n // 2), dtype="boolean"),
            "first_fitted": [True] * 2 + [False] * (n - 2),
            "second_fitted": [True] * 2 + [False] * (n - 2),
        }
    )


@each_pair
def test_changed_answers_in_a_table(heads: tuple[str, str], predictions: pd.DataFrame) -> None:
    shown = text(changed_table(predictions, heads, 0.9))
    named = [line.split()[0] for line in shown.splitlines() if line.startswith("question-")]
    assert named == [f"question-{number:02d}" for number in range(13, 3, -1)]
    assert {"✓", "✗"} <= set(row(shown, "question-13"))
    assert "✓" not in row(shown, "question-12")
    assert "The other 2 are in predictions.csv (--out) and --json." in " ".join(shown.split())


def test_changed_answers_have_a_marker_of_their_own(predictions: pd.DataFrame) -> None:
    figure = shift_figure(predictions, ("one", "other"), 0.9)
    same, changed = marks(figure)
    assert same == [[0.1, 0.05]]
    assert changed[-1] == [0.9, 0.85]
    shown = words(figure)
    assert "same answer (n = 1)" in shown
    assert "answer changed (n = 12)" in shown
    assert "13 answered questions, in sample: 1 of 13 questions were fitted to by both fits" in shown


def test_leave_one_out() -> None:
    found = LooComparison(LOO, 900)
    shown = text(loo_table(found))
    cells = ["second", "(weighted)", "-1300.2", "±", "31.0", "-65.8", "±", "12.0", "9.5", "3", "0.03"]
    assert row(shown, "second") == cells
    together = " ".join(shown.split())
    assert "k > 0.7: questions whose leave-one-out figure is unreliable" in together
    assert "(weighted): its likelihood is no probability model's" in together
    assert "better than second." in together
    plain = text(loo_table(LooComparison(LOO.assign(n_bad_k=0, is_weighted=False), 900)))
    assert "unreliable" not in plain
    assert "weighted)" not in plain
    figure = loo_figure(found)
    bars = [segment[:, 0].tolist() for segment in figure.axes[0].collections[0].get_segments()]
    assert bars == [[0, 0], [-89.75, -41.75]]
    assert "900 questions" in words(figure)


def test_evaluations_and_descriptions() -> None:
    comparison = EvaluationComparison(EVALUATIONS, "plain", 30, 4, 0.95)
    shown = " ".join(text(evaluation_comparison_tables(comparison, "direag")).split())
    assert "direag: other against plain, 30 held-out questions, 4 without a label left out" in shown
    assert "-0.100 [-0.200, -0.050] 0.010 0.020" in shown
    assert LONG in text(descriptions_table({LONG: "MAP, preset paper", "b": "NUTS"}))
    figure = difference_figure(comparison, "direag")
    assert marks(figure) == [[[-0.1, 1.0], [-0.1, 0.0]]] * 2
    assert all(part in words(figure) for part in ("30 held-out questions", "accuracy ↑", "brier ↓", "other"))
