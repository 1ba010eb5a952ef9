"""A remark where labels that happen to be at hand contradict the predicted probabilities."""

from pathlib import Path

import numpy as np

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit

#: Files of more bytes are not read for this remark.
_LARGEST = 1 << 26
#: The smallest difference between accuracy and mean probability that is remarked on, also in standard errors.
_DIFFERENCE, _STANDARD_ERRORS = 0.05, 4.0


def label_remark(fit: Fit, path: Path, columns: Columns | None) -> str | None:
    """Compare the accuracy of the predicted answers of a labelled file with their mean probability.

    If every answer is right with its probability, the number of right ones has the variance ``sum(p * (1 - p))``. None
    without labels, or if the difference may be chance. Labels that cannot be read are no error, as no prediction needs
    them.
    """
    if not path.is_file() or path.stat().st_size > _LARGEST:
        return None
    try:
        questions = Observations.read(path, fit.answers, columns)
    except DirEAGError:
        return None
    known = questions.select(np.flatnonzero(questions.labelled & questions.answered))
    if not len(known):
        return None
    table = fit.predict(known, warn=False)
    right, probability = known.is_right(table["answer"]), table["confidence"].to_numpy()
    difference, error = right.mean() - probability.mean(), np.sqrt((probability * (1 - probability)).sum()) / len(known)
    if abs(difference) < max(_DIFFERENCE, _STANDARD_ERRORS * error):
        return None
    return (
        f"{len(known)} of these questions have labels: {right.mean():.0%} of their answers are right, but their mean "
        f"probability is {probability.mean():.0%}, and such a difference is no chance. See whether the names of levels "
        "mean here what they mean in the fit. If they do, these questions are of another kind: fit to some of them."
    )
