import asyncio
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.chat_engine import ChatEngine
from elicitation.engines import CannedEngine, EngineError, EngineInfo
from elicitation.generation import REASONING, ChatRequest, Generation, Key, Sampling
from tests.elicitation import runs
from tests.elicitation.stub_server import Stub


def request(number: int = 0, **sampling: Any) -> ChatRequest:
    messages = ({"role": "user", "content": f"Question: What is {number} and 4? Notes:"},)
    return ChatRequest(Key("p", 0, 0, 0), messages, 11 + number, Sampling(**sampling), sampling.get("pattern"))


def generate(engine: ChatEngine, *requests: ChatRequest, lane: int = 0) -> list[Generation]:
    async def run() -> list[Generation]:
        async with engine:
            return [await engine.generate(one, lane) for one in requests]

    return asyncio.run(run())


def test_every_parameter_is_sent_and_the_reply_comes_back() -> None:
    with Stub() as stub:
        (reply,) = generate(runs.chat(stub.url), request(temperature=0.3))
        sent = stub.requests[0]
    assert reply.text.startswith("Adding up.")
    assert (reply.finish_reason, reply.prompt_tokens, reply.completion_tokens) == ("stop", 50, 12)
    expected = {
        "model": "stub",
        "temperature": 0.3,
        "top_p": 1.0,
        "max_tokens": 1024,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }
    assert {name: value for name, value in sent.items() if name != "messages"} == expected


LEFT_OUT = {
    "vllm": [],
    "hosted": ["top_k", "min_p", "repetition_penalty"],
    "reasoning": [
        *("top_k", "min_p", "repetition_penalty"),
        *("max_tokens", "temperature", "top_p", "frequency_penalty", "presence_penalty"),
    ],
}


@pytest.mark.parametrize("rules", list(LEFT_OUT))
def test_what_a_server_refuses_can_be_left_out_one_by_one(rules: str) -> None:
    """Each refusal names the setting that mends it; with all of them the server answers."""
    sampling, left_out = Sampling(), list[str]()
    with Stub(rules=rules) as stub:
        while not stub.requests:
            try:
                generate(runs.chat(stub.url), replace(request(), sampling=sampling))
            except EngineError as error:
                (setting,) = re.findall(r"--set (\w+=none)", str(error))
                sampling = sampling.override({setting.removesuffix("=none"): None})
                left_out.append(setting.removesuffix("=none"))
        (sent,) = stub.requests
    assert sorted(left_out) == sorted(LEFT_OUT[rules])
    assert not set(left_out) & sent.keys()
    assert {"temperature", "top_k", "max_tokens"} - set(left_out) <= sent.keys()


def test_a_reasoning_model_is_asked_in_its_own_words() -> None:
    settings = dict.fromkeys(LEFT_OUT["reasoning"])
    sampling = Sampling().override({**settings, "max_completion_tokens": 4096, "reasoning_effort": "low"})
    with Stub(rules="reasoning") as stub:
        generate(runs.chat(stub.url), replace(request(), sampling=sampling))
        (sent,) = stub.requests
    assert sent == {
        "model": "stub",
        "messages": list(request().messages),
        "max_completion_tokens": 4096,
        "reasoning_effort": "low",
    }
    with Stub(rules="reasoning") as stub, pytest.raises(EngineError) as error:
        generate(runs.chat(stub.url), replace(request(), sampling=sampling.override({"max_tokens": 9})))
    assert str(error.value).endswith("--set max_tokens=none --set max_completion_tokens=4096.")


def test_further_fields_go_into_the_body_as_they_are_and_a_refusal_says_which() -> None:
    kept = {"chat_template_kwargs": {"enable_thinking": False}, "thinking_token_budget": 512, "tags": ["a", None, "é"]}
    sampling = Sampling().override({f"body.{name}": json.dumps(value) for name, value in kept.items()})
    assert sampling == Sampling().override({"body": kept})  # of a TOML file
    with Stub() as stub:
        generate(runs.chat(stub.url), replace(request(), sampling=sampling))
        assert {name: stub.requests[0][name] for name in kept} == kept
        stub.refused = {"thinking_token_budget"}
        with pytest.raises(
            EngineError, match=r"'thinking_token_budget' is not supported.*Leave out.*--set body\.think"
        ):
            generate(runs.chat(stub.url), replace(request(), sampling=sampling))


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
    tmp_path: Path, message: dict[str, Any], text: str | None
) -> None:
    with Stub() as stub:
        stub.choice = {"message": message, "finish_reason": "length"}
        tally = runs.ask(2, runs.chat(stub.url), tmp_path)
    assert tally.statuses == {"truncated": 10}
    assert (tally.n_in_reasoning, tally.asked) == ((0, 30) if text is None else (10, 10))
    report = runs.records(tmp_path)[0]["observations"][0]
    assert (report["finish_reason"] == REASONING) is (text is not None)
    assert report["raw_output"] == ("Adding 7" if text is None else text)


