"""What is printed: every figure of both tables, and the names that the paper has."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis.methods.registry import EVALUATED_METHODS
from analysis.paper.printed import (
    METHODS_TABLE,
    PRINTED_METRICS,
    PRINTED_TABLES,
    VARIANTS_TABLE,
    printed_model,
    printed_sizes,
)

MODELS = ["Qwen2.5-7B", "Mistral-7B", "Gemma-2-9B-it"]
DATASETS = ["GSM8K", "SVAMP", "GSM-Hard"]
FOLDER = Path(analysis.__file__).with_name("paper")


@pytest.mark.parametrize("name", PRINTED_TABLES)
def test_every_cell_is_there_in_the_printed_order_as_a_fraction_of_four_decimals(name: str) -> None:
    table = PRINTED_TABLES[name]
    figures = table.figures()
    assert figures.index.tolist() == pd.MultiIndex.from_product([MODELS, DATASETS, list(table.rows)]).tolist()
    assert list(figures) == list(PRINTED_METRICS)
    assert set(table.rows.values()) <= set(EVALUATED_METHODS)
    values = figures.to_numpy()
    assert ((values > 0) & (values < 1)).all()
    np.testing.assert_array_equal(values.round(4), values)


def test_they_agree_where_they_must() -> None:
    methods, variants = METHODS_TABLE.figures(), VARIANTS_TABLE.figures()
    assert methods.xs("DirEAG", level=2).equals(variants.xs("Full DirEAG", level=2))
    # Both sampling methods give the same answer.
    sampled = (methods.xs(name, level=2)["accuracy"] for name in ("Self-cons.", "Ans. entropy"))
    assert next(sampled).equals(next(sampled))


def test_the_gains_over_a_constant_are_those_in_the_text() -> None:
    """Brier score lower by 0.021 to 0.086 and AUROC higher by 0.229 to 0.362 (Figure 2)."""
    ours = METHODS_TABLE.figures().xs("DirEAG", level=2)
    brier, auroc = ours["accuracy"] * (1 - ours["accuracy"]) - ours["brier"], ours["auroc"] - 0.5
    assert (brier.min(), brier.max()) == pytest.approx((0.021, 0.086), abs=1e-3)
    assert (auroc.min(), auroc.max()) == pytest.approx((0.229, 0.362), abs=1e-3)


def test_the_readme_names_every_file_and_column() -> None:
    text = (FOLDER / "README.md").read_text()
    for path in FOLDER.glob("*.csv"):
        assert f"`{path.name}`" in text
        assert all(f"`{column}`" in text for column in pd.read_csv(path))


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
def test_models(name: str, expected: str | None) -> None:
    assert printed_model(name) == expected


def test_sizes() -> None:
    assert printed_sizes() == dict(zip(DATASETS, (1319, 1000, 1319), strict=True))
