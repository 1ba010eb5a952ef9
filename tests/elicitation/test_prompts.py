"""The prompts: what each level conveys, what a chat looks like, and what their hash stands for."""

import dataclasses
import json
import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bayes_direag.errors import DirEAGError
from elicitation.prompts import Example, load_protocol, messages, prompt_hash, repair_messages
from tests.elicitation.runs import JSON_PROTOCOLS, PARAPHRASED, PROTOCOLS

STEERED = PROTOCOLS["steered"]
LABEL = "Answer and Confidence (0-100): <number>, <confidence>%"
WARY = "avoid giving a wrong answer with high confidence"
BOLD = "avoid giving a right answer with low confidence"


def prompt(level: int, question: str = "What is 2 + 2?") -> str:
    (message,) = messages(STEERED, level, question)
    return message["content"]


@pytest.mark.parametrize(
    ("protocol", "start", "end"), [(STEERED, "Notes:", "$"), (PARAPHRASED["steered"], "Note:", "\n")]
)
def test_levels_say_what_the_paper_lists_in_its_order(protocol: Any, start: str, end: str) -> None:
    names = ["very_cautious", "cautious", "vanilla", "confident", "very_confident"]
    assert [(level.index, level.name) for level in protocol.levels] == list(enumerate(names))
    prompts = [messages(protocol, level, "Q?")[0]["content"] for level in range(5)]
    notes = [" ".join(text.partition(start)[2].strip().partition(end)[0].split()) for text in prompts]
    assert all(re.match(r"\(1\) The confidence \w+ how likely you think .*\btrue\.", note) for note in notes)
    said = {
        WARY: "11000",
        BOLD: "00011",
        "mportant decisions": "11011",
        "very cautious": "10000",
        "low confidence on almost all": "10000",
        "very confident": "00001",
        "high confidence on almost all": "00001",
    }
    assert {words: "".join(str(int(words in note)) for note in notes) for words in said} == said
    assert "(2)" not in notes[2]
    assert all("Answer and Confidence (0-100):" in text and "step by step" in text for text in prompts)


@pytest.mark.parametrize("protocol", [*PROTOCOLS.values(), *PARAPHRASED.values(), *JSON_PROTOCOLS.values()])
def test_messages_are_one_of_the_user(protocol: Any) -> None:
    for chat in (messages(protocol, 0, "Q?"), repair_messages(protocol, 0, "Q?", "bad")):
        assert [list(message) for message in chat] == [["role", "content"]]
        assert chat[0]["role"] == "user"
        assert chat[0]["content"] == chat[0]["content"].strip()
        assert not re.search(r"\{(question|note|reply)\}", chat[0]["content"])


def test_repair_messages_repeat_the_prompt_and_spell_out_the_final_line() -> None:
    (message,) = repair_messages(STEERED, 4, "Q?", "a reply that cannot be read")
    assert message["content"].startswith(prompt(4, "Q?") + "\n\n")
    assert message["content"].endswith(LABEL)
    assert "cannot be read" not in message["content"]
    quoting = dataclasses.replace(STEERED, repair="You said {reply}. Again.")
    assert repair_messages(quoting, 4, "Q?", "{note}")[0]["content"].endswith("You said {note}. Again.")


@given(st.text().filter(str.strip))
def test_messages_have_the_question_as_it_is(question: str) -> None:
    assert f"Question: {question.strip()}\n" in prompt(0, question)


def test_examples_are_turns_before_the_prompt_of_every_level() -> None:
    protocol = dataclasses.replace(STEERED, examples=(Example("1 + 1?", "Easy."), Example("3 + 3?", "Easier.")))
    chats = [messages(protocol, level, "Q?") for level in range(5)]
    assert [turn["role"] for turn in chats[0]] == ["user", "assistant"] * 2 + ["user"]
    assert [turn["content"] for turn in chats[0][1::2]] == ["Easy.", "Easier."]
    assert all(chat[:4] == chats[0][:4] for chat in chats)
    assert chats[0][0]["content"] == prompt(2, "1 + 1?")
    assert chats[0][4:] == messages(STEERED, 0, "Q?")
    assert repair_messages(protocol, 0, "Q?", "")[:4] == chats[0][:4]


LEVELS = """
[levels.calm]
note = "(2) Stay calm."
[levels.hurried]
note = "(2) Be quick."
"""


