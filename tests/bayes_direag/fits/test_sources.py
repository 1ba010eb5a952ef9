"""What functions accept as observations, and what they say of anything else."""

import pytest

from bayes_direag.errors import ArgumentError
from bayes_direag.fits.sources import observations_of


def test_what_is_no_observations_at_all() -> None:
    with pytest.raises(ArgumentError, match="predict: saw int; expected Observations, a path, a DataFrame in long"):
        observations_of(3, "numeric")
