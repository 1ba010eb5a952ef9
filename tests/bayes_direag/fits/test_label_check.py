"""Labels of a file of new questions that contradict what is predicted of them."""

import json

import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.label_check import label_remark
from bayes_direag.model.simulate import simulate_observations


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_map(simulate_observations(1000, seed=1).select(slice(500)))


@pytest.fixture(scope="module")
def new() -> Observations:
    return simulate_observations(1000, seed=1).select(slice(500, 1000))


def test_labels_that_agree_say_nothing(fit, new, tmp_path):
    new.write(tmp_path / "new.jsonl")
    assert label_remark(fit, tmp_path / "new.jsonl", None) is None


def test_swapped_names_of_levels_are_suspected(fit, new, tmp_path):
    table, names = new.to_frame().drop(columns="level"), list(new.level_names)
    table["level_name"] = table["level_name"].replace(dict(zip(names, names[::-1], strict=True)))
    swapped = Observations.from_frame(table, level="level_name", answers="numeric")
    swapped.write(tmp_path / "new.csv")
    said = label_remark(fit, tmp_path / "new.csv", None)
    assert said is not None
    assert "500 of these questions have labels" in said
    assert f"their mean probability is {fit.predict(swapped)['confidence'].mean():.0%}" in said


def test_without_labels_or_with_unreadable_ones_nothing_is_said(fit, new, tmp_path):
    for name, gold in (("unlabelled", None), ("unreadable", "none of the numbers")):
        lines = [json.dumps(json.loads(line) | {"gold_answer": gold}) for line in _lines(new, tmp_path)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        assert label_remark(fit, tmp_path / f"{name}.jsonl", None) is None
    assert label_remark(fit, tmp_path, None) is None


def _lines(observations: Observations, folder) -> list[str]:
    observations.write(folder / "lines.jsonl")
    return (folder / "lines.jsonl").read_text().splitlines()
