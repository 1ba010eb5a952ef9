"""A checkout in the form of the authors' code, with words of its own."""

from pathlib import Path

PROMPTS = """
STEERING_LEVELS = [
    {"index": 1, "level": 0, "name": "vanilla", "shift": ""},
    {"index": 0, "level": -1, "name": "cautious", "shift": ("(2) Doubt " "yourself {a lot}.")},
    {"index": 2, "level": 1, "name": "confident", "shift": "(2) Trust yourself."},
]


def build_prompt(question: str, level: dict, use_cot: bool = True) -> str:
    if use_cot:
        how = "slowly, "
    else:
        how = ""
    note = "Note: (1) Say how sure you are."
    if level["shift"]:
        note = f"{note} {level['shift']}"
    return (
        f"Read {how}and answer. {note}\\n"
        "End with Answer and Confidence (0-100): [number], [number]%\\n\\n"
        f"Question:\\n{question}"
    )
"""
INFERENCE = """
import a_library_that_is_not_installed


def build_format_retry_prompt(prompt: str) -> str:
    return f"{prompt}\\n\\n" "Mind the last line."
"""
BASELINES = """
raise SystemExit("this is read, and not run")


def build_vanilla_sample_prompt(question: str) -> str:
    return f"End with Final Answer: [number]\\n\\nQuestion:\\n{question}"


def build_topk_prompt(question: str, k: int) -> str:
    if k:
        return f"Give {k} guesses under Top Answers:\\n\\nQuestion:\\n{question}"
"""
FILES = {
    "direag_core/prompts.py": PROMPTS,
    "direag_core/inference.py": INFERENCE,
    "comparison_baselines/run_baselines.py": BASELINES,
}


def write_checkout(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
