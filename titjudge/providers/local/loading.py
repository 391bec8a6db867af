"""Load a model of this machine: the right Auto class, a processor without torchvision, one line when it fails.

torch and transformers are imported when a model is loaded, in the worker thread.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from titjudge.core.errors import UserError
from titjudge.core.types import Json, Values
from titjudge.providers.local import hardware, hub

_NAMES_BEFORE_4_52 = {r"^model\.(?=layers\.)": "model.language_model.", r"^visual\.": "model.visual."}
"""How transformers from 4.52 on names the parts of a vision-language model that adapters trained before it name otherwise."""
_WRAPPERS = ("module.", "_orig_mod.", "base_model.model.")
"""Prefixes that training wrappers add to the names of parameters."""
_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to generate.

    Attributes:
        model: As transformers loads it.
        processor: Of its images and texts.
        tokenizer: Of its texts.
        images: It reads images.
        device: The device that computes, as torch names it.
        dtype: Name of its floating-point type.
        attention: The implementation of attention.
        eos: Tokens that end an answer.
        pad: The token that fills up shorter rows.
        image_token: The token that stands for an image; None if there is none.
        positions: Maximum number of tokens that are read and written.
    """

    model: Any
    processor: Any
    tokenizer: Any
    images: bool
    device: str
    dtype: str
    attention: str
    eos: frozenset[int]
    pad: int
    image_token: int | None
    positions: int


def load(name: str, folder: Path, commit: str, options: Values) -> LoadedModel:
    """Load the model `name`, whose small files lie in `folder`.

    Raises:
        UserError: It is not there or too large, its architecture is unknown, it has remote code, or its weights are damaged
            or pickled.
    """
    hub.quiet_transformers()
    device = hub.default_device(options)
    _refuse_too_large(name, folder, device, options)
    source = str(folder) if not commit else name
    common = {"trust_remote_code": bool(options.get("trust_remote_code", False)), **hub.pinned(commit)}
    try:
        import transformers

        config = transformers.AutoConfig.from_pretrained(source, **common)
        images = type(config) in transformers.AutoModelForImageTextToText._model_mapping
        auto = transformers.AutoModelForImageTextToText if images else transformers.AutoModelForCausalLM
        processor = (
            load_processor(source, **dict(options.get("processor") or {}), **common)
            if images
            else transformers.AutoTokenizer.from_pretrained(source, **common)
        )
        with complete_weights(name):
            model = auto.from_pretrained(source, **hub.model_arguments(options), **common)
        if not options.get("device_map"):
            model.to(device)
        if options.get("adapter"):
            model = _with_adapter(model, str(options["adapter"]))
    except Exception as error:  # loaders raise of every kind
        raise hub.loading_error(name, error) from error
    model.eval()
    return _loaded(name, model, processor, images, options)


class _Loading(NamedTuple):
    """Whose weights are loaded, and the beginnings of parameters that may be missing, as nothing reads them."""

    name: str
    spare: tuple[str, ...]


_loading: ContextVar[_Loading | None] = ContextVar("loading", default=None)


@contextmanager
def complete_weights(name: str, spare: tuple[str, ...] = ()) -> Iterator[None]:
    """Refuse incomplete weights of every model that transformers loads in the block, also if a library calls it.

    transformers gives parameters that are not in the files random values, and only logs it.

    Raises:
        UserError: Parameters of `name` are missing, or have the prefix of a training wrapper.
    """
    from transformers import PreTrainedModel

    if PreTrainedModel.from_pretrained.__func__.__module__ != __name__:
        PreTrainedModel.from_pretrained = classmethod(_checked(PreTrainedModel.from_pretrained.__func__))
    token = _loading.set(_Loading(name, spare))
    try:
        yield
    finally:
        _loading.reset(token)


def _checked(load: Any) -> Any:
    """Wrap transformers' `from_pretrained`: in a `complete_weights` block it checks what it has loaded."""

    def from_pretrained(cls: Any, *arguments: Any, output_loading_info: bool = False, **named: Any) -> Any:
        loading = _loading.get()
        if loading is None:
            return load(cls, *arguments, output_loading_info=output_loading_info, **named)
        model, report = load(cls, *arguments, output_loading_info=True, **named)
        missing = [key for key in report["missing_keys"] if not key.startswith(loading.spare)]
        refuse_incomplete(loading.name, missing, report["unexpected_keys"], model.state_dict().keys())
        return (model, report) if output_loading_info else model

    return from_pretrained


