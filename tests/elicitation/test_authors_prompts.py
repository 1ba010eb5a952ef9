"""The authors' own prompts: what is read of their code is what the code itself returns."""

from pathlib import Path
from typing import Any

import pytest

from bayes_direag.errors import DirEAGError
from elicitation.prompts import load_protocol, messages, repair_messages
from tests.elicitation import runs
from tests.elicitation.checkout import BASELINES, FILES, INFERENCE, PROMPTS, write_checkout

QUESTION = "Ann has {note} 3 pens.\nHow many?"


def run(code: str) -> dict[str, Any]:
    """Let Python run what the program only reads."""
    names: dict[str, Any] = {}
    exec(code.replace("import a_library_that_is_not_installed", "").replace("raise SystemExit", "str"), names)  # noqa: S102
    return names


def test_authors_prompts_are_what_the_code_returns(tmp_path: Path) -> None:
    folder, code = write_checkout(tmp_path), run(PROMPTS + INFERENCE + BASELINES)
    steered, samples, topk = (load_protocol(name, prompts_from=folder) for name in ("steered", "samples", "topk"))
    levels = sorted(code["STEERING_LEVELS"], key=lambda level: level["index"])
    assert [level.name for level in steered.levels] == ["cautious", "vanilla", "confident"]
    for level in levels:
        prompt = code["build_prompt"](QUESTION, level)
        assert messages(steered, level["index"], QUESTION) == [{"role": "user", "content": prompt}]
        (again,) = repair_messages(steered, level["index"], QUESTION, "")
        assert again["content"] == code["build_format_retry_prompt"](prompt)
    assert messages(samples, 0, QUESTION)[0]["content"] == code["build_vanilla_sample_prompt"](QUESTION)
    assert messages(topk, 0, QUESTION)[0]["content"] == code["build_topk_prompt"](QUESTION, 5)
    for protocol in (steered, samples, topk):
        paraphrased = runs.PARAPHRASED[protocol.name]
        assert (protocol.holds, protocol.repairs, protocol.n_samples) == (
            paraphrased.holds,
            paraphrased.repairs,
            paraphrased.n_samples,
        )


STEERED, AGAIN, _ = FILES


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (STEERED, None, "", r"prompts\.py cannot be read \(No such file"),
        (AGAIN, "def", "de f", r"inference\.py cannot be read \(invalid syntax"),
        (AGAIN, "def", "\0", r"cannot be read \(source code"),
        (STEERED, "STEERING_LEVELS", "LEVELS", "STEERING_LEVELS: saw 'no such list'"),
        (STEERED, '"index": 2', '"index": 1', "STEERING_LEVELS: saw '.1, 0, 1.'; expected a list of"),
        (STEERED, '"shift": ""', '"shift": len("")', "STEERING_LEVELS: saw 'ValueError"),
        (STEERED, "def build_prompt", "def prompt", "build_prompt: saw 'no such function'"),
        (STEERED, 'how = "slowly, "', "print()", r"build_prompt: saw 'print\(\)'; expected assignm"),
        (STEERED, "{note}\\\\n", "{note.upper()}", "build_prompt: saw 'note.upper"),
        (STEERED, "{note}\\\\n", "{other}", "build_prompt: saw \"'other'\""),
        (STEERED, "\\\\n{question}", "", "build_prompt: saw 'Read .* expected a prompt with the question"),
        (STEERED, "{how}and", "{level['name']} and", "prompts that differ by the shift of the level alone"),
        (STEERED, '"name": "vanilla", ', "", "STEERING_LEVELS: saw \"KeyError 'name'"),
        (AGAIN, 'f"{prompt}\\\\n\\\\n"', "", "build_format_retry_prompt: saw 'Mind"),
    ],
)
def test_authors_prompts_name_a_fault_with_its_file(
    tmp_path: Path, file: str, old: str | None, new: str, complaint: str
) -> None:
    path = write_checkout(tmp_path) / file
    if old is None:
        path.unlink()
    else:
        text = FILES[file].replace("\\n", "\\\\n")
        assert old in text
        path.write_text(text.replace(old, new, 1).replace("\\\\n", "\\n"))
    with pytest.raises(DirEAGError, match=complaint) as error:
        load_protocol("steered", prompts_from=tmp_path)
    assert str(error.value).startswith(f"--prompts-from: {tmp_path}")
