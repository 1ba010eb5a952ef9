"""What the paper prints; its tables with one's own rows, and the numbers behind Figures 2 and 3, worked out here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import analysis
from analysis.evaluation import Evaluation, evaluate
from analysis.methods.registry import METHODS
from analysis.paper.results import base_rates, null_means, write_results
from analysis.paper.tables import (
    PRINTED_METHODS,
    PRINTED_METRICS,
    best,
    in_printed_order,
    paper_table,
    printed_figures,
    printed_model,
    printed_sizes,
    setting,
    typeset,
)
from analysis.scores.scoring import METRIC_NAMES, resample_weights
from bayes_direag.data.observations import Observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.made import made_evaluation, predictions, random_said, score, write_run

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


def run_with(metrics: dict[str, dict[str, float]], presets: str = "paper", **changes: object) -> Evaluation:
    """Return a run whose metrics are these by method, 0.5 where none is given."""
    ends = {f"{name}{end}": 0.5 for name in METRIC_NAMES for end in ("", "_low", "_high")}
    rows = [{"method": method, "n": 100, "unanswered": 2} | ends | values for method, values in metrics.items()]
    said = {name: [(0.5, True)] for name in metrics}
    plain = made_evaluation(said, presets=presets, model="Mistral-7B-Instruct-v0.3", n_resamples=10)
    record = plain.record.model_copy(update={"observations": plain.of.model_copy(update=changes)})
    return replace(plain, metrics=pd.DataFrame(rows), record=record, folder=Path("run"))


class TestTables:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, ("Mistral-7B", "SVAMP")),
            ({"models": ("llama",)}, ("llama", "SVAMP")),
            ({"datasets": ()}, ("Mistral-7B", "unnamed dataset")),
            ({"datasets": ("svamp", "gsm8k")}, ("Mistral-7B", "svamp, gsm8k")),
        ],
    )
    def test_setting_has_the_papers_names(self, changes: dict[str, object], expected: tuple[str, str]) -> None:
        assert setting(run_with({"direag": {}}, **changes)) == expected

    def test_in_printed_order_puts_strangers_last(self) -> None:
        names = [("other", "b"), ("google/gemma-2-9b-it", "svamp"), ("mistral-7b", "gsm-hard"), ("other", "a")]
        names += [("qwen2.5-7b", "svamp"), ("mistral-7b", "gsm8k")]
        runs = [run_with({"direag": {}}, models=(model,), datasets=(dataset,)) for model, dataset in names]
        runs.append(run_with({"direag": {}}, "release", models=("qwen2.5-7b",), datasets=("svamp",)))
        assert [runs.index(run) for run in in_printed_order(runs)] == [6, 4, 5, 2, 1, 3, 0]

    def test_paper_table_has_printed_rows_and_those_of_runs(self) -> None:
        ours, strange = run_with({"steerconf": {"ece": 0.3}, "direag": {}}), run_with({"direag": {}}, models=("llama",))
        rows = paper_table("table1", [run_with({"direag": {}}, "release"), ours, strange])
        known, other = (rows[rows["model"] == model] for model in ("Mistral-7B", "llama"))
        assert known.loc[known["source"] == "printed", "method"].tolist() == TABLE1
        of_own = known[known["method"] == "DirEAG"]
        assert of_own["source"].tolist() == ["printed", "release", "paper"]
        assert of_own[["n", "unanswered"]].to_numpy(object).tolist() == [[1000, pd.NA], [100, 2], [100, 2]]
        printed, computed = known[known["method"] == "SteerConf"].to_dict("records")
        # Mistral-7B, SVAMP, SteerConf as printed.
        assert [printed[name] for name in PRINTED_METRICS] == [0.6460, 0.0789, 0.1487, 0.8516, 0.8940, 0.7551]
        assert np.isnan([printed[f"{name}{end}"] for name in PRINTED_METRICS for end in ("_low", "_high")]).all()
        assert (computed["ece"], computed["ece_low"], computed["benefit"], computed["run"]) == (0.3, 0.5, 0.5, "run")
        assert other[["method", "source"]].to_numpy().tolist() == [["DirEAG", "paper"]]
        variants = paper_table("table2", [ours])
        assert variants["method"].tolist() == [*TABLE2, "Full DirEAG"]

    def test_best_figures_are_of_the_printed_and_of_the_runs(self) -> None:
        # 107/160 prints as .6687, though rounding its product with 10000 gives 6688.
        values = {"vanilla": 0.66874, "mean_confidence": 107 / 160, "steerconf": 0.6, "direag": 0.3}
        metrics = {name: {"accuracy": value, "ece": value, "auroc": np.nan} for name, value in values.items()}
        marks = best(paper_table("table1", [run_with(metrics, models=("llama",))]))
        assert marks["accuracy"].tolist() == [True, True, False, False]
        assert marks["ece"].tolist() == [False, False, False, True]
        assert (marks["auroc"].any(), marks[["brier", "pr_positive", "pr_negative"]].all(axis=None)) == (False, True)
        runs = [run_with({"vanilla": {}, "direag": {"accuracy": 0.4}}, "release"), run_with({"direag": {}})]
        marks = best(paper_table("table1", runs))
        # Of both runs, row 1: Vanilla, and row 9: DirEAG by the second. Of the printed, row 4: Mean conf., 0.7430.
        assert np.flatnonzero(marks["accuracy"]).tolist() == [1, 4, 9]

    @pytest.mark.parametrize(
        ("as_html", "expected"),
        [
            (False, (r"50\% \& <more>", r"\underline{\bfseries 0.1000}", r"Acc $\uparrow$ & ECE $\downarrow$")),
            (True, ("50% &amp; &lt;more&gt;", "text-decoration: underline", "ECE ↓</th>", ">0.1000</td>")),
        ],
    )
    def test_typeset_escapes_names_and_has_marks(self, as_html: bool, expected: tuple[str, ...]) -> None:
        metrics = {"vanilla": {}, "direag": {"ece": 0.1}}
        rows = paper_table("table1", [run_with(metrics, models=("50% & <more>",))])
        text = typeset(rows, "A caption", as_html=as_html)
        assert all(words in text for words in (*expected, "A caption"))


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch) -> None:
    monkeypatch.setattr("analysis.paper.results.RESAMPLES", RESAMPLES)


def run(model: str, method: str = "direag", n: int = 40) -> Evaluation:
    """Return a run of n questions, half of them right; of the wrong ones a quarter has a right candidate."""
    number = np.arange(n)
    confidence, right = np.where(number % 4 == 0, 0.5, 0.2 + 0.6 * (number % 2)), number % 2 == 1
    null = 0.1 + 0.2 * (~right)
    state = np.where(right | (number % 8 == 0), 0.6, null)
    rows = predictions({method: list(zip(confidence, right, strict=True))})
    rows = rows.assign(null_probability=null, state_probability=state)
    plain = run_with({method: {}}, models=(model,))
    return replace(plain, predictions=rows, metrics=score(rows, seed=0, n_resamples=20))


class TestFigures:
    def test_base_rates_stand_beside_the_printed(self) -> None:
        runs = [run("google/gemma-2-9b-it"), run("llama"), run("qwen2.5-7b", method="vanilla")]
        picture = base_rates(runs, seed=0)
        table, drawn = picture.tables["figure2"], picture.figure
        assert table["model"].tolist() == ["Gemma-2-9B-it", "llama"]
        # 10 of 40 at .5, and 30 with an error of .2.
        assert table["brier"].tolist() == pytest.approx([(10 * 0.25 + 30 * 0.04) / 40] * 2)
        assert table["base_rate_brier"].tolist() == [0.25] * 2
        printed = printed_figures("table1").loc[("Gemma-2-9B-it", "SVAMP", "DirEAG")]
        gain = printed["accuracy"] * (1 - printed["accuracy"]) - printed["brier"]
        known, stranger = table[["brier_gain_printed", "auroc_gain_printed"]].to_numpy()
        np.testing.assert_allclose(known, [gain, printed["auroc"] - 0.5])
        assert np.isnan(stranger).all()
        assert_stands_alone(drawn, "95%", "Table 1")
        labels = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
        assert labels == ["Gemma-2-9B-it, SVAMP, paper", "llama, SVAMP, paper"]
        for axes, name in zip(drawn.axes, ("brier_gain", "auroc_gain"), strict=True):
            ends = table[[f"{name}_low", f"{name}_high"]].to_numpy()
            np.testing.assert_allclose([bar[:, 0] for bar in axes.collections[0].get_segments()], ends)
            diamonds = np.ma.filled(axes.collections[-1].get_offsets()[:, 0], np.nan)
            np.testing.assert_allclose(diamonds, table[f"{name}_printed"])

    def test_null_means_are_of_right_answers_and_of_questions_without_one(self) -> None:
        runs = [run("llama", "direag_raw"), run("llama"), run("qwen2.5-7b", "direag_raw", n=1)]
        picture = null_means(runs, seed=0)
        table = picture.tables["figure3"]
        assert table[["n_correct", "n_absent"]].to_numpy().tolist() == [[20, 15], [0, 0]]
        means = table.loc[0, ["correct", "absent", "difference"]].to_numpy(float)
        np.testing.assert_allclose(means, [0.1, 0.3, 0.2])
        assert table.loc[1, ["absent", "difference_low"]].isna().all()
        assert_stands_alone(picture.figure, "95%", "before the final calibration")

    def test_intervals_are_those_of_a_loop_over_resamples(self) -> None:
        rng, n = np.random.default_rng(7), 80
        absent = rng.random(n) < 0.3
        right, null = ~absent & (rng.random(n) < 0.6), rng.integers(1, 10, n) / 20
        stated = rng.integers(1, 10, n) / 10
        rows = predictions({"direag_raw": list(zip(stated, right, strict=True))})
        rows = rows.assign(null_probability=null, state_probability=np.where(absent, null, null / 2 + 0.01))
        unknown = rows.assign(correct=pd.array([None] * n, "boolean")), rows.assign(correct=False, null_probability=0.0)
        both = replace(run("llama", "direag_raw"), predictions=pd.concat([rows, *unknown]))
        (row,) = null_means([both], seed=5).tables["figure3"].to_dict("records")
        gains = base_rates([replace(both, predictions=rows.assign(method="direag"))], seed=5)
        (gain,) = gains.tables["figure2"].to_dict("records")
        expected: dict[str, list[float]] = {"correct": [], "absent": [], "difference": [], "auroc": [], "brier": []}
        for weight in resample_weights(n, RESAMPLES, 5):
            p, away, picked, said = (np.repeat(values, weight) for values in (null, absent, right, stated))
            means = p[picked].mean(), p[away].mean()
            gains = roc_auc_score(picked, said) - 0.5, picked.var() - ((said - picked) ** 2).mean()
            for name, value in zip(expected, (*means, means[1] - means[0], *gains), strict=True):
                expected[name].append(value)
        row |= {name.replace("_gain", ""): value for name, value in gain.items() if "_gain_" in name}
        for name, values in expected.items():
            ends = row[f"{name}_low"], row[f"{name}_high"]
            assert ends == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=1e-9), name
        assert [row[f"n_{name}"] for name in ("correct", "absent", "difference")] == [right.sum(), absent.sum(), n]

    @pytest.mark.slow
    def test_null_means_are_those_of_the_released_code(self, golden: Path) -> None:
        """The means of its own null probabilities of the set mid: see the README of the golden figures."""
        observations = Observations.read(golden / "mid.parquet")
        evaluation = evaluate(
            observations, preset="release", methods=["direag_raw", "direag"], seed=20260517, n_resamples=1
        )
        (row,) = null_means([evaluation], seed=0).tables["figure3"].to_dict("records")
        assert (row["correct"], row["absent"]) == pytest.approx((0.1990, 0.7439), abs=0.001)


def test_write_results_replaces_earlier_ones(tmp_path: Path) -> None:
    rng, names = np.random.default_rng(0), ("mean_confidence", "direag_raw", "direag")
    said = {name: random_said(rng, 30, sharpness=1) for name in names}
    folders = [
        write_run(tmp_path / "a_b", said, dataset="sums", model="50% & more"),
        write_run(tmp_path / "b", said, dataset="SVAMP", model="google/gemma-2-9b-it"),
    ]
    target = tmp_path / "tables"
    shown = write_results(folders, target, "Prompts: my own.", 0)
    files = {f"table{k}.{end}" for k in (1, 2) for end in ("csv", "html", "tex")}
    files |= {f"figure{k}.{end}" for k in (2, 3) for end in ("png", "csv")}
    assert {path.name for path in target.iterdir()} == files
    table = pd.read_csv(target / "table1.csv")
    assert table["source"].value_counts().to_dict() == {"printed": 7, "paper": 4}
    confidence, right = (np.array(column, float) for column in zip(*said["direag"], strict=True))
    assert table["brier"].iloc[-1] == pytest.approx(((confidence - right) ** 2).mean())
    assert "Table 1. Prompts: my own. Bold: the paper's method." in (target / "table1.tex").read_text()
    page = (target / "table1.html").read_text()
    assert all(words in page for words in ("Gemma-2-9B-it</th>", "50% &amp; more</th>", "Prompts: my own."))
    assert all(words in page for words in ("width=device-width", "prefers-color-scheme: dark", "overflow-x: auto"))
    assert "50% & more, sums\n" in shown
    assert max(map(len, shown.splitlines())) <= 80
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    write_results(folders, target, "Prompts: my own.", 0)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
