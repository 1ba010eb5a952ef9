"""Fits in scikit-learn's manner: an estimator to clone, put in a pipeline, search over, cross-validate.

What scikit-learn calls X are the questions with their reports, in any form that :meth:`Fit.predict
<bayes_direag.fits.fit.Fit.predict>` takes, and y their gold answers, None where X has them. One sample is one question:
:class:`~bayes_direag.Observations` and lists of records are divided so by every splitter. A frame in long form has a
row a report, which scikit-learn divides row by row: give ``GroupKFold`` its column of questions as ``groups``, or make
``Observations`` of it. ``GroupKFold`` with ``groups=observations.cluster_number`` keeps clusters together.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from bayes_direag.data.answers import AnswerKind
from bayes_direag.data.observations import Observations
from bayes_direag.data.sources import observations_of
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, fit_nuts
from bayes_direag.model.presets import preset as named_preset
from bayes_direag.model.settings import Method, Preset, RecalibrationMethod, SamplingSettings, Variant


class DirEAG(BaseEstimator):  # type: ignore[misc]
    """:func:`~bayes_direag.fit_map` or :func:`~bayes_direag.fit_nuts`, and a fit's predictions, as an estimator.

    To scikit-learn it is no classifier: every question has candidates of its own, so nothing is there to stratify by.

    Parameters
    ----------
    method
        ``map``, or ``nuts`` for the whole posterior.
    preset, variant, sampling, seed
        As in :func:`~bayes_direag.fit_map` and :func:`~bayes_direag.fit_nuts`.
    recalibration
        Method of the final calibration; None: the preset's own.
    answers
        How the answers of frames, records and files are compared; None: as the gold answers show.

    Attributes
    ----------
    fit_ : Fit
        The fit, with all that it can do.

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
        method: Method = "map",
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

    def fit(self, X: Any, y: Any = None) -> "DirEAG":  # noqa: N803 - scikit-learn's names
        """Fit to the labelled questions of X; raises as :func:`~bayes_direag.fit_map` does, or DirEAGError.

        Parameters
        ----------
        X
            Questions: observations, a frame in long form, records or the path of a file.
        y
            A gold answer for each row of X, in the place of those in it.
        """
        settings = named_preset(self.preset)
        if self.recalibration is not None:
            settings = settings.override(recalibration={"method": self.recalibration})
        common: dict[str, Any] = {"preset": settings, "variant": self.variant, "seed": self.seed}
        observations = _labelled(X, y, self.answers)
        match self.method:
            case "map":
                self.fit_ = fit_map(observations, **common)
            case "nuts":
                self.fit_ = fit_nuts(observations, sampling=self.sampling, **common)
            case _:
                raise DirEAGError(f"DirEAG: there is no method {self.method!r}; expected map or nuts.")
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, " question"]:  # noqa: N803
        """Return the selected answer of each question, canonical; None where no report was usable."""
        answers = self._fitted.predict(X)["answer"].astype(object)
        return np.asarray(answers.where(answers.notna(), None))

    def predict_proba(self, X: Any) -> Float[np.ndarray, "question 2"]:  # noqa: N803
        """Return the probabilities that each selected answer is wrong, and that it is right: 1 and 0 without one.

        ``fit_.predict_candidates`` gives those of all candidates.
        """
        right = self._fitted.predict(X)["confidence"].fillna(0.0).to_numpy()
        return np.column_stack([1 - right, right])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the benefit of the selected answers: their accuracy less the Brier score of their probabilities.

        A question without a selected answer counts 0; one without a label does not count. X and y are as in
        :meth:`fit`. Raises DirEAGError if no question has a label.
        """
        observations = _labelled(X, y, self._fitted.tree.attrs["answers"])
        known = observations[observations.labelled]
        if not len(known):
            raise DirEAGError(
                f"score: saw {len(observations)} questions, none with a gold answer; expected some. Give y."
            )
        table = self._fitted.predict(known)
        right, confidence = known.is_right(table["answer"]), table["confidence"].fillna(0.0)
        return float(np.mean(right - (right - confidence) ** 2))

    @property
    def _fitted(self) -> Fit:
        check_is_fitted(self)
        return self.fit_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags


def _labelled(X: Any, y: Any, answers: AnswerKind | None) -> Observations:  # noqa: N803
    """Return the observations of X, with the gold answers of y if there are any."""
    if y is None:
        return observations_of(X, answers, "DirEAG")
    check_consistent_length(X, y)
    if hasattr(X, "assign"):
        return observations_of(X.assign(gold_answer=np.asarray(y, object)), answers, "DirEAG")
    if isinstance(X, Observations):
        gold = [None if value is None or value != value else str(value) for value in y]
        pairs = zip(X.questions, gold, strict=True)
        return Observations.from_questions([one.model_copy(update={"gold_answer": own}) for one, own in pairs], X.kind)
    return observations_of([{**one, "gold_answer": own} for one, own in zip(X, y, strict=True)], answers, "DirEAG")
