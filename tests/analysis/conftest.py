"""An evaluation that all tests of the analysis share, made once by the command."""

from pathlib import Path

import pytest

from analysis.evaluation import Evaluation
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.fits.making import fit_map
from bayes_direag.model.simulate import simulate_observations
from tests.command_line import succeed
from tests.made_fits import made_once

#: One rule, what learns nothing and cheaply, and a fit before and after its calibration.
METHODS = ("vanilla", "majority", "majority_platt", "conditional_logit", "direag_raw", "direag")


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> tuple[Path, str]:
    """Return a folder like that of quickstart, and what was printed when its evaluation was made.

    Ten of its 82 questions have no label; the first and the last are answered by nobody.
    """
    simulated = simulate_observations(80, seed=9).questions
    questions = [one.model_copy(update={"question": f"How much is {n}?"}) for n, one in enumerate(simulated)]
    questions[:10] = [one.model_copy(update={"gold_answer": None}) for one in questions[:10]]
    silent = [Question(problem_id=f"silent {i}", gold_answer="1", observations=()) for i in range(2)]
    everything = Observations.from_questions([silent[0], *questions, silent[1]], answers="numeric")

    def make(folder: Path) -> tuple[Path, str]:
        everything.write(folder / "observations.jsonl")
        fit_map(everything).save(folder / "fit.nc")
        options = ["--methods", ",".join(METHODS), "--folds", 2, "--seed", 1, "--resamples", 50]
        options += ["--out", folder / "evaluation"]
        return folder, succeed("evaluate", folder / "observations.jsonl", *options)

    return made_once(tmp_path_factory, "quickstart", make)


@pytest.fixture(scope="session")
def home(made: tuple[Path, str]) -> Path:
    """Return that folder, which is read alone."""
    return made[0]


@pytest.fixture(scope="session")
def evaluation(home: Path) -> Evaluation:
    return Evaluation.read(home / "evaluation", home / "observations.jsonl")
