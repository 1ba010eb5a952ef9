"""The wheel: what is in it, and that it works in a folder whose own packages bear the names of ours."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGES, ROOT

pytestmark = pytest.mark.xdist_group("wheel")
CLASH = "import bayes_direag\nfrom analysis.evaluation import evaluate"


def run(*command: object, at: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    arguments = [str(part) for part in command]
    return subprocess.run(arguments, cwd=at, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def succeed(*command: object, at: Path, path: str = "") -> str:
    done = run(*command, at=at, path=path)
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_own(folder: Path, form: str) -> Path:
    """Return a user's folder with an ``analysis`` and an ``elicitation`` of its own."""
    for name in ("analysis", "elicitation"):
        renamed = folder / form.format(name)
        renamed.parent.mkdir(exist_ok=True)
        renamed.write_text("mine = 1\n")
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    succeed(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, at=ROOT)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def bin_folder(wheel, tmp_path_factory) -> Path:
    """Return where the programs of an environment are that has the wheel, and all that this one has besides."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin" / "python"
    succeed(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, at=folder)
    site = Path(succeed(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", at=folder).strip())
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_commands_are_ours_beside_packages_of_the_same_names(tmp_path):
    project = with_own(tmp_path, "{}/__init__.py")
    script = "from bayes_direag.cli import app\napp(['report', '--help'])"
    assert "direag report" in succeed(sys.executable, "-c", script, at=project, path=str(ROOT))
    late = run(sys.executable, "-c", f"import analysis\n{script}", at=project, path=str(ROOT))
    assert late.returncode == 2
    assert f"saw {project / 'analysis' / '__init__.py'}" in late.stderr
    assert "Traceback" not in late.stderr


@pytest.mark.slow
def test_wheel_ships_types_and_data_of_every_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= {f"{package.name}/py.typed" for package in PACKAGES}
    tracked = succeed("git", "ls-files", *PACKAGES, at=ROOT).split()
    assert names - {name for name in names if ".dist-info/" in name} == set(tracked)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}/__init__.py", "{}.py"])
def test_wheel_works_in_a_folder_of_the_user_s(tmp_path, bin_folder, form):
    project = with_own(tmp_path, form)
    python = bin_folder / "python"
    assert str(bin_folder.parent) in succeed(
        python, "-P", "-c", "import analysis; print(analysis.__file__)", at=project
    )
    succeed(bin_folder / "direag", "simulate", "--n", 60, "--out", "observations.jsonl", at=project)
    for count, door in enumerate([[bin_folder / "direag"], [python, "-m", "bayes_direag"]]):
        succeed(*door, "evaluate", "observations.jsonl", "--methods", "majority", "--out", f"by_{count}", at=project)
    assert (project / "by_0" / "metrics.csv").read_text() == (project / "by_1" / "metrics.csv").read_text()
    succeed(python, "-c", "import analysis, bayes_direag\nbayes_direag.fit_map\nassert analysis.mine == 1", at=project)
    succeed(python, "-P", "-c", CLASH, at=project)
