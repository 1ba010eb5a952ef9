"""What the paper prints; its tables and Figures 2 and 3 with one's own rows, as golden files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis.evaluation import Evaluation
from analysis.methods.registry import METHODS
from analysis.paper.results import base_rates, null_means, write_results
from analysis.paper.tables import (
    PRINTED_METHODS,
    PRINTED_METRICS,
    best,
    paper_table,
    printed_figures,
    printed_model,
    printed_sizes,
)
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.made import made_evaluation, predictions

MODELS = ["Qwen2.5-7B", "Mistral-7B", "Gemma-2-9B-it"]
DATASETS = ["GSM8K", "SVAMP", "GSM-Hard"]
TABLE1, TABLE2 = [*PRINTED_METHODS][:7], [*PRINTED_METHODS][7:]
RESAMPLES = 100
FOLDER = Path(analysis.__file__).with_name("paper")


class TestPrinted:
    @pytest.mark.parametrize(("table", "methods"), [("table1", TABLE1), ("table2", TABLE2)])
    def test_printed_figures_are_all_there_in_order_with_four_decimals(self, table: str, methods: list[str]) -> None:
        figures = printed_figures(table)
        assert figures.index.tolist() == pd.MultiIndex.from_product([MODELS, DATASETS, methods]).tolist()
        assert list(figures) == list(PRINTED_METRICS)
        assert {PRINTED_METHODS[name] for name in methods} <= set(METHODS)
        values = figures.to_numpy()
        assert ((values > 0) & (values < 1)).all()
        np.testing.assert_array_equal(values.round(4), values)

    def test_printed_figures_agree_with_each_other_and_the_text(self) -> None:
        methods, variants = printed_figures("table1"), printed_figures("table2")
        ours = methods.xs("DirEAG", level=2)
        assert ours.equals(variants.xs("Full DirEAG", level=2))
        # Both sampling methods give the same answer.
        sampled = (methods.xs(name, level=2)["accuracy"] for name in ("Self-cons.", "Ans. entropy"))
        assert next(sampled).equals(next(sampled))
        # Figure 2: a Brier score lower by 0.021 to 0.086 than a constant's, and an AUROC higher by 0.229 to 0.362
        brier, auroc = ours["accuracy"] * (1 - ours["accuracy"]) - ours["brier"], ours["auroc"] - 0.5
        assert (brier.min(), brier.max()) == pytest.approx((0.021, 0.086), abs=1e-3)
        assert (auroc.min(), auroc.max()) == pytest.approx((0.229, 0.362), abs=1e-3)
        assert printed_sizes() == dict(zip(DATASETS, (1319, 1000, 1319), strict=True))

    def test_the_readme_names_every_file_and_column(self) -> None:
        text = (FOLDER / "README.md").read_text()
        for path in FOLDER.glob("*.csv"):
            assert f"`{path.name}`" in text
            assert all(f"`{column}`" in text for column in pd.read_csv(path))

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
            ("qwen2.5-7b", "Qwen2.5-7B"),
            (r"C:\models\Mistral-7B-Instruct-v0.3", "Mistral-7B"),
            ("google/gemma-2-9b-it", "Gemma-2-9B-it"),
            ("Gemma 2 9B it", "Gemma-2-9B-it"),
            # Another size, version, quantisation or training is another model.
            ("Qwen/Qwen2-57B", None),
            ("Qwen2.5-7B-Instruct-AWQ", None),
            ("Qwen/Qwen2.5-7B", None),
            ("/models/Qwen2.5-7B", None),
        ],
    )
    def test_printed_model_is_known_by_its_full_name(self, name: str, expected: str | None) -> None:
        assert printed_model(name) == expected


def made_run(
    methods: str, model: str, dataset: str | None = "SVAMP", presets: str = "paper", n: int = 40
) -> Evaluation:
    """Return a run of n questions, by every method half of them right; of the wrong ones a quarter had a right answer.

    Methods differ by how sure they are; two of four are equally good, so that marks are shared. Some answers are not
    known to be right or wrong, and some null states have probability 0.
    """
    number, said = np.arange(n), {}
    right = number % 2 == 1
    for place, method in enumerate(methods.split()):
        confidence = np.where(number % 5 == 0, 0.5, 0.2 + (0.6 - 0.1 * (place % 2)) * right - 0.01 * (number % 7))
        known = [None if k % 11 == 6 else one for k, one in enumerate(right.tolist())]
        said[method] = list(zip(confidence.tolist(), known, strict=True))
    null = np.where(number % 13 == 8, 0, 0.1 + 0.2 * ~right + 0.02 * (number % 3))
    states = {"null_probability": null, "state_probability": np.where(right | (number % 8 == 0), 0.6, null)}
    rows = predictions(said).assign(**{name: np.tile(values, len(said)) for name, values in states.items()})
    return made_evaluation(rows, dataset=dataset, model=model, presets=presets)


RUNS = {
    "strange": ("vanilla direag_raw direag", "50% & <more>", "sums"),
    "gemma": ("mean_confidence steerconf vanilla direag_raw direag", "google/gemma-2-9b-it"),
    "again": ("vanilla direag", "google/gemma-2-9b-it", "SVAMP", "release"),
    "one": ("count direag_raw direag", "mistral-7b", "gsm-hard", "paper", 1),
    "plain": ("vanilla", "qwen2.5-7b", None),
}


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.paper.results.RESAMPLES", RESAMPLES)


def test_tables_and_figures_of_runs_are_the_golden_ones(tmp_path: Path, golden: Path) -> None:
    """Rows in the printed order, strangers last, twice; the page and the pictures beside them."""
    for name, about in RUNS.items():
        made_run(*about).write(tmp_path / name)
    target, folders = tmp_path / "tables", [tmp_path / name for name in RUNS]
    shown = write_results(folders, target, "Prompts: my own.", 0)
    files = {f"table{k}.{end}" for k in (1, 2) for end in ("csv", "html", "tex")}
    files |= {f"figure{k}.{end}" for k in (2, 3) for end in ("png", "csv")}
    assert {path.name for path in target.iterdir()} == files
    for path in (golden / "paper").glob("*.csv"):
        ours = pd.read_csv(target / path.name)
        if "run" in ours:
            ours["run"] = ours["run"].str.rpartition("/")[2]
        pd.testing.assert_frame_equal(ours, pd.read_csv(path), rtol=1e-9)
    assert (target / "table1.tex").read_text() == (golden / "paper" / "table1.tex").read_text()
    page = (target / "table1.html").read_text()
    expected = ("Gemma-2-9B-it</th>", "50% &amp; &lt;more&gt;", "Prompts: my own.", "ECE ↓</th>")
    assert all(words in page for words in (*expected, "text-decoration: underline"))
    assert all(words in page for words in ("width=device-width", "prefers-color-scheme: dark", "overflow-x: auto"))
    assert "50% & <more>, sums\n" in shown
    assert max(map(len, shown.splitlines())) <= 80
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    write_results(folders, target, "Prompts: my own.", 0)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before


def test_best_figures_are_those_that_print_alike() -> None:
    """107/160 prints as .6687, though rounding its product with 10000 gives 6688; what is not defined is no best."""
    run = made_run("vanilla mean_confidence steerconf direag", "llama")
    run.metrics["accuracy"], run.metrics["auroc"] = [0.66874, 107 / 160, 0.6, 0.3], np.nan
    marks = best(paper_table("table1", [run]))
    assert (marks["accuracy"].tolist(), marks["auroc"].any()) == ([True, True, False, False], False)


def test_figures_stand_alone_and_show_their_tables() -> None:
    runs = [made_run(*RUNS[name]) for name in ("gemma", "strange")]
    rates, means = base_rates(runs, seed=0), null_means(runs, seed=0)
    assert_stands_alone(rates.figure, "95%", "Table 1")
    assert_stands_alone(means.figure, "95%", "before the final calibration")
    labels = [label.get_text() for label in rates.figure.axes[0].get_yticklabels()]
    assert labels == ["Gemma-2-9B-it, SVAMP, paper", "50% & <more>, sums, paper"]
    table = rates.tables["figure2"]
    for axes, name in zip(rates.figure.axes, ("brier_gain", "auroc_gain"), strict=True):
        ends = table[[f"{name}_low", f"{name}_high"]].to_numpy()
        np.testing.assert_allclose([bar[:, 0] for bar in axes.collections[0].get_segments()], ends)
        diamonds = np.ma.filled(axes.collections[-1].get_offsets()[:, 0], np.nan)
        np.testing.assert_allclose(diamonds, table[f"{name}_printed"])
