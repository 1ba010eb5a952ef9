"""A small server of the OpenAI chat protocol, deterministic by seed, with faults on demand.

As a program it takes the arguments of vLLM: ``python stub_server.py --model M --served-model-name N --port P ...``.
"""

import argparse
import asyncio
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Coroutine
from typing import Any

#: Responses instead of a reply: status and content.
FAULTS: dict[int | str, tuple[int, object]] = {
    "html": (200, "<html>busy</html>"),
    "broken": (200, '{"choices": ['),
    "deep": (200, "[" * 100_000),
    "empty": (200, {"id": "x", "object": "chat.completion", "choices": []}),
}


def solve(prompt: str, seed: int, garbage: float = 0.0) -> str:
    """Add up the numbers of the question, now and then wrongly, with a confidence that knows something of it."""
    question = prompt.rpartition("Question:")[2].partition("Notes:")[0]
    draw = int.from_bytes(hashlib.sha256(f"{seed}{prompt}".encode()).digest()[:4]) / 2**32
    if draw < garbage:
        return "I am not sure what you mean \ud83d, 12, or 7?"
    right = draw < garbage + 0.6 * (1 - garbage)
    total = sum(map(int, re.findall(r"\d+", question))) + (0 if right else 1 + seed % 3)
    confidence = min(60 + seed % 31 + 10 * right, 100)
    if '"guesses"' in prompt:
        pairs = ((total, confidence), (total + 1, 100 - confidence))
        listed = [{"answer": str(answer), "probability": f"{stated}%"} for answer, stated in pairs]
        return json.dumps({"reasoning": "Adding up.", "guesses": listed})
    if '"confidence"' in prompt:
        return json.dumps({"reasoning": "Adding up.", "answer": str(total), "confidence": f"{confidence}%"})
    if "Final Answer:" in prompt:
        return f"Adding up.\nFinal Answer: {total}"
    if "Top Answers:" in prompt:
        return f"Adding up.\nTop Answers:\n1. {total}, {confidence}%\n2. {total + 1}, {100 - confidence}%"
    if "Guess 1:" in prompt:
        return f"Adding up.\nGuess 1: {total}, {confidence}%\nGuess 2: {total + 1}, {100 - confidence}%"
    return f"Adding up.\nAnswer and Confidence (0-100): {total}, {confidence}%"


