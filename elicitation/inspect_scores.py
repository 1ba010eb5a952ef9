"""For Inspect: a score reducer that selects one answer from a sample's epochs by a fit, and the metric benefit."""

from pathlib import Path
from typing import Any

from bayes_direag.data.answers import same_answer
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Observation, Question
from bayes_direag.errors import DirEAGError
from elicitation.importing.inspect_log import inspect_module
from elicitation.parsing import read_reply


def direag_reducer(fit: str | Path) -> Any:
    """Return a score reducer for ``Epochs(n, direag_reducer(fit))``: a fit selects the answer of a sample.

    Epoch k is level k of the fit, as in ``direag import inspect``. Answers are those of the scorer. Their confidences
    are read from the explanation of the score, where Inspect's own scorers put the reply. The reduced score has the
    selected answer, the scorer's value for it, 1 or 0, and in its metadata the ``probability`` of being right. Without
    a usable reply it has no answer, and the probability is None. Raises DirEAGError if inspect_ai is not installed, or
    there are more epochs than the fit has levels.

    Parameters
    ----------
    fit : path-like
        A fit, as ``direag fit`` writes it.
    """
    from bayes_direag.fits.fit import Fit

    inspect = inspect_module("scorer", "Inspect's scores need")
    learned = Fit.load(fit)
    kind, names, as_float = learned.tree.attrs["answers"], learned.level_names, inspect.value_to_float()

    def reduce(scores: list[Any]) -> Any:
        if len(scores) > len(names):
            raise DirEAGError(f"saw {len(scores)} epochs; expected at most {len(names)}, the levels of the fit.")
        observations = [
            Observation(
                level=level,
                level_name=names[level],
                answer=score.answer,
                confidence=read_reply(score.explanation or "", None, kind=kind).confidence,
            )
            for level, score in enumerate(scores)
        ]
        question = Question(problem_id="sample", observations=tuple(observations))
        (row,) = learned.predict(Observations.from_questions([question], kind)).to_dict("records")
        if not isinstance(row["answer"], str):
            return inspect.Score(value=0, metadata={"probability": None})
        value = next(as_float(score.value) for score in scores if same_answer(score.answer, row["answer"], kind))
        return inspect.Score(value=value, answer=row["answer"], metadata={"probability": float(row["probability"])})

    reduce.__name__ = "direag"
    return inspect.score_reducer(name="direag")(lambda: reduce)()


def benefit() -> Any:
    """Return the metric ``benefit``: accuracy minus Brier score of the selected answers, 0 without an answer.

    Raises DirEAGError if inspect_ai is not installed.
    """
    metric = inspect_module("scorer", "Inspect's scores need").metric

    def mean_benefit(scores: list[Any]) -> float:
        pairs = [(entry.score.as_float(), (entry.score.metadata or {}).get("probability")) for entry in scores]
        gains = [0.0 if probability is None else right - (probability - right) ** 2 for right, probability in pairs]
        return sum(gains) / len(gains) if gains else float("nan")

    return metric(name="benefit")(lambda: mean_benefit)()
