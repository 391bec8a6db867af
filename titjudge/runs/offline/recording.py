"""Record the answers of a run in a portable file beside the data, which the `recorded` provider replays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from titjudge.core.errors import ConfigError, DataError
from titjudge.core.files import write_atomic
from titjudge.core.types import Item, Json, Reply, Status, Values
from titjudge.data.images import ImageFiles
from titjudge.engine.cache import open_cache
from titjudge.metrics.agent.looks import Box
from titjudge.providers import Provider
from titjudge.providers.recorded import question_key
from titjudge.providers.recorded import read_answers as read_recording
from titjudge.runs.offline.batch import (
    IMPORTED,
    AskedQuestion,
    FileAnswers,
    ImportedAnswers,
    boxes_of,
    only_recorded,
    question_text,
    read_answers,
    walk,
)
from titjudge.runs.session import Session


@dataclass(slots=True)
class Kept(ImportedAnswers):
    """The result of recording answers: `imported` ones are in the recording now, `already` ones were before.

    Attributes:
        replaced: Number of imported answers that took the place of another one.
        dropped: Number of recorded answers to questions that were built on a replaced one.
        differing: Item and template of each answer that was recorded otherwise.
    """

    replaced: int = 0
    dropped: int = 0
    differing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    """The questions of a run and the answers it uses.

    Attributes:
        used: The replies that it used, by key.
        answered: Keys of the questions that answers from the files answered.
        seen: Every question, by key.
    """

    used: dict[str, Json] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    seen: dict[str, AskedQuestion] = field(default_factory=dict)

    @property
    def questions(self) -> set[str]:
        return {_question(reply) for reply in self.used.values()}


def record(session: Session, files: Sequence[Path], to: Path, *, by: str = "", replace: bool = False) -> Kept:
    """Add answers to a recording: answers in `files`, and answers of the models of `session` in the cache.

    Only answers that a run would use are recorded, and only texts: replies to requests with native tools are unusable.

    Args:
        session: The run.
        files: Answers, as for `titjudge.runs.offline.batch.import_answers`.
        to: The recording.
        by: The author of the answers; by default the model's name.
        replace: Replace recorded answers that differ, and drop those to questions that were built on them.

    Raises:
        DataError: A file or the recording cannot be read.
        ConfigError: The author of an answer is unknown, or `replace` is set although not all roles are `recorded`.
        UserError: The recording cannot be written.
    """
    if replace and not only_recorded(session):
        raise ConfigError("--replace requires recorded answers. Add --provider recorded, and the answers in a file")
    result = Kept()
    answers = read_answers(files, result)
    recorded = read_recording(to) if to.is_file() else {}
    before = _walked(session, {}) if replace else _Walk()
    walk = _walked(session, answers, replace=replace)
    result.unusable = [(key, walk.seen[key].refusal(why) if key in walk.seen else why) for key, why in result.unusable]
    while misfits := sorted((walk.answered & answers.keys()) - walk.used.keys()):
        result.unusable += [(key, walk.seen[key].refusal(answers.pop(key).reason)) for key in misfits]
        if replace:
            walk = _walked(session, answers, replace=True)  # the recorded answers in their place are used again
    lines: dict[str, Json] = {}
    images = asyncio.run(_paths(session, to.parent))
    for key, reply in walk.used.items():
        if reply.get("tools"):
            result.unusable.append((key, "it was asked with native tools, which a recording cannot offer"))
            continue
        question = _question(reply)
        if question in recorded and (not replace or recorded[question].text == reply["text"]):
            result.already += 1
            if key in answers and answers[key].text != reply["text"]:
                result.differing.append(f"{next(iter(walk.seen[key].items))}, {reply['template']}")
        elif question not in lines and "recorded" not in reply["flags"]:
            crops = {
                digest: _RecordingPlace.from_image(part.image, to.parent, part.box)
                for digest, part in walk.seen[key].parts.items()
            }
            lines[question] = _line(question, reply, images | crops, by)
    result.unknown = sorted(answers.keys() - walk.used.keys())
    result.imported, result.replaced = len(lines), len(lines.keys() & recorded.keys())
    dropped = (before.questions & recorded.keys()) - walk.questions if result.replaced else set()
    result.dropped = len(dropped)
    if lines:
        ordered = sorted(lines.values(), key=lambda line: (line["template"], str(line["images"]), line["key"]))
        _write(to, ordered, dropped)
    return result


def _walked(session: Session, answers: Mapping[str, Reply], *, replace: bool = False) -> _Walk:
    """Walk through a run with these answers; recorded ones come first, with `replace` last."""
    result = _Walk()

    def stand_in(real: Provider) -> FileAnswers:
        recorded: Literal["no", "first", "last"] = "no" if real.capabilities.cache else "last" if replace else "first"
        return FileAnswers(real, answers, result.answered, recorded=recorded)

    def journal(kind: str, reply: Json) -> None:
        if kind == "reply" and reply["status"] == Status.OK and not reply["attempt"]:
            result.used[reply["key"]] = reply

    with open_cache(session.config.cache) as cache:
        asyncio.run(walk(session, cache, result.seen, stand_in, journal))
    return result


def _line(key: str, reply: Json, images: Mapping[str, _RecordingPlace], by: str) -> Json:
    """Make a line of the recording; `images` are the places of images by the hash of the sent bytes."""
    who = by or reply["model_version"] or ("" if IMPORTED in reply["flags"] else reply["model"])
    if not who:
        raise ConfigError("answers from a file require an author. Add --author, for example --author 'a person'")
    digests = [part["image"] for _, *parts in reply["messages"] for part in parts if isinstance(part, dict)]
    places = [images.get(digest, _RecordingPlace(f"sha256:{digest}")) for digest in digests]
    boxes = [list(place.box) if place.box else None for place in places]
    return {
        "key": key,
        "template": reply["template"],
        "images": [place.name for place in places],
        **boxes_of(boxes),
        "question": question_text(reply["messages"]),
        "answer": reply["text"],
        "by": who,
        **{name: reply[name] for name in ("sample", "choices", "first_token") if reply.get(name)},
    }


def _question(reply: Values) -> str:
    """Return the key under which a recording keeps the answer to this question."""
    return question_key(reply["messages"], reply["sample"], reply.get("choices", ()))


@dataclass(frozen=True, slots=True)
class _RecordingPlace:
    """An image as a recording names it: its path relative to the recording, and the part of it that was shown.

    Attributes:
        name: Its path relative to the recording; of an image elsewhere its file name.
        box: The part of it that was shown; None if all of it was.
    """

    name: str
    box: Box | None = None

    @classmethod
    def from_image(cls, image: Path, home: Path, box: Box | None = None) -> _RecordingPlace:
        """Name an image from the folder of the recording; one that is elsewhere by its file name."""
        place, root = image.resolve(), home.resolve()
        return cls(place.relative_to(root).as_posix() if place.is_relative_to(root) else place.name, box)


async def _paths(session: Session, home: Path) -> dict[str, _RecordingPlace]:
    """Map the hash of the sent bytes of each image to its place."""
    places: dict[str, _RecordingPlace] = {}
    with open_cache(session.config.cache) as cache:
        images = ImageFiles(cache)
        for item in session.items():
            for image in (item.image, *item.sources) if isinstance(item, Item) else ():
                if image is None:
                    continue
                try:
                    digest = (await images.open(image)).sha256
                except DataError:
                    continue  # no question showed it
                places[digest] = _RecordingPlace.from_image(image, home)
                images.forget(image)
    return places


def _write(file: Path, lines: Sequence[Json], dropped: Set[str]) -> None:
    """Add lines to the recording, replacing lines of the same key and removing lines of the keys `dropped`."""
    new = {line["key"]: orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines}
    before = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    content = []
    for line in filter(bytes.strip, before):
        key = orjson.loads(line)["key"]
        if key not in dropped:
            content.append(new.pop(key, line if line.endswith(b"\n") else line + b"\n"))
    write_atomic(file, b"".join([*content, *new.values()]), sync=True)
