"""The whole simulation check: its command, its folder, its pictures, and what it says of right and wrong samplers."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.display.style import figure_style
from analysis.simulation.ranks_and_coverage import RankCheck, check_ranks, draw_worlds
from analysis.simulation.simulation_check import (
    SHORT_CHAINS,
    SimulationSettings,
    check_by_simulation,
    coverage_figure,
    rank_figure,
)
from bayes_direag.errors import DirEAGError
from bayes_direag.inference.nuts import draws_for_each
from bayes_direag.model.evidence import Reports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import preset
from bayes_direag.model.settings import SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.command_line import succeed

BAYES = preset("bayes")
COVERAGE = pd.DataFrame(
    {
        "recalibration": ["none"] * 4 + ["platt"] * 4,
        "unit": ["question", "question", "bin", "bin"] * 2,
        "level": [0.5, 0.9] * 4,
        "coverage": [0.48, 0.91, 0.52, 0.88, 0.55, 0.95, 0.6, 0.97],
        "error": [0.02] * 8,
        "n_worlds": [200] * 8,
        "mean_width": [0.2] * 4 + [0.25] * 4,
        "rmse": [0.06] * 8,
    }
)


def rank_check(**columns: np.ndarray) -> RankCheck:
    table = pd.DataFrame({"quantity": list(columns), "p_value": 0.5, "p_adjusted": 1.0, "autocorrelation": 0.0})
    return RankCheck(pd.DataFrame(columns), 99, 0.99, table)


class TestPictures:
    def test_ranks(self) -> None:
        rng = np.random.default_rng(0)
        names = ["weight[low]", "weight[high]", "slope", "weight_centre", "log_joint"]
        check = rank_check(**{name: rng.integers(0, 100, 200) for name in names})
        with figure_style():
            figure = rank_figure(check, "About.")
        panels = {axes.get_title(loc="left").partition("\n")[0]: axes for axes in figure.axes}
        assert list(panels) == ["weight, by level", "other parameters", "what follows from all parameters"]
        labels = [text.get_text() for text in panels["weight, by level"].get_legend().get_texts()]
        assert labels == ["low", "high"]
        line = panels["other parameters"].get_lines()[1]
        assert line.get_label() == "slope"
        share = [(check.ranks["slope"] <= rank).mean() - (rank + 1) / 100 for rank in range(99)]
        np.testing.assert_allclose(line.get_ydata(), share, atol=1e-12)
        texts = figure.get_suptitle() + figure.get_supxlabel().replace("\n", " ")
        assert "All 5 keep within the band" in texts
        assert "200 simulations" in texts
        assert "99 draws" in texts
        check.table.loc[2, "p_adjusted"] = 0.0001
        with figure_style():
            figure = rank_figure(check, "About.")
        assert "1 of 5 leave the band" in figure.get_suptitle()
        assert "adjusted p 0.0001" in figure.axes[1].get_title(loc="left")

    def test_coverage(self) -> None:
        with figure_style():
            figure = coverage_figure(COVERAGE, "About.")
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["single questions", "bins of like confidence"]
        handles, labels = figure.axes[0].get_legend_handles_labels()
        assert labels == ["without final calibration", "with final calibration"]
        np.testing.assert_allclose(np.asarray(handles[1][0].get_ydata(), float), [0.55, 0.95])
        assert "0.250" in figure.get_supxlabel()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the command writes, of a check too small to say anything."""
    target = tmp_path_factory.mktemp("sbc") / "out"
    options = "--n 4 --questions 20 --variant count --warmup 60 --draws 99 --seed 3"
    printed = succeed("sbc", "--out", target, *options.split())
    assert "Ranks are as they should be" in printed
    assert "weight[vanilla]" in printed
    return target


@pytest.mark.slow
def test_the_command_writes_everything(folder: Path) -> None:
    names = {"sbc.json", "ranks.csv", "ranks.png", "coverage.csv", "coverage.png"}
    assert {path.name for path in folder.iterdir()} == names
    record = json.loads((folder / "sbc.json").read_text())
    assert record["settings"]["n_questions"] == 20
    assert record["settings"]["seed"] == 3
    assert record["settings"]["preset"]["name"] == "bayes"
    assert record["sound"] is True
    assert record["ranks"]["n_ranked"] == 99
    ranks = pd.read_csv(folder / "ranks.csv")
    assert ranks.shape == (4, 2 * 5 + 6 + 4)
    assert [row["quantity"] for row in record["ranks"]["quantities"]] == ranks.columns.tolist()
    covered = pd.read_csv(folder / "coverage.csv")
    assert set(covered["recalibration"]) == {"none", "platt"}
    assert covered["coverage"].between(0, 1).all()


def test_presets_that_cannot_be_simulated_are_refused() -> None:
    isotonic = BAYES.override(recalibration={"method": "isotonic"})
    for refused, problem in (
        (preset("release"), "preset release weighs questions unequally"),
        (isotonic, "method isotonic has no posterior; expected platt or none"),
    ):
        with pytest.raises(DirEAGError, match=problem):
            check_by_simulation(SimulationSettings(preset=refused))
    text = SimulationSettings(preset=BAYES, n_questions=50).text
    assert "50 labelled questions" in text
    assert "right answers from the model" in text


@pytest.mark.slow
class TestWhole:
    """60 simulations of 40 questions; where that does not tell, 120 of 80."""

    SHORT = SamplingSettings(n_warmup=250, n_draws=500)

    def test_sampler_and_intervals_are_right(self) -> None:
        check = check_by_simulation(
            SimulationSettings(preset=BAYES, n=60, n_questions=40, n_fresh=200, sampling=self.SHORT, seed=1)
        )
        assert check.ranks is not None
        assert check.sound, check.ranks.table
        assert check.ranks.table["autocorrelation"].abs().max() < 0.1
        assert check.n_divergent <= 3
        own = check.coverage[check.coverage["recalibration"] == "none"]
        assert (np.abs(own["coverage"] - own["level"]) < 3 * own["error"]).all(), own
        nine = check.coverage[check.coverage["level"] == 0.9].set_index(["recalibration", "unit"])
        assert (nine["error"] < 0.04).all()
        assert (nine.loc["platt", "coverage"] > 0.9 - 2 * nine.loc["platt", "error"]).all(), nine

    @pytest.mark.parametrize(
        ("wrong", "n", "n_questions", "sampling"), [("prior", 60, 40, SHORT), ("labels", 120, 80, SHORT_CHAINS)]
    )
    def test_wrong_models_are_found(self, wrong: str, n: int, n_questions: int, sampling: SamplingSettings) -> None:
        """Worlds of biases a fifth as wide, or labels by confidences in reverse order, where evidence adds up."""
        preset = BAYES.override(sharpness=None, vote=None, vote_spread=None)
        observations = simulate_observations(n_questions + 1, seed=1)
        data = LikelihoodData.of(observations.select(slice(0, n_questions)), preset=preset)
        narrow = preset.override(bias={"scale": 0.4}, bias_spread={"loc": math.log(0.2)})
        true = replace(data, preset=narrow) if wrong == "prior" else data
        if wrong == "labels":
            backwards = data.reports._replace(logit_confidence=data.reports.logit_confidence[:, ::-1])
            true = replace(data, reports=backwards)
        worlds = draw_worlds(true, n, seed=5)
        draws = draws_for_each(data, worlds.target, sampling=sampling, seed=5)
        found = check_ranks(
            worlds,
            draws,
            data,
            Reports.of(observations.select(slice(n_questions, n_questions + 1)), preset.eps),
            level_names=observations.level_names,
        )
        assert not found.uniform
