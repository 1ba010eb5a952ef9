"""What the priors of bayes say before any label is seen: as documented, and sensible."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from numpyro.infer import Predictive

from bayes_direag.data.observations import Observations
from bayes_direag.model.forward import Forward
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import bayes
from bayes_direag.model.presets import preset
from bayes_direag.model.states import supports
from bayes_direag.model.unconstrained import parameter_sites
from tests.bayes_direag.data.questions import question

N_DRAWS = 6000
QUANTILES = (0.05, 0.5, 0.95)

#: Answers and stated confidences by level, as documented.
CASES = {
    "one, at 95 %": ("a", 95),
    "five that agree, at 95 %": ("aaaaa", 95),
    "three against two, at 80 %": ("aaabb", 80),
    "five that differ, at 80 %": ("abcde", 80),
}


@pytest.fixture(scope="module")
def support() -> dict[str, np.ndarray]:
    """Return support by case: (draw, state), the null last."""
    questions = [
        question(name, *((answer, stated) for answer in said), gold_answer="a")
        for name, (said, stated) in CASES.items()
    ]
    asked = Observations.from_questions(questions, answers="text")
    data = LikelihoodData.weighted(asked, np.ones(len(CASES)), preset=preset("bayes"), labels=())
    with jax.enable_x64(True):
        drawn = jax.jit(Predictive(bayes, num_samples=N_DRAWS))(jax.random.key(0), data.unlabelled)
    sites = [name for name, site in parameter_sites(bayes, data).items() if site.is_unconstrained]
    supported = supports(Forward(bayes, {name: np.asarray(drawn[name]) for name in sites}, data))
    return dict(zip(CASES, np.moveaxis(supported, 1, 0), strict=True))


#: The page that says what the priors imply.
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "model.md").read_text()


def documented_rows(heading: str) -> dict[str, list[str]]:
    """Return the cells of the table that begins with this text, by their first one."""
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("column", "state"), [(0, 0), (1, -1)])
def test_prior_implications_are_those_of_the_documented_table(support, number: int, column: int, state: int) -> None:
    rows = documented_rows("| reports |")
    assert list(rows) == list(CASES)
    case = list(CASES)[number]
    mean, *quantiles = map(float, re.findall(r"[0-9.]+", rows[case][column]))
    drawn = support[case][:, state]
    rounding = 0.0051
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / np.sqrt(N_DRAWS) + rounding
    assert len(quantiles) == len(QUANTILES)
    for level, quantile in zip(QUANTILES, quantiles, strict=True):
        chance = 4 * np.sqrt(level * (1 - level) / N_DRAWS)
        assert (drawn <= quantile - rounding).mean() < level + chance
        assert (drawn <= quantile + rounding).mean() > level - chance
