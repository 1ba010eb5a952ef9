"""What every picture has to fulfil, whatever it shows."""

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.display.style import figure_style

SMALLEST_POINTS = 9


def assert_stands_alone(figure: Figure, *mentioned: str) -> None:
    """Check that a figure has a title, labelled axes, a caption that mentions some words, and text one can read."""
    with figure_style():
        figure.draw_without_rendering()
    assert figure.get_suptitle()
    caption = " ".join(figure.get_supxlabel().split())
    for words in mentioned:
        assert words in caption, f"{words!r} is not in {caption!r}"
    assert any(axes.get_xlabel() for axes in figure.axes)
    assert any(axes.get_ylabel() or any(label.get_text() for label in axes.get_yticklabels()) for axes in figure.axes)
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= SMALLEST_POINTS
    assert_apart(figure)


def assert_apart(figure: Figure) -> None:
    """Check that title, caption and the panels' titles and labels neither overlap nor leave the page."""
    texts = [text for text in (figure._suptitle, figure._supxlabel) if text is not None]
    for axes in figure.axes:
        texts += [text for text in (axes._left_title, axes.xaxis.label, axes.yaxis.label) if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for name, box in boxes:
        assert box.x0 >= -1, f"{name!r} leaves the page"
        assert box.x1 <= figure.bbox.x1 + 1, f"{name!r} leaves the page"
    for (name, box), (other, its) in combinations(boxes, 2):
        assert not box.overlaps(its), f"{name!r} lies over {other!r}"


def said(figure: Figure) -> str:
    """Return all text of a figure, in one line."""
    return " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())
