"""Explanations: against prediction, against the printed equations in plain Python, by what must add up, and shown."""

import json
from functools import partial
from io import StringIO

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
from bayes_direag.inference.posterior import sampled_parameters
from bayes_direag.model.simulate import LEVEL_NAMES, simulate_observations
from tests.analysis.fits import around, made_fit, natural
from tests.bayes_direag import brute_force
from tests.command_line import direag, one_line, refuse

run = partial(direag, "explain")


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
OBSERVATIONS = Observations.from_questions([*simulate_observations(n=5, seed=6).questions, *ODD], answers="numeric")
NAMES = pytest.mark.parametrize("name", OBSERVATIONS.problem_id)


def fits() -> dict[str, Fit]:
    given, rng = natural(len(LEVEL_NAMES)), np.random.default_rng(3)
    votes = natural(len(LEVEL_NAMES), sharpness=1.7, vote=[0.9, -0.3, 0.0, 1.4, 0.2])
    return {
        "map": made_fit(OBSERVATIONS.select(slice(0, 4)), given, intercept=0.2, slope=1.3),
        "nuts": made_fit(OBSERVATIONS.select(slice(0, 4)), around(given, rng, n_draws=12, spread=0.5), slope=1.3),
        "votes": made_fit(OBSERVATIONS.with_agreement(), votes),
    }


FITS = fits()
KINDS = pytest.mark.parametrize("kind", FITS)


def draws_of(fit: Fit) -> list[dict[str, object]]:
    parameters = sampled_parameters(fit.tree)._asdict()
    given = {name: draws for name, draws in parameters.items() if draws is not None}
    return [{name: draws[k].tolist() for name, draws in given.items()} for k in range(fit.n_samples)]


def by_state(found: Explanation, column: str) -> dict[str, float]:
    return dict(zip(found.states["answer"].fillna(brute_force.NULL), found.states[column], strict=True))


@KINDS
@NAMES
def test_every_figure_is_that_of_the_printed_equations_and_adds_up(kind: str, name: str) -> None:
    fit, row = FITS[kind], OBSERVATIONS.problem_id.index(name)
    found, reports = explain(fit, OBSERVATIONS, name), brute_force.reports_of(OBSERVATIONS, row)
    draws = draws_of(fit)
    for column, of_draw in (("concentration", brute_force.concentrations), ("support", _support)):
        rows = [of_draw(reports, draw, fit.preset.eps) for draw in draws]
        expected = {state: np.mean([row[state] for row in rows]) for state in rows[0]}
        assert by_state(found, column) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found.parts.sum(), found.states["support"], rtol=1e-12)
    added = found.states[["evidence", "prior", "null_base"]].sum(axis=1)
    np.testing.assert_allclose(added, found.states["concentration"], rtol=1e-12)
    assert found.reports[["level", "answer", "stated"]].to_numpy().tolist() == [
        [LEVEL_NAMES[level], answer, stated] for level, answer, stated in reports
    ]
    np.testing.assert_allclose(found.reports["evidence"].sum(), found.states["evidence"].iloc[:-1].sum(), rtol=1e-12)


def _support(reports: list[tuple[int, str, float]], draw: dict[str, object], eps: float) -> dict[str, float]:
    return brute_force.support(brute_force.scores(reports, draw, eps))


@KINDS
@NAMES
def test_it_is_the_prediction_and_without_a_report_that_of_a_file_without_it(kind: str, name: str) -> None:
    fit, row = FITS[kind], OBSERVATIONS.problem_id.index(name)
    found, question = explain(fit, OBSERVATIONS, name, interval_level=0.8), OBSERVATIONS.questions[row]
    expected = fit.predict(OBSERVATIONS.select(np.array([row])), interval_level=0.8).iloc[0]
    pd.testing.assert_series_equal(found.prediction, expected, check_names=False, rtol=1e-12)
    for own in found.reports.itertuples():
        rest = tuple(one for one in question.observations if one.level_name != own.level)
        alone = Observations.from_questions([question.model_copy(update={"observations": rest})], answers="numeric")
        without = fit.predict(alone, warn=False).iloc[0]
        assert str(own.answer_without) == str(without["answer"])
        np.testing.assert_allclose(own.probability_without, without["probability"], rtol=1e-12)


@KINDS
@NAMES
def test_it_fits_80_columns_says_what_decided_and_draws_every_part(kind: str, name: str) -> None:
    found = explain(FITS[kind], OBSERVATIONS, name)
    console = Console(file=StringIO(), width=80, markup=False, emoji=False, highlight=False)
    console.print(shown(found.blocks()))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert one_line(found.conclusion) in one_line(text)
    assert ("x votes" in text) == bool((found.reports["vote_factor"] != 1).any())
    axes = found.figure().axes[0]
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(1)
    assert len(axes.get_yticklabels()) == len(found.states)


def test_what_cannot_be_used_is_listed_with_its_reason_and_the_label_changes_nothing() -> None:
    found = explain(FITS["nuts"], OBSERVATIONS, "hardly")
    reasons = [REASONS[s] for s in (Status.NO_ANSWER, Status.UNPARSABLE, Status.NO_CONFIDENCE, Status.ABSENT)]
    assert found.unusable["reason"].tolist() == reasons
    assert found.states["right"].tolist() == [True, False]
    hidden = [question.model_copy(update={"gold_answer": None}) for question in OBSERVATIONS.questions]
    blind = explain(FITS["nuts"], Observations.from_questions(hidden, answers="numeric"), "hardly")
    assert blind.states["right"].isna().all()
    for name in ("reports", "states"):
        ours, theirs = (getattr(one, name).drop(columns="right", errors="ignore") for one in (found, blind))
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)


def test_the_command(tmp_path) -> None:
    FITS["nuts"].save(tmp_path / "fit.nc")
    OBSERVATIONS.write(tmp_path / "o.jsonl")
    given = tmp_path / "fit.nc", tmp_path / "o.jsonl"
    assert run(*given, "split", "--out", tmp_path / "why.svg").stdout.startswith("split: ")
    assert (tmp_path / "why.svg").read_text().startswith("<?xml")
    record = json.loads(run(*given, "silent", "--json").stdout)
    assert (record["answer"], record["states"][-1]["answer"]) == (None, None)
    assert "o.jsonl: saw 0 questions 'slient'; expected one of the 9 there, such as 'silent', 'split'" in one_line(
        refuse("explain", *given, "slient")
    )
    assert "no figure can be written as '.gif'" in refuse("explain", *given, "split", "--out", tmp_path / "why.gif")


def test_a_name_that_occurs_twice() -> None:
    with pytest.raises(DirEAGError, match=r"saw 2 questions 'lone'; expected one"):
        explain(FITS["map"], OBSERVATIONS.select(np.array([5, 6, 5])), "lone")
