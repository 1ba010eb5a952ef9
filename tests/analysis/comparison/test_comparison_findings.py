"""The tables of comparisons: 80 columns whatever the names, undefined figures as dashes, nothing hidden."""

import numpy as np
import pandas as pd
import pytest
from rich.console import Console, RenderableType

from analysis.comparison.comparison import ParameterComparison, PredictionSummary
from analysis.comparison.comparison_findings import (
    changed_table,
    descriptions_table,
    evaluation_comparison_tables,
    loo_table,
    paired_metrics_table,
    parameter_comparison_table,
    prediction_table,
)
from analysis.comparison.loo_comparison import EvaluationComparison, LooComparison
from analysis.scores.metrics import METRICS

DASH = "\N{EN DASH}"
LONG = "a-fit-with-a-very-long-name-that-somebody-has-really-given-it"
HEADS = [("MAP", "NUTS"), (LONG, f"{LONG}-2")]
each_pair = pytest.mark.parametrize("heads", HEADS, ids=["short", "long"])


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


@each_pair
def test_parameters(heads: tuple[str, str]) -> None:
    table = pd.DataFrame(
        {
            "quantity": ["weight_share", "weight_share", "inverse_softplus_null_base", "slope"],
            "level": ["[b]vanilla", "very_confident_and_more", None, None],
            "point": [0.2, 0.8, -12.5, 1.0],
            "mean": [0.25, 0.75, -11.0, 1.1],
            "sd": [0.05, 0.05, 10.0, np.nan],
            "low": [0.1, 0.6, -30.0, np.nan],
            "high": [0.3, 0.9, 2.0, np.nan],
            "distance": [-1.0, 1.0, -0.0004, np.nan],
        }
    )
    shown = text(parameter_comparison_table(ParameterComparison(table, "relative", 0.9), "Title", heads))
    assert row(shown, "[b]vanilla") == ["[b]vanilla", "0.200", "0.250", "±", "0.050", "[0.100,", "0.300]", "-1.00"]
    assert row(shown, "inverse_softplus_null_base")[-1] == "0.00"
    assert row(shown, "slope") == ["slope", "1.000", "1.100", DASH, DASH]
    assert "90% interval" in shown
    assert "which the data cannot see" in " ".join(shown.split())
    points = table.assign(**dict.fromkeys(("sd", "low", "high", "distance"), np.nan))
    shown = text(parameter_comparison_table(ParameterComparison(points, "raw", 0.9), "Title", heads))
    assert row(shown, "[b]vanilla") == ["[b]vanilla", "0.200", "0.250"]
    assert "interval" not in shown
    assert "Two points: there is no posterior" in shown


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
    metrics = pd.DataFrame(
        [
            {"metric": name, "first": 0.5, "second": np.nan, "difference": np.nan, "low": np.nan, "high": np.nan}
            | {"p_value": np.nan, "p_adjusted": np.nan}
            for name in vars(METRICS)
        ]
    )
    shown = text(paired_metrics_table(metrics, "Metrics", heads, 0.95))
    assert row(shown, "auroc") == ["auroc", "0.500", DASH, DASH, DASH, DASH, DASH]
    assert f"Difference: {heads[1]} less {heads[0]}" in " ".join(shown.split()).replace("- ", "-")


@each_pair
def test_changed_answers(heads: tuple[str, str]) -> None:
    n = 14
    table = pd.DataFrame(
        {
            "problem_id": [f"question-{number:02d}" for number in range(n)],
            "changed": pd.Series([pd.NA, False, *[True] * (n - 2)], dtype="boolean"),
            "first_answer": "1",
            "second_answer": "2",
            "first_confidence": np.linspace(0.1, 0.9, n),
            "second_confidence": np.linspace(0.1, 0.9, n),
            "second_low": np.nan,
            "second_high": np.nan,
            "first_correct": pd.Series([None, True] * (n // 2), dtype="boolean"),
            "second_correct": pd.Series([None, False] * (n // 2), dtype="boolean"),
        }
    )
    shown = text(changed_table(table, heads, 0.9))
    named = [line.split()[0] for line in shown.splitlines() if line.startswith("question-")]
    assert named == [f"question-{number:02d}" for number in range(13, 3, -1)]
    assert "✓" in row(shown, "question-13")
    assert "✗" in row(shown, "question-13")
    assert "✓" not in row(shown, "question-12")
    assert "The other 2 are in predictions.csv (--out) and --json." in " ".join(shown.split())


def test_leave_one_out() -> None:
    table = pd.DataFrame(
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
    shown = text(loo_table(LooComparison(table, 900)))
    assert row(shown, "second") == [
        "second",
        "(weighted)",
        "-1300.2",
        "±",
        "31.0",
        "-65.8",
        "±",
        "12.0",
        "9.5",
        "3",
        "0.03",
    ]
    together = " ".join(shown.split())
    assert "k > 0.7: questions whose leave-one-out figure is unreliable" in together
    assert "(weighted): its likelihood is no probability model's" in together
    assert "better than second." in together
    plain = text(loo_table(LooComparison(table.assign(n_bad_k=0, is_weighted=False), 900)))
    assert "unreliable" not in plain
    assert "weighted)" not in plain


def test_evaluations_and_descriptions() -> None:
    rows = [
        {"evaluation": name, "metric": "brier", "first": 0.2, "second": 0.1, "difference": -0.1, "low": -0.2}
        | {"high": -0.05, "p_value": 0.01, "p_adjusted": 0.02}
        for name in ("other", LONG)
    ]
    comparison = EvaluationComparison(pd.DataFrame(rows), "plain", 30, 4, 0.95)
    shown = " ".join(text(evaluation_comparison_tables(comparison, "direag")).split())
    assert "direag: other against plain, 30 held-out questions, 4 without a label left out" in shown
    assert "-0.100 [-0.200, -0.050] 0.010 0.020" in shown
    assert LONG in text(descriptions_table({LONG: "MAP, preset paper", "b": "NUTS"}))
