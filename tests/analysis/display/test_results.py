"""Results in Python: what a notebook shows of them, what they draw and write; and that the commands say the same."""

import re
from pathlib import Path

import pytest

import analysis
from analysis.display.page import write_page
from analysis.display.results import Result
from analysis.report import report_document
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.fits import good_fit, made_fit, natural


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    observations = simulate_observations(60, seed=3)
    evaluations = {
        name: analysis.evaluate(observations, methods=["majority", "mean_confidence"], n_resamples=20, seed=seed)
        for seed, name in enumerate(("one", "other"))
    }
    fits = {name: made_fit(simulate_observations(60, seed=8), natural(5), preset="paper") for name in ("one", "other")}
    asked = [question.model_copy(update={"gold_answer": None}) for question in observations.questions[:20]]
    return {
        "evaluation": evaluations["one"],
        "diagnosis": analysis.diagnose(good_fit()),
        "predictions": analysis.compare(fits, Observations.from_questions(asked, "numeric")),
        "metrics": analysis.compare(evaluations, method="majority", n_resamples=20),
    }


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("evaluation", "diagnosis")), "predictions", "metrics"],
)
def test_a_result_is_seen_drawn_and_written(results: dict[str, Result], name: str, tmp_path: Path) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    result = results[name]
    assert len(repr(result)) < 300
    html = result._repr_html_()
    assert html.count("<tr") == len(result.table) + 1
    ax = Figure().subplots()
    assert result.plot(ax) is ax
    assert len(ax.get_yticklabels()) in range(1, len(result.table) + 1)
    plt.switch_backend("agg")
    assert result.plot().figure is plt.gcf() is not ax.figure
    plt.close("all")
    document = report_document(result) if isinstance(result, analysis.Evaluation) else result.document()
    write_page(document, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "data:image/webp" in page
    words = [r"\d+ of 20 answers change"] if name == "predictions" else map(str, result.table.iloc[:3, 0])
    assert all(re.search(rf">\s*{word}\b", page) for word in words)


def test_an_evaluation_is_by_benefit(results: dict[str, Result]) -> None:
    assert results["evaluation"].table["benefit"].is_monotonic_decreasing
    assert repr(results["evaluation"]).startswith("Evaluation(2 methods, 60 questions, 5-fold cross-fit, MAP")


def test_every_number_has_one_name(results: dict[str, Result]) -> None:
    table, numbers = results["evaluation"].table.set_index("method"), results["evaluation"].numbers()
    assert numbers["mean_confidence.ece"] == table.loc["mean_confidence", "ece"]
    assert set(numbers) == {f"{method}.{column}" for method, column in table.stack().dropna().index}
    for name in ("predictions", "metrics"):
        own = results[name].table.select_dtypes("number")
        assert len(results[name].numbers()) == own.notna().to_numpy().sum() > 0


def test_what_cannot_be_compared(results: dict[str, Result]) -> None:
    with pytest.raises(DirEAGError, match="saw 1 to compare"):
        analysis.compare({"one": good_fit()})
    with pytest.raises(DirEAGError, match="saw fits among evaluations"):
        analysis.compare({"one": good_fit(), "other": results["evaluation"]})  # type: ignore[dict-item]