def test_a_server_is_tested_once_before_it_holds_replies_to_a_pattern() -> None:
    asked = replace(request(), pattern="[0-9]+")
    with Stub() as stub:
        generate(runs.chat(stub.url), asked, asked)
        assert [one["structured_outputs"]["regex"] for one in stub.requests[1:]] == ["[0-9]+"] * 2
    for stub in (Stub(obeys="nothing"), Stub(rules="hosted")):
        left = {} if stub.obeys == "nothing" else {"top_k": None, "min_p": None, "repetition_penalty": None}
        with stub, pytest.raises(EngineError, match=r"does not match a pattern.*Leave out --set structured=true"):
            generate(runs.chat(stub.url), replace(asked, sampling=Sampling(**left)))


@pytest.mark.parametrize(
    ("taken", "sent"),
    [({"json_schema", "json_object"}, "json_schema"), ({"json_object"}, "json_object"), (set[str](), None)],
)
def test_json_is_asked_for_in_a_form_that_the_server_does_not_refuse(taken: set[str], sent: str | None) -> None:
    asked = replace(request(), schema={"type": "object"})
    with Stub() as stub:
        stub.json_formats = taken
        generate(runs.chat(stub.url), asked, asked)
        formats = [one.get("response_format", {}) for one in stub.requests]
    assert [form.get("type") for form in formats] == [sent] * 2
    if sent == "json_schema":
        assert formats[0]["json_schema"] == {"name": "reply", "schema": {"type": "object"}, "strict": True}


def test_a_refusal_of_something_else_is_reported_for_json_too() -> None:
    asked = replace(request(), schema={"type": "object"})
    with Stub(rules="hosted") as stub:
        with pytest.raises(EngineError, match="--set min_p=none"):
            generate(runs.chat(stub.url), asked)
        stub.always = "long"
        for one in (asked, request()):
            assert generate(runs.chat(stub.url), one) == [Generation("", "context")]
        stub.always = 401
        with pytest.raises(EngineError, match="status 401"):
            generate(runs.chat(stub.url), asked)


def test_a_lasting_fault_is_reported_after_the_patience() -> None:
    with Stub() as stub:
        stub.always = 503
        with pytest.raises(EngineError, match=r"saw status 503.*expected a reply within 0.2 s.*same command"):
            generate(runs.chat(stub.url, patience=0.2), request())


def test_a_refusal_is_reported_at_once_and_never_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with Stub() as stub:
        stub.faults.append(400)
        with pytest.raises(EngineError, match="status 400"):
            generate(runs.chat(stub.url), request())
    monkeypatch.setenv("SOME_KEY", "sk-some")
    with Stub(key="sk-some") as stub:
        assert generate(ChatEngine([stub.url], "stub", key_variable="SOME_KEY"), request())[0].text
        with pytest.raises(EngineError, match="status 401") as error:
            generate(runs.chat(stub.url), request())
        assert "secret" not in str(error.value)
        for key in ("", None):  # without one nothing is masked
            monkeypatch.delenv("OPENAI_API_KEY") if key is None else monkeypatch.setenv("OPENAI_API_KEY", key)
            with pytest.raises(EngineError, match="wrong key bearer none") as error:
                generate(runs.chat(stub.url), request())
            assert "*" not in str(error.value)


def test_a_server_of_another_model_is_named() -> None:
    with Stub(model="other") as stub, pytest.raises(EngineError, match=r"saw a server of other; expected 'stub'"):
        generate(runs.chat(stub.url))


@pytest.mark.parametrize(
    ("models", "seen"),
    [
        ("<!doctype html><html>", r"saw a page, '<!doctype html><html>' for JSON"),
        ("not JSON", "saw 'not JSON' for JSON"),
        ("[" * 100_000, "for JSON"),
        ([], r"saw '\[\]'"),
        ({"data": "none"}, "saw \"{'data': 'none'}\""),
        ({"data": [3]}, "saw .*3"),
        ({"error": {"message": "no"}}, "saw .*no"),
    ],
)
def test_what_is_no_list_of_models_is_one_line(models: object, seen: str) -> None:
    with Stub() as stub:
        stub.models = models
        with pytest.raises(EngineError, match=rf"{seen}.*; expected the list of models\. Check the server"):
            generate(runs.chat(stub.url, patience=0.1))
        with pytest.raises(EngineError, match=r"; expected the list of models\. Does the URL end in /v1\?"):
            generate(runs.chat(stub.url.removesuffix("/v1"), patience=0.1))


