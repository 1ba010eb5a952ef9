"""What the priors of bayes say before any label is seen: as documented, and sensible."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

from bayes_direag.inference.posterior import prior_draws
from bayes_direag.model.evidence import Parameters, Reports, supports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.selection import clipped_logit
from bayes_direag.model.settings import Preset, RawParameter

N_DRAWS = 6000
#: What a support that saturates may lack of rising.
ROUNDING = 1e-12
QUANTILES = (0.05, 0.5, 0.95)

#: Candidates and stated confidences by level; -1 is no report. The first six are those that are documented.
CASES = {
    "one, at 95 %": ([0, -1, -1, -1, -1], 95),
    "one, at 50 %": ([0, -1, -1, -1, -1], 50),
    "five that agree, at 95 %": ([0] * 5, 95),
    "five that agree, at 50 %": ([0] * 5, 50),
    "three against two, at 80 %": ([0, 0, 0, 1, 1], 80),
    "five that differ, at 80 %": ([0, 1, 2, 3, 4], 80),
    **{f"one, at {stated} %, again": ([0, -1, -1, -1, -1], stated) for stated in (0, 20, 80, 100)},
    **{f"{n} of five": ([0] * n + [1] * (5 - n), 80) for n in (4, 5)},
    **{f"{n} that agree": ([0] * n + [-1] * (5 - n), 80) for n in (1, 2, 3, 4)},
    "five sure": ([0] * 5, 100),
}


@pytest.fixture(scope="module")
def support() -> dict[str, np.ndarray]:
    """Return support by case: (draw, state), the null last."""
    candidate = np.array([said for said, _ in CASES.values()])
    confidence = np.array([[stated / 100] * 5 for _, stated in CASES.values()])
    n, bayes = len(CASES), PRESETS["bayes"]
    reports = Reports(clipped_logit(confidence, bayes.eps), candidate, candidate.max(axis=1) + 1)
    data = LikelihoodData(reports, None, candidate, np.ones(n, int), np.ones(n), bayes, "confidence", 5)
    drawn = prior_draws(data, n_draws=N_DRAWS, key=jax.random.key(0))
    parameters = Parameters(**{name: drawn[name] for name in Parameters._fields if name in drawn})
    return dict(zip(CASES, np.moveaxis(np.asarray(supports(reports, parameters)), 1, 0), strict=True))


#: The page that says what the priors are and imply.
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "presets.md").read_text()
TEXT = " ".join(PAGE.split())


def documented_rows(heading: str) -> dict[str, list[str]]:
    """Return the cells of the table that begins with this text, by their first one."""
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(("column", "state"), [(0, 0), (1, -1)])
def test_the_documented_table(support, number: int, column: int, state: int) -> None:
    rows = documented_rows("| reports |")
    assert list(rows) == list(CASES)[:6]
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
    fields = {name.removesuffix(", centre").replace(", spread", "_spread"): row for name, row in rows.items()}
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


def surer(support: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the support of a lone report and of five that agree, (case, draw), by rising confidence."""
    cases = ["one, at 0 %, again", "one, at 20 %, again", "one, at 50 %", "one, at 80 %, again", "one, at 95 %"]
    lone = np.stack([support[case][:, 0] for case in [*cases, "one, at 100 %, again"]])
    return lone, np.stack([support[f"five that agree, at {stated} %"][:, 0] for stated in (50, 95)])


def contested(support: dict[str, np.ndarray]) -> np.ndarray:
    """Return the support of the answer that leads, (case, draw), by rising agreement."""
    return np.stack([support[case][:, 0] for case in ("three against two, at 80 %", "4 of five", "5 of five")])


class TestSense:
    def test_supports_are_probabilities_and_states_that_are_not_there_have_none(self, support) -> None:
        for case, drawn in support.items():
            np.testing.assert_allclose(drawn.sum(axis=1), 1)
            n_candidates = max(CASES[case][0]) + 1
            assert (drawn[:, :n_candidates] > 0).all()
            assert (drawn[:, n_candidates:-1] == 0).all()

    def test_surer_reports_and_more_agreement_mean_more_support_on_average(self, support) -> None:
        lone, five = surer(support)
        assert (np.diff(lone.mean(axis=1)) > 0.03).all()
        assert (np.diff(five.mean(axis=1)) > 0.03).all()
        alone = [support[case][:, 0].mean() for case in ("1 that agree", "2 that agree", "5 of five")]
        assert (np.diff(alone) > 0.003).all()
        assert (np.diff(contested(support).mean(axis=1)) > 0.03).all()
        first, second = support["three against two, at 80 %"].mean(axis=0)[:2]
        assert first > second + 0.05

    def test_five_that_differ_are_alike(self, support) -> None:
        each = support["five that differ, at 80 %"][:, :5].mean(axis=0)
        assert np.ptp(each) < 0.02

    def test_a_lone_report_and_a_split_vote_leave_little_all_but_certain(self, support) -> None:
        for case, drawn in support.items():
            said, stated = CASES[case]
            if sum(candidate >= 0 for candidate in said) == 1 or max(said) > 0:
                certain = (drawn > 0.99).any(axis=1).mean()
                assert certain < (0.17 if stated in (0, 100) else 0.06), case

    def test_a_model_may_turn_out_trustworthy_or_not(self, support) -> None:
        """Of a lone sure report and of five that agree, both high and low support are believed possible."""
        for case in ("one, at 95 %", "five that agree, at 95 %"):
            drawn = support[case][:, 0]
            assert (drawn > 0.9).mean() > 0.1
            assert (drawn < 0.3).mean() > 0.08


def test_support_never_falls_with_confidence_and_seldom_with_agreement(support) -> None:
    for rising in surer(support):
        assert (np.diff(rising, axis=0) > -ROUNDING).all()
    agreement = contested(support)[:2]  # of five that agree there are two states, not three
    assert (np.diff(agreement, axis=0) > -ROUNDING).mean() > 0.9
