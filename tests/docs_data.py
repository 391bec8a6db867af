"""What the commands of README and docs name, made small: images with prompts, runs, votes, tables; and models that answer at once."""

import csv
import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import image_service
from builders import png, read_lines, write_lines

from titjudge.apps.generate.image_models import GeminiImages, ImageRequest, MadeImage, OpenAIImages
from titjudge.core.types import Reply, Request, Usage
from titjudge.providers.dry_run import made_up_reply
from titjudge.providers.fake import Fake
from titjudge.providers.hosted.gemini import Gemini
from titjudge.providers.hosted.openai import OpenAI

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "known_answer"
GENERATORS = {"model_a": "old", "model_b": "new", "model_c": "base", "model_d": "other"}

THINGS = ("fruit on a wooden table", "a lamp beside books", "a harbour at night", "nothing in particular")


class _AtOnce:
    """Answers without a request: another answer for each image, and the same when it is asked again."""

    async def complete(self, request: Request) -> Reply:
        number = _number(request)
        reply = made_up_reply(request, f"A picture of {THINGS[number % len(THINGS)]}, number {number}.")
        text = re.sub(r'"score": \[\d, \d\]', f'"score": [{number % 11}, {number // 11 % 11}]', reply.text)
        if request.schema:
            text = re.sub(r'"score": ?-?[0-9.]+', f'"score": {number % 100}', text)
        return replace(reply, text=text, usage=Usage(input=100, output=20), model_version="one", endpoint="here")


class OpenAIAtOnce(_AtOnce, OpenAI):
    """OpenAI's models and prices, without OpenAI."""


class GeminiAtOnce(_AtOnce, Gemini):
    """Gemini's models and prices, without Google."""


class LocalAtOnce(_AtOnce, Fake):
    """A model of this machine, without its weights."""


HOSTED = {
    "openai": "docs_data:OpenAIAtOnce", "gemini": "docs_data:GeminiAtOnce",
    "local": "docs_data:LocalAtOnce", "vllm": "docs_data:LocalAtOnce",
}  # fmt: skip


class _PaintsAtOnce:
    """Makes an image of its own for each prompt and model, without a request."""

    async def make(self, request: ImageRequest) -> MadeImage:
        shade = hashlib.sha256(f"{request.name} {request.prompt}".encode()).hexdigest()[:6]
        return MadeImage(image_service.picture(f"#{shade}"), Usage(input=50, output=200))


class OpenAIPaintsAtOnce(_PaintsAtOnce, OpenAIImages):
    """OpenAI's image models and prices, without OpenAI."""


class GeminiPaintsAtOnce(_PaintsAtOnce, GeminiImages):
    """Gemini's image models and prices, without Google."""


PAINTERS = {"openai": OpenAIPaintsAtOnce, "gemini": GeminiPaintsAtOnce}


def _number(request: Request) -> int:
    parts = [part if isinstance(part, str) else part.sha256 for message in request.messages for part in message.parts]
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:6], 16)  # of the content: paths differ in each run


def working_folder(folder: Path) -> None:
    """Lay out what a reader has before the first command of a page."""
    (folder / "examples").symlink_to(EXAMPLE.parent)
    my_images(folder / "my_images")
    for name in ("old/1_0.png", "new/1_0.png", "old/2_0.png", "new/2_0.png"):
        picture(folder / "out" / name)
    (folder / "prompts.csv").write_text("index,prompt_en,prompt\n1,a cat,a cat\n2,a dog,a dog\n")
    for name in ("step_1000/0000.png", "step_2000/0000.png", "step_1000/0001.png", "step_2000/0001.png"):
        picture(folder / "samples" / name)
    (folder / "samples" / "prompts.txt").write_text("a cat\na dog\n")
    (folder / "prompts.txt").write_text("\n".join(f"{number} cubes on a table" for number in range(1, 7)))
    (folder / "my_list.csv").write_text("id,prompt\n0,a cat\n1,a dog\n")
    picture(folder / "image.png")
    picture(folder / "flux.png")
    picture(folder / "sd3.png")
    (folder / "shared.csv").write_text("flux;sd3;prompt_en\nflux.png;sd3.png;a cat\n")
    votes(folder)
    marks(folder)
    edits(folder)


