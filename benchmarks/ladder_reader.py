"""What `tit-agent` by sight makes of the answers of an outside reader about ladder scenes.

    python -m benchmarks.ladder_reader

The scenes are made anew: 20 of each template, difficulty 1, seed 55210, each without an error and with one: 60 pairs. A
vision-language model answered what `tit-agent` asks with `first_look=sight`, from the pictures alone: `ladder_reader.jsonl`. Ten
sessions saw 12 images each, and none saw both images of a scene. They had neither annotation nor scene source, and did not know how many
images have an error. Most of them saw several images before they wrote their answers. A program split the prompts into claims.

"wrong found": wrong elements that are not met at the end. "false not met": claims about a right element that are not met.
"crops": enlarged places of an image. Tokens are estimated from texts and pictures, and USD from the list price of openai/gpt-4o.
The split is divided among four images of a prompt, as on the ladder. The price of tit-llm is that of its two requests with a
description of 400 tokens and an answer of 85.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from titjudge.core.prompts import PromptLibrary
from titjudge.engine.prices import price_of
from titjudge.metrics.agent import looks
from titjudge.providers.token_counts import image_tokens, text_tokens_estimate

ROOT = Path(__file__).resolve().parents[1]
RECORDED = Path(__file__).with_suffix(".jsonl")
TEMPLATES = ("cabinet", "stand", "shelves")
MADE = "--ladder 1 --scenes 20 --seed 55210 --levels 0,1"
SIGHT = "--provider recorded --metric tit-agent --set metric_options.tit-agent.first_look=sight"
PRICED_AS = ("openai", "gpt-4o")
DESCRIBED, COMPARED = 400, 85  # tokens of the answers of tit-llm
IMAGES = 4  # of a prompt


def titjudge(*arguments: str | Path) -> None:
    """Run a command of titjudge."""
    subprocess.run([sys.executable, ROOT / "cli.py", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip


def lines(file: Path) -> Iterator[Any]:
    yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def dollars(sent: float, answered: float) -> float:
    """USD for 1,000 images."""
    price = price_of(*PRICED_AS)
    assert price is not None
    return (sent * price.input + answered * price.output) / 1000


def price_of_answer(reply: Any, sizes: dict[str, tuple[int, int]]) -> float:
    """USD for 1,000 answers like this one."""
    parts = [part for _, *of_turn in reply["messages"] for part in of_turn]
    sent = sum(text_tokens_estimate(part) if isinstance(part, str) else image_tokens(*PRICED_AS, *sizes[part["image"]]) for part in parts)  # fmt: skip
    return dollars(sent, text_tokens_estimate(reply["text"])) / (IMAGES if reply["template"] == "agent/split" else 1)


def price_of_tit_llm(prompt: str) -> float:
    """USD for 1,000 images of a prompt."""
    library = PromptLibrary()
    given = [library.get("tit/describe").messages({}), library.get("tit/compare").messages({"prompt": prompt, "description": "word " * DESCRIBED})]  # fmt: skip
    texts = sum(text_tokens_estimate(message.text) for messages in given for message in messages)
    return dollars(texts + image_tokens(*PRICED_AS, 1024, 1024), DESCRIBED + COMPARED)


def sizes_of(data: Path, scores: list[Any]) -> dict[str, tuple[int, int]]:
    """Sizes of the images, of their overviews and of the enlarged places, by the hash of their bytes."""
    found = {}
    for score in scores:
        file = data / score["item"]
        boxes = [tuple(row["box"]) for row in score["parts"]["evidence"] if row["box"]]
        contents = [file.read_bytes(), *looks.crop(file, boxes, looks.AMONG_OTHERS), *looks.crop(file, [looks.WHOLE], looks.OVERVIEW)]  # fmt: skip
        for content in contents:
            name = hashlib.sha256(content).hexdigest()
            place = Path(data.parent / name)
            place.write_bytes(content)
            with Image.open(place) as image:
                found[name] = image.size
    return found


def measure(template: str, folder: Path) -> list[Any]:
    """Return wrong elements and those found, right claims and those not met, pairs and those in order, crops, and USD."""
    data, run = folder / template, folder / f"{template}-run"
    titjudge("probe", "images", *MADE.split(), "--scene", template, "--out", data)
    shutil.copy(RECORDED, data / "answers.jsonl")
    titjudge("judge", "--data", data, *SIGHT.split(), "--out", run)
    errors = {row["image"]: [error["element"][0] for error in row["errors"]] for row in lines(data / "images.jsonl")}
    scores, sums, values = list(lines(run / "scores.jsonl")), [0, 0, 0, 0], dict[str, dict[int, float]]()
    for score in scores:
        wrong = {name.casefold() for name in errors[score["item"]]}
        not_met = [row["thing"] for row in score["parts"]["claims"] if row["verdict"] == "not_met"]
        false = [thing for thing in not_met if thing not in wrong]
        counts = (len(wrong), len(wrong & {*not_met}), len(score["parts"]["claims"]) - len(not_met) + len(false), len(false))  # fmt: skip
        sums = [one + two for one, two in zip(sums, counts, strict=True)]
        values.setdefault(score["prompt_id"], {})[len(wrong)] = score["value"]
    in_order = sum(of_prompt[0] > of_prompt[1] for of_prompt in values.values())
    crops = sum(bool(row["box"]) for score in scores for row in score["parts"]["evidence"]) / len(scores)
    sizes = sizes_of(data, scores)
    usd = sum(price_of_answer(reply, sizes) * (len(scores) / len(values) if reply["template"] == "agent/split" else 1) for reply in lines(run / "replies.jsonl")) / len(scores)  # fmt: skip
    prompts = [row["prompt"] for row in lines(data / "prompts.jsonl")]
    of_tit = sum(map(price_of_tit_llm, prompts)) / len(prompts)
    return [*sums, len(values), in_order, crops, usd, of_tit]


def main() -> None:
    print("| template | wrong found | false not met | one error below none | crops | USD per 1,000 | to tit-llm |")
    print(f"|{' --- |' * 7}")
    with tempfile.TemporaryDirectory() as folder:
        for template in TEMPLATES:
            wrong, found, right, false, pairs, in_order, crops, usd, of_tit = measure(template, Path(folder))
            print(f"| {template} | {found} of {wrong} | {false} of {right} | {in_order} of {pairs} | {crops:.1f} | {usd:.1f} | {usd / of_tit:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
