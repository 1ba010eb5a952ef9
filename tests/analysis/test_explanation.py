"""Explanations: against prediction, against the printed equations in plain Python, by what must add up, and shown."""

import json
from io import StringIO
from itertools import product

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.display.terminal import shown
from analysis.explanation import REASONS, Explanation, explain
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question, Status
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import LEVEL_NAMES, simulate_observations
from tests.bayes_direag import brute_force
from tests.bayes_direag.fits.test_groups import grouped
from tests.command_line import direag, one_line
from tests.made_fits import made_fit, natural


def report(level: int, answer: str | None, confidence: float | None) -> Observation:
    return Observation(level=level, level_name=LEVEL_NAMES[level], answer=answer, confidence=confidence)


#: A lone report, one of each reason, and answers that all differ, at 0 % and at 100 %.
ODD = (
    Question(problem_id="lone", gold_answer="5", observations=(report(2, "5", 90),)),
    Question(
        problem_id="hardly",
        gold_answer="7",
        question="How many [bold]$x$?",
        observations=(report(0, None, 40), report(1, "3 or 4", 70), report(2, "$5", None), report(3, "7 eggs", 0)),
    ),
    Question(
        problem_id="split",
        gold_answer="99",
        observations=tuple(report(level, str(level), 100 * (level % 2)) for level in range(len(LEVEL_NAMES))),
    ),
    Question(problem_id="silent", observations=(report(0, None, 50),)),
)
OBSERVATIONS = Observations.from_questions([*simulate_observations(n=3, seed=6).questions, *ODD], answers="numeric")


@pytest.fixture(scope="module")
def fits(point: Fit, nuts: Fit) -> dict[str, Fit]:
    """Return a MAP, some draws, and a fit of the paper's model, whose null gain is not 1."""
    few = Fit(nuts.tree.isel(draw=slice(None, None, 60)))
    return {"map": point, "nuts": few, "paper": made_fit(OBSERVATIONS.select(slice(0, 4)), natural(), intercept=0.2)}


def by_state(explanation: Explanation, column: str) -> dict[str, float]:
    return dict(zip(explanation.states["answer"].fillna(brute_force.NULL), explanation.states[column], strict=True))


@pytest.fixture(scope="module", params=product(["map", "nuts", "paper"], OBSERVATIONS.problem_id), ids=" ".join)
def explanation(request, fits: dict[str, Fit]) -> Explanation:
    kind, name = request.param
    return explain(fits[kind], OBSERVATIONS, name, interval_level=0.8)


def place_of(explanation: Explanation) -> int:
    return OBSERVATIONS.problem_id.index(explanation.prediction["problem_id"])


def test_explanation_figures_are_those_of_the_printed_equations_and_add_up(explanation: Explanation) -> None:
    reports = brute_force.reports_of(OBSERVATIONS, place_of(explanation))
    draws, eps = brute_force.of_draws(explanation.fit), explanation.fit.preset.eps
    rows = [brute_force.support(brute_force.scores(reports, draw, eps)) for draw in draws]
    expected = {state: np.mean([row[state] for row in rows]) for state in rows[0]}
    assert by_state(explanation, "support") == pytest.approx(expected, rel=1e-12)
    assert explanation.reports[["level", "answer", "stated"]].to_numpy().tolist() == [
        [LEVEL_NAMES[level], answer, stated] for level, answer, stated in reports
    ]
    answer = explanation.answer
    for number, row in explanation.reports.iterrows():
        rest = [report for k, report in enumerate(reports) if k != number]
        each = [brute_force.support(brute_force.scores(rest, draw, eps)).get(answer, 0.0) for draw in draws]
        assert row["support_without"] == pytest.approx(np.mean(each), rel=1e-12)
        assert row["adds"] == pytest.approx(expected[answer] - np.mean(each), abs=1e-12)


def test_explanation_is_the_prediction_and_that_of_files_without_a_report_or_with_it_alone(
    explanation: Explanation,
) -> None:
    row = place_of(explanation)
    question, fit = OBSERVATIONS.questions[row], explanation.fit
    expected = fit.predict(OBSERVATIONS.select(np.array([row])), interval_level=0.8, warn=False).iloc[0]
    pd.testing.assert_series_equal(explanation.prediction, expected, check_names=False, rtol=1e-12)
    for own in explanation.reports.itertuples():
        parts = [
            tuple(one for one in question.observations if (one.level_name == own.level) == is_it) for is_it in (0, 1)
        ]
        files = [
            question.model_copy(update={"observations": part, "problem_id": str(n)}) for n, part in enumerate(parts)
        ]
        predicted = fit.predict(Observations.from_questions(files, answers="numeric"), warn=False)
        assert [own.answer_without, own.answer] == predicted["answer"].tolist()
        np.testing.assert_allclose([own.probability_without, own.alone], predicted["probability"], rtol=1e-12)


