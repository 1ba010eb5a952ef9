"""What the priors of bayes and pooled say before any label is seen: as documented, and sensible."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

from bayes_direag.inference.posterior import prior_draws
from bayes_direag.model.evidence import Parameters, Reports, clipped_logit, supports
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.presets import PRESETS

N_DRAWS = 6000
#: What a support that saturates may lack of rising.
ROUNDING = 1e-12
QUANTILES = (0.05, 0.5, 0.95)
NAMES = ("bayes", "pooled")

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
def support() -> dict[str, dict[str, np.ndarray]]:
    """Return support by preset and case: (draw, state), the null last."""
    candidate = np.array([said for said, _ in CASES.values()])
    confidence = np.array([[stated / 100] * 5 for _, stated in CASES.values()])
    n, found = len(CASES), {}
    for number, name in enumerate(NAMES):
        preset = PRESETS[name]
        reports = Reports(clipped_logit(confidence, preset.eps), candidate, candidate.max(axis=1) + 1)
        data = LikelihoodData(
            reports, None, candidate, np.ones(n, int), np.ones(n), preset, "confidence", candidate.shape[1]
        )
        drawn = prior_draws(data, n_draws=N_DRAWS, key=jax.random.key(number))
        parameters = Parameters(**{name: drawn[name] for name in Parameters._fields})
        every = np.asarray(supports(reports, parameters))
        found[name] = dict(zip(CASES, np.moveaxis(every, 1, 0), strict=True))
    return found


def documented_rows(heading: str) -> dict[str, list[str]]:
    """Return the cells of the table that begins with this text, by their first one."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "presets.md").read_text()
    lines = text[text.index(heading) :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {first: rest for first, *rest in cells}


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize(
    ("column", "name", "state"), [(0, "bayes", 0), (1, "bayes", -1), (2, "pooled", 0), (3, "pooled", -1)]
)
def test_the_documented_table(support, number: int, column: int, name: str, state: int) -> None:
    rows = documented_rows("| reports |")
    assert list(rows) == list(CASES)[:6]
    case = list(CASES)[number]
    mean, *quantiles = map(float, re.findall(r"[0-9.]+", rows[case][column]))
    drawn = support[name][case][:, state]
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
    assert list(rows) == ["weight", "bias", "slope", "null_base", "null_gain"]
    for name, (link, prior, median, interval) in rows.items():
        raw = PRESETS["bayes"].parameter(name)
        loc, scale = prior.removeprefix("normal(").removesuffix(")").split(", ")
        assert link == raw.link
        assert (np.log(0.5) if loc == "log 0.5" else float(loc), float(scale)) == (raw.loc, raw.scale)
        assert float(median) == pytest.approx(links[link](raw.loc), rel=0.01)
        low, high = (float(number) for number in re.findall(r"-?[0-9.]+", interval)[:2])
        expected = links[link](stats.norm(raw.loc, raw.scale).ppf([0.025, 0.975]))
        assert [low, high] == pytest.approx(list(expected), rel=0.03)


@pytest.mark.parametrize("name", NAMES)
class TestSense:
    def test_supports_are_probabilities_and_states_that_are_not_there_have_none(self, support, name) -> None:
        for case, drawn in support[name].items():
            np.testing.assert_allclose(drawn.sum(axis=1), 1)
            n_candidates = max(CASES[case][0]) + 1
            assert (drawn[:, :n_candidates] > 0).all()
            assert (drawn[:, n_candidates:-1] == 0).all()

    def test_a_surer_report_has_more_support_in_every_draw(self, support, name) -> None:
        cases = ["one, at 0 %, again", "one, at 20 %, again", "one, at 50 %", "one, at 80 %, again", "one, at 95 %"]
        lone = np.stack([support[name][case][:, 0] for case in [*cases, "one, at 100 %, again"]])
        assert (np.diff(lone, axis=0) > -ROUNDING).all()
        assert (np.diff(lone.mean(axis=1)) > 0.03).all()
        five = [support[name][f"five that agree, at {stated} %"][:, 0] for stated in (50, 95)]
        assert (np.diff(five, axis=0) > -ROUNDING).all()

    def test_more_agreement_means_more_support(self, support, name) -> None:
        alone = [support[name][f"{n} that agree"][:, 0].mean() for n in (1, 2, 3, 4)]
        assert (np.diff([*alone, support[name]["5 of five"][:, 0].mean()]) > 0.003).all()
        against = [support[name][case][:, 0] for case in ("three against two, at 80 %", "4 of five", "5 of five")]
        assert (np.diff(against, axis=0) > -ROUNDING).all()
        contested = support[name]["three against two, at 80 %"].mean(axis=0)
        assert contested[0] > contested[1] + 0.05

    def test_five_that_differ_are_alike(self, support, name) -> None:
        each = support[name]["five that differ, at 80 %"][:, :5].mean(axis=0)
        assert np.ptp(each) < 0.02

    def test_nothing_is_all_but_certain(self, support, name) -> None:
        for case, drawn in support[name].items():
            certain = (drawn > 0.99).any(axis=1).mean()
            assert certain < (0.12 if CASES[case][1] in (0, 100) else 0.06), case
        sure = support[name]["five sure"][:, 0]
        assert 0.6 < sure.mean() < 0.9

    def test_a_model_may_turn_out_trustworthy_or_not(self, support, name) -> None:
        """Of a lone sure report and of five that agree, both high and low support are believed possible."""
        for case in ("one, at 95 %", "five that agree, at 95 %"):
            drawn = support[name][case][:, 0]
            assert (drawn > 0.9).mean() > 0.1
            assert (drawn < 0.3).mean() > 0.08


def test_bayes_and_pooled_say_about_the_same(support) -> None:
    for case in CASES:
        means = [support[name][case].mean(axis=0) for name in NAMES]
        np.testing.assert_allclose(means[0], means[1], atol=0.06)
