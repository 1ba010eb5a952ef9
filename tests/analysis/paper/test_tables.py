"""Tables 1 and 2: rows, order, and which figures are the best."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.display.text import UNDEFINED
from analysis.evaluation import Evaluation
from analysis.paper.printed import METHODS_TABLE, PRINTED_METRICS, VARIANTS_TABLE
from analysis.paper.tables import in_printed_order, paper_table, setting, styled
from analysis.scores.scoring import METRIC_NAMES
from bayes_direag.errors import DirEAGError
from bayes_direag.model.presets import preset
from tests.analysis.made_runs import made_evaluation, predictions, questions


def run_with(metrics: dict[str, dict[str, float]], presets: str = "paper", **changes: object) -> Evaluation:
    """Return a run whose metrics are these by method, 0.5 where none is given."""
    ends = {f"{name}{end}": 0.5 for name in METRIC_NAMES for end in ("", "_low", "_high")}
    rows = [{"method": method, "n": 100, "unanswered": 2} | ends | own for method, own in metrics.items()]
    table = predictions({name: [(0.5, True)] for name in metrics})
    data = (questions(100, "svamp", "Mistral-7B-Instruct-v0.3"), None)
    plain = made_evaluation(table, {}, n_folds=5, seed=0, n_resamples=10, data=data)
    settings = plain.settings.model_copy(update={"preset": preset(presets)})
    changed = {"observations": plain.of.model_copy(update=changes), "settings": settings}
    record = plain.record.model_copy(update=changed)
    return replace(plain, metrics=pd.DataFrame(rows), record=record, folder=Path("run"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("Mistral-7B", "SVAMP")),
        ({"models": ("llama",)}, ("llama", "SVAMP")),
        ({"datasets": ()}, ("Mistral-7B", "unnamed dataset")),
        ({"datasets": ("svamp", "gsm8k")}, ("Mistral-7B", "svamp, gsm8k")),
    ],
)
def test_names_of_the_paper_where_it_has_them(changes: dict[str, object], expected: tuple[str, str]) -> None:
    assert setting(run_with({"direag": {}}, **changes)) == expected


def test_runs_come_in_the_papers_order_and_strangers_last() -> None:
    names = [("other", "b"), ("google/gemma-2-9b-it", "svamp"), ("mistral-7b", "gsm-hard"), ("other", "a")]
    names += [("qwen2.5-7b", "svamp"), ("mistral-7b", "gsm8k")]
    runs = [run_with({"direag": {}}, models=(model,), datasets=(dataset,)) for model, dataset in names]
    runs.append(run_with({"direag": {}}, "release", models=("qwen2.5-7b",), datasets=("svamp",)))
    assert [runs.index(run) for run in in_printed_order(runs)] == [6, 4, 5, 2, 1, 3, 0]
    with pytest.raises(DirEAGError, match="saw other, a, paper, as in run; expected one evaluation of each"):
        in_printed_order([runs[3], replace(runs[3])])


def test_a_row_is_printed_or_of_a_run() -> None:
    ours, strange = run_with({"steerconf": {"ece": 0.3}, "direag": {}}), run_with({"direag": {}}, models=("llama",))
    rows = paper_table(METHODS_TABLE, [run_with({"direag": {}}, "release"), ours, strange])
    known, other = (rows[rows["model"] == model] for model in ("Mistral-7B", "llama"))
    assert known.loc[known["source"] == "printed", "method"].tolist() == list(METHODS_TABLE.rows)
    of_own = known[known["method"] == "DirEAG"]
    assert of_own["source"].tolist() == ["printed", "release", "paper"]
    assert of_own[["n", "unanswered"]].to_numpy(object).tolist() == [[1000, pd.NA], [100, 2], [100, 2]]
    printed, own = known[known["method"] == "SteerConf"].to_dict("records")
    # Mistral-7B, SVAMP, SteerConf as printed.
    assert [printed[name] for name in PRINTED_METRICS] == [0.6460, 0.0789, 0.1487, 0.8516, 0.8940, 0.7551]
    assert np.isnan([printed[f"{name}{end}"] for name in PRINTED_METRICS for end in ("_low", "_high")]).all()
    assert (own["ece"], own["ece_low"], own["benefit"], own["run"]) == (0.3, 0.5, 0.5, "run")
    assert other[["method", "source"]].to_numpy().tolist() == [["DirEAG", "paper"]]
    variants = paper_table(VARIANTS_TABLE, [ours])
    assert variants["method"].tolist() == [*list(VARIANTS_TABLE.rows), "Full DirEAG"]


def marked(html: str, look: str) -> set[tuple[int, int]]:
    """Return row and column of the figures that look so."""
    rules = re.findall(r"([^{}]+)\{([^}]*)\}", html.partition("</style>")[0])
    found = re.findall(r"row(\d+)_col(\d+)", " ".join(cells for cells, rule in rules if look in rule))
    return {(int(row), int(column)) for row, column in found}


def test_the_best_is_underlined_and_the_papers_method_is_bold() -> None:
    # 107/160 prints as .6687, though rounding its product with 10000 gives 6688.
    values = {"vanilla": 0.66874, "mean_confidence": 107 / 160, "steerconf": 0.6, "direag": 0.3}
    own = {name: {"accuracy": value, "ece": value, "auroc": np.nan} for name, value in values.items()}
    rows = paper_table(METHODS_TABLE, [run_with(own, models=("llama",))])
    html = styled(rows, "A caption").to_html()
    assert marked(html, "underline;") == {(0, 1), (1, 1), (3, 2)} | {(k, c) for k in range(4) for c in (3, 5, 6)}
    assert marked(html, "bold") == {(3, column) for column in range(1, 7)}
    assert "<caption>A caption</caption>" in html
    assert html.count(f">{UNDEFINED}</td>") == 4


def test_best_is_told_among_the_rows_of_a_source_and_setting() -> None:
    runs = [run_with({"vanilla": {}, "direag": {"accuracy": 0.4}}, name) for name in ("release", "paper")]
    html = styled(paper_table(METHODS_TABLE, runs), "").to_html()
    # Rows 1 and 2: Vanilla, release and paper. Row 5: Mean conf. as printed, 0.7430.
    assert {row for row, column in marked(html, "underline;") if column == 1} == {1, 2, 5}


def test_latex_and_html_escape_names_and_latex_has_marks_of_its_own() -> None:
    rows = paper_table(METHODS_TABLE, [run_with({"vanilla": {}, "direag": {"ece": 0.1}}, models=("50% & <more>",))])
    latex = styled(rows, "A caption", latex=True).to_latex(convert_css=True, hrules=True)
    assert r"50\% \& <more>" in latex
    assert r"\underline{\bfseries 0.1000}" in latex
    assert r"Acc $\uparrow$ & ECE $\downarrow$" in latex
    assert "50% &amp; &lt;more&gt;" in styled(rows, "").to_html()
