"""The command ``direag paper``: elicit, evaluate, and make tables and figures, for several models and data sets."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from importlib.metadata import entry_points
from itertools import cycle, product
from pathlib import Path
from typing import Annotated, get_args

import typer

from bayes_direag.commands.options import err, out, require_parent
from bayes_direag.errors import DirEAGError
from bayes_direag.model.settings import PresetName
from bayes_direag.modules import take
from elicitation.command import PromptsFromOption, VllmArgsOption, VllmPythonOption
from elicitation.models import choose_sampling, find_preset, released_seed
from elicitation.prompts import Protocol, ProtocolName, load_protocol
from elicitation.questions import Form, QuestionSet, load_questions
from elicitation.unread import count_words

#: The methods in the paper's tables: those that learn from labels, and the rules, which do not.
LEARNED = "direag,count_calibrated,level_calibrated,direag_raw"
RULES = "vanilla,self_consistency,answer_entropy,mean_confidence,steerconf,topk"
#: The methods of each evaluation by its preset: that of the paper's figures, and that of its equations.
EVALUATED: Mapping[PresetName, str] = {"release": f"{RULES},{LEARNED}", "paper": LEARNED}
#: The runs of each data set: the protocol, the set on the hub, the published file.
RUNS: Mapping[Form, Mapping[str, tuple[ProtocolName, str, str]]] = {
    "gsm8k": {
        "train": ("steered", "gsm8k:train", "gsm8k_train.jsonl"),
        **{name: (name, "gsm8k:test", "gsm8k_test.jsonl") for name in get_args(ProtocolName)},
    },
    "svamp": {name: (name, "svamp", "svamp.json") for name in get_args(ProtocolName)},
    "gsm_hard": {name: (name, "gsm_hard", "gsm_hard.jsonl") for name in get_args(ProtocolName)},
}
PAPER_MODELS = "Qwen/Qwen2.5-7B-Instruct,mistralai/Mistral-7B-Instruct-v0.3,google/gemma-2-9b-it"


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
) -> None:
    """Repeat the paper's experiment: ask every model every data set, evaluate, make both tables and both figures.

    Each model is served once by vLLM, started and stopped by this command, or by a running server (--base-url). After
    an interruption the same command continues. What is complete is not asked or evaluated again. What cannot be
    evaluated is named at the end, and the tables are of the rest.

    Contents of the folder: MODEL/DATASET/ with steered, samples and topk (for gsm8k also train), each a run of direag
    elicit, and evaluation/, made by direag evaluate under the presets release (as the paper's figures, with the
    baselines) and paper (its equations); and tables/, the paper's Tables 1 and 2 and Figures 2 and 3 of these models
    and data sets, beside the printed figures.

    Example: direag paper --models Qwen/Qwen2.5-7B-Instruct --datasets svamp --out rehearsal --limit 20
    """
    from elicitation.chat_engine import ChatEngine
    from elicitation.progress import LiveView
    from elicitation.run import elicit
    from elicitation.server import ServedEngine

    require_parent(target)
    folders, asked = _folders(_names(models), target), _names(datasets)
    runs = planned_runs(asked, questions, limit, prompts_from)
    urls: Sequence[str | None] = base_url or [None]
    if len(urls) not in (1, len(folders)):
        raise DirEAGError(
            f"--base-url: saw {len(urls)} servers for {len(folders)} models; expected one for all, or one for each."
        )
    engines = [
        ServedEngine(model, folder, vllm_args, vllm_python, keep=True) if url is None else ChatEngine([url], model)
        for (model, folder), url in zip(folders.items(), cycle(urls), strict=False)
    ]
    evaluations, failed = list[Path](), list[str]()
    for (model, folder), engine in zip(folders.items(), engines, strict=True):
        preset = find_preset(model)
        sampling = choose_sampling(preset, "paraphrased")
        own_seed = released_seed(preset, "paraphrased") if seed is None else seed
        try:
            for run, (problems, protocol) in runs.items():
                run_folder = folder / run
                err.print(f"{run_folder}: asking {engine.model}")
                tally = elicit(problems, protocol, engine, run_folder, sampling, own_seed, view=LiveView(err))
                counts = f"{tally.n_questions} questions, {tally.n_unanswered} unanswered"
                out.print(f"{run_folder}: {counts}; {count_words(tally.statuses)}", soft_wrap=True)
        finally:
            if isinstance(engine, ServedEngine):
                engine.stop()
        for evaluated, by in product((folder / name for name in asked), EVALUATED):
            if done := _evaluate(evaluated, by, own_seed):
                evaluations.append(done)
            else:
                failed.append(f"{evaluated} ({by})")
    (tables,) = entry_points(group="direag.paper", name="tables")
    take(tables.module.partition(".")[0])
    prompts = f"Prompts: {"a paraphrase of the authors'" if prompts_from is None else "the authors' own"}."
    typer.echo(tables.load()(evaluations, target / "tables", prompts, seed or 0))
    out.print(f"{target / 'tables'} has table1 and table2 (.csv, .html, .tex), figure2 and figure3 (.png, .csv).")
    if failed:
        raise DirEAGError(f"{target / 'tables'} lacks {', '.join(failed)}, for the reasons above. Repeat it then.")


def planned_runs(
    datasets: Sequence[str], folder: Path | None, limit: int | None, prompts_from: Path | None
) -> dict[str, tuple[QuestionSet, Protocol]]:
    """Return questions and prompts of every run, by its folder; ``limit`` is for each published file.

    Without a ``folder`` of these files the hub is asked, and without ``prompts_from`` our paraphrase
    of the authors' prompts is. Raises DirEAGError if a name is unknown, or questions or prompts cannot be read.
    """
    if unknown := [name for name in datasets if name not in RUNS] or ["none"] * (not datasets):
        raise DirEAGError(f"--datasets: saw {', '.join(unknown)}; expected some of {', '.join(RUNS)}.")
    sets: dict[str, QuestionSet] = {}
    runs: dict[str, tuple[QuestionSet, Protocol]] = {}
    for dataset, parts in RUNS.items():
        for name, (protocol, on_hub, file) in parts.items() if dataset in datasets else ():
            if file not in sets:
                sets[file] = load_questions(on_hub if folder is None else folder / file, limit=limit)
            prompts = load_protocol(protocol, wording="paraphrased", prompts_from=prompts_from)
            runs[f"{dataset}/{name}"] = sets[file], prompts
    return runs


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


def _evaluate(folder: Path, preset: PresetName, seed: int) -> Path | None:
    """Evaluate a model on a data set by the command, printed so that users can repeat it; return the folder.

    An evaluation of the same replies is kept. None if the command says why these replies cannot be evaluated.
    """
    from bayes_direag.cli import app

    parts = {"observations": "steered"}
    if (folder / "train").is_dir():
        parts = {"observations": "train", "test": "steered"}
    if preset == "release":
        parts |= {"samples": "samples", "topk": "topk"}
    files = {role: f"{part}/observations.jsonl" for role, part in parts.items()}
    target = folder / "evaluation" / preset
    if _is_of(target, {role: folder / file for role, file in files.items()}, seed):
        return target
    target.parent.mkdir(exist_ok=True)
    _, *inputs = (text for role, file in files.items() for text in (f"--{role}", file))
    settings = ("--answers", "numeric", "--preset", preset, "--seed", str(seed), "--methods", EVALUATED[preset])
    arguments = ["evaluate", *inputs, *settings, "--out", f"evaluation/{preset}"]
    err.print(f"{folder}: direag {shlex.join(arguments)}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # a GPU is for the model that is served
    typed, sys.argv = sys.argv, ["direag", *arguments]  # which the command records
    try:
        with chdir(folder):
            status = app(arguments, standalone_mode=False)
    finally:
        sys.argv = typed
    if status == 2:  # it has said why
        return None
    if status:
        raise typer.Exit(status)
    return target


def _is_of(evaluation: Path, files: Mapping[str, Path], seed: int) -> bool:
    """Tell whether there is an evaluation of these replies."""
    from bayes_direag.data.observations import Observations

    try:
        record = json.loads((evaluation / "evaluation.json").read_text(encoding="utf-8"))
        evaluated = {role: record[role]["sha256"] for role in files}
        return record["settings"]["seed"] == seed and evaluated == {
            role: Observations.read(file, "numeric").fingerprint for role, file in files.items()
        }
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return False
