"""Reports and pages of labels in headless Chromium, on a phone and on a desk: what is seen, done and saved."""

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from analysis.evaluation import Evaluation, evaluate
from analysis.report import write_report
from bayes_direag import Observations, questions_to_label
from bayes_direag.data.labels import read_labels
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.made import attacking_observations
from tests.analysis.test_labelling import THEN, hostile, numbers, written
from tests.made_fits import made_fit, natural

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("reports")]

WINDOWS = {"phone": (390, 844), "desk": (1280, 900)}
#: Elements that reach beyond the window, and do not lie in a box that scrolls by itself.
CUT = """
[...document.querySelectorAll("body *")]
  .filter(one => !one.parentElement.closest(".scroll, pre, .ground"))
  .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(one => one.tagName + " " + one.textContent.slice(0, 40))
"""
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
HEIGHTS = "[...document.querySelectorAll('button')].filter(one => one.offsetParent).map(one => one.offsetHeight)"
ENDS_OF_FIRST_METHODS = """
[...document.querySelectorAll("table[aria-label='Is it better than a simpler method?'] tbody tr")]
  .map(row => row.lastElementChild.getBoundingClientRect().right)
"""
#: How many lines the tallest name of a row takes.
LINES_OF_NAMES = """
Math.max(...[...document.querySelectorAll("tbody th")]
  .map(one => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight)))
"""
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no browser to look with: neither chromium nor google-chrome is on the PATH")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        yield driver.chromium.launch(executable_path=program)


@pytest.fixture
def shown(chromium: Any) -> Iterator[Any]:
    """Return what opens a page in a browser that remembers nothing; no page asks for more than its own file."""
    contexts = []

    def show(path: Path, window: str = "desk", scheme: str = "light") -> Any:
        width, height = WINDOWS[window]
        size, is_phone = {"width": width, "height": height}, window == "phone"
        contexts.append(
            chromium.new_context(viewport=size, is_mobile=is_phone, has_touch=is_phone, color_scheme=scheme)
        )
        page, asked = contexts[-1].new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.resolve().as_uri())
        assert [url for url in asked if not url.startswith("data:")] == [path.resolve().as_uri()]
        return page

    yield show
    for context in contexts:
        context.close()


def wide_observations() -> Observations:
    """Return questions with many levels, and names that cannot be broken."""
    questions = []
    for one in simulate_observations(12, seed=2).questions:
        report = one.observations[0]
        told = [report.model_copy(update={"level": k, "level_name": f"{k}{'w' * 120}"}) for k in range(14)]
        record = {"problem_id": one.problem_id + "w" * 200, "question": "w" * 300, "observations": tuple(told)}
        questions.append(one.model_copy(update=record))
    return Observations.from_questions(questions, "numeric")


@pytest.fixture(scope="module")
def pages(tmp_path_factory, evaluation: Evaluation, point: Fit, nuts: Fit) -> dict[str, Path]:
    """Return reports of a MAP, of a posterior, of attacks, of names without end; and pages of labels."""
    folder = tmp_path_factory.mktemp("pages")
    parts = {"map": (evaluation, point), "nuts": (evaluation, nuts)}
    for name, observations in (("attacked", attacking_observations()), ("wide", wide_observations())):
        run = evaluate(observations, methods=["majority", "mean_confidence"], n_resamples=5)
        parts[name] = run, made_fit(observations, natural(observations.n_levels))
    for name, (run, fit) in parts.items():
        write_report(run, folder / f"{name}.html", fit, name)
    found = {name: folder / f"{name}.html" for name in parts}
    for make in (numbers, hostile):
        (folder / make.__name__).mkdir()
        found[make.__name__] = written(make(), folder / make.__name__)[0]
    return found


