"""Engines that ask servers: what is sent, what is read of hostile responses, and what a refusal says."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.chat_engine import ChatEngine
from elicitation.engines import CannedEngine, EngineError, EngineInfo
from elicitation.generation import REASONING, ChatRequest, Generation, Key, Sampling
from tests.elicitation import runs
from tests.elicitation.stub_server import FAULTS, Stub

OF_VLLM = {"top_k", "min_p", "repetition_penalty"}
OF_SAMPLING = {"max_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty"}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as server:
        yield server


def request(number: int = 0, settings: Any = (), **fields: Any) -> ChatRequest:
    messages = ({"role": "user", "content": f"Question: What is {number} and 4? Notes:"},)
    sampling = Sampling().override(dict(settings))
    return ChatRequest(Key("p", 0, 0, 0), messages, 11 + number, sampling, **fields)


def generate(engine: ChatEngine, *requests: ChatRequest, lane: int = 0) -> list[Generation]:
    async def run() -> list[Generation]:
        async with engine:
            return [await engine.generate(one, lane) for one in requests]

    return asyncio.run(run())


def test_every_parameter_is_sent_and_the_reply_comes_back(stub: Stub) -> None:
    (reply,) = generate(runs.chat(stub.url), request(settings={"temperature": 0.3}))
    assert reply.text.startswith("Adding up.")
    assert (reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == ("stop", 50, 12)
    assert stub.requests == [
        {
            "model": "stub",
            "messages": [*request().messages],
            "temperature": 0.3,
            "top_p": 1.0,
            "max_tokens": 1024,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
        }
    ]


@pytest.mark.parametrize("refused", [OF_VLLM, OF_VLLM | OF_SAMPLING])
def test_what_a_server_refuses_can_be_left_out_one_by_one(stub: Stub, refused: set[str]) -> None:
    """Each refusal names the setting that mends it; with all of them the server answers."""
    left_out: dict[str, None] = {}
    stub.refused = refused
    while not stub.requests:
        try:
            generate(runs.chat(stub.url), request(settings=left_out))
        except EngineError as error:
            (setting,) = re.findall(r"--set (\w+)=none", str(error))
            left_out[setting] = None
    (sent,) = stub.requests
    assert left_out.keys() == refused
    assert sent.keys() == {"model", "messages"} | (OF_VLLM | OF_SAMPLING) - refused


def test_further_fields_go_into_the_body_as_they_are(stub: Stub) -> None:
    kept = {"chat_template_kwargs": {"enable_thinking": False}, "thinking_token_budget": 512, "tags": ["a", None, "é"]}
    settings = {f"body.{name}": json.dumps(value) for name, value in kept.items()}
    assert Sampling().override(settings) == Sampling().override({"body": kept})  # of a TOML file
    generate(runs.chat(stub.url), request(settings=settings))
    assert {name: stub.requests[0][name] for name in kept} == kept


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *((f"body.{name}", "1", "a field that the run fills; expected another") for name in ("model", "messages", "")),
        ("body.temperature", "1", "a field that the run fills; expected another. Set temperature itself"),
        *(("body.x", value, "expected JSON") for value in ("{", "no", "NaN", '"\\ud83d"', "", "[" * 100_000)),
        ("body", {"x": float("inf")}, "expected JSON"),
        ("body", "{}", "expected FIELD=VALUE"),
    ],
)
def test_a_field_that_is_none_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(DirEAGError, match=message):
        Sampling().override({name: value})


JSON = {"schema": {"type": "object"}}
MODELS = r"; expected the list of models\. Check the server"


@pytest.mark.parametrize(
    ("server", "asked", "message"),
    [
        ({"always": 503}, {}, r"saw status 503.*expected a reply within 0.2 s.*same command"),
        ({"always": 400}, {}, "saw status 400.*expected a reply. Check the server"),
        ({"always": 401}, JSON, "status 401"),
        ({"always": "redirect", "location": "/v1/models"}, {}, "saw status 307, a redirect to /v1/models; .* Give the"),
        ({"model": "other"}, {}, "saw a server of other; expected 'stub'"),
        ({"refused": {"min_p"}}, JSON, "--set min_p=none"),
        ({"refused": {"budget"}}, {"settings": {"body.budget": "9"}}, r"is not supported.*Leave .*--set body\.budget,"),
        (
            {"refused": {"max_tokens"}},
            {"settings": {"max_completion_tokens": "9"}},
            r"--set max_tokens=none --set max_completion_tokens=4096\.$",
        ),
        ({"obeys": "nothing"}, {"pattern": "[0-9]+"}, "does not match a pattern.*Leave out --set structured=true"),
        (
            {"refused": {"structured_outputs"}},
            {"pattern": "[0-9]+"},
            "does not match a pattern.*Leave out --set struct",
        ),
        ({"models": "<!doctype html><html>"}, {}, f"saw a page, '<!doctype html><html>' for JSON{MODELS}"),
        ({"models": "not JSON"}, {}, f"saw 'not JSON' for JSON{MODELS}"),
        ({"models": "[" * 100_000}, {}, f"for JSON{MODELS}"),
        ({"models": []}, {}, rf"saw '\[\]'{MODELS}"),
        ({"models": {"data": "none"}}, {}, f"saw \"{{'data': 'none'}}\"{MODELS}"),
        ({"models": {"data": [3]}}, {}, f"saw .*3.*{MODELS}"),
        ({"models": {"error": {"message": "no"}}}, {}, f"saw .*no.*{MODELS}"),
    ],
)
def test_a_refusal_says_what_was_seen_and_what_to_do(
    stub: Stub, server: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    vars(stub).update(server)
    with pytest.raises(EngineError, match=message):
        generate(runs.chat(stub.url, patience=0.2), request(**asked))
    if "models" in server:
        with pytest.raises(EngineError, match=r"; expected the list of models\. Does the URL end in /v1\?"):
            generate(runs.chat(stub.url.removesuffix("/v1"), patience=0.1))
    assert not stub.requests or server.get("obeys")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "reasoning": "Adding"}, ""),
        ({"content": "", "reasoning_content": "Adding"}, ""),
        ({"content": "<think>Adding 7"}, "<think>Adding 7"),
        ({"content": "Adding 7"}, None),
    ],
)
def test_reasoning_that_is_cut_off_is_told_and_not_asked_for_again(
    stub: Stub, tmp_path: Path, message: dict[str, Any], text: str | None
) -> None:
    stub.choice = {"message": message, "finish_reason": "length"}
    tally = runs.ask(2, runs.chat(stub.url), tmp_path)
    assert tally.statuses == {"truncated": 10}
    assert (tally.n_in_reasoning, tally.asked) == ((0, 30) if text is None else (10, 10))
    report = runs.records(tmp_path)[0]["observations"][0]
    assert (report["finish_reason"] == REASONING) is (text is not None)
    assert report["raw_output"] == ("Adding 7" if text is None else text)


def test_a_reply_in_parts_is_read_without_its_reasoning(stub: Stub) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Answer: 7, 99%"}]}
    stub.choice = {
        "message": {"content": [thought, {"type": "text", "text": "Answer: 8"}, {"type": "text", "text": ", 90%"}]}
    }
    assert generate(runs.chat(stub.url), request())[0].text == "Answer: 8, 90%"


def test_a_server_is_tested_once_before_it_holds_replies_to_a_pattern(stub: Stub) -> None:
    generate(runs.chat(stub.url), *[request(pattern="[0-9]+")] * 2)
    assert [one["structured_outputs"]["regex"] for one in stub.requests[1:]] == ["[0-9]+"] * 2


@pytest.mark.parametrize(
    ("taken", "sent"),
    [({"json_schema", "json_object"}, "json_schema"), ({"json_object"}, "json_object"), (set[str](), None)],
)
def test_json_is_asked_for_in_a_form_that_the_server_does_not_refuse(
    stub: Stub, taken: set[str], sent: str | None
) -> None:
    stub.json_formats = taken
    generate(runs.chat(stub.url), *[request(**JSON)] * 2)
    formats = [one.get("response_format", {}) for one in stub.requests]
    assert [form.get("type") for form in formats] == [sent] * 2
    if sent == "json_schema":
        assert formats[0]["json_schema"] == {"name": "reply", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 2048 tokens. However, you requested 4096.",  # vLLM
        "The decoder prompt (length 5951) is longer than the maximum model length of 4096.",  # its engine
        "request (9999 tokens) exceeds the available context size (4096 tokens), try increasing it",  # llama.cpp
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",  # SGLang
        "context_length_exceeded",  # hosted
    ],
)
def test_a_prompt_that_is_too_long_is_a_reply_without_text(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setitem(FAULTS, "long", (400, {"error": {"message": message}}))
    stub.always = "long"
    assert generate(runs.chat(stub.url), request(**JSON), request()) == [Generation("", "context")] * 2


def test_a_prompt_that_a_filter_refuses_leaves_a_question_unanswered_and_ends_no_run(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = "The response was filtered due to the prompt triggering our content management policy."
    monkeypatch.setitem(FAULTS, "filter", (400, {"error": {"message": message, "code": "content_filter"}}))
    stub.faults.extend(["filter"] * 15)
    tally = runs.ask(2, runs.chat(stub.url), tmp_path, concurrency=1)
    assert (tally.statuses, tally.n_unanswered) == ({"truncated": 5, "ok": 5}, 1)
    assert runs.records(tmp_path)[0]["observations"][0]["finish_reason"] == "content_filter"


def test_a_refusal_never_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-some")
    with Stub(key="sk-some") as stub:
        assert generate(ChatEngine([stub.url], "stub", key_variable="SOME_KEY"), request())[0].text
        for key, seen in (("sk-secret", r"bearer \*\*\*"), ("", "bearer none"), (None, "bearer none")):
            monkeypatch.delenv("OPENAI_API_KEY") if key is None else monkeypatch.setenv("OPENAI_API_KEY", key)
            with pytest.raises(EngineError, match=f"status 401.*wrong key {seen}"):  # without a key nothing is masked
                generate(runs.chat(stub.url), request())


@pytest.mark.parametrize(
    "url",
    [*(f"http://{host}/v1" for host in ("[::1", "127.0.0.1:port", "127.0.0.1:99999", "a b")), "127.0.0.1:1/v1", ""],
)
def test_an_address_that_is_none_is_one_line(url: str) -> None:
    with pytest.raises(EngineError):
        generate(runs.chat(url, patience=0.1))


OTHER_LOGPROBS = (3, [], {"content": 3}, {"content": [3]})
OTHER_NUMBERS = (None, "x", 1e300, -1e300, 10**400)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        *(("version", value) for value in ("no JSON", "[" * 100_000, [1], {"version": {"deep": 1}}, "<html>")),
        *(("further", {"usage": one}) for one in (3, [], "many", {"prompt_tokens": "3"}, {"prompt_tokens": -1}, None)),
        *(("choice", {"logprobs": logprobs}) for logprobs in OTHER_LOGPROBS),
        *(("choice", {"logprobs": {"content": [{"token": "7", "logprob": one}]}}) for one in OTHER_NUMBERS),
    ],
)
def test_versions_counts_and_log_probabilities_of_another_shape_are_none(
    stub: Stub, attribute: str, value: object
) -> None:
    setattr(stub, attribute, value)
    (reply,) = generate(runs.chat(stub.url), request(settings={"logprobs": True}))
    assert reply.text.startswith("Adding up.")
    assert (attribute != "further") or (reply.prompt_tokens, reply.completion_tokens) == (0, 0)
    assert (attribute != "choice") or reply.final_tokens == ()


def test_the_timeout_is_that_of_a_whole_reply(stub: Stub) -> None:
    stub.always = "trickle"
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"saw no complete reply after 0\.3 s; expected a reply within 0 s"):
        generate(ChatEngine([stub.url], "stub", patience=0.0, timeout=0.3), request())
    assert time.monotonic() - began < 5


def test_the_models_that_replies_name_are_kept(stub: Stub, tmp_path: Path) -> None:
    for n, model in ((2, "another-0613"), (3, ["none"])):
        stub.further = {"model": model}
        runs.ask(n, runs.chat(stub.url), tmp_path)
    assert [session["models"] for session in runs.manifest(tmp_path)["sessions"]] == [["another-0613"], []]


def test_a_key_that_the_server_echoes_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret\n")
    text = "With sk-secret-secret.\nAnswer and Confidence (0-100): 7, 80%"
    tokens = [{"token": token, "logprob": -0.1} for token in ("sk", "-secret", "-secret ", "7")]
    with Stub(key="sk-secret-secret") as stub:
        stub.choice = {"message": {"content": text}, "logprobs": {"content": tokens}}
        runs.ask(2, runs.chat(stub.url), tmp_path, sampling=Sampling(logprobs=True))
    assert b"With ***." in runs.observations(tmp_path)
    for file in tmp_path.iterdir():
        assert b"-secret" not in file.read_bytes()


def test_a_key_that_is_none_is_no_part_of_replies(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "7")
    stub.choice = {"message": {"content": "7 and 77 \ud83d"}}
    assert generate(runs.chat(stub.url), request())[0].text == "7 and 77 ?"  # as a lone surrogate cannot be written
    monkeypatch.setenv("OPENAI_API_KEY", "clé")
    with pytest.raises(EngineError, match="OPENAI_API_KEY: saw a key with other characters than ASCII"):
        runs.chat("http://127.0.0.1:1/v1")


def test_a_server_that_is_not_there_is_named(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # loopback goes through no proxy
    assert generate(runs.chat(stub.url), request())
    stub.kill()
    with pytest.raises(EngineError, match=r"127\.0\.0\.1.*Connection error"):
        generate(runs.chat(stub.url), request())


def test_user_names_and_passwords_of_an_address_are_not_told(stub: Stub) -> None:
    async def info(url: str) -> EngineInfo:
        async with ChatEngine([url], "stub") as found:
            return found

    found = asyncio.run(info(stub.url.replace("//", "//me:secret@")))
    assert found == EngineInfo("openai", (stub.url,), "0.0.stub", 2048)


def test_another_endpoint_takes_over_from_a_dead_one(stub: Stub) -> None:
    async def failover(first: Stub, second: Stub) -> None:
        engine = runs.chat(first.url, second.url)
        async with engine as info:
            assert (engine.lanes, len(info.endpoints)) == (2, 2)
            for lane in (0, 1):
                await engine.generate(request(lane), lane)
            assert (first.answered.total(), second.answered.total()) == (1, 1)
            first.kill()
            await asyncio.gather(*(engine.generate(request(2 + i), 0) for i in range(4)))
            assert second.answered.total() == 5

    with Stub() as second:
        asyncio.run(failover(stub, second))


def test_a_replay_refuses_what_was_not_recorded(tmp_path: Path) -> None:
    runs.ask(3, runs.canned(), tmp_path / "first")
    with pytest.raises(EngineError, match="saw no reply to"):
        runs.ask(4, CannedEngine.replay(tmp_path / "first" / "journal.jsonl"), tmp_path / "third")
