"""What a file must hold for the predictions of its fit to be probabilities; files may come from anyone."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from bayes_direag.model.equations import Parameters
from bayes_direag.model.selection import Recalibration

_NOT_NEGATIVE = {"weight", "prior_strength", "null_base", "null_gain", "sharpness"}
#: Larger than any parameter of a fit.
_LARGEST = 1e12


def require_usable(
    parameters: Parameters,
    final: Recalibration,
    *,
    eps: float,
    levels: Sequence[object],
    labels: Sequence[object],
    signals: Sequence[object],
) -> None:
    """Raise ValueError unless parameters and final calibration are numbers, as many as there are draws and levels."""
    for name in (*levels, *labels, *signals):
        if not isinstance(name, str):
            raise ValueError(f"saw {name!r} for the name of a level, label or signal")
    n = len(parameters.weight)
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(Parameters._fields, ()),
        **dict.fromkeys(("weight", "bias", "vote"), (len(levels),)),
        **dict.fromkeys(("slope", "vote_slope"), (len(levels), len(signals))),
        "label": (len(labels),),
    }
    given = {name: draws for name, draws in parameters._asdict().items() if draws is not None}
    wrong = [
        name
        for name, draws in given.items()
        if draws.shape != (n, *shapes[name])
        or not (np.abs(draws) <= _LARGEST).all()
        or (name in _NOT_NEGATIVE and (draws < 0).any())
        or (name == "prior_strength" and not draws.all())
    ]
    if wrong or not n or not levels or not signals:
        raise ValueError(f"parameters {', '.join(wrong or given)} are not {n} draws of {len(levels)} levels")
    if final.method not in Recalibration.METHODS:
        methods = ", ".join(Recalibration.METHODS)
        raise ValueError(f"saw a final calibration by {final.method}; expected one of {methods}")
    values = [*final.coefficients.values()]
    is_whole = final.coefficients.keys() - {"share"} == {"intercept", "slope"}
    is_whole &= final.most_reports > 0 and all(value.size == n for value in values)
    if not is_whole or not (np.abs(values) <= _LARGEST).all():
        raise ValueError(f"the final calibration by {final.method} has other values than numbers")
    for limit in (eps, final.eps):
        if not 0 < limit < 0.5:
            raise ValueError(f"saw eps {limit}; expected a number between 0 and 0.5")


def require_answers(candidate: Int[np.ndarray, "problem level"], n_candidates: Int[np.ndarray, " problem"]) -> None:
    """Raise ValueError unless each report gives a candidate of its question, or none, and a level adds at most one."""
    exists = (candidate >= -1) & (candidate < n_candidates[:, None])
    if not exists.all() or (n_candidates > candidate.shape[1]).any():
        raise ValueError("saw reports of candidates that there are not")
