"""A page in headless Chromium, as a phone or a desk shows it.

The browser is spoken to through its own debugging pipe (https://chromedevtools.github.io/devtools-protocol), so that a
page without a script can be measured as it is.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 120


#: Width, height, and whether it is a phone.
PHONE, DESK = (390, 844, True), (1280, 900, False)


def find_chromium() -> str:
    """Return the program, or skip the test if there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser to look with: none of {', '.join(PROGRAMS)} is on the PATH")
    return program


class Tab:
    """One page; ``requested`` are the addresses that it has asked for."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._unread, self._session = 0, b"", ""
        self._loaded = False
        self.requested: list[str] = []

    def open(self, path: Path, width: int, height: int, *, phone: bool, dark: bool = False) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.enable")
        self.call("Network.enable")
        self.requested.clear()
        self._load("Page.navigate", url=path.resolve().as_uri())

    def reload(self) -> None:
        self._load("Page.reload")

    def _load(self, method: str, **parameters: Any) -> None:
        self._loaded = False
        self.call(method, **parameters)
        while not self._loaded:
            self._next()
        while self.evaluate("document.readyState") != "complete":  # what has loaded was the empty page before this one
            pass

    def evaluate(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self) -> bytes:
        """Return what the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert select.select([self._answers], [], [], _PATIENCE)[0], "the browser does not answer"
            piece = os.read(self._answers, 1 << 16)
            assert piece, "the browser has gone"
            self._unread += piece
        message, _, self._unread = self._unread.partition(b"\0")
        event = json.loads(message)
        self._loaded |= event.get("method") == "Page.loadEventFired"
        if event.get("method") == "Network.requestWillBeSent":
            self.requested.append(event["params"]["request"]["url"])
        return event


@contextmanager
def chromium(program: str) -> Iterator[Tab]:
    """Start a browser, and stop it."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # It reads commands from the third file descriptor and answers on the fourth.
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        handed = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = ["bash", "-c", handed, "browser", program, *options, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdout=quiet, stderr=quiet)  # noqa: S603
        os.close(theirs_in)
        os.close(theirs_out)
        tab = Tab(ours_out, ours_in)
        try:
            yield tab
            tab.call("Browser.close")
            process.wait(_PATIENCE)
        finally:
            process.kill()
            process.wait()
            os.close(ours_out)
            os.close(ours_in)
