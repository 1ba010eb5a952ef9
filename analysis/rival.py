"""Whether a simpler method would have answered the labelled questions of a fit clearly better."""

import numpy as np

from analysis.methods.direag import learn_each
from analysis.methods.label_logistic import has_two_labels, label_logistic
from analysis.scores.paired import paired_table
from analysis.scores.scoring import Scored
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.folds import dealt

#: The folds in which the rival is learned, and the probability of the interval of the difference.
_FOLDS, _LEVEL = 5, 0.9


def rival_remark(fit: Fit) -> str:
    """Say that a regression on the two labels of all questions is clearly better on those of a fit; "" if not.

    Both answer each labelled question without its label: the fit by what its final calibration rests on, so that only
    the two coefficients of that have seen the label, in the fit's favour; the regression by a cross-fit. It is clearly
    better if the interval of probability 0.9 of the difference in benefit is above 0. Of 72 fits to 30 or 100 labels of
    nine recordings this was said of 7, and on their other questions the regression was better in all 7, in 3 clearly
    (``tests/benchmarks/rival.py``). Presets without a calibration by panel are not compared.
    """
    questions = fit.fitted
    if len(questions) < _FOLDS or not has_two_labels(questions) or (labelled := fit.calibration.labelled) is None:
        return ""
    of_fit = fit.calibration.of_selected(labelled.whole.support[:1], labelled.panels).mean(axis=0)
    cluster = questions.cluster_number
    sides = Scored(of_fit, labelled.whole.right[0], cluster=cluster), _cross_fitted(questions, fit.settings.seed)
    (benefit,) = paired_table(*sides, metrics=["benefit"], seed=0, level=_LEVEL).to_dict("records")
    if not benefit["low"] > 0:
        return ""
    gain, low, high = (f"{benefit[name]:+.2f}" for name in ("difference", "low", "high"))
    return (
        "A logistic regression on the two labels (label_logistic) is clearly better on these questions, each answered "
        f"without its label: benefit {gain} [{low}, {high}]. Compare both on others: direag evaluate."
    )


def _cross_fitted(questions: Observations, seed: int) -> Scored:
    """Return what the regression says of each question, learned from the other folds."""
    confidence, right = np.full(len(questions), np.nan), np.zeros(len(questions), bool)
    folds = dealt(questions, None, _FOLDS, seed)
    for fold, learned in zip(folds, learn_each(label_logistic, folds, questions, seed), strict=True):
        asked = questions.select(fold.asked)
        answers = learned(asked)
        confidence[fold.asked], right[fold.asked] = answers.confidence, answers.is_right(asked)
    return Scored(confidence, right)