@pytest.mark.parametrize("window", WINDOWS)
def test_pages_fit_the_window_and_can_be_seen(shown: Any, pages: dict[str, Path], window: str) -> None:
    for name, path in pages.items():
        page = shown(path, window)
        for _ in range(4):
            assert page.evaluate(FITS), name
            assert page.evaluate(CUT) == [], name
            if name in ("numbers", "hostile"):
                assert min(page.evaluate(HEIGHTS)) >= 44  # a finger's breadth
                page.keyboard.press("ArrowRight")
            page.evaluate(UNFOLD)
        images = page.evaluate("[...document.images].map(one => one.complete && one.naturalWidth > 300)")
        assert images == [True] * {"nuts": 9, "numbers": 0, "hostile": 0}.get(name, 6)
    assert page.evaluate("getComputedStyle(document.getElementById('keys')).display !== 'none'") == (window == "desk")
    for name, dark in ((name, dark) for name in ("map", "numbers") for dark in (False, True)):
        page = shown(pages[name], window, "dark" if dark else "light")
        grey = imread(io.BytesIO(page.screenshot()))[:, :, :3].mean(axis=2)
        assert grey.shape == WINDOWS[window][::-1]
        assert (np.median(grey) < 0.2) == dark
        assert 0.002 < (np.abs(grey - np.median(grey)) > 0.4).mean() < 0.3
        if name == "map":
            ends = page.evaluate(ENDS_OF_FIRST_METHODS)
            assert len(ends) == 5
            assert max(ends) <= WINDOWS[window][0]  # the accuracy is in sight
            page.evaluate(UNFOLD)
            assert page.evaluate(LINES_OF_NAMES) < 5  # none is broken letter by letter
            page.evaluate("document.querySelector('img').scrollIntoView({behavior: 'instant'})")
            picture = imread(io.BytesIO(page.screenshot()))[:, :, :3]
            assert (np.median(picture.mean(axis=2)) < 0.2) == dark
            assert (np.ptp(picture, axis=2) > 0.3).sum() > 100  # coloured marks


def test_report_is_whole_on_paper_and_its_pictures_can_be_enlarged_on_a_phone(shown, pages, tmp_path) -> None:
    for name in ("map", "nuts"):
        page = shown(pages[name])
        page.set_viewport_size({"width": 700, "height": 1000})
        page.emulate_media(media="print")
        assert page.evaluate(FITS)
    for window in WINDOWS:
        page = shown(pages["map"], window)
        page.evaluate(UNFOLD)
        if window == "desk":
            assert page.evaluate("getComputedStyle(document.querySelector('.zoom')).display") == "none"
            continue
        width = "document.querySelector('img').getBoundingClientRect().width"
        assert 370 < page.evaluate(width) <= 390
        page.evaluate("document.querySelector('.zoom input').click()")
        assert page.evaluate(width) > 700
        assert page.evaluate(FITS)
    (tmp_path / "cut.html").write_text('<p style="width: 2000px">wide</p>')
    assert shown(tmp_path / "cut.html").evaluate(CUT) == ["P wide"]  # so the measure sees what is cut


