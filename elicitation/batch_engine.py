"""The engine for batch services: it writes a file of requests, and reads the replies from the results."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayes_direag.data.atomic import atomic_path
from elicitation.engines import Deferred, Engine, EngineError, EngineInfo
from elicitation.generation import TOO_LONG, ChatRequest, Generation, generation_of, too_long
from elicitation.importing.batch import BatchLine
from elicitation.importing.replies import Log, read_records


class BatchEngine(Engine):
    """Requests and results in the form of OpenAI's batch interface, which ``vllm run-batch`` also uses.

    When the engine is left without an error, unanswered requests are written to the file of requests. Raises
    DirEAGError if that file exists and is of another kind, or a file of results cannot be read.

    Parameters
    ----------
    model, requests
        The service's name of the model, and the file of requests, which replaces an earlier one.
    results : sequence of path-like
        Files of results of the service, for any of the run's files of requests.

    Attributes
    ----------
    failed : list of str
        The service's errors for requests that have failed; these are written again.
    """

    def __init__(self, model: str, requests: str | Path, results: Sequence[str | Path] = ()) -> None:
        self.model = model
        self.requests = Path(requests)
        self.failed: list[str] = []
        self._waiting: list[str] = []
        self._used = 0
        self._results: dict[str, BatchLine] = {}
        for path in map(Path, results):
            if not path.is_file():
                raise EngineError(f"{path}: saw no such file; expected results of a batch service. Check the path.")
            for _, line in read_records(Log(path), BatchLine):
                earlier = self._results.get(line.custom_id)
                if earlier is None or earlier.body is None:
                    self._results[line.custom_id] = line
        if self.requests.exists() and not _holds_requests(self.requests):
            raise EngineError(
                f"{self.requests}: saw a file of another kind; expected no file, or requests of an earlier call. "
                "Choose another name."
            )

    async def __aenter__(self) -> EngineInfo:
        """Do nothing."""
        return EngineInfo("batch")

    async def __aexit__(self, *error: Any) -> None:
        """Write the unanswered requests."""
        if any(error) or not self._waiting:
            return
        if self._results and not self._used:
            raise EngineError(
                f"none of {len(self._results)} results answers an open request; expected the results of "
                f"{self.requests}. Check the file, and that questions, prompts and settings are those of that call."
            )
        with atomic_path(self.requests) as temporary:
            temporary.write_text("".join(f"{line}\n" for line in self._waiting), encoding="utf-8")

    async def generate(self, request: ChatRequest, lane: int = 0) -> Generation:  # noqa: ARG002 (there is one)
        """Return the reply in the results; raise Deferred if there is none."""
        body = request.body(self.model)
        name = custom_id(request, body)
        result = self._results.get(name)
        self._used += result is not None
        if result is not None:
            reply = generation_of(result.body)
            if reply is not None:
                return reply
            error = str(result.error or result.response)
            if too_long(error):
                return TOO_LONG
            self.failed.append(error)
        line = {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}
        self._waiting.append(json.dumps(line, ensure_ascii=False))
        raise Deferred


def custom_id(request: ChatRequest, body: dict[str, object]) -> str:
    """Return the name of a request: ``QUESTION/LEVEL.SAMPLE.ATTEMPT.HASH``, with a hash of its body."""
    key = request.key
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:8]
    return f"{key.problem_id}/{key.level}.{key.sample}.{key.attempt}.{digest}"


def _holds_requests(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline()
    try:
        return bool(json.loads(first).keys() == {"custom_id", "method", "url", "body"})
    except (ValueError, AttributeError, RecursionError):
        return False
