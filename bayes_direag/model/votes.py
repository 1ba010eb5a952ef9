r"""How the reports of a question fall, seen from its selected answer: what the final calibration may be told of it.

Of n usable reports v give the selected answer, out of the L levels that the fit knows. Plain counting says of it

.. math:: \text{agreement} = \log \frac{v + 1/2}{n - v + 1/2}, \qquad \text{missing} = 1 - n / L

with half a vote added on either side, so that a unanimous question stays finite. Neither looks at a stated confidence.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Votes(NamedTuple):
    """The votes on the selected answers of some questions; leading axes, of a batch of fits, are allowed.

    Attributes
    ----------
    agreement : (problem,) array
        Log odds of the votes for the selected answer; 0 for a question without usable reports.
    missing : (problem,) array
        Share of the levels that gave no usable report, 0 to 1.
    """

    agreement: Float[np.ndarray, "*batch problem"]
    missing: Float[np.ndarray, "*batch problem"]

    @classmethod
    def of(cls, candidate: Int[np.ndarray, "problem level"], selected: Int[np.ndarray, "*batch problem"]) -> "Votes":
        """Count them.

        Parameters
        ----------
        candidate : (problem, level) array
            The answer that each level of the fit gave, as an index into the question's candidates; -1 where not usable.
        selected : (problem,) array
            The selected one; -1 without.

        Examples
        --------
        >>> votes = Votes.of(np.array([[0, 0, 0, 1], [2, -1, -1, -1]]), np.array([0, 2]))
        >>> votes.agreement.round(2).tolist(), votes.missing.tolist()
        ([0.85, 1.1], [0.0, 0.75])
        """
        usable = candidate >= 0
        given = (usable & (candidate == selected[..., None])).sum(axis=-1)
        used = usable.sum(axis=-1)
        missing = np.broadcast_to(1 - used / max(candidate.shape[1], 1), given.shape)
        return cls(np.log(given + 0.5) - np.log(used - given + 0.5), missing)

    def select(self, index: Int[np.ndarray, " selected"] | np.ndarray) -> "Votes":
        """Take some questions, by number or by truth value."""
        return Votes(*(array[..., index] for array in self))
