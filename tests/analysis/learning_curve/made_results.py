"""Results of learning curves from given numbers, nothing learned."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.learning_curve.curve import CURVE_METRICS, RESULT_TYPES
from bayes_direag.fits.convergence import SamplerSummary


def made_results(value: Mapping[str, Mapping[int, np.ndarray]], *, gap: float = 0.0, n_test: int = 100) -> pd.DataFrame:
    """Return results with one value for all metrics: by method and number of labels, (split,) each.

    The gap between the halves is the same in all, alternating in sign.
    """
    rows = [
        {
            "method": method,
            "n_labels": n_labels,
            "split": split,
            "n_test": n_test,
            **dict.fromkeys(CURVE_METRICS, one),
            **{f"{name}_gap": gap * (-1) ** split for name in CURVE_METRICS},
            **dict.fromkeys(SamplerSummary._fields, np.nan),
        }
        for method, by_count in value.items()
        for n_labels, values in by_count.items()
        for split, one in enumerate(np.asarray(values, float).tolist())
    ]
    return pd.DataFrame(rows).astype(RESULT_TYPES)
