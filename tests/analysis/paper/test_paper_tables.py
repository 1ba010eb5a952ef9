"""Tables 1 and 2 and the comparisons, against figures worked out here."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis.evaluation import Evaluation, evaluate
from analysis.methods.registry import EVALUATED_METHODS
from analysis.paper.paper_tables import (
    COMPARED_METRICS,
    METHODS_TABLE,
    PRINTED_METRICS,
    PRINTED_TABLES,
    TESTED_METRICS,
    VARIANTS_TABLE,
    Design,
    as_printed,
    in_printed_order,
    paper_differences,
    paper_table,
    printed_design,
    printed_model,
    setting,
)
from analysis.scores.paired import control_false_discoveries
from analysis.scores.scoring import METRIC_NAMES
from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.made_runs import made_evaluation, predictions, questions, random_said, write_run


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """The paper's methods that need no fit, on simulated questions that go by its names."""
    simulated = simulate_observations(60, seed=4)
    renamed = [one.model_copy(update={"dataset": "gsm_hard", "model": "gemma-2-9b-it"}) for one in simulated.questions]
    observations = Observations.from_questions(renamed, "numeric")
    elicited = {"samples": observations, "topk": observations}
    methods = [name for name in METHODS_TABLE.rows.values() if name != "direag"]
    found = evaluate(observations, elicited=elicited, methods=methods, n_resamples=40)
    folder = tmp_path_factory.mktemp("real") / "run"
    found.write(folder)
    return Evaluation.read(folder)


def run_with(metrics: dict[str, dict[str, float]], **changes: object) -> Evaluation:
    """Return a run whose metrics are these by method, 0.5 where none is given."""
    ends = {f"{name}{end}": 0.5 for name in METRIC_NAMES for end in ("", "_low", "_high")}
    rows = [{"method": method, "n": 100, "unanswered": 0} | ends | own for method, own in metrics.items()]
    table = predictions({name: [(0.5, True)] for name in metrics})
    data = (questions(100, "svamp", "Mistral-7B-Instruct-v0.3"), None)
    plain = made_evaluation(table, {}, n_folds=5, seed=0, n_resamples=10, data=data)
    record = plain.record.model_copy(update={"observations": plain.of.model_copy(update=changes)})
    return replace(plain, metrics=pd.DataFrame(rows), record=record, folder=Path("run"))


def one_table(run: Evaluation, table: object = METHODS_TABLE, level: float = 0.95) -> pd.DataFrame:
    return paper_table(table, [run], level=level, seed=0).set_index("name")


class TestSettings:
    def test_names_of_the_paper_where_it_has_them(self):
        assert setting(run_with({"direag": {}})) == ("Mistral-7B", "SVAMP", True)
        assert setting(run_with({"direag": {}}, models=("llama",))) == ("llama", "SVAMP", False)
        assert setting(run_with({"direag": {}}, datasets=())) == ("Mistral-7B", "unnamed dataset", False)
        assert setting(run_with({"direag": {}}, datasets=("svamp", "gsm8k"))) == ("Mistral-7B", "svamp, gsm8k", False)

    def test_runs_come_in_the_papers_order_and_strangers_last(self):
        names = [("other", "b"), ("google/gemma-2-9b-it", "svamp"), ("mistral-7b", "gsm-hard"), ("other", "a")]
        names += [("qwen2.5-7b", "svamp"), ("mistral-7b", "gsm8k")]
        runs = [run_with({"direag": {}}, models=(model,), datasets=(dataset,)) for model, dataset in names]
        assert [names[runs.index(run)] for run in in_printed_order(runs)] == [names[k] for k in (4, 5, 2, 1, 0, 3)]


