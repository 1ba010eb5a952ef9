"""The examples of README.md and docs/ run as written, page by page, and their links lead somewhere."""

import contextlib
import io
import re
import shlex
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import jax
import pytest
from typer.testing import CliRunner

from bayes_direag.cli import app
from bayes_direag.data.files import read_questions
from bayes_direag.data.observations import Observations
from bayes_direag.model.simulate import simulate_observations
from elicitation.prompts import load_protocol, prompt_hash

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
DOCUMENTS = [README, *PAGES, *NOTEBOOKS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

#: One worker runs the README for all pages, if tests are dealt out one by one.
pytestmark = pytest.mark.xdist_group("pages")

#: What takes long in the README, and the pages that take long or use what it writes.
LONG = ("evaluate", "MCMC(")
SLOW = {
    "abstention.md",
    "api.md",
    "compare-posterior.md",
    "figures.md",
    "import-logs.md",
    "labels.md",
    "model.md",
    "tutorial.md",
}


def blocks(page: Path, language: str) -> list[str]:
    return [code for _, code in examples(page, language)]


def examples(page: Path, languages: str = "python|console") -> list[tuple[str, str]]:
    """Return the code blocks in these languages, in order, each with its language."""
    return re.findall(rf"^```({languages})\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterable[list[str]]:
    """Yield the arguments of each direag command of a console block."""
    for line in block.splitlines():
        if line.startswith("$ direag "):
            yield shlex.split(line.removeprefix("$ direag "), comments=True)


def invoke(command: list[str]) -> None:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, f"{shlex.join(command)}: {result.output}"


def takes_long(code: str) -> bool:
    return any(word in code for word in LONG)


def run(page: Path, chosen: Callable[[str], bool] = bool) -> None:
    """Run the code blocks and commands of a page, or those that are chosen."""
    printed = dict(
        re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    )
    for language, block in examples(page):
        if language == "console":
            for command in commands(block):
                if chosen(shlex.join(command)):
                    invoke(command)
        elif chosen(block):
            # numpyro's own draws of a normal rely on what the strict flags of tests forbid
            with contextlib.redirect_stdout(io.StringIO()) as said, jax.numpy_rank_promotion("allow"):
                exec(compile(block, page.name, "exec"), {})  # noqa: S102 - our own documents
            assert said.getvalue() == printed.get(block, said.getvalue())


def each(pages: Iterable[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", list(pages), ids=lambda page: page.name)


@pytest.fixture(scope="module")
def after_the_readme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of simulated observations and logs, in which the README's examples but the long ones have run."""
    folder = tmp_path_factory.mktemp("readme")
    observations = simulate_observations(n=150, seed=3)
    observations.write(folder / "labelled.jsonl")
    observations.select(slice(0, 40)).write(folder / "new.jsonl")
    (folder / "direag-quickstart").mkdir()
    observations.write(folder / "direag-quickstart" / "labelled.csv")
    shutil.copytree(ROOT / "tests" / "elicitation" / "importing" / "logs", folder / "logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(README, lambda code: not takes_long(code))
    return folder


@pytest.fixture(scope="module")
def after_all_of_the_readme(
    after_the_readme: Path,
    tmp_path_factory: pytest.TempPathFactory,
    optimised: None,  # noqa: ARG001 - it samples
) -> Path:
    """Return a folder in which all of the README's examples have run."""
    folder = tmp_path_factory.mktemp("evaluated")
    shutil.copytree(after_the_readme, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run(README, takes_long)
    return folder


def test_examples_of_the_readme_run(after_the_readme: Path) -> None:
    typed = {command[0] for block in blocks(README, "console") for command in commands(block)}
    assert typed >= {"evaluate", "fit", "predict", "show"}
    assert blocks(README, "python")
    assert (after_the_readme / "new.csv").is_file()


@pytest.mark.slow
def test_long_examples_of_the_readme_run(after_all_of_the_readme: Path) -> None:
    assert (after_all_of_the_readme / "results" / "metrics.csv").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
@each(page for page in PAGES if examples(page) and page.name not in SLOW)
def test_examples_run(page: Path, after_the_readme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(after_the_readme, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "direag-quickstart")
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.slow
@each(page for page in PAGES if examples(page) and page.name in SLOW)
def test_long_examples_run(
    page: Path, after_all_of_the_readme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(after_all_of_the_readme, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "direag-quickstart")  # which the tutorial makes itself
    monkeypatch.chdir(tmp_path)
    run(page)


@each(page for page in PAGES if blocks(page, "json"))
def test_json_examples_are_observations(page: Path, tmp_path: Path) -> None:
    for example in blocks(page, "json"):
        (tmp_path / "one.jsonl").write_text(" ".join(example.splitlines()) + "\n")
        (question,) = read_questions(tmp_path / "one.jsonl")
        observations = Observations.from_questions([question])
        assert observations.labelled.all()
        assert observations.gold_generated.tolist() == [True]


@each(page for page in PAGES if blocks(page, "toml"))
def test_toml_examples_are_prompts(page: Path, tmp_path: Path) -> None:
    for example in blocks(page, "toml"):
        (tmp_path / "own.toml").write_text(example)
        protocol, shipped = load_protocol("steered", tmp_path / "own.toml"), load_protocol("steered")
        assert protocol.levels == shipped.levels or all(level.differences for level in protocol.levels)
        assert prompt_hash(protocol) != prompt_hash(shipped)


def without_code(document: Path) -> str:
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site name them."""
    headings = re.findall(r"^#+ (.+)$", without_code(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"""(?:\]\(|src=")(?!http)([^)#"]*)(?:#([^)]+))?""", document.read_text())
    for name, anchor in links:
        target = document.parent / name if name else document
        assert target.exists(), f"{document.name} links to {name}"
        assert not anchor or anchor in anchors(target), f"{document.name} links to {name}#{anchor}"


def test_pages_named_in_the_code_exist() -> None:
    for folder in ("analysis", "bayes_direag", "elicitation", "tests"):
        for file in (ROOT / folder).rglob("*.py"):
            for page in re.findall(r"docs/[\w-]+\.(?:md|ipynb)", file.read_text()):
                assert (ROOT / page).exists(), f"{file.relative_to(ROOT)} names {page}"


def test_pages_are_in_both_indexes_under_the_same_kind() -> None:
    readme = (ROOT / "docs" / "README.md").read_text()
    site = (ROOT / "docs" / "index.rst").read_text()
    kinds = re.split(r"^\*\*([\w-]+(?: guides)?)\*\*: .+$", readme, flags=re.MULTILINE)[1:]
    listed = {
        kind: re.findall(r"\]\(([\w-]+)\.(?:md|ipynb)\)", text) for kind, text in zip(*[iter(kinds)] * 2, strict=True)
    }
    trees = re.findall(r":caption: (.+)\n\n((?:   .+\n)+)", site)
    assert {kind: pages.split() for kind, pages in trees} == listed
    assert sorted(page for pages in listed.values() for page in pages) == [
        page.stem for page in sorted([*PAGES, *NOTEBOOKS]) if page.name != "README.md"
    ]
