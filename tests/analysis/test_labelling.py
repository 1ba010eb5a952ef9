"""Labels: the table that the command writes and goes on with, and its page as it stands in its file."""

import base64
import csv
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.display import labelling_page
from analysis.display.labelling_page import fingerprint, write_labelling_page
from bayes_direag import Observations, questions_to_label
from bayes_direag.data.records import Observation, Question
from tests.analysis.pages import Page
from tests.command_line import direag, one_line, refuse, succeed

THEN = "direag fit new.jsonl --labels labels.csv"


def question(name: str, *answers: str, text: str | None = None) -> Question:
    reports = (Observation(level=k, answer=answer, confidence=50 + k) for k, answer in enumerate(answers))
    return Question(problem_id=name, question=text, observations=tuple(reports))


def numbers() -> Observations:
    said = {"pens": ["7", "$7", "9"], "eggs": ["3", "5", "5"], "cats": ["8", "8.0", "8"], "dogs": ["-1", "2", "4"]}
    return Observations.from_questions(
        [question(name, *answers, text=f"How many {name}?") for name, answers in said.items()], "numeric"
    )


def hostile() -> Observations:
    """Return free text that is made to break pages and tables."""
    markup = ["<b>bold</b>", "</script><script>document.title = 'broken'</script>", "=1+1", 'a "b", c\nd', "\u202eabc"]
    names = ["<img src=x onerror=\"document.title='broken'\">", "__proto__", "w" * 300]
    texts = [*markup, "{{ 7 * 7 }}", "x" * 500, *(f"other {k}" for k in range(8))]
    questions = [question(name, *texts[k:], text=f"{name} & more") for k, name in enumerate(names)]
    return Observations.from_questions(questions, "text")


def written(observations: Observations, folder: Path, table: pd.DataFrame | None = None) -> tuple[Path, pd.DataFrame]:
    """Write the page of a table of labels, by default of all questions, and return both."""
    table = questions_to_label(observations, len(observations)) if table is None else table
    write_labelling_page(table, observations, folder / "label.html", file="labels.csv", then=THEN)
    return folder / "label.html", table


def data_of(path: Path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)[1])


def screens_of(path: Path, field: str) -> dict[str, object]:
    return {one["name"]: one[field] for one in data_of(path)["questions"]}


class TestPage:
    def test_what_it_holds(self, tmp_path: Path) -> None:
        path, table = written(numbers(), tmp_path)
        data = data_of(path)
        assert (data["file"], data["column"], data["header"]) == ("labels.csv", 3, table.columns.tolist())
        assert [row[0] for row in data["rows"]] == table["problem_id"].tolist()
        assert (screens_of(path, "text")["pens"], screens_of(path, "right")["pens"]) == ("How many pens?", None)
        assert screens_of(path, "answers")["dogs"] == [" -1", "2", "4"]
        assert [screens_of(path, "shown")[name] for name in ("pens", "dogs")] == [["7", "9"], ["-1", "2", "4"]]
        assert THEN in Page.read(path).text

    def test_choices_stand_under_their_letters(self, tmp_path: Path) -> None:
        choices = Observations.from_questions([question("q", "C", "(c)", "B", "a"), question("r", "D")], "choice")
        table = questions_to_label(choices, 2)
        assert set(table["answers"]) == {"C | a | B", "D"}
        path, _ = written(choices, tmp_path, table)
        assert (screens_of(path, "keys")["q"], screens_of(path, "answers")["q"]) == (["A", "B", "C"], ["a", "B", "C"])
        by_answer = {"problem_id": "q", "answer": ["C", "B", "a"], "correct": ["true", "false", "false"]}
        (judged,) = data_of(written(choices, tmp_path, pd.DataFrame(by_answer))[0])["questions"]
        assert (judged["answers"], judged["rows"], judged["right"]) == (["a", "B", "C"], [2, 1, 0], ["C"])

    def test_it_goes_on_where_the_table_is(self, tmp_path: Path) -> None:
        table = questions_to_label(numbers(), 4).set_index("problem_id", drop=False)
        table["gold_answer"] = {"pens": "7.00", "eggs": "none of these", "cats": "11", "dogs": ""}
        path, _ = written(numbers(), tmp_path, table.reset_index(drop=True))
        assert screens_of(path, "right") == {"pens": ["7"], "eggs": [], "cats": ["11"], "dogs": None}
        table = questions_to_label(hostile(), 3)
        first = table["problem_id"] == "__proto__"
        table.loc[first, "correct"] = (table["answer"].str.startswith("other") & first)[first].map(str)
        right = screens_of(written(hostile(), tmp_path, table)[0], "right")
        assert sorted(right.pop("__proto__")) == [f"other {k}" for k in range(8)]
        assert [*right.values()] == [None, None]

    def test_nothing_that_others_wrote_is_part_of_it(self, tmp_path: Path) -> None:
        path, _ = written(hostile(), tmp_path)
        page = Page.read(path)
        assert {name for name, _ in page.tags} == {
            *("html", "head", "meta", "title", "style", "body", "header", "p", "progress", "noscript", "main", "h1"),
            *("div", "pre", "code", "button", "nav", "kbd", "script"),
        }
        assert len(page.attributes("script")) == 2
        script = (Path(labelling_page.__file__).parent / "labelling.js").read_bytes()
        digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
        policy = next(meta["content"] for meta in page.attributes("meta") if "http-equiv" in meta)
        assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        assert "\u202e" not in path.read_text()
        shown = {text for texts in screens_of(path, "shown").values() for text in texts}
        assert {"\\u202eabc", "<b>bold</b>", "=1+1"} <= shown
        of_numbers = Page.read(written(numbers(), tmp_path)[0])  # with a place for an answer that nobody gave
        assert {name for name, _ in of_numbers.tags} - {name for name, _ in page.tags} == {"label", "input"}

    def test_the_fingerprint_is_that_of_the_set(self) -> None:
        observations = numbers()
        shuffled = observations.select(np.array([2, 0, 3, 1]))
        labelled = observations.with_labels(questions_to_label(observations, 4).assign(gold_answer="8"))
        assert fingerprint(shuffled) == fingerprint(labelled) == fingerprint(observations)
        assert fingerprint(observations.select(slice(0, 3))) != fingerprint(observations) != fingerprint(hostile())


