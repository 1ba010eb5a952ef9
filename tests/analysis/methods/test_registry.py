"""What holds for every method, and what the names stand for."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruff import find_ruff_bin

from analysis.methods import direag
from analysis.methods.method import Answers, Method
from analysis.methods.registry import METHODS, SIMPLE_METHODS, method_words
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question
from bayes_direag.fits.fit import Fit
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import FitSettings, SamplingSettings
from bayes_direag.model.simulate import simulate_observations
from tests.made_fits import made_fit, natural

ROOT = Path(__file__).parents[3]
EVERYTHING = simulate_observations(160, seed=3)
LABELLED, TESTED = EVERYTHING.select(slice(0, 60)), EVERYTHING.select(slice(60, 160))

type Rename = Callable[[str | None], str | None]


def with_answers(observations: Observations, rename: Rename) -> Observations:
    """Return the questions with other names of their answers."""

    def renamed(question: Question) -> Question:
        reports = (report.model_copy(update={"answer": rename(report.answer)}) for report in question.observations)
        return question.model_copy(update={"observations": tuple(reports), "gold_answer": rename(question.gold_answer)})

    return Observations.from_questions([renamed(question) for question in observations.questions], "numeric")


def parity(answer: str | None) -> str | None:
    """Return whether a number is odd, as a number."""
    return None if answer is None else str(int(float(answer)) % 2)


TWO_LABELS = with_answers(EVERYTHING, parity)


def made() -> Fit:
    return made_fit(LABELLED, natural(), intercept=0.3, slope=0.8)


def said(method: Method, labelled: Observations, tested: Observations) -> Answers:
    return method.answer(method.learn(labelled, 0), tested)


def with_other_labels(observations: Observations) -> Observations:
    """Return the questions with answers that nobody gave as the right ones."""
    rows = [question.model_copy(update={"gold_answer": "-12345"}) for question in observations.questions]
    return Observations.from_questions(rows, "numeric")


def reversed_name(answer: str | None) -> str | None:
    """Give an answer another name, so that what comes first in string order comes last."""
    return None if answer is None else str(10**9 - int(float(answer)))


(CONTRIBUTED,) = re.findall("```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)


def of_contributing(code: str = CONTRIBUTED) -> Method:
    """Return the method that CONTRIBUTING.md adds."""
    assert len([line for line in code.splitlines() if line and not line.startswith(('"""', "from", "import"))]) <= 20
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the document is the project's own
    return names["SUREST"]


FITTED = Method(lambda *_: made(), direag.after_calibration, words="the fit of made()", spoken="a made fit")
EVERY = {**SIMPLE_METHODS, "direag": FITTED, "CONTRIBUTING": of_contributing()}