def test_load_protocol_takes_levels_and_examples_from_a_file(tmp_path: Path) -> None:
    levels = tmp_path / "levels.toml"
    levels.write_text(f'{LEVELS}[[examples]]\nquestion = "1 + 1?"\nreply = "\\nAnswer: 2\\n"\n')
    protocol = load_protocol("steered", levels)
    assert [level.name for level in protocol.levels] == ["calm", "hurried"]
    assert protocol.examples == (Example("1 + 1?", "Answer: 2"),)
    assert (protocol.frame, protocol.repair) == (STEERED.frame, STEERED.repair)
    assert messages(protocol, 1, "Q?")[-1]["content"].endswith("(2) Be quick.")
    levels.write_text('frame = "{question} {note}"\nreply_pattern = "[A-E]"\n')
    assert messages(load_protocol("samples", levels), 0, "Why?") == [{"role": "user", "content": "Why?"}]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("frame = 3", "levels.toml, field frame: .* saw '3'"),
        ("frames = 'x'", "field frames: Unexpected keyword"),
        ("name = 'samples'\nlevels = []", "field levels: saw '\\[\\]'; expected a table for each level"),
        ("[levels]", "field levels: saw '{}'"),
        ("[[levels]]\nname = 'calm'", "field levels: saw .*'calm'.* expected a table for each level"),
        ("[levels.gpt-4.1]\nmodel = 'gpt-4.1'", "field levels.gpt-4"),
        ("frame = 'Well?'", r"must hold \{question\} once"),
        ("frame = '{question}'", r"must hold \{note\} once, because levels have notes"),
        ("n_samples = 0", "field n_samples"),
        ("reply_pattern = '('", "not a regular expression"),
        (LEVELS.replace("hurried", "calm"), "cannot be read"),
        (LEVELS.replace("calm]", '" "]'), "field levels. .name"),
        ("[levels.a]\n[levels.' A']", "two levels have the same name"),
        ("[levels.NA]", "field levels.NA.name: .*a word for a missing value"),
        ("[levels.a]\ngroup = 'null'", "field levels.a.group: .*a word for a missing value"),
        ("[levels.a]\ngroup = 'b'\n[levels.b]", "the group 'b' has the name of a level that is not in it"),
        (LEVELS.replace("note =", "notes ="), "field levels.calm"),
        (f"{LEVELS}sampling = {{temperature = 3}}", "field levels.hurried.sampling: .*temperature: saw '3'"),
        (f"{LEVELS}sampling = {{warmth = 1}}", "field levels.hurried.sampling: .*warmth"),
        (f"{LEVELS}model = ''", "field levels.hurried.model"),
        ("levels = [", "cannot be read .*expected a TOML file"),
        (None, "cannot be read"),
    ],
)
def test_load_protocol_names_a_bad_file_with_its_fault(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "levels.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DirEAGError, match=complaint) as caught:
        load_protocol("steered", path)
    assert str(caught.value).startswith(str(path))


def test_protocol_refuses_levels_in_disorder_and_unknown_names() -> None:
    first, second = STEERED.levels[:2]
    with pytest.raises(ValidationError, match=r"numbered 0, 1, 2 .* not \[1, 0\]"):
        dataclasses.replace(STEERED, levels=(second, first))
    with pytest.raises(DirEAGError, match="expected one of steered, samples, topk"):
        load_protocol("steerd")


def test_prompt_hash_covers_what_reaches_the_model_alone() -> None:
    known = prompt_hash(STEERED)
    assert re.fullmatch("[0-9a-f]{64}", known)
    renamed = tuple(dataclasses.replace(level, name=level.name.upper()) for level in STEERED.levels)
    for same in ({"n_samples": 3}, {"levels": renamed}):
        assert prompt_hash(dataclasses.replace(STEERED, **same)) == known  # type: ignore[arg-type]
    reversed_notes = tuple(
        dataclasses.replace(level, note=other.note)
        for level, other in zip(STEERED.levels, reversed(STEERED.levels), strict=True)
    )
    others = (
        {"frame": f"Hello. {STEERED.frame}"},
        {"repair": "Again."},
        {"levels": reversed_notes},
        {"levels": STEERED.levels[:4]},
        {"examples": (Example("1 + 1?", "2"),)},
        {"reply_pattern": ".*"},
        {"schema": {"type": "object"}},
    )
    hashes = {prompt_hash(dataclasses.replace(STEERED, **other)) for other in others}  # type: ignore[arg-type]
    assert len(hashes | {known}) == 8


def test_prompt_hash_is_that_of_earlier_runs() -> None:
    # A change of a prompt makes finished runs and new ones different runs: then change these on purpose.
    recorded = {"steered": "339e7d0496d7", "samples": "77fa2024721a", "topk": "f92f4a4ea4cf"}
    released = {"steered": "6d0b90875eeb", "samples": "c8ebf8eb8e89", "topk": "ab98354d3614"}
    in_json = {"steered": "3e887a71a3a0", "samples": "72e4d22dc2b0", "topk": "f89fd5ab9792"}
    assert {name: prompt_hash(protocol)[:12] for name, protocol in PROTOCOLS.items()} == recorded
    assert {name: prompt_hash(protocol)[:12] for name, protocol in PARAPHRASED.items()} == released
    assert {name: prompt_hash(protocol)[:12] for name, protocol in JSON_PROTOCOLS.items()} == in_json


def test_prompt_hash_is_that_of_the_bundled_example() -> None:
    example = files("bayes_direag") / "example"
    with as_file(example / "levels.toml") as levels:
        asked = prompt_hash(load_protocol("steered", levels))
    assert json.loads((example / "manifest.json").read_text())["identity"]["prompts"] == asked
