"""A data folder of one prompt and some images, for tests of the labelling page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image


def make_data(folder: Path, names: list[str], **prompt: Any) -> Path:
    """Make the folder: an image of each name, a generator each; `prompt` is what the prompt has to be marked."""
    folder.mkdir()
    lines = []
    for number, name in enumerate(names):
        Image.new("L", (8, 8), 10 * number).save(folder / name)
        lines.append(json.dumps({"image": name, "prompt_id": "p", "generator": f"g{number}"}))
    (folder / "images.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "prompts.jsonl").write_text(json.dumps({"prompt_id": "p", "prompt": "a cat", **prompt}) + "\n")
    return folder