@pytest.mark.parametrize(
    ("method", "questions"),
    [(method, TWO_LABELS if method.needs_two_labels else EVERYTHING) for method in EVERY.values()],
    ids=EVERY,
)
class TestEveryMethod:
    def test_it_answers_with_a_probability_of_a_distribution_over_the_states_there_are(
        self, method: Method, questions: Observations
    ) -> None:
        labelled, tested = questions.select(slice(0, 60)), questions.select(slice(60, 160))
        answers = said(method, labelled, tested)
        answered = answers.candidate >= 0
        assert (answers.candidate < tested.n_candidates).all()
        assert ((answers.confidence[answered] >= 0) & (answers.confidence[answered] <= 1)).all()
        assert np.isnan(answers.confidence[~answered]).all()
        assert answered.mean() > 0.8
        if answers.distribution is None:
            assert np.isnan(answers.state_probability(tested)).all()
            return
        assert answers.distribution.shape == (100, tested.n_levels + 1)
        np.testing.assert_allclose(answers.distribution.sum(axis=1), 1)
        absent = np.arange(tested.n_levels) >= tested.n_candidates[:, None]
        assert (answers.distribution[:, :-1][absent] == 0).all()
        rows = zip(answers.distribution, tested.correct_candidate, strict=True)
        expected = np.array([row[:-1][is_right].sum() if is_right.any() else row[-1] for row, is_right in rows])
        np.testing.assert_allclose(answers.state_probability(tested)[tested.answered], expected[tested.answered])

    def test_what_must_not_matter(self, method: Method, questions: Observations) -> None:
        """Neighbours, labels of what is answered, the order of the labelled questions, and what answers are called."""
        labelled, tested = questions.select(slice(0, 60)), questions.select(slice(60, 160))
        expected = said(method, labelled, tested)
        few = np.array([7, 3, 50])
        part = said(method, labelled, tested.select(few))
        np.testing.assert_array_equal(part.candidate, expected.candidate[few])
        np.testing.assert_allclose(part.confidence, expected.confidence[few])
        changed = with_other_labels(tested)
        blind = said(method, labelled, changed)
        np.testing.assert_array_equal(blind.confidence, expected.confidence)
        assert not blind.is_right(changed).any()
        shuffled = said(method, labelled.select(np.random.default_rng(0).permutation(60)), tested)
        np.testing.assert_array_equal(shuffled.candidate, expected.candidate)
        np.testing.assert_allclose(shuffled.confidence, expected.confidence, atol=1e-5)
        renamed = with_answers(questions, reversed_name)
        other = said(method, renamed.select(slice(0, 60)), renamed.select(slice(60, 160)))
        np.testing.assert_allclose(other.confidence, expected.confidence, atol=1e-5)

    def test_nobody_right_everybody_right_and_no_report_at_all(self, method: Method, questions: Observations) -> None:
        labelled, tested = questions.select(slice(0, 60)), questions.select(slice(60, 160))
        silent = tested.questions[0].model_copy(update={"problem_id": "silent", "observations": ()})
        few = Observations.from_questions([*tested.questions[:3], silent], "numeric").align(labelled.level_names)
        right = labelled.select(labelled.correct.all(axis=1))
        for part in (right, labelled.select(~labelled.gold_generated)):
            assert len(part)
            answers = said(method, part, few)
            assert answers.candidate[3] == -1
            assert np.isnan(answers.confidence[3])
            answered = answers.candidate >= 0
            assert np.isfinite(answers.confidence[answered]).all()
            assert np.isnan(answers.state_probability(few)[3])


@pytest.mark.parametrize("way", ["map", "nuts"])
def test_registry_has_a_fit_before_and_after_its_calibration(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fits(settings: FitSettings, subset: Observations, chosen: np.ndarray) -> list[Fit]:
        asked.append((settings, subset, chosen.all()))
        return [made()]

    monkeypatch.setattr(direag, "fits_by", fits)
    sampling = SamplingSettings(num_chains=2, num_samples=40)
    methods = direag.fitted_methods(FitSettings(PRESETS["paper"], way, sampling))
    assert set(methods) == set(direag.FITTED_METHODS)
    before, after = methods["direag_raw"], methods["direag"]
    assert before.learn == after.learn
    learned = before.learn(LABELLED, 5)
    assert asked == [(FitSettings(PRESETS["paper"], way, sampling, seed=5), LABELLED, True)]
    table = made().predict(TESTED)
    for method, column in ((before, "support"), (after, "probability")):
        answers = method.answer(learned, TESTED)
        np.testing.assert_allclose(answers.confidence, table[column])
        np.testing.assert_array_equal(answers.is_right(TESTED), TESTED.is_right(table["answer"]))
    np.testing.assert_allclose(answers.distribution[:, -1], table["null_probability"])


def test_registry_method_of_a_posterior_has_its_mean_distribution(nuts: Fit) -> None:
    for stage in (direag.before_calibration, direag.after_calibration):
        answers = stage(nuts, TESTED)
        support = answers.distribution[np.arange(100), np.maximum(answers.candidate, 0)]
        np.testing.assert_allclose(support[TESTED.answered], answers.confidence[TESTED.answered])
        np.testing.assert_allclose(answers.distribution.sum(axis=1), 1)
    np.testing.assert_allclose(answers.null_probability, nuts.predict(TESTED)["null_probability"])


def test_method_of_contributing_passes_the_linter() -> None:
    given = {"input": CONTRIBUTED, "text": True, "cwd": ROOT, "check": True}
    for check in (["check"], ["format", "--check"]):
        subprocess.run([find_ruff_bin(), *check, "--stdin-filename", "analysis/methods/surest.py"], **given)  # noqa: S603


def test_registry_has_words_for_every_name() -> None:
    methods = {**METHODS, **EVERY}
    assert [name for name, method in methods.items() if not (method.words.strip() and method.spoken.strip())] == []
    assert method_words("majority_platt") == "majority, recalibrated on labelled questions by Platt scaling"
