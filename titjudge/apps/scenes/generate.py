"""Make a folder of known-answer images: plan each scene from the seed, render and annotate it; can be resumed.

DIR/prompts.jsonl, images.jsonl, pairs.jsonl, README.md, images/   as `--suite known-answer` reads them
DIR/made.json      with which options
DIR/.made/         a file for each scene with its finished images; the jsonl files are written from them
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from titjudge.apps.scenes import annotation, crowd
from titjudge.apps.scenes.annotation import AnnotatedQuestion
from titjudge.apps.scenes.composition import alike_behind, compose, graph_of, write
from titjudge.apps.scenes.errors import KINDS_OF_ERROR, TEXT, draw
from titjudge.apps.scenes.ladder import readme, template_of
from titjudge.apps.scenes.scene import AskedElements, Options, Scene, ShownScene
from titjudge.apps.scenes.template import Template
from titjudge.core.errors import DataError, UserError
from titjudge.core.files import read_json, write_atomic, write_jsonl
from titjudge.core.types import Json
from titjudge.runs.folder.run_folder import FolderLock

VERSION = "2"  # raised when the same seed makes other scenes
_TRIES, _REDRAWS = 80, 10
_QUALITY = 92  # JPEG

Look = Callable[[Scene, AskedElements], list[str]]  # lists what cannot be seen in a scene
Render = Callable[[Scene], Any]  # returns an image: (size, size, 3), 0 to 255


@dataclass(frozen=True, slots=True)
class ScenePlan:
    """A scene with its prompt and questions, and the content of each level."""

    prompt_id: str
    prompt: str
    asked: Scene
    graph: AskedElements
    asks: list[AnnotatedQuestion]
    shown: tuple[ShownScene, ...]
    models: tuple[str, ...]

    def prompt_record(self) -> Json:
        return annotation.prompt_record(self.prompt_id, self.prompt, self.asked, self.graph, self.asks)


@dataclass(frozen=True, slots=True)
class RenderProgress:
    """Images that are done, all images, and those made in this call."""

    done: int
    total: int
    fresh: int


@dataclass(frozen=True, slots=True)
class Grammar:
    """The functions that compose, word and spoil one sort of scenes; `name` begins its prompt ids, `salt` is in its draws."""

    name: str
    salt: str
    compose: Callable[[Random, str], Scene]
    graph_of: Callable[[Scene, Random], AskedElements]
    write: Callable[[Scene, AskedElements, Random], str]
    questions: Callable[[Scene, AskedElements, Random], list[AnnotatedQuestion]]
    draw: Callable[[int, Scene, AskedElements, str, Random], ShownScene | None]
    kinds: tuple[str, ...] = KINDS_OF_ERROR
    unfit: Callable[[Scene], bool] = lambda _: False


SIMPLE = Grammar(
    "scene",
    "scenes",
    lambda rng, kind: compose(rng, with_sign=kind == TEXT or rng.random() < 0.7),
    graph_of,
    write,
    annotation.questions,
    draw,
    unfit=lambda scene: alike_behind(scene.things),
)
CROWDED = Grammar(
    "crowd",
    "crowds",
    crowd.compose,
    crowd.graph_of,
    crowd.write,
    annotation.questions,
    draw,
)


def _of_ladder(template: Template, difficulty: int) -> Grammar:
    rung = template.rungs[difficulty]
    return Grammar(
        f"{template.prefix}{difficulty}",
        f"{template.prefix} {difficulty}",
        lambda rng, _: template.compose(rng, rung),
        lambda scene, _: template.graph_of(scene),
        lambda scene, _, rng: template.write(scene, rng),
        lambda scene, _, rng: template.questions(scene, rng),
        lambda level, asked, _, kind, rng: template.draw(level, asked, kind, rng, rung),
        template.kinds,
    )


def _grammar(options: Options, number: int) -> tuple[Grammar, int]:
    """Return the grammar of a scene, and its number among the scenes of that grammar."""
    if not options.ladder:
        return CROWDED if options.hard else SIMPLE, number
    template, number = template_of(options.template, number)
    return _of_ladder(template, options.ladder), number


def plan(options: Options, number: int, look: Look) -> ScenePlan:
    """Draw the scene of that number from the seed until `look` finds nothing wrong at any level.

    Raises:
        DataError: No draw of a bounded number fits.
    """
    (grammar, number), seed, levels = _grammar(options, number), options.seed, options.levels
    kind = grammar.kinds[number % len(grammar.kinds)]
    for attempt in range(_TRIES):
        rng = Random(f"titjudge {grammar.salt} 1/{seed}/{number}/{attempt}")
        asked = grammar.compose(rng, kind)
        graph = grammar.graph_of(asked, rng)
        marks = annotation.marks(graph, asked)
        if marks is None or marks.wrong or grammar.unfit(asked) or look(asked, graph):
            continue
        drawn = (_at_level(level, asked, graph, kind, rng, look, grammar) for level in levels)
        shown = tuple(each for each in takewhile(bool, drawn) if each)
        if len(shown) < len(levels):
            continue
        try:
            prompt = grammar.write(asked, graph, rng)
        except ValueError:
            continue
        asks = grammar.questions(asked, graph, rng)
        models = _models(len(levels), rng)
        return ScenePlan(_prompt_id(grammar, seed, number), prompt, asked, graph, asks, shown, models)
    raise DataError(f"scene {number} of seed {seed} cannot show all objects. Use another --seed")


def _prompt_id(grammar: Grammar, seed: int, number: int) -> str:
    return f"{grammar.name}_{seed}_{number + 1:04d}"


def _at_level(
    level: int, asked: Scene, graph: AskedElements, kind: str, rng: Random, look: Look, grammar: Grammar
) -> ShownScene | None:
    """Draw the content of a level until all of it can be seen; None if none of a few draws fits."""
    for _ in range(_REDRAWS):
        shown = grammar.draw(level, asked, graph, kind, rng)
        if shown is None or level == 0 or not look(shown.scene, graph):
            return shown
    return None


def _models(count: int, rng: Random) -> tuple[str, ...]:
    """Name a made-up generator for each level: no name stands for a level, but some have the better images more often."""
    order = sorted(range(count), key=lambda level: level + rng.uniform(0.0, 2.5))
    return tuple(f"model_{'abcd'[order.index(level)]}" for level in range(count))


def make(
    out: Path, scenes: int, options: Options, *, look: Look, render: Render, watch: Callable[[RenderProgress], None]
) -> Path:
    """Make a folder of known answers, or the rest of it; an interruption loses one image.

    Raises:
        UserError: The folder has something else, was made with other options, or is being made by another process.
        DataError: No scene fits.
    """
    open_folder(out, options)
    total, done, fresh = scenes * len(options.levels), 0, 0
    with closing(FolderLock(out / ".made")):
        try:
            for number in range(scenes):
                state = _State(out, options, number)
                ready = state.ready()
                done += len(ready)
                if len(ready) == len(options.levels):
                    continue
                planned = plan(options, number, look)
                for shown, model in zip(planned.shown, planned.models, strict=True):
                    if shown.level not in ready:
                        state.add(planned, shown, save_image(out, render(shown.scene)), model)
                        done, fresh = done + 1, fresh + 1
                        watch(RenderProgress(done, total, fresh))
        finally:
            _assemble(out, options, scenes)
    return out


class _State:
    """The finished images of one scene."""

    def __init__(self, out: Path, options: Options, number: int) -> None:
        grammar, number = _grammar(options, number)
        self.prompt_id = _prompt_id(grammar, options.seed, number)
        self._levels, self._out, self._file = options.levels, out, out / ".made" / f"{self.prompt_id}.json"
        self.record: Json = {"prompt": None, "images": []}
        if self._file.is_file():
            try:
                self.record = json.loads(self._file.read_bytes())
            except ValueError as error:
                raise DataError("not JSON. Delete the file and run the command again", self._file) from error

    def ready(self) -> set[int]:
        """Return the levels whose images are there, byte for byte, and forget the others."""
        self.record["images"] = [line for line in self.record["images"] if self._there(line["image"])]
        return {line["level"] for line in self.record["images"]} & set(self._levels)

    def _there(self, image: str) -> bool:
        file = self._out / image
        return file.is_file() and _name(file.read_bytes()) == image

    def add(self, planned: ScenePlan, shown: ShownScene, image: str, model: str) -> None:
        about = annotation.image_record(shown, planned.graph, planned.asks)
        line = {"image": image, "prompt_id": planned.prompt_id, "variant_model": model, **about}
        images = sorted([*self.record["images"], line], key=lambda image: int(image["level"]))
        self.record = {"prompt": planned.prompt_record(), "images": images}
        write_jsonl(self._file, [self.record])


def _name(content: bytes) -> str:
    return f"images/{hashlib.sha256(content).hexdigest()[:10]}.jpg"


def save_image(out: Path, picture: Any) -> str:
    """Write an image (rows, columns, 3) as JPEG, named by its content; returns its path in the folder."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=_QUALITY, subsampling=0)
    name = _name(buffer.getvalue())
    write_atomic(out / name, buffer.getvalue())
    return name