class Labeller:
    """Somebody before the page of labels, who sees and does what a person can."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def click(self, *texts: str) -> None:
        for text in texts:
            ending = re.compile(rf"{re.escape(text)}\s*$")
            self.page.locator("button:visible").filter(has_text=ending).first.click()

    def sees(self, *names: str) -> list[str]:
        return [self.page.locator(f"#{name}").inner_text() for name in names]

    @property
    def chosen(self) -> list[str]:
        return self.page.locator("[aria-pressed=true] span").all_inner_texts()

    def saved(self, path: Path) -> dict[str, str]:
        with self.page.expect_download() as download:
            self.click("Save table")
        download.value.save_as(path)
        table = read_labels(path)
        return dict(zip(table["problem_id"], table["gold_answer"], strict=True)) if "gold_answer" in table else {}


@pytest.fixture
def person(shown, tmp_path: Path) -> Labeller:
    """Return somebody who labels four questions: pens, with 7 and 9; dogs, with -1, 2 and 4; and others."""
    table = questions_to_label(numbers(), 4).set_index("problem_id", drop=False)
    table = table.loc[["pens", "dogs", "eggs", "cats"]].reset_index(drop=True)
    return Labeller(shown(written(numbers(), tmp_path, table)[0]))


class TestLabelling:
    def test_by_keys(self, person: Labeller, tmp_path: Path) -> None:
        assert person.sees("text", "progress") == ["How many pens?", "Question 1 of 4 · 0 labelled"]
        person.press("1")
        assert person.sees("text", "progress") == ["How many dogs?", "Question 2 of 4 · 1 labelled"]
        person.press("9", "a")  # there is no ninth answer
        assert person.sees("text") == ["How many dogs?"]
        person.press("1", "0", "ArrowRight")
        assert person.sees("count") == ["3 of 4 questions are labelled."]
        person.press("1", "ArrowRight", "ArrowLeft", "ArrowLeft")
        assert (person.sees("text", "next"), person.chosen) == (["How many eggs?", "Next"], ["None of these"])
        person.press("0")
        assert (person.sees("progress"), person.chosen) == (["Question 3 of 4 · 2 labelled"], [])
        person.press("2")
        assert person.saved(tmp_path / "l.csv") == {"pens": "7", "dogs": " -1", "eggs": "3", "cats": ""}
        labelled = numbers().with_labels(tmp_path / "l.csv")
        assert labelled.labelled.tolist() == [True, True, False, True]
        right = [[True, True, False], [True, False, False], [False] * 3, [True, False, False]]
        assert labelled.correct.tolist() == right

    def test_by_touch_skipping_and_going_back(self, person: Labeller, tmp_path: Path) -> None:
        person.click("Skip", "None of these")
        assert person.sees("text") == ["How many eggs?"]
        person.click("Back")
        assert person.chosen == ["None of these"]
        person.click("4", "Skip", "8")
        assert person.sees("count") == ["2 of 4 questions are labelled."]
        person.page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }")
        person.click("Copy")
        assert (person.page.evaluate("window.copied"), person.sees("copy")) == (THEN, ["Copied"])
        person.click("Go to the first one without a label")
        assert person.sees("text") == ["How many pens?"]
        assert person.saved(tmp_path / "l.csv") == {"pens": "", "dogs": "4", "eggs": "", "cats": "8"}

    def test_an_answer_that_nobody_gave_is_typed(self, person: Labeller, tmp_path: Path) -> None:
        """Its digits choose nothing, and what is cleared is no label."""
        other = person.page.locator("#other")
        other.press_sequentially("12")
        other.press("Enter")
        assert person.sees("text", "progress") == ["How many dogs?", "Question 2 of 4 · 1 labelled"]
        other.fill("4")  # an answer that was given
        other.press("Tab")
        assert (person.chosen, other.input_value()) == (["4"], "")
        person.click("Next")
        other.fill("77")
        person.click("Back")
        person.click("Back")
        assert (person.chosen, other.input_value()) == ([], "12")
        other.fill("")
        person.click("Next")
        assert person.saved(tmp_path / "l.csv") == {"pens": "", "dogs": "4", "eggs": "77", "cats": ""}

    def test_a_reload_loses_nothing(self, person: Labeller, tmp_path: Path) -> None:
        person.press("2", "ArrowRight", "0")
        person.page.reload()
        assert person.sees("text", "progress") == ["How many dogs?", "Question 2 of 4 · 2 labelled"]
        person.press("ArrowLeft")
        assert person.chosen == ["9"]
        # A page of the same set with more questions, or with a table that is filled in meanwhile, takes it over.
        table = questions_to_label(numbers(), 4)
        table.loc[table["problem_id"] == "pens", "gold_answer"] = "7"
        written(numbers(), tmp_path, table)
        person.page.reload()
        assert person.sees("progress")[0].endswith("2 labelled")
        assert person.saved(tmp_path / "l.csv") == {"pens": "7", "dogs": "", "eggs": "none of these", "cats": ""}
        (tmp_path / "others").mkdir()
        person.page.goto(written(numbers().select(slice(0, 3)), tmp_path / "others")[0].as_uri())
        assert person.sees("progress") == ["Question 1 of 3 · 0 labelled"]

    def test_hostile_answers_and_verdicts(self, shown, pages: dict[str, Path], tmp_path: Path) -> None:
        observations, person = hostile(), Labeller(shown(pages["hostile"]))
        for _ in range(3):
            answers = person.page.locator("#answers span").all_text_contents()
            person.press("1", "2", "2", "3")
            assert (person.chosen[0], len(person.chosen)) == (answers[0], 2)
            person.press("ArrowRight")
        assert person.page.title() == "labels.csv: questions to label"
        person.saved(tmp_path / "l.csv")
        labelled = Observations.from_questions(observations.questions, "text").with_labels(tmp_path / "l.csv")
        assert labelled.labelled.all()
        assert labelled.correct_candidate.sum(axis=1).tolist() == [2, 2, 2]
        assert int(observations.n_candidates.max()) == 15
