"""The command ``direag paper``: elicit, evaluate, and make tables and figures, for several models and data sets."""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from bayes_direag.commands.options import err, out, require_parent
from bayes_direag.data.atomic import atomic_path
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import PresetName
from bayes_direag.packages import take
from elicitation.command import PromptsFromOption, VllmArgsOption, VllmPythonOption
from elicitation.parsing import count_words
from elicitation.prompts import Protocol, ProtocolName, load_protocol, messages, prompt_hash
from elicitation.questions import Form, QuestionSet, load_questions

if TYPE_CHECKING:
    from elicitation.engines import Engine
    from elicitation.generation import Sampling

RECORD, OBSERVATIONS, EVALUATION = "paper.json", "observations.jsonl", "evaluation"
#: The presets of the evaluations: what the paper's figures were computed by, and its equations.
EVALUATED_BY: tuple[PresetName, ...] = ("release", "paper")
#: The methods in the paper's tables.
METHODS = (
    "vanilla,self_consistency,answer_entropy,mean_confidence,steerconf,topk,direag,"
    "count_calibrated,level_calibrated,direag_raw"
)
_PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)
#: The parts of each data set of the paper: the protocol, the split on the hub, the published file.
PLANNED_RUNS: Mapping[Form, Mapping[str, tuple[ProtocolName, str | None, str]]] = {
    "gsm8k": {
        "train": ("steered", "train", "gsm8k_train.jsonl"),
        **{name: (name, "test", "gsm8k_test.jsonl") for name in _PROTOCOLS},
    },
    "svamp": {name: (name, None, "svamp.json") for name in _PROTOCOLS},
    "gsm_hard": {name: (name, None, "gsm_hard.jsonl") for name in _PROTOCOLS},
}

#: Assumptions of the estimate: about 250 tokens in a reply of a 7B model, and four characters in a token. Journal and
#: observations hold the text of each reply twice, and about 600 bytes more.
REPLY_TOKENS, CHARACTERS, REPLY_BYTES = 250, 4, 2 * 4 * 250 + 600
#: Tokens per second of a 7B model on one A100 of 80 GB, with many concurrent requests.
PACE = 2500.0
PAPER_MODELS = "Qwen/Qwen2.5-7B-Instruct,mistralai/Mistral-7B-Instruct-v0.3,google/gemma-2-9b-it"


@dataclass(frozen=True)
class PlannedRun:
    """One run of ``elicit``: questions, protocol, and a folder below that of the model."""

    dataset: Form
    name: str
    questions: QuestionSet
    protocol: Protocol

    def folder(self, of_model: Path) -> Path:
        """Return the folder of the run."""
        return of_model / self.dataset / self.name

    @property
    def n_replies(self) -> int:
        """The number of replies, without format repairs."""
        return len(self.questions.problems) * len(self.protocol.levels) * self.protocol.n_samples

    @property
    def prompt_tokens(self) -> float:
        """The approximate length of all prompts."""
        asked = product(self.questions.problems, range(len(self.protocol.levels)))
        chats = (messages(self.protocol, level, problem.question) for problem, level in asked)
        return self.protocol.n_samples * sum(len(turn["content"]) for chat in chats for turn in chat) / CHARACTERS

    def n_left(self, of_model: Path) -> int:
        """Return the number of missing replies, 0 if the run is complete.

        It is approximate, as the journal also contains re-asks.
        """
        manifest, journal = (self.folder(of_model) / name for name in ("manifest.json", "journal.jsonl"))
        match _content(manifest):
            case {"complete": True, "questions": {"sha256": self.questions.digest}}:
                return 0
        n_recorded = journal.read_bytes().count(b"\n") - 1 if journal.is_file() else 0
        return max(self.n_replies - max(n_recorded, 0), 1)


