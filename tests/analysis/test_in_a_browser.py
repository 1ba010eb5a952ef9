"""Reports and pages of labels in headless Chromium, on a phone and on a desk: what is seen, done and saved."""

import io
import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from analysis.evaluation import Evaluation, evaluate
from analysis.report import write_report
from bayes_direag import Observations, questions_to_label
from bayes_direag.data.labels import read_labels
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.browsers import DESK, PHONE, Tab, chromium, find_chromium
from tests.analysis.made import attacking_observations
from tests.analysis.test_labelling import THEN, hostile, numbers, written
from tests.made_fits import made_fit, natural

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reports")]

WINDOWS = pytest.mark.parametrize("window", [PHONE, DESK], ids=["phone", "desk"])
REPORTS = ("small", "nuts", "attacked", "wide")
KEYS = {"ArrowLeft": 37, "ArrowRight": 39}
#: Elements that reach beyond the window, and do not lie in a box that scrolls by itself.
CUT = """
[...document.querySelectorAll("body *")]
  .filter(one => !one.parentElement.closest(".scroll, pre, .ground"))
  .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(one => one.tagName + " " + one.textContent.slice(0, 40))
"""
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture
def tab() -> Tab:
    """Return a browser that remembers nothing."""
    with chromium(find_chromium()) as opened:
        yield opened


def fits(tab: Tab) -> bool:
    page, visible = tab.evaluate(WIDTHS)
    return page <= visible


def seen(tab: Tab) -> np.ndarray:
    """Return the colours of the window (row, column, channel)."""
    return imread(io.BytesIO(tab.screenshot()), format="png")[:, :, :3]


def asked_beyond(tab: Tab, path: Path) -> bool:
    return [url for url in tab.requested if not url.startswith("data:")] != [path.resolve().as_uri()]


def wide_observations() -> Observations:
    """Return questions with many levels, and names that cannot be broken."""
    questions = []
    for one in simulate_observations(12, seed=2).questions:
        told = [
            one.observations[0].model_copy(update={"level": level, "level_name": f"{level}{'w' * 120}"})
            for level in range(14)
        ]
        record = {"problem_id": one.problem_id + "w" * 200, "question": "w" * 300, "observations": tuple(told)}
        questions.append(one.model_copy(update=record))
    return Observations.from_questions(questions, "numeric")


@pytest.fixture(scope="module")
def reports(tmp_path_factory, evaluation: Evaluation, point: Fit, nuts: Fit) -> dict[str, Path]:
    """Return reports, drawn in full: of a MAP, of a posterior, of attacks, and of names without end."""
    folder = tmp_path_factory.mktemp("reports")
    parts = {"small": (evaluation, point), "nuts": (evaluation, nuts)}
    for name, observations in (("attacked", attacking_observations()), ("wide", wide_observations())):
        run = evaluate(observations, methods=["majority", "mean_confidence"], n_resamples=5)
        parts[name] = run, made_fit(observations, natural(observations.n_levels))
    for name, (run, fit) in parts.items():
        write_report(run, folder / f"{name}.html", fit, name)
    return {name: folder / f"{name}.html" for name in parts}


class TestReport:
    @WINDOWS
    @pytest.mark.parametrize("name", REPORTS)
    def test_it_fits_the_window_and_asks_for_nothing(self, tab, reports, name, window):
        width, height, phone = window
        tab.open(reports[name], width, height, phone=phone)
        assert not asked_beyond(tab, reports[name])
        for unfolded in (False, True):
            if unfolded:
                tab.evaluate(UNFOLD)
            assert fits(tab)
            assert tab.evaluate(CUT) == []
        assert tab.evaluate("[...document.images].every(one => one.complete && one.naturalWidth > 300)")
        assert tab.evaluate("document.images.length") == (9 if name == "nuts" else 6)

    def test_the_measure_sees_what_is_cut(self, tab, tmp_path):
        (tmp_path / "cut.html").write_text('<p style="width: 500px">wide</p>')
        tab.open(tmp_path / "cut.html", *PHONE[:2], phone=False)
        assert tab.evaluate(CUT) == ["P wide"]

    @WINDOWS
    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    def test_it_can_be_seen(self, tab, reports, window, dark):
        width, height, phone = window
        tab.open(reports["small"], width, height, phone=phone, dark=dark)
        grey = seen(tab).mean(axis=2)
        assert grey.shape == (height, width)
        assert (np.median(grey) < 0.2) == dark
        written_on = np.abs(grey - np.median(grey)) > 0.4
        assert 0.01 < written_on.mean() < 0.3
        assert written_on.any(axis=1).mean() > 0.3
        tab.evaluate(UNFOLD)
        tab.evaluate("document.querySelector('img').scrollIntoView({behavior: 'instant'})")
        picture = seen(tab)
        assert (np.median(picture.mean(axis=2)) < 0.2) == dark
        assert (np.ptp(picture, axis=2) > 0.3).sum() > 100  # coloured marks

    def test_on_paper_nothing_is_cut_and_a_picture_can_be_enlarged_on_a_phone(self, tab, reports):
        for name in ("small", "nuts"):
            tab.open(reports[name], 700, 1000, phone=False)
            tab.call("Emulation.setEmulatedMedia", media="print")
            assert fits(tab)
            tab.call("Emulation.setEmulatedMedia", media="")
        tab.open(reports["small"], *PHONE[:2], phone=True)
        tab.evaluate(UNFOLD)
        width = "document.querySelector('img').getBoundingClientRect().width"
        assert 370 < tab.evaluate(width) <= 390
        tab.evaluate("document.querySelector('.zoom input').click()")
        assert tab.evaluate(width) > 700
        assert fits(tab)
        tab.open(reports["small"], *DESK[:2], phone=False)
        tab.evaluate(UNFOLD)
        assert tab.evaluate("getComputedStyle(document.querySelector('.zoom')).display") == "none"


