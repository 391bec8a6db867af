"""Data folders for tests of the labelling page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders import write_lines
from PIL import Image


def make_data(folder: Path, names: list[str], **prompt: Any) -> Path:
    """Make a folder of one prompt: an image of each name, a generator each; `prompt` is what the prompt has to be marked."""
    folder.mkdir()
    images = [{"image": name, "prompt_id": "p", "generator": f"g{number}"} for number, name in enumerate(names)]
    return _write(folder, images, [{"prompt_id": "p", "prompt": "a cat", **prompt}])


def _write(folder: Path, images: list[dict[str, str]], prompts: list[dict[str, Any]]) -> Path:
    for number, image in enumerate(images):
        Image.new("L", (8, 8), 10 * number).save(folder / image["image"])
    write_lines(folder / "images.jsonl", *images)
    write_lines(folder / "prompts.jsonl", *prompts)
    return folder