def test_explanation_of_levels_in_groups_is_by_report(groups: Fit, simulated: Observations) -> None:
    """A run has the agreement of its group; without it, and alone, it is predicted as a file of such rows."""
    asked = grouped(simulated.select(slice(120, 160)))
    row = int((asked.usable.all(axis=1) & (asked.n_candidates > 2)).argmax())
    explanation, frame = explain(groups, asked, asked.problem_id[row]), asked.select(slice(row, row + 1)).to_frame()
    assert explanation.reports["level"].tolist() == list(LEVEL_NAMES)
    share = dict(zip(groups.level_names, groups.fitted.agreement.share, strict=True))
    assert explanation.reports["agreement"].tolist() == [share[name] for name in asked.groups]
    for own in explanation.reports.itertuples():
        is_own = frame["level_name"] == own.level
        for rows, answer, probability in (
            (~is_own, own.answer_without, own.probability_without),
            (is_own, own.answer, own.alone),
        ):
            predicted = groups.predict(Observations.from_frame(frame[rows], answers="numeric"), warn=False).iloc[0]
            assert predicted["answer"] == answer
            assert predicted["probability"] == pytest.approx(probability, rel=1e-12)
    assert len(explanation.figure().axes[0].patches) == len(LEVEL_NAMES)


def test_explanation_fits_80_columns_says_what_decided_and_draws_every_part(explanation: Explanation) -> None:
    console = Console(file=StringIO(), width=80, markup=False, emoji=False, highlight=False)
    console.print(shown(explanation.blocks()))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert one_line(explanation.conclusion) in one_line(text)
    assert repr(explanation).startswith(f"Explanation({explanation.prediction['problem_id']}: ")
    axes = explanation.figure().axes[0]
    rows = explanation.reports.sort_values("adds", ascending=False, kind="stable")
    assert [label.get_text().partition(":")[0] for label in axes.get_yticklabels()] == rows["level"].tolist()
    for bar, row in zip(axes.patches, rows.itertuples(), strict=True):
        assert bar.get_width() == pytest.approx(-row.adds, abs=1e-12)


def test_explanation_lists_what_cannot_be_used_and_does_not_depend_on_the_label(fits: dict[str, Fit]) -> None:
    explanation = explain(fits["nuts"], OBSERVATIONS, "hardly")
    reasons = [REASONS[s] for s in (Status.NO_ANSWER, Status.UNPARSABLE, Status.NO_CONFIDENCE, Status.ABSENT)]
    assert explanation.unusable["reason"].tolist() == reasons
    assert explanation.states["right"].tolist() == [True, False]
    hidden = [question.model_copy(update={"gold_answer": None}) for question in OBSERVATIONS.questions]
    blind = explain(fits["nuts"], Observations.from_questions(hidden, answers="numeric"), "hardly")
    assert blind.states["right"].isna().all()
    for name in ("reports", "states"):
        ours, theirs = (getattr(one, name).drop(columns="right", errors="ignore") for one in (explanation, blind))
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)


def test_explanation_refuses_unknown_names_and_takes_an_unanswered_question(fits: dict[str, Fit], tmp_path) -> None:
    with pytest.raises(DirEAGError, match=r"saw 2 questions 'lone'; expected one"):
        explain(fits["map"], OBSERVATIONS.select(np.array([3, 4, 3])), "lone")
    with pytest.raises(DirEAGError, match=r"saw 0 questions 'slient'; expected one of the 7 there, such as 'silent'"):
        explain(fits["map"], OBSERVATIONS, "slient")
    fits["map"].save(tmp_path / "fit.nc")
    OBSERVATIONS.write(tmp_path / "o.jsonl")
    record = json.loads(direag("explain", tmp_path / "fit.nc", tmp_path / "o.jsonl", "silent", "--json").stdout)
    assert (record["answer"], record["states"][-1]["answer"]) == (None, None)
