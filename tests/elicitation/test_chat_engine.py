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
from elicitation.engines import EngineError
from elicitation.generation import REASONING, ChatRequest, Generation, Key, Sampling
from tests.command_line import direag
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


def test_chat_engine_sends_every_parameter(stub: Stub) -> None:
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
def test_refusals_name_one_setting_after_another_to_leave_out(stub: Stub, refused: set[str]) -> None:
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


def test_sampling_body_adds_fields_as_they_are(stub: Stub) -> None:
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
def test_sampling_override_refuses_other_fields(name: str, value: object, message: str) -> None:
    with pytest.raises(DirEAGError, match=message):
        Sampling().override({name: value})


JSON = {"schema": {"type": "object"}}
MODELS = r"; expected the list of models\. Check the server"


@pytest.mark.parametrize(
    ("server", "asked", "message"),
    [
        ({"always": 503}, {}, r"saw status 503.*expected a reply within 0.2 s.*same command"),
        ({"always": 400}, {}, "saw status 400.*expected a reply. Check the server"),
        ({"always": 401}, JSON, r"status 401.*Set OPENAI_API_KEY to a key of this server, or name another .*--key-var"),
        ({"always": "redirect", "location": "/v1/models"}, {}, "saw status 307, a redirect to /v1/models; .* Give the"),
        ({"model": "other"}, {}, "saw a server of other; expected 'stub'"),
        ({"refused": {"min_p"}}, JSON, "--set min_p=none"),
        ({"refused": {"response_format"}}, JSON, "Leave out what it refuses: ask without --form json"),
        ({"refused": {"budget"}}, {"settings": {"body.budget": "9"}}, r"is not supported.*Leave .*--set body\.budget,"),
        ({"models": "<!doctype html><html>"}, {}, f"saw a page, '<!doctype html><html>' for JSON{MODELS}"),
        ({"models": "[" * 100_000}, {}, f"for JSON{MODELS}"),
        (
            {"models": {"data": []}, "always": 404},
            {},
            r"404.*The server lists no models, and not 'stub': name a served",
        ),
        ({"models": (403, {})}, {}, "expected the list of models. Set OPENAI_API_KEY to a key"),
        *(
            ({"models": content}, {}, f"saw .*{MODELS}")
            for content in ("not JSON", [], {"data": "none"}, {"data": [3]}, {"error": {"message": "no"}})
        ),
    ],
)
def test_refusals_say_what_was_seen_and_what_to_do(
    stub: Stub, server: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    vars(stub).update(server)
    with pytest.raises(EngineError, match=message):
        generate(runs.chat(stub.url, patience=0.2), request(**asked))
    assert not stub.requests


@pytest.mark.parametrize(
    ("models", "seen"),
    [
        (["stub:latest"], "stub:latest"),
        (["openai/*", "*"], r"openai/\*, \*"),
        (["a/stub", "b"], "a/stub, b"),
        (["a", "b"], "a, b"),
        ([], "no models"),
        *((status, "no models") for status in (404, 405, 501)),
    ],
)
def test_lists_without_the_model_are_a_remark(stub: Stub, tmp_path: Path, models: Any, seen: str) -> None:
    stub.models = (models, {"detail": "no"}) if isinstance(models, int) else {"data": [{"id": name} for name in models]}
    engine = runs.chat(stub.url)
    assert runs.ask(1, engine, tmp_path).statuses == {"ok": 5}
    (remark,) = engine.remarks
    assert re.fullmatch(rf"{stub.url}: The server lists {seen}, and not 'stub', which is asked all the same\.", remark)
    assert runs.manifest(tmp_path)["engine"]["remarks"] == [remark]


def test_a_missing_page_asks_for_the_end_of_the_address(stub: Stub) -> None:
    with pytest.raises(EngineError, match=r"expected a reply\. Does the URL end in /v1\?"):
        generate(runs.chat(stub.url.removesuffix("/v1"), patience=0.1), request())


def test_a_fault_of_a_server_that_names_a_setting_says_how_to_leave_it_out(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FAULTS, 500, (500, {"error": "the backend does not support parameters: {'top_k': 0}"}))
    stub.always = 500
    with pytest.raises(EngineError, match=r"within 0.2 s. Leave out what it refuses: --set top_k=none"):
        generate(runs.chat(stub.url, patience=0.2), request())


@pytest.mark.parametrize("concurrency", [1, 8])
def test_replies_that_are_sent_twice_answer_no_other_question(stub: Stub, tmp_path: Path, concurrency: int) -> None:
    stub.sends = 2
    runs.ask(12, runs.chat(stub.url), tmp_path / "twice", concurrency=concurrency)
    runs.ask(12, runs.canned(), tmp_path / "once")
    assert runs.observations(tmp_path / "twice") == runs.observations(tmp_path / "once")


def test_a_completion_with_a_name_twice_is_no_reply(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    one = json.dumps({"choices": [{"message": {"content": "Answer: 7"}}]})
    monkeypatch.setitem(FAULTS, 200, (200, f'{one[:-1]}, "choices": [{{"message": {{"content": "Answer: 8"}}}}]}}'))
    stub.always = 200
    with pytest.raises(EngineError, match=r"saw '.*for JSON; expected a reply"):
        generate(runs.chat(stub.url, patience=0.1), request())


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "reasoning": "Adding"}, ""),
        ({"content": "", "reasoning_content": "Adding"}, ""),
        ({"content": "<think>Adding 7"}, "<think>Adding 7"),
        ({"content": "Adding 7"}, None),
    ],
)
def test_generation_cut_off_in_the_reasoning_is_not_asked_for_again(
    stub: Stub, tmp_path: Path, message: dict[str, Any], text: str | None
) -> None:
    stub.choice = {"message": message, "finish_reason": "length"}
    tally = runs.ask(2, runs.chat(stub.url), tmp_path)
    assert tally.statuses == {"truncated": 10}
    assert (tally.n_in_reasoning, tally.asked) == ((0, 30) if text is None else (10, 10))
    report = runs.records(tmp_path)[0]["observations"][0]
    assert (report["finish_reason"] == REASONING) is (text is not None)
    assert report["raw_output"] == ("Adding 7" if text is None else text)


