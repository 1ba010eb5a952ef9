"""Model presets: the three models of the paper with its sampling settings.

The paper samples at temperature 0.7 and top-p 1, with at most 1024 new tokens, in bfloat16, and at most two re-asks of
an unreadable reply. Its released code samples with transformers. That takes other settings from the model's generation
config, or else its own defaults (top-k 50, no repetition penalty). The code renders the chat as text and tokenizes it
with special tokens, which adds a second start token.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from elicitation.generation import Sampling
from elicitation.prompts import Wording

#: The settings that the paper states.
PAPER = Sampling(temperature=0.7, top_p=1.0, max_tokens=1024, repairs=2)
_SERVED = ("--dtype", "bfloat16", "--max-model-len", "4096")
#: vLLM prefers Mistral's own files, if they are in the folder, and so another chat template.
_HUGGING_FACE = ("--config-format", "hf", "--load-format", "safetensors", "--tokenizer-mode", "hf")
_RELEASED = PAPER.model_copy(update={"top_k": 50, "add_special_tokens": True})


@dataclass(frozen=True)
class ModelPreset:
    """How one model is served and sampled."""

    repository: str
    revision: str  # the commit that is served
    seed: int  # in the configuration of the released code, for subsets and folds, not for replies
    released: Sampling = _RELEASED  # from that configuration and the model's generation config
    server_arguments: tuple[str, ...] = _SERVED


#: The models of the paper, by the last part of their names on the hub.
MODELS: Mapping[str, ModelPreset] = {
    preset.repository.rpartition("/")[2]: preset
    for preset in (
        ModelPreset(
            "Qwen/Qwen2.5-7B-Instruct",
            "a09a35458c702b33eeacc393d103063234e8bc28",
            seed=20260517,
            released=_RELEASED.model_copy(update={"top_k": 20, "repetition_penalty": 1.05}),
        ),
        ModelPreset(
            "mistralai/Mistral-7B-Instruct-v0.3",
            "c170c708c41dac9275d15a8fff4eca08d52bab71",
            seed=20260520,
            server_arguments=_SERVED + _HUGGING_FACE,
        ),
        ModelPreset("google/gemma-2-9b-it", "11c9b309abf73637e4b6f9a3fa1e92e615547819", seed=20260526),
    )
}


def find_preset(model: str | Path) -> ModelPreset | None:
    """Return the preset of a model, given by its name on the hub or a folder of that name; None if there is none.

    A model of the same name by another owner has no preset.

    Examples
    --------
    >>> find_preset("google/gemma-2-9b-it").seed
    20260526
    >>> find_preset("/models/my-own") is None
    True
    """
    named = str(model).lower()
    if named.count("/") == 1 and not named.startswith((".", "/")) and not Path(model).is_dir():
        return next((preset for preset in MODELS.values() if preset.repository.lower() == named), None)
    return next((preset for key, preset in MODELS.items() if key.lower() == Path(named).name), None)


def released_seed(preset: ModelPreset | None, wording: Wording) -> int:
    """Return the default seed of a run: that of the released code for the model if asked in its wording, else 0."""
    return preset.seed if preset is not None and wording == "paraphrased" else 0


def choose_sampling(
    preset: ModelPreset | None,
    wording: Wording,
    overrides: Iterable[str] = (),
) -> Sampling:
    """Return the sampling settings of a run: the defaults, and ``overrides`` (FIELD=VALUE).

    A model without a preset is assumed to have no generation config.
    """
    if wording == "paraphrased":
        sampling = _RELEASED if preset is None else preset.released
    else:
        sampling = Sampling() if preset is None else PAPER
    return sampling.override(dict(override.partition("=")[::2] for override in overrides))
