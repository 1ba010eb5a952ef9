"""The front door keeps compiled computations, unless told otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_direag.cli import compiled_folder, keep_compiled

CODE = """
from bayes_direag.cli import keep_compiled
keep_compiled()
import os
print(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
"""


def folder_in_use(cache: Path, **variables: str) -> str:
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), "HOME": str(cache), **variables}
    run = [sys.executable, "-c", CODE]
    return subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches elsewhere")
def test_compilation_cache_is_the_users_unless_jax_is_told_or_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "bayes-direag" / "compiled"
    assert folder_in_use(tmp_path) == str(folder)
    assert folder.is_dir()
    assert folder_in_use(tmp_path, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "mine")) == str(tmp_path / "mine")
    (tmp_path / "file").touch()
    assert folder_in_use(tmp_path / "file") == "None"


def test_compilation_cache_stays_once_jax_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    __import__("jax")
    keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    assert compiled_folder().name == "compiled"