def refuse_incomplete(name: str, missing: Collection[str], unexpected: Collection[str], known: Collection[str]) -> None:
    """Refuse weights without some parameters of their model, or with the names of a training wrapper.

    Args:
        name: The model.
        missing: Parameters of the model that are not in its files.
        unexpected: Names in the files that are not parameters of the model.
        known: All parameters of the model.

    Raises:
        UserError: Names the first parameter, and the likely cause.
    """
    wrapped = sorted(key for key in unexpected for wrapper in _WRAPPERS if key.removeprefix(wrapper) in known)
    if not missing and not wrapped:
        return
    what = f"{len(missing)} of {len(known)} parameters are not in its files, first '{min(missing or wrapped)}'"
    if prefix := _prefix_of(unexpected, known):
        cause = f"The names in its files begin with '{prefix}'. Remove this prefix from them"
    elif unexpected:
        cause = f"Its files have '{min(unexpected)}', which does not belong to it. Download the files of this model and version"
    else:
        cause = "A file or a layer can be missing. Download the model again"
    raise UserError(f"cannot load model '{name}': {what}. {cause}")


def _prefix_of(unexpected: Collection[str], known: Collection[str]) -> str:
    """Find the prefix of the names of parameters in the files; empty if there is none."""
    for key in unexpected:
        wrapper = "".join(wrapper for wrapper in _WRAPPERS if key.startswith(wrapper))
        dots = [index + 1 for index, letter in enumerate(key) if letter == "."]
        if prefix := wrapper or next((key[:dot] for dot in dots if key[dot:] in known), ""):
            return prefix
    return ""


def _with_adapter(model: Any, adapter: str) -> Any:
    """Merge a LoRA adapter, a folder or a name on the hub, into the weights of a model.

    Raises:
        UserError: There is none, peft is missing, or weights of the adapter belong to another model.
    """
    folder, commit = hub.folder_of(adapter)
    try:
        from peft import PeftModel
    except ImportError as error:
        raise UserError("the option adapter needs peft: pip install 'titjudge[train]'") from error
    names = _NAMES_BEFORE_4_52 if hasattr(getattr(model, "model", None), "language_model") else None
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        source = adapter if commit else str(folder)
        tuned = PeftModel.from_pretrained(model, source, key_mapping=names, **hub.pinned(commit))
    if any("missing adapter keys" in str(record.message) for record in records):
        raise UserError(
            f"the adapter '{adapter}' has no weights for some layers of its configuration. Check that it belongs to this model"
        )
    return tuned.merge_and_unload()


def load_processor(source: str, **arguments: Any) -> Any:
    """Load a model's processor with PIL image processing, without its video half if torchvision is missing.

    transformers refuses to build a processor with a video half without torchvision, even for images alone. If torchvision
    is installed, it would use torchvision's image processing, whose pixels differ: an answer must not depend on that.
    """
    from transformers import AutoImageProcessor, AutoProcessor
    from transformers.utils import is_torchvision_available

    arguments = copy.deepcopy(arguments)
    size = arguments.pop("size", None)
    try:
        processor = AutoProcessor.from_pretrained(source, **arguments)
    except (ImportError, ValueError) as error:
        if not any(name in str(error).lower() for name in ("torchvision", "video processor")):
            raise
        processor = _without_video(source, arguments)
    else:
        if is_torchvision_available():
            processor.image_processor = AutoImageProcessor.from_pretrained(source, backend="pil", **arguments)
    if size is not None:
        processor.image_processor = _sized(source, size, arguments)
    return processor


def _sized(source: str, size: Any, arguments: Values) -> Any:
    """Load the image half of a processor with the size that the user set.

    If the released preprocessor_config.json has min_pixels and max_pixels (Qwen2-VL, Qwen2.5-VL), transformers prefers
    them to `size`, writes them into the caller's mapping, and passes that mapping to the text half, too.
    """
    from transformers import AutoImageProcessor

    images = AutoImageProcessor.from_pretrained(source, backend="pil", size=copy.deepcopy(size), **arguments)
    if isinstance(size, Mapping):
        current = {name: value for name, value in dict(images.size).items() if value is not None}
        if any(current.get(name) != value for name, value in size.items()):
            images.size = type(images.size)(**{**current, **size})
    return images


