"""Results in Python: what a notebook shows of them, and what they draw."""

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import analysis
from analysis.display.document import Result
from analysis.evaluation import Evaluation
from bayes_direag.fits.fit import Fit


@pytest.fixture(params=["evaluation", "metrics", pytest.param("diagnosis", marks=pytest.mark.slow)])
def result(request, evaluation: Evaluation, nuts: Fit) -> Result:
    if request.param == "diagnosis":
        return analysis.diagnose(nuts)
    two = {"one": evaluation, "other": evaluation}
    return evaluation if request.param == "evaluation" else analysis.compare(two, method="majority", n_resamples=20)


def test_result_is_seen_and_drawn(result: Result) -> None:
    assert len(repr(result)) < 300
    assert result._repr_html_().count("<tr") == len(result.table) + 1
    ax = Figure().subplots()
    assert result.plot(ax) is ax
    assert len(ax.get_yticklabels()) in range(1, len(result.table) + 1)
    plt.switch_backend("agg")
    assert result.plot().figure is plt.gcf() is not ax.figure
    plt.close("all")
