"""A scikit-learn estimator: for pipelines, parameter searches and cross-validation.

A sample is a question, and not one of a few classes: ``predict`` is about answers, and ``predict_proba`` about whether
they are right, so scikit-learn's scorers of probabilities cannot be used. Leave ``scoring`` out for the benefit, or
give a function of estimator, X and y. ``accuracy`` needs y in canonical form; without y scikit-learn itself turns the
error into NaN, unless ``error_score="raise"``.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.columns import Columns
from bayes_direag.data.labels import Labels
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, WeightError
from bayes_direag.fits.fitting import fit_by
from bayes_direag.fits.sources import observations_of
from bayes_direag.model import presets
from bayes_direag.model.presets import PresetLike
from bayes_direag.model.settings import FitMethod, FitSettings, RecalibrationMethod, SamplingSettings


@dataclass(eq=False, repr=False)
class DirEAG(BaseEstimator):  # type: ignore[misc]
    """A fit by :func:`~bayes_direag.fit_map` or :func:`~bayes_direag.fit_nuts` as an estimator; it is in ``fit_``.

    X are :class:`~bayes_direag.Observations`, records, or a frame with a row a question; y are the gold answers, or
    None if X has them. ``GroupKFold`` with ``groups=observations.cluster_number`` keeps clusters together.

    Examples
    --------
    >>> from bayes_direag import DirEAG, simulate_observations
    >>> observations = simulate_observations(n=200, seed=1)
    >>> model = DirEAG().fit(observations[:150])
    >>> model.predict(observations[150:]).shape, model.predict_proba(observations[150:]).shape
    ((50,), (50, 2))
    """

    #: ``map`` or ``nuts``, with ``preset``, ``sampling`` and ``seed`` as these functions have them.
    method: FitMethod = "map"
    preset: PresetLike = "bayes"
    #: Method of the final calibration; None: the preset's.
    recalibration: RecalibrationMethod | None = None
    sampling: SamplingSettings | None = None
    #: How the answers of frames and records are compared; None: inferred from the gold answers.
    answers: AnswerKind | None = None
    seed: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "DirEAG":  # noqa: N803 - scikit-learn's names
        """Fit to the labelled questions of X, with y and weights in place of those in X, where these are given.

        A weight is how many questions each one counts as; not negative. Raises DirEAGError, as
        :func:`~bayes_direag.fit_map` does.
        """
        final: dict[str, Any] = {} if self.recalibration is None else {"recalibration": {"method": self.recalibration}}
        preset, observations = presets.preset(presets.preset(self.preset), **final), _questions(X, y, self.answers)
        if sample_weight is not None:
            observations = observations.weighted(sample_weight)
            if not observations.weight.any():
                raise WeightError("sample_weight: saw zero for every question; expected more for some. Correct it.")
        self.fit_ = fit_by(FitSettings(preset, self.method, self.sampling, seed=self.seed), observations)
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " question"]:  # noqa: N803
        """Return the canonical selected answer of each question; None where no report is usable."""
        questions = self._read(X)
        answers = self.fit_.predict(questions)["answer"].astype(object)
        return np.asarray(answers.where(answers.notna(), None))

    def predict_proba(self, X: Any) -> Float[np.ndarray, "question 2"]:  # noqa: N803
        """Return the probabilities that each selected answer is wrong and that it is right; 1 and 0 without an answer.

        ``fit_.predict_candidates`` gives the probabilities of all candidates.
        """
        questions = self._read(X)
        right = self.fit_.predict(questions)["probability"].fillna(0.0).to_numpy()
        return np.column_stack([1 - right, right])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the benefit of the selected answers: accuracy minus the Brier score of their probabilities.

        A question without a selected answer counts 0; unlabelled questions are left out. X and y are as in :meth:`fit`.
        The weights of questions count only if they are given here. Raises DirEAGError if no question is labelled.
        """
        observations = self._read(X, y)
        weight = np.ones(len(observations)) if sample_weight is None else observations.weighted(sample_weight).weight
        is_known = observations.labelled & (weight > 0)
        if not is_known.any():
            raise DirEAGError(
                f"score: saw {len(observations)} questions, none with a gold answer and a weight; expected some. "
                "Give y."
            )
        known = observations[is_known]
        table = self.fit_.predict(known, warn=False)
        right, probability = known.is_right(table["answer"]), table["probability"].fillna(0.0).to_numpy()
        return float(np.average(right - (right - probability) ** 2, weights=weight[is_known]))

    def _read(self, X: Any, y: Any = None) -> Observations:  # noqa: N803
        check_is_fitted(self)
        return _questions(X, y, self.fit_.answers, self.fit_.columns)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _questions(X: Any, y: Any, answers: AnswerKind | None, columns: Columns | None = None) -> Observations:  # noqa: N803
    """Return the observations of X, with the gold answers of y unless it is None.

    Raises DirEAGError if a sample of X is no question, as where a frame has a row a report.
    """
    labels = pd.DataFrame({"problem_id": "", "gold_answer": pd.Series([] if y is None else [*y], dtype=object)})
    if y is not None and not isinstance(X, Observations):
        answers = answers or Labels.of(labels).kind(())
    observations = observations_of(X, answers, columns, "DirEAG")
    if not isinstance(X, str) and hasattr(X, "__len__") and len(X) != len(observations):
        raise DirEAGError(
            f"DirEAG: saw {len(X)} rows with the reports on {len(observations)} questions; expected a row a question, "
            "as scikit-learn deals rows to folds (KFold would split questions). Give Observations.from_frame(frame, "
            "...), which it deals by question; where questions have clusters, with GroupKFold."
        )
    if y is None:
        return observations
    check_consistent_length(observations.problem_id, labels)
    none = {name: np.zeros_like(getattr(observations, name)) for name in ("correct", "labelled", "conflicting")}
    return replace(observations, **none).with_labels(labels.assign(problem_id=observations.problem_id))