@pytest.fixture
def table(tmp_path: Path, questions: Path) -> Path:
    page = tmp_path / "label.html"
    said = one_line(succeed("label", questions, "--n", 6, "--out", tmp_path / "labels.csv", "--page", page))
    assert "labels.csv: 6 questions to label, 6 of them new (seed 0); 0 labelled." in said
    assert f"Then: direag fit {questions} --labels {tmp_path / 'labels.csv'}" in said
    assert all(name in page.read_text() for name in pd.read_csv(tmp_path / "labels.csv")["problem_id"])
    return tmp_path / "labels.csv"


def fill(path: Path, n: int) -> None:
    rows = list(csv.reader(path.read_text("utf-8-sig").splitlines()))
    for row in rows[1 : n + 1]:
        row[-2] = row[-3].split(" | ")[0]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)


class TestCommand:
    def test_it_goes_on_with_a_table_that_is_filled_in(self, table: Path, questions: Path, tmp_path: Path) -> None:
        first = table.read_bytes()
        assert first.startswith(b"\xef\xbb\xbfproblem_id,question,answers,gold_answer,chosen\n")
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

    def test_cells_of_models_do_nothing_in_a_spreadsheet(self, tmp_path: Path) -> None:
        said = ["=HYPERLINK(1)", "@sum", "-5", 'say "a, b"\nor c', "plain"]
        reports = [{"level": level, "answer": answer, "confidence": 50} for level, answer in enumerate(said)]
        records = [{"problem_id": f"{k}", "question": "+1", "observations": reports} for k in range(2)]
        more = [{"level": level, "answer": f"other {level}", "confidence": 50} for level in range(12)]
        records.append({"problem_id": "many", "observations": more})
        (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, records)))
        succeed("label", tmp_path / "new.jsonl", "--n", 2, "--out", tmp_path / "labels.csv")
        rows = list(csv.reader((tmp_path / "labels.csv").read_text("utf-8-sig").splitlines(keepends=True)))
        assert rows[0] == ["problem_id", "question", "answer", "correct", "chosen"]
        assert not any(cell.startswith(tuple("=+-@")) for row in rows for cell in row)
        filled = [[*row[:3], "true" if row[2] in (" -5", "other 3") else "false", row[4]] for row in rows[1:]]
        with (tmp_path / "labels.csv").open("w", newline="") as file:
            csv.writer(file).writerows([rows[0], *filled])
        printed = succeed("label", tmp_path / "new.jsonl", "--n", 2, "--out", tmp_path / "labels.csv")
        assert "1 questions to label, 1 of them new" in printed

    def test_the_table_calls_questions_as_their_file_does(self, tmp_path: Path, observations: Path) -> None:
        frame = Observations.read(observations, "numeric").to_frame().drop(columns="gold_answer")
        frame.rename(columns={"problem_id": "item"}).to_csv(tmp_path / "log.csv", index=False)
        ask = ("label", tmp_path / "log.csv", "--answers", "numeric", "--out", tmp_path / "labels.csv")
        assert "6 questions to label, 6 of them new" in succeed(*ask, "--n", 6)
        assert (tmp_path / "labels.csv").read_text("utf-8-sig").startswith("item,question,answers,gold_answer,chosen\n")
        fill(tmp_path / "labels.csv", 3)
        assert "6 questions to label, 3 of them new (seed 0); 3 labelled." in succeed(*ask, "--n", 6)
        text = (tmp_path / "labels.csv").read_text("utf-8-sig")
        (tmp_path / "labels.csv").write_text(text.replace("\n", "\nx", 1))
        assert "labels.csv, line 2, field item: there is no such question" in direag(*ask, "--n", 6).stderr

    def test_another_file_is_never_written_over(self, tmp_path: Path, questions: Path) -> None:
        path, content = tmp_path / "labels.csv", "problem_id,gold_answer\nz,\n"
        path.write_text(content)
        said = refuse("label", questions, "--out", path)
        assert f"{path}, line 2, field problem_id: there is no such question" in said
        assert path.read_text() == content

    def test_the_next_command_reads_the_file_in_the_same_way(self, tmp_path: Path, observations: Path) -> None:
        frame = Observations.read(observations, "numeric").to_frame().drop(columns="gold_answer")
        frame.rename(columns={"answer": "the answer"}).to_csv(tmp_path / "log.csv", index=False)
        options = ["--column", "answer=the answer", "--answers", "numeric"]
        said = succeed("label", tmp_path / "log.csv", *options, "--out", tmp_path / "labels.csv")
        assert "labels.csv --answers numeric --column 'answer=the answer'" in said
