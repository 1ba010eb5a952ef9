"""Labelling in headless Chromium: by keys and by touch, on a desk and on a phone, and what is saved in the end."""

import io
import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from bayes_direag import Observations, questions_to_label
from bayes_direag.data.labels import read_labels
from tests.analysis.browsers import DESK, PHONE, Tab, chromium, find_chromium
from tests.analysis.labelling.pages import hostile, numbers, written

pytestmark = pytest.mark.slow

KEYS = {"ArrowLeft": 37, "ArrowRight": 39}


@pytest.fixture
def tab() -> Tab:
    """Return a browser that remembers nothing."""
    with chromium(find_chromium()) as found:
        yield found


class Labeller:
    """Somebody before the page, who sees and does what a person can."""

    def __init__(self, tab: Tab, path: Path, window: tuple[int, int, bool] = DESK) -> None:
        self.tab, self.path = tab, path
        width, height, phone = window
        tab.open(path, width, height, phone=phone)

    def press(self, *keys: str) -> None:
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": KEYS[key]}
            self.tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, text: str) -> None:
        """Click in the middle of the button that shows this text."""
        found = f"[...document.querySelectorAll('button')].find(one => one.innerText.trim().endsWith({text!r}))"
        self.tab.evaluate(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y, width, height = self.tab.evaluate(
            f"(box => [box.x, box.y, box.width, box.height])({found}.getBoundingClientRect())"
        )
        where = {"x": x + width / 2, "y": y + height / 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.tab.call("Input.dispatchMouseEvent", type=kind, **where)

    def sees(self, name: str) -> str:
        return self.tab.evaluate(f"document.getElementById({name!r}).innerText")

    @property
    def chosen(self) -> list[str]:
        pressed = "[...document.querySelectorAll('[aria-pressed=true] span')].map(one => one.innerText)"
        return self.tab.evaluate(pressed)

    def save(self, folder: Path) -> Path:
        self.tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        self.click("Save table")
        for _ in range(200):
            if (folder / "labels.csv").exists():
                return folder / "labels.csv"
            time.sleep(0.05)
        raise AssertionError([path.name for path in folder.iterdir()])


@pytest.fixture
def person(tab: Tab, tmp_path: Path) -> Labeller:
    """Return somebody who labels four questions: pens, with $7 and 9; dogs, with -1, 2 and 4; and others."""
    table = questions_to_label(numbers(), 4).set_index("problem_id", drop=False)
    table = table.loc[["pens", "dogs", "eggs", "cats"]].reset_index(drop=True)
    return Labeller(tab, written(numbers(), tmp_path, table)[0])


def test_labelling_by_keys(person, tmp_path):
    assert (person.sees("text"), person.sees("progress")) == ("How many pens?", "Question 1 of 4 · 0 labelled")
    person.press("1")
    assert (person.sees("text"), person.sees("progress")) == ("How many dogs?", "Question 2 of 4 · 1 labelled")
    person.press("9", "a")  # there is no ninth answer
    assert person.sees("text") == "How many dogs?"
    person.press("1", "0", "ArrowRight")
    assert person.sees("count") == "3 of 4 questions are labelled."
    person.press("1", "ArrowRight")
    person.press("ArrowLeft", "ArrowLeft")
    assert (person.sees("text"), person.chosen, person.sees("next")) == ("How many eggs?", ["None of these"], "Next")
    person.press("0")
    assert (person.sees("progress"), person.chosen) == ("Question 3 of 4 · 2 labelled", [])
    person.press("2")
    saved = read_labels(person.save(tmp_path))
    assert dict(zip(saved["problem_id"], saved["gold_answer"], strict=True)) == {
        "pens": "$7",
        "dogs": " -1",
        "eggs": "3",
        "cats": "",
    }
    labelled = numbers().with_labels(tmp_path / "labels.csv")
    assert labelled.labelled.tolist() == [True, True, False, True]
    assert labelled.correct.tolist() == [[True, True, False], [True, False, False], [False] * 3, [True, False, False]]


def test_labelling_by_touch_skipping_and_going_back(person, tmp_path):
    person.click("Skip")
    person.click("None of these")
    assert person.sees("text") == "How many eggs?"
    person.click("Back")
    assert person.chosen == ["None of these"]
    person.click("4")
    person.click("Skip")
    person.click("8")
    assert person.sees("count") == "2 of 4 questions are labelled."
    person.click("Go to the first one without a label")
    assert person.sees("text") == "How many pens?"
    saved = read_labels(person.save(tmp_path))
    assert saved["gold_answer"].tolist() == ["", "4", "", "8"]
    assert saved["problem_id"].tolist() == ["pens", "dogs", "eggs", "cats"]
    assert saved["answers"].tolist() == ["$7 | 9", " -1 | 2 | 4", "5 | 3", "8"]


def test_a_reload_loses_nothing(person, tmp_path):
    person.press("2", "ArrowRight", "0")
    person.tab.reload()
    assert (person.sees("text"), person.sees("progress")) == ("How many dogs?", "Question 2 of 4 · 2 labelled")
    person.press("ArrowLeft")
    assert person.chosen == ["9"]
    # A page of the same set with more questions, or with a table that is filled in meanwhile, takes it over.
    table = questions_to_label(numbers(), 4)
    table.loc[table["problem_id"] == "pens", "gold_answer"] = "7"
    written(numbers(), tmp_path, table)
    person.tab.reload()
    assert person.sees("progress").endswith("2 labelled")
    saved = read_labels(person.save(tmp_path))
    assert dict(zip(saved["problem_id"], saved["gold_answer"], strict=True)) == {
        "pens": "$7",
        "dogs": "",
        "eggs": "none of these",
        "cats": "",
    }
    others = numbers().select(slice(0, 3))
    (tmp_path / "others").mkdir()
    elsewhere = Labeller(person.tab, written(others, tmp_path / "others")[0])
    assert elsewhere.sees("progress") == "Question 1 of 3 · 0 labelled"


def test_hostile_answers_and_verdicts(tab, tmp_path):
    observations = hostile()
    person = Labeller(tab, written(observations, tmp_path)[0])
    n = int(observations.n_candidates.max())
    for _ in range(3):
        shown = tab.evaluate("[...document.querySelectorAll('#answers span')].map(one => one.textContent)")
        first = shown[0]
        person.press("1", "2", "2", "3")
        assert person.chosen[0] == first
        assert len(person.chosen) == 2
        person.press("ArrowRight")
    assert tab.evaluate("document.title") == "labels.csv: questions to label"
    beyond = [url for url in tab.requested if not url.startswith("data:")]
    assert beyond == [person.path.resolve().as_uri()]
    labelled = Observations.from_questions(observations.questions, "text").with_labels(person.save(tmp_path))
    assert labelled.labelled.all()
    assert labelled.correct_candidate.sum(axis=1).tolist() == [2, 2, 2]
    assert n == 15


@pytest.mark.parametrize("window", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("make", [numbers, hostile])
def test_it_fits_the_window(tab, tmp_path, make, window):
    person = Labeller(tab, written(make(), tmp_path)[0], window)
    for _ in range(4):
        page, visible = tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert page <= visible
        heights = tab.evaluate(
            "[...document.querySelectorAll('button')].filter(one => one.offsetParent).map(one => one.offsetHeight)"
        )
        assert min(heights) >= 44  # a finger's breadth
        person.press("ArrowRight")
    assert tab.evaluate("getComputedStyle(document.getElementById('keys')).display !== 'none'") == (window == DESK)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", [PHONE, DESK], ids=["phone", "desk"])
def test_it_can_be_seen(tab, tmp_path, window, dark):
    width, height, phone = window
    tab.open(written(numbers(), tmp_path)[0], width, height, phone=phone, dark=dark)
    seen = imread(io.BytesIO(tab.screenshot()), format="png")[:, :, :3].mean(axis=2)
    assert (np.median(seen) < 0.2) == dark
    assert 0.002 < (np.abs(seen - np.median(seen)) > 0.4).mean() < 0.3
