"""Questions whose states have given probabilities, for tests of what follows from these."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bayes_direag.model.states import States


@dataclass(frozen=True, eq=False)
class Known:
    """An evaluation: probabilities by (draw, question, state), the null last, in pieces of so many questions."""

    support: np.ndarray
    n_candidates: np.ndarray
    size: int = 7

    @classmethod
    def drawn(cls, n_draws: int, n_candidates: np.ndarray, *, ties: bool = False) -> "Known":
        """Draw the probabilities; in few steps, so that many tie, or in none."""
        rng, most = np.random.default_rng(1), max(n_candidates.max(initial=0), 1)
        shape = n_draws, len(n_candidates), most + 1
        amount = rng.integers(1, 4, shape).astype(float) if ties else rng.gamma(0.7, size=shape)
        amount[:, np.arange(most + 1) >= np.where(np.arange(most + 1) < most, n_candidates[:, None], most + 1)] = 0.0
        return cls(amount / amount.sum(axis=2, keepdims=True), n_candidates)

    def each[Result](self, then: Callable[[States], Result]) -> Iterator[Result]:
        """Yield a function of each piece, whose states are those that some question of it has."""
        n = len(self.n_candidates)
        for first in range(0, max(n, 1), self.size):
            piece = slice(first, min(first + self.size, n))
            states = [*range(max(self.n_candidates[piece].max(initial=0), 1)), -1]
            support = self.support[:, piece, states].transpose(2, 1, 0)
            yield then(States(piece, self.n_candidates[piece], self.n_candidates[piece][:, None], support))
