"""Several models, each at its own endpoints, as the levels of one run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bayes_direag.data.observations import Observations
from elicitation.chat_engine import Panel
from elicitation.engines import CannedEngine
from elicitation.journal import JournalError
from elicitation.prompts import Protocol, load_protocol
from elicitation.run import elicit
from tests.command_line import succeed
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub


@pytest.fixture
def servers() -> Iterator[tuple[Stub, Stub]]:
    with Stub("cheap", delay=0.001) as cheap, Stub("dear", delay=0.001) as dear:
        yield cheap, dear


def write_levels(folder: Path, text: str) -> str:
    (folder / "levels.toml").write_text(text)
    return str(folder / "levels.toml")


def command(folder: Path, levels: str, *arguments: str) -> tuple[str, ...]:
    asked = ("elicit", "--questions", runs.SUMS, "--limit", 4, "--out", str(folder / "run"))
    return (*asked, "--levels", levels, *arguments)


def test_panel_asks_each_level_of_its_model_at_its_endpoint(
    servers: tuple[Stub, Stub], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap, dear = servers
    dear.key = "sk-dear"
    monkeypatch.setenv("DEAR_KEY", "sk-dear")
    levels = write_levels(
        tmp_path,
        f'[levels.cheap]\nmodel = "cheap"\nbase_url = ["{cheap.url}", "{cheap.url.replace("//", "//me:secret@")}"]\n'
        f'[levels.dear]\nmodel = "dear"\nbase_url = "{dear.url}"\nkey_variable = "DEAR_KEY"\n'
        'sampling = {temperature = 0.2, top_k = "none", logprobs = true}\n',
    )
    succeed(*command(tmp_path, levels))
    assert [{one["model"] for one in stub.requests} for stub in servers] == [{"cheap"}, {"dear"}]
    assert [len(stub.requests) for stub in servers] == [4, 4]
    assert [stub.requests[0].get("temperature") for stub in servers] == [0.7, 0.2]
    assert ["top_k" in stub.requests[0] for stub in servers] == [True, False]
    assert ["logprobs" in stub.requests[0] for stub in servers] == [False, True]
    observations = Observations.read(tmp_path / "run" / "observations.jsonl")
    assert observations.level_names == ("cheap", "dear")
    record = runs.records(tmp_path / "run")[0]
    assert [record["model"], *(one["model"] for one in record["observations"])] == ["cheap, dear", "cheap", "dear"]
    manifest = runs.manifest(tmp_path / "run")
    assert manifest["identity"]["levels"] == {
        "cheap": {"model": "cheap"},
        "dear": {"model": "dear", "sampling": {"temperature": 0.2, "top_k": "none", "logprobs": True}},
    }
    assert {name: engine["endpoints"] for name, engine in manifest["engine"]["levels"].items()} == {
        "cheap": [cheap.url, cheap.url],
        "dear": [dear.url],
    }
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").iterdir())
    assert b"sk-dear" not in kept
    assert b"secret" not in kept


def test_panel_takes_from_the_run_what_a_level_does_not_name(servers: tuple[Stub, Stub], tmp_path: Path) -> None:
    """Several levels of one model share an engine, and a run of one model is no panel."""
    cheap, dear = servers
    text = (
        f'[levels.plain]\n[levels.wary]\nnote = "(2) Be wary."\n[levels.dear]\nmodel = "dear"\nbase_url = "{dear.url}"'
    )
    succeed(*command(tmp_path, write_levels(tmp_path, text), "--base-url", cheap.url, "--model", "cheap"))
    assert [len(stub.requests) for stub in servers] == [8, 4]
    levels = write_levels(tmp_path, f'[levels.plain]\nmodel = "cheap"\nbase_url = "{cheap.url}"\n')
    succeed(*command(tmp_path / "alone", levels))
    manifest = runs.manifest(tmp_path / "alone" / "run")
    assert manifest["engine"]["kind"] == "openai"


def test_panel_resumes_with_the_same_models_alone(tmp_path: Path) -> None:
    def panel(*models: str) -> Panel:
        return Panel({name: CannedEngine(lambda _: "Answer and Confidence (0-100): 7, 80%", name) for name in models})

    def protocol(*models: str) -> Protocol:
        text = "".join(f'[levels.level-{number}]\nmodel = "{name}"\n' for number, name in enumerate(models))
        return load_protocol("steered", write_levels(tmp_path, text))

    elicit(runs.questions(2), protocol("a", "b"), panel("a", "b"), tmp_path / "run")
    with pytest.raises(JournalError, match=r'levels\.level-1\.model: "b" there, "c" here'):
        elicit(runs.questions(3), protocol("a", "c"), panel("a", "c"), tmp_path / "run")
    assert elicit(runs.questions(3), protocol("a", "b"), panel("a", "b"), tmp_path / "run").asked == 2
    again = CannedEngine.replay(tmp_path / "run" / "journal.jsonl")
    elicit(runs.questions(3), protocol("a", "b"), again, tmp_path / "again")
    assert runs.observations(tmp_path / "again") == runs.observations(tmp_path / "run")
