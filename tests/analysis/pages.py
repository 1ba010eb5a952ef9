"""A report read back from its HTML: what stands in it, and that its tags are closed in order."""

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br", "img", "input", "wbr"}


class Page(HTMLParser):
    """What a page holds.

    Attributes
    ----------
    tags : list of (str, dict)
        Every element and its attributes.
    text : str
        All text but that of head and scripts.
    sections : dict of str
        The text of each section by its id.
    tables : dict of list
        By heading, the rows of texts; what is in smaller letters follows after a bar.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text, self.style, self.title = "", "", ""
        self.sections: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self._rows: list[list[str]] = []
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    @classmethod
    def read(cls, path: Path) -> "Page":
        return cls(path.read_text(encoding="utf-8"))

    def check(self, **texts: str) -> None:
        """Check that a text stands in each section, by the section's id."""
        for name, text in texts.items():
            assert text in self.sections[name], f"{text!r} is not in {name}"

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self._open.append((tag, attributes))
        if tag == "table":
            self._rows = self.tables.setdefault(attributes["aria-label"], [])
        if tag == "tr":
            self._rows.append([])
        if tag in ("th", "td"):
            self._rows[-1].append("")
        if tag == "small" and self._within("table"):
            self._rows[-1][-1] += "|"

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert opened == tag, f"{opened} is closed by {tag}"

    def handle_data(self, data: str) -> None:
        if self._within("style"):
            self.style += data
        elif self._within("title"):
            self.title += data
        elif self._within("body"):
            self.text += data
        for tag, attributes in self._open:
            if tag == "section":
                self.sections[attributes["id"]] = self.sections.get(attributes["id"], "") + data
        if self._within("th") or self._within("td"):
            self._rows[-1][-1] = (self._rows[-1][-1] + data).replace("\n", " ").replace(" |", "|").lstrip()

    def _within(self, tag: str) -> bool:
        return any(name == tag for name, _ in self._open)