class Labeller:
    """Somebody before the page of labels, who sees and does what a person can."""

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
        button = f"[...document.querySelectorAll('button')].find(one => one.innerText.trim().endsWith({text!r}))"
        self.tab.evaluate(f"{button}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y, width, height = self.tab.evaluate(
            f"(box => [box.x, box.y, box.width, box.height])({button}.getBoundingClientRect())"
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

    def saved(self, folder: Path) -> dict[str, str]:
        table = read_labels(self.save(folder))
        return dict(zip(table["problem_id"], table["gold_answer"], strict=True))


@pytest.fixture
def person(tab: Tab, tmp_path: Path) -> Labeller:
    """Return somebody who labels four questions: pens, with $7 and 9; dogs, with -1, 2 and 4; and others."""
    table = questions_to_label(numbers(), 4).set_index("problem_id", drop=False)
    table = table.loc[["pens", "dogs", "eggs", "cats"]].reset_index(drop=True)
    return Labeller(tab, written(numbers(), tmp_path, table)[0])


class TestLabelling:
    def test_by_keys(self, person, tmp_path):
        assert (person.sees("text"), person.sees("progress")) == ("How many pens?", "Question 1 of 4 · 0 labelled")
        person.press("1")
        assert (person.sees("text"), person.sees("progress")) == ("How many dogs?", "Question 2 of 4 · 1 labelled")
        person.press("9", "a")  # there is no ninth answer
        assert person.sees("text") == "How many dogs?"
        person.press("1", "0", "ArrowRight")
        assert person.sees("count") == "3 of 4 questions are labelled."
        person.press("1", "ArrowRight")
        person.press("ArrowLeft", "ArrowLeft")
        expected = ("How many eggs?", ["None of these"], "Next")
        assert (person.sees("text"), person.chosen, person.sees("next")) == expected
        person.press("0")
        assert (person.sees("progress"), person.chosen) == ("Question 3 of 4 · 2 labelled", [])
        person.press("2")
        assert person.saved(tmp_path) == {"pens": "$7", "dogs": " -1", "eggs": "3", "cats": ""}
        labelled = numbers().with_labels(tmp_path / "labels.csv")
        assert labelled.labelled.tolist() == [True, True, False, True]
        right = [[True, True, False], [True, False, False], [False] * 3, [True, False, False]]
        assert labelled.correct.tolist() == right

    def test_by_touch_skipping_and_going_back(self, person, tmp_path):
        person.click("Skip")
        person.click("None of these")
        assert person.sees("text") == "How many eggs?"
        person.click("Back")
        assert person.chosen == ["None of these"]
        for button in ("4", "Skip", "8"):
            person.click(button)
        assert person.sees("count") == "2 of 4 questions are labelled."
        person.tab.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }")
        person.click("Copy")
        assert (person.tab.evaluate("window.copied"), person.sees("copy")) == (THEN, "Copied")
        person.click("Go to the first one without a label")
        assert person.sees("text") == "How many pens?"
        assert person.saved(tmp_path) == {"pens": "", "dogs": "4", "eggs": "", "cats": "8"}

    def test_a_reload_loses_nothing(self, person, tmp_path):
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
        assert person.saved(tmp_path) == {"pens": "$7", "dogs": "", "eggs": "none of these", "cats": ""}
        (tmp_path / "others").mkdir()
        elsewhere = Labeller(person.tab, written(numbers().select(slice(0, 3)), tmp_path / "others")[0])
        assert elsewhere.sees("progress") == "Question 1 of 3 · 0 labelled"

    def test_hostile_answers_and_verdicts(self, tab, tmp_path):
        observations = hostile()
        person = Labeller(tab, written(observations, tmp_path)[0])
        for _ in range(3):
            shown = tab.evaluate("[...document.querySelectorAll('#answers span')].map(one => one.textContent)")
            person.press("1", "2", "2", "3")
            assert (person.chosen[0], len(person.chosen)) == (shown[0], 2)
            person.press("ArrowRight")
        assert tab.evaluate("document.title") == "labels.csv: questions to label"
        assert not asked_beyond(tab, person.path)
        labelled = Observations.from_questions(observations.questions, "text").with_labels(person.save(tmp_path))
        assert labelled.labelled.all()
        assert labelled.correct_candidate.sum(axis=1).tolist() == [2, 2, 2]
        assert int(observations.n_candidates.max()) == 15

    @WINDOWS
    @pytest.mark.parametrize("make", [numbers, hostile])
    def test_it_fits_the_window(self, tab, tmp_path, make, window):
        person = Labeller(tab, written(make(), tmp_path)[0], window)
        buttons = "[...document.querySelectorAll('button')].filter(one => one.offsetParent)"
        for _ in range(4):
            assert fits(tab)
            assert min(tab.evaluate(f"{buttons}.map(one => one.offsetHeight)")) >= 44  # a finger's breadth
            person.press("ArrowRight")
        has_keys = tab.evaluate("getComputedStyle(document.getElementById('keys')).display !== 'none'")
        assert has_keys == (window == DESK)

    @WINDOWS
    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    def test_it_can_be_seen(self, tab, tmp_path, window, dark):
        width, height, phone = window
        tab.open(written(numbers(), tmp_path)[0], width, height, phone=phone, dark=dark)
        grey = seen(tab).mean(axis=2)
        assert (np.median(grey) < 0.2) == dark
        assert 0.002 < (np.abs(grey - np.median(grey)) > 0.4).mean() < 0.3
