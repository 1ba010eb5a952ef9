"""The report in headless Chromium, on a phone and on a desk: nothing is cut, nothing missing, nothing asked for."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from analysis.evaluation import Evaluation, evaluate
from analysis.report import write_report
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.browsers import DESK, PHONE, Tab, chromium, find_chromium
from tests.analysis.made import attacking_observations
from tests.made_fits import made_fit, natural

pytestmark = pytest.mark.slow

REPORTS = ("small", "nuts", "attacked", "wide")

#: Elements that reach beyond the window, and do not lie in a box that scrolls by itself.
CUT = """
[...document.querySelectorAll("body *")]
  .filter(one => !one.parentElement.closest(".scroll, pre, .ground"))
  .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(one => one.tagName + " " + one.textContent.slice(0, 40))
"""
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.fixture(scope="module")
def tab() -> Tab:
    with chromium(find_chromium()) as found:
        yield found


def wide_observations() -> Observations:
    """Return questions with many levels, and names that cannot be broken."""
    questions = []
    for one in simulate_observations(12, seed=2).questions:
        told = [
            one.observations[0].model_copy(update={"level": level, "level_name": f"{level}{'w' * 120}"})
            for level in range(14)
        ]
        own = {"problem_id": one.problem_id + "w" * 200, "question": "w" * 300, "observations": tuple(told)}
        questions.append(one.model_copy(update=own))
    return Observations.from_questions(questions, "numeric")


@pytest.fixture(scope="module")
def reports(tmp_path_factory, evaluation: Evaluation, point: Fit, nuts: Fit) -> dict[str, Path]:
    """Return reports, drawn in full: of a MAP, of a posterior, of attacks, and of names without end."""
    folder = tmp_path_factory.mktemp("reports")
    parts = {"small": (evaluation, point), "nuts": (evaluation, nuts)}
    for name, own in (("attacked", attacking_observations()), ("wide", wide_observations())):
        run = evaluate(own, methods=["majority", "mean_confidence"], n_resamples=5)
        parts[name] = run, made_fit(own, natural(own.n_levels))
    for name, (run, fit) in parts.items():
        write_report(run, folder / f"{name}.html", fit, name)
    return {name: folder / f"{name}.html" for name in parts}


@pytest.mark.parametrize("window", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("name", REPORTS)
def test_it_fits_the_window(tab, reports, name, window):
    width, height, phone = window
    tab.open(reports[name], width, height, phone=phone)
    for unfolded in (False, True):
        if unfolded:
            tab.evaluate(UNFOLD)
        page, visible = tab.evaluate(WIDTHS)
        assert page <= visible
        assert tab.evaluate(CUT) == []
    assert tab.evaluate("[...document.images].every(one => one.complete && one.naturalWidth > 300)")
    assert tab.evaluate("document.images.length") == (9 if name == "nuts" else 6)


def test_it_asks_for_nothing(tab, reports):
    for path in reports.values():
        tab.open(path, *PHONE[:2], phone=True)
        beyond = [url for url in tab.requested if not url.startswith("data:")]
        assert beyond == [path.resolve().as_uri()]


def test_the_measure_sees_what_is_cut(tab, tmp_path):
    (tmp_path / "cut.html").write_text('<p style="width: 500px">wide</p>')
    tab.open(tmp_path / "cut.html", *PHONE[:2], phone=False)
    assert tab.evaluate(CUT) == ["P wide"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", [PHONE, DESK], ids=["phone", "desk"])
def test_it_can_be_seen(tab, reports, window, dark):
    width, height, phone = window
    tab.open(reports["small"], width, height, phone=phone, dark=dark)
    seen = imread(io.BytesIO(tab.screenshot()), format="png")[:, :, :3].mean(axis=2)
    assert seen.shape == (height, width)
    assert (np.median(seen) < 0.2) == dark
    written = np.abs(seen - np.median(seen)) > 0.4
    assert 0.01 < written.mean() < 0.3
    assert written.any(axis=1).mean() > 0.3
    tab.evaluate(UNFOLD)
    tab.evaluate("document.querySelector('img').scrollIntoView({behavior: 'instant'})")
    picture = imread(io.BytesIO(tab.screenshot()), format="png")[:, :, :3]
    assert (np.median(picture.mean(axis=2)) < 0.2) == dark
    assert (np.ptp(picture, axis=2) > 0.3).sum() > 100  # coloured marks


@pytest.mark.parametrize("name", ["small", "nuts"])
def test_on_paper_nothing_is_cut(tab, reports, name):
    tab.open(reports[name], 700, 1000, phone=False)
    tab.call("Emulation.setEmulatedMedia", media="print")
    page, visible = tab.evaluate(WIDTHS)
    assert page <= visible
    tab.call("Emulation.setEmulatedMedia", media="")


def test_a_picture_can_be_enlarged_on_a_phone(tab, reports):
    tab.open(reports["small"], *PHONE[:2], phone=True)
    tab.evaluate(UNFOLD)
    width = "document.querySelector('img').getBoundingClientRect().width"
    assert 370 < tab.evaluate(width) <= 390
    tab.evaluate("document.querySelector('.zoom input').click()")
    assert tab.evaluate(width) > 700
    page, visible = tab.evaluate(WIDTHS)
    assert page <= visible
    tab.open(reports["small"], *DESK[:2], phone=False)
    tab.evaluate(UNFOLD)
    assert tab.evaluate("getComputedStyle(document.querySelector('.zoom')).display") == "none"