def _without_video(source: str, arguments: Json) -> Any:
    """Load a processor by a subclass of its class that has no video half."""
    from transformers import AutoConfig
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    of_source = ("revision", "local_files_only", "trust_remote_code")
    config = AutoConfig.from_pretrained(source, **{name: arguments[name] for name in of_source if name in arguments})
    base: Any = PROCESSOR_MAPPING[type(config)]
    names = list(base.get_attributes())
    position = names.index("video_processor")

    def attributes(cls: Any) -> list[str]:
        return [name for name in names if name != "video_processor"]

    def parts(cls: Any, *args: Any, **kwargs: Any) -> list[Any]:
        loaded = list(base._get_arguments_from_pretrained.__func__(cls, *args, **kwargs))
        return [*loaded[:position], None, *loaded[position:]]

    methods = {"get_attributes": classmethod(attributes), "_get_arguments_from_pretrained": classmethod(parts)}
    subclass: Any = type(base.__name__, (base,), methods)
    processor = subclass.from_pretrained(source, **arguments)
    if getattr(processor, "video_processor", None) is None:  # SmolVLM reads it for images too
        processor.video_processor = SimpleNamespace(num_frames=1, fps=1, size={}, merge_size=1)
    return processor


def _loaded(name: str, model: Any, processor: Any, images: bool, options: Values) -> LoadedModel:
    """Collect what generation needs of a model and its processor.

    Raises:
        UserError: There is no chat template, or no token to pad with.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if not getattr(processor, "chat_template", None) and not getattr(tokenizer, "chat_template", None):
        raise UserError(f"model '{name}' is a base model without chat template. Use its instruct or chat version")
    eos = model.generation_config.eos_token_id
    eos = tokenizer.eos_token_id if eos is None else eos
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise UserError(f"the tokenizer of '{name}' has neither a padding nor an end token. Use another model")
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    config = model.config
    text_config = config.get_text_config()
    image_token = getattr(config, "image_token_id", getattr(config, "image_token_index", None))
    return LoadedModel(
        model=model,
        processor=processor,
        tokenizer=tokenizer,
        images=images,
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        attention=str(getattr(config, "_attn_implementation", "") or ""),
        eos=frozenset(eos if isinstance(eos, list) else [] if eos is None else [eos]),
        pad=int(tokenizer.pad_token_id),
        image_token=image_token if isinstance(image_token, int) else None,
        positions=int(getattr(text_config, "max_position_embeddings", 0) or 2**31),
    )


# -- memory ------------------------------------------------------------------------------------------------------------


def weight_bytes(folder: Path, dtype: str) -> int:
    """Compute the bytes of the weights in memory as `dtype` ("auto": as on disk); 0 when they are not in the folder."""
    weights = list(folder.glob("*.safetensors")) or folder.glob("*.bin")
    size = sum(path.stat().st_size for path in weights)
    config = hub.read_json(folder, "config.json")
    stored = str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")
    if dtype in _BYTES and stored in _BYTES and "quantization_config" not in config:
        size = size * _BYTES[dtype] // _BYTES[stored]
    return size


def free_bytes(device: str) -> int | None:
    """Measure the free memory of a device in bytes, within what a container may use; None if it cannot be measured."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    if device != "cpu" or not Path("/proc/meminfo").is_file():  # elsewhere it would be a guess
        return None
    return hardware.memory().free or None


def _refuse_too_large(name: str, folder: Path, device: str, options: Values) -> None:
    """Refuse weights that do not fit, before the operating system kills the process for them."""
    if options.get("device_map"):
        return
    needed, free = weight_bytes(folder, str(options.get("dtype", "auto"))), free_bytes(device)
    if free is not None and needed > free:
        raise UserError(
            f"cannot load model '{name}': its weights need {needed / 2**30:.1f} GiB as {options.get('dtype', 'auto')}, but "
            f"{device} has {free / 2**30:.1f} GiB free. Set device_map: auto or dtype: bfloat16, or use a smaller model"
        )
