"""A fit as a service: what it answers, refuses and shows, in process and once over loopback."""

import asyncio
import base64
import hashlib
import json
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient

from bayes_direag.commands.serve import protocol, service
from bayes_direag.fits.fit import Fit
from tests.command_line import HEAR_CTRL_C, refuse

SAID = [
    {"level": "cautious", "answer": "51 dollars", "confidence": 70},
    {"level": "vanilla", "answer": 51, "confidence": 95},
]


@pytest.fixture(scope="module")
def client(point: Fit) -> TestClient:
    return TestClient(service(point, largest_body=2000))


def test_serve_answers_as_its_fit(client: TestClient, point: Fit) -> None:
    reply = client.post("/answer", json=SAID)
    expected = point.answer(SAID)
    assert (reply.status_code, reply.json()) == (200, expected)
    assert expected["remarks"] == point.remarks(point.question(SAID))
    silent = client.post("/answer", json=[])
    assert (silent.status_code, silent.json()["answer"], silent.json()["probability"]) == (200, None, None)
    again = client.post("/answer", json=SAID)
    assert again.json() == reply.json(), "nothing is remembered"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (
            json.dumps([{"level": "cautious", "answer": "51", "confidence": 170}]),
            422,
            "saw 170; expected a number from",
        ),
        (json.dumps([{"level": "nobody", "answer": "51", "confidence": 70}]), 422, "saw 'nobody'; expected one of"),
        (json.dumps({"level": "cautious"}), 422, "expected a list of reports"),
        (json.dumps("reports"), 422, "expected a list of reports"),
        (json.dumps([[{"level": "cautious"}]]), 422, "expected a list of reports, each an object"),
        ("[{", 422, "this is not JSON (EOF"),
        ("", 422, "this is not JSON (EOF"),
        ('[{"level": "cautious", "answer": "51", "answer": "52"}]', 422, "field answer: it is there twice"),
        (json.dumps([{"engine": "a", "reply": "51"}]), 422, "this report has no field level; saw 'engine, reply'"),
        (json.dumps([{"level": "cautious", "answer": "x" * 3000}]), 413, "saw more than 2000 bytes"),
    ],
)
def test_serve_refuses_with_the_reason(client: TestClient, body: str, status: int, says: str) -> None:
    reply = client.post("/answer", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    assert says in str(reply.json()["detail"])


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        (
            {"answer": "about fifty"},
            "The report of cautious was not used: its answer 'about fifty' is no numeric answer.",
        ),
        ({"answer": None}, "The report of cautious was not used: it has no answer."),
        ({"confidence": None}, "The report of cautious was not used: its confidence is missing, or neither"),
        ({"confidence": 0.7}, "The report of cautious was not used: its confidence is missing, or neither"),
        ({"confidance": 70}, "The field confidance is not known, and was not used. Did you mean confidence"),
    ],
)
def test_serve_says_what_it_did_not_use(client: TestClient, change: dict[str, object], remark: str) -> None:
    reply = client.post("/answer", json=[SAID[0] | change, SAID[1]]).json()
    assert remark in reply["remarks"][0]
    assert reply["n_used"] == 1 + ("confidance" in change)
    alone = client.post("/answer", json=[SAID[0] | change]).json()
    assert change == {"confidence": 0.7} or remark in alone["remarks"][0]  # such a number alone is refused


def test_serve_stops_reading_a_body_that_has_no_end(point: Fit) -> None:
    app, taken, sent = service(point, 5000), [], []

    async def receive() -> dict[str, object]:
        taken.append(1000)
        return {"type": "http.request", "body": b"[" * 1000, "more_body": True}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/answer", "query_string": b"", "http_version": "1.1"}
    asyncio.run(app(scope | {"headers": [(b"content-type", b"application/json")]}, receive, send))
    assert (sent[0]["status"], sum(taken)) == (413, 6000)


def test_serve_refuses_a_request_that_does_not_end(point: Fit) -> None:
    app, sent = service(point, deadline=0.05), []

    async def receive() -> dict[str, object]:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/answer", "query_string": b"", "http_version": "1.1"}
    asyncio.run(app(scope | {"headers": []}, receive, send))
    assert sent[0]["status"] == 408
    assert b"has not come whole in 0.05 seconds" in sent[1]["body"]


