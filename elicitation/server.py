"""A vLLM server of one's own: started for a run, watched during it, and ended with all its processes after it."""

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import JsonValue

from elicitation import fetch, guard
from elicitation.chat_engine import ChatEngine
from elicitation.engines import EngineError, EngineInfo
from elicitation.fetch import Fetched, Request

GRACE = 15.0
"""For how many seconds a server may wind up before it is killed."""

_MODULE = "vllm.entrypoints.openai.api_server"
_SECRETS = ("--api-key", "--hf-token")
_SHORT = {"-q": "--quantization", "-tp": "--tensor-parallel-size", "-dp": "--data-parallel-size"}
#: Arguments that say how fast a server is and what memory it takes, and not what it computes.
_OF_SPEED = frozenset(
    {
        *("--gpu-memory-utilization", "--max-num-seqs", "--max-num-batched-tokens", "--swap-space", "--download-dir"),
        *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--cpu-offload-gb"),
        *("--enforce-eager", "--enable-prefix-caching", "--enable-chunked-prefill", "--no-enable-chunked-prefill"),
    }
)


def launch_command(interpreter: str | Path | None = None) -> tuple[str, ...]:
    """Return what starts vLLM: ``vllm serve``, or the module form under the interpreter of another environment.

    Raises EngineError if no interpreter is given and there is no ``vllm`` command.
    """
    if interpreter is not None:
        return (str(interpreter), "-m", _MODULE, "--model")
    command = shutil.which("vllm")
    if command is None:
        raise EngineError(
            "saw no vllm command; expected one to start a server with. Install it in an environment of its own "
            "(python3 -m venv ../vllm && ../vllm/bin/pip install 'vllm>=0.12'), name its Python with --vllm-python, or "
            "connect to a running server with --base-url."
        )
    return (command, "serve")


def python_of(launch: Sequence[str]) -> str:
    """Return the Python of what starts vLLM: the interpreter itself, or the one beside the ``vllm`` command."""
    beside = Path(launch[0]).with_name("python")
    if "-m" in launch:
        return launch[0]
    return str(beside) if beside.exists() else sys.executable


def parsed(arguments: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a command line by name, the last of each; one without a value has an empty one.

    Examples
    --------
    >>> parsed(["--dtype", "bfloat16", "--max_model_len=4096", "-q", "fp8", "--enforce-eager"])
    {'--dtype': 'bfloat16', '--max-model-len': '4096', '--quantization': 'fp8', '--enforce-eager': ''}
    """
    found: dict[str, str] = {}
    name = ""
    for argument in arguments:
        if re.match(r"--?[A-Za-z]", argument):
            name, _, value = argument.partition("=")
            name = _SHORT.get(name, name.replace("_", "-"))
            found[name] = value
        elif name:
            found[name] = f"{found[name]} {argument}".strip()
    return found


class Server:
    """A server process, on loopback.

    It runs under a guard (guard.py), which ends the whole process group as soon as this process closes its pipe: by
    :meth:`stop`, or by dying in whatever way. Raises EngineError if the arguments hold a secret, which would show up in
    process lists, manifest and log, or the log is that of another program.

    Parameters
    ----------
    model, name : str
        A folder or a name, as vLLM takes it; and the name to serve it by.
    log : path-like
        Where its output is appended.
    launch, arguments : sequence of str
        What starts it, up to the model (see :func:`launch_command`), and further arguments, handed on as they are.
    environment : mapping
        Further environment variables.
    fetcher : path-like, optional
        The Python that has huggingface_hub. With it, the files of a model of the hub are fetched before the start.
    revision : str, optional
        The commit to fetch; the present one if left out.

    Attributes
    ----------
    revision : str, optional
        The commit that is served; None for a folder.
    """

    def __init__(
        self,
        model: str,
        name: str,
        log: str | Path,
        *,
        launch: Sequence[str],
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        fetcher: str | Path | None = None,
        revision: str | None = None,
    ) -> None:
        for argument in arguments:
            if argument.partition("=")[0] in _SECRETS:
                raise EngineError(
                    f"saw {argument.partition('=')[0]} among the vLLM arguments; expected no secret there, where every "
                    "process list shows it. Set it as an environment variable (VLLM_API_KEY, HF_TOKEN)."
                )
        self.model, self.name, self.arguments = model, name, tuple(arguments)
        self.revision = parsed(arguments).get("--revision", revision)
        self._launch, self._fetcher = tuple(launch), fetcher
        self._fetched: Fetched | None = None
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.log = Path(log)
        _check_log(self.log)
        self._environment = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"} | dict(environment or {})
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What of a server decides its replies: the commit of its model, and all arguments but those of speed."""
        arguments = parsed(self.arguments)
        chosen = {name: arguments[name] for name in sorted(arguments) if name not in (*_OF_SPEED, "--revision")}
        return {**({} if self.revision is None else {"revision": self.revision}), **chosen}

    async def fetch(self) -> Fetched | None:
        """Fetch the model, once, if there is a fetcher: check that this machine can run it, and download it.

        Raises EngineError if it cannot be had or does not fit, with what to do.
        """
        if self._fetched is not None or self._fetcher is None:
            return self._fetched
        if not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", self.model):
            raise EngineError(
                f"--model {self.model}: saw no such folder; expected a folder, or a name on the hub as OWNER/NAME. "
                "Check the path."
            )
        given = parsed(self.arguments)
        request = Request(
            self.model,
            self.revision,
            given.get("--dtype", "auto"),
            int(given.get("--tensor-parallel-size", 1)) * int(given.get("--pipeline-parallel-size", 1)),
            whole=not given.keys() & {"--quantization", "--cpu-offload-gb", "--load-format"},
        )
        command = (str(self._fetcher), fetch.__file__, json.dumps(request._asdict()))
        with self._logged((*command, "--served-model-name", self.name)) as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=log)
            try:
                said, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
        if process.returncode:
            raise EngineError(f"{self.model} could not be fetched. From {self.log}:\n{self._words()}")
        answer = json.loads(said)
        if "error" in answer:
            raise EngineError(answer["error"])
        self._fetched = Fetched(**answer)
        self.revision = self._fetched.revision
        return self._fetched

    def _logged(self, command: Sequence[str]) -> BinaryIO:
        """Return the log, opened to continue it, with a command."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        log = self.log.open("ab")
        self._log_start = log.tell()
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        return log

    def start(self) -> None:
        """Start the process, of a model that is there; it is not ready yet."""
        source = self.model if self._fetched is None else self._fetched.path
        room = None if self._fetched is None else self._fetched.sequences
        few = () if room is None else ("--max-num-seqs", str(room))
        fixed = ("--served-model-name", self.name, "--host", "127.0.0.1", "--port", str(self.port))
        command = (*self._launch, source, *fixed, "--generation-config", "vllm", *few, *self.arguments)
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"} if Path(source).is_dir() else {}
        with self._logged(command) as log:
            self._process = subprocess.Popen(  # noqa: S603 (what the user asked for)
                [sys.executable, "-I", guard.__file__, str(GRACE), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._environment | offline,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raise EngineError if the process has ended."""
        status = None if self._process is None else self._process.poll()
        if status is not None:
            raise EngineError(
                f"the server ended with status {status}. From {self.log}:\n{self._words()}\n"
                "Correct the cause, and give the same command to go on: finished generations are kept."
            )

    def _words(self) -> str:
        """Return the first error that the server has named, which is the cause of the others, and its last words."""
        lines = self.log.read_bytes()[self._log_start :].decode(errors="replace").strip().splitlines()
        first = next((line for line in lines if re.search(r"^(?!.*WARNING).*(?:Error|Exception): \S", line)), None)
        last = lines[-8:]
        return "\n".join(f"  {line}" for line in ([first, "..."] if first not in [None, *last] else []) + last)

    async def watch(self) -> None:
        """Raise EngineError as soon as the process has ended."""
        while True:
            self.check()
            await asyncio.sleep(0.1)

    def stop(self) -> None:
        """End the process and all that it started; does nothing if that is done."""
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()