def test_generation_in_parts_is_read_without_its_reasoning(stub: Stub) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Answer: 7, 99%"}]}
    stub.choice = {
        "message": {"content": [thought, {"type": "text", "text": "Answer: 8"}, {"type": "text", "text": ", 90%"}]}
    }
    assert generate(runs.chat(stub.url), request())[0].text == "Answer: 8, 90%"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 2048 tokens. However, you requested 4096.",  # vLLM
        "The decoder prompt (length 5951) is longer than the maximum model length of 4096.",  # its engine
        "request (9999 tokens) exceeds the available context size (4096 tokens), try increasing it",  # llama.cpp
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",  # SGLang
        "You passed 900 tokens. However, the model's context length is only 512 tokens.",  # vLLM of today
        "The model is loaded with context length of only 512 tokens, which is not enough.",  # LM Studio
        "prompt is too long: 900 tokens > 512 maximum",  # hosted, as the next two
        "Your request exceeded model token limit: 512",
        "context_length_exceeded",
    ],
)
def test_refused_prompts_that_are_too_long_are_replies_without_text(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    monkeypatch.setitem(FAULTS, "long", (400, {"error": {"message": message}}))
    stub.always = "long"
    assert generate(runs.chat(stub.url), request(**JSON), request()) == [Generation("", "context")] * 2


def test_refused_prompts_of_a_filter_leave_a_question_unanswered(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    message = "The response was filtered due to the prompt triggering our content management policy."
    monkeypatch.setitem(FAULTS, "filter", (400, {"error": {"message": message, "code": "content_filter"}}))
    stub.faults.extend(["filter"] * 15)
    tally = runs.ask(2, runs.chat(stub.url), tmp_path, concurrency=1)
    assert (tally.statuses, tally.n_unanswered) == ({"truncated": 5, "ok": 5}, 1)
    assert runs.records(tmp_path)[0]["observations"][0]["finish_reason"] == "content_filter"


def test_refusals_never_show_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-some")
    with Stub(key="sk-some") as stub:
        assert generate(ChatEngine([stub.url], "stub", key_variable="SOME_KEY"), request())[0].text
        for key, seen in (("sk-secret", r"bearer \*\*\*"), ("", "bearer none"), (None, "bearer none")):
            monkeypatch.delenv("OPENAI_API_KEY") if key is None else monkeypatch.setenv("OPENAI_API_KEY", key)
            with pytest.raises(EngineError, match=f"status 401.*wrong key {seen}"):  # without a key nothing is masked
                generate(runs.chat(stub.url), request())


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
def test_generation_leaves_out_counts_and_log_probabilities_of_another_shape(
    stub: Stub, attribute: str, value: object
) -> None:
    setattr(stub, attribute, value)
    (reply,) = generate(runs.chat(stub.url), request(settings={"logprobs": True}))
    assert reply.text.startswith("Adding up.")
    assert (attribute != "further") or (reply.prompt_tokens, reply.completion_tokens) == (0, 0)
    assert (attribute != "choice") or reply.final_tokens == ()


def test_timeout_is_that_of_a_whole_reply(stub: Stub) -> None:
    stub.always = "trickle"
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"saw no complete reply after 0\.3 s; expected a reply within 0 s"):
        generate(ChatEngine([stub.url], "stub", patience=0.0, timeout=0.3), request())
    assert time.monotonic() - began < 20


KEY = "sk-secret-secret"


@pytest.mark.parametrize(
    ("echo", "status", "is_masked"),
    [
        ({"choice": {"message": {"content": f"With {KEY}.\nAnswer: 7\nConfidence: 80%"}}}, 0, True),
        ({"choice": {"message": {"content": [{"text": "With sk-secret"}, {"text": "-secret. 7"}]}}}, 1, True),
        ({"choice": {"finish_reason": KEY}}, 0, True),
        ({"choice": {"logprobs": {"content": [{"token": one, "logprob": -1} for one in ("sk", KEY[2:])]}}}, 0, False),
        ({"further": {"model": KEY}}, 0, True),
        ({"version": {"version": KEY}}, 0, True),
        ({"models": {"data": [{"id": "stub"}, {"id": KEY}]}}, 0, False),
        ({"models": {"data": [{"id": f"{KEY}/a"}]}}, 2, True),
        ({"models": {"data": [{"id": KEY}, {"id": "stub/*"}]}}, 0, True),
        ({"always": 400}, 2, True),
    ],
)
def test_chat_engine_keeps_and_shows_no_key_that_a_server_echoes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, echo: dict[str, Any], status: int, is_masked: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    monkeypatch.setitem(FAULTS, 400, (400, {"error": {"message": f"{KEY} is not enough"}}))
    command = ("elicit", "--questions", runs.SUMS, "--limit", 2, "--out", tmp_path, "--model", "stub")
    with Stub(key=KEY) as stub:
        vars(stub).update(echo)
        result = direag(*command, "--base-url", stub.url, "--set", "logprobs=true")
    assert result.exit_code == status
    kept = b"".join([result.output.encode(), *(file.read_bytes() for file in tmp_path.iterdir())])
    assert (b"-secret" in kept, b"***" in kept) == (False, is_masked)


def test_chat_engine_replaces_half_characters(tmp_path: Path) -> None:
    half = "stub-\ud83d"
    with Stub() as stub:
        stub.further, stub.version = {"model": half}, {"version": half}
        runs.ask(1, runs.chat(stub.url), tmp_path)
        assert runs.manifest(tmp_path)["engine"]["models"] == ["stub-?"]
        stub.model = "other-\ud83d"
        with pytest.raises(EngineError, match=r"saw a server of other-\?; expected 'stub'"):
            generate(runs.chat(stub.url), request())


def test_chat_engine_takes_short_keys_for_none(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "7")
    stub.choice = {"message": {"content": "7 and 77 \ud83d"}}
    assert generate(runs.chat(stub.url), request())[0].text == "7 and 77 ?"  # as a lone surrogate cannot be written
    monkeypatch.setenv("OPENAI_API_KEY", "clé")
    with pytest.raises(EngineError, match="OPENAI_API_KEY: saw a key with other characters than ASCII"):
        runs.chat("http://127.0.0.1:1/v1")


def test_refusals_name_a_server_that_is_not_there(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # loopback goes through no proxy
    assert generate(runs.chat(stub.url), request())
    stub.kill()
    with pytest.raises(EngineError, match=r"127\.0\.0\.1.*Connection error"):
        generate(runs.chat(stub.url), request())


@pytest.mark.parametrize(
    "url",
    [*(f"http://me:secret@{host}/v1" for host in ("[::1", "127.0.0.1:port", "127.0.0.1:99999", "a b")), "h:1/v1", ""],
)
def test_chat_engine_refuses_other_addresses_and_shows_no_password(url: str) -> None:
    with pytest.raises(EngineError) as error:
        generate(runs.chat(url, patience=0.1))
    assert "secret" not in str(error.value)


def test_chat_engine_describes_itself_without_user_names_and_passwords(stub: Stub) -> None:
    async def about(url: str) -> dict[str, object]:
        async with ChatEngine([url], "stub") as described:
            return described

    description = asyncio.run(about(stub.url.replace("//", "//me:secret@")))
    assert description == {"kind": "openai", "endpoints": [stub.url], "server_version": "0.0.stub", "context": 2048}


def test_chat_engine_reads_no_more_than_it_can_hold(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elicitation.chat_engine._MOST_BYTES", 1 << 20)
    stub.further = {"padding": "x" * (1 << 20)}
    with pytest.raises(EngineError, match="saw over 1 MiB in the replies at one time"):
        generate(runs.chat(stub.url, patience=0.1), request())


def test_chat_engine_holds_so_much_for_all_requests_together(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elicitation.chat_engine._MOST_BYTES", 1 << 20)
    stub.further, stub.hold = {"padding": "x" * (1 << 19)}, 8
    engine = runs.chat(stub.url)
    assert runs.ask(4, engine, tmp_path, concurrency=8).statuses == {"ok": 20}  # those in excess are asked again
    assert engine._held == 0
    assert stub.answered.total() > 20
