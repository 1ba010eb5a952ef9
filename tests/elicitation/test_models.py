"""The recorded presets say what the paper says."""

import pytest

from elicitation.models import MODELS, PAPER, choose_sampling, find_preset
from elicitation.server import parsed
from tests.elicitation.runs import ROOT


@pytest.mark.parametrize(
    ("name", "top_k", "penalty", "seed"),
    [
        ("Qwen2.5-7B-Instruct", 20, 1.05, 20260517),
        ("Mistral-7B-Instruct-v0.3", 50, 1.0, 20260520),
        ("gemma-2-9b-it", 50, 1.0, 20260526),
    ],
)
def test_choose_sampling_takes_the_generation_config_of_the_model(
    name: str, top_k: int, penalty: float, seed: int
) -> None:
    preset = MODELS[name]
    assert choose_sampling(preset, "ours") == PAPER
    changed = {"top_k": top_k, "repetition_penalty": penalty, "add_special_tokens": True}
    assert choose_sampling(preset, "paraphrased") == PAPER.model_copy(update=changed)
    assert preset.seed == seed


@pytest.mark.parametrize(
    ("models", "name"),
    [
        (("google/gemma-2-9b-it", "gemma-2-9b-it", "/models/Gemma-2-9b-it/", "gemma-2-9B-it"), "gemma-2-9b-it"),
        (("google/gemma-2-9b", "Qwen/Qwen2.5-7B", "unsloth/gemma-2-9b-it", "SmolLM2-135M-Instruct", "", "/"), None),
    ],
)
def test_find_preset_by_hub_name_and_by_folder(models: tuple[str, ...], name: str | None) -> None:
    assert [find_preset(model) for model in models] == [None if name is None else MODELS[name]] * len(models)


def test_models_have_the_commits_of_the_page() -> None:
    page = (ROOT / "docs" / "reproduce-the-paper.md").read_text()
    assert all(f"| `{preset.repository}` | `{preset.revision}` |" in page for preset in MODELS.values())


def test_models_serve_mistral_from_its_files_of_hugging_face() -> None:
    arguments = parsed(MODELS["Mistral-7B-Instruct-v0.3"].server_arguments)
    formats = {"--config-format": "hf", "--load-format": "safetensors", "--tokenizer-mode": "hf"}
    assert arguments == parsed(MODELS["gemma-2-9b-it"].server_arguments) | formats
