"""A fit to questions counted by pattern knows how many they were, and does not say which."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console, RenderableType

from analysis.comparison.comparison_findings import Findings, FitPair, add_parameters, add_predictions
from analysis.comparison.comparison_findings import describe_fit as described_for_comparison
from analysis.display.style import LeftOut
from analysis.explanation.explanation import explain
from analysis.explanation.explanation_display import explanation_figure, explanation_text
from analysis.learned import describe_fit, fit_pictures
from bayes_direag.data.counted import count_patterns
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import said

N = 200


@pytest.fixture(scope="module")
def questions() -> Observations:
    """Questions with two confidences only, so that patterns repeat."""
    found = simulate_observations(N, seed=3)
    return replace(found, confidence=np.where(found.usable, np.where(found.confidence > 0.5, 0.9, 0.1), np.nan))


@pytest.fixture(scope="module")
def plain(questions: Observations) -> Fit:
    return fit_map(questions, preset="paper")


@pytest.fixture(scope="module")
def counted(questions: Observations) -> Fit:
    fit = fit_map(count_patterns(questions), preset="paper")
    assert fit.tree["constant_data"].sizes["problem"] < N
    return fit


def shown(*parts: RenderableType) -> str:
    console = Console(file=StringIO(), width=500)
    console.print(*parts)
    return " ".join(console.file.getvalue().split())


def test_it_says_how_many_and_not_which(counted: Fit, plain: Fit, questions: Observations) -> None:
    assert (counted.n_questions, counted.learned_from, counted.has_seen(questions)) == (N, None, None)
    assert (plain.n_questions, plain.learned_from) == (N, frozenset(questions.problem_id))
    assert plain.has_seen(questions).all()
    assert counted.multiplicity.sum() == plain.multiplicity.sum() == N


@pytest.mark.parametrize("describe", [describe_fit, described_for_comparison])
def test_captions_count_questions(counted: Fit, describe) -> None:
    assert f"{N} questions" in describe(counted)


def test_a_comparison_says_that_it_is_not_known(counted: Fit, plain: Fit, questions: Observations) -> None:
    findings = Findings()
    pair = FitPair.of({"one": plain, "other": counted})
    add_parameters(findings, pair)
    add_predictions(findings, pair, questions, seed=0, n_resamples=20)
    text = shown(*findings.shown)
    assert f"The fits learned from {N} and {N} questions. Whether these are the same is not known" in text
    assert findings.record["questions_fitted"] == {"first": N, "second": N, "both": None}
    told = f"perhaps in sample: other does not say which questions were fitted to; {N} of {N} questions were fitted to"
    assert f"{told} by one" in text
    assert f"Metrics on {N} labelled questions (in sample, see above)" in text
    assert findings.tables["predictions"]["first_fitted"].all()
    assert findings.tables["predictions"]["second_fitted"].isna().all()
    assert findings.record["predictions"]["second_fitted"] is None


def test_two_that_do_not_say(counted: Fit, questions: Observations) -> None:
    findings = Findings()
    add_predictions(findings, FitPair.of({"a": counted, "b": counted}), questions, seed=0, n_resamples=20)
    text = shown(*findings.shown)
    assert "perhaps in sample: a and b do not say which questions were fitted to" in text
    assert f"Metrics on {N} labelled questions (perhaps in sample, see above)" in text


def test_an_explanation_does_not_call_a_question_new(counted: Fit, plain: Fit, questions: Observations) -> None:
    found, expected = (explain(fit, questions, questions.problem_id[7]) for fit in (counted, plain))
    assert (found.n_fitted, found.n_fitted_as_few) == (expected.n_fitted, expected.n_fitted_as_few) == (N, N)
    assert (found.learned_from, expected.learned_from) == (None, True)
    text = shown(explanation_text(found))
    assert f"learned from {N} questions, counted by pattern; it does not say whether this one is among them" in text
    assert f"learned from {N} questions, and does not say whether from this one." in said(explanation_figure(found))


def test_pictures_count_questions(counted: Fit, plain: Fit) -> None:
    ours, theirs = (
        {one.name: one for one in fit_pictures(fit) if not isinstance(one, LeftOut)} for fit in (counted, plain)
    )
    stated = [one["calibration_curves"].tables["calibration_curves_stated"] for one in (ours, theirs)]
    pd.testing.assert_frame_equal(*stated)
    support = ours["recalibration"].tables["recalibration_support"]
    assert support["multiplicity"].sum() == N
    assert list(theirs["recalibration"].tables["recalibration_support"]) == ["problem_id", "support"]
    heights = [
        [bar.get_height() for bar in one["recalibration"].figure.axes[1].containers[0]] for one in (ours, theirs)
    ]
    np.testing.assert_array_equal(*heights)
    assert f"n = {N} fitted questions" in said(ours["recalibration"].figure)
