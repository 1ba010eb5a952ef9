"""What new questions lack beside the fitted ones, reports or a whole signal, and what that does.

It is told from the fitted questions themselves: they lose the same, and are predicted again.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from bayes_direag.model.selection import Calibration, distribution, predict
from bayes_direag.model.states import Evaluation

if TYPE_CHECKING:
    from bayes_direag.data.observations import Observations

#: Nothing is said of fewer reports if answers are right about as often as in the labelled questions, up to this.
_LEAST = 0.05
#: A signal that is missing does not matter if fitted questions are this little less or more probable without it.
_LEAST_POINTS = 1.0
#: At most this many fitted questions lose a signal.
_QUESTIONS = 300


def reports_remark(
    panels: Int[np.ndarray, "problem level"],
    levels: Sequence[str],
    gain: Float[np.ndarray, " problem"],
    usual: float,
) -> str | None:
    """Say how many questions have fewer reports than labelled ones, of which levels, and what that costs; or None.

    ``gain`` is how much more often such questions are answered right than with all reports, NaN where none lacks, and
    ``usual`` its mean over the labelled questions as they are.
    """
    lacking, n = ~np.isnan(gain), len(gain)
    if not lacking.any() or abs(gain[lacking].sum() / n - usual) < _LEAST:
        return None
    points = 100 * gain[lacking].mean()
    absent = [name for name, number in zip(levels, panels[lacking].max(axis=0), strict=True) if not number]
    none_of = f" (none has {', '.join(absent)})" if absent else ""
    return (
        f"{lacking.sum():,} of {n:,} questions lack reports{none_of}. So labelled ones are answered right "
        f"{abs(points):.0f} points {'more' if points > 0 else 'less'} often than with all reports, which their "
        "probabilities allow for."
    )


def half_remark(panels: Int[np.ndarray, "problem level"], fitted: Int[np.ndarray, "fitted level"]) -> str | None:
    """Say how many questions have less than half of the reports of fitted ones, of which a fit knows nothing; or None.

    For fits whose final calibration is that of whole questions.
    """
    n_reports = panels.sum(axis=1)
    few = (n_reports > 0) & (2 * n_reports < fitted.sum(axis=1).mean())
    if not few.any():
        return None
    return (
        f"{few.sum():,} of {len(few):,} questions have less than half of the reports of fitted ones. The final "
        "calibration of this fit does not allow for that, so their probabilities may be far too high. Fit with preset "
        "bayes."
    )


def signals_remark(
    asked: "Observations",
    fitted: "Observations",
    evaluation: "Callable[[Observations], Evaluation]",
    final: Calibration,
) -> str | None:
    """Say which signals of the fitted reports none of the reports asked about states, and what that does; or None.

    ``evaluation`` gives what the fit says of questions that are aligned with it.
    """
    stating, stated = asked.usable & asked.stated, asked.of_signals(fitted.signal_names).signals
    lost = [name for name, values in stated.items() if np.isnan(values[stating]).all()]
    if not lost or not stating.any():
        return None
    known = fitted.select(np.sort(np.random.default_rng(0).permutation(len(fitted))[:_QUESTIONS]))
    lacking = known.of_signals([name for name in known.signal_names if name not in lost])
    selected, whole = predict(evaluation(lacking), final, 0.5), distribution(evaluation(known), final)
    points = 100 * np.mean(selected["probability"] - whole[np.arange(len(whole)), selected["candidate"]])
    absent = f"No report states {', '.join(lost)}"
    if abs(points) < _LEAST_POINTS:
        return f"{absent}, without which the probabilities hold."
    return (
        f"{absent}, from which the fit has learned. Without, probabilities of the fitted questions are too "
        f"{'high' if points > 0 else 'low'} by {abs(points):.1f} points. Fit to reports without it (in Python "
        "Observations.of_signals), or have it stated."
    )
