"""What the priors of bayes say before any label is seen: as documented, and sensible."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

from bayes_direag.inference.posterior import prior_draws
from bayes_direag.model.equations import Parameters, Reports, clipped_logit
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.selection import supports
from bayes_direag.model.settings import Preset, RawParameter

N_DRAWS = 6000
QUANTILES = (0.05, 0.5, 0.95)

#: Candidates and stated confidences by level, as documented; -1 is no report.
CASES = {
    "one, at 95 %": ([0, -1, -1, -1, -1], 95),
    "five that agree, at 95 %": ([0] * 5, 95),
    "three against two, at 80 %": ([0, 0, 0, 1, 1], 80),
    "five that differ, at 80 %": ([0, 1, 2, 3, 4], 80),
}


@pytest.fixture(scope="module")
def support() -> dict[str, np.ndarray]:
    """Return support by case: (draw, state), the null last."""
    candidate = np.array([said for said, _ in CASES.values()])
    confidence = np.array([[stated / 100] * 5 for _, stated in CASES.values()])
    n, bayes = len(CASES), PRESETS["bayes"]
    reports = Reports(clipped_logit(confidence, bayes.eps), candidate, candidate.max(axis=1) + 1)
    data = LikelihoodData(reports, None, candidate, np.ones(n), bayes, "confidence")
    drawn = prior_draws(data, n_draws=N_DRAWS, key=jax.random.key(0))
    parameters = Parameters(**{name: drawn[name] for name in Parameters._fields if name in drawn})
    return dict(zip(CASES, np.moveaxis(supports(reports, parameters), 1, 0), strict=True))


#: The page that says what the priors are and imply.
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "presets.md").read_text()


def documented_rows(heading: str) -> dict[str, list[str]]:
    """Return the cells of the table that begins with this text, by their first one."""
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("column", "state"), [(0, 0), (1, -1)])
def test_the_documented_table(support, number: int, column: int, state: int) -> None:
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


def test_the_documented_priors() -> None:
    """Median and 95 % interval of each parameter follow from its normal prior and its link."""
    links = {"exp": np.exp, "identity": lambda raw: raw, "softplus": lambda raw: np.logaddexp(0, raw)}
    rows = documented_rows("| | link | raw prior |")
    fields = {name.removesuffix(", centre").replace(", ", "_"): row for name, row in rows.items()}
    settings = {name: getattr(PRESETS["bayes"], name) for name in Preset.model_fields}
    free = {name for name, one in settings.items() if isinstance(one, RawParameter) and one.fixed is None}
    assert set(fields) == free
    for name, (link, prior, median, interval) in fields.items():
        raw = settings[name]
        loc, scale = prior.removeprefix("normal(").removesuffix(")").split(", ")
        assert link == raw.link
        centre = np.log(float(loc.removeprefix("log "))) if loc.startswith("log ") else float(loc)
        assert (centre, float(scale)) == (raw.loc, raw.scale)
        assert float(median) == pytest.approx(links[link](raw.loc), rel=0.01)
        low, high = (float(number) for number in re.findall(r"-?[0-9.]+", interval)[:2])
        expected = links[link](stats.norm(raw.loc, raw.scale).ppf([0.025, 0.975]))
        assert [low, high] == pytest.approx(list(expected), rel=0.03)
