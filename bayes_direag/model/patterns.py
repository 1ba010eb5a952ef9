"""Questions that a model cannot tell apart, counted once: the cost of a fit grows with what is distinct.

What came true has the same probability in two questions if level for level the reports are absent, wrong or right in
both and, where the model uses it, equally confident, and if both have as many answers, and as many right ones. Which
answer a wrong report gave does not matter.
"""

import numpy as np

from bayes_direag.data.counted import Patterns, distinct_rows
from bayes_direag.model.evidence import Reports
from bayes_direag.model.model import Labels
from bayes_direag.model.settings import Variant


def likelihood_patterns(reports: Reports, labels: Labels, variant: Variant) -> Patterns:
    """Find the questions whose likelihood is the same whatever the parameters.

    The weights of the labels are not looked at.
    """
    usable = np.asarray(reports.candidate) >= 0
    outcome = np.where(np.asarray(labels.correct), 2, usable.astype(np.int8))
    columns = [np.asarray(reports.n_candidates), np.asarray(labels.n_correct), *outcome.T]
    if variant == "confidence":
        columns += [*np.where(usable, reports.confidence, 0.0).T]
    return distinct_rows(columns)
