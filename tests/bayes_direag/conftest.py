"""Small sets of reports, a partial fit, and a NUTS fit of one level, for the tests of the core."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra import numpy as hnp

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map, fit_nuts
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag import one_level
from tests.bayes_direag.equations import Parameters, Reports, clipped_logit
from tests.made_fits import made_once


@pytest.fixture(scope="session")
def panel() -> Observations:
    return simulate_observations(144, seed=4)


@pytest.fixture(scope="session")
def partial(panel: Observations, point: Fit, tmp_path_factory: pytest.TempPathFactory) -> Fit:  # noqa: ARG001
    """A partial fit to the first 64; their copies have the shape of every small fit.

    So its program is that of ``point``, which another worker may be compiling at the same moment.
    """
    return made_once(tmp_path_factory, "partial", lambda _: fit_map(panel.select(slice(64)), partial=True))


@pytest.fixture(scope="session")
def partial_groups(panel: Observations, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """The same of levels in groups."""
    from tests.bayes_direag.fits.test_groups import grouped

    fit = lambda _: fit_map(grouped(panel.select(slice(64))), partial=True)  # noqa: E731
    return made_once(tmp_path_factory, "partial_groups", fit)


@pytest.fixture(scope="session")
def groups(simulated: Observations, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """A fit to the first 120 of the simulated questions, with levels in groups."""
    from tests.bayes_direag.fits.test_groups import grouped

    return made_once(tmp_path_factory, "groups", lambda _: fit_map(grouped(simulated.select(slice(120)))))


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """A fit to judges that only vote."""
    from tests.bayes_direag.fits.test_votes import OBSERVATIONS

    return made_once(tmp_path_factory, "votes", lambda _: fit_map(OBSERVATIONS))


@pytest.fixture(scope="session")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """A fit to reports with three signals."""
    from tests.bayes_direag.fits.test_signals import simulated_signals

    return made_once(tmp_path_factory, "signals", lambda _: fit_map(simulated_signals()))


@pytest.fixture(scope="session")
def one_level_nuts(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    questions, preset = one_level.observations(), one_level.PRESET
    fit = lambda _: fit_nuts(questions, preset=preset, **one_level.SAMPLING, seed=1)  # noqa: E731
    return made_once(tmp_path_factory, "one_level_nuts", fit)


#: Where :func:`reports` clips confidences.
EPS = 1e-6


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
    for row, answers in zip(candidate, said, strict=True):
        distinct = sorted(set(answers[answers >= 0].tolist()))
        row[answers >= 0] = [distinct.index(answer) for answer in answers[answers >= 0]]
    logits = clipped_logit(np.where(candidate >= 0, stated, 0.5), EPS)
    return Reports(logits, candidate.astype(np.int32), candidate.max(axis=1) + 1, np.full_like(candidate, -1))


def natural_parameters(n_levels: int) -> Parameters:
    """Return asymmetric parameters of a draw, so that a reversed or shuffled level order shows."""
    return Parameters(
        weight=np.linspace(0.3, 1.7, n_levels),
        prior_strength=np.array(0.4),
        null_base=np.array(0.15),
        bias=np.sort(np.random.default_rng(3).normal(size=n_levels)),
        slope=np.full((n_levels, 1), 0.7),
        null_gain=np.array(0.6),
        sharpness=np.array(1.4),
        vote=np.linspace(0.6, -0.2, n_levels),
        vote_slope=np.full((n_levels, 1), 0.15),
    )
