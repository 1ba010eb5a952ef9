"""Output files of OpenAI's batch interface and of ``vllm run-batch``, which have the same form."""

from collections.abc import Iterator

from pydantic import BaseModel

from elicitation.importing.replies import Log, Reply, read_records


class Message(BaseModel):
    """A message of a model."""

    content: str | None = None


class Choice(BaseModel):
    """One reply of a chat completion."""

    message: Message
    finish_reason: str | None = None


class Usage(BaseModel):
    """Numbers of tokens, as counted by the server."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Completion(BaseModel):
    """A chat completion."""

    choices: tuple[Choice, ...]
    model: str | None = None
    usage: Usage | None = None


class Response(BaseModel):
    """The response to one request; its body is a completion if the status is 200."""

    status_code: int
    body: Completion | object = None


class Line(BaseModel):
    """One line of the file: a response, or an error."""

    custom_id: str
    response: Response | None = None
    error: object = None

    @property
    def completion(self) -> Completion | None:
        """The completion; None if the request has failed."""
        response = self.response
        if response is None or response.status_code != 200 or not isinstance(response.body, Completion):
            return None
        return response.body


def replies(log: Log) -> Iterator[Reply]:
    """Yield the replies of an output file; a failed request is a reply without text.

    ``custom_id`` is the name of the question, or ``NAME/LEVEL`` with the level after the last slash. If it is the name
    of a question that was asked, or has no slash, the level is the file. Each of several choices of one request is a
    level.
    """
    for line, record in read_records(log, Line):
        problem_id, _, level = record.custom_id.rpartition("/")
        if not problem_id or record.custom_id in log.names:
            problem_id, level = record.custom_id, log.level or log.path.stem
        elif log.level:
            level = f"{log.level} {level}"
        completion = record.completion
        choices = (None,) if completion is None else completion.choices
        for place, choice in enumerate(choices):
            yield Reply(
                problem_id,
                f"{level} {place}" if len(choices) > 1 else level,
                None if choice is None else choice.message.content,
                line,
                finish_reason=None if choice is None else choice.finish_reason,
                model=None if completion is None else completion.model,
                group=level if len(choices) > 1 else None,
            )
