"""Answers of a run as a portable recording: `answers.jsonl` beside the data, which the `recorded` provider replays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from titjudge.core.config import RoleConfig
from titjudge.core.errors import ConfigError, DataError, UserError
from titjudge.core.files import write_atomic
from titjudge.core.images import ImageFiles
from titjudge.core.types import Item, Reply, Status
from titjudge.metrics.agent.crops import Box
from titjudge.providers import Provider
from titjudge.providers.recorded import question_key
from titjudge.providers.recorded import read_answers as read_recording
from titjudge.runs.offline_batch import Asked, only_recorded, walk
from titjudge.runs.offline_files import IMPORTED, Imported, question_text, read_answers
from titjudge.runs.offline_import import FileAnswers
from titjudge.runs.session import Session


@dataclass(slots=True)
class Kept(Imported):
    """What became of answers that were to be recorded: `imported` ones are in the recording now, `already` ones were.

    `replaced` of them took the place of another answer, and `dropped` lines were built on one that was replaced;
    `differing` (item and template) are recorded otherwise than a file says, and stay.
    """

    replaced: int = 0
    dropped: int = 0
    differing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    """What a run uses: replies by key, the keys that the files answered, and every question."""

    used: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    seen: dict[str, Asked] = field(default_factory=dict)

    @property
    def questions(self) -> set[str]:
        return {_question(reply) for reply in self.used.values()}


def record(session: Session, files: Sequence[Path], to: Path, *, by: str = "", replace: bool = False) -> Kept:
    """Add answers to the recording `to`: those in `files`, and what the models of `session` answered into the cache.

    A file holds lines as `offline.import_answers` takes them. Only answers that a run would use are recorded (they fit
    what was asked), and only in text: turns with native tools are named as unusable. One that is in the recording is
    replaced only when told so by `replace`; recorded answers to questions that this run then no longer asks, because they
    were built on it, are dropped. `by` says who answered; without it the model's name.

    Raises:
        DataError: a file or the recording cannot be read. ConfigError: nobody says who gave an answer, or `replace` where
            not all roles are `recorded`.
        UserError: the recording cannot be written.
    """
    if replace and not only_recorded(session):
        raise ConfigError("--replace corrects recorded answers: give `--provider recorded`, and the answers in a file")
    result = Kept()
    answers = read_answers(files, result)
    kept = read_recording(to) if to.is_file() else {}
    before = _walked(session, {}) if replace else _Walk()
    walk = _walked(session, answers, replace=replace)
    result.unusable = [(key, walk.seen[key].refusal(why) if key in walk.seen else why) for key, why in result.unusable]
    while misfits := sorted((walk.asked & answers.keys()) - walk.used.keys()):
        result.unusable += [(key, walk.seen[key].refusal(answers.pop(key).reason)) for key in misfits]
        if replace:
            walk = _walked(session, answers, replace=True)  # what is recorded in their place counts again
    lines: dict[str, dict[str, Any]] = {}
    shown = asyncio.run(_paths(session, to.parent))
    for key, reply in walk.used.items():
        if reply.get("tools"):
            result.unusable.append((key, "it was asked with native tools, which a recording cannot offer"))
            continue
        question = _question(reply)
        if question in kept and (not replace or kept[question].text == reply["text"]):
            result.already += 1
            if key in answers and answers[key].text != reply["text"]:
                result.differing.append(f"{next(iter(walk.seen[key].items))}, {reply['template']}")
        elif question not in lines and "recorded" not in reply["flags"]:
            lines[question] = _line(question, reply, shown | _crops(walk.seen[key], to.parent), by)
    result.unknown = sorted(answers.keys() - walk.used.keys())
    result.imported, result.replaced = len(lines), len(lines.keys() & kept.keys())
    gone = (before.questions & kept.keys()) - walk.questions if result.replaced else set()
    result.dropped = len(gone)
    if lines:
        ordered = sorted(lines.values(), key=lambda line: (line["template"], str(line["images"]), line["key"]))
        _write(to, ordered, gone)
    return result


def _walked(session: Session, answers: Mapping[str, Reply], *, replace: bool = False) -> _Walk:
    found = _Walk()

    def seat(config: RoleConfig, real: Provider) -> FileAnswers:
        recorded: Literal["no", "first", "last"] = "no" if real.capabilities.cache else "last" if replace else "first"
        return FileAnswers(real, answers, found.asked, recorded=recorded)

    def journal(kind: str, reply: dict[str, Any]) -> None:
        if kind == "reply" and reply["status"] == Status.OK and not reply["attempt"]:
            found.used[reply["key"]] = reply

    asyncio.run(walk(session, seat, journal, seen=found.seen))
    return found


def _line(key: str, reply: dict[str, Any], shown: Mapping[str, _Place], by: str) -> dict[str, Any]:
    who = by or reply["model_version"] or ("" if IMPORTED in reply["flags"] else reply["model"])
    if not who:
        raise ConfigError("answers from a file do not say who gave them: add --by, for example --by 'a person'")
    digests = [part["image"] for _, *parts in reply["messages"] for part in parts if isinstance(part, dict)]
    places = [shown.get(digest, _Place(f"sha256:{digest}")) for digest in digests]
    boxes = [list(place.box) for place in places if place.box]
    line = {
        "key": key,
        "template": reply["template"],
        "images": [place.name for place in places],
        **({"box": boxes[0]} if boxes else {}),
        "question": question_text(reply["messages"]),
        "answer": reply["text"],
        "by": who,
    }
    more = {name: reply[name] for name in ("sample", "choices", "first_token") if reply.get(name)}
    return line | more


def _question(reply: Mapping[str, Any]) -> str:
    """Name the question that a recorded reply answers."""
    return question_key(reply["messages"], reply["sample"], reply.get("choices", ()))


@dataclass(frozen=True, slots=True)
class _Place:
    """An image as a recording names it: its path from the recording on, and the part of it that was shown."""

    name: str
    box: Box | None = None

    @classmethod
    def of(cls, image: Path, home: Path, box: Box | None = None) -> _Place:
        place, root = image.resolve(), home.resolve()
        return cls(place.relative_to(root).as_posix() if place.is_relative_to(root) else place.name, box)


def _crops(asked: Asked, home: Path) -> dict[str, _Place]:
    """Map the parts of images that a question showed, by the hash of what was sent."""
    return {digest: _Place.of(part.image, home, part.box) for digest, part in asked.parts.items()}


async def _paths(session: Session, home: Path) -> dict[str, _Place]:
    """Map the hash of what is sent to the image's path, relative to the recording; to its name where it lies elsewhere."""
    pictures, found = ImageFiles(session.cache), dict[str, _Place]()
    for item in session.items():
        if isinstance(item, Item) and item.image is not None:
            try:
                digest = (await pictures.open(item.image)).sha256
            except DataError:
                continue  # nobody was asked about it
            found[digest] = _Place.of(item.image, home)
            pictures.forget(item.image)
    return found


def _write(file: Path, lines: Sequence[dict[str, Any]], gone: Set[str]) -> None:
    """Write the recording with more lines, whole or not at all.

    Lines of the same key are replaced, and those of the keys `gone` left out.
    """
    new = {line["key"]: orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines}
    try:
        before = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
        content = []
        for line in filter(bytes.strip, before):
            key = orjson.loads(line)["key"]
            if key not in gone:
                content.append(new.pop(key, line if line.endswith(b"\n") else line + b"\n"))
        write_atomic(file, b"".join([*content, *new.values()]), sync=True)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
