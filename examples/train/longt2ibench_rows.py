"""Write rows for `longt2iexpert.py` from a split file of LongT2IBench: what people marked, in the words that its paper asks for."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from titjudge.core.errors import DataError, TitjudgeError
from titjudge.core.files import write_atomic
from titjudge.core.prompts import PromptLibrary
from titjudge.core.types import ImageFile, InvalidItem
from titjudge.data.data_paths import inside
from titjudge.data.images import check_header
from titjudge.metrics.longt2ibench_text import target_text
from titjudge.suites.longt2ibench.suite import Annotated, read_split

LEVEL = "<level>"


def row(library: PromptLibrary, found: Annotated, images: Path) -> dict[str, Any]:
    """The question of the paper's chain of thought about the image, the answer that people's marks make, and their ratio."""
    if found.ratio is None:
        raise DataError("no Align ratio")
    image = inside(images, found.image)
    check_header(image)
    shown = ImageFile("", "", 0, 0, image, bytes)  # marks the place of the image
    asked = library.get("longt2ibench/ha_cot").messages({"prompt": found.prompt}, [shown])
    turns = [
        {
            "role": turn.role,
            "content": [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in turn.parts
            ],
        }
        for turn in asked
    ]
    answer = {"role": "assistant", "content": [{"type": "text", "text": f"{LEVEL} {target_text(found.truth)}"}]}
    return {
        "prompt": found.prompt,
        "images": [str(image.resolve())],
        "score": found.ratio,
        "messages": [*turns, answer],
    }


def main(words: list[str] | None = None) -> int:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("split", type=Path, help="such as train.json of LongT2IBench")
    flags.add_argument("--images", type=Path, required=True, help="folder that its image paths are below")
    flags.add_argument("--out", type=Path, required=True, help="the file of rows to write (.jsonl)")
    given = flags.parse_args(words)
    library, made, left = PromptLibrary(), [], []
    try:
        for found in read_split(given.split):
            if isinstance(found, InvalidItem):
                left.append(f"{found.id}: {found.reason}")
                continue
            try:
                made.append(row(library, found, given.images))
            except DataError as error:
                left.append(f"{given.split.name}[{found.index}]: {error}")
        if made:
            write_atomic(given.out, "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in made))
    except (TitjudgeError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(
        *left[:20],
        *([f"... and {len(left) - 20} more"] if len(left) > 20 else []),
        sep="\n",
        end="\n" * bool(left),
        file=sys.stderr,
    )
    print(f"{given.out}: {len(made)} rows, {len(left)} left out")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