def paper_command(
    target: Annotated[Path, typer.Option("--out", help="Folder of all results; interrupted work is resumed.")],
    models: Annotated[
        str, typer.Option(help="Folders or names on the hub, separated by commas; with --base-url the served names.")
    ] = PAPER_MODELS,
    datasets: Annotated[str, typer.Option(help="Some of gsm8k, svamp and gsm_hard.")] = "gsm8k,svamp,gsm_hard",
    questions: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the published files gsm8k_train.jsonl, gsm8k_test.jsonl, svamp.json and gsm_hard.jsonl. "
            "By default they are read from the Hugging Face hub."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=5, help="Only the first N questions of each, as a test.")] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A running server: one for all models, or one for each in their order."),
    ] = None,
    prompts_from: PromptsFromOption = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of replies, folds and intervals. By default the model's, or 0.")
    ] = None,
    vllm_python: VllmPythonOption = None,
    vllm_args: VllmArgsOption = "",
    dry_run: Annotated[bool, typer.Option(help="Print the estimate, and exit.")] = False,
) -> None:
    """Repeat the paper's experiment: ask every model every data set, evaluate, make both tables and both figures.

    Each model is served once by vLLM, started and stopped by this command, or by a running server (--base-url). After
    an interruption the same command continues. An existing evaluation is kept, but must be of the same replies and
    settings.

    Contents of the folder: MODEL/DATASET/ with steered, samples and topk (for gsm8k also train), each a run of direag
    elicit, and evaluation/, made by direag evaluate under the presets release (as the paper's figures) and paper (its
    equations); tables/, the paper's Tables 1 and 2 and Figures 2 and 3 of all evaluations in the folder, beside the
    printed figures; and paper.json.

    Example: direag paper --models Qwen/Qwen2.5-7B-Instruct --datasets svamp --out rehearsal --limit 20
    """
    from elicitation.models import choose_sampling, find_preset, released_seed

    require_parent(target)
    folders = _folders(_names(models), target)
    parts = planned_runs(_names(datasets), questions, limit, prompts_from)
    servers: Sequence[str | None] = base_url or [None]
    if len(servers) not in (1, len(folders)):
        raise DirEAGError(
            f"--base-url: saw {len(servers)} servers for {len(folders)} models; expected one for all, or one for each."
        )
    known = {model: find_preset(model) for model in folders}
    sampling = {model: choose_sampling(preset, "paraphrased") for model, preset in known.items()}
    err.print(estimate(parts, folders, max(settings.max_tokens or 0 for settings in sampling.values())))
    if dry_run:
        return
    asked = [load_protocol(name, wording="paraphrased", prompts_from=prompts_from) for name in _PROTOCOLS]
    words = f"Prompts: {"a paraphrase of the authors'" if prompts_from is None else "the authors' own"}."
    digests = {protocol.name: prompt_hash(protocol) for protocol in asked}
    _claim(target, {"limit": limit, "seed": seed, "prompts": words, "digests": digests})
    seeds = {model: released_seed(known[model], "paraphrased") if seed is None else seed for model in folders}
    missing = {model: [part for part in parts if part.n_left(folder)] for model, folder in folders.items()}
    engines = {
        model: _engine(model, url, folder, vllm_args, vllm_python)
        for (model, folder), url in zip(folders.items(), cycle(servers), strict=False)
        if missing[model]
    }
    for model, folder in folders.items():
        if model in engines:
            _ask(missing[model], folder, engines[model], sampling[model], seeds[model])
        for dataset, preset in product(dict.fromkeys(part.dataset for part in parts), EVALUATED_BY):
            _evaluate(folder / dataset, preset, seeds[model])
    _tabulate(target, words, 0 if seed is None else seed)


def planned_runs(
    datasets: Sequence[str], folder: Path | None, limit: int | None, prompts_from: Path | None
) -> list[PlannedRun]:
    """Return the parts to ask every model, with at most ``limit`` questions of each published file.

    Without a ``folder`` of these files the hub is asked, and without ``prompts_from`` our paraphrase
    of the authors' prompts is. Raises DirEAGError if a name is unknown, or questions or prompts cannot be read.
    """
    if unknown := [name for name in datasets if name not in PLANNED_RUNS] or ["none"] * (not datasets):
        raise DirEAGError(f"--datasets: saw {', '.join(unknown)}; expected some of {', '.join(PLANNED_RUNS)}.")
    sets: dict[str, QuestionSet] = {}
    parts = []
    for dataset, protocols in PLANNED_RUNS.items():
        for name, (protocol, split, file) in protocols.items() if dataset in datasets else ():
            if file not in sets:
                on_hub = dataset if split is None else f"{dataset}:{split}"
                sets[file] = load_questions(on_hub if folder is None else folder / file, limit=limit)
            asked = load_protocol(protocol, wording="paraphrased", prompts_from=prompts_from)
            parts.append(PlannedRun(dataset, name, sets[file], asked))
    return parts


