"""``direag label``: the table that it writes and goes on with, and what it refuses."""

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from bayes_direag import Observations
from tests.command_line import one_line, refuse, succeed


@pytest.fixture
def table(tmp_path: Path, questions: Path) -> Path:
    said = succeed("label", questions, "--n", 6, "--out", tmp_path / "labels.csv")
    assert "labels.csv: 6 questions to label, 6 of them new (seed 0); 0 labelled." in one_line(said)
    assert f"Then: direag fit {questions} --labels {tmp_path / 'labels.csv'} --out fit.nc" in one_line(said)
    return tmp_path / "labels.csv"


def fill(path: Path, n: int) -> None:
    rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    for row in rows[1 : n + 1]:
        row[-1] = row[-2].split(" | ")[0]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)


def test_it_goes_on_with_a_table_that_is_filled_in(table, questions, tmp_path):
    first = table.read_bytes()
    assert first.startswith(b"\xef\xbb\xbfproblem_id,question,answers,gold_answer\n")
    succeed("label", questions, "--n", 6, "--out", table)
    assert table.read_bytes() == first
    fill(table, 4)
    filled = pd.read_csv(table)
    said = one_line(succeed("label", questions, "--n", 6, "--out", table))
    assert "6 questions to label, 4 of them new (seed 0); 4 labelled." in said
    assert pd.read_csv(table).iloc[:6].equals(filled)
    assert "There are no others" in succeed("label", questions, "--n", 500, "--out", table)
    fill(table, 40)
    assert "40 questions, 5 levels" in succeed("fit", questions, "--labels", table, "--out", tmp_path / "fit.nc")


def test_cells_of_models_do_nothing_in_a_spreadsheet(tmp_path):
    said = ["=HYPERLINK(1)", "@sum", "-5", 'say "a, b"\nor c', "plain"]
    reports = [{"level": level, "answer": answer, "confidence": 50} for level, answer in enumerate(said)]
    records = [{"problem_id": f"{k}", "question": "+1", "observations": reports} for k in range(2)]
    more = [{"level": level, "answer": f"other {level}", "confidence": 50} for level in range(12)]
    records.append({"problem_id": "many", "observations": more})
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, records)))
    succeed("label", tmp_path / "new.jsonl", "--n", 2, "--out", tmp_path / "labels.csv")
    rows = list(csv.reader((tmp_path / "labels.csv").read_text("utf-8-sig").splitlines(keepends=True)))
    assert rows[0] == ["problem_id", "question", "answer", "correct"]
    assert not any(cell.startswith(tuple("=+-@")) for row in rows for cell in row)
    filled = [[*row[:3], "true" if row[2] in (" -5", "other 3") else "false"] for row in rows[1:]]
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *filled])
    said = succeed("label", tmp_path / "new.jsonl", "--n", 2, "--out", tmp_path / "labels.csv")
    assert "1 questions to label, 1 of them new" in said


def test_free_text_is_judged_and_fitted_to(tmp_path, observations):
    known, letters = Observations.read(observations), str.maketrans("0123456789", "bcdfghjklm")
    reports = known.to_frame().assign(answer=lambda frame: "word " + frame["answer"].str.translate(letters))
    reports.drop(columns="gold_answer").to_csv(tmp_path / "new.csv", index=False)
    succeed("label", tmp_path / "new.csv", "--n", 20, "--out", tmp_path / "labels.csv")
    table = pd.read_csv(tmp_path / "labels.csv")
    right = {f"{one.problem_id} word {one.gold_answer.translate(letters)}" for one in known.questions}
    table["correct"] = (table["problem_id"] + " " + table["answer"]).isin(right)
    table.to_csv(tmp_path / "labels.csv", index=False)
    fit = ("fit", tmp_path / "new.csv", "--labels", tmp_path / "labels.csv", "--out", tmp_path / "fit.nc")
    printed = one_line(succeed(*fit))
    assert "text answers" in printed
    assert "20 questions, 5 levels" in printed


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a,b\n1,2\n", "line 1: this is not a table of labels; saw 'a, b'"),
        ("problem_id,gold_answer\nz,\n", "line 2, field problem_id: there is no such question; saw 'z'"),
        ("problem_id,gold_answer\nsilent,7\nsilent,8\n", "line 3, field gold_answer: question 'silent' has another"),
    ],
)  # fmt: skip
def test_another_file_is_never_written_over(tmp_path, questions, content, says):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    assert f"{path}, {says}" in refuse("label", questions, "--out", path)
    assert path.read_text() == content


def test_what_cannot_be_written(tmp_path, questions):
    reports = tmp_path / "reports.csv"
    Observations.read(questions, "numeric").write(reports)
    assert "--out" in refuse("label", reports, "--out", reports)
    assert "saw the suffix '.xlsx'; expected .csv" in refuse("label", questions, "--out", tmp_path / "labels.xlsx")
    page = ("label", questions, "--out", tmp_path / "labels.csv", "--page")
    assert "--page label: saw the suffix ''; expected .html" in refuse(*page, "label")
    assert f"--page {tmp_path / 'none' / 'a.html'}: there is no folder" in refuse(*page, tmp_path / "none" / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["reports.csv"]


def test_the_next_command_reads_the_file_in_the_same_way(tmp_path, observations):
    Observations.read(observations, "numeric").to_frame().rename(columns={"answer": "the answer"}).to_csv(
        tmp_path / "log.csv", index=False
    )
    options = ["--column", "answer=the answer", "--answers", "numeric"]
    said = succeed("label", tmp_path / "log.csv", *options, "--out", tmp_path / "labels.csv")
    assert "labels.csv --answers numeric --column 'answer=the answer' --out fit.nc" in said


def test_the_page_is_that_of_the_table(tmp_path, questions):
    names = tmp_path / "labels.csv", tmp_path / "label.html"
    succeed("label", questions, "--n", 3, "--out", names[0], "--page", names[1])
    page, table = (path.read_text("utf-8-sig") for path in names[::-1])
    assert all(name in page for name in pd.read_csv(io.StringIO(table))["problem_id"])