class Stub:
    """The server, in a thread of its own.

    ``faults`` holds what happens to the next chat requests instead of a reply: a status, a name in :data:`FAULTS`,
    ``drop`` (the connection closes), ``cut`` (in the middle of the body), ``trickle`` (byte by byte) or ``redirect``
    (to ``location``). ``answered`` counts the replies by seed, ``most`` is the largest number of requests that were in
    flight together; until ``most`` is ``hold``, all of them wait. With the reply number ``dies_with`` the server
    dies, and revives after ``revives_after`` seconds, if these are given. ``refused`` are parameters that it does not
    take. ``models`` and ``version`` are what the server says of itself; ``further`` is merged into each completion,
    and ``choice`` into its choice. It ``sends`` each completion once, or more often.
    """

    def __init__(self, model: str = "stub", delay: float = 0.0, garbage: float = 0.0, key: str | None = None) -> None:
        self.model, self.delay, self.garbage, self.key = model, delay, garbage, key
        self.refused = set[str]()
        self.faults: deque[int | str] = deque()
        self.always: int | str | None = None
        self.answered: Counter[int] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.in_flight = self.most = self.hold = 0
        self.port = 0
        self.dies_with: int | None = None
        self.revives_after: float | None = None
        self.models: object = None
        self.version: object = {"version": "0.0.stub"}
        self.further: dict[str, Any] = {}
        self.choice: dict[str, Any] = {}
        self.location = ""
        self.sends = 1
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._is_dead = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> "Stub":
        self._port_holder = socket.socket()  # while nobody listens no other process is given the port
        self._port_holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port_holder.bind(("127.0.0.1", 0))
        self.port = self._port_holder.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(self.port), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._port_holder.close()

    async def listen(self, port: int) -> None:
        self._is_dead = False
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port)

    def kill(self) -> None:
        """Close the port and all connections, as a server that dies."""
        asyncio.run_coroutine_threadsafe(self._die(), self._loop).result()

    async def _die(self) -> None:
        assert self._server is not None
        self._is_dead = True
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._die())
        for _ in range(2):  # connections that were being accepted end themselves, and those that answer are cancelled
            for _ in range(10):
                self._loop.run_until_complete(asyncio.sleep(0))
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
        self._loop.close()

    def _connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Coroutine[None, None, None] | None:
        if self._is_dead:
            writer.transport.abort()
            return None
        self._writers.add(writer)  # at once, as a task may be cancelled before it begins
        return self._connection(reader, writer)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._answer(first.split()[1], headers, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False ends the connection."""
        if self.key is not None and headers.get("authorization") != f"bearer {self.key}".lower():
            return await self._send(writer, 401, {"error": {"message": f"wrong key {headers.get('authorization')}"}})
        if path == "/version":
            return await self._send(writer, 200, self.version)
        if path == "/v1/models":
            model = {"id": self.model, "object": "model", "created": 0, "owned_by": "stub", "max_model_len": 2048}
            listed = {"object": "list", "data": [model]}
            status, models = self.models if isinstance(self.models, tuple) else (200, self.models)
            return await self._send(writer, status, listed if models is None else models)
        if path != "/v1/chat/completions":
            return await self._send(writer, 404, {"detail": "Not Found"})
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            return await self._chat(json.loads(body), writer)
        finally:
            self.in_flight -= 1

    async def _chat(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        fault = self.faults.popleft() if self.faults else self.always
        if fault is None:
            for name in sorted(self.refused & request.keys()):
                message = f"Unsupported parameter: '{name}' is not supported with this model."
                error = {"message": message, "type": "invalid_request_error", "param": name}
                return await self._send(writer, 400, {"error": error | {"code": "unsupported_parameter"}})
            while self.most < self.hold:
                await asyncio.sleep(0.001)
            await asyncio.sleep(self.delay * (0.5 + request.get("seed", 0) % 100 / 100))
            self.answered[request.get("seed", 0)] += 1
            self.requests.append(request)
            if self.answered.total() == self.dies_with:
                await self._die()
                if self.revives_after is not None:
                    await asyncio.sleep(self.revives_after)
                    await self.listen(self.port)
                return False
            return all([await self._send(writer, 200, self._completion(request)) for _ in range(self.sends)])
        if fault == "drop":
            return False
        if fault == "redirect":
            writer.write(f"HTTP/1.1 307 X\r\nlocation: {self.location}\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
            return True
        if fault in ("cut", "trickle"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n ")
            while True:
                await writer.drain()
                if fault == "cut":
                    return False
                await asyncio.sleep(0.02)
                writer.write(b" ")
        return await self._send(writer, *FAULTS.get(fault, (fault, {"error": {"message": "out of order"}})))

    def _completion(self, request: dict[str, Any]) -> dict[str, Any]:
        text = solve(request["messages"][-1]["content"], request.get("seed", 0), self.garbage)
        message = {"role": "assistant", "content": text}
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": message}
        if request.get("logprobs"):  # the less probable, the longer a token is
            tokens = [*re.findall(r"\s*\w+|\W", text), "\n"]
            choice["logprobs"] = {"content": [{"token": token, "logprob": -len(token) / 10} for token in tokens]}
        usage = {"prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62}
        named = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
        return {**named, "choices": [choice | self.choice], "usage": usage, **self.further}

    async def _send(self, writer: asyncio.StreamWriter, status: object, content: object) -> bool:
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    parser.add_argument("--die-after", type=int)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--child-file")
    settings = parser.parse_known_args()[0]
    if settings.child_file:  # a worker process, as vLLM has, which does not end by itself
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, 1); signal.pause()"])
        with open(settings.child_file, "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
    stub = Stub(settings.served_model_name, settings.delay)

    async def serve() -> None:
        await stub.listen(settings.port)
        while settings.die_after is None or stub.answered.total() < settings.die_after:
            await asyncio.sleep(0.01)
        sys.stderr.write("the engine is dead\n")
        os._exit(7)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
