"""The site: Sphinx makes it of the pages and the docstrings without a warning, and no module is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bayes_direag", "elicitation", "analysis")


@pytest.mark.slow
@pytest.mark.xdist_group("pages")  # which are dealt out first, since it takes a minute
def test_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name, reason="the site needs the extra docs: pip install --editable '.[docs]'")
    source, site = tmp_path / "docs", tmp_path / "site"
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("reference"))
    (tmp_path / "bayes_direag").symlink_to(ROOT / "bayes_direag")  # a page shows the programs of the models
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", str(source), str(site)]
    done = subprocess.run(  # noqa: S603 - our own documents
        command, cwd=ROOT, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.stem != "__main__"  # autosummary leaves it out
    }
    assert {path.stem for path in (site / "reference").glob("*.html")} == modules
    assert "Summarise the parameters" in (site / "reference" / "bayes_direag.fits.fit.html").read_text()
    assert 'href="model.html"' in (site / "index.html").read_text()
    notebook = (site / "bayesian-workflow.html").read_text()
    assert ("data:image/png" in notebook or "_images/" in notebook, "<table" in notebook) == (True, True)
