"""Read the prompt that a program wrote into an image: text chunks of a PNG, or the EXIF comment of a JPEG or WebP.

ComfyUI, A1111 and diffusers scripts write text chunks, A1111 the comment. The file is untrusted: only chunks before the pixels
are read, and their unpacked size and the depth to which a ComfyUI graph is followed are limited.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from titjudge.core.cells import MAX_BYTES
from titjudge.core.numbers import as_sample
from titjudge.data.image_decoding import open_image, quietly

_HEAD = b"\x89PNG\r\n\x1a\n"
_EXIF, _USER_COMMENT = (
    0x8769,
    0x9286,
)  # tags: the table of camera settings, and the comment in it (Exif 2.32, 4.6.3 and 4.6.5)
_LONGEST = 2**20  # bytes of a comment
_MOST_NODES = 100  # of a graph, on the way to the text
_SETTINGS = re.compile(r"^Steps: \d+, .*\b[A-Z][\w ]*: ", re.MULTILINE)
_NEGATIVE = re.compile(r"^Negative prompt:", re.MULTILINE)
_SEED = re.compile(r"\bSeed: (\d+)")
_MODEL = re.compile(r"\bModel: ([^,\n]+)")
_TEXTS = tuple("text text_g text_l t5xxl clip_l clip_g prompt value string positive".split())
_TEXT_LIKE = re.compile(r"text|prompt|string|prefix|suffix|append|prepend|positive")
_LINK = re.compile(rf"{_TEXT_LIKE.pattern}|cond|guider|value|t5xxl|clip_[lg]$")
_NO_LINK = re.compile(r"neg|uncond")
_UNKNOWN = "\0"  # beside a text that a node may change in a way that is not known here
_SEEDS = ("seed", "noise_seed", "noise")
_MODELS = ("ckpt_name", "unet_name")


@dataclass(frozen=True, slots=True)
class EmbeddedPrompt:
    """How an image was made, from its file.

    Attributes:
        source: The program that wrote it.
    """

    prompt: str
    source: str
    seed: int = 0
    model: str = ""


def embedded_prompt(path: Path) -> EmbeddedPrompt | None:
    """Read the prompt in an image; None if there is none.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        if file.read(len(_HEAD)) != _HEAD:
            comment = _user_comment(path)
            # Cameras and phones write comments too ("Screenshot"): A1111's describes how the image was made.
            return (
                _a1111(comment)
                if _SETTINGS.search(comment) or _NEGATIVE.search(comment) or isinstance(_json(comment), dict)
                else None
            )
    texts = _texts(path)
    if "parameters" in texts:
        return _a1111(texts["parameters"])
    graph = _json(texts.get("prompt", ""))
    if isinstance(graph, dict) and (prompt := _comfyui(graph)) is not None:
        return prompt
    for name in ("prompt", "Description", "invokeai_metadata"):
        record = _json(text := texts.get(name, ""))
        if isinstance(record, dict):
            text = next((record[key] for key in ("prompt", "positive_prompt") if isinstance(record.get(key), str)), "")
        if text.strip():
            record = record if isinstance(record, dict) else {}
            return EmbeddedPrompt(
                text.strip(), "its text chunk", as_sample(record.get("seed") or texts.get("seed", ""))
            )
    return None


def _texts(path: Path) -> dict[str, str]:
    """Read the text chunks before the pixels; Pillow bounds their unpacked size."""
    from PIL.PngImagePlugin import PngImageFile

    with path.open("rb") as file:
        try:
            texts = PngImageFile(file).info
        except (SyntaxError, ValueError, OSError):
            return {}
    return {name: _decoded(text) for name, text in texts.items() if isinstance(name, str) and isinstance(text, str)}


