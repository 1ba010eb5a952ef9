"""Small sets of reports, made at random, for the tests of the model."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

from bayes_direag.evidence import Reports
from bayes_direag.observations import Observations
from bayes_direag.simulate import simulate_observations


@pytest.fixture(scope="session")
def simulated() -> Observations:
    return simulate_observations(n=240, seed=5)


@st.composite
def reports(draw: st.DrawFn, n: int = 5, levels: int = 4) -> Reports:
    """Draw ragged reports: any level may be missing, any answers may agree, stated 0 % and 100 % are common."""
    said = draw(hnp.arrays(np.int64, (n, levels), elements=st.integers(-1, levels - 1)))
    stated = draw(
        hnp.arrays(
            float, (n, levels), elements=st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.85, 0.95, 1.0]) | st.floats(0, 1)
        )
    )
    candidate = np.full_like(said, -1)
    for row, own in zip(candidate, said, strict=True):
        distinct = sorted(set(own[own >= 0].tolist()))
        row[own >= 0] = [distinct.index(answer) for answer in own[own >= 0]]
    return Reports(np.where(candidate >= 0, stated, 0.5), candidate.astype(np.int32), candidate.max(axis=1) + 1)
