"""Stated confidences on the logit scale, as every model sees them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def clipped_logit(probability: Float[np.ndarray, "*shape"], eps: float) -> Float[np.ndarray, "*shape"]:
    """Clip probabilities to ``[eps, 1 - eps]`` and return their logits; NaN stays."""
    clipped = np.clip(probability, eps, 1 - eps)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))  # several times as fast as scipy's logit


def logit_signals(signals: Sequence[Float[np.ndarray, "*shape"]], eps: float) -> Float[np.ndarray, "*signal_and_shape"]:
    """Return the clipped logits of signals, 0 where one is missing; a single signal has no axis of its own."""
    logits = clipped_logit(np.nan_to_num(np.stack(signals), nan=0.5), eps)
    return logits if len(signals) > 1 else logits[0]