def _decoded(text: str) -> str:
    """Decode what many programs write as UTF-8 although the format demands Latin-1."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _user_comment(path: Path) -> str:
    """Read the comment in the EXIF data of an image; empty if there is none."""
    if not 0 < path.stat().st_size <= MAX_BYTES:
        return ""
    try:
        with path.open("rb") as file, quietly(), open_image(file, path, decode=False) as image:
            comment = image.getexif().get_ifd(_EXIF).get(_USER_COMMENT, b"")
    except Exception:  # of a damaged file Pillow raises anything; it is reported when the image is read
        return ""
    if isinstance(comment, str):
        comment = comment.encode("utf-8", "replace")
    return _comment_text(comment) if isinstance(comment, bytes) and len(comment) <= _LONGEST else ""


def _comment_text(comment: bytes) -> str:
    """Decode a comment by the eight bytes before it; programs that declare UNICODE write UTF-16 of either order, or UTF-8."""
    code, text = comment[:8], comment[8:]
    if code != b"UNICODE\0":
        text = text if code in (b"ASCII\0\0\0", bytes(8)) else comment
    elif text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16", "replace")
    elif b"\0" in text or not _is_utf8(text):
        return text.decode("utf-16-le" if text[1::2].count(0) > text[0::2].count(0) else "utf-16-be", "replace")
    return text.decode("utf-8", "replace").strip("\0")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _a1111(text: str) -> EmbeddedPrompt | None:
    """Read the prompt, seed and model from text as A1111 writes it."""
    record = _json(text)  # some forks of A1111 write JSON
    if isinstance(record, dict):
        prompt = record.get("prompt")
        return (
            EmbeddedPrompt(prompt.strip(), "A1111", as_sample(record.get("seed"))) if isinstance(prompt, str) else None
        )
    # A prompt may contain such lines: the lines that A1111 writes are the last ones.
    *_, settings_at = len(text), *(match.start() for match in _SETTINGS.finditer(text))
    *_, end = settings_at, *(match.start() for match in _NEGATIVE.finditer(text, 0, settings_at))
    prompt, settings = text[:end].strip(), text[settings_at:]
    seed, model = _SEED.search(settings), _MODEL.search(settings)
    name = model[1].strip() if model else ""
    return EmbeddedPrompt(prompt, "A1111", as_sample(seed[1]) if seed else 0, name) if prompt else None


def _comfyui(graph: Mapping[str, Any]) -> EmbeddedPrompt | None:
    """Read a graph of ComfyUI: the text that its samplers get, its first seed and its first model.

    None if the links from the samplers lead to no text, or to several that are joined. A graph without samplers has the text of
    its text encoders.
    """
    nodes = {
        name: node["inputs"]
        for name, node in graph.items()
        if isinstance(node, dict) and isinstance(node.get("inputs"), dict)
    }
    roots = [{key: inputs[key] for key in ("positive", "guider") if key in inputs} for inputs in nodes.values()]
    if not any(roots):
        roots = [inputs for name, inputs in nodes.items() if "TextEncode" in str(graph[name].get("class_type", ""))]
    texts = {text for inputs in roots for text in _texts_of(nodes, inputs, set())}
    if len(texts) != 1 or _UNKNOWN in texts:
        return None
    seeds = (as_sample(inputs.get(key, "")) for inputs in nodes.values() for key in _SEEDS)
    models = (str(inputs[key]) for inputs in nodes.values() for key in _MODELS if isinstance(inputs.get(key), str))
    file = next(models, "").replace("\\", "/").rpartition("/")[2]
    return EmbeddedPrompt(texts.pop(), "ComfyUI", next(filter(None, seeds), 0), file.rsplit(".", 1)[0])


def _texts_of(nodes: Mapping[str, Mapping[str, Any]], inputs: Mapping[str, Any], seen: set[str]) -> set[str]:
    """Return the texts that a node receives, following its links to other nodes, each of them once.

    Flux reads the prompt from `t5xxl`; its `clip_l` sets the style of the whole image.
    """
    known: set[str] = set()
    unknown: set[str] = set()
    for key, value in inputs.items():
        if (
            isinstance(value, str)
            and value.strip()
            and (key in _TEXTS or _TEXT_LIKE.search(key))
            and not _NO_LINK.search(key)
        ):
            if key != "clip_l" or "clip_g" in inputs or not inputs.get("t5xxl"):
                (known if key in _TEXTS else unknown).add(value.strip())
        elif isinstance(value, list) and value and _LINK.search(key) and not _NO_LINK.search(key):
            name = str(value[0])
            if len(seen) == _MOST_NODES:
                return {_UNKNOWN, *known}
            if name in nodes and name not in seen:
                seen.add(name)
                known |= _texts_of(nodes, nodes[name], seen)
    return known | unknown if known else {_UNKNOWN for _ in unknown}
