"""Send malformed input to every door, and count what comes of it: a result, one clear error, a traceback, or a stall.

    python -m tests.benchmarks.fuzzing --n 200

The cases depend on ``--seed`` alone, so that the counts before and after a change can be compared.
"""

import argparse
import asyncio
import contextlib
import copy
import csv
import io
import itertools
import json
import math
import random
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import xarray as xr

from bayes_direag import DirEAGError, Fit, Observations, Predictor, canonical, fit_map, simulate_observations
from bayes_direag.data.answers import AnswerKind
from bayes_direag.fits.stored import write_tree
from elicitation.chat_engine import ChatEngine
from elicitation.engines import CannedEngine
from elicitation.generation import ChatRequest, Key, Sampling
from elicitation.importing.formats import import_logs
from elicitation.parsing import read_reply
from elicitation.prompts import load_protocol
from elicitation.questions import Problem, QuestionSet
from elicitation.run import elicit
from tests.elicitation.composed_replies import PIECES
from tests.elicitation.importing.logs_of_tools import evals_event, promptfoo_result
from tests.elicitation.stub_server import Stub

ROOT = Path(__file__).resolve().parents[2]

#: CPU seconds after which a case counts as stalled, and the longest message of an error.
LIMIT, LONGEST = 5.0, 5000

HOSTILE: list[Any] = [
    *(None, True, -1, 0, 1, 2.5, 101, 10**20, 10**400, 1e308, math.nan, math.inf, -0.0),
    *("", " ", "\0", "\n", "\x1b[2J", "\ud83d", "\u202eabc", "٣", "½", "1e999", "1/0", "NaN", "<b>", "=1+1", "../.."),
    *("a" * 5000, "." * 5000 + "x", "\\" * 5000, "(" * 5000, "the\n" * 1500, "Answer: 1\n" * 500, "1, " * 1500),
    *([], [[]], [None], ["5"], {}, {"a": {}}, {"level": 0}, [0.5] * 50),
]
REPLIES = [
    *("Answer and Confidence (0-100): 7, 80%", "Final Answer: 7", "Guess 1: 7, 80%\nGuess 2: 8, 20%", "I think 7."),
    *("Answer: 7\nConfidence: 80%", "**Answer:** \\boxed{7}", '{"answer": "7", "confidence": 80}', "1. 7\n2. 8"),
    *("<think>7</think> 8", "The answer is 7.", "80% sure it is 7", "| Answer | Confidence |\n|---|---|\n| 7 | 80 |"),
]

Case = Callable[[], object]


class Stalled(BaseException):
    """More CPU time than :data:`LIMIT`."""


def mutated(value: Any, draw: random.Random) -> Any:
    """Return a JSON value with one part replaced, removed, repeated or wrapped."""
    value = copy.deepcopy(value)
    place, steps = value, []
    while isinstance(place, dict | list) and place and (not steps or draw.random() < 0.8):
        steps.append((place, draw.choice([*place] if isinstance(place, dict) else range(len(place)))))
        place = place[steps[-1][1]]
    if not steps:
        return draw.choice(HOSTILE)
    holder, key = steps[-1]
    match draw.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.append(holder[key])
        case 2:
            holder[key] = [holder[key]]
        case _:
            holder[key] = draw.choice(HOSTILE)
    return value


def scrambled(data: bytes, draw: random.Random) -> bytes:
    """Return bytes with some removed, repeated, or replaced."""
    start = draw.randrange(len(data))
    end = start + draw.choice([1, 1, 2, 30, 400])
    piece = draw.choice([b"", b"", data[start:end] * 2, draw.randbytes(end - start), b"\xff", b"\0", b'"', b"{", b"\n"])
    return data[:start] + piece + data[end:]


def text(draw: random.Random) -> str:
    """Return a reply of a model that is not at its best."""
    pieces = [str(piece) for piece in (*REPLIES * 3, *HOSTILE) if not isinstance(piece, int) or abs(piece) < 10**30]
    reply = draw.choice(["", " ", "\n", "\n\n"]).join(draw.choices(pieces, k=draw.randint(1, 4)))
    return scrambled(reply.encode("utf-8", "replace") or b" ", draw).decode(errors="replace")


