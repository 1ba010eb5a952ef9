"""Fetch a model before it is served, after a check that this machine can run it.

A separate program, run by its path on the interpreter that has vLLM, and so torch and huggingface_hub:
``python fetch.py ARGUMENTS`` with those of :func:`fetch` as JSON. It prints one line of JSON: a :class:`Fetched`, or
``{"error": ...}``.
"""

import json
import re
import shutil
import sys
from fnmatch import translate
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

_NOT_SERVED = ["consolidated*", "original/*", "*.pth", "*.gguf", "*.msgpack", "*.h5", "*.onnx"]


class Fetched(NamedTuple):
    """A model that is ready to be served: commit, folder and GPU."""

    revision: str
    path: str
    device: str | None


class RefusedError(Exception):
    """A model that cannot be served here; the message says why, and what to do."""


def fetch(*, repository: str, revision: str | None, dtype: str, gpus: int, whole: bool) -> Fetched:
    """Check the GPU, the licence, and whether the weights fit into free memory and on the disk; then download a model.

    Its ``revision`` is the current commit if None, and it is split over ``gpus``. Weights that are quantized or
    offloaded (not ``whole``) may be larger than the memory. Without a connection, files from an earlier download are
    used. Raises RefusedError if a check fails, or the hub has no such model.
    """
    gpu = _gpu(dtype, gpus)
    hub = import_module("huggingface_hub")
    about = _about(hub, repository, revision)
    if about is None:
        path = hub.snapshot_download(repository, revision=revision, local_files_only=True)
        return Fetched(Path(path).name, path, gpu and gpu[0])
    left_out = re.compile("|".join(map(translate, _NOT_SERVED))).match
    sizes = {file.rfilename: file.size or 0 for file in about.siblings if not left_out(file.rfilename)}
    weights = sum(size for name, size in sizes.items() if name.endswith(".safetensors") and "/" not in name)
    if gpu is not None and whole and weights >= gpu[1]:
        raise RefusedError(
            f"{repository}: saw {gpu[1] / 1e9:.1f} GB free on {gpu[0]}; expected more than the "
            f"{weights / 1e9:.1f} GB of the weights. End what else uses the GPU (nvidia-smi lists it), take a larger "
            "one, or split the model over two with --vllm-args '--tensor-parallel-size 2'. Nothing was downloaded."
        )
    cached = {name: hub.try_to_load_from_cache(repository, name, revision=about.sha) for name in sizes}
    missing = sum(size for name, size in sizes.items() if not isinstance(cached[name], str))
    cache = Path(hub.constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(folder for folder in (cache, *cache.parents) if folder.exists())).free
    if missing > free:
        raise RefusedError(
            f"{repository}: saw {free / 1e9:.1f} GB free on the disk of {cache}; expected {missing / 1e9:.1f} GB for "
            "its files. Make room, or name another folder by HF_HOME. Nothing was downloaded."
        )
    path = hub.snapshot_download(repository, revision=about.sha, ignore_patterns=_NOT_SERVED)
    return Fetched(about.sha, path, gpu and gpu[0])


def _gpu(dtype: str, gpus: int) -> tuple[str, float] | None:
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
    if dtype in ("bfloat16", "auto") and (about.major, about.minor) < (8, 0):
        raise RefusedError(
            f"saw {about.name}, of compute capability {about.major}.{about.minor}; expected 8.0 or higher (A100, L4, "
            "RTX 30 and later), because the paper's models run in bfloat16. Take such a GPU, or --vllm-args "
            "'--dtype half', whose replies are not the paper's. Nothing was downloaded."
        )
    present = range(min(gpus, torch.cuda.device_count()))
    return about.name, float(sum(torch.cuda.mem_get_info(number)[0] for number in present))


def _about(hub: Any, repository: str, revision: str | None) -> Any:
    """Return the hub's record of a model, None if the hub cannot be reached; RefusedError without access to it."""
    errors, page = import_module("huggingface_hub.errors"), f"https://huggingface.co/{repository}"
    try:
        about = hub.HfApi().model_info(repository, revision=revision, files_metadata=True)
        if about.gated:
            hub.HfApi().auth_check(repository)
        return about
    except errors.GatedRepoError:
        seen = "no HF_TOKEN" if hub.get_token() is None else "an HF_TOKEN without access"
        raise RefusedError(
            f"{repository}: saw {seen}; expected one of an account that has accepted the model's licence. Log "
            f"in, accept it at {page}, make a token at https://huggingface.co/settings/tokens, and set HF_TOKEN to it."
        ) from None
    except errors.RevisionNotFoundError:
        raise RefusedError(f"{repository}: there is no revision {revision}. See {page}.") from None
    except errors.RepositoryNotFoundError:
        raise RefusedError(
            f"{repository}: there is no such model, or HF_TOKEN does not open it. Check the name at {page}."
        ) from None
    except Exception as error:
        try:
            hub.snapshot_download(repository, revision=revision, local_files_only=True)
        except Exception:
            raise RefusedError(
                f"{repository}: the hub cannot be reached ({type(error).__name__}: {str(error)[:200]}), and "
                "the model was not downloaded before. Connect, or give the model's folder with --model."
            ) from None
        return None


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    try:
        result: dict[str, Any] = fetch(**json.loads(sys.argv[1]))._asdict()
    except RefusedError as refusal:
        result = {"error": str(refusal)}
    sys.stdout.write(json.dumps(result) + "\n")