@pytest.mark.parametrize("url", ["127.0.0.1:1/v1", "http://[::1/v1", "http://127.0.0.1:port/v1", "http://a b/v1", ""])
def test_an_address_that_is_none_is_one_line(url: str) -> None:
    with pytest.raises(EngineError):
        generate(runs.chat(url, patience=0.1))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        *(("version", value) for value in ("no JSON", "[" * 100_000, [1], {"version": {"deep": 1}}, "<html>")),
        *(
            ("further", {"usage": usage})
            for usage in (3, [], "many", {"prompt_tokens": "3"}, {"prompt_tokens": -1}, None)
        ),
        *(("choice", {"logprobs": logprobs}) for logprobs in (3, [], {"content": 3}, {"content": [3]})),
        *(
            ("choice", {"logprobs": {"content": [{"token": "7", "logprob": value}]}})
            for value in (None, "x", 1e300, -1e300, 10**400)
        ),
    ],
)
def test_versions_counts_and_log_probabilities_of_another_shape_are_none(attribute: str, value: object) -> None:
    with Stub() as stub:
        setattr(stub, attribute, value)
        (reply,) = generate(runs.chat(stub.url), request(logprobs=True))
    assert reply.text.startswith("Adding up.")
    assert (attribute != "further") or (reply.prompt_tokens, reply.completion_tokens) == (0, 0)
    assert (attribute != "choice") or reply.final_tokens == ()


def test_the_timeout_is_that_of_a_whole_reply() -> None:
    with Stub() as stub:
        stub.always = "trickle"
        began = time.monotonic()
        with pytest.raises(EngineError, match=r"saw no complete reply after 0\.3 s; expected a reply within 0 s"):
            generate(ChatEngine([stub.url], "stub", patience=0.0, timeout=0.3), request())
        assert time.monotonic() - began < 5


def test_a_redirect_is_named_and_not_followed() -> None:
    with Stub() as stub, Stub() as other:
        stub.always, stub.location = "redirect", f"{other.url}/chat/completions"
        with pytest.raises(
            EngineError, match=rf"saw status 307, a redirect to {stub.location}; expected a reply\. Give"
        ):
            generate(runs.chat(stub.url), request())
        assert not other.requests


def test_the_models_that_replies_name_are_kept(tmp_path: Path) -> None:
    with Stub() as stub:
        stub.further = {"model": "another-0613"}
        runs.ask(2, runs.chat(stub.url), tmp_path)
        stub.further = {"model": ["none"]}
        runs.ask(3, runs.chat(stub.url), tmp_path)
    sessions = runs.manifest(tmp_path)["sessions"]
    assert [session["models"] for session in sessions] == [["another-0613"], []]


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


def test_a_key_that_is_none_is_no_part_of_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "7")
    with Stub() as stub:
        stub.choice = {"message": {"content": "7 and 77"}}
        assert generate(runs.chat(stub.url), request())[0].text == "7 and 77"
    monkeypatch.setenv("OPENAI_API_KEY", "clé")
    with pytest.raises(EngineError, match="OPENAI_API_KEY: saw a key with other characters than ASCII"):
        runs.chat("http://127.0.0.1:1/v1")


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # loopback goes through no proxy
    with Stub() as stub:
        assert generate(runs.chat(stub.url), request())
        stub.kill()
        with pytest.raises(EngineError, match=r"127\.0\.0\.1.*Connection error"):
            generate(runs.chat(stub.url), request())


def test_user_names_and_passwords_of_an_address_are_not_told() -> None:
    async def info(url: str) -> EngineInfo:
        async with ChatEngine([url], "stub") as found:
            return found

    with Stub() as stub:
        found = asyncio.run(info(stub.url.replace("//", "//me:secret@")))
    assert found == EngineInfo("openai", (stub.url,), "0.0.stub", 2048)


def test_another_endpoint_takes_over_from_a_dead_one() -> None:
    async def failover(first: Stub, second: Stub) -> None:
        engine = runs.chat(first.url, second.url)
        assert engine.lanes == 2
        async with engine as info:
            assert len(info.endpoints) == 2
            await engine.generate(request(0), 0)
            await engine.generate(request(1), 1)
            assert (first.answered.total(), second.answered.total()) == (1, 1)
            first.kill()
            await asyncio.gather(*(engine.generate(request(2 + i), 0) for i in range(4)))
            assert second.answered.total() == 5

    with Stub() as first, Stub() as second:
        asyncio.run(failover(first, second))


def test_lone_surrogates_are_replaced() -> None:
    with Stub(garbage=1.0) as stub:
        (reply,) = generate(runs.chat(stub.url), request())
    assert "\ud83d" not in reply.text
    assert "?" in reply.text


def test_a_replay_gives_recorded_replies_and_refuses_others(tmp_path: Path) -> None:
    runs.ask(3, runs.canned(), tmp_path / "first")
    replay = CannedEngine.replay(tmp_path / "first" / "journal.jsonl")
    runs.ask(3, replay, tmp_path / "second")
    assert runs.observations(tmp_path / "first") == runs.observations(tmp_path / "second")
    with pytest.raises(EngineError, match="saw no reply to"):
        runs.ask(4, replay, tmp_path / "third")