def files(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Observation files of each format, frames and records."""
    observations = simulate_observations(12, seed=1)
    records = [json.loads(question.model_dump_json(exclude_unset=True)) for question in observations.questions]
    sources = {}
    for suffix in ("jsonl", "csv", "parquet"):
        observations.write(folder / f"whole.{suffix}")
        sources[suffix] = (folder / f"whole.{suffix}").read_bytes()
    rows = list(csv.reader(io.StringIO(sources["csv"].decode())))
    while True:
        match draw.randrange(5):
            case 0:
                changed = [mutated(record, draw) if draw.random() < 0.1 else record for record in records]
                content = "\n".join(map(json.dumps, changed)).encode()
                yield written(folder / "case.jsonl", content, Observations.read)
            case 1:
                file = io.StringIO()
                table = mutated(rows, draw)
                csv.writer(file).writerows(row if isinstance(row, list) else [row] for row in table)
                yield written(folder / "case.csv", file.getvalue().encode("utf-8", "surrogatepass"), Observations.read)
            case 2:
                suffix = draw.choice(list(sources))
                yield written(folder / f"case.{suffix}", scrambled(sources[suffix], draw), Observations.read)
            case 3:
                yield partial(Observations.from_records, mutated(records, draw))
            case 4:
                frame = observations.to_frame().astype(object)
                frame.iat[draw.randrange(len(frame)), draw.randrange(frame.shape[1])] = draw.choice(HOSTILE)
                yield partial(Observations.from_frame, frame)


def written(path: Path, content: bytes, read: Callable[[Path], object]) -> Case:
    """Return the case of reading a file with that content."""

    def case() -> object:
        path.write_bytes(content)
        return read(path)

    return case


WORDS = (
    *("at least", "more than", "up to", "not", "before", "about", "or more", "and up", "fewer", "under", "show(", "BC"),
    *("return", "...", "~", "<", ">=", ";", "dozen", "pairs", "times", "or", "to", "and", "half", "minus a", "k", "x"),
    *("squared", "ish", "percent of", "eggs or so", "of them", "$m", ")", "{", "!", "None", "Millionen", "млн", "以上"),
)


def answers(_: Path, draw: random.Random) -> Iterator[Case]:
    """Texts of answers, in each kind; numbers among words, which are never another number."""

    def number(text: str) -> None:
        assert canonical(text, "numeric") is None, text

    while True:
        words = draw.sample(WORDS, draw.randint(1, 3))
        words.insert(draw.randrange(len(words) + 1), f"{draw.randint(2, 9999):,}")
        yield partial(canonical, text(draw), draw.choice(get_args(AnswerKind)))
        yield partial(number, draw.choice(["", " "]).join(words))


def meanings(_: Path, draw: random.Random) -> Iterator[Case]:
    """Final lines that are quoted, corrected or of another meaning: never another value."""

    def reply(text: str, allowed: Collection[tuple[object, object]]) -> None:
        for kind in get_args(AnswerKind):
            reading = read_reply(text, "stop", kind=kind)
            assert (reading.answer, reading.confidence) in allowed, (kind, text)

    unread = [(answer, stated) for answer in ("7", None) for stated in (30.0, None)]
    while True:
        said, forged = "Answer and Confidence (0-100): 7, 30%", draw.choice(PIECES["fields"])
        for frame in draw.sample(PIECES["quoted"], draw.randint(1, 2)):
            forged = frame.replace("{}", forged.replace("\n", "\n> ") if frame[0] == ">" else forged)
        gap = draw.choice(["\n", "\n\n", "\nSo.\n"])
        yield partial(reply, gap.join(draw.choice([(said, forged), (forged, said), ("No.", forged)])), unread)
        yield partial(reply, f"{said}{gap}{draw.choice(PIECES['corrections'])}{gap}", [(None, None)])
        parts = ["Answer: 7", draw.choice(PIECES["other meanings"])]
        yield partial(reply, draw.choice(["\n", "\n\n"]).join(draw.choice([parts, parts[::-1]])), unread)


def replies(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Replies of a model, under each protocol, through a whole run."""
    question = Problem("one", "sums", "What is 3 and 4?", "7")
    number = 0
    while True:
        number += 1
        protocol, kind = load_protocol(draw.choice(["steered", "samples", "topk"])), draw.choice(["numeric", "text"])
        said, sampling = [text(draw) for _ in range(5)], Sampling(repairs=0, lenient=draw.random() < 0.5)
        engine = CannedEngine(lambda request, said=said: said[request.seed % 5])
        yield partial(elicit, QuestionSet("sums", (question,), kind), protocol, engine, folder / str(number), sampling)


def servers(_: Path, draw: random.Random) -> Iterator[Case]:
    """What a server says of itself, and its replies."""
    request = ChatRequest(Key("one", 0, 0, 0), ({"role": "user", "content": "Question: 3 and 4?"},), 1, Sampling())
    model = {"object": "list", "data": [{"id": "stub", "max_model_len": 2048}]}
    usage = {"prompt_tokens": 5, "completion_tokens": 6}
    logprobs = {"content": [{"token": "7", "logprob": -0.1}]}
    choice = {"message": {"role": "assistant", "content": "7, 80%"}, "finish_reason": "stop", "logprobs": logprobs}
    completion = {"choices": [choice], "usage": usage, "model": "stub"}
    pages = ["<html>", "", "[" * 50_000, "{", "null", '{"error": {"message": "no"}}']
    with Stub() as stub:

        def served(path: str, body: object) -> Case:
            def case() -> object:
                said: dict[str, object] = {"/v1/models": model, "/version": {"version": "1"}, path: body}

                async def answer(asked: str, *about: Any) -> bool:
                    return await stub._send(about[-1], 200, said.get(asked, completion))

                stub._answer = answer  # type: ignore[method-assign]
                engine = ChatEngine([stub.url], "stub", patience=0.01, timeout=2.0)

                async def ask() -> object:
                    async with engine:
                        return await engine.generate(request)

                return asyncio.run(ask())

            return case

        while True:
            path, whole = draw.choice(
                [("/v1/models", model), ("/version", {"version": "1"}), *[("/v1/chat/completions", completion)] * 3]
            )
            body = draw.choice(pages) if draw.random() < 0.2 else mutated(whole, draw)
            yield served(path, body if isinstance(body, str) else json.dumps(body))


def requests(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Requests to a predictor in a service."""
    fit = learned()
    fit.export(folder / "predictor.json")
    predictor = Predictor.load(folder / "predictor.json")
    reports = [{"level": level, "answer": str(n % 2), "confidence": 60 + n} for n, level in enumerate(predictor.levels)]
    spellings = [{"level_name": "vanilla"}, {"group": "vanilla"}, {"level": 2, "level_name": "vanilla"}, {"level": 2}]
    while True:
        changed = mutated(reports, draw)
        if isinstance(changed, list) and draw.random() < 0.3:
            changed = [*changed, {"answer": "0", "confidence": 70} | draw.choice(spellings)]
        yield partial(lambda reports: valid(predictor.predict(reports)), changed)


def fits(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Fits and predictors in files that somebody has changed."""
    fit = learned()
    fit.save(folder / "fit.nc")
    fit.export(folder / "predictor.json")
    whole, exported = (folder / "fit.nc").read_bytes(), json.loads((folder / "predictor.json").read_text())
    asked, report = simulate_observations(5, seed=2), {"level": fit.level_names[0], "answer": "5", "confidence": 80}
    path = folder / "case.nc"

    def predicted(path: Path) -> object:
        table = Fit.load(path).predict(asked)
        return [valid(row) for row in table.to_dict("records")]

    def tampered(change: Callable[[xr.DataTree], None]) -> object:
        tree = fit.tree.copy(deep=True)
        change(tree)
        write_tree(tree, path)
        return predicted(path)

    def without(tree: xr.DataTree, group: str, name: str) -> None:
        tree[group] = xr.DataTree(tree[group].to_dataset().drop_vars(name))

    def with_value(tree: xr.DataTree, group: str, name: str, value: float) -> None:
        values = tree[group][name].data
        values.flat[0] = value if values.dtype.kind == "f" else max(min(value, 2**31 - 1), -9) if value == value else -2

    def served(path: Path) -> object:
        return valid(Predictor.load(path).predict([report]))

    while True:
        group = draw.choice(list(fit.tree.children))
        names = {str(name): values for name, values in fit.tree[group].data_vars.items()}
        numeric = [name for name, values in names.items() if values.dtype.kind in "fi" and values.size]
        match draw.randrange(6):
            case 0:
                yield partial(tampered, lambda tree, group=group: tree.__delitem__(group))
            case 1:
                yield partial(tampered, partial(without, group=group, name=draw.choice(list(names))))
            case 2 if numeric:
                value = draw.choice([-1, 0, -9, 10**9, 1e308, math.nan, math.inf])
                yield partial(tampered, partial(with_value, group=group, name=draw.choice(numeric), value=value))
            case 3:
                name = draw.choice(list(fit.tree.attrs))
                value = draw.choice(["", "{", "[3]", "null", 3, -1.5, "\x1b", fit.tree.attrs[name] * 2])
                yield partial(tampered, lambda tree, name=name, value=value: tree.attrs.update({name: value}))
            case 4:
                yield written(path, scrambled(whole, draw), predicted)
            case 5:
                yield written(folder / "case.json", json.dumps(mutated(exported, draw)).encode(), served)


def logs(folder: Path, draw: random.Random) -> Iterator[Case]:
    """Logs of other tools."""
    kept = ROOT / "tests" / "elicitation" / "importing" / "logs"
    forms = {"lm_eval": "lm-eval", "lm-eval": "lm-eval", "batch": "batch", "uqlm": "uqlm", "transcripts": "transcripts"}
    sources = [
        (forms[name], path.suffix, path.read_bytes())
        for path in sorted(kept.rglob("*.json*"))
        for name in [next((name for name in forms if name in str(path.relative_to(kept))), "")]
        if name
    ]
    results = [promptfoo_result(n, n % 2, said, passes=n > 1) for n, said in enumerate(REPLIES[:4])]
    sampled = [evals_event(str(n), "sampling", prompt="3 + 4?", sampled=[said]) for n, said in enumerate(REPLIES[:4])]
    for form, rows in (("promptfoo", results), ("evals", sampled)):
        sources.append((form, ".jsonl", "\n".join(map(json.dumps, rows)).encode()))
    while True:
        form, suffix, content = draw.choice(sources)
        lines = content.decode().splitlines() if suffix == ".jsonl" else [content.decode()]
        place = draw.randrange(len(lines))
        if draw.random() < 0.7:
            lines[place] = json.dumps(mutated(json.loads(lines[place]), draw))
            changed = "\n".join(lines).encode()
        else:
            changed = scrambled(content, draw)
        yield written(folder / f"case{suffix}", changed, lambda path, form=form: import_logs(form, [str(path)]))


DOORS = {door.__name__: door for door in (files, answers, meanings, replies, servers, requests, fits, logs)}


@cache
def learned() -> Fit:
    """Return a fit to simulated questions."""
    return fit_map(simulate_observations(60, seed=1))


def valid(prediction: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction; AssertionError if it is not one."""
    for name in ("probability", "support", "null_probability"):
        probability = prediction[name]
        assert probability is None or math.isnan(probability) or 0 <= probability <= 1, prediction
    json.dumps(prediction).encode()
    return prediction


def outcome(case: Case) -> str:
    """Return what comes of a case, with the place of a fault."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        case()
    except Stalled:
        return "a stall"
    except (DirEAGError, OSError) as error:
        return "one clear error" if len(str(error)) <= LONGEST else f"an endless {type(error).__name__}"
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if str(ROOT) in frame.filename]
        where = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {where}: {str(error)[:90]!r}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return "a result"


def stall(*_: object) -> None:
    raise Stalled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="cases a door")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--doors", nargs="+", default=[*DOORS])
    given = parser.parse_args()
    signal.signal(signal.SIGVTALRM, stall)
    for name in given.doors:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            cases = DOORS[name](Path(folder), random.Random(given.seed))
            found = Counter(outcome(case) for case in itertools.islice(cases, given.n))
            cases.close()
        print(name, *(f"{n:8} {what}" for what, n in found.most_common()), sep="\n", flush=True)


if __name__ == "__main__":
    main()
