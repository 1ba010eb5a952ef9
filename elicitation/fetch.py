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

_NOT_SERVED = ["consolidated*", "original/*", "*.pth", "*.gguf", "*.msgpack", "*.h5", "*.onnx"]


class Request(NamedTuple):
    """A model to fetch."""

    repository: str
    revision: str | None  # None for the current commit
    dtype: str = "bfloat16"
    gpus: int = 1  # over which the model is split
    whole: bool = True  # whether the weights are served as they are, neither quantized nor offloaded


class Fetched(NamedTuple):
    """A model that is ready to be served: commit, folder and GPU."""

    revision: str
    path: str
    device: str | None


class RefusedError(Exception):
    """A model that cannot be served here; the message says why, and what to do."""


def fetch(request: Request) -> Fetched:
    """Check the GPU, the licence, and whether the weights fit into free memory and on the disk; then download it.

    Without a connection, files from an earlier download are used. Raises RefusedError if a check fails, or the hub has
    no such model.
    """
    gpu = _gpu(request)
    hub = import_module("huggingface_hub")
    about = _about(hub, request)
    if about is None:
        path = hub.snapshot_download(request.repository, revision=request.revision, local_files_only=True)
        return Fetched(Path(path).name, path, gpu and gpu[0])
    weights = sum(file.size or 0 for file in about.siblings if _is_weight(file.rfilename))
    if gpu is not None and request.whole and weights >= gpu[1]:
        raise RefusedError(
            f"{request.repository}: saw {gpu[1] / 1e9:.1f} GB free on {gpu[0]}; expected more than the "
            f"{weights / 1e9:.1f} GB of the weights. End what else uses the GPU (nvidia-smi lists it), take a larger "
            "one, or split the model over two with --vllm-args '--tensor-parallel-size 2'. Nothing was downloaded."
        )
    _check_disk(hub, request.repository, about)
    path = hub.snapshot_download(request.repository, revision=about.sha, ignore_patterns=_NOT_SERVED)
    return Fetched(about.sha, path, gpu and gpu[0])


def _gpu(request: Request) -> tuple[str, float] | None:
    """Return name and free memory of the GPUs, None on a CPU; RefusedError if one is missing or lacks bfloat16."""
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
    present = range(min(request.gpus, torch.cuda.device_count()))
    return about.name, float(sum(torch.cuda.mem_get_info(number)[0] for number in present))


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
