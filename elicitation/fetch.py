"""Fetch a model before it is served, after a check that this machine can run it.

A separate program, run by its path on the interpreter that has vLLM, and so torch and huggingface_hub:
``python fetch.py REQUEST`` with a :class:`Request` as JSON. It prints one line of JSON: a :class:`Fetched`, or
``{"error": ...}``.
"""

import json
import shutil
import sys
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

SHARE, RESERVE = 0.9, 2e9
"""The share of a GPU that vLLM takes, and the bytes of it that it is assumed to need beside weights and cache."""

MOST_SEQUENCES = 256
"""The number of sequences that vLLM is asked to serve at once, if they fit."""

_TOKENS = 1000  # usual length of a sequence, prompt and reply
_NOT_SERVED = ["consolidated*", "original/*", "*.pth", "*.gguf", "*.msgpack", "*.h5", "*.onnx"]


class Request(NamedTuple):
    """A model to fetch."""

    repository: str
    revision: str | None  # None for the current commit
    dtype: str = "bfloat16"
    gpus: int = 1  # over which the model is split
    whole: bool = True  # whether the weights are served as they are, neither quantized nor offloaded


class Fetched(NamedTuple):
    """A model that is ready to be served: commit, folder, GPU, and number of sequences that fit (None if unknown)."""

    revision: str
    path: str
    device: str | None
    sequences: int | None


class RefusedError(Exception):
    """A model that cannot be served here; the message says why, and what to do."""


def sequences(memory: float, weights: float, cache: float) -> int:
    """Return the number of sequences of usual length that fit beside the weights, 0 to :data:`MOST_SEQUENCES`.

    In bytes, ``memory`` is that of all GPUs over which the model is split, and ``cache`` that of one token.
    """
    return max(0, min(MOST_SEQUENCES, int((SHARE * memory - weights - RESERVE) / (_TOKENS * cache))))


def cache_of_token(config: dict[str, Any]) -> float:
    """Return the bytes of the keys and values of one token in 16 bits, by ``config.json``; 1 if unknown."""
    try:
        heads = config["num_attention_heads"]
        size = config.get("head_dim") or config["hidden_size"] / heads
        return float(4 * config["num_hidden_layers"] * config.get("num_key_value_heads", heads) * size)
    except KeyError:
        return 1.0


def fetch(request: Request) -> Fetched:
    """Check the GPU, the licence, and whether the model fits on GPU and disk, and then download it.

    Without a connection, files from an earlier download are used. Raises RefusedError if a check fails, or the hub has
    no such model.
    """
    gpu = _gpu(request)
    hub = import_module("huggingface_hub")
    about = _about(hub, request)
    if about is None:
        path = hub.snapshot_download(request.repository, revision=request.revision, local_files_only=True)
        return Fetched(Path(path).name, path, gpu and gpu[0], None)
    room = None
    if gpu is not None and request.whole:
        weights = sum(file.size or 0 for file in about.siblings if _is_weight(file.rfilename))
        config = Path(hub.hf_hub_download(request.repository, "config.json", revision=about.sha)).read_text("utf-8")
        room = sequences(gpu[1], weights, cache_of_token(json.loads(config)))
        if room == 0:
            raise RefusedError(
                f"{request.repository}: saw {gpu[1] / 1e9:.0f} GB on {gpu[0]}; expected room for "
                f"{weights / 1e9:.1f} GB of weights and their cache. Take a larger GPU, or split the model over two "
                "with --vllm-args '--tensor-parallel-size 2'. Nothing was downloaded."
            )
    _check_disk(hub, request.repository, about)
    path = hub.snapshot_download(request.repository, revision=about.sha, ignore_patterns=_NOT_SERVED)
    return Fetched(about.sha, path, gpu and gpu[0], room)


def _gpu(request: Request) -> tuple[str, float] | None:
    """Return name and memory of the GPUs, None on a CPU; RefusedError if one is missing or lacks bfloat16."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        if torch.version.cuda is None:
            return None
        raise RefusedError(
            f"saw no GPU; expected one, because this PyTorch is built for CUDA {torch.version.cuda}. See what "
            "nvidia-smi says, or name another Python with --vllm-python. Nothing was downloaded."
        )
    about = torch.cuda.get_device_properties(0)
    if request.dtype in ("bfloat16", "auto") and (about.major, about.minor) < (8, 0):
        raise RefusedError(
            f"saw {about.name}, of compute capability {about.major}.{about.minor}; expected 8.0 or higher (A100, L4, "
            "RTX 30 and later), because the paper's models run in bfloat16. Take such a GPU, or --vllm-args "
            "'--dtype half', whose replies are not the paper's. Nothing was downloaded."
        )
    return about.name, float(about.total_memory) * request.gpus


def _about(hub: Any, request: Request) -> Any:
    """Return the hub's record of a model, None if the hub cannot be reached; RefusedError without access to it."""
    errors, page = import_module("huggingface_hub.errors"), f"https://huggingface.co/{request.repository}"
    try:
        about = hub.HfApi().model_info(request.repository, revision=request.revision, files_metadata=True)
        if about.gated:
            hub.HfApi().auth_check(request.repository)
        return about
    except errors.GatedRepoError:
        seen = "no HF_TOKEN" if hub.get_token() is None else "an HF_TOKEN without access"
        raise RefusedError(
            f"{request.repository}: saw {seen}; expected one of an account that has accepted the model's licence. Log "
            f"in, accept it at {page}, make a token at https://huggingface.co/settings/tokens, and set HF_TOKEN to it."
        ) from None
    except errors.RevisionNotFoundError:
        raise RefusedError(f"{request.repository}: there is no revision {request.revision}. See {page}.") from None
    except errors.RepositoryNotFoundError:
        raise RefusedError(
            f"{request.repository}: there is no such model, or HF_TOKEN does not open it. Check the name at {page}."
        ) from None
    except Exception as error:
        try:
            hub.snapshot_download(request.repository, revision=request.revision, local_files_only=True)
        except Exception:
            raise RefusedError(
                f"{request.repository}: the hub cannot be reached ({type(error).__name__}: {str(error)[:200]}), and "
                "the model was not downloaded before. Connect, or give the model's folder with --model."
            ) from None
        return None


def _check_disk(hub: Any, repository: str, about: Any) -> None:
    """Raise RefusedError if the files that are not there yet do not fit on the disk of the hub's cache."""
    missing = sum(
        file.size or 0
        for file in about.siblings
        if not any(fnmatch(file.rfilename, pattern) for pattern in _NOT_SERVED)
        and not isinstance(hub.try_to_load_from_cache(repository, file.rfilename, revision=about.sha), str)
    )
    cache = Path(hub.constants.HF_HUB_CACHE)
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if missing > free:
        raise RefusedError(
            f"{repository}: saw {free / 1e9:.1f} GB free on the disk of {cache}; expected {missing / 1e9:.1f} GB for "
            "its files. Make room, or name another folder by HF_HOME. Nothing was downloaded."
        )


def _is_weight(name: str) -> bool:
    return name.endswith(".safetensors") and not name.startswith("consolidated") and "/" not in name


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    try:
        result: dict[str, Any] = fetch(Request(**json.loads(sys.argv[1])))._asdict()
    except RefusedError as refusal:
        result = {"error": str(refusal)}
    sys.stdout.write(json.dumps(result) + "\n")
