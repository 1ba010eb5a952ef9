"""The recorded presets say what the paper says."""

import re

import pytest

from elicitation.models import MODELS, choose_sampling, find_preset


@pytest.mark.parametrize("name", ["Qwen2.5-7B-Instruct", "Mistral-7B-Instruct-v0.3", "gemma-2-9b-it"])
def test_the_models_of_the_paper(name: str) -> None:
    preset = MODELS[name]
    sampling = preset.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.repairs) == (0.7, 1.0, 1024, 2)
    assert not sampling.structured
    arguments = dict(zip(preset.server_arguments[::2], preset.server_arguments[1::2], strict=True))
    assert arguments["--dtype"] == "bfloat16"
    assert int(arguments["--max-model-len"]) > 2 * sampling.max_tokens
    assert preset.repository.endswith(f"/{name}")
    assert re.fullmatch("[0-9a-f]{40}", preset.revision)


@pytest.mark.parametrize(
    ("name", "top_k", "penalty", "seed"),
    [
        ("Qwen2.5-7B-Instruct", 20, 1.05, 20260517),
        ("Mistral-7B-Instruct-v0.3", 50, 1.0, 20260520),
        ("gemma-2-9b-it", 50, 1.0, 20260526),
    ],
)
def test_the_released_code_samples_by_the_generation_config_of_the_model(
    name: str, top_k: int, penalty: float, seed: int
) -> None:
    preset = MODELS[name]
    assert choose_sampling(preset, "ours") == preset.sampling
    changed = {"top_k": top_k, "repetition_penalty": penalty, "add_special_tokens": True}
    assert choose_sampling(preset, "released") == preset.sampling.model_copy(update=changed)
    assert preset.seed == seed


@pytest.mark.parametrize("model", ["google/gemma-2-9b-it", "gemma-2-9b-it", "/models/Gemma-2-9b-it/", "gemma-2-9B-it"])
def test_a_model_is_found_by_hub_name_and_by_folder(model: str) -> None:
    assert find_preset(model) is MODELS["gemma-2-9b-it"]


@pytest.mark.parametrize(
    "model", ["google/gemma-2-9b", "Qwen/Qwen2.5-7B", "unsloth/gemma-2-9b-it", "SmolLM2-135M-Instruct", "", "/"]
)
def test_another_model_has_no_preset(model: str) -> None:
    assert find_preset(model) is None
