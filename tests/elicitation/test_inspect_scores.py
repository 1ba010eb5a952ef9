"""The score reducer and the metric in an evaluation by Inspect itself."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from elicitation.inspect_scores import benefit, direag_reducer
from tests.elicitation.runs import ENVIRONMENT

#: One sample a row of replies, one column an epoch; a process of its own, because Inspect leaves streams unclosed.
EVALUATION = """
import sys

from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import accuracy, pattern
from inspect_ai.solver import generate

from elicitation.inspect_scores import benefit, direag_reducer

fit, folder = sys.argv[1:]
replies = [
    ["Answer and Confidence (0-100): 5, 90%", "Answer: 7\\nConfidence: 30%", "Answer: 5\\nConfidence: 60%"],
    ["Answer: 7\\nConfidence: 80%", "Answer: 7\\nConfidence: 95%", "Answer: 5\\nConfidence: 60%"],
    ["I cannot tell.", "I cannot tell.", "I cannot tell."],
]
texts = iter([row[epoch] for epoch in range(3) for row in replies])


def output(*_):
    reply = ModelOutput.from_content("mockllm/canned", next(texts))
    reply.usage = ModelUsage()
    return reply


task = Task(
    [Sample(id=place, input="2 + 3", target="5") for place in range(3)],
    solver=generate(),
    scorer=pattern(r"Answer[^:]*: (\\d+)"),
    metrics=[accuracy(), benefit()],
    epochs=Epochs(3, direag_reducer(fit)),
)
model = get_model("mockllm/canned", custom_outputs=output)
eval(task, model=model, display="none", log_dir=folder, max_samples=1)
"""


@pytest.fixture
def fit(fitted: tuple[Path, str]) -> Path:
    return fitted[0]


@pytest.mark.slow
def test_the_fit_selects_the_answer_of_a_sample(fit: Path, tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log  # here, as it takes seconds to load where tests are collected

    command = [sys.executable, "-c", EVALUATION, str(fit), str(tmp_path)]
    subprocess.run(command, env=os.environ | ENVIRONMENT, check=True, capture_output=True)  # noqa: S603
    (path,) = tmp_path.glob("*.eval")
    log: Any = read_eval_log(str(path))
    assert log.status == "success"
    (found,) = log.reductions
    five, seven, none = found.samples
    assert (five.answer, five.value, seven.answer, seven.value) == ("5", 1, "7", 0)
    assert (none.answer, none.value, none.metadata) == (None, 0, {"probability": None})
    p, q = five.metadata["probability"], seven.metadata["probability"]
    metrics = log.results.scores[0].metrics
    assert metrics["accuracy"].value == pytest.approx(1 / 3)
    assert metrics["benefit"].value == pytest.approx((1 - (1 - p) ** 2 - q**2) / 3)


def test_the_reducer_predicts_and_the_metric_counts(fit: Path) -> None:
    from inspect_ai.scorer import SampleScore, Score

    def scored(*replies: tuple[str, str | None, str]) -> Any:
        return direag_reducer(fit)([Score(value=v, answer=a, explanation=said) for v, a, said in replies])

    line = "Answer and Confidence (0-100):"
    said = ("C", "5", f"{line} 5, 90%"), ("I", "7", f"{line} 7, 30%"), ("C", "5", f"{line} 5, 60%")
    right, wrong, none = scored(*said), scored(("I", "7", f"{line} 7, 80%")), scored(("I", None, "I cannot tell."))
    assert (right.answer, right.value, wrong.answer, wrong.value) == ("5", 1, "7", 0)
    assert (none.answer, none.value, none.metadata) == (None, 0, {"probability": None})
    p, q = right.metadata["probability"], wrong.metadata["probability"]
    reports = [("5", 90), ("7", 30), ("5", 60)]
    names = Fit.load(fit).level_names
    question = Question(
        problem_id="a",
        observations=tuple(
            Observation(level=level, level_name=names[level], answer=answer, confidence=confidence)
            for level, (answer, confidence) in enumerate(reports)
        ),
    )
    expected = Fit.load(fit).predict(Observations.from_questions([question], "numeric"))["probability"][0]
    assert p == pytest.approx(expected, abs=1e-12)
    assert 0 < q < 1
    found = benefit()([SampleScore(score=one) for one in (right, wrong, none)])
    assert found == pytest.approx((1 - (1 - p) ** 2 - q**2) / 3)
    with pytest.raises(DirEAGError, match="saw 6 epochs; expected at most 5, the levels of the fit"):
        direag_reducer(fit)([Score(value="C", answer="5")] * 6)


def test_without_inspect_the_command_that_installs_it_is_named(fit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai.scorer", None)
    for needs in (benefit, lambda: direag_reducer(fit)):
        with pytest.raises(DirEAGError, match=r'pip install "\.\[inspect\]"'):
            needs()
