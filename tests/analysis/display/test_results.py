"""Results in Python: what a notebook shows of them, what they draw, and their numbers by name."""

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import analysis
from analysis.display.results import Result
from analysis.evaluation import Evaluation
from bayes_direag.fits.fit import Fit


@pytest.fixture(params=["evaluation", "metrics", pytest.param("diagnosis", marks=pytest.mark.slow)])
def result(request, evaluation: Evaluation, nuts: Fit) -> Result:
    if request.param == "diagnosis":
        return analysis.diagnose(nuts)
    two = {"one": evaluation, "other": evaluation}
    return evaluation if request.param == "evaluation" else analysis.compare(two, method="majority", n_resamples=20)


def test_a_result_is_seen_and_drawn_and_every_number_has_one_name(result: Result) -> None:
    assert len(repr(result)) < 300
    assert result._repr_html_().count("<tr") == len(result.table) + 1
    ax = Figure().subplots()
    assert result.plot(ax) is ax
    assert len(ax.get_yticklabels()) in range(1, len(result.table) + 1)
    plt.switch_backend("agg")
    assert result.plot().figure is plt.gcf() is not ax.figure
    plt.close("all")
    assert len(result.numbers()) == result.table.select_dtypes("number").notna().to_numpy().sum() > 0


def test_a_number_is_named_by_its_row_and_column(evaluation: Evaluation) -> None:
    assert repr(evaluation).startswith("Evaluation(6 methods, 82 questions, 2-fold cross-fit, MAP")
    table = evaluation.table.set_index("method")
    expected = {f"{method}.{column}" for method, column in table.stack().dropna().index}
    assert set(evaluation.numbers()) == expected
    assert evaluation.numbers()["majority.ece"] == table.loc["majority", "ece"]
