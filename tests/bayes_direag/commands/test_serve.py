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
from fastapi.testclient import TestClient

from bayes_direag.commands.serve import service
from bayes_direag.errors import FewReportsWarning
from bayes_direag.fits.fit import Fit
from bayes_direag.predictor import Predictor
from tests.command_line import HEAR_CTRL_C, refuse

SAID = [
    {"level": "cautious", "answer": "51 dollars", "confidence": 70},
    {"level": "vanilla", "answer": 51, "confidence": 95},
]


@pytest.fixture(scope="module")
def predictor(point: Fit) -> Predictor:
    return point.predictor


@pytest.fixture(scope="module")
def client(predictor: Predictor) -> TestClient:
    return TestClient(service(predictor, largest_body=2000))


def test_serve_answers_as_its_predictor(client: TestClient, predictor: Predictor) -> None:
    reply = client.post("/answer", json=SAID)
    with pytest.warns(FewReportsWarning) as warned:
        expected = predictor.predict(SAID)
    assert (reply.status_code, reply.json()) == (200, expected | {"remarks": [str(warned[0].message)]})
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
        ("[{", 422, "JSON decode error"),
        ("", 422, "Field required"),
        (json.dumps([{"level": "cautious", "answer": "x" * 3000}]), 413, "saw more than 2000 bytes"),
    ],
)
def test_serve_refuses_with_the_reason(client: TestClient, body: str, status: int, says: str) -> None:
    reply = client.post("/answer", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    assert says in str(reply.json()["detail"])


def test_serve_stops_reading_a_body_that_has_no_end(predictor: Predictor) -> None:
    app, taken, sent = service(predictor, 5000), [], []

    async def receive() -> dict[str, object]:
        taken.append(1000)
        return {"type": "http.request", "body": b"[" * 1000, "more_body": True}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/answer", "query_string": b"", "http_version": "1.1"}
    asyncio.run(app(scope | {"headers": [(b"content-type", b"application/json")]}, receive, send))
    assert (sent[0]["status"], sum(taken)) == (413, 6000)


def test_serve_says_which_fit_answers(client: TestClient, predictor: Predictor) -> None:
    record = client.get("/health").json()
    assert (record["status"], record["levels"], record["answers"]) == ("ok", list(predictor.levels), "numeric")
    assert record["fit"] == predictor.made_by["fit"]
    assert [client.get(path).status_code for path in ("/docs", "/redoc", "/answer")] == [404, 404, 405]


def test_serve_has_a_form_that_runs_its_own_script_alone(predictor: Predictor) -> None:
    attack = "</script><script>alert(1)</script>\u202e"
    hostile = replace(predictor, levels=(attack, *predictor.levels[1:]))
    reply = TestClient(service(hostile)).get("/")
    html = reply.text
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 2
    about = json.loads(scripts[0])
    assert [level["name"] for level in about["levels"]] == list(hostile.levels)
    assert about["levels"][0]["shown"].endswith("\\u202e")
    digest = base64.b64encode(hashlib.sha256(scripts[1].encode()).digest()).decode()
    policy = reply.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"https?://|src=|href=|@import", html)


def test_serve_over_loopback(predictor: Predictor, tmp_path: Path) -> None:
    predictor.save(tmp_path / "predictor.json")
    code = f"{HEAR_CTRL_C}\nfrom bayes_direag.cli import app; app()"
    command = [sys.executable, "-c", code, "serve", str(tmp_path / "predictor.json"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
            asked = urllib.request.Request(  # noqa: S310
                f"{address}/answer", json.dumps(SAID).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=60) as reply:  # noqa: S310
                assert json.load(reply)["probability"] == predictor.predict(SAID)["probability"]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_serve_needs_a_fit_and_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, predictor: Predictor) -> None:
    assert "expected a fit" in refuse("serve", tmp_path / "none.nc")
    (tmp_path / "bad.json").write_text("{}")
    assert "not a predictor that this version can read" in refuse("serve", tmp_path / "bad.json")
    predictor.save(tmp_path / "predictor.json")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install '.[serve]'" in refuse("serve", tmp_path / "predictor.json")
