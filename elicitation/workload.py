"""The parts of the paper's experiment: what to ask one model, in which folders, and the estimated cost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from bayes_direag.errors import DirEAGError
from elicitation.manifest import questions_digest
from elicitation.prompts import Protocol, ProtocolName, load_protocol, messages
from elicitation.question_sources import Form
from elicitation.questions import QuestionSet, load_questions

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
        levels = range(len(self.protocol.levels))
        length = sum(
            len(turn["content"])
            for problem in self.questions.problems
            for level in levels
            for turn in messages(self.protocol, level, problem.question)
        )
        return self.protocol.n_samples * length / CHARACTERS

    def is_done(self, of_model: Path) -> bool:
        """Tell whether the manifest says that the run is complete."""
        path = self.folder(of_model) / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        wanted = questions_digest(self.questions.problems)
        return bool(manifest.get("complete")) and manifest["questions"]["sha256"] == wanted

    def n_left(self, of_model: Path) -> int:
        """Return the number of missing replies; approximate, as the journal also contains re-asks."""
        journal = self.folder(of_model) / "journal.jsonl"
        n_recorded = max(journal.read_bytes().count(b"\n") - 1, 0) if journal.is_file() else 0
        return 0 if self.is_done(of_model) else max(self.n_replies - n_recorded, 1)


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
                sets[file] = (
                    load_questions(dataset if split is None else f"{dataset}:{split}", limit=limit)
                    if folder is None
                    else load_questions(folder / file, limit=limit)
                )
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
    by_model = "\n".join(f"  {model}: {_duration(n, most_tokens)}" for model, n in left.items())
    return f"""Questions: {sizes}. They take {of_model:,} replies a model, {of_model * len(models):,} in all, \
and up to two re-asks of each that cannot be read.
Still to come: {n_left:,} replies of some {REPLY_TOKENS} tokens, {n_left * REPLY_TOKENS / 1e6:,.1f} million, after \
{prompts / 1e6:,.1f} million tokens of prompts; {n_left * REPLY_BYTES / 1e9:,.2f} GB of disk,
and two bytes a parameter for the files of each model (15 GB for 7B).
Time at {PACE:,.0f} tokens a second, and if every reply takes all {most_tokens} tokens it may; loading and evaluating \
add minutes:
{by_model}
  in all: {_duration(n_left, most_tokens)}
{REPLY_TOKENS} tokens a reply and {PACE:,.0f} a second on one A100 of 80 GB are assumptions, not measurements: the \
progress shows the real ones."""


def _duration(n_replies: int, most_tokens: int) -> str:
    usual, longest = (n_replies * tokens / PACE for tokens in (REPLY_TOKENS, most_tokens))
    return f"{_clock(usual)}, at most {_clock(longest)}"


def _clock(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:,.1f} minutes"
