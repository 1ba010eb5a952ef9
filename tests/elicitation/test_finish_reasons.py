"""Why models stopped, by every name."""

from elicitation.finish_reasons import is_cut_off, is_unknown
from tests.elicitation.composed_replies import PIECES


def test_finish_reasons_by_every_name() -> None:
    assert all(is_cut_off(reason) and not is_unknown(reason) for reason in PIECES["cut off"])
    assert not any(is_cut_off(reason) or is_unknown(reason) for reason in [*PIECES["whole"], None, ""])
    assert is_unknown("OTHER")
    assert not is_cut_off("OTHER")
