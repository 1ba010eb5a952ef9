"""The probability of every state of questions, in every draw, evaluated piece by piece in bounded memory.

What follows an evaluation does not ask what made it: a program (:mod:`bayes_direag.model.forward`), or a test.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int


class States(NamedTuple):
    """The states of some questions."""

    #: Which of the evaluated questions they are.
    questions: slice
    n_candidates: Int[np.ndarray, " problem"]
    #: The number of usable reports of each level.
    panels: Int[np.ndarray, "problem level"]
    #: The probability P of every state, the null last; 0 for states that a question lacks.
    support: Float[np.ndarray, "state problem sample"]


@runtime_checkable
class Evaluation(Protocol):
    """Questions that can be evaluated, piece by piece."""

    def each[Result](self, then: Callable[[States], Result]) -> Iterator[Result]:
        """Evaluate the questions in every draw; yield ``then`` of each piece, in order. Without questions, one piece.

        Results do not depend on the pieces.
        """


def in_threads[Piece, Result](function: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
    """Yield the function of each piece, in order, computed on all cores."""
    if len(pieces) == 1:
        yield function(pieces[0])
    else:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            yield from threads.map(function, pieces)


def supports(evaluation: Evaluation) -> Float[np.ndarray, "sample problem state"]:
    """Return the probability of every state in every draw, the null last."""
    return joined(evaluation.each(lambda states: states.support.T))


def joined(parts: Iterable[Float[np.ndarray, "..."]]) -> Float[np.ndarray, "*sample problem state"]:
    """Join the questions of several pieces; a piece with fewer states gets more of probability 0, before the null."""
    pieces = list(parts)
    most = max(piece.shape[-1] for piece in pieces)
    wide = [np.insert(piece, [-1] * (most - piece.shape[-1]), 0.0, axis=-1) for piece in pieces]
    return np.concatenate(wide, axis=-2)
