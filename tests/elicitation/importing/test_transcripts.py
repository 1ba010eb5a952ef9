"""Transcripts of every kind, and broken ones."""

from pathlib import Path

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.importing.formats import import_logs
from tests.elicitation.importing.logs_of_tools import reports, write


def test_each_guess_of_a_list_is_a_level(tmp_path: Path) -> None:
    rows = [
        {"id": "q", "text": "G1: Oslo\nP1: 80%\nG2: Bergen\nP2: 20%", "gold_answer": "Oslo"},
        {"id": "r", "text": "1. Rome, 70%\n2. Milan, 30%", "gold_answer": "Milan"},
    ]
    imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])
    assert reports(imported.questions[0]) == [("a rank_0", "Oslo", 80.0), ("a rank_1", "Bergen", 20.0)]
    assert reports(imported.questions[1]) == [("a rank_0", "Rome", 70.0), ("a rank_1", "Milan", 30.0)]


def test_confidences_may_be_fractions(tmp_path: Path) -> None:
    stated = ("0.9", ".85", "1", "70%")
    rows = [{"id": k, "text": f"Answer: 5\nConfidence: {s}", "gold_answer": 5} for k, s in enumerate(stated)]
    path = write(tmp_path / "a.jsonl", *rows)
    imported = import_logs("transcripts", [path], scale="fraction")
    assert [question.observations[0].confidence for question in imported.questions] == [90, 85, 100, 70]
    assert import_logs("transcripts", [path]).statuses == {"ambiguous": 3, "ok": 1}


def test_replies_are_read(tmp_path: Path) -> None:
    line = "Answer and Confidence (0-100): "
    rows = [
        {"problem_id": 7, "level": 1, "text": f"{line}51, 85%", "gold_answer": 51},
        {"problem_id": 7, "level": 0, "text": f"{line}61, 9%", "finish_reason": "length"},
        {"question_id": "8", "level": 10, "text": None, "question": "How many?"},
        {"id": "8", "level": 0, "text": f"{line}1, 0.5"},
    ]
    imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])
    seven, eight = imported.questions
    assert reports(seven) == [("0", None, None), ("1", "51", 85.0)]
    assert [(one.level, one.level_name) for one in eight.observations] == [(0, "0"), (2, "10")]
    assert imported.statuses == {"ok": 1, "truncated": 1, "no_answer": 1, "ambiguous": 1}
    assert (seven.gold_answer, eight.gold_answer, eight.question) == ("51", None, "How many?")


def test_files_are_levels(tmp_path: Path) -> None:
    rows = {"id": "q", "text": "Answer: B", "gold_answer": "B"}
    files = {name: write(tmp_path / name, rows) for name in ("one", "two")}
    imported = import_logs("transcripts", files)
    assert reports(imported.questions[0]) == [("one", "B", None), ("two", "B", None)]


def test_replies_of_another_form_are_read_by_a_pattern(tmp_path: Path) -> None:
    texts = [
        "The answer is 4. No, the answer is 5. I am 80% sure.",
        "The answer is 5.\nI am 0.8% sure.",
        "The answer is 5. I am 130% sure.",
        "The answer is 5.",
        "I do not know. I am 5% sure.",
    ]
    rows = [{"id": "q", "level": place, "text": text, "gold_answer": 5} for place, text in enumerate(texts)]
    path = write(tmp_path / "a.jsonl", *rows)
    pattern = r"answer is (\d+)\.(?:\s*I am (\S+) sure)?"
    imported = import_logs("transcripts", [path], pattern=pattern)
    answers = [(answer, confidence) for _, answer, confidence in reports(imported.questions[0])]
    assert answers == [("5", 80.0), ("5", None), ("5", None), ("5", None), (None, None)]
    assert imported.statuses == {"ok": 1, "ambiguous": 1, "out_of_range": 1, "no_confidence": 1, "no_answer": 1}
    for wrong in ["answer is (", "answer is", "(a)(b)(c)"]:
        with pytest.raises(DirEAGError, match=r"--pattern: saw .*; expected a regular expression with one group"):
            import_logs("transcripts", [path], pattern=wrong)
    cut = write(tmp_path / "cut.jsonl", rows[0], rows[1] | {"finish_reason": "length"})
    assert import_logs("transcripts", [cut], pattern=pattern).statuses == {"ok": 1, "truncated": 1}


def test_gold_answers_must_agree(tmp_path: Path) -> None:
    rows = [{"id": "q", "level": place, "text": "Answer: 5", "gold_answer": place} for place in range(2)]
    with pytest.raises(DirEAGError, match=r"line 2: question 'q' has the gold answer '0' elsewhere; saw '1'"):
        import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)])


def test_what_is_no_transcript_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for text, message in [
        ("", "a.jsonl: the file is empty"),
        ('{"id": "q", "text": 5.5}\n{', "line 2: Invalid JSON"),
        ('{"text": "5"}', "line 1, field problem_id: Field required"),
        ("[1]", "line 1: Input should be an object"),
        ('{"id": "", "text": "Answer: 5", "gold_answer": "5"}', "line 1: a reply without the name of its question"),
    ]:
        path.write_text(text)
        with pytest.raises(DirEAGError, match=message):
            import_logs("transcripts", [path])
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(DirEAGError, match="this is not UTF-8 text"):
        import_logs("transcripts", [path])
    with pytest.raises(DirEAGError, match=r"none\.jsonl: saw no such file; expected a log of format transcripts"):
        import_logs("transcripts", [tmp_path / "none.jsonl"])


def test_a_confidence_beside_the_text_goes_before_one_in_it(tmp_path: Path) -> None:
    stated = (90, "80%", None, 60.5)
    rows = [{"id": n, "text": "Answer: 5\nConfidence: 9%", "confidence": one} for n, one in enumerate(stated)]
    imported = import_logs("transcripts", [write(tmp_path / "a.jsonl", *rows)], kind="numeric")
    assert [question.observations[0].confidence for question in imported.questions] == [90, 80, 9, 60.5]
    path = write(tmp_path / "b.jsonl", {"id": 1, "text": "Answer: 5", "confidence": 0.9})
    assert (
        import_logs("transcripts", [path], kind="numeric", scale="fraction").questions[0].observations[0].confidence
        == 90
    )
    with pytest.raises(
        DirEAGError, match=r"b\.jsonl, line 1: the confidence cannot be read; saw '0\.9'.*--scale fraction"
    ):
        import_logs("transcripts", [path], kind="numeric")


@pytest.mark.parametrize("name", ["NA", "nan", "null", " ", ""])
def test_a_question_needs_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(DirEAGError, match=r"line 1: a reply without the name of its question"):
        import_logs("transcripts", [write(tmp_path / "a.jsonl", {"id": name, "text": "Answer: 5"})], kind="numeric")
