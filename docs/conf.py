"""How Sphinx makes the site: the pages here, and every module from its docstrings."""

from typing import Any

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


def setup(app: Sphinx) -> None:
    """Leave out the fields of named tuples, which their class describes, and scikit-learn's routing of metadata."""

    def skip(app: Sphinx, what: str, name: str, member: object, skip: bool, options: Any) -> bool | None:  # noqa: ARG001
        return True if type(member).__name__ == "_tuplegetter" or name.endswith("_request") else None

    app.connect("autodoc-skip-member", skip)
