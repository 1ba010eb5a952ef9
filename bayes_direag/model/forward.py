"""The forward evaluation: the program itself, with draws in the place of its sites, says how probable every state is.

So what predicts is what was fitted, with every term of a program, whoever wrote it. No question sees another, and
questions without reports fill a piece up to one of a few sizes, for which the program is compiled.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from bayes_direag.errors import DirEAGError
from bayes_direag.model.compilation import compiled
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.states import States, in_threads
from bayes_direag.model.unconstrained import Model, state_of, traced

#: Most numbers in one array of a piece, and how many are so few that smaller pieces save nothing.
_PIECE_CELLS, _FEW_CELLS = 1 << 21, 1 << 14
#: The sizes of pieces are powers of this.
_SIZES = 8
#: How many draws are evaluated at once.
_DRAWS = 16


@dataclass(frozen=True, eq=False)
class Forward:
    """Questions that a program evaluates: see :class:`~bayes_direag.model.states.Evaluation`.

    Attributes
    ----------
    model
        The program, reparametrised.
    draws
        Values of its unconstrained sites, each with a leading axis of draws, in double precision.
    data
        The questions; their states are not looked at.
    """

    model: Model
    draws: Mapping[str, Float[Array | np.ndarray, "sample ..."]]
    data: LikelihoodData

    @property
    def n_draws(self) -> int:
        """The number of draws."""
        return len(next(iter(self.draws.values())))

    def each[Result](self, then: Callable[[States], Result]) -> Iterator[Result]:
        """Evaluate the questions in every draw, piece by piece; yield ``then`` of each piece, in order."""
        n_reports, n = self.data.candidate.shape
        few, most = (cells // (self.n_draws * (n_reports + 1)) for cells in (_FEW_CELLS, _PIECE_CELLS))
        sizes = (_SIZES**k for k in range(99))
        size = next(size for size in sizes if (size >= n and size * _SIZES > few) or size * _SIZES > most)

        def result(first: int) -> Result:
            return then(self._states(slice(first, min(first + size, n)), size))

        yield result(0)  # alone, so that threads do not compile it once each
        if size < n:
            yield from in_threads(result, range(size, n, size))

    def _states(self, piece: slice, size: int) -> States:
        data = self.data.unlabelled.select(piece)
        with jax.enable_x64(True):
            probability = _probabilities(self.model, self.draws, data.padded(size))
        candidate, n = np.asarray(data.candidate), piece.stop - piece.start
        support = by_candidate(np.asarray(probability)[:, :n], candidate, np.asarray(data.first))
        for number in np.flatnonzero(~np.isfinite(support).all(axis=(0, 2)))[:1].tolist():
            missing = [name for name, values in data.numbers.items() if not np.isfinite(values[number])]
            raise DirEAGError(
                f"model {self.model.__name__}: the probabilities of question {piece.start + number + 1} are no numbers"
                f"{f', and its number {missing[0]} is missing' if missing else ''}; expected one for each state. Give "
                "what is missing, or let the model say what holds then (jnp.isnan)."
            )
        return States(piece, np.asarray(data.n_candidates), data.panels, support)


@compiled("model")
def _probabilities(
    model: Model, draws: Mapping[str, Float[Array | np.ndarray, "sample ..."]], data: LikelihoodData
) -> Float[Array, "state problem sample"]:
    def of_draw(draw: Mapping[str, Float[Array, "..."]]) -> Float[Array, "state problem"]:
        probability: Float[Array, "state problem"] = state_of(traced(model, data, draw)).probabilities
        return probability

    return jnp.moveaxis(jax.lax.map(of_draw, draws, batch_size=_DRAWS), 0, -1)


def by_candidate(
    probability: Float[np.ndarray, "state problem *sample"],
    candidate: Int[np.ndarray, "report problem"],
    first: Bool[np.ndarray, "report problem"],
) -> Float[np.ndarray, "candidate problem *sample"]:
    """Move P from the first report that names each candidate to the candidate's own row; the null stays the last.

    There are as many rows as candidates of any question, at least one.
    """
    n_rows = max(candidate.max(initial=-1) + 1, 1) + 1
    moved = np.zeros((n_rows, *probability.shape[1:]))
    report, problem = np.nonzero(first)
    moved[candidate[report, problem], problem] = probability[report, problem]
    moved[-1] = probability[-1]
    return moved
