"""Models in folders and on the hub, before they are loaded: the places of their files, and their identity.

Nothing here imports torch or transformers at the top; `folder_of` and `identity_of` never do.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from titjudge.core.errors import UserError, file_fault
from titjudge.core.types import Json, Values

SMALL_FILES = tuple("*.json *.txt *.model *.jinja *.py".split())
_SAMPLED_ABOVE = 256 * 2**20  # bytes
_BLOCK = 64 * 2**10


def offline() -> bool:
    """Whether the environment forbids the hub."""
    values = (os.environ.get(name, "") for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return any(value.lower() in ("1", "true", "yes", "on") for value in values)


def absent(model: str) -> UserError:
    """Make the error of a model that is neither a folder, nor in the cache, nor given by the hub."""
    why = "HF_HUB_OFFLINE is set, so nothing is downloaded" if offline() else "the hub did not return it"
    return UserError(
        f"model '{model}' not found: it is neither a folder nor in the local cache, and {why}. "
        "Check the name, download it first, or give its folder."
    )


def untrusted(model: str) -> UserError:
    """Make the error of a model that comes with remote code."""
    return UserError(
        f"model '{model}' contains Python code that must be run: add --set trust_remote_code=yes if you trust it (or the option "
        "trust_remote_code: true)"
    )


@lru_cache(maxsize=64)
def folder_of(model: str, revision: str = "") -> tuple[Path, str]:
    """Find the folder of a model's small files and their commit ("" for a folder of the user's own).

    Args:
        model: A folder, or `owner/name` on the hub. Only small files are downloaded, and only when the hub is allowed.
        revision: A branch, tag or commit on the hub.

    Raises:
        UserError: There is no such folder or model.
    """
    local_folder = Path(model).expanduser()
    if local_folder.is_dir():
        return local_folder, ""
    if local_folder.is_absolute() or model.startswith((".", "~")) or not model or model.count("/") > 1:
        raise UserError(f"'{model}' is not a model folder. Correct the path, or give a name on the hub")
    from huggingface_hub import snapshot_download

    quiet()
    try:
        folder = Path(
            snapshot_download(
                model, revision=revision or None, allow_patterns=list(SMALL_FILES), local_files_only=offline()
            )
        )
    except Exception as error:  # the hub's client raises a dozen kinds; each means that the model is not available
        raise absent(model) from error
    return folder, folder.name


@lru_cache(maxsize=64)
def content_hash(folder: Path) -> str:
    """Hash names, sizes and contents of a folder's files (SHA-256); of files over 256 MiB 65 spread blocks are read."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path, folder)):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            if size <= _SAMPLED_ABOVE:
                digest.update(hashlib.file_digest(file, "sha256").digest())
                continue
            for step in range(65):
                file.seek(step * (size - _BLOCK) // 64)
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()[:32]


def _hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(folder).parts)


def identity_of(model: str, revision: str = "") -> dict[str, str]:
    """Return the pin of a model's weights: the commit on the hub, or the content hash of a folder, wherever it lies."""
    folder, commit = folder_of(model, revision)
    return {"model": model, "revision": commit} if commit else {"content": content_hash(folder)}


def read_json(folder: Path, name: str) -> Any:
    """Read a JSON file of a model folder; {} when there is none.

    Raises:
        UserError: The file is damaged.
    """
    path = folder / name
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {file_fault(error)}") from error


def has_remote_code(folder: Path) -> bool:
    """Return True if the model needs to run remote code from its folder."""
    names = ("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
    return any("auto_map" in read_json(folder, name) for name in names)


def positions(folder: Path) -> int | None:
    """Find how many tokens the architecture reads, from the small files alone; None if they set no limit."""
    config: Values = read_json(folder, "config.json")
    config = {**config, **config.get("text_config", {})}
    limits = [config.get("max_position_embeddings"), read_json(folder, "tokenizer_config.json").get("model_max_length")]
    if isinstance(limits[0], int) and config.get("model_type") in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
        limits[0] -= 2  # these count positions from behind the padding index
    return min((int(limit) for limit in limits if isinstance(limit, int | float) and 0 < limit < 10**9), default=None)


def quiet() -> None:
    """Silence progress bars and loaders; warnings that matter are raised by us as errors or reported as flags."""
    import logging

    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    for name in ("sentence_transformers", "huggingface_hub", "transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)


def quiet_transformers() -> None:
    """Do what `quiet` does, and silence transformers' own bars and messages (imports it)."""
    from transformers.utils import logging

    quiet()
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def pinned(commit: str) -> Json:
    """Make the arguments of `from_pretrained` that pin a commit on the hub; none for a folder ("")."""
    return {"revision": commit, "local_files_only": offline()} if commit else {}


def model_arguments(options: Values, dtype: str = "auto") -> Json:
    """Make the arguments of `from_pretrained` that a model's options name; `dtype` if they name none."""
    arguments: Json = {"dtype": options.get("dtype", dtype)}
    if options.get("attention"):
        arguments["attn_implementation"] = options["attention"]
    if options.get("device_map"):
        arguments["device_map"] = options["device_map"]
    return arguments


def default_device(options: Values) -> str:
    """Choose the device in a model's options, otherwise the first GPU, otherwise the CPU."""
    import torch

    return str(options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))


def message_of(error: BaseException) -> str:
    """Write the text of an exception of a library on one line, at most 400 characters."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an exception of any library means that memory is used up."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "out of memory" in text
        or "allocate memory" in text
    )


def loading_error(model: str, error: BaseException) -> UserError:
    """Make the error of a model that does not load: the reason and the remedy in one line."""
    if isinstance(error, UserError):
        return error
    text = " ".join(str(error).split())
    lower, kind = text.lower(), type(error).__name__
    brief = text if len(text) <= 300 else text[:297] + "..."
    if is_out_of_memory(error):
        why = "it does not fit into memory; set the option device_map: auto, dtype: bfloat16, or take a smaller model"
    elif "weights only load failed" in lower or "weights_only" in lower or kind == "UnpicklingError":
        why = "its weights are a pickle that could run code, which is refused; convert them to safetensors"
    elif kind == "SafetensorError" or "safetensor" in lower or "failed finding central directory" in lower:
        why = f"its weights are damaged or incomplete ({brief}); fetch it again"
    elif "size mismatch" in lower or "mismatched" in lower or "ignore_mismatched_sizes" in lower:
        why = f"its weights do not fit its config.json ({brief}); fetch it again"
    elif "trust_remote_code" in lower or "custom code" in lower:
        return untrusted(model)
    elif isinstance(error, ImportError):
        why = f"it needs a package that is not installed ({brief})"
    elif "unrecognized" in lower or "does not recognize this architecture" in lower or "model type" in lower:
        why = f"the installed transformers does not know its architecture ({brief})"
    elif isinstance(error, FileNotFoundError | OSError) and not Path(model).expanduser().is_dir():
        return absent(model)
    else:
        why = brief or kind
    return UserError(f"cannot load model '{model}': {why}")
