"""How Sphinx makes the site: the pages here, the notebook with its outputs, and every module from its docstrings."""

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

project = "bayes-direag"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["README.md"]  # index.rst takes it in
templates_path = ["templates"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # signatures have the types, and a pattern in a type is no markup
suppress_warnings = ["ref.python"]  # the types of docstrings are written for people
html_theme = "furo"
html_title = project
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]


class NotebookParser(MystParser):
    """Read a notebook as a page: its text, its code, and the outputs that it is kept with."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Write the cells as Markdown, and read that."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(part for cell in cells for part in _parts(cell)), document)


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    parts = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        data = {kind: "".join(lines) for kind, lines in output.get("data", {"text/plain": output.get("text")}).items()}
        if "image/png" in data:
            image = data["image/png"].replace("\n", "")
            parts.append(f"![{source.splitlines()[0]}](data:image/png;base64,{image})")
        elif "text/html" in data:
            parts.append(f"````{{raw}} html\n{data['text/html']}\n````")
        else:
            parts.append(f"```text\n{data['text/plain']}\n```")
    return parts


def setup(app: Sphinx) -> None:
    """Read notebooks; leave out fields of named tuples, which their class describes, and scikit-learn's routing."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)

    def skip(app: Sphinx, what: str, name: str, member: object, skip: bool, options: Any) -> bool | None:  # noqa: ARG001
        return True if type(member).__name__ == "_tuplegetter" or name.endswith("_request") else None

    app.connect("autodoc-skip-member", skip)
