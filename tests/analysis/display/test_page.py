"""Blocks as HTML: escaped, marked, and pictures packed."""

import base64
import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from analysis.display import page as rendering
from analysis.display.document import Cell, Column, Document, Paragraph, Picture, Section, Table
from analysis.display.page import render
from analysis.display.style import figure_style
from tests.analysis.pages import Page


def page_of(*blocks: object) -> Page:
    return Page(render(Document("Title", "about", "subtitle", (Section("only", "Only", blocks),))))


def picture(noise: np.ndarray | None = None, height: float = 1.0) -> Picture:
    with figure_style():
        figure = Figure(figsize=(2.0, height))
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="#0072B2")
        if noise is not None:
            axes.imshow(noise, interpolation="nearest", extent=(0, 1, 0, 1))
    return Picture("name", figure)


def pixels(page: Page) -> np.ndarray:
    (image,) = page.attributes("img")
    head, _, packed = image["src"].partition(",")
    assert head == "data:image/webp;base64"
    return imread(io.BytesIO(base64.b64decode(packed)), format="webp")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a < b & c > d", "a < b & c > d"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("type `direag <x>` now", "type direag <x> now"),
        ("an odd ` stays", "an odd ` stays"),
        ("{{ 7 * 7 }}", "{{ 7 * 7 }}"),
        ("\x1b[2J gpt\u202e\ud83d", r"\u001b[2J gpt\u202e\ud83d"),
    ],
)
def test_page_shows_texts_as_they_are(text, shown):
    page = page_of(Paragraph(text, "note"))
    assert shown in page.sections["only"]
    assert not page.attributes("b")


def test_page_has_a_table():
    columns = (Column("name", holds="name"), Column("x", "less is better"), Column("why", holds="prose"))
    rows = (
        (Cell("<i>"), Cell("0.1", "[0.0, 0.2]", ("best",)), Cell("so")),
        (Cell("other"), Cell("0.3"), Cell("no", marks=("failure",))),
    )
    page = page_of(Table("Caption", columns, rows, "A note.", "`x.csv`", focus="other"))
    assert page.tables["Caption"] == [
        ["name", "x|less is better", "why"],
        ["<i>", "0.1|[0.0, 0.2]", "so"],
        ["other", "0.3", "no"],
    ]
    assert [one.get("class") for one in page.attributes("tr")] == [None, None, "focus"]
    assert [one["class"] for one in page.attributes("td")] == ["number best", "prose", "number", "prose failure"]
    assert len(page.attributes("strong")) == 2  # the subtitle's, and the best
    assert "A note. As data: x.csv." in page.sections["only"]


def test_page_packs_a_picture_without_loss():
    page = page_of(picture())
    seen = pixels(page)
    assert seen.shape[0] > 100
    assert {tuple(colour) for colour in seen[:, :, :3].reshape(-1, 3).tolist()} >= {(255, 255, 255), (0, 114, 178)}


def test_page_packs_a_noisy_picture_small(monkeypatch):
    noise = np.random.default_rng(0).random((120, 240))
    whole = page_of(picture(noise)).attributes("img")[0]["src"]
    monkeypatch.setattr(rendering, "_MOST_BYTES", 20_000)
    packed = page_of(picture(noise))
    assert len(packed.attributes("img")[0]["src"]) < 0.7 * len(whole)
    assert pixels(packed).std() > 20


def test_page_keeps_a_very_tall_picture_within_the_format(monkeypatch):
    monkeypatch.setattr(rendering, "_MOST_DOTS", 300)
    assert max(pixels(page_of(picture(height=4.0))).shape) <= 300
