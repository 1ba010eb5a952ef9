import re

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from bayes_direag.data.answer_codes import PLAIN, answer_codes
from bayes_direag.data.answers import canonical

KINDS = st.sampled_from(sorted(PLAIN))
PIECES = st.sampled_from([*"0123456789abzABZ -.,$%\n\té", "12", "-0", "and", "1/2", "(a)"])


@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), st.from_regex(PLAIN[kind], fullmatch=True))))
def test_what_is_plain_is_its_own_canonical_form(drawn):
    kind, text = drawn
    assert re.fullmatch(PLAIN[kind].strip("^$"), text.rstrip("\n")) is not None
    assert canonical(text.rstrip("\n"), kind) == text.rstrip("\n")


@given(KINDS, st.lists(st.none() | st.lists(PIECES, max_size=4).map("".join), max_size=12))
def test_codes_stand_for_canonical_answers_in_string_order(kind, texts):
    half = len(texts) // 2
    columns = [pyarrow.array(part, pyarrow.large_string()) for part in (texts[:half], texts[half:])]
    found = answer_codes(columns, kind)
    blank = [text is None or not text or text.isspace() for text in texts]
    expected = [None if empty else canonical(text, kind) for text, empty in zip(texts, blank, strict=True)]
    names = found.texts.to_pylist()
    assert names == sorted({name for name in expected if name is not None})
    codes = [*found.codes[0].tolist(), *found.codes[1].tolist()]
    assert [names[code] if code >= 0 else None for code in codes] == expected
    assert [*found.blank[0].tolist(), *found.blank[1].tolist()] == blank
