"""The command ``direag elicit``: choose questions, prompts and engine, run, and show the results."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bayes_direag.commands.options import AnswersOption, JsonOption, err, out
from bayes_direag.errors import DirEAGError
from elicitation.adaptive import tell_spending
from elicitation.engines import CannedEngine, Engine
from elicitation.finish_reasons import tell_unknown
from elicitation.models import choose_sampling, find_preset, released_seed
from elicitation.progress import LiveView, Tally, levels_table
from elicitation.prompts import ProtocolName, ReplyForm, Wording, load_protocol
from elicitation.questions import load_questions
from elicitation.readings import READABLE
from elicitation.run import elicit
from elicitation.unread import PATTERN, count_words, tell_unread

_TELL_REASONING = (
    "Replies that were cut off while the model was still reasoning, and have no answer: {n}. In a new folder, give "
    "more room (--set max_tokens=8192), a budget (--set body.thinking_token_budget=2048), or switch reasoning off "
    "(--set 'body.chat_template_kwargs={{\"enable_thinking\": false}}')."
)

# Options by their group in the help of a command.
_which = partial(typer.Option, rich_help_panel="Which questions")
_how = partial(typer.Option, rich_help_panel="How they are asked")
_server = partial(typer.Option, rich_help_panel="The server")
_instead = partial(typer.Option, rich_help_panel="Instead of a server")

PromptsFromOption = Annotated[
    Path | None, _how(metavar="FOLDER", help="A checkout of the paper's released code: ask in its own words.")
]
OverridesOption = Annotated[
    list[str] | None,
    _how(
        "--set",
        metavar="FIELD=VALUE",
        help="Override a setting: temperature=0.2, top_k=none, structured=true (hold replies to the form of the last "
        "line, vLLM only), lenient=true (without a final line, take the last number, as the released code does), "
        "send_seed=true (each request has a seed, derived from --seed). body.NAME=JSON adds a field to the body of "
        "each request.",
    ),
]
ConcurrencyOption = Annotated[
    int | None,
    _server(
        min=1,
        help="Number of concurrent requests at each server. By default 256 at one that is started here (or its "
        "--max-num-seqs), and 64 at a running one.",
    ),
]
VllmPythonOption = Annotated[
    Path | None, _server(help="Python of the environment with vLLM. By default, the vllm command is used.")
]
VllmArgsOption = Annotated[
    str, _server(metavar="ARGS", help="Further arguments for vLLM, in one string: '--tensor-parallel-size 2'.")
]


def elicit_command(
    questions: Annotated[str, typer.Option(help="gsm8k (or gsm8k:train), svamp, gsm_hard, or a file of questions.")],
    target: Annotated[Path, typer.Option("--out", help="Folder of the run. An interrupted run is resumed.")],
    model: Annotated[
        str | None, typer.Option(help="Folder or name of the model to serve; with --base-url its name there.")
    ] = None,
    base_url: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A running server, as http://127.0.0.1:8000/v1; repeatable.")
    ] = None,
    replay: Annotated[Path | None, _instead(help="Use the replies of this journal instead of asking a model.")] = None,
    protocol: Annotated[
        ProtocolName, _how(metavar="NAME", help="steered: five levels. samples: five samples. topk: one list of five.")
    ] = "steered",
    wording: Annotated[
        Wording, _how(metavar="NAME", help="ours, or paraphrased: as the paper's released code asks, in other words.")
    ] = "ours",
    prompts_from: PromptsFromOption = None,
    form: Annotated[
        ReplyForm,
        _how(metavar="FORM", help="text: a reply with a final line. json: a JSON object; not to be mixed with text."),
    ] = "text",
    limit: Annotated[int | None, typer.Option(min=1, help="Ask only the first N questions.")] = None,
    sample: Annotated[int | None, _which(min=1, help="Ask only N questions, drawn at random by --seed.")] = None,
    columns: Annotated[
        list[str] | None,
        _which("--column", metavar="FIELD=NAME", help="Name of a column of a file. Fields: question, gold, id."),
    ] = None,
    answers: AnswersOption = None,
    levels: Annotated[
        Path | None,
        _how(
            help="TOML file with your own levels, wording, or [[examples]] to show first; a level may name its model."
        ),
    ] = None,
    overrides: OverridesOption = None,
    policy: Annotated[
        Path | None, typer.Option(help="Ask level by level, while it is worth the price, by a file of `direag policy`.")
    ] = None,
    ask_at_once: Annotated[
        int,
        _how(
            min=1, metavar="N", help="With --policy: ask the first N levels of a question at once, to take less time."
        ),
    ] = 1,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Seed of the run, from which those of requests are derived. By default 0, or the model's."
        ),
    ] = None,
    concurrency: ConcurrencyOption = None,
    vllm_python: VllmPythonOption = None,
    vllm_args: VllmArgsOption = "",
    key_variable: Annotated[
        str, _server(help="Environment variable with the API key for --base-url.")
    ] = "OPENAI_API_KEY",
    timeout: Annotated[float, _server(min=0.1, help="Seconds that one reply may take in all.")] = 900.0,
    as_json: JsonOption = False,
) -> None:
    """Ask a model, or several, every question under several prompts, and write an observation file.

    The model is served by vLLM, started and stopped by this command, or by running servers (--base-url, or of each
    level in --levels). After an interruption the same command resumes the run: only what was in flight is asked again.
    With --policy only those levels are asked that are worth their price: docs/ask-less.md.

    Files in the folder: observations.jsonl, for direag fit and evaluate; journal.jsonl, with every reply;
    manifest.json, with everything needed to repeat the run; and server.log.

    Example: direag elicit --questions svamp --model FOLDER --out run --limit 100

    Example: direag elicit --questions new.jsonl --levels panel.toml --policy policy.nc --out run
    """
    decider = None
    if policy is not None:
        from bayes_direag.decisions.policy import Policy

        decider = Policy.load(policy)
    asked = load_questions(
        questions,
        limit=limit,
        columns=dict(column.partition("=")[::2] for column in columns or ()),
        kind=answers or (None if decider is None else decider.fit.answers),
    )
    preset = None if model is None else find_preset(model)
    wording = wording if prompts_from is None else "paraphrased"
    seed = released_seed(preset, wording) if seed is None else seed
    asked = asked if sample is None else asked.sample(sample, seed)
    for row in asked.odd_rows[:5]:
        err.print(f"{asked.name}, line {row.line}: {row.reason} ({row.excerpt})")
    if len(asked.odd_rows) > 5:
        err.print(f"... and {len(asked.odd_rows) - 5} more odd rows; manifest.json lists them all.")
    prompts = load_protocol(protocol, levels, wording, form, prompts_from)
    sampling = choose_sampling(preset, wording, overrides or ())
    of_levels = any(level.is_asked_elsewhere for level in prompts.levels)
    served = model is not None and not base_url
    engines = [served, bool(base_url), replay is not None]
    if sum(engines) > 1 or not (any(engines) or of_levels):
        raise DirEAGError(
            "saw no engine, or several; expected one of --model (served here), --base-url with --model (its name "
            "there), --replay, or models in --levels. Choose one."
        )
    engine: Engine
    if replay is not None:
        engine = CannedEngine.replay(replay)
    else:
        from elicitation.chat_engine import connect
        from elicitation.server import ServedEngine

        here = None
        if served and not all(level.is_asked_elsewhere for level in prompts.levels):
            here = ServedEngine(str(model), target, vllm_args, vllm_python, timeout=timeout)
            err.print(f"The output of vLLM goes to {here.log}.")
        asked_of = (prompts.levels, base_url or (), model)
        engine = connect(*asked_of, served=here, key_variable=key_variable, timeout=timeout)
    run = (asked, prompts, engine, target, sampling, seed, concurrency, LiveView(err))
    try:
        tally = elicit(*run, policy=decider, ask_at_once=ask_at_once)
    except KeyboardInterrupt:
        err.print(f"{target}: finished replies are kept. The same command asks for the others.")
        raise
    for remark in engine.remarks:
        err.print(remark, soft_wrap=True)
    _show(tally, target, f"{questions}, {protocol}, {engine.model}", as_json=as_json)


def _show(tally: Tally, folder: Path, title: str, *, as_json: bool) -> None:
    """Show the counts of a run; a run of which no reply could be read exits with 1."""
    if as_json:
        out.print_json(data={"folder": str(folder), **asdict(tally)}, allow_nan=False)
    else:
        _print(tally, folder, title)
    if tally.n_questions and tally.n_unanswered == tally.n_questions:
        raise typer.Exit(1)


def _print(tally: Tally, folder: Path, title: str) -> None:
    if tally.levels:
        out.print(levels_table(tally.levels, title))
    replies = count_words(tally.statuses) or "none"
    seconds = max(tally.seconds, 1e-9)
    minutes = "" if seconds < 60 else f", in {seconds / 60:,.0f} minutes"
    pace = f"{minutes} ({tally.asked / seconds:.1f} a second, of {tally.tokens / seconds:,.0f} tokens together)"
    out.print(
        f"{tally.n_questions} questions, {tally.n_unanswered} unanswered; {tally.generations} generations, "
        f"{tally.asked} of them now{pace if tally.asked else ''}; replies: {replies}.",
        soft_wrap=True,
    )
    if tally.unknown_reasons:
        err.print(tell_unknown(tally.unknown_reasons))
    if tally.n_in_reasoning:
        err.print(_TELL_REASONING.format(n=tally.n_in_reasoning))
    written = folder / "observations.jsonl"
    ready = f"{written} is ready for direag evaluate and direag fit."
    if tally.n_unanswered == tally.n_questions:
        ready = f"No reply could be read: {written} is not ready for direag evaluate."
    elif tally.spending is not None:
        ready = f"{tell_spending(tally.spending)} {written} has the decision on each question."
    out.print(ready, soft_wrap=True)
    if not READABLE.issuperset(tally.statuses):
        from bayes_direag.data.files import read_questions  # here, as it would slow down the help

        again = f"direag import observations {written} --pattern {PATTERN} --out again.jsonl"
        err.print(tell_unread(read_questions(written), f"If such replies have a form, give it: {again}") or "")
