"""Explanations: against prediction, against the printed equations in plain Python, and by what must add up."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from analysis.explanation.explanation import REASONS, Explanation, explain
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question, Status
from bayes_direag.errors import DirEAGError, LevelError
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.posterior import natural_draws
from bayes_direag.model.equations import Parameters
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import Variant
from bayes_direag.model.simulate import LEVEL_NAMES, simulate_observations
from tests.analysis.fits import around, made_fit, natural
from tests.bayes_direag import brute_force

LEVEL = 0.8


def report(level: int, answer: str | None, confidence: float | None) -> Observation:
    return Observation(level=level, level_name=LEVEL_NAMES[level], answer=answer, confidence=confidence)


#: A lone report, one of each reason, and answers that all differ, at 0 % and at 100 %.
ODD = (
    Question(problem_id="lone", gold_answer="5", observations=(report(2, "5", 90),)),
    Question(
        problem_id="hardly",
        gold_answer="7",
        question="How many?",
        observations=(report(0, None, 40), report(1, "3 or 4", 70), report(2, "$5", None), report(3, "7 eggs", 0)),
    ),
    Question(
        problem_id="split",
        gold_answer="99",
        observations=tuple(report(level, str(level), 100 * (level % 2)) for level in range(len(LEVEL_NAMES))),
    ),
    Question(problem_id="silent", observations=(report(0, None, 50),)),
)


@pytest.fixture(scope="module")
def observations() -> Observations:
    simulated = simulate_observations(n=5, seed=6)
    return Observations.from_questions([*simulated.questions, *ODD], answers="numeric")


@pytest.fixture(scope="module")
def several_draws(observations: Observations) -> Fit:
    rng = np.random.default_rng(3)
    intercept, slope = 0.3 * rng.standard_normal((2, 2, 12))
    draws = around(natural(len(LEVEL_NAMES)), rng, n_draws=12, spread=0.5)
    return made_fit(observations.select(slice(0, 4)), draws, intercept=0.2 + intercept, slope=1.3 + slope)


@pytest.fixture(scope="module")
def one_draw(observations: Observations) -> Fit:
    return made_fit(observations, natural(len(LEVEL_NAMES)), intercept=0.2, slope=1.3)


def draws_of(fit: Fit) -> list[dict[str, object]]:
    posterior = natural_draws(fit.tree)
    return [
        {name: posterior[name].to_numpy()[chain, draw].tolist() for name in Parameters._fields if name in posterior}
        for chain in range(posterior.sizes["chain"])
        for draw in range(posterior.sizes["draw"])
    ]


def by_answer(found: Explanation, column: str) -> dict[str, float]:
    return dict(zip(found.states["answer"].fillna(brute_force.NULL), found.states[column], strict=True))


def mean_of(rows: list[Mapping[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


@pytest.mark.parametrize("which", ["one_draw", "several_draws"])
def test_every_figure_is_the_predicted_one_and_the_parts_add_up(
    which: str, observations: Observations, request: pytest.FixtureRequest
) -> None:
    fit = request.getfixturevalue(which)
    several = which == "several_draws"
    for expected in fit.predict(observations, interval_level=LEVEL).to_dict("records"):
        found = explain(fit, observations, expected["problem_id"], interval_level=LEVEL)
        assert (found.n_samples, found.interval_level) == (24 if several else 1, LEVEL)
        np.testing.assert_allclose(found.null_probability, expected["null_probability"], rtol=1e-12)
        assert (len(found.reports), len(found.states) - 1) == (expected["n_used"], expected["n_candidates"])
        _check_sums(found)
        if not expected["n_used"]:
            assert found.answer is None
            assert found.states["selected"].tolist() == [False]
            continue
        selected = found.states[found.states["selected"]]
        assert [found.answer] == selected["answer"].tolist() == [expected["answer"]]
        assert selected.index.tolist() == [0]
        np.testing.assert_allclose(selected["support"], expected["support"], rtol=1e-12)
        names = ["confidence", "support"]
        names += ["confidence_low", "confidence_high", "change_probability"] if several else []
        values = [getattr(found, name) for name in names]
        np.testing.assert_allclose(values, [expected[name] for name in names], rtol=1e-12)
        if not several:
            assert np.isnan([found.confidence_low, found.confidence_high, found.change_probability]).all()
            score = found.calibration["coefficient"] @ found.calibration["value"]
            np.testing.assert_allclose(brute_force.sigmoid(score), found.confidence, rtol=1e-12)


def _check_sums(found: Explanation) -> None:
    states, parts = found.states, found.parts
    added = parts.groupby("state")[["concentration", "support"]].sum()
    np.testing.assert_allclose(added, states[["concentration", "support"]], rtol=1e-12)
    np.testing.assert_allclose(states["support"].sum(), 1, rtol=1e-12)
    sums = states["evidence"] + states["prior"] + states["null_base"]
    np.testing.assert_allclose(sums, states["concentration"], rtol=1e-12)
    assert (states["prior"] == states["prior"].iloc[0]).all()
    assert (states["null_base"].iloc[:-1] == 0).all()
    own = parts[parts["source"] == "report"].set_index(["report", "state"])["support"]
    for number, row in enumerate(found.reports.to_dict("records")):
        state = states.index[states["answer"] == row["answer"]][0]
        np.testing.assert_allclose(own[number, state], row["support_part"], rtol=1e-12)
        np.testing.assert_allclose(own[number, len(states) - 1], row["null_support_part"], rtol=1e-12)
    assert len(own) == 2 * len(found.reports)


@pytest.mark.parametrize("variant", ["confidence", "level", "count"])
def test_every_figure_is_that_of_the_printed_equations(variant: Variant, observations: Observations) -> None:
    names = PRESETS["paper"].parameters(variant)
    given = {name: value for name, value in natural(len(LEVEL_NAMES)).items() if name in names}
    fit = made_fit(observations, around(given, np.random.default_rng(1), n_draws=3), variant=variant)
    for row, problem_id in enumerate(observations.problem_id):
        reports = brute_force.reports_of(observations, row)
        found = explain(fit, observations, problem_id)
        alphas = [brute_force.concentrations(reports, draw, fit.preset.eps) for draw in draws_of(fit)]
        assert by_answer(found, "concentration") == pytest.approx(mean_of(alphas), rel=1e-12)
        supports = mean_of([brute_force.support(alpha) for alpha in alphas])
        assert by_answer(found, "support") == pytest.approx(supports, rel=1e-12)
        assert found.reports["answer"].tolist() == [answer for _, answer, _ in reports]
        assert found.reports["level"].tolist() == [LEVEL_NAMES[level] for level, _, _ in reports]
        assert found.reports["stated"].tolist() == [confidence for _, _, confidence in reports]
        _check_reports(found, reports, draws_of(fit), fit.preset.eps)


def test_support_is_the_share_of_sharpened_concentration_times_votes(observations: Observations) -> None:
    votes = [0.9, -0.3, 0.0, 1.4, 0.2]
    fit = made_fit(observations, natural(len(LEVEL_NAMES), sharpness=1.7, vote=votes))
    (draw,) = draws_of(fit)
    for row, problem_id in enumerate(observations.problem_id):
        found, reports = explain(fit, observations, problem_id), brute_force.reports_of(observations, row)
        states = found.states
        product = states["sharpened"] * states["vote_factor"]
        np.testing.assert_allclose(product / product.sum(), states["support"], rtol=1e-12)
        assert by_answer(found, "support") == pytest.approx(
            brute_force.support(brute_force.scores(reports, draw, fit.preset.eps)), rel=1e-12
        )
        np.testing.assert_allclose(states["sharpened"], states["concentration"] ** 1.7, rtol=1e-12)
        assert found.sharpness == pytest.approx(1.7)
        np.testing.assert_allclose(found.reports["vote_factor"], np.exp([votes[level] for level, *_ in reports]))
        np.testing.assert_allclose(found.reports["evidence"], found.reports["weight"] * found.reports["calibrated"])


def test_how_often_its_levels_agree_with_the_others(observations: Observations, one_draw: Fit) -> None:
    fit = made_fit(observations.with_agreement(), natural(len(LEVEL_NAMES)))
    expected = observations.with_agreement().agreement
    found = explain(fit, observations, "hardly").reports
    level = found["number"] - 1
    np.testing.assert_array_equal(found["agreement"], expected.share[level])
    np.testing.assert_array_equal(found["chance_agreement"], expected.by_chance[level])
    assert explain(one_draw, observations, "hardly").reports["agreement"].isna().all()


def _check_reports(
    found: Explanation, reports: list[tuple[int, str, float]], draws: list[dict[str, object]], eps: float
) -> None:
    """A report is worth what the concentrations are with it alone, and without a prior."""
    for one, row in zip(reports, found.reports.to_dict("records"), strict=True):
        alone = [brute_force.concentrations([one], {**draw, "prior_strength": 0.0}, eps) for draw in draws]
        given = np.array([alpha[one[1]] for alpha in alone])
        weight = np.array([draw["weight"] for draw in draws])
        np.testing.assert_allclose(row["evidence"], given.mean(), rtol=1e-12)
        doubted = np.mean(
            [alpha[brute_force.NULL] - draw["null_base"] for alpha, draw in zip(alone, draws, strict=True)]
        )
        np.testing.assert_allclose(row["null_evidence"], doubted, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(row["calibrated"], (given / weight[:, one[0]]).mean(), rtol=1e-12)
        np.testing.assert_allclose(row["weight_share"], (weight[:, one[0]] / weight.sum(axis=1)).mean(), rtol=1e-12)
        np.testing.assert_allclose(
            [row["calibrated_low"], row["calibrated_high"]],
            np.quantile(given / weight[:, one[0]], [0.05, 0.95]),
            rtol=1e-12,
        )


def test_without_a_report_is_what_the_file_without_it_would_give(
    several_draws: Fit, observations: Observations
) -> None:
    for question in [observations.questions[0], *ODD]:
        found = explain(several_draws, observations, question.problem_id)
        for row in found.reports.to_dict("records"):
            rest = tuple(one for one in question.observations if one.level_name != row["level"])
            alone = Observations.from_questions([question.model_copy(update={"observations": rest})], answers="numeric")
            expected = several_draws.predict(alone).iloc[0]
            if pd.isna(expected["answer"]):
                assert pd.isna(row["answer_without"])
                assert np.isnan(row["confidence_without"])
            else:
                assert row["answer_without"] == expected["answer"]
                np.testing.assert_allclose(row["confidence_without"], expected["confidence"], rtol=1e-12)


def test_the_order_of_the_levels_in_the_file_changes_nothing(several_draws: Fit, observations: Observations) -> None:
    turned = [
        question.model_copy(
            update={
                "observations": tuple(one.model_copy(update={"level": 4 - one.level}) for one in question.observations)
            }
        )
        for question in observations.questions
    ]
    for name in (observations.problem_id[0], "split"):
        expected = explain(several_draws, observations, name)
        found = explain(several_draws, Observations.from_questions(turned, answers="numeric"), name)
        pd.testing.assert_frame_equal(found.reports, expected.reports)


def test_the_gold_answer_changes_nothing(several_draws: Fit, observations: Observations) -> None:
    questions = [question.model_copy(update={"gold_answer": None}) for question in observations.questions]
    unlabelled = Observations.from_questions(questions, answers="numeric")
    for problem_id in ("simulated-6-000003", "split"):
        found, blind = (explain(several_draws, one, problem_id) for one in (observations, unlabelled))
        assert found.labelled
        assert not blind.labelled
        assert (blind.gold_answer, blind.correct) == (None, None)
        assert blind.states["right"].isna().all()
        pd.testing.assert_frame_equal(found.reports, blind.reports, check_exact=True)
        pd.testing.assert_frame_equal(
            found.states.drop(columns="right"), blind.states.drop(columns="right"), check_exact=True
        )


def test_the_selected_answer_stands_first_whatever_the_rounding_of_a_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Question(problem_id="q", observations=(report(0, "a", 50), report(1, "b", 50)))
    observations = Observations.from_questions([asked], answers="text")
    fit = made_fit(observations, natural(2, weight=[1.0, 1.0], bias=[0.0, 0.0]))
    predict = Fit.predict
    monkeypatch.setattr(Fit, "predict", lambda *given, **more: predict(*given, **more).replace({"answer": {"a": "b"}}))
    found = explain(fit, observations, "q")
    assert found.states["support"].iloc[0] == found.states["support"].iloc[1]
    assert found.states["answer"].tolist()[:2] == ["b", "a"]
    assert found.states["selected"].tolist() == [True, False, False]


def test_what_is_right_is_shown(several_draws: Fit, observations: Observations) -> None:
    lone, split, silent = (explain(several_draws, observations, name) for name in ("lone", "split", "silent"))
    assert (lone.gold_answer, lone.correct) == ("5", True)
    assert lone.states["right"].tolist() == [True, False]
    assert (split.gold_answer, split.correct) == ("99", False)
    assert split.states["right"].tolist() == [False] * 5 + [True]
    assert (silent.labelled, silent.correct) == (False, None)


def test_what_cannot_be_used_is_listed_with_its_reason(several_draws: Fit, observations: Observations) -> None:
    found = explain(several_draws, observations, "hardly")
    assert found.question == "How many?"
    assert (found.answer, found.answer_as_given) == ("7", "7 eggs")
    assert found.states["answer_as_given"].fillna("").tolist() == ["7 eggs", ""]
    assert found.reports["level"].tolist() == [LEVEL_NAMES[3]]
    assert found.unusable["number"].tolist() == [1, 2, 3, 5]
    assert found.unusable["reason"].tolist() == [
        REASONS[status] for status in (Status.NO_ANSWER, Status.UNPARSABLE, Status.NO_CONFIDENCE, Status.ABSENT)
    ]
    assert found.unusable["answer"].fillna("").tolist() == ["", "3 or 4", "$5", ""]
    assert found.unusable["stated"].fillna(-1).tolist() == [0.4, 0.7, -1, -1]


def test_an_unanswered_question_has_only_the_null(several_draws: Fit, observations: Observations) -> None:
    found = explain(several_draws, observations, "silent")
    draws = draws_of(several_draws)
    expected = np.mean([draw["prior_strength"] + draw["null_base"] for draw in draws])
    np.testing.assert_allclose(found.states["concentration"], [expected], rtol=1e-12)
    assert (found.answer, found.answer_as_given, len(found.reports), found.null_probability) == (None, None, 0, 1.0)
    assert np.isnan([found.confidence, found.support, found.change_probability]).all()
    assert found.calibration.empty


def test_recalibrations_without_intercept_and_slope_and_levels_without_a_weight(observations: Observations) -> None:
    given = natural(len(LEVEL_NAMES), weight=[0.0] * len(LEVEL_NAMES))
    found = explain(made_fit(observations, given, recalibration="none", slope=1.0), observations, "split")
    assert found.recalibration == "none"
    assert found.confidence == found.support
    assert found.calibration.empty
    assert found.reports["weight_share"].isna().all()
    assert (found.reports["evidence"] == 0).all()
    np.testing.assert_allclose(found.states["support"].iloc[:-1], 0.4 / 6 / 0.6, rtol=1e-12)


def test_what_the_fit_has_seen_is_counted(several_draws: Fit, observations: Observations) -> None:
    seen, new = (explain(several_draws, observations, name) for name in (observations.problem_id[0], "lone"))
    assert (seen.learned_from, new.learned_from) == (True, False)
    assert seen.n_fitted == new.n_fitted == 4
    assert (seen.few_reports, "1 usable report," in new.few_reports) == (None, True)
    assert explain(made_fit(observations, natural(len(LEVEL_NAMES))), observations, "lone").few_reports is None


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("slient", r"no question 'slient'; .* such as 'silent', 'split'\."),
        ("?", r"no question '\?'; expected one of the 9 there, such as 'simulated-6"),
    ],
)
def test_an_unknown_question_names_its_like_or_some(
    several_draws: Fit, observations: Observations, asked: str, problem: str
) -> None:
    with pytest.raises(DirEAGError, match=problem):
        explain(several_draws, observations, asked)


def test_what_cannot_be_explained_is_refused(several_draws: Fit, observations: Observations) -> None:
    with pytest.raises(DirEAGError, match=r"'simulated-6-000003': saw 2 questions of this name; expected one"):
        explain(several_draws, observations.select(np.array([3, 4, 3])), "simulated-6-000003")
    loud = Observation(level=9, level_name="loud", answer="5", confidence=90)
    more = [*observations.questions[:3], Question(problem_id="loud", observations=(loud,))]
    with pytest.raises(LevelError, match="unknown to the fit; saw 'loud'"):
        explain(several_draws, Observations.from_questions(more, answers="numeric"), more[0].problem_id)
    with pytest.raises(DirEAGError, match="are text; expected numeric"):
        explain(several_draws, Observations.from_questions(observations.questions, answers="text"), "lone")
    for level in (0.0, 1.0, 90.0):
        with pytest.raises(DirEAGError, match="expected a probability between 0 and 1"):
            explain(several_draws, observations, "lone", interval_level=level)
