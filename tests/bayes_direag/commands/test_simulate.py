"""``direag simulate``: a file that says what it is, in any format."""

import json

import pytest

from bayes_direag.data.observations import Observations
from tests.command_line import succeed


def test_the_file_says_that_it_is_simulated(observations):
    records = [json.loads(line) for line in observations.read_text().splitlines()]
    assert len(records) == 80
    assert {record["dataset"] for record in records} == {"simulated"}
    assert {record["model"] for record in records} == {"simulated"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_other_formats_hold_the_same(tmp_path, observations, suffix):
    path = tmp_path / f"o.{suffix}"
    assert "80 simulated questions, 5 levels" in succeed("simulate", "--n", 80, "--seed", 4, "--out", path)
    same = Observations.read(path, "numeric").fingerprint
    assert same == Observations.read(observations, "numeric").fingerprint


def test_another_seed_gives_another_set(tmp_path, observations):
    succeed("simulate", "--n", 80, "--seed", 5, "--out", tmp_path / "o.jsonl")
    assert (tmp_path / "o.jsonl").read_text() != observations.read_text()