class ServedEngine(ChatEngine):
    """A chat engine whose server it starts on entering and stops on leaving, or keeps for the next run.

    Parameters
    ----------
    server, model
        The server, not started yet, and the name it serves.
    ready_within : float
        For how many seconds to wait until it answers; loading a large model takes minutes. Its download comes before.
    patience, timeout : float
        See :class:`~elicitation.chat_engine.ChatEngine`.
    keep : bool
        Leave the server running after a run that ends well; whoever made it then stops it.
    """

    def __init__(
        self,
        server: Server,
        model: str,
        *,
        ready_within: float = 1800.0,
        patience: float = 120.0,
        timeout: float = 900.0,
        keep: bool = False,
    ) -> None:
        super().__init__([server.url], model, key_variable="VLLM_API_KEY", patience=patience, timeout=timeout)
        self.server = server
        self._ready_within, self._keep = ready_within, keep

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What a run must go on with: the commit of the model, and the server's arguments."""
        return {"server": self.server.identity}

    async def __aenter__(self) -> EngineInfo:
        """Fetch the model, start the server, and wait until it serves the model."""
        try:
            fetched = await self.server.fetch()  # however long that takes: loading is what --ready-within is for
            if not self.server.running:
                self.server.start()
            info = await self._connect()
            source, arguments = self.server.model, self.server.arguments  # its endpoint is gone after the run
            device = None if fetched is None else fetched.device
            return replace(info, kind="vllm", endpoints=(), model_source=source, arguments=arguments, device=device)
        except BaseException:
            self.server.stop()
            raise

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            if any(error) or not self._keep:
                self.server.stop()

    async def watch(self) -> None:
        """Raise EngineError as soon as the server has ended."""
        await self.server.watch()

    async def _connect(self) -> EngineInfo:
        try:
            async with asyncio.timeout(self._ready_within):
                while not await _listens(self.server.port):
                    self.server.check()
                    await asyncio.sleep(0.1)
                return await super().__aenter__()
        except TimeoutError:
            raise EngineError(
                f"saw no server at {self.server.url} within {self._ready_within:g} s; expected it to be ready by then. "
                f"See {self.server.log}, or wait longer with --ready-within."
            ) from None


def _check_log(path: Path) -> None:
    """Raise EngineError if there is a log that does not begin as a server's does, with its command."""
    if not path.exists():
        return
    with path.open("rb") as log:
        first = log.readline()
    if first and not (first.startswith(b"$ ") and b" --served-model-name " in first):
        raise EngineError(
            f"{path}: saw the log of another program; expected none, or that of a server. Choose another folder."
        )


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
