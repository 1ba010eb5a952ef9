"""A function of answers: a fit and an evaluation record its name, and ask for it; commands take FILE.py:FUNCTION."""

import numpy as np
import pandas as pd
import pytest

from analysis import evaluate
from analysis.evaluation import Evaluation
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map
from bayes_direag.modules import function_of
from tests.command_line import one_line, refuse, succeed

CODE = """
def one_size(first, second):
    return len(first) == len(second)
"""
FRUITS = ("fig", "Pea", "plum", "Pear", "melon")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    rng = np.random.default_rng(4)
    rows = [
        {"problem_id": f"q{n}", "level": name, "answer": FRUITS[fruit], "confidence": 60, "gold_answer": FRUITS[n % 5]}
        for n in range(60)
        for name, fruit in zip("abc", (n + rng.integers(3, size=3)) % 5, strict=True)
    ]
    Observations.from_records(rows, "text").write(folder / "o.jsonl")
    (folder / "sizes.py").write_text(CODE)
    return folder


@pytest.fixture(scope="module")
def one_size(folder):
    return function_of(f"{folder / 'sizes.py'}:one_size")


@pytest.fixture(scope="module")
def joined(folder, one_size):
    return Observations.read(folder / "o.jsonl", "text", same=one_size)


@pytest.fixture(scope="module")
def fit(joined):
    return fit_map(joined)


def test_fit_asks_for_the_function_where_it_reads(folder, joined, one_size, fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    predicted, loaded = fit.predict(joined), Fit.load(tmp_path / "fit.nc")
    assert predicted.equals(fit.predict(folder / "o.jsonl"))
    assert predicted.equals(loaded.predict(joined))
    assert predicted.equals(Fit.load(tmp_path / "fit.nc", same=one_size).predict(folder / "o.jsonl"))
    assert set(predicted["answer_as_given"]) <= {*FRUITS}
    assert len(loaded.predict(loaded.fitted)) == 60
    plain = Observations.read(folder / "o.jsonl", "text")
    for mistake in (
        lambda: loaded.predict(folder / "o.jsonl"),
        lambda: fit.predict(plain),
        lambda: fit_map(plain).predict(joined),
        lambda: Fit.load(tmp_path / "fit.nc", same=max),
    ):
        with pytest.raises(DirEAGError, match=r"answers are compared by .*; expected .*, as in the fit"):
            mistake()


def test_evaluation_asks_for_the_function_where_it_reads(folder, joined, one_size, tmp_path):
    evaluate(joined, methods=["majority"], n_resamples=10).write(tmp_path / "results")
    with pytest.raises(DirEAGError, match="kind alone; expected function one_size"):
        Evaluation.read(tmp_path / "results", folder / "o.jsonl")
    again = Evaluation.read(tmp_path / "results", folder / "o.jsonl", one_size)
    assert again.observations.fingerprint == joined.fingerprint


def test_commands_take_the_function_of_a_file(folder, joined, one_size, fit, tmp_path):
    same = ("--same", f"{folder / 'sizes.py'}:one_size")
    reading = (folder / "o.jsonl", "--answers", "text", *same)
    said = one_line(succeed("fit", *reading, "--out", tmp_path / "fit.nc"))
    assert "text answers, equal by one_size" in said
    predict = ("predict", tmp_path / "fit.nc", folder / "o.jsonl", "--out", tmp_path / "p.csv")
    succeed(*predict, *same)
    unlabelled = [question.model_copy(update={"gold_answer": None}) for question in joined.questions]
    new = Observations.from_questions(unlabelled, "text", one_size)
    assert pd.read_csv(tmp_path / "p.csv")["answer"].tolist() == fit.predict(new)["answer"].tolist()
    assert "--same FILE.py:one_size" in refuse(*predict)
    new.write(tmp_path / "new.jsonl")
    said = succeed("label", tmp_path / "new.jsonl", *reading[1:], "--out", tmp_path / "labels.csv")
    assert f"--same {same[1]}" in one_line(said)
    answers = pd.read_csv(tmp_path / "labels.csv")["answers"].str.split(" | ", regex=False)
    assert answers.map(lambda texts: len({*map(len, texts)}) == len(texts)).all()
    assert "no function 'sizes'" in refuse("fit", *reading[:3], "--same", f"{folder / 'sizes.py'}:sizes")
