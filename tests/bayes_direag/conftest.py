"""Small sets of reports, small fits, and a NUTS fit of one level, for the tests of the core."""

import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.making import fit_map, fit_nuts
from bayes_direag.model.simulate import simulate_observations
from tests.bayes_direag import one_level
from tests.made_fits import made_once


@pytest.fixture(scope="session")
def panel() -> Observations:
    return simulate_observations(144, seed=4)


@pytest.fixture(scope="session")
def small(panel: Observations, point: Fit, tmp_path_factory: pytest.TempPathFactory) -> Fit:  # noqa: ARG001
    """A fit to the first 64, whose program is that of ``point``, which another worker may be compiling now."""
    return made_once(tmp_path_factory, "small", lambda _: fit_map(panel.select(slice(64))))


@pytest.fixture(scope="session")
def small_groups(panel: Observations, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """The same of levels in groups."""
    from tests.bayes_direag.fits.test_groups import grouped

    fit = lambda _: fit_map(grouped(panel.select(slice(64))))  # noqa: E731
    return made_once(tmp_path_factory, "small_groups", fit)


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
