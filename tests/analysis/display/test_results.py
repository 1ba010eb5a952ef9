"""Results in Python: what a notebook shows of them, what they draw and write; and that the commands say the same."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import analysis
from analysis.display.document import Document, Section
from analysis.display.page import write_page
from analysis.display.results import Result
from analysis.evaluation import Evaluation
from analysis.report import report_document
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit

type Makers = dict[str, Callable[[], Result]]


@pytest.fixture(scope="module")
def results(evaluation: Evaluation, point: Fit, nuts: Fit, simulated: Observations) -> Makers:
    """Return how each result is made."""
    asked = [question.model_copy(update={"gold_answer": None}) for question in simulated.questions[100:120]]
    two = {"one": evaluation, "other": evaluation}
    return {
        "evaluation": lambda: evaluation,
        "diagnosis": lambda: analysis.diagnose(nuts),
        "predictions": lambda: analysis.compare(
            {"one": point, "other": nuts}, Observations.from_questions(asked, "numeric")
        ),
        "metrics": lambda: analysis.compare(two, method="majority", n_resamples=20),
    }


@pytest.mark.parametrize(
    "name",
    ["metrics", *(pytest.param(name, marks=pytest.mark.slow) for name in ("evaluation", "diagnosis", "predictions"))],
)
def test_a_result_is_seen_drawn_and_written(results: Makers, name: str, tmp_path: Path) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    result = results[name]()
    assert len(repr(result)) < 300
    html = result._repr_html_()
    assert html.count("<tr") == len(result.table) + 1
    ax = Figure().subplots()
    assert result.plot(ax) is ax
    assert len(ax.get_yticklabels()) in range(1, len(result.table) + 1)
    plt.switch_backend("agg")
    assert result.plot().figure is plt.gcf() is not ax.figure
    plt.close("all")
    if isinstance(result, Evaluation):
        document = report_document(result)
    else:
        document = Document("Title", "about", "", (Section("all", "All", (*result.blocks(), *result.pictures())),))
    write_page(document, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "data:image/webp" in page
    words = (
        [r"\d+ of 20 answers change"] if name == "predictions" else map(re.escape, result.table.iloc[:3, 0].astype(str))
    )
    assert all(re.search(rf">\s*{word}(?!\w)", page) for word in words)


def test_every_number_has_one_name(results: Makers) -> None:
    found = results["evaluation"]()
    assert repr(found).startswith("Evaluation(6 methods, 82 questions, 2-fold cross-fit, MAP")
    table, numbers = found.table.set_index("method"), found.numbers()
    assert numbers["majority.ece"] == table.loc["majority", "ece"]
    assert set(numbers) == {f"{method}.{column}" for method, column in table.stack().dropna().index}
    for name in ("predictions", "metrics"):
        result = results[name]()
        own = result.table.select_dtypes("number")
        assert len(result.numbers()) == own.notna().to_numpy().sum() > 0