def template_in(out: Path) -> str:
    """Return the template of the ladder that a folder was made with; empty if there is none."""
    file = out / "made.json"
    made = read_json(file) if file.is_file() else None
    return str(made["template"]) if isinstance(made, dict) and made.get("ladder") else ""


def open_folder(out: Path, options: Options) -> None:
    """Check that a folder is new or made with these options, and write the options into it."""
    file = out / "made.json"
    wanted = {"version": VERSION, **asdict(options), "levels": list(options.levels)}
    if file.is_file():
        made = read_json(file)
        made = made if isinstance(made, dict) else {}
        for key in {**wanted, **made}:
            was, now = made.get(key), wanted.get(key)
            if was != now:
                raise UserError(f"{out} was made with {key} {was}, not {now}. Choose another --out")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} has other content. Give --out a new folder, or a folder that this command made")
    write_jsonl(file, [wanted])


def _assemble(out: Path, options: Options, scenes: int) -> None:
    """Write the jsonl files and the README from the finished images."""
    prompts, images, pairs = list[Json](), list[Json](), list[Json]()
    for number in range(scenes):
        state = _State(out, options, number)
        if not state.ready():
            continue
        prompts.append(state.record["prompt"])
        images += state.record["images"]
        ranked = [(line["image"], line["alignment"]) for line in state.record["images"]]
        rng = Random(f"titjudge pairs 1/{options.seed}/{number}")
        pairs += annotation.pair_records(state.prompt_id, ranked, rng)
    images.sort(key=itemgetter("image"))  # by their hash: the order reveals nothing about the levels
    for name, lines in (("prompts", prompts), ("images", images), ("pairs", pairs)):
        write_jsonl(out / f"{name}.jsonl", lines)
    write_atomic(out / "README.md", readme(options, len(prompts), len(images), len(pairs)))