def estimate(parts: Sequence[PlannedRun], models: Mapping[str, Path], most_tokens: int) -> str:
    """Describe the replies to ask for, those still missing, and the resources for these, with all assumptions.

    ``models`` has the folder of each, and ``most_tokens`` is the limit of a reply.
    """
    of_model = sum(part.n_replies for part in parts)
    left = {model: sum(part.n_left(folder) for part in parts) for model, folder in models.items()}
    n_left = sum(left.values())
    prompts = sum(part.prompt_tokens for part in parts) * n_left / max(of_model, 1)
    sets = {part.questions.name: part.questions for part in parts}
    sizes = ", ".join(f"{len(questions.problems):,} of {name}" for name, questions in sets.items())
    durations = "\n".join(
        f"  {name}: {_clock(n * REPLY_TOKENS / PACE)}, at most {_clock(n * most_tokens / PACE)}"
        for name, n in (*left.items(), ("in all", n_left))
    )
    return f"""Questions: {sizes}. They take {of_model:,} replies a model, {of_model * len(models):,} in all, \
and up to two re-asks of each that cannot be read.
Still to come: {n_left:,} replies of some {REPLY_TOKENS} tokens, {n_left * REPLY_TOKENS / 1e6:,.1f} million, after \
{prompts / 1e6:,.1f} million tokens of prompts; {n_left * REPLY_BYTES / 1e9:,.2f} GB of disk,
and two bytes a parameter for the files of each model (15 GB for 7B).
Time at {PACE:,.0f} tokens a second, and if every reply takes all {most_tokens} tokens it may; loading and evaluating \
add minutes:
{durations}
{REPLY_TOKENS} tokens a reply and {PACE:,.0f} a second on one A100 of 80 GB are assumptions, not measurements: the \
progress shows the real ones."""


def _clock(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:,.1f} minutes"


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _folders(models: Sequence[str], target: Path) -> dict[str, Path]:
    """Return the folder of each model, named by the last part of the model's name or path."""
    if not models:
        raise DirEAGError("--models: saw none; expected at least one name or folder.")
    paths = {model: Path(model) for model in models}
    folders = {model: target / (path.resolve() if path.is_dir() else path).name for model, path in paths.items()}
    if len(set(folders.values())) < len(folders):
        raise DirEAGError(f"--models: saw {', '.join(models)}; expected names that differ in their last part.")
    return folders


