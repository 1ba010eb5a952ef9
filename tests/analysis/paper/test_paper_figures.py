"""The printed figures: whole, in keeping with each other and with what the paper says in words."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import analysis
from analysis.evaluation import METHODS
from analysis.paper.paper_figures import (
    METHODS_TABLE,
    PRINTED_METRICS,
    PRINTED_TABLES,
    VARIANTS_TABLE,
    as_printed,
    printed_dataset,
    printed_model,
    printed_protocol,
)
from analysis.runs.evaluated_run import Protocol

MODELS = ["Qwen2.5-7B", "Mistral-7B", "Gemma-2-9B-it"]
DATASETS = ["GSM8K", "SVAMP", "GSM-Hard"]
FOLDER = Path(analysis.__file__).with_name("paper")

each_table = pytest.mark.parametrize("table", PRINTED_TABLES, ids=lambda table: table.subject)


class TestFigures:
    @each_table
    def test_every_cell_is_there_in_the_printed_order(self, table):
        expected = pd.MultiIndex.from_product([MODELS, DATASETS, list(table.rows)])
        assert table.figures().index.tolist() == expected.tolist()
        assert list(table.figures()) == list(PRINTED_METRICS)

    @each_table
    def test_they_are_fractions_of_four_decimals(self, table):
        values = table.figures().to_numpy()
        assert ((values > 0) & (values < 1)).all()
        assert (np.vectorize(as_printed)(values) == values).all()

    @each_table
    def test_every_row_is_a_method(self, table):
        assert set(table.rows.values()) <= set(METHODS)
        assert len(set(table.rows.values())) == len(table.rows)

    def test_the_full_variant_is_the_method(self):
        method = METHODS_TABLE.figures().xs("DirEAG", level=2)
        assert method.equals(VARIANTS_TABLE.figures().xs("Full DirEAG", level=2))

    def test_calibration_changes_no_answer(self):
        accuracy = VARIANTS_TABLE.figures()["accuracy"]
        assert accuracy.xs("+ Conf. evidence", level=2).equals(accuracy.xs("Full DirEAG", level=2))

    def test_both_sampling_methods_give_the_same_answer(self):
        accuracy = METHODS_TABLE.figures()["accuracy"]
        assert accuracy.xs("Self-cons.", level=2).equals(accuracy.xs("Ans. entropy", level=2))

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
            ("simulated", None),
            ("", None),
        ],
    )
    def test_models(self, name, expected):
        assert printed_model(name) == expected

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("gsm_hard", "GSM-Hard"),
            ("GSM Hard", "GSM-Hard"),
            ("svamp", "SVAMP"),
            ("gsm8k", "GSM8K"),
            ("svamp_llama8b_10runs", None),
            ("", None),
        ],
    )
    def test_datasets(self, name, expected):
        assert printed_dataset(name) == expected

    def test_protocols(self):
        assert [printed_protocol(dataset) for dataset in DATASETS] == [
            Protocol(1319, 7473, None),
            Protocol(1000, None, 5),
            Protocol(1319, None, 5),
        ]


@given(st.floats(-2, 2) | st.integers(0, 800).map(lambda k: k / 800) | st.just(float("nan")))
def test_as_printed_is_what_formatting_shows(value: float) -> None:
    found = as_printed(value)
    assert f"{found:.4f}" == f"{value:.4f}"
    assert np.isnan(value) or re.fullmatch(r"-?\d\.\d{1,4}|-?[\d.]+e-0\d", repr(found))
