"""Columns of answers as numbers: one for each canonical answer, in string order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from bayes_direag.data.answers import AnswerKind, canonical

if TYPE_CHECKING:
    import pyarrow

#: What is its own canonical form, as most answers are: they need no parsing.
PLAIN: dict[AnswerKind, str] = {
    "numeric": r"^(?:0|-?[1-9][0-9]{0,14})$",
    "choice": r"^[A-Z]$",
    "text": r"^[a-z0-9]+(?: [a-z0-9]+)*$",
}


class AnswerCodes(NamedTuple):
    """Some columns of answers, coded alike.

    Attributes
    ----------
    texts : pyarrow.Array
        The distinct canonical answers, in string order.
    codes : tuple of (row,) arrays
        For each column the place of each answer among them; -1 where it is missing or has no canonical form.
    blank : tuple of (row,) arrays
        For each column where there is no answer at all, or a blank one.
    """

    texts: "pyarrow.Array"
    codes: tuple[Int[np.ndarray, " row"], ...]
    blank: tuple[Bool[np.ndarray, " row"], ...]


def answer_codes(columns: Sequence["pyarrow.Array"], kind: AnswerKind) -> AnswerCodes:
    """Code columns of texts; each distinct text is canonicalised once.

    Examples
    --------
    >>> import pyarrow
    >>> column = pyarrow.array(["7.0", "12", None, "7", "none"], pyarrow.large_string())
    >>> found = answer_codes([column], "numeric")
    >>> found.texts.to_pylist(), found.codes[0].tolist(), found.blank[0].tolist()
    (['12', '7'], [1, 0, -1, 1, -1], [False, False, True, False, False])
    """
    import pyarrow
    import pyarrow.compute as pc

    coded = [column.dictionary_encode() for column in columns]
    raw = pyarrow.concat_arrays([one.dictionary for one in coded])
    spelled = raw
    other = np.flatnonzero(~pc.match_substring_regex(raw, PLAIN[kind]).to_numpy(zero_copy_only=False))
    given = raw.take(pyarrow.array(other)).to_pylist()
    if given:
        parsed = pyarrow.array([None if text.isspace() else canonical(text, kind) for text in given], raw.type)
        place = np.full(len(raw), -1)
        place[other] = np.arange(len(other))
        mask = pyarrow.array(place >= 0)
        spelled = pc.replace_with_mask(raw, mask, parsed)
    distinct = spelled.dictionary_encode()
    order = pc.sort_indices(distinct.dictionary).to_numpy()
    rank = np.full(len(order) + 1, -1)  # a missing one comes last, where -1 finds it
    rank[order] = np.arange(len(order))
    rank_of_raw = np.append(rank[distinct.indices.fill_null(-1).to_numpy()], -1)
    blank_raw = np.ones(len(raw) + 1, bool)
    blank_raw[:-1] = False
    blank_raw[other] = [not text or text.isspace() for text in given]
    first = np.cumsum([0, *(len(one.dictionary) for one in coded)])
    places = [
        np.where(one.indices.is_null().to_numpy(zero_copy_only=False), -1, one.indices.fill_null(-1).to_numpy() + start)
        for one, start in zip(coded, first, strict=False)
    ]
    return AnswerCodes(
        distinct.dictionary.take(pyarrow.array(order)),
        tuple(rank_of_raw[place] for place in places),
        tuple(blank_raw[place] for place in places),
    )