def _claim(target: Path, settings: Mapping[str, object]) -> None:
    """Record the settings in a new folder; raise DirEAGError if the folder has other settings, or other files."""
    path = target / RECORD
    if path.is_file():
        recorded = _content(path)
        differing = [name for name in settings if recorded.get(name) != settings[name]]
        if differing:
            seen = "; ".join(f"{name} {recorded.get(name)!r} there, {settings[name]!r} here" for name in differing)
            raise DirEAGError(
                f"--out {target}: saw a run with other settings ({seen}); expected the same. Choose another folder."
            )
        return
    if target.is_dir() and any(target.iterdir()):
        raise DirEAGError(f"--out {target}: saw files and no {RECORD}; expected a new or empty folder. Choose another.")
    target.mkdir(exist_ok=True)
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _content(path: Path) -> dict[str, Any]:
    """Return the object in a file of JSON; an empty one if there is none."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _engine(model: str, url: str | None, folder: Path, vllm_args: str, interpreter: Path | None) -> "Engine":
    """Return the engine of a model; one that is served here is fetched, so that errors occur before asking."""
    from elicitation.chat_engine import ChatEngine
    from elicitation.server import ServedEngine

    if url is not None:
        return ChatEngine([url], model)
    journal = next(iter(sorted(folder.glob("*/*/journal.jsonl"))), None)
    folder.mkdir(exist_ok=True)
    engine = ServedEngine(model, folder, vllm_args, interpreter, journal=journal, keep=True)
    if engine.is_to_be_fetched:
        err.print(f"fetching {model}")
    asyncio.run(engine.fetch())
    return engine


def _ask(parts: Sequence[PlannedRun], folder: Path, engine: "Engine", sampling: "Sampling", seed: int) -> None:
    """Elicit the missing parts with a single start of the server."""
    from elicitation.progress import LiveView
    from elicitation.run import elicit
    from elicitation.server import ServedEngine

    try:
        for part in parts:
            run = part.folder(folder)
            err.print(f"{run}: asking {engine.model}")
            summary = elicit(part.questions, part.protocol, engine, run, sampling, seed, view=LiveView(err))
            counts = f"{summary.n_questions} questions, {summary.n_unanswered} unanswered"
            out.print(f"{run}: {counts}; {count_words(summary.statuses)}", soft_wrap=True)
    finally:
        if isinstance(engine, ServedEngine):
            engine.stop()


def _evaluate(folder: Path, preset: PresetName, seed: int) -> None:
    """Evaluate one model on one data set under one preset by the command, printed so that users can repeat it.

    An existing evaluation is kept, and checked.
    """
    from bayes_direag.cli import app

    parts = {"observations": "steered", "samples": "samples", "topk": "topk"}
    if (folder / "train" / OBSERVATIONS).is_file():
        parts |= {"observations": "train", "test": "steered"}
    files = {role: f"{part}/{OBSERVATIONS}" for role, part in parts.items()}
    target = f"{EVALUATION}/{preset}"
    if (folder / target).exists():
        _check_evaluation(folder, target, files, preset, seed)
        return
    (folder / EVALUATION).mkdir(exist_ok=True)
    _, *given = (text for role, file in files.items() for text in (f"--{role}", file))
    settings = ("--answers", "numeric", "--preset", preset, "--seed", str(seed), "--methods", METHODS, "--out", target)
    arguments = ["evaluate", *given, *settings]
    err.print(f"{folder}: direag {shlex.join(arguments)}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # a GPU is for the model that is served
    typed = sys.argv
    sys.argv = ["direag", *arguments]  # which the command records
    try:
        with chdir(folder):
            status = app(arguments, standalone_mode=False)
    finally:
        sys.argv = typed
    if status:
        raise typer.Exit(status)


def _check_evaluation(folder: Path, target: str, files: Mapping[str, str], preset: PresetName, seed: int) -> None:
    """Raise DirEAGError if an evaluation is of other replies or settings."""
    from bayes_direag.data.observations import Observations
    from bayes_direag.model import presets

    record = _content(folder / target / "evaluation.json")
    evaluated = {role: _member(record.get(role), "sha256") for role in ("observations", "test", "samples", "topk")}
    evaluated |= {name: _member(record.get("settings"), name) for name in ("preset", "seed")}
    present = {role: Observations.read(folder / file, "numeric").fingerprint for role, file in files.items()}
    if evaluated != {"test": None, **present, "preset": presets.preset(preset).model_dump(mode="json"), "seed": seed}:
        raise DirEAGError(
            f"{folder / target}: saw an evaluation of other replies or settings; expected one of the replies beside "
            "it. Move it away, or choose another --out."
        )


def _tabulate(target: Path, prompts: str, seed: int) -> None:
    """Make tables and figures of all evaluations in the folder, replacing earlier ones."""
    (tables,) = entry_points(group="direag.paper", name="tables")
    take(tables.module.partition(".")[0])
    with chdir(target):
        evaluations = sorted(path.parent for path in Path().glob(f"*/*/{EVALUATION}/*/evaluation.json"))
        typer.echo(tables.load()(evaluations, Path("tables"), prompts, seed))
    out.print(f"{target / 'tables'} has table1 and table2 (.csv, .html, .tex), figure2 and figure3 (.png, .csv).")
