"""Event logs of OpenAI's evals: the JSON Lines that ``oaieval`` records."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, JsonValue

from elicitation.generation import text_of
from elicitation.importing.replies import Log, Reply, read_records


class _Event(BaseModel):
    spec: dict[str, Any] | None = None
    sample_id: str | None = None
    type: str | None = None
    data: dict[str, JsonValue] | None = None


def replies(log: Log) -> Iterator[Reply]:
    """Yield the sampled replies of a log; the level is the model, or the model and the sample if there are several.

    The event ``match`` has the gold answer, if it is only one, and whether a single reply is right. Raises
    ObservationError without a sampled reply.
    """
    model = None
    asked: dict[str, str] = {}
    said: dict[str, list[tuple[int, str]]] = defaultdict(list)
    matches: dict[str, dict[str, JsonValue]] = {}
    for line, event in read_records(log, _Event):
        if event.spec is not None:
            model = next(iter(event.spec.get("completion_fns") or ()), None)
        if event.sample_id is None or event.data is None:
            continue
        if event.type == "sampling":
            sampled = event.data.get("sampled")
            said[event.sample_id] += [
                (line, text_of(text)) for text in (sampled if isinstance(sampled, list) else [sampled])
            ]
            prompt = event.data.get("prompt")
            asked[event.sample_id] = text_of(prompt[-1] if isinstance(prompt, list) and prompt else prompt)
        elif event.type == "match":
            matches[event.sample_id] = event.data
    if not said:
        raise log.error(
            "the log has no sampled reply",
            expected="events of type sampling, as oaieval records them",
            remedy="Check the path.",
        )
    n = max(map(len, said.values()))
    for name, texts in said.items():
        match = matches.get(name, {})
        expected = match.get("expected")
        golds = expected if isinstance(expected, list) else [expected]
        for number, (line, text) in enumerate(texts):
            yield Reply(
                name,
                " ".join(filter(None, ["" if log.level else model, str(number) if n > 1 else ""])),
                text,
                line,
                given={"correct": match["correct"]} if n == 1 and isinstance(match.get("correct"), bool) else {},
                gold_answer=str(golds[0]) if len(golds) == 1 and golds[0] is not None else None,
                question=asked[name] or None,
                model=model,
                group=("" if log.level else model) if n > 1 else None,
            )
