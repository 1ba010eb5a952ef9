"""Of two labels, ``direag fit`` says where a regression would have been clearly better."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.rival import rival_remark
from bayes_direag import Observations, fit_map
from bayes_direag.cli import app
from bayes_direag.data.records import Observation, Question


def forecasts(n: int = 150, limit: float = 0.7, labels: tuple[str, ...] = ("no", "yes")) -> Observations:
    """Return questions on events that happen if their chance is above a limit, of which twelve levels see the chance.

    So with a limit above one half most are wrong together wherever the chance is between, and say so by how surely.
    """
    rng, questions = np.random.default_rng(1), []
    for k, chance in enumerate(rng.random(n)):
        seen = np.clip(chance + 0.15 * rng.normal(size=12), 0.02, 0.98)
        said = [(labels[int(p > 0.5)], round(100 * max(p, 1 - p))) for p in seen]
        said += [(label, 50) for label in labels]
        reports = [Observation(level=i, answer=text, confidence=sure) for i, (text, sure) in enumerate(said)]
        gold = labels[int(chance > limit)]
        questions.append(Question(problem_id=f"q{k}", gold_answer=gold, observations=tuple(reports)))
    return Observations.from_questions(questions, "text")


def test_forecasts_with_one_bias_are_for_the_regression() -> None:
    said = rival_remark(fit_map(forecasts()))
    assert said.startswith("A logistic regression on the two labels (label_logistic) is clearly better")
    difference, low, high = (float(text) for text in re.findall(r"[+-]\d\.\d\d", said))
    assert 0 < low < difference < high < 1


@pytest.mark.parametrize(
    ("questions", "preset"),
    [
        (forecasts(limit=0.5), "bayes"),
        (forecasts(labels=("no", "yes", "perhaps")), "bayes"),
        (forecasts(4), "bayes"),
        (forecasts(), "paper"),
    ],
    ids=["no bias", "three labels", "four questions", "no calibration by panel"],
)
def test_nothing_is_said_without_reason(questions: Observations, preset: str) -> None:
    assert rival_remark(fit_map(questions, preset=preset)) == ""


def test_the_command_says_it(tmp_path: Path) -> None:
    forecasts().write(tmp_path / "forecasts.jsonl")
    files = [str(tmp_path / "forecasts.jsonl"), "--out", str(tmp_path / "fit.nc")]
    done = CliRunner().invoke(app, ["fit", *files, "--answers", "text"])
    assert done.exit_code == 0
    assert "(label_logistic) is clearly better on these questions" in done.output