class TestPaperTable:
    @pytest.mark.parametrize("table", PRINTED_TABLES, ids=lambda table: table.subject)
    def test_rows_are_the_papers_and_values_those_of_the_run(self, real, table):
        found = one_table(real, table)
        assert found["method"].tolist() == list(table.rows)
        assert set(found["table"]) == {table.number}
        assert (found[["model", "dataset"]] == ["Gemma-2-9B-it", "GSM-Hard"]).all(axis=None)
        own = real.metrics.set_index("method")
        shared = [name for name in table.rows.values() if name in own.index]
        columns = ["n", "unanswered", *(f"{name}{end}" for name in PRINTED_METRICS for end in ("", "_low", "_high"))]
        assert len(shared) == (6 if table is METHODS_TABLE else 0)
        assert (found.loc[shared, columns] == own.loc[shared, columns]).all(axis=None)
        assert found.drop(index=shared)[columns].isna().all(axis=None)

    def test_the_printed_figure_stands_beside(self, real):
        found = one_table(real).loc["steerconf"]
        # Gemma-2-9B-it, GSM-Hard, SteerConf as printed.
        printed = dict(zip(PRINTED_METRICS, (0.4731, 0.0844, 0.1715, 0.8394, 0.7999, 0.8399), strict=True))
        for metric, figure in printed.items():
            assert found[f"{metric}_printed"] == figure
            assert found[f"{metric}_difference"] == pytest.approx(found[metric] - figure, abs=1e-12)

    def test_ties_are_of_what_is_printed(self):
        # 107/160 prints as .6687, though rounding its product with 10000 gives 6688.
        values = {"vanilla": 107 / 160, "mean_confidence": 0.6687, "steerconf": 0.66884, "direag": 0.9}
        found = one_table(run_with({name: {"accuracy": value, "ece": value} for name, value in values.items()}))
        assert found.loc[list(values), "accuracy_rank"].tolist() == [3, 3, 2, 1]
        assert found.loc[list(values), "ece_rank"].tolist() == [1, 1, 2, 3]
        assert found.loc[list(values), "brier_rank"].tolist() == [1, 1, 1, 1]

    def test_what_is_missing_or_undefined_is_nan_and_has_no_rank(self):
        stranger = one_table(run_with({"direag": {}}, models=("llama",)))
        assert stranger.filter(regex="_(printed|difference)$").isna().all(axis=None)
        found = one_table(run_with({"vanilla": {"auroc": np.nan}, "direag": {}}))
        absent = found.loc[["self_consistency", "topk", "steerconf"], "n":]
        is_printed = absent.columns.str.endswith("_printed")
        assert absent.loc[:, is_printed].notna().all(axis=None)
        assert absent.loc[:, ~is_printed].isna().all(axis=None)
        assert pd.isna(found.loc["vanilla", "auroc_rank"])
        assert found.loc["direag", "auroc_rank"] == 1

    def test_intervals_of_another_level_are_drawn_again(self, tmp_path):
        said = {"direag": random_said(np.random.default_rng(1), 50, sharpness=2)}
        run = Evaluation.read(write_run(tmp_path / "run", said))
        at_95, at_50 = (one_table(run, level=level).loc["direag"] for level in (0.95, 0.5))
        confidence, correct = (np.array(column, float) for column in zip(*said["direag"], strict=True))
        loss = (confidence - correct) ** 2
        # A central half of a mean has a half-width of 0.674 standard errors; 200 resamples blur it by a tenth or so.
        half = 0.674 * loss.std() / np.sqrt(50)
        assert at_50["brier_high"] - at_50["brier_low"] == pytest.approx(2 * half, rel=0.35)
        assert at_95["brier_low"] < at_50["brier_low"] < at_50["brier"] < at_50["brier_high"] < at_95["brier_high"]
        assert at_95["brier"] == at_50["brier"] == pytest.approx(loss.mean())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Evaluation]:
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    sharp, dull = random_said(rng, 80, sharpness=4), random_said(rng, 80, sharpness=0.2)
    gaps = [(None, False) if k % 4 == 0 else (None, None) if k == 5 else one for k, one in enumerate(dull)]
    said = {"vanilla": gaps, "majority": dull, "count_calibrated": sharp, "direag": sharp}
    return [
        Evaluation.read(write_run(folder / "a", said)),
        Evaluation.read(write_run(folder / "b", {"mean_confidence": sharp, "direag": dull})),
        Evaluation.read(write_run(folder / "c", {"mean_confidence": sharp})),
    ]


@pytest.fixture(scope="module")
def found(runs: list[Evaluation]) -> pd.DataFrame:
    return paper_differences(runs, level=0.9, seed=0, n_resamples=400)


