"""The examples of README.md and docs/ run as written."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bayes_direag.cli import app
from bayes_direag.observations import Observations, read_questions
from bayes_direag.simulate import simulate_observations

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the examples name."""
    observations = simulate_observations(n=150, seed=3)
    observations.write(tmp_path / "labelled.jsonl")
    observations.select(slice(0, 40)).write(tmp_path / "new.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
def test_python_examples_run() -> None:
    examples = [block for document in DOCUMENTS for block in blocks(document, "python")]
    assert examples
    for example in examples:
        exec(compile(example, "example", "exec"), {})  # noqa: S102 - our own documents


@pytest.mark.usefixtures("elsewhere")
def test_command_examples_run() -> None:
    lines = [line for document in DOCUMENTS for block in blocks(document, "console") for line in block.splitlines()]
    commands = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ direag")]
    assert {command[1] for command in commands} >= {"evaluate", "fit", "predict", "show"}
    for command in commands:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, f"{command}: {result.output}"


def test_json_examples_are_observations(tmp_path: Path) -> None:
    (example,) = blocks(ROOT / "docs" / "observations.md", "json")
    (tmp_path / "one.jsonl").write_text(" ".join(example.splitlines()) + "\n")
    (question,) = read_questions(tmp_path / "one.jsonl")
    observations = Observations.from_questions([question])
    assert observations.gold_generated.tolist() == [True]


def test_links_lead_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
