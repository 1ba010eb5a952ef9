"""What holds for every test of asking: nobody waits long before a request is sent again."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def short_waits() -> Iterator[None]:
    """Have a request repeated after hundredths of a second, and no half ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elicitation.chat_engine._FIRST_WAIT", 0.02)
        yield