def my_images(folder: Path) -> None:
    """Four checkpoints on the prompts of the bundled example, as a folder with prompts.jsonl and images.jsonl."""
    prompts = read_lines(EXAMPLE / "prompts.jsonl")
    folder.mkdir(parents=True)
    write_lines(
        folder / "prompts.jsonl", *({**row, "type": ("text", "scene")[at % 2]} for at, row in enumerate(prompts))
    )
    rows = [row for row in read_lines(EXAMPLE / "images.jsonl") if row["variant_model"] in GENERATORS]
    named = [
        {"image": row["image"], "prompt_id": row["prompt_id"], "generator": GENERATORS[row["variant_model"]]}
        for row in rows
    ]
    write_lines(folder / "images.jsonl", *named)
    (folder / "images").mkdir()
    for row in rows:
        shutil.copy(EXAMPLE / row["image"], folder / row["image"])


def votes(folder: Path) -> None:
    """Preferences of people between the two checkpoints, in the forms that commands read."""
    rows = read_lines(folder / "my_images" / "images.jsonl")
    by_prompt: dict[str, dict[str, str]] = {}
    for row in rows:
        by_prompt.setdefault(row["prompt_id"], {})[row["generator"]] = row["image"]
    pairs = [
        {"prompt_id": name, "image_a": images["old"], "image_b": images["new"], "preference": "ab"[at % 3 == 0]}
        for at, (name, images) in enumerate(by_prompt.items())
    ]
    write_lines(folder / "votes.jsonl", *({**pair, "annotator": "me"} for pair in pairs))
    for name in ("human_pairs.jsonl", "gold.jsonl"):
        write_lines(folder / name, *pairs)
    battles = [{"prompt_id": name, "model_a": "old", "model_b": "new", "winner": "model_a"} for name in by_prompt]
    write_lines(folder / "battles.jsonl", *battles)
    ratings = [f"{row['image']},{3 + at % 3},p{at % 2}" for at, row in enumerate(rows)]
    (folder / "sweep.yaml").write_text(
        "data: my_images\npairs: human_pairs.jsonl\nmetrics: [tit-llm]\ncaptioners: [openai/gpt-6-luna]\n"
        "judges: [openai/gpt-6-luna, gemini/gemini-3.8-flash]\n"
    )
    (folder / "ratings.csv").write_text("\n".join(["image,score,annotator", *ratings]) + "\n")


def marks(folder: Path) -> None:
    """What people say of single elements: one of the graph of each image, and one question."""
    prompts = {row["prompt_id"]: row for row in read_lines(folder / "my_images" / "prompts.jsonl")}
    rows = [(row["image"], prompts[row["prompt_id"]]) for row in read_lines(folder / "my_images" / "images.jsonl")]
    for name, element in (
        ("known.csv", lambda of: of["graph"]["entities"][0]),
        ("marks.csv", lambda of: of["questions"][0]),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("image", "element", "value"), *((i, element(of), "yes") for i, of in rows)])


def edits(folder: Path) -> None:
    """Three edits by five editors, as a table and as a tree; four of the editors once more, as `again.jsonl`."""
    names = ("1_0", "2_0", "3_0")
    rows = [
        {"source_image": f"src/{name}.png", "edited_image": f"{model}/{name}.png", "instruction": f"Make thing {name} red.",
         "model": model, "prompt_id": name}
        for model in ("mine", "old", "new", "base", "other") for name in names
    ]  # fmt: skip
    for path in {row[key] for row in rows for key in ("source_image", "edited_image")}:
        picture(folder / "edits" / path)
    write_lines(folder / "edits" / "edits.jsonl", *rows)
    write_lines(folder / "edits" / "again.jsonl", *rows[len(names) :])
    for name in names[:2]:
        picture(folder / "src" / f"{name}.png")
    (folder / "edits.csv").write_text("id,instruction\n1_0,Make it red.\n2_0,Make it blue.\n")


def picture(path: Path) -> None:
    """A small image, another one for each path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    png(path, tuple(hashlib.sha256(path.name.encode() + path.parent.name.encode()).digest()[:3]))
