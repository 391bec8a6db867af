"""The bundled example of known answers, cut down to what a test can probe in a second."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from PIL import Image
from servers import Seen

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "known_answer"


def first_prompt(folder: Path) -> Path:
    """The images of the example's first prompt, small, in a data folder."""
    (folder / "images").mkdir(parents=True)
    for name in ("prompts.jsonl", "pairs.jsonl"):
        shutil.copy(EXAMPLE / name, folder / name)
    records = [json.loads(line) for line in (EXAMPLE / "images.jsonl").read_text().splitlines()]
    kept = [record for record in records if record["prompt_id"] == records[0]["prompt_id"]]
    (folder / "images.jsonl").write_text("".join(json.dumps(record) + "\n" for record in kept))
    for record in kept:
        with Image.open(EXAMPLE / record["image"]) as image:
            image.resize((48, 48)).save(folder / record["image"])
    return folder


def answer(seen: Seen) -> str:
    """A judge of descriptions, alone and in pairs, and one who describes."""
    if seen.images:
        return f"A table with fruit, {seen.digest.hex()[:8]}."
    return json.dumps({"missing": [], "contradicted": [], "reason": "because", "score": 70, "better": "first"})
