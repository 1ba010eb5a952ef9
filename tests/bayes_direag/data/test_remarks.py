"""Which levels stand out: copies, and one confidence nearly always."""

from dataclasses import replace

import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.data.plain import group_of
from bayes_direag.data.remarks import level_remarks
from bayes_direag.fits.fit import Fit
from tests.command_line import succeed

N = 60


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Return four levels: one of its own, a copy of it, another, and one that always says 95%."""
    rng = np.random.default_rng(5)
    gold = rng.integers(4, size=N)
    own, other, steady = ((gold + (rng.random(N) < wrong) * rng.integers(1, 4, N)) % 4 for wrong in (0.4, 0.5, 0.3))
    stated = rng.integers(30, 99, (2, N))
    answers = {"own": own, "copy": own, "other": other, "steady": steady}
    confidences = {"own": stated[0], "copy": stated[0], "other": stated[1], "steady": np.full(N, 95)}
    return Observations.from_records(
        [
            {
                "problem_id": f"q{question}",
                "level": name,
                "answer": "ABCD"[answer[question]],
                "confidence": int(confidences[name][question]),
                "gold_answer": "ABCD"[gold[question]],
            }
            for question in range(N)
            for name, answer in answers.items()
        ],
        "choice",
    )


def test_copies_and_constant_confidences_are_named(observations):
    copied, constant = level_remarks(observations)
    assert copied.startswith("These levels are nearly copies: own, copy. Two of them have the same")
    assert "at least 100% of the questions" in copied
    assert "make them a group: group='COLUMN'" in copied
    assert constant.endswith("tells little: steady (95% in 100%).")


def test_only_levels_asked_for_and_questions_enough(observations):
    assert level_remarks(observations, ["own", "other", "steady"]) == level_remarks(observations)[1:]
    assert level_remarks(observations.select(slice(0, 19))) == ()
    assert len(level_remarks(replace(observations, groups=("own", "own", "other", "steady")))) == 1


@pytest.mark.parametrize("failed", ["PARSE_FAIL", "ERROR 429: rate limited", "(empty)"])
def test_words_of_a_failed_parse_are_named(failed):
    def read(share: int, gold: str | None = None) -> Observations:
        said = [failed if n % share == 0 else f"river {n}" for n in range(N)]
        rows = [{"problem_id": f"q{n}", "answer": text, "gold_answer": f"river {n}"} for n, text in enumerate(said)]
        rows[0]["gold_answer"] = gold or "river 0"
        return Observations.from_records(
            [row | {"level": 0, "confidence": 30 + n} for n, row in enumerate(rows)], "text"
        )

    (remark,) = level_remarks(read(3))
    assert f"{failed!r} (33%)" in remark
    assert "leave the answer empty" in remark
    assert level_remarks(read(30)) == ()
    assert level_remarks(read(3, gold=failed)) == ()


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("m_run0", "m_run1"), "{group}_run{n}"),
        (("qwen-3-8b 1", "qwen-3-8b 2"), "{group} {n}"),
        (("small1", "small10"), "{group}{n}"),
        (("m@3 (cold)", "m@4 (cold)"), "{group}@{n} (cold)"),
        (("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"), None),
        (("m_run0", "k_run1"), None),
    ],
)
def test_the_pattern_makes_them_a_group(observations, names, pattern):
    named = replace(observations, level_names=(*names, "other", "steady"))
    remark = level_remarks(named)[0]
    assert (f"groups='{pattern}' (--groups)" if pattern else "group='COLUMN' (--column group=COLUMN)") in remark
    assert pattern is None or len({group_of(pattern, name) for name in names}) == 1


@pytest.mark.slow
def test_fit_and_explain_name_them(observations, tmp_path):
    observations.write(tmp_path / "o.jsonl")
    fitted = succeed("fit", tmp_path / "o.jsonl", "--out", tmp_path / "fit.nc")
    explained = succeed("explain", tmp_path / "fit.nc", tmp_path / "o.jsonl", "q7")
    for said in (fitted, explained):
        assert all(text in said for text in ("nearly copies: own, copy", "steady (95%"))
    assert level_remarks(Fit.load(tmp_path / "fit.nc").fitted) == level_remarks(observations)