class TestDifferences:
    def test_which_are_compared(self, runs, found):
        cells = found[["run", "method", "other", "metric"]].to_records(index=False).tolist()
        a, b, _ = (str(run.folder) for run in runs)
        rows = [(a, "DirEAG", "Vanilla"), (a, "DirEAG", "Count-only + Cal."), (b, "DirEAG", "Mean conf.")]
        assert cells == [(*row, metric) for row in rows for metric in COMPARED_METRICS]

    def test_the_sign_says_who_is_better(self, found):
        better = found.set_index(["other", "metric"])["difference"]
        assert better["Vanilla", "brier"] < 0 < better["Mean conf.", "brier"]
        assert better["Vanilla", "benefit"] > 0 > better["Mean conf.", "benefit"]
        # Over all runs together, and over what is tested.
        tested = found[found["metric"].isin(TESTED_METRICS)]
        assert tested["p_adjusted"].tolist() == control_false_discoveries(tested["p_value"].to_numpy()).tolist()
        assert found["p_adjusted"].notna().sum() == len(tested) == 6

    def test_nothing_to_compare(self, runs, found):
        empty = paper_differences(runs[2:], level=0.9, seed=0)
        assert empty.empty
        assert list(empty) == list(found)


MODELS = ["Qwen2.5-7B", "Mistral-7B", "Gemma-2-9B-it"]
DATASETS = ["GSM8K", "SVAMP", "GSM-Hard"]
FOLDER = Path(analysis.__file__).with_name("paper")

each_table = pytest.mark.parametrize("table", PRINTED_TABLES, ids=lambda table: table.subject)


class TestFigures:
    @each_table
    def test_every_cell_is_there_in_the_printed_order_as_a_fraction_of_four_decimals(self, table):
        expected = pd.MultiIndex.from_product([MODELS, DATASETS, list(table.rows)])
        assert table.figures().index.tolist() == expected.tolist()
        assert list(table.figures()) == list(PRINTED_METRICS)
        assert set(table.rows.values()) <= set(EVALUATED_METHODS)
        values = table.figures().to_numpy()
        assert ((values > 0) & (values < 1)).all()
        assert (np.vectorize(as_printed)(values) == values).all()

    def test_they_agree_where_they_must(self):
        methods, variants = METHODS_TABLE.figures(), VARIANTS_TABLE.figures()
        pairs = [(methods.xs("DirEAG", level=2), variants.xs("Full DirEAG", level=2))]
        # both sampling methods give the same answer
        pairs += [tuple(methods.xs(name, level=2)[["accuracy"]] for name in ("Self-cons.", "Ans. entropy"))]
        assert all(one.equals(other) for one, other in pairs)

    def test_the_gains_over_a_constant_are_those_in_the_text(self):
        """Brier score lower by 0.021 to 0.086 and AUROC higher by 0.229 to 0.362 (Figure 2)."""
        ours = METHODS_TABLE.figures().xs("DirEAG", level=2)
        brier = ours["accuracy"] * (1 - ours["accuracy"]) - ours["brier"]
        auroc = ours["auroc"] - 0.5
        assert (brier.min(), brier.max()) == pytest.approx((0.021, 0.086), abs=1e-3)
        assert (auroc.min(), auroc.max()) == pytest.approx((0.229, 0.362), abs=1e-3)

    def test_the_readme_names_every_file_and_column(self):
        text = (FOLDER / "README.md").read_text()
        for path in FOLDER.glob("*.csv"):
            assert f"`{path.name}`" in text
            assert all(f"`{column}`" in text for column in pd.read_csv(path))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
            ("qwen2.5-7b", "Qwen2.5-7B"),
            ("/models/Qwen2.5_7B_Instruct/", "Qwen2.5-7B"),
            (r"C:\models\Mistral-7B-Instruct-v0.3", "Mistral-7B"),
            ("google/gemma-2-9b-it", "Gemma-2-9B-it"),
            ("Gemma 2 9B it", "Gemma-2-9B-it"),
            *((model, model) for model in MODELS),
            # Another size, version, quantisation or training is another model.
            ("Qwen/Qwen2-57B", None),
            ("Qwen2.5-7B-Instruct-AWQ", None),
            ("mistralai/Mistral-7B-Instruct-v0.2", None),
            ("google/gemma-2-9b", None),
            ("Qwen/Qwen2.5-7B", None),
            ("/models/Qwen2.5-7B", None),
            ("simulated", None),
            ("", None),
        ],
    )
    def test_models(self, name, expected):
        assert printed_model(name) == expected

    def test_protocols(self):
        assert [printed_design(dataset) for dataset in DATASETS] == [
            Design(1319, 7473, None),
            Design(1000, None, 5),
            Design(1319, None, 5),
        ]
