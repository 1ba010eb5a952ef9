"""What holds for every test of asking: nobody waits long before a request is sent again."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def short_waits() -> Iterator[None]:
    """Have the openai client repeat a request after hundredths of a second, and no half ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02)
        yield
