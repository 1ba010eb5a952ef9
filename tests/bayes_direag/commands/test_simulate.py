"""``direag simulate``: a file that says what it is, in any format."""

import json

from bayes_direag.data.observations import Observations
from tests.command_line import succeed


def test_simulate_says_so_in_every_format_and_goes_by_its_seed(tmp_path, observations):
    records = [json.loads(line) for line in observations.read_text().splitlines()]
    assert len(records) == 80
    assert {(record["dataset"], record["model"]) for record in records} == {("simulated", "simulated")}
    for suffix, seed in (("csv", 4), ("parquet", 4), ("jsonl", 5)):
        path = tmp_path / f"o.{suffix}"
        assert "80 simulated questions, 5 levels" in succeed("simulate", "--n", 80, "--seed", seed, "--out", path)
        same = Observations.read(path, "numeric").fingerprint == Observations.read(observations, "numeric").fingerprint
        assert same == (seed == 4)
