"""A scikit-learn estimator: for pipelines, parameter searches and cross-validation.

X are the questions with their reports, in any form that :meth:`Fit.predict <bayes_direag.fits.fit.Fit.predict>` takes;
y are their gold answers, or None if X has them. In :class:`~bayes_direag.Observations` and lists of records a sample is
a question. A frame in long form has one row per report, and scikit-learn splits it row by row: give ``GroupKFold`` its
column of questions as ``groups``, or make ``Observations`` of the frame. ``GroupKFold`` with
``groups=observations.cluster_number`` keeps clusters together.

``predict`` is about answers: which one is selected. ``predict_proba`` is about correctness: whether that one is right.
scikit-learn's own scorers by name compare either with y, the gold answers. So those that take probabilities
(``neg_log_loss``, ``roc_auc`` ...) are refused, and ``accuracy`` calls an answer wrong if gold is not spelled in
canonical form. :meth:`DirEAG.scorer` makes scorers that work.
"""

from collections.abc import Callable
from traceback import walk_stack
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped
from sklearn.base import BaseEstimator
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.fits.sources import observations_of
from bayes_direag.model import presets
from bayes_direag.model.settings import FitMethod, Preset, RecalibrationMethod, SamplingSettings, Variant


class DirEAG(BaseEstimator):  # type: ignore[misc]
    """A fit by :func:`~bayes_direag.fit_map` or :func:`~bayes_direag.fit_nuts` as an estimator.

    It is not a scikit-learn classifier, because every question has its own candidates: :meth:`predict` returns answers,
    :meth:`predict_proba` whether they are right.

    Parameters
    ----------
    method
        ``map`` or ``nuts``.
    preset, variant, sampling, seed
        As in :func:`~bayes_direag.fit_map` and :func:`~bayes_direag.fit_nuts`.
    recalibration
        Method of the final calibration; None: the preset's.
    answers
        How the answers of frames, records and files are compared; None: inferred from the gold answers.

    Attributes
    ----------
    fit_ : Fit
        The fit.
    classes_ : array of bool
        What the columns of :meth:`predict_proba` stand for: False, the selected answer is wrong, and True, it is right.

    Examples
    --------
    >>> from bayes_direag import DirEAG, simulate_observations
    >>> observations = simulate_observations(n=200, seed=1)
    >>> model = DirEAG().fit(observations[:150])
    >>> model.predict(observations[150:]).shape, model.predict_proba(observations[150:]).shape
    ((50,), (50, 2))
    """

    def __init__(
        self,
        method: FitMethod = "map",
        preset: str | Preset = "bayes",
        variant: Variant = "confidence",
        recalibration: RecalibrationMethod | None = None,
        sampling: SamplingSettings | None = None,
        answers: AnswerKind | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.preset = preset
        self.variant = variant
        self.recalibration = recalibration
        self.sampling = sampling
        self.answers = answers
        self.seed = seed

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "DirEAG":  # noqa: N803 - scikit-learn's names
        """Fit to the labelled questions of X; raises as :func:`~bayes_direag.fit_map` does, or DirEAGError.

        Parameters
        ----------
        X
            Questions: observations, a frame in long form, records or the path of a file.
        y
            A gold answer for each row of X, in place of those in X.
        sample_weight
            How many questions each one counts as, in place of the weights in X; not negative.
        """
        settings = presets.preset(self.preset)
        if self.recalibration is not None:
            settings = settings.override(recalibration={"method": self.recalibration})
        common: dict[str, Any] = {"preset": settings, "variant": self.variant, "seed": self.seed}
        observations = _labelled(X, y, self.answers)
        if sample_weight is not None:
            observations = observations.weighted(sample_weight)
        match self.method:
            case "map":
                self.fit_ = fit_map(observations, **common)
            case "nuts":
                self.fit_ = fit_nuts(observations, sampling=self.sampling, **common)
            case _:
                raise DirEAGError(f"DirEAG: there is no method {self.method!r}; expected map or nuts.")
        self.classes_ = np.array([False, True])
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " question"]:  # noqa: N803
        """Return the canonical selected answer of each question; None where no report is usable."""
        answers = self._fitted.predict(X)["answer"].astype(object)
        return np.asarray(answers.where(answers.notna(), None))

    def predict_proba(self, X: Any) -> Float[np.ndarray, "question 2"]:  # noqa: N803
        """Return the probabilities that each selected answer is wrong and that it is right; 1 and 0 without an answer.

        The columns are ``classes_``. ``fit_.predict_candidates`` gives the probabilities of all candidates. Raises
        DirEAGError if a scorer of scikit-learn asks, which would compare them with the gold answers.
        """
        # a scorer passes X alone, so only the call stack tells that it asks
        if any(frame.f_code.co_name == "_get_response_values" for frame, _ in walk_stack(None)):
            raise DirEAGError(
                "DirEAG: predict_proba gives the probabilities that the selected answers are wrong and right; "
                "scikit-learn's scorers expect a probability of every gold answer. Give "
                f"scoring=DirEAG.scorer(metric), with one of {', '.join(_SCORES)}, or a function of estimator, X and y."
            )
        right = self._fitted.predict(X)["confidence"].fillna(0.0).to_numpy()
        return np.column_stack([1 - right, right])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the benefit of the selected answers: accuracy minus the Brier score of their probabilities.

        A question without a selected answer counts 0; unlabelled questions are left out. X and y are as in :meth:`fit`.
        Raises DirEAGError if no question is labelled.
        """
        return _SCORES["benefit"](*self._judged(X, y))

    @staticmethod
    def scorer(metric: str) -> Callable[..., float]:
        """Return a scorer of selected answers and their probabilities, for ``scoring=`` of scikit-learn's tools.

        It takes a fitted estimator, or a pipeline that ends in one, with X and perhaps y as in :meth:`score`. More is
        better.

        Parameters
        ----------
        metric
            ``benefit``, ``accuracy``, ``neg_brier_score``, ``neg_log_loss``, or ``roc_auc`` of whether an answer is
            right by its probability; NaN if all are right, or none is.

        Raises
        ------
        DirEAGError
            For another metric; the scorer itself, if no question is labelled.

        Examples
        --------
        >>> from bayes_direag import DirEAG, simulate_observations
        >>> from sklearn.model_selection import cross_val_score
        >>> observations = simulate_observations(n=200, seed=1)
        >>> cross_val_score(DirEAG(), observations, scoring=DirEAG.scorer("neg_brier_score"), cv=2).round(2)
        array([-0.17, -0.17])
        """
        if metric not in _SCORES:
            raise DirEAGError(
                f"DirEAG.scorer: there is no metric {metric!r}; expected one of {', '.join(_SCORES)}, each of whether "
                "the selected answers are right. Others would need a probability for each gold answer."
            )

        def scored(estimator: Any, X: Any, y: Any = None) -> float:  # noqa: N803
            if isinstance(estimator, Pipeline):
                X, estimator = estimator[:-1].transform(X), estimator[-1]  # noqa: N806
            return _SCORES[metric](*estimator._judged(X, y))

        return scored

    def _judged(self, X: Any, y: Any) -> tuple[Bool[np.ndarray, " question"], Float[np.ndarray, " question"]]:  # noqa: N803
        """Return whether the answer to each labelled question is right, and its probability; 0 without an answer."""
        observations = _labelled(X, y, self._fitted.answers)
        known = observations[observations.labelled]
        if not len(known):
            raise DirEAGError(
                f"score: saw {len(observations)} questions, none with a gold answer; expected some. Give y."
            )
        table = self._fitted.predict(known, warn=False)
        return known.is_right(table["answer"]), table["confidence"].fillna(0.0).to_numpy()

    @property
    def _fitted(self) -> Fit:
        check_is_fitted(self)
        return self.fit_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _roc_auc(right: Bool[np.ndarray, " question"], probability: Float[np.ndarray, " question"]) -> float:
    return float(roc_auc_score(right, probability)) if 0 < right.mean() < 1 else float("nan")


#: The metrics of scorers, from whether answers are right and their probabilities.
_SCORES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "benefit": lambda right, probability: float(np.mean(right - (right - probability) ** 2)),
    "accuracy": lambda right, _: float(np.mean(right)),
    "neg_brier_score": lambda right, probability: -float(np.mean((right - probability) ** 2)),
    "neg_log_loss": lambda right, probability: -float(log_loss(right, probability, labels=[False, True])),
    "roc_auc": _roc_auc,
}


def _labelled(X: Any, y: Any, answers: AnswerKind | None) -> Observations:  # noqa: N803
    """Return the observations of X, with the gold answers of y unless it is None."""
    if y is None:
        return observations_of(X, answers, None, "DirEAG")
    check_consistent_length(X, y)
    if hasattr(X, "assign"):
        return observations_of(X.assign(gold_answer=np.asarray(y, object)), answers, None, "DirEAG")
    if isinstance(X, Observations):
        gold = [None if value is None or value != value else str(value) for value in y]
        pairs = zip(X.questions, gold, strict=True)
        return Observations.from_questions(
            [q.model_copy(update={"gold_answer": answer}) for q, answer in pairs], X.kind
        )
    records = [{**record, "gold_answer": answer} for record, answer in zip(X, y, strict=True)]
    return observations_of(records, answers, None, "DirEAG")
