"""Small files that many tests need: pictures, folders of described pictures, JSON lines."""

import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from titjudge.core.types import Item


def png(path: Path, colour: tuple[int, int, int] | str = (180, 90, 40), size: int | tuple[int, int] = 16) -> Path:
    """A picture of one colour, square or of a width and a height; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size) if isinstance(size, int) else size, colour).save(path)
    return path


def edited(folder: Path, instruction: str = "paint the door red", sources: int = 1, **meta: Any) -> Item:
    """An edit: a result, and the images that it was made from, each of another colour."""
    shown = tuple(png(folder / f"source{n or ''}.png", (n, 2, 3)) for n in range(sources))
    return Item("i", instruction, png(folder / "result.png"), meta=meta, sources=shown)


def image_file(number: int, format: str = "PNG") -> bytes:
    """The bytes of a small image; another one for each number."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (number % 256, number // 256, 90)).save(out, format)
    return out.getvalue()


def described_images(folder: Path, count: int, text: str = "thing {number}") -> Path:
    """A folder of pictures 0.png, 1.png, ..., each of another colour, with its prompt in 0.txt, 1.txt, ..."""
    for number in range(count):
        name = f"{number:0{len(str(count - 1))}}"
        png(folder / f"{name}.png", (number * 9 % 256, 30, 90))
        (folder / f"{name}.txt").write_text(text.format(number=number), encoding="utf-8")
    return folder


def compared_images(folder: Path, images: int = 6, prompts: int = 2, preferences: str = "a") -> Path:
    """A data folder of pictures by three generators, each of another colour, with prompts and pairs.

    Each image but the first of its prompt is compared with the one before; `preferences` are what people said, in turn.
    """
    listed, pairs = [], []
    for number in range(images):
        name, prompt_id = f"{number}.png", f"p{number % prompts}"
        png(folder / name, (number * 7 % 256, number // 256, 90), 32)
        listed.append({"image": name, "prompt_id": prompt_id, "generator": f"g{number // prompts % 3}"})
        if number >= prompts:
            pair = {"prompt_id": prompt_id, "image_a": name, "image_b": f"{number - prompts}.png"}
            pairs.append({**pair, "preference": preferences[number % len(preferences)]})
    texts = [{"prompt_id": f"p{p}", "prompt": f"A scene with number {p} and a red cube."} for p in range(prompts)]
    for file, records in (("images", listed), ("pairs", pairs), ("prompts", texts)):
        write_lines(folder / f"{file}.jsonl", *records)
    return folder


def write_lines(path: Path, *records: Any) -> Path:
    """A file with one JSON record on each line; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON records on the lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
