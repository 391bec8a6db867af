"""Data folders for tests of the labelling page, and stores that were made by version 1 of the store."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from builders import write_lines
from PIL import Image

VERSION_1 = Path(__file__).parent / "fixtures" / "labels_of_version_1"
_GRAPH = {
    "entities": ["cat", "mat"],
    "attributes": [["Cat", "black"], ["dog", "loud"]],
    "relations": [["cat", "on", "mat"]],
}


def make_data(folder: Path, names: list[str], **prompt: Any) -> Path:
    """Make a folder of one prompt: an image of each name, a generator each; `prompt` is what the prompt has to be marked."""
    folder.mkdir()
    images = [{"image": name, "prompt_id": "p", "generator": f"g{number}"} for number, name in enumerate(names)]
    return _write(folder, images, [{"prompt_id": "p", "prompt": "a cat", **prompt}])


def version_1_data(folder: Path) -> Path:
    """Make the data of the stores of version 1: three prompts with four images each."""
    folder.mkdir()
    shared = {
        "questions": ["A cat?", "Is the mat red?"], "graph": _GRAPH, "facets": {"Quality": [["Detail", "Noise"]]},
    }  # fmt: skip
    prompts = [{"prompt_id": f"p{p}", "prompt": f"a cat, {p}", **shared} for p in range(3)]
    prompts[1]["type"] = "counting"
    images = [
        {"image": f"p{p}n{n}.png", "prompt_id": f"p{p}", "generator": f"g{n}"} for p in range(3) for n in range(4)
    ]
    return _write(folder, images, prompts)


def version_1_store(path: Path, name: str) -> Path:
    """Make a store of version 1 from its dump."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript((VERSION_1 / f"{name}.sql").read_text(encoding="utf-8"))
    return path


def _write(folder: Path, images: list[dict[str, str]], prompts: list[dict[str, Any]]) -> Path:
    for number, image in enumerate(images):
        Image.new("L", (8, 8), 10 * number).save(folder / image["image"])
    write_lines(folder / "images.jsonl", *images)
    write_lines(folder / "prompts.jsonl", *prompts)
    return folder