@pytest.mark.parametrize(
    ("bound", "asked", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8000", 200),
        ("127.0.0.1", "localhost:8000", 200),
        ("127.0.0.1", "evil.example:8000", 421),
        ("127.0.0.1", "", 421),
        ("::1", "[::1]:8000", 200),
        ("10.1.2.3", "localhost", 421),
        ("0.0.0.0", "any.example", 200),  # noqa: S104
        (None, "any.example", 200),
    ],
)
def test_serve_refuses_other_hosts_than_it_is_bound_to(point: Fit, bound, asked, status) -> None:
    reply = TestClient(service(point, host=bound)).get("/health", headers={"Host": asked})
    assert reply.status_code == status
    assert status == 200 or f"saw the host {asked!r}; expected {bound}" in reply.json()["detail"]


def test_serve_itself_may_run_longer_than_a_request(point: Fit) -> None:
    app, sent, states = service(point, deadline=0.05), [], iter(["startup", "shutdown"])

    async def receive() -> dict[str, object]:
        await asyncio.sleep(0.2)
        return {"type": f"lifespan.{next(states)}"}

    async def send(message: dict[str, object]) -> None:
        sent.append(message["type"])

    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_serve_says_which_fit_answers(client: TestClient, point: Fit) -> None:
    record = client.get("/health").json()
    assert (record["status"], record["levels"], record["answers"]) == ("ok", list(point.level_names), "numeric")
    assert record["fit"] == repr(point)
    assert [client.get(path).status_code for path in ("/docs", "/redoc", "/answer")] == [404, 404, 405]


def test_serve_has_a_form_that_runs_its_own_script_alone(point: Fit) -> None:
    attack = "</script><script>alert(1)</script>\u202e"
    hostile = replace(point)
    vars(hostile)["level_names"] = (attack, *point.level_names[1:])
    reply = TestClient(service(hostile)).get("/")
    html = reply.text
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 2
    about = json.loads(scripts[0])
    assert [level["name"] for level in about["levels"]] == list(hostile.level_names)
    assert about["levels"][0]["shown"].endswith("\\u202e")
    digest = base64.b64encode(hashlib.sha256(scripts[1].encode()).digest()).decode()
    policy = reply.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"https?://|src=|href=|@import", html)


def test_serve_over_loopback(point: Fit, tmp_path: Path) -> None:
    point.save(tmp_path / "fit.nc")
    code = f"{HEAR_CTRL_C}\nfrom bayes_direag.cli import app; app()"
    command = [sys.executable, "-c", code, "serve", str(tmp_path / "fit.nc"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
            asked = urllib.request.Request(  # noqa: S310
                f"{address}/answer", json.dumps(SAID).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=60) as reply:  # noqa: S310
                assert json.load(reply)["probability"] == point.answer(SAID)["probability"]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.parametrize("first", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_serve_closes_a_connection_whose_head_does_not_end(point: Fit, first: bytes) -> None:
    """The first on a connection, or one after an answer; a byte now and then does not help."""

    async def seconds_open() -> float:
        app = service(point, host="127.0.0.1")
        config = uvicorn.Config(app, port=0, http=protocol(0.5), log_level="error", timeout_keep_alive=60)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if first:
            writer.write(first)
            assert b"200 OK" in await reader.readuntil(b"}")
            await asyncio.sleep(1)  # a quiet connection stays
        clock, closed = asyncio.get_running_loop().time, asyncio.create_task(reader.read())
        began = clock()
        writer.write(b"POST /answer HTTP/1.1\r\nX: ")
        while not closed.done() and clock() - began < 30:
            writer.write(b"x")
            await asyncio.sleep(0.1)
        seconds, server.should_exit = clock() - began, True
        writer.close()
        await serving
        return seconds

    assert 0.4 < asyncio.run(seconds_open()) < 30


def test_serve_needs_a_fit_and_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Fit) -> None:
    assert "expected a fit" in refuse("serve", tmp_path / "none.nc")
    point.save(tmp_path / "fit.nc")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install '.[serve]'" in refuse("serve", tmp_path / "fit.nc")
