"""Data folders for tests of the labelling page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders import write_lines
from PIL import Image

from titjudge.apps.label.dataset import LabelingData
from titjudge.apps.label.store import Store
from titjudge.core.types import Item, Pair


def make_data(folder: Path, names: list[str], **prompt: Any) -> Path:
    """Make a folder of one prompt: an image of each name, a generator each; `prompt` is what the prompt has to be marked."""
    folder.mkdir()
    images = [{"image": name, "prompt_id": "p", "generator": f"g{number}"} for number, name in enumerate(names)]
    return _write(folder, images, [{"prompt_id": "p", "prompt": "a cat"} | prompt])


def begin_store(
    path: Path, images: Sequence[str], *, gold: Sequence[Pair] = (), plan: str = "merge", annotators: int = 15
) -> Store:
    """Begin a store of one prompt, `p`; the generator of an image is `gen-` and its name."""
    items = {image: Item(image, "the prompt", None, f"gen-{image}", "p") for image in images}
    store = Store(path)
    dataset = LabelingData(path.parent, prompts={"p": "the prompt"}, items=items, gold=tuple(gold))
    store.begin(dataset, plan=plan, seed=0, rules={"annotators": annotators})
    return store


def _write(folder: Path, images: list[dict[str, str]], prompts: list[dict[str, Any]]) -> Path:
    for number, image in enumerate(images):
        Image.new("L", (8, 8), 10 * number).save(folder / image["image"])
    write_lines(folder / "images.jsonl", *images)
    write_lines(folder / "prompts.jsonl", *prompts)
    return folder
