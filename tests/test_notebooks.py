"""The notebooks of docs/ run from top to bottom, and give outputs of the same kinds as those they are kept with."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "docs").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.xdist_group("a minute each")  # which are dealt out first
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat  # here, as every worker would load them
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(path.parents[1]))
    notebook = nbformat.read(path, as_version=4)
    shown = [[output.output_type for output in cell.get("outputs", ())] for cell in notebook.cells]
    assert any(shown), "a notebook is kept with its outputs"
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    again = [[output.output_type for output in cell.get("outputs", ())] for cell in notebook.cells]
    assert again == shown
