"""What the absence of a whole signal does, told from the fitted questions: they lose it, and are predicted again."""

from collections.abc import Callable

import numpy as np

from bayes_direag.data.observations import Observations
from bayes_direag.model.forward import Forward
from bayes_direag.model.selection import Recalibration, distribution, predict
from bayes_direag.predictor import unstated, unstated_remark

#: At most this many fitted questions lose a signal.
_QUESTIONS = 300


def signals_remark(
    asked: Observations,
    fitted: Observations,
    evaluation: Callable[[Observations], Forward],
    final: Recalibration,
) -> str | None:
    """Say which signals of the fitted reports none of the reports asked about states, and what that does; or None.

    ``evaluation`` gives what the fit says of questions that are aligned with it.
    """
    names = fitted.signal_names
    percent = np.stack([*asked.of_signals(names).signals.values()], axis=-1)
    lost = unstated(names, percent[asked.usable & asked.stated])
    if not lost:
        return None
    known = fitted.select(np.sort(np.random.default_rng(0).permutation(len(fitted))[:_QUESTIONS]))
    lacking = known.of_signals([name for name in known.signal_names if name not in lost])
    selected = predict(evaluation(lacking), final, 0.5)
    whole = distribution(evaluation(known), final)[np.arange(len(known)), selected["candidate"]]
    points = 100 * np.mean(selected["probability"] - whole)
    effect = (
        "Without, probabilities of the fitted questions are too "
        f"{'high' if points > 0 else 'low'} by {abs(points):.1f} points. "
    )
    return unstated_remark(lost, effect)
