"""What a rehearsal of the paper needs: made-up questions in the published forms, and a vllm that is none."""

import json
import sys
from pathlib import Path
from random import Random

from tests.elicitation import stub_server


def write_questions(folder: Path, n: int) -> Path:
    """Write n made-up sums under the name, and in the form, of each file of the paper."""
    folder.mkdir()
    rng = Random(0)
    for name in ("gsm8k_train.jsonl", "gsm8k_test.jsonl", "svamp.json", "gsm_hard.jsonl"):
        rows = []
        for number in range(n):
            first, second = rng.randint(2, 900), rng.randint(2, 900)
            body, question = f"Ann has {first} pens and gets {second} more.", "How many has she?"
            match name.partition(".")[0]:
                case "svamp":
                    row = {"ID": f"chal-{number + 1}", "Body": body, "Question": question, "Answer": first + second}
                case "gsm_hard":
                    row = {"input": f"{body} {question}", "code": "", "target": float(first + second)}
                case _:
                    row = {"question": f"{body} {question}", "answer": f"She has both.\n#### {first + second}"}
            rows.append(row)
        text = json.dumps(rows) if name.endswith(".json") else "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / name).write_text(text)
    return folder


def write_vllm(folder: Path, *arguments: str) -> Path:
    """Write a command vllm that starts the canned server; its folder is to be on the path."""
    folder.mkdir()
    command = folder / "vllm"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {stub_server.__file__} {" ".join(arguments)} "$@"\n')
    command.chmod(0o755)
    return folder
